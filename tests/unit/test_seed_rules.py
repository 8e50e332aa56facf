"""Seeds with rules of their own: how they are written, and whose pages they hold for."""

import itertools
from pathlib import Path

import msgspec
import pytest
from answers import answer, reader
from hypothesis import given
from hypothesis import strategies as st

from gossamer.config import Config, Limits, Seed
from gossamer.crawl.reader import VERDICTS
from gossamer.crawl.scope import Scope, WebsiteRules, Websites, bare
from gossamer.crawl.seeds import SeedFiles, parse_line, parse_seeds, rules_in, split_line
from gossamer.errors import ConfigError, SeedError, Unreadable
from gossamer.frontier.caps import Quota
from gossamer.web.url import host_of


def rules(host: str, since_s: float = 0.0, **options: object) -> WebsiteRules:
    return msgspec.convert({"host": host, "since_s": since_s, **options}, WebsiteRules)


@pytest.mark.parametrize(
    ("line", "normal"),
    [
        ("HTTP://A.test", "http://a.test/"),
        ("http://a.test/a b", "http://a.test/a%20b"),
        ("http://a.test/?depth=2", "http://a.test/?depth=2"),
        ("HTTP://A.test   depth=2\tscope=host ", "http://a.test/ scope=host depth=2"),
        ("http://a.test/a b depth=2", "http://a.test/a%20b depth=2"),
        ("http://a.test/ exclude=*.pdf exclude=re:a|b", "http://a.test/ exclude=*.pdf exclude=re:a|b"),
        ("http://a.test/ exclude=", "http://a.test/ exclude="),
        ("http://a.test/ include=*?a=b", "http://a.test/ include=*?a=b"),
        ("nonsense depth=2", None),
        ("depth=2", None),
    ],
)
def test_a_line(line: str, normal: str | None) -> None:
    assert parse_line(line) == normal


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("http://a.test/ dept=2", "dept is no option of a seed; there are scope, depth, pages, include, exclude"),
        ("http://a.test/ Depth=2", "Depth is no option"),
        ("http://a.test/ depth=", "depth must be a whole number, not ''"),
        ("http://a.test/ depth=-1", "depth must be a whole number, not '-1'"),
        ("http://a.test/ depth=2 depth=3", "depth is given twice"),
        ("http://a.test/ scope=world", "scope must be one of host, domain, any, not 'world'"),
        ("http://a.test/ include=blog", "'blog' can match nothing; write it like"),
        ("http://a.test/ include=re:(", "'re:\\(' is no regular expression: missing \\)"),
    ],
)
def test_a_mistake_in_a_line(line: str, message: str) -> None:
    with pytest.raises(SeedError, match=message):
        parse_line(line)
    with pytest.raises(SeedError, match=message):
        parse_seeds([line])


PATTERNS = st.lists(st.text("ab*/?=&", max_size=5).map("*".__add__), max_size=2)
SEEDS = st.builds(
    Seed,
    st.sampled_from(["http://a.test/", "https://www.b.test/x?y=z", "http://c.test/a=b"]),
    st.sampled_from([None, "host", "domain", "any"]),
    st.none() | st.integers(0, 99),
    st.none() | st.integers(0, 99),
    st.none() | PATTERNS,
    st.none() | PATTERNS,
)


@given(SEEDS)
def test_a_seed_is_its_line(seed: Seed) -> None:
    assert parse_line(seed.line) == seed.line
    assert parse_seeds(seed.line.split(" ")) == ([seed.line], [])
    url, found = split_line(seed.line, 5.0)
    assert url == seed.url
    if found is None:
        assert seed.line == seed.url
    else:
        assert found.host == bare(host_of(url))
        assert f"{url} {found.words}" == seed.line
        assert rules_in(msgspec.json.encode([found])) == [found]


@given(st.text(max_size=40))
def test_any_line(text: str) -> None:
    try:
        found = parse_line(text)
    except SeedError:
        return
    assert found is None or parse_line(found) == found


def test_a_table_of_the_file_is_a_line() -> None:
    table = {"url": "http://a.test/", "depth": 2, "include": ["re:^http"]}
    found = Config().replace({"seeds": [table], "crawl": {"seeds": ["http://b.test/"]}})
    assert found.crawl.seeds == ["http://b.test/", "http://a.test/ depth=2 include=re:^http"]
    assert parse_seeds(found.crawl.seeds)[0] == found.crawl.seeds


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"url": "http://a.test/"}, r"write \[\[seeds\]\]"),
        (["http://a.test/"], r"write \[\[seeds\]\]"),
        ([{"depth": 2}], "seeds.url is missing"),
        ([{"url": "http://a.test/", "dept": 2}], "unknown key seeds.dept; did you mean depth"),
        ([{"url": "http://a.test/", "depth": -2}], "seeds.depth must be at least 0"),
        ([{"url": "http://a.test/", "depth": "2"}], "seeds.depth must be a whole number, not '2'"),
        ([{"url": "http://a.test/", "exclude": ["* *"]}], "no URL has a space"),
    ],
)
def test_a_mistake_in_the_file(tables: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config().replace({"seeds": tables})


def test_a_line_that_comes_later_with_a_mistake_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("http://a.test/ depth=1\n")
    parse_seeds([str(file)])
    seeds = SeedFiles([file], {})
    assert seeds.read(float("inf")) == ["http://a.test/ depth=1"]
    with file.open("a") as more:
        more.write("http://b.test/ dept=1\nhttp://c.test/ depth=2\n")
    assert seeds.read(float("inf")) == ["http://c.test/ depth=2"]
    assert seeds.refused == 1
    with pytest.raises(SeedError, match="dept is no option"):
        parse_seeds([str(file)])


def test_whose_rules_hold() -> None:
    host, domain = rules("a.test", depth=1, scope="host"), rules("b.c.test", depth=2, scope="domain")
    websites = Websites("domain", [host, domain])
    assert websites.of("a.test") == websites.of("www.a.test") == host
    assert websites.of("b.a.test") is None
    assert websites.of("c.test") == websites.of("b.c.test") == websites.of("x.y.c.test") == domain
    own = rules("x.c.test", depth=3, scope="host")
    websites.add([own])
    assert (websites.of("x.c.test"), websites.of("y.c.test")) == (own, domain)
    assert Websites("domain", [rules("x.c.test")]).of("y.c.test") is not None, "as for all"
    assert Websites("host", [rules("x.c.test")]).of("y.c.test") is None


def test_a_seed_may_change_its_scope() -> None:
    websites = Websites("domain", [rules("a.test", 1, scope="host"), rules("a.test", 2, scope="domain")])
    assert websites.of("b.a.test") == rules("a.test", 2, scope="domain")
    websites.add([rules("a.test", 3, scope="any")])
    assert websites.of("b.a.test") is None


@given(st.lists(st.builds(rules, st.sampled_from(["a.test", "b.a.test", "c.test"]), st.integers(0, 3),
    scope=st.sampled_from(["host", "domain", None]), depth=st.sampled_from([1, 2])), max_size=4))  # fmt: skip
def test_the_order_in_which_rules_come_does_not_matter(found: list[WebsiteRules]) -> None:
    ways = [Websites("any", order) for order in itertools.permutations(found)]
    hosts = ("a.test", "b.a.test", "x.a.test", "c.test")
    assert len({tuple(way.of(host) for host in hosts) for way in ways}) == 1
    assert all(way.all() == ways[0].all() for way in ways)
    assert ways[0].add(found) == [], "nothing twice"


HOSTS = ("a.test", "www.a.test", "x.a.test", "b.test", "c.test", "d.test")
KINDS = st.sampled_from(["host", "domain", "any"])


@given(KINDS, st.dictionaries(st.sampled_from(["a.test", "x.a.test", "b.test"]), KINDS), st.data())
def test_what_is_in_scope(kind: str, own: dict[str, str], data: st.DataObject) -> None:
    """A website with rules is closed to all others, and its links leave it only with the scope any."""
    scope = Scope(kind, ["c.test"], [rules(host, scope=of) for host, of in own.items()])
    source, target = data.draw(st.sampled_from(HOSTS)), data.draw(st.sampled_from(HOSTS))
    here, there = scope.websites.of(source), scope.websites.of(target)
    admits = scope.admits(f"http://{target}/x", here)
    if here == there and here is not None:
        assert admits
    elif there is not None:
        assert not admits
    elif here is not None:
        assert admits is (here.scope == "any")
    else:
        assert admits is Scope(kind, ["c.test"]).admits(f"http://{target}/x")
    assert scope.has(f"http://{target}/x") is (there is not None or Scope(kind, ["c.test"]).admits(f"http://{target}/"))


def test_seeds_with_rules_do_not_open_their_domain() -> None:
    scope = Scope("domain", (), [rules("a.test", scope="host")])
    assert scope.widen(["http://www.a.test/", "http://b.test/"]) == ["b.test"]
    assert not scope.admits("http://x.a.test/")


def test_the_reader_judges_by_the_website_of_the_page() -> None:
    scope = Scope("any", (), [rules("a.test", depth=1, scope="host", exclude=["*/x"])])
    read = reader(scope, limits__depth=3)
    body = b'<a href="/x">x</a><a href="/y">y</a><a href="http://b.test/x">b</a>'

    def verdicts(url: str, depth: int) -> list[str]:
        return [VERDICTS[code] for code in read.read(answer(body, url=url, depth=depth)).verdicts]

    assert verdicts("http://a.test/", 0) == ["pattern", "followed", "scope"]
    assert verdicts("http://www.a.test/", 1) == ["pattern", "depth", "scope"]
    assert verdicts("http://c.test/", 1) == ["followed"] * 3
    scope.websites.add([rules("a.test", 1.0, depth=2, scope="any")])
    read.forget()
    assert verdicts("http://a.test/", 1) == ["followed"] * 3


def test_quotas() -> None:
    websites = Websites("host", [rules("a.test", pages=3), rules("b.test", pages=0, scope="domain"), rules("c.test")])
    assert websites.quota("www.a.test") == Quota(3, hosts=("a.test", "www.a.test"))
    assert websites.quota("x.b.test") == Quota(0, domain="b.test")
    assert websites.quota("c.test") is None
    assert websites.quota("d.test") is None


def test_rules_from_elsewhere_are_checked() -> None:
    good = {"host": "a.test", "since_s": 1.0, "depth": 2}
    for bad in ({"depth": -1}, {"scope": "all"}, {"include": ["re:("]}, {"host": "a b"}, {"host": "a/\n"}, {"more": 1}):
        with pytest.raises((ConfigError, Unreadable, msgspec.ValidationError)):
            rules_in(msgspec.json.encode([{**good, **bad}]))
    assert rules_in(msgspec.json.encode([good]))[0].limits(Limits()).depth == 2


def test_nothing_is_asked_where_no_seed_has_rules() -> None:
    read = reader(Scope("any"))
    visit = read.read(answer(b'<a href="http://b.test/">x</a>', url="http://a.test/"))
    assert visit.verdicts.tolist() == [0]
    assert read._judges == {}

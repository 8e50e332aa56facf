"""The synthetic web: the same in every process, and what it says about itself is true."""

import gzip
from collections.abc import Iterator
from urllib.parse import urljoin

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego
from selectolax.lexbor import LexborHTMLParser

from gossamer.errors import ConfigError
from gossamer.testweb.answer import Answer
from gossamer.testweb.hosts import Robots
from gossamer.testweb.plan import Kind
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb

SPEC = WebSpec(seed=7, hosts=40, pages=1_500, robots_broken=0.05)
WEB = SyntheticWeb(SPEC)


def ask(web: SyntheticWeb, url: str, t_s: float = 0.0, **asked: str) -> Answer:
    host, _, path = url.removeprefix("http://").partition("/")
    return web.response(host, f"/{path}", t_s, {name.replace("_", "-"): value for name, value in asked.items()})


def links_of(body: bytes, url: str) -> list[str]:
    """Links as a browser sees them, by other means than the crawler's."""
    tree = LexborHTMLParser(body)
    nodes = [*tree.css('link[rel="canonical"]'), *tree.css("a[href]")]
    hrefs = [node.attributes["href"] or "" for node in nodes if node.attributes.get("rel") != "nofollow"]
    return list(dict.fromkeys(urljoin(url, href).partition("#")[0] for href in hrefs))


def pages_of(kind: Kind) -> list[int]:
    return [page for page in WEB.pages() if WEB.kind(page) is kind]


def test_the_web_is_the_same_in_every_process_and_version() -> None:
    # A new value means that webs under a seed have changed: everybody's recorded figures with them.
    digest = xxhash.xxh3_64()
    for url in (*WEB.urls(range(0, SPEC.pages, 50)), "http://h1.test/robots.txt", "http://h0.test/sitemap.xml"):
        answer = ask(WEB, url, t_s=40 * 86_400)
        digest.update(f"{answer.status}".encode() + answer.head + answer.body)
    assert digest.hexdigest() == "1ed2ea9eb1e1e1a3"


def test_two_webs_of_one_seed_agree_whatever_they_were_asked_before() -> None:
    other = SyntheticWeb(SPEC, cache_bytes=0)
    urls = WEB.urls(range(0, SPEC.pages, 20))
    assert [ask(other, url, 86_400) for url in reversed(urls)] == [ask(WEB, url, 86_400) for url in reversed(urls)]
    assert ask(SyntheticWeb(WebSpec(seed=8, hosts=40, pages=1_500)), urls[0]) != ask(WEB, urls[0])


@given(st.integers(0, SPEC.pages - 1))
def test_a_page_is_found_at_its_url_only(page: int) -> None:
    url = WEB.url(page)
    assert WEB.page(url) == page
    assert WEB.page(f"{url}x") == -1
    assert WEB.page(url.replace(".test/", ".test/x", 1)) == -1


@pytest.mark.parametrize("url", ["http://other.test/", "http://h40.test/", "http://hx.test/", "https://h0.test/"])
def test_other_hosts_do_not_exist(url: str) -> None:
    assert WEB.page(url) == -1
    assert not WEB.knows("other.test")
    assert ask(WEB, "http://other.test/").status == 421


@pytest.mark.parametrize("t_s", [0.0, 60 * 86_400.0])
def test_links_in_the_html_are_the_truth(t_s: float) -> None:
    for page in range(0, SPEC.pages, 7):
        answer = ask(WEB, WEB.url(page), t_s)
        if WEB.kind(page) not in (Kind.REDIRECT, Kind.ERROR):
            base = WEB.url(page)
            assert links_of(answer.body, base) == WEB.urls(WEB.links(page, t_s))


def test_sizes_and_links_are_realistic() -> None:
    web = SyntheticWeb(WebSpec(seed=3))
    sizes = [len(ask(web, web.url(page)).body) for page in web.pages()[::40] if web.kind(page) is Kind.OK]
    assert 25_000 < np.mean(sizes) < 36_000
    assert 60 <= web.plan.links.min() <= web.plan.links.max() <= 134
    assert 88 < web.plan.links.mean() < 92
    rank = np.arange(1, 301)
    slope = np.polyfit(np.log(rank), np.log(web.plan.hosts.sizes), 1)[0]
    assert -0.9 < slope < -0.7
    hits = np.sort(np.bincount(web.plan.link_matrix(np.arange(2_000), np.zeros(2_000, np.int64)).ravel()))[::-1]
    assert hits[0] > 50 * np.median(hits)


def test_local_links_dominate() -> None:
    pages = np.arange(200)  # of large hosts
    matrix = WEB.plan.link_matrix(pages, np.zeros(200, np.int64))
    local = (WEB.plan.host[matrix] == WEB.plan.host[pages][:, None]).mean()
    assert 0.65 < local < 0.85


def crawled(web: SyntheticWeb, agent: str) -> set[int]:
    """What a simple crawler finds that obeys robots.txt as another project reads it."""
    rules: dict[str, Protego | None] = {}
    seen: set[str] = set()
    todo = [web.url(0)]

    def robots(host: str) -> Protego | None:
        if host not in rules:
            answer = ask(web, f"http://{host}/robots.txt")
            if answer.status == 301:
                answer = ask(web, f"http://{host}{answer.headers['location']}")
            text = answer.body.decode() if answer.status == 200 else ""
            rules[host] = None if answer.status == 500 else Protego.parse(text)
            todo.extend(url for name in Protego.parse(text).sitemaps for url in sitemap(web, name))
        return rules[host]

    while todo:
        url = todo.pop()
        allowed = robots(url.split("/")[2])
        if url in seen or allowed is None or not allowed.can_fetch(url, agent):
            continue
        seen.add(url)
        answer = ask(web, url)
        if answer.status < 300:
            todo += links_of(answer.body, url)
        elif answer.status < 400:
            todo.append(urljoin(url, answer.headers["location"]))
    return {web.page(url) for url in seen}


def sitemap(web: SyntheticWeb, url: str) -> Iterator[str]:
    body = ask(web, url).body
    text = (gzip.decompress(body) if url.endswith(".gz") else body).decode()
    for part in text.split("<loc>")[1:]:
        target = part.partition("</loc>")[0].replace("&amp;", "&")
        if "<sitemapindex" in text:
            yield from sitemap(web, target)
        else:
            yield target


@pytest.mark.parametrize("agent", ["gossamer", "somebody"])
def test_reachable_pages_are_what_a_crawl_finds(agent: str) -> None:
    web = SyntheticWeb(WebSpec(seed=11, hosts=12, pages=300, links=20.0, robots_broken=0.1, sitemaps=0.5))
    assert crawled(web, agent) == set(web.reachable(agent=agent).tolist())


def test_a_large_host_has_a_sitemap_index() -> None:
    web = SyntheticWeb(WebSpec(seed=1, hosts=2, pages=2_500, sitemaps=1.0))
    listed = list(sitemap(web, "http://h0.test/sitemap.xml"))
    assert listed == web.urls(range(int(web.plan.offsets[1])))
    assert ask(web, "http://h0.test/sitemap-9.xml.gz").status == 404


def test_nearly_everything_allowed_is_reachable_from_the_start_page() -> None:
    for seed in (1, 2, 3):
        web = SyntheticWeb(WebSpec(seed=seed, hosts=100, pages=3_000))
        allowed = sum(web.allowed(page) for page in web.pages())
        found = web.reachable()
        assert len(found) > 0.95 * allowed
        assert all(web.allowed(int(page)) for page in found)
        assert len(web.reachable(sitemaps=False)) < len(found) < len(web.reachable(obey_robots=False))


def test_robots_rules_are_the_truth_for_every_page() -> None:
    kinds = set()
    for number in range(SPEC.hosts):
        host = WEB.plan.hosts[number]
        kinds.add(host.robots)
        if host.robots_moved or host.robots is Robots.BROKEN:
            continue
        answer = ask(WEB, f"http://{host.name}/robots.txt")
        rules = Protego.parse(answer.body.decode() if answer.status == 200 else "")
        for page in range(int(WEB.plan.offsets[number]), int(WEB.plan.offsets[number + 1])):
            for agent in ("gossamer", "somebody"):
                assert WEB.allowed(page, agent) == rules.can_fetch(WEB.url(page), agent)
    assert kinds == set(Robots)


def test_redirects_chain_cross_hosts_and_loop() -> None:
    web = SyntheticWeb(WebSpec(seed=5, hosts=100, pages=10_000))
    moved = [page for page in web.pages() if web.kind(page) is Kind.REDIRECT]
    answers = [ask(web, web.url(page)) for page in moved]
    for page, answer in zip(moved, answers, strict=True):
        assert answer.status == web.status(page)
        assert urljoin(web.url(page), answer.headers["location"]) == web.url(web.target(page))
    targets = [web.target(page) for page in moved]
    assert {answer.status for answer in answers} == {301, 302, 303, 307, 308}
    assert any(web.kind(target) is Kind.REDIRECT for target in targets)
    assert any(web.host(page) != web.host(target) for page, target in zip(moved, targets, strict=True))
    loops = [page for page in moved if web.kind(t := web.target(page)) is Kind.REDIRECT and web.target(t) == page]
    assert 0 < len(loops) < len(moved) / 5


def test_errors_say_so() -> None:
    statuses = {}
    for page in pages_of(Kind.ERROR):
        answer = ask(WEB, WEB.url(page))
        assert answer.status == WEB.status(page)
        statuses[answer.status] = answer
    assert {404, 410, 403, 500, 503} >= set(statuses) > {404, 500}
    assert ask(SyntheticWeb(WebSpec.plain(errors=1.0, pages=5, hosts=1)), "http://h0.test/").status == 200


def test_503_names_its_time() -> None:
    web = SyntheticWeb(WebSpec(seed=1, retry_after_s=9))
    page = next(page for page in web.pages() if web.status(page) == 503)
    assert ask(web, web.url(page)).headers["retry-after"] == "9"


def test_duplicates_are_equal_and_near_duplicates_nearly() -> None:
    for page in pages_of(Kind.DUPLICATE):
        original = ask(WEB, WEB.url(WEB.target(page)))
        assert ask(WEB, WEB.url(page)).body == original.body
        assert WEB.host(page) == WEB.host(WEB.target(page))
    for page in pages_of(Kind.NEAR_DUPLICATE):
        body, original = (ask(WEB, WEB.url(p)).body for p in (page, WEB.target(page)))
        assert body != original
        lines, others = set(body.split(b"\n")), set(original.split(b"\n"))
        assert len(lines & others) > 0.7 * len(others)


def test_different_pages_do_not_look_alike() -> None:
    pages = [page for page in pages_of(Kind.OK) if WEB.host(page).number == 0]
    texts = [{line for line in ask(WEB, WEB.url(page)).body.split(b"\n") if line.startswith(b"<p>")} for page in pages]
    shared = [len(one & two) / len(one | two) for one, two in zip(texts[::2], texts[1::2], strict=False)]
    assert max(shared) < 0.5


def test_validators_answer_304_until_the_page_changes() -> None:
    pages = [p for p in pages_of(Kind.OK) if WEB.host(p).validators and WEB.changed_at(p, 1) < 1e8]
    page, url = pages[0], WEB.url(pages[0])
    change_s = WEB.changed_at(page, 1)
    first = ask(WEB, url)
    etag, modified = first.headers["etag"], first.headers["last-modified"]
    assert ask(WEB, url, change_s - 1, if_none_match=etag) == Answer(304, first.head, b"")
    assert ask(WEB, url, if_none_match=f'"other", W/{etag}').status == 304
    assert ask(WEB, url, if_none_match='"other"', if_modified_since=modified).status == 200
    assert ask(WEB, url, if_modified_since=modified).status == 304
    assert ask(WEB, url, if_modified_since="gibberish").status == 200
    later = ask(WEB, url, change_s + 1, if_none_match=etag, if_modified_since=modified)
    assert later.status == 200
    assert later.body != first.body
    assert ask(WEB, url, change_s - 1).body == first.body
    bare = next(page for page in pages_of(Kind.OK) if not WEB.host(page).validators)
    assert "etag" not in ask(WEB, WEB.url(bare)).headers
    assert ask(WEB, WEB.url(bare), if_none_match="*").status == 200


def test_every_page_decodes_in_the_charset_it_names() -> None:
    web = SyntheticWeb(WebSpec(seed=2, hosts=200, pages=200, charsets=0.8))
    charsets = set()
    for page in web.pages():
        host = web.host(page)
        answer = ask(web, web.url(page))
        charsets.add(host.charset)
        assert f'<meta charset="{host.charset}">' in answer.body.decode(host.charset)
        assert f'<html lang="{host.language}">' in answer.body.decode(host.charset)
        assert ("charset" in answer.headers["content-type"]) == host.declares
        if host.charset != "utf-8" and host.language in ("fr", "ru"):
            with pytest.raises(UnicodeDecodeError):
                answer.body.decode("utf-8")
    assert charsets == {"utf-8", "windows-1252", "iso-8859-1", "windows-1251"}


def test_gzip_is_sent_to_those_who_ask() -> None:
    web = SyntheticWeb(WebSpec.plain(hosts=1, pages=3, gzip=1.0))
    plain, packed = ask(web, web.url(1)), ask(web, web.url(1), accept_encoding="gzip, br")
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(packed.body) == plain.body


def test_what_is_no_page() -> None:
    assert ask(WEB, "http://h0.test/style.css").headers["content-type"] == "text/css"
    assert ask(WEB, "http://h0.test/logo.svg").status == 200
    assert b"noindex" in ask(WEB, "http://h0.test/login?from=1").body
    assert ask(WEB, "http://h0.test/sitemap-1.xml").status == 404
    assert ask(WEB, "http://h0.test/nowhere-99999999999999999.html").status == 404


def test_a_plain_web_has_no_surprises() -> None:
    web = SyntheticWeb(WebSpec.plain(seed=4, hosts=10, pages=200))
    assert {web.kind(page) for page in web.pages()} == {Kind.OK}
    assert len(web.reachable()) == 200
    assert web.version(5, 1e8) == 0


def test_memory_for_pages_is_bounded() -> None:
    web = SyntheticWeb(WebSpec.plain(hosts=1, pages=50), cache_bytes=200_000)
    for _ in range(3):
        bodies = [ask(web, url).body for url in web.urls(web.pages())]
    assert sum(map(len, web._rendered.values())) <= 200_000 < sum(map(len, bodies))
    assert web._rendered


def test_warming_up_changes_nothing() -> None:
    warm = SyntheticWeb(SPEC)
    warm.warm()
    assert ask(warm, WEB.url(9)) == ask(WEB, WEB.url(9))


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": 0}, {"hosts": 10, "pages": 9}, {"links": 0.0}, {"redirects": 1.5}, {"gzip": -0.1},
        {"redirects": 0.6, "errors": 0.6}, {"robots_rules": 0.9, "robots_missing": 0.9}, {"changes_per_day": -1.0},
    ],
)  # fmt: skip
def test_impossible_webs_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        WebSpec(**wrong)

"""Answers that are small on the wire and large in memory: what a crawl holds stays bounded, and nothing is lost."""

import gzip
import tracemalloc
from pathlib import Path

import pytest
from raw_server import Loopback
from scripted import Web, moved, outcomes, page, reply, robots

from gossamer import Crawl
from gossamer.archive import cdxj
from gossamer.web import html
from gossamer.web.url import domain_of, page_key, resolve_all

LITTLE = 1 << 20


def rounds(crawl: Crawl, where: str) -> int:
    (row,) = crawl.query(f"SELECT count(DISTINCT round) AS n FROM visits WHERE {where}")
    return int(row["n"])


def test_a_round_ends_early_when_its_links_are_long(
    loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gossamer.crawl.round._HELD_BYTES", LITTLE)
    pages = {f"/{i}": page(*(f"/{i}-{j}{'a' * 15_000}" for j in range(40))) for i in range(10)}
    web = Web(loopback, pages)
    found = web.crawl(tmp_path, [f"http://a.test/{i}" for i in range(10)], polite__connections=1)
    assert rounds(found, "NOT is_robots") == 10
    assert found.query("SELECT count(*) AS n FROM links") == [{"n": 400}]
    assert set(outcomes(found).values()) == {"ok"}


def test_a_round_ends_early_when_it_holds_large_robots_files(
    loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gossamer.crawl.round._HELD_BYTES", LITTLE)
    rules = gzip.compress(b"User-agent: other\n" + b"Disallow: /x\n" * 40_000)
    web = Web(loopback, {"/robots.txt": reply(rules, 200, "Content-Encoding: gzip"), "/": page()})
    found = web.crawl(tmp_path, [f"http://h{i}.test/" for i in range(6)], polite__connections=1)
    assert len(rules) < 10_000
    assert rounds(found, "is_robots") >= 3
    assert set(outcomes(found).values()) == {"ok"}
    assert len(outcomes(found)) == 6


def test_long_validators_count_too(loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.crawl.round._HELD_BYTES", LITTLE)
    web = Web(loopback, {"a.test": reply(b"x", 200, "ETag: " + '"' + "e" * 100_000 + '"')})
    found = web.crawl(tmp_path, [f"http://a.test/{i}" for i in range(20)], polite__connections=1)
    assert rounds(found, "NOT is_robots") >= 4


def test_a_robots_redirect_to_an_endless_address_is_not_followed(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(
        loopback, {"a.test/robots.txt": moved("/" + "%25" * 30_000), "/": page(), "b.test/robots.txt": robots("")}
    )
    found = web.crawl(tmp_path, ["http://a.test/", "http://b.test/"])
    assert max(map(len, web.asked(with_robots=True))) < 100
    assert "a.test/" not in web.asked(), "its rules are not known"
    assert outcomes(found)["http://b.test/"] == "ok"


def test_the_line_that_denies_a_page_is_shown_in_part(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {"/robots.txt": robots("User-agent: *\nDisallow: / # " + "why " * 100_000)})
    found = web.crawl(tmp_path, ["http://a.test/"])
    (row,) = found.query("SELECT outcome, reason FROM visits WHERE NOT is_robots")
    assert row["outcome"] == "denied"
    assert row["reason"].startswith("robots.txt: Disallow: / # why why")
    assert len(row["reason"]) < 1_000


def test_escapes_of_escapes_are_undone_without_a_pass_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []
    undo = cdxj.unquote_to_bytes
    monkeypatch.setattr(cdxj, "unquote_to_bytes", lambda data: passes.append(0) or undo(data))
    assert cdxj.surt("http://a.test/%" + "25" * 1_000 + "41") == "test,a)/a"
    assert cdxj.surt("http://a.test/?" + "%2" * 500 + "%35" + "35" * 499) == "test,a)/?%25"
    assert len(passes) < 20


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("cfid=1&cftoken=2", ""),
        ("xcfid=cfid=&cftoken=1", "?x"),
        ("CFID=CFID=1&cftoken=2&b=3", "?cfid=b=3"),
        ("cfid=&a=1", "?a=1&cfid="),
    ],
)
def test_session_ids_of_coldfusion(query: str, key: str) -> None:
    """As pywb, which begins at the last cfid that has a value."""
    assert cdxj.surt(f"http://a.test/?{query}") == f"test,a)/{key}"


def test_each_character_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    encode = html._percent
    monkeypatch.setattr(html, "_percent", lambda *arguments: asked.append(arguments) or encode(*arguments))
    body = b"".join(b'<a href="?%d%s">' % (i, "жя".encode("cp1251") * 1_000) for i in range(20))
    document = html.parse_html(body, "http://a.test/", "text/html; charset=windows-1251")
    assert document.links[0] == "http://a.test/?0" + "%E6%FF" * 1_000
    assert len(asked) < 50


def test_long_names_and_directories_are_not_remembered() -> None:
    tracemalloc.start()
    try:
        for i in range(100):
            host = f"{i}{'a' * 30_000}.test"
            page_key(f"http://{host}/")
            assert domain_of(host) == host
            assert resolve_all(["x", "y"], f"http://a.test/{i}{'b' * 4_000}/")[0].endswith("b/x")
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 2 << 20

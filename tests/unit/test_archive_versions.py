"""The versions of a page: which visits make one, what each said, and which one a time means."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sample_archive import NOW_S, A, B, Response, Sample, Visit, page

from gossamer.archive.query import ask
from gossamer.archive.versions import content, moment, version, versions
from gossamer.cli.app import main
from gossamer.errors import QueryError


def at(after_s: float) -> datetime:
    return datetime.fromtimestamp(NOW_S + after_s, UTC).replace(tzinfo=None)


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """A: old, the same, an error in passing, the same, new, gone. B: links to it come and go."""
    archive = Sample(tmp_path / "crawl")
    archive.commit([A, B], [page(A, "<p>old", title="old"), page(B, "<p>b")], [(A, B, "followed")])
    archive.commit([], [Visit(A, "unchanged", 10.0, Response(A, b"", "", NOW_S + 10, 304), (A, NOW_S))])
    archive.commit([], [Visit(A, "timeout", 20.0, row={"status": "failed"})])
    archive.commit([], [Visit(A, "unchanged", 30.0, Response(A, b"", "", NOW_S + 30, 304), (A, NOW_S))])
    archive.commit([], [page(A, "<p>new", after_s=40.0, title="new")], [(A, A, "followed")])
    gone = Response(A, b"<p>sorry", started_s=NOW_S + 50, status=404)
    archive.commit([], [Visit(A, "gone", 50.0, gone)])
    return tmp_path / "crawl"


def test_a_version_lasts_until_a_visit_finds_something_else(crawl: Path) -> None:
    found = versions(crawl, A)
    assert [(row["version"], row["outcome"], row["visits"], row["title"]) for row in found] == [
        (1, "ok", 3, "old"), (2, "ok", 1, "new"), (3, "gone", 1, ""),
    ]  # fmt: skip
    assert [(row["time"], row["last_visit"]) for row in found] == [
        (at(0), at(30)), (at(40), at(40)), (at(50), at(50)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("after_s", "body"),
    [(0.0, b"<p>old"), (39.0, b"<p>old"), (45.0, b"<p>new"), (60.0, b"<p>sorry"), (None, b"<p>new")],
)
def test_what_it_said_at_a_time(crawl: Path, after_s: float | None, body: bytes) -> None:
    row = version(crawl, A, None if after_s is None else at(after_s))
    assert content(crawl, row) == body
    assert content(crawl, row, as_text=True) == body.removeprefix(b"<p>")


def test_robots_txt_has_versions_too(tmp_path: Path) -> None:
    archive, url = Sample(tmp_path / "crawl"), A + "robots.txt"
    for number, rules in enumerate(["Disallow: /x", "Disallow: /x", "Disallow: /y"]):
        visit = page(url, rules, after_s=10.0 * number)
        archive.commit([], [replace(visit, row={"status": "", "is_robots": True})])
    found = versions(tmp_path / "crawl", url)
    assert [(row["version"], row["visits"]) for row in found] == [(1, 2), (2, 1)]
    assert content(tmp_path / "crawl", version(tmp_path / "crawl", url)) == b"Disallow: /y"


def test_a_page_known_before_carets_were_percent_encoded_is_found(tmp_path: Path) -> None:
    archive = Sample(tmp_path / "crawl")
    archive.commit([A + "a^b"], [page(A + "a^b", "<p>old")])
    assert [row["outcome"] for row in versions(tmp_path / "crawl", A + "a^b")] == ["ok"]
    archive.commit([A + "a%5Eb"], [page(A + "a%5Eb", "<p>new", after_s=10.0), page(A + "a%5Eb", "<p>x", after_s=20.0)])
    assert len(versions(tmp_path / "crawl", A + "a^b")) == 2


def test_times_as_people_write_them() -> None:
    assert moment("2026-11-16") == datetime(2026, 11, 17), "its end"
    assert moment("2026-11-16T08:30+02:00") == datetime(2026, 11, 16, 6, 30)
    with pytest.raises(QueryError, match="write it like"):
        moment("yesterday")


def test_mistakes(crawl: Path) -> None:
    with pytest.raises(QueryError, match="never visited"):
        versions(crawl, "http://a.test/unknown")
    with pytest.raises(QueryError, match="not a web address"):
        versions(crawl, "nonsense")
    with pytest.raises(QueryError, match="had not been visited by"):
        version(crawl, A, at(-1))


def test_the_commands(crawl: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["versions", str(crawl), A, "--json"]) == 0
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [line["title"] for line in lines] == ["old", "new", ""]
    assert main(["versions", str(crawl), A]) == 0
    assert b"old" in capfdbinary.readouterr().out
    assert main(["show", str(crawl), A, "--at", at(5).isoformat()]) == 0
    assert capfdbinary.readouterr().out == b"<p>old"
    assert main(["show", str(crawl), A, "--text", "--json"]) == 0
    shown = json.loads(capfdbinary.readouterr().out)
    assert (shown["content"], shown["version"], shown["outcome"]) == ("new", 2, "ok")


def test_only_current_links_count(crawl: Path) -> None:
    """That of the old version no longer does; and when the page has gone, neither does its last one."""
    assert ask(crawl, "SELECT url, hits FROM targets ORDER BY url") == [{"url": A, "hits": 0}, {"url": B, "hits": 0}]

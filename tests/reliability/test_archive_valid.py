"""What a crawl leaves that was killed several times: files that others can read, and tables that agree with them."""

import json
import random
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from support import Command, check_index, check_no_leftovers, snapshot_of

from gossamer.archive.query import ask
from gossamer.archive.warc import payload_digest, warc_date
from gossamer.archive.warc_reader import read_record
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # importing it warns of its own old parts
    from fastwarc.warc import ArchiveIterator

SPEC = WebSpec(
    seed=8, hosts=15, pages=300, links=15.0, page_bytes=6_000.0, latency_ms=5.0, changing=0.0, duplicates=0.1,
    crawl_delays=0.0, robots_broken=0.0, gzip=0.4, chunked=0.4, charsets=0.4,
)  # fmt: skip
OPTIONS = [
    "--width", "25", "--delay", "0.05", "--scope", "any", "--connections", "16", "--depth", "250",
    "--set", "limits.depth_dynamic=250", "--set", "fetch.retries=1", "--set", "fetch.retry_s=0.2",
    "--set", "polite.backoff_s=0.2", "--set", "crawl.patience_s=3", "--set", "archive.merge_files=4",
    "--set", "archive.warc_bytes=250000",
]  # fmt: skip
KILLS = 6


class Stored(NamedTuple):
    """A record of the WARC files."""

    kind: str
    url: str
    date: str
    identifier: str
    concurrent_to: str


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("killed")
    chance = random.Random(8)
    with RunningWeb(SPEC) as web:
        command = Command(web, where / "crawl", OPTIONS)
        for _ in range(KILLS):
            commits = command.events("commit")
            with command.forked() as fork:
                command.wait_for(fork, "commit", commits + 2)
                time.sleep(chance.uniform(0.0, 0.3))
                assert fork.is_alive(), f"the crawl ended too early: {command.said()}"
        command.finish(120)
    return command.directory


@pytest.fixture(scope="module")
def truth() -> SyntheticWeb:
    return SyntheticWeb(SPEC)


@pytest.fixture(scope="module")
def visits(directory: Path) -> list[dict[str, Any]]:
    return ask(directory, "SELECT * FROM visits ORDER BY time")


@pytest.fixture(scope="module")
def records(directory: Path) -> dict[tuple[str, int], Stored]:
    """All records of all WARC files by file and offset, as fastwarc reads them."""
    found = {}
    for name in snapshot_of(directory).files["warc"]:
        with (directory / name).open("rb") as file:
            for record in ArchiveIterator(file, parse_http=False):
                fields = {key.lower(): value for key, value in record.headers.items()}
                assert len(record.reader.read()) == record.content_length, (name, fields)
                found[name, record.stream_pos] = Stored(
                    fields["warc-type"],
                    fields.get("warc-target-uri", ""),
                    fields["warc-date"],
                    fields["warc-record-id"],
                    fields.get("warc-concurrent-to", ""),
                )
    return found


def test_the_archive_has_what_the_test_is_about(directory: Path, visits: list[dict[str, Any]]) -> None:
    files = snapshot_of(directory).files
    assert any(name.count("-0") == 3 for name in files["warc"]), "no WARC files were merged"
    assert len(files["warc"]) > 1
    assert sum(row["is_revisit"] for row in visits) > 5
    assert {row["outcome"] for row in visits} >= {"ok", "moved", "gone", "denied", "server_error"}
    check_no_leftovers(directory)
    check_index(directory)


def test_warcio_check(directory: Path) -> None:
    paths = [str(directory / name) for name in snapshot_of(directory).files["warc"]]
    command = [sys.executable, "-W", "ignore", "-m", "warcio.cli", "check", "-v", *paths]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout[-4_000:]
    assert "fail" not in result.stdout
    assert result.stdout.count("digest pass") > 100


def test_records_and_visits_agree(visits: list[dict[str, Any]], records: dict[tuple[str, int], Stored]) -> None:
    """Each answer in the WARC files has one row, each row that names a record one record."""
    answers = {place: stored for place, stored in records.items() if stored.kind in ("response", "revisit")}
    rows = {(row["warc"], row["warc_offset"]): row for row in visits if row["warc"]}
    assert len(rows) == sum(bool(row["warc"]) for row in visits)
    assert answers.keys() == rows.keys()
    for place, stored in answers.items():
        row = rows[place]
        when = row["time"].replace(tzinfo=UTC).timestamp()
        assert (stored.url, stored.date) == (row["url"], warc_date(when + 0.0001))
        assert (stored.kind == "revisit") == row["is_revisit"]
    assert all(not row["http_status"] for row in visits if not row["warc"]), "an answer was not stored"
    assert len({stored.identifier for stored in records.values()}) == len(records), "an identifier occurs twice"
    requests = Counter(stored.concurrent_to for stored in records.values() if stored.kind == "request")
    assert requests == Counter(stored.identifier for stored in answers.values())


def test_each_row_finds_its_record(directory: Path, visits: list[dict[str, Any]]) -> None:
    stored = [row for row in visits if row["warc"]]
    found = [read_record(directory / row["warc"], row["warc_offset"], row["warc_bytes"]) for row in stored]
    content = {(r.headers["WARC-Target-URI"], r.headers["WARC-Date"]): r for r in found if r.body}
    for row, record in zip(stored, found, strict=True):
        assert record.headers["WARC-Target-URI"] == row["url"]
        assert int(record.head.split(b" ", 2)[1]) == row["http_status"], row
        if row["is_revisit"]:
            to = record.headers["WARC-Refers-To-Target-URI"], record.headers["WARC-Refers-To-Date"]
            assert record.headers["WARC-Payload-Digest"] == content[to].headers["WARC-Payload-Digest"]
            assert payload_digest(content[to].head, content[to].body) == row["digest"]
        else:
            assert len(record.body) == row["wire_bytes"]
            assert (payload_digest(record.head, record.body) if record.body else "") == row["digest"]


def test_content_is_what_the_server_sent(directory: Path, truth: SyntheticWeb) -> None:
    """Also where a revisit record refers to a record of an earlier run."""
    fetched = ask(directory, "SELECT url, body(warc, warc_offset) AS body FROM pages WHERE status = 'fetched'")
    assert len(fetched) > 200
    for row in fetched:
        parts = urlsplit(row["url"])
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        assert row["body"] == truth.response(parts.netloc, path, 0.0, {}).body, row["url"]


def cdxj_lines(directory: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    for name in snapshot_of(directory).files["cdxj"]:
        lines = (directory / name).read_text("ascii").splitlines()
        assert lines == sorted(lines), f"{name} is not sorted"
        for line in lines:
            surt, date, fields = line.split(" ", 2)
            yield surt, date, json.loads(fields)


def test_cdxj_and_visits_agree(directory: Path, visits: list[dict[str, Any]]) -> None:
    found = Counter()
    for _, date, fields in cdxj_lines(directory):
        place = (f"warc/{fields['filename']}", int(fields["offset"]), int(fields["length"]))
        status = int(fields["status"]) if "status" in fields else 0
        found[*place, fields["url"], date, fields.get("digest", ""), status] += 1
    wanted = Counter(
        (
            row["warc"],
            row["warc_offset"],
            row["warc_bytes"],
            row["url"],
            f"{row['time']:%Y%m%d%H%M%S}",
            digest_of(directory, row),
            0 if row["is_revisit"] else row["http_status"],
        )
        for row in visits
        if row["warc"]
    )
    assert found == wanted


def digest_of(directory: Path, row: dict[str, Any]) -> str:
    """Of the body as it is stored: the table has that of the payload without chunks."""
    record = read_record(directory / row["warc"], row["warc_offset"], row["warc_bytes"])
    return record.headers.get("WARC-Payload-Digest", "").removeprefix("sha1:")


def test_links_and_visits_agree(directory: Path) -> None:
    """A visit's links are there in full, with its round; no other links are there."""
    sql = """SELECT v.url, v.links, v.round, l.found, l.rounds
        FROM (SELECT * FROM visits WHERE NOT is_robots AND links > 0) v
        FULL JOIN (SELECT source, round, count(*) AS found, count(DISTINCT target) AS rounds FROM links
            GROUP BY source, round) l ON l.source = v.key AND l.round = v.round"""
    rows = ask(directory, sql)
    assert len(rows) > 200
    assert [row for row in rows if row["links"] != row["found"] or row["found"] != row["rounds"]] == []


def test_pages_and_links_agree(directory: Path) -> None:
    """What a followed link leads to is known, and what is known was found by a link, a sitemap or a seed."""
    followed = "SELECT DISTINCT target FROM links WHERE verdict = 'followed'"
    assert ask(directory, f"SELECT * FROM ({followed}) WHERE target NOT IN (SELECT key FROM pages)") == []
    strays = f"SELECT url FROM pages WHERE referrer <> 0 AND key NOT IN ({followed})"
    assert ask(directory, strays) == []
    found = """SELECT p.url FROM pages p WHERE p.referrer <> 0 AND NOT EXISTS (
        SELECT 1 FROM links l WHERE l.source = p.referrer AND l.target = p.key AND l.round = p.round)"""
    assert ask(directory, found) == [], "a page was not discovered in the round that saw its link"
    unasked = [row["url"] for row in ask(directory, "SELECT url FROM pages WHERE referrer = 0")]
    assert {urlsplit(url).path for url in unasked} <= {"/", "/sitemap.xml"}
    assert ask(directory, "SELECT key FROM pages GROUP BY key HAVING count(*) > 1") == []
    assert ask(directory, "SELECT url FROM visits WHERE NOT is_robots AND key NOT IN (SELECT key FROM pages)") == []


def test_robots_and_visits_agree(directory: Path) -> None:
    asked = ask(directory, "SELECT DISTINCT 'http://' || host AS origin FROM visits WHERE is_robots")
    kept = ask(directory, "SELECT DISTINCT origin FROM robots")
    assert sorted(row["origin"] for row in asked) == sorted(row["origin"] for row in kept)


# pywb patches the standard library: a process of its own.
REPLAY = """
import io, json, sys
from gevent import monkey
monkey.patch_all()
from pywb.apps.frontendapp import FrontEndApp
crawl, urls = sys.argv[1], sys.argv[2:]
places = {"index_paths": crawl + "/cdxj/", "archive_paths": crawl + "/warc/"}
app = FrontEndApp(config_file=None, custom_config={"collections": {"crawl": places}})
for url in urls:
    path, _, query = url.partition("?")
    status = []
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": path, "REQUEST_URI": url, "QUERY_STRING": query,
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "SCRIPT_NAME": "",
        "HTTP_HOST": "localhost", "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr,
    }
    body = b"".join(app(environ, lambda line, headers, error=None: status.append(line)))
    print(json.dumps([status[-1], body.decode("latin-1")]))
"""


def test_replay_by_pywb(pywb: str, directory: Path, truth: SyntheticWeb) -> None:
    sql = """SELECT url, time FROM visits WHERE outcome = 'ok' AND NOT is_robots AND content_type = 'text/html'
        QUALIFY row_number() OVER (PARTITION BY is_revisit, contains(url, '?'), host ORDER BY url) = 1"""
    rows = ask(directory, sql)
    dated: list[tuple[str, datetime]] = [(row["url"], row["time"]) for row in rows]
    assert len(dated) > 20
    urls = [f"/crawl/{when:%Y%m%d%H%M%S}id_/{url}" for url, when in dated]
    command = [pywb, "-W", "ignore", "-c", REPLAY, str(directory), *urls]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=directory, check=True)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('["')]
    assert len(lines) == len(dated)
    for (url, _), (status, body) in zip(dated, lines, strict=True):
        parts = urlsplit(url)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        assert status == "200 OK", (url, status)
        assert body.encode("latin-1") == truth.response(parts.netloc, path, 0.0, {}).body, url

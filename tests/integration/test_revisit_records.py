"""Revisit records: what they refer to exists and has the content, and what is replayed is what was fetched."""

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from crawls import QUICK
from raw_server import Exchange, Loopback

from experiments.refresh_real import FastClock
from gossamer import Config, Crawl
from gossamer.archive.warc import payload_digest
from gossamer.archive.warc_reader import Record, read_record

SPEED = 1000.0
AGAIN = {
    "refresh.policy": "fixed", "refresh.interval_s": 150.0, "refresh.least_s": 10.0, "polite.robots": False,
    "fetch.timeout_s": 60.0 * SPEED, "fetch.connect_timeout_s": 10.0 * SPEED, "crawl.patience_s": 1e7,
    "crawl.width": 5, "archive.merge_files": 4, "polite.connections": 1,
}  # fmt: skip
PAGES = 12
KINDS = ("plain", "chunked", "gzip", "both")  # how a page is sent


def content(path: str, version: int) -> bytes:
    """The pages 6 to 11 have the content of 0 to 5, from time to time."""
    number = int(path.removeprefix("/p") or 0) if path != "/" else -1
    if number < 0:
        links = "".join(f"<a href=/p{other}>x</a>" for other in range(PAGES))
        return f"<html><title>home</title>{links}{'.' * 2_000}".encode()
    shared = number % 6 if version % 2 else number
    return f"<html><title>{shared}</title><p>version {version // 2} of {shared}</p>{'text ' * 400}".encode()


def sent(exchange: Exchange, body: bytes, version: int, visit: int) -> bool:
    number = int(exchange.path.removeprefix("/p") or 0) if exchange.path != "/" else 0
    kind, fields = KINDS[number % 4], b"Content-Type: text/html\r\n"
    if number % 3 == 0:  # the others have no validators: the same digest tells that nothing changed
        etag = b'"%d"' % version
        if b"If-None-Match: " + etag in exchange.head:
            return exchange.send(b"HTTP/1.1 304 Not Modified\r\nETag: " + etag + b"\r\nX-Seen: again\r\n\r\n")
        fields += b"ETag: " + etag + b"\r\n"
    if kind in ("gzip", "both"):
        # Of some pages the bytes differ each time, and the text does not.
        time_s = visit if number == 7 else version
        body, fields = gzip.compress(body, mtime=time_s), fields + b"Content-Encoding: gzip\r\n"
    if kind in ("chunked", "both"):
        step = 100 + visit
        pieces = (body[i : i + step] for i in range(0, len(body), step))
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        return exchange.send(b"HTTP/1.1 200 OK\r\n" + fields + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    return exchange.send_page(body, fields=fields)


class Web:
    """A website whose pages change at every fifth visit; it remembers what each visit was to see."""

    def __init__(self) -> None:
        self.seen: dict[str, list[bytes]] = {}

    def answer(self, exchange: Exchange) -> bool:
        visits = self.seen.setdefault(exchange.path, [])
        version = len(visits) // 5
        visits.append(content(exchange.path, version))
        return sent(exchange, visits[-1], version, len(visits))


class Crawled(NamedTuple):
    crawl: Crawl
    seen: list[tuple[str, bytes]]  # URL and content of each visit, in the order of its table


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    web, loopback, clock = Web(), Loopback(), FastClock(SPEED)
    server = loopback.serve(web.answer)
    config = {**QUICK, **AGAIN, "resolve.map": {"*": f"127.0.0.1:{server.port}"}}
    directory = tmp_path_factory.mktemp("revisits") / "crawl"
    for pages in (60, 180):  # it is resumed once: what it refers to is of the run before
        found = Crawl(directory, ["http://a.test/"], Config().replace({**config, "crawl.pages": pages}), clock)
        found.run()
    loopback.close()
    rows, counts = found.query("SELECT url FROM visits ORDER BY time, round, warc_offset"), Counter[str]()
    seen = []
    for row in rows:
        path = row["url"].removeprefix("http://a.test")
        seen.append((row["url"], web.seen[path][counts[path]]))
        counts[path] += 1
    return Crawled(found, seen)


def records(crawl: Crawl) -> list[tuple[Record, dict[str, Any]]]:
    sql = "SELECT * FROM visits ORDER BY time, round, warc_offset"
    return [(read_record(Path(crawl.directory) / row["warc"], row["warc_offset"]), row) for row in crawl.query(sql)]


def test_every_kind_of_revisit_occurs(crawled: Crawled) -> None:
    found = Counter(
        (record.headers.get("WARC-Profile", "").rpartition("/")[2], record.headers.get("WARC-Refers-To-Target-URI"))
        for record, _ in records(crawled.crawl)
    )
    kinds = Counter((profile, to is not None) for profile, to in found.elements())
    assert set(kinds) == {("", False), ("identical-payload-digest", True), ("server-not-modified", True)}, kinds
    assert min(kinds.values()) >= 10, kinds


def test_a_revisit_names_a_record_with_its_content(crawled: Crawled) -> None:
    found = records(crawled.crawl)
    stored = {(r.headers["WARC-Target-URI"], r.headers["WARC-Date"]): r for r, row in found if not row["is_revisit"]}
    wrong = []
    for record, row in found:
        if not row["is_revisit"]:
            continue
        to = record.headers.get("WARC-Refers-To-Target-URI"), record.headers.get("WARC-Refers-To-Date")
        original = stored.get(to)
        if original is None or row["digest"] != payload_digest(original.head, original.body):
            wrong.append((row["url"], row["http_status"], to, original is not None, row["digest"]))
        assert record.headers.get("WARC-Payload-Digest")
    assert not wrong, f"{len(wrong)} of {sum(row['is_revisit'] for _, row in found)}: {wrong[:3]}"


def test_what_sql_reads_is_what_was_fetched(crawled: Crawled) -> None:
    sql = "SELECT url, body(warc, warc_offset) AS body FROM visits ORDER BY time, round, warc_offset"
    assert [(row["url"], row["body"]) for row in crawled.crawl.query(sql)] == crawled.seen


REPLAY = """
import io, json, sys
from gevent import monkey
monkey.patch_all()
from pywb.apps.frontendapp import FrontEndApp
given = json.load(sys.stdin)
app = FrontEndApp(config_file=None, custom_config={"collections": given["collections"]})
for url in given["urls"]:
    status = []
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": url, "REQUEST_URI": url, "QUERY_STRING": "",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "SCRIPT_NAME": "",
        "HTTP_HOST": "localhost", "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr,
    }
    body = b"".join(app(environ, lambda line, headers, error=None: status.append(line)))
    print(json.dumps([status[-1], body.decode("latin-1")]))
"""


def test_pywb_replays_what_was_fetched(crawled: Crawled, pywb: str, tmp_path: Path) -> None:
    """With our index, and with its own of all records in one file."""
    for name in ("ours", "its"):
        (tmp_path / name).mkdir()
    out = tmp_path / "all.warc.gz"
    command = [sys.executable, "-m", "gossamer", "export", str(crawled.crawl.directory), "--warc", str(out)]
    subprocess.run([*command, "--index", str(tmp_path / "ours" / "all.cdxj")], check=True)
    with (tmp_path / "its" / "all.cdxj").open("wb") as file:
        subprocess.run([str(Path(pywb).parent / "cdx-indexer"), "-j", "-s", str(out)], stdout=file, check=True)
    directory = Path(crawled.crawl.directory)
    collections = {
        "crawl": {"index_paths": f"{directory}/cdxj/", "archive_paths": f"{directory}/warc/"},
        "ours": {"index_paths": f"{tmp_path}/ours/", "archive_paths": f"{tmp_path}/"},
        "its": {"index_paths": f"{tmp_path}/its/", "archive_paths": f"{tmp_path}/"},
    }
    rows = crawled.crawl.query("SELECT strftime(time, '%Y%m%d%H%M%S') AS s FROM visits ORDER BY time, round")
    seconds = [row["s"] for row in rows]
    wanted = [(f"{second}id_/{url}", body) for second, (url, body) in zip(seconds, crawled.seen, strict=True)]
    urls = [f"/{name}/{url}" for name in collections for url, _ in wanted]
    given = json.dumps({"collections": collections, "urls": urls})
    run = [pywb, "-W", "ignore", "-c", REPLAY]
    result = subprocess.run(run, input=given, capture_output=True, text=True, timeout=300, check=True, cwd=tmp_path)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('["')]
    wrong = [
        (url, status, len(body))
        for (status, body), url, (_, content) in zip(lines, urls, wanted * 3, strict=True)
        if (status, body.encode("latin-1")) != ("200 OK", content)
    ]
    assert not wrong, f"{len(wrong)} of {len(urls)}: {wrong[:5]}"

"""Content that another crawl has is not stored again: a revisit record names the record of that crawl."""

import gzip
import io
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crawls import QUICK
from object_stores import Server, at
from raw_server import Exchange, Loopback
from test_revisit_records import REPLAY
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from gossamer import Config, Crawl
from gossamer.archive.dedupe import OtherCrawls
from gossamer.archive.export import export_warc
from gossamer.archive.warc_reader import Record, read_record
from gossamer.config.folders import Address
from gossamer.errors import ConfigError
from gossamer.repair.import_warc import import_warc

PAGES = 8
TEXT = "the same words in every crawl " * 100


def content(path: str, version: int) -> bytes:
    """The second half of the pages changes."""
    if path == "/":
        return f"<title>home</title>{''.join(f'<a href=/p{n}>x</a>' for n in range(PAGES))}{TEXT}".encode()
    number = int(path.removeprefix("/p"))
    return f"<title>{number}</title><p>page {number}, {version if number >= PAGES // 2 else 0}. {TEXT}".encode()


class Web:
    """Every second page comes in chunks, which differ each time; one is compressed; one is short."""

    def __init__(self, loopback: Loopback) -> None:
        self.version = 0
        self.server = loopback.serve(self._answer)

    def _answer(self, exchange: Exchange) -> bool:
        if exchange.path == "/robots.txt":
            return exchange.send_page(b"", "404 Not Found")
        body, fields = content(exchange.path, self.version), b"Content-Type: text/html\r\n"
        number = int(exchange.path.removeprefix("/p") or 0) if exchange.path != "/" else 0
        if number == 2:
            body, fields = gzip.compress(body, 0, mtime=0), fields + b"Content-Encoding: gzip\r\n"
        if number % 2:
            step = 100 + self.version
            pieces = (body[i : i + step] for i in range(0, len(body), step))
            body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
            return exchange.send(b"HTTP/1.1 200 OK\r\n" + fields + b"Transfer-Encoding: chunked\r\n\r\n" + body)
        return exchange.send_page(body, fields=fields)

    def crawl(self, directory: Path | Address, *others: Path | Address, **changes: Any) -> Crawl:
        values = {
            **QUICK,
            "resolve.map": {"*": f"127.0.0.1:{self.server.port}"},
            "archive.dedupe": list(map(str, others)),
        }
        crawl = Crawl(directory, ["http://a.test/"], Config().replace({**values, **changes}))
        crawl.run()
        return crawl


@pytest.fixture
def web(loopback: Loopback) -> Web:
    return Web(loopback)


def records(crawl: Crawl) -> dict[str, Record]:
    sql = "SELECT url, warc, warc_offset FROM visits WHERE NOT is_robots"
    return {
        row["url"]: read_record(Path(crawl.directory) / row["warc"], row["warc_offset"]) for row in crawl.query(sql)
    }


def bodies(crawl: Crawl) -> dict[str, bytes]:
    sql = "SELECT url, body(warc, warc_offset) AS body FROM pages"
    return {row["url"].removeprefix("http://a.test"): row["body"] for row in crawl.query(sql)}


def urls(*numbers: int) -> set[str]:
    return {f"http://a.test/p{number}" for number in numbers}


SAME = {"http://a.test/"} | urls(*range(PAGES // 2))


def test_what_another_crawl_has_is_not_stored_again(web: Web, tmp_path: Path) -> None:
    first = web.crawl(tmp_path / "first")
    web.version = 1
    second = web.crawl(tmp_path / "second", tmp_path / "first")
    theirs, ours = records(first), records(second)
    assert {url for url, record in ours.items() if record.headers["WARC-Type"] == "revisit"} == SAME
    for url in SAME:
        original, revisit = theirs[url].headers, ours[url].headers
        assert revisit["WARC-Refers-To-Target-URI"] == original["WARC-Target-URI"]
        assert revisit["WARC-Refers-To-Date"] == original["WARC-Date"]
        assert revisit["WARC-Payload-Digest"] == original["WARC-Payload-Digest"]
        assert not ours[url].body
    # Whoever reads the second crawl finds what only the first one has.
    expected = {path: content(path, 1) for path in ("/", *(f"/p{n}" for n in range(PAGES)))}
    assert bodies(second) == expected
    assert {page.url: page.title for page in second.pages()} == {page.url: page.title for page in first.pages()}
    (tmp_path / "first").rename(tmp_path / "moved")
    assert {path for path, body in bodies(second).items() if body is None} == {
        url[len("http://a.test") :] for url in SAME
    }


def test_the_next_runs_know_it(web: Web, tmp_path: Path) -> None:
    """Revisits of the second crawl refer to the record of the first, too."""
    first = web.crawl(tmp_path / "first")
    web.version = 1
    again = {"refresh.policy": "fixed", "refresh.interval_s": 1.0, "refresh.least_s": 1.0, "crawl.pages": PAGES + 4}
    second = web.crawl(tmp_path / "second", tmp_path / "first", **again)
    dates = {(url, record.headers["WARC-Date"]) for url, record in records(first).items()}
    found = second.query("SELECT url, warc, warc_offset FROM visits WHERE is_revisit")
    assert len(found) > len(SAME)
    for row in found:
        fields = read_record(tmp_path / "second" / row["warc"], row["warc_offset"]).headers
        place = fields["WARC-Refers-To-Target-URI"], fields["WARC-Refers-To-Date"]
        assert place in dates or row["url"] not in SAME


def test_an_imported_crawl_counts_too(web: Web, tmp_path: Path) -> None:
    first = web.crawl(tmp_path / "first")
    import_warc(tmp_path / "imported", export_warc(tmp_path / "first", tmp_path / "out.warc.gz"))
    second = web.crawl(tmp_path / "second", tmp_path / "imported")
    assert {record.headers["WARC-Type"] for record in records(second).values()} == {"revisit"}
    assert bodies(second) == bodies(first)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_digests_that_others_wrote(web: Web, tmp_path: Path) -> None:
    """A foreign record may have no digest, or another kind: it is named if its own is known."""
    with (tmp_path / "x.warc.gz").open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for number, fields in ((0, {}), (4, {"WARC-Payload-Digest": "sha256:00"})):
            head = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
            body = io.BytesIO(content(f"/p{number}", 0))
            url = f"http://elsewhere.test/{number}"
            made = writer.create_warc_record(
                url,
                "response",
                body,
                http_headers=head,
                warc_headers_dict={"WARC-Date": "2020-02-03T04:05:06Z", **fields},
            )
            if not fields:
                made.rec_headers.remove_header("WARC-Payload-Digest")
            writer.write_record(made)
    import_warc(tmp_path / "imported", [tmp_path / "x.warc.gz"])
    second = web.crawl(tmp_path / "second", tmp_path / "imported")
    named = {
        url: r.headers["WARC-Refers-To-Target-URI"]
        for url, r in records(second).items()
        if r.headers["WARC-Type"] == "revisit"
    }
    assert named == {f"http://a.test/p{n}": f"http://elsewhere.test/{n}" for n in (0, 4)}


def test_replay_needs_both(web: Web, tmp_path: Path, pywb: str) -> None:
    web.crawl(tmp_path / "first")
    web.version = 1
    time.sleep(1.0)  # an index has whole seconds, and the later of two captures is what replay shows
    web.crawl(tmp_path / "second", tmp_path / "first")
    both = tmp_path / "both"
    both.mkdir()
    for name in ("first", "second"):
        export_warc(tmp_path / name, both / f"{name}.warc.gz", index=both / f"{name}.cdxj")
    paths = ["/", *(f"/p{n}" for n in range(PAGES))]
    collections = {"both": {"index_paths": f"{both}/", "archive_paths": f"{both}/"}}
    given = json.dumps({"collections": collections, "urls": [f"/both/id_/http://a.test{path}" for path in paths]})
    run = [pywb, "-W", "ignore", "-c", REPLAY]
    result = subprocess.run(run, input=given, capture_output=True, text=True, timeout=300, check=True, cwd=tmp_path)
    seen = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('["')]
    assert [status for status, _ in seen] == ["200 OK"] * len(paths)
    plain = [
        gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body for body in (b.encode("latin-1") for _, b in seen)
    ]
    assert plain == [content(path, 1) for path in paths]


@pytest.mark.parametrize("what", ["nothing", "a folder", "a bucket"])
def test_where_there_is_no_crawl(web: Web, tmp_path: Path, what: str) -> None:
    other: Any = tmp_path / "other"
    if what == "a folder":
        other.mkdir()
    with pytest.raises(
        ConfigError, match=r"archive\.dedupe names .*other.*holds no crawl" if what != "a bucket" else "ftp"
    ):
        web.crawl(tmp_path / "second", other if what != "a bucket" else Path("ftp://bucket"))
    assert not (tmp_path / "second").exists()


def test_several_agents_and_a_crawl_at_an_address(
    web: Web, tmp_path: Path, object_servers: Callable[[str], Server]
) -> None:
    weed = object_servers("seaweedfs")
    address = weed.address()
    with at(weed, tmp_path / "cache"):
        with pytest.raises(ConfigError, match="holds no crawl"):
            web.crawl(tmp_path / "second", address)
        web.crawl(address)
        web.version = 1
        second = web.crawl(tmp_path / "second", address, **{"site.agents": 2, "site.exchange": "store"})
        found = records(second)
        assert {url for url, record in found.items() if record.headers["WARC-Type"] == "revisit"} == SAME
        assert bodies(second) == {path: content(path, 1) for path in ("/", *(f"/p{n}" for n in range(PAGES)))}


def test_a_crawl_that_has_nothing_yet(tmp_path: Path, web: Web) -> None:
    web.crawl(tmp_path / "empty", **{"archive.warc": False})
    assert OtherCrawls([str(tmp_path / "empty")], tmp_path).find("A" * 32) is None

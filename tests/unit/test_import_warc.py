"""Crawls made of WARC files that others wrote."""

import gzip
import io
from pathlib import Path

import pytest
from sample_archive import Sample, page
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from gossamer import Crawl
from gossamer.archive.export import export_warc
from gossamer.archive.versions import versions
from gossamer.archive.wacz import export_wacz
from gossamer.cli.app import main
from gossamer.config import Config
from gossamer.errors import ArchiveError, ConfigError
from gossamer.repair.import_warc import import_warc
from gossamer.watch.status import status

# warcio leaves its temporary files open.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
A, B = "http://a.test/", "http://a.test/b"
PAGE = b"<html lang=en><title>Spiders</title><p>They fly. <a href=/b>more</a></html>"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """As warcio writes it, with seconds only, and a revisit."""
    path = tmp_path / "foreign.warc.gz"
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        writer.write_record(writer.create_warcinfo_record("foreign.warc.gz", {"software": "other"}))
        for url, status, second, body in ((A, "200 OK", 10, PAGE), (B, "404 Not Found", 11, b"gone")):
            head = StatusAndHeaders(status, [("Content-Type", "text/html; charset=utf-8")], protocol="HTTP/1.1")
            fields = {"WARC-Date": f"2020-02-03T04:05:{second}Z"}
            writer.write_record(writer.create_warc_record(url, "response", io.BytesIO(body), http_headers=head,
                                                          warc_headers_dict=fields))  # fmt: skip
        again = writer.create_revisit_record(A, "sha1:X", A, "2020-02-03T04:05:10Z", http_headers=StatusAndHeaders(
            "200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1"),
            warc_headers_dict={"WARC-Date": "2020-03-03T00:00:00Z"})  # fmt: skip
        writer.write_record(again)
    return path


def test_a_foreign_file_is_a_crawl(foreign: Path, tmp_path: Path) -> None:
    assert main(["import", str(foreign), "--dir", str(tmp_path / "crawl")]) == 0
    crawl = Crawl(tmp_path / "crawl")
    rows = crawl.query(
        "SELECT url, status, title, language, links, body(warc, warc_offset) AS body FROM pages ORDER BY 1"
    )
    assert [(row["url"], row["status"]) for row in rows] == [(A, "fetched"), (B, "gone")]
    assert (rows[0]["title"], rows[0]["language"], rows[0]["links"], rows[0]["body"]) == ("Spiders", "en", 1, PAGE)
    assert [row["target_url"] for row in crawl.query("SELECT target_url FROM links")] == [B]
    assert [row.text for row in crawl.pages()] == ["They fly. more"]
    bodies = crawl.query("SELECT body(warc, warc_offset) AS body FROM visits WHERE is_revisit")
    assert [row["body"] for row in bodies] == [PAGE]
    (version,) = versions(tmp_path / "crawl", A)
    assert (str(version["time"]), version["visits"]) == ("2020-02-03 04:05:10", 2)
    (stored,) = (tmp_path / "crawl" / "warc").iterdir()
    assert stored.read_bytes() == foreign.read_bytes(), "the file is as it was"
    assert export_wacz(tmp_path / "crawl", tmp_path / "out.wacz")
    assert main(["verify", str(tmp_path / "crawl")]) == 0


def test_redirects_lead_where_they_say(tmp_path: Path) -> None:
    path = tmp_path / "moved.warc.gz"
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for url, location in ((A, "http://other.test/new"), (B, "new")):
            head = StatusAndHeaders("301 Moved", [("Location", location)], protocol="HTTP/1.1")
            writer.write_record(writer.create_warc_record(url, "response", io.BytesIO(b""), http_headers=head))
    import_warc(tmp_path / "crawl", [path])
    rows = Crawl(tmp_path / "crawl").query("SELECT url, outcome, location FROM visits ORDER BY url")
    assert [tuple(row.values()) for row in rows] == [(A, "moved", "http://other.test/new"), (B, "moved", f"{A}new")]


def test_what_was_exported_can_be_imported(tmp_path: Path) -> None:
    sample = Sample(tmp_path / "crawl")
    for n in range(3):
        sample.commit([f"{A}{n}"], [page(f"{A}{n}", f"<p>page {n}", after_s=n)])
    files = export_warc(tmp_path / "crawl", tmp_path / "files")
    found = import_warc(tmp_path / "again", files)
    assert (found.files, found.answers, len(found.pages), found.damaged) == (3, 3, 3, 0)
    sql = "SELECT url, time, digest, text(warc, warc_offset) AS text FROM visits ORDER BY url"
    assert Crawl(tmp_path / "again").query(sql) == Crawl(tmp_path / "crawl").query(sql)


def test_what_is_refused(foreign: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.warc.gz"
    whole.write_bytes(gzip.compress(gzip.decompress(foreign.read_bytes())))
    plain = tmp_path / "plain.warc"
    plain.write_bytes(gzip.decompress(foreign.read_bytes()))
    for path in (whole, plain):
        with pytest.raises(ConfigError, match="warcio recompress"):
            import_warc(tmp_path / "none", [path])
    assert not (tmp_path / "none").exists()
    import_warc(tmp_path / "crawl", [foreign])
    with pytest.raises(ConfigError, match="holds a crawl already"):
        import_warc(tmp_path / "crawl", [foreign])
    export_wacz(tmp_path / "crawl", tmp_path / "out.wacz")
    with pytest.raises(ConfigError, match="import the files in archive/"):
        import_warc(tmp_path / "none", [tmp_path / "out.wacz"])


def test_an_import_is_for_reading(foreign: Path, tmp_path: Path) -> None:
    import_warc(tmp_path / "crawl", [foreign])
    before = sorted(tmp_path.rglob("*"))
    config = Config().replace({"fetch.contact": "me@gossamer-tests.org", "crawl.minutes": 0.05})
    with pytest.raises(ArchiveError, match="choose another --dir"):
        Crawl(tmp_path / "crawl", ["http://a.test/new"], config).run()
    with pytest.raises(ArchiveError, match="choose another --dir"):
        Crawl(tmp_path / "crawl").add([A])
    assert sorted(tmp_path.rglob("*")) == before


def test_the_status_of_an_import(foreign: Path, tmp_path: Path) -> None:
    import_warc(tmp_path / "crawl", [foreign, foreign])
    found = status(tmp_path / "crawl")
    assert (found["visits"], found["known"], found["hosts"], found["frontier"]) == (6, 2, 1, 0)
    assert found["outcomes"] == {"ok": 2, "unchanged": 2, "gone": 2}
    assert found["wire_bytes"] == 2 * len(PAGE + b"gone")

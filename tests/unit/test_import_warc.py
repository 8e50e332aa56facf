"""Crawls made of WARC files that others wrote."""

import gzip
import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from sample_archive import Sample, page
from warcio.archiveiterator import ArchiveIterator
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
    for name, data in (("page.html", PAGE), ("empty.warc", b""), ("other.gz", gzip.compress(PAGE))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ConfigError, match="is no WARC file"):
            import_warc(tmp_path / "none", [foreign, tmp_path / name])
    assert not (tmp_path / "none").exists()
    import_warc(tmp_path / "crawl", [foreign])
    with pytest.raises(ConfigError, match="holds a crawl already"):
        import_warc(tmp_path / "crawl", [foreign])
    export_wacz(tmp_path / "crawl", tmp_path / "out.wacz")
    with pytest.raises(ConfigError, match="import the files in archive/"):
        import_warc(tmp_path / "none", [tmp_path / "out.wacz"])


def in_one_stream(text: bytes) -> bytes:
    return gzip.compress(text)


def in_blocks(text: bytes) -> bytes:
    """Members that begin and end anywhere."""
    return b"".join(gzip.compress(text[at : at + 100]) for at in range(0, len(text), 100))


@pytest.mark.parametrize(
    "packed",
    [bytes, in_one_stream, in_blocks, lambda text: zstandard.compress(text[:500]) + zstandard.compress(text[500:])],
)
def test_other_compressions(foreign: Path, tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    import_warc(tmp_path / "usual", [foreign])
    other = tmp_path / "other.warc"
    other.write_bytes(packed(gzip.decompress(foreign.read_bytes())))
    found = import_warc(tmp_path / "crawl", [other])
    assert (found.answers, found.damaged) == (3, 0)
    sql = "SELECT url, time, outcome, is_revisit, digest, body(warc, warc_offset) AS body FROM visits ORDER BY time"
    assert Crawl(tmp_path / "crawl").query(sql) == Crawl(tmp_path / "usual").query(sql)
    assert main(["verify", str(tmp_path / "crawl")]) == 0
    (warc,) = (tmp_path / "crawl" / "warc").iterdir()
    with warc.open("rb") as file:
        records = ArchiveIterator(file, check_digests="raise")
        assert [record.rec_type for record in records if record.content_stream().read() or True] == [
            "warcinfo", "response", "response", "revisit",
        ]  # fmt: skip


def record(fields: str, body: bytes = PAGE, length: int | None = None) -> bytes:
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    size = len(block) if length is None else length
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http\r\n{fields}Content-Length: {size}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


DATE = "WARC-Date: 2020-02-03T04:05:06Z\r\n"
BAD = {
    "no URL": record(DATE),
    "no date": record("WARC-Target-URI: http://a.test/bad\r\n"),
    "a date that is none": record("WARC-Target-URI: http://a.test/bad\r\nWARC-Date: yesterday\r\n"),
    "before there was a web": record("WARC-Target-URI: http://a.test/bad\r\nWARC-Date: 0001-01-01T00:00:00Z\r\n"),
    "a URL that is none": record(f"WARC-Target-URI: http://[/\r\n{DATE}"),
    "no answer": record(f"WARC-Target-URI: http://a.test/bad\r\n{DATE}").replace(
        b"HTTP/1.1 200 OK", b"hello you there"
    ),
    "too long": record(f"WARC-Target-URI: http://a.test/bad\r\n{DATE}", length=9_000),
    "too short": record(f"WARC-Target-URI: http://a.test/bad\r\n{DATE}", length=60),
    "negative": record(f"WARC-Target-URI: http://a.test/bad\r\n{DATE}", length=-5),
    "no number": record(f"WARC-Target-URI: http://a.test/bad\r\n{DATE}").replace(b"Length: ", b"Length: x"),
    "no length": record(f"WARC-Target-URI: http://a.test/bad\r\n{DATE}").replace(b"Content-Length", b"Content-Size"),
    "no end": record(f"WARC-Target-URI: http://a.test/bad\r\n{DATE}").removesuffix(b"\r\n\r\n"),
    "noise": bytes(range(256)) * 40,
}


@pytest.mark.parametrize("is_compressed", [True, False])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_costs_only_itself(tmp_path: Path, name: str, is_compressed: bool) -> None:
    good = [record(f"WARC-Target-URI: http://a.test/{n}\r\n{DATE}") for n in range(4)]
    records = [good[0], good[1], BAD[name], good[2], good[3]]
    path = tmp_path / "x.warc"
    path.write_bytes(b"".join(map(gzip.compress, records) if is_compressed else records))
    found = import_warc(tmp_path / "crawl", [path])
    assert found.damaged + found.unusable == 1, (found.damaged, found.unusable)
    urls = [row["url"] for row in Crawl(tmp_path / "crawl").query("SELECT url FROM visits ORDER BY url")]
    assert urls == [f"http://a.test/{n}" for n in range(4)]
    is_kept = is_compressed and found.damaged > 0  # the file is as it was
    assert main(["verify", str(tmp_path / "crawl")]) == int(is_kept)


def test_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.warc"
    path.write_bytes(record(f"WARC-Target-URI: {A}\r\n{DATE}") + BAD["no date"] + BAD["noise"])
    assert main(["import", str(path), "--dir", str(tmp_path / "crawl")]) == 0
    said = capsys.readouterr().err
    assert "1 answers of 1 pages" in said
    assert "1 stretches are no records; 1 records lack a URL, a date or an answer" in said


def test_names_of_fields_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    text = record(f"WARC-Target-URI: <{A}>\r\n{DATE.replace('Z', '')}")
    for name in (b"WARC-Type: ", b"WARC-Target-URI: ", b"WARC-Date: ", b"Content-Length: "):
        text = text.replace(name, name.lower().strip())
    path.write_bytes(gzip.compress(text))
    assert import_warc(tmp_path / "crawl", [path]).answers == 1
    (row,) = Crawl(tmp_path / "crawl").query("SELECT url, time, text(warc, warc_offset) AS text FROM visits")
    assert (row["url"], str(row["time"]), row["text"]) == (A, "2020-02-03 04:05:06", "They fly. more")


def test_of_a_stream_that_is_cut_the_beginning_counts(foreign: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.warc.gz"
    text = gzip.decompress(foreign.read_bytes())
    cut.write_bytes(
        gzip.compress(text + record(f"WARC-Target-URI: {A}x\r\n{DATE}", random.Random(1).randbytes(5000)))[:-2000]
    )
    found = import_warc(tmp_path / "crawl", [cut])
    assert (found.answers, found.damaged) == (3, 1)


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

import gzip
import json
import zipfile
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet as pq
import pytest
from sample_archive import NOW_S, TITLE, A, B, C, D, Sample, page, sample
from warcio.archiveiterator import ArchiveIterator

from gossamer.archive import export
from gossamer.archive.export import export_cdxj, export_urls, export_warc
from gossamer.archive.export_text import export_text
from gossamer.archive.store import Directory
from gossamer.archive.wacz import export_wacz
from gossamer.errors import ArchiveError, ConfigError


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample(tmp_path_factory.mktemp("export") / "crawl")


def kinds(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [record.rec_type for record in ArchiveIterator(file)]


def test_warc_in_one_file(crawl: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.warc.gz"
    assert export_warc(crawl, out) == [out]
    assert kinds(out) == [
        "warcinfo", "response", "request", "response", "request", "warcinfo", "revisit", "request",
    ]  # fmt: skip


def test_warc_in_one_file_without_compression(crawl: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.warc"
    assert export_warc(crawl, out) == [out]
    export_warc(crawl, tmp_path / "all.warc.gz")
    assert out.read_bytes() == gzip.decompress((tmp_path / "all.warc.gz").read_bytes())
    assert kinds(out) == kinds(tmp_path / "all.warc.gz")


def test_warc_files_as_they_are(crawl: Path, tmp_path: Path) -> None:
    made = export_warc(crawl, tmp_path / "new" / "directory")
    originals = sorted((crawl / "warc").iterdir())
    assert [path.name for path in made] == [path.name for path in originals]
    assert [path.read_bytes() for path in made] == [path.read_bytes() for path in originals]
    with pytest.raises(ConfigError, match="--force"):
        export_warc(crawl, tmp_path / "new" / "directory")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        export_warc(crawl, tmp_path / "file")


def test_standard_output(crawl: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert export_warc(crawl, "-") == []
    files = sorted((crawl / "warc").iterdir())
    assert capsysbinary.readouterr().out == b"".join(path.read_bytes() for path in files)
    assert export_urls(crawl, "-", "fetched") == 1
    assert capsysbinary.readouterr().out.decode() == f"{A}\n"


def test_cdxj_is_sorted_and_names_files_of_the_export(crawl: Path, tmp_path: Path) -> None:
    assert export_cdxj(crawl, tmp_path / "index.cdxj") == 3
    text = (tmp_path / "index.cdxj").read_bytes()
    lines = text.splitlines()
    assert lines == sorted(lines)
    folder = tmp_path / "warc"
    export_warc(crawl, folder)
    for line in lines:
        entry = json.loads(line.split(b" ", 2)[2])
        with (folder / entry["filename"]).open("rb") as file:
            file.seek(int(entry["offset"]))
            record = gzip.decompress(file.read(int(entry["length"])))
        assert f"WARC-Target-URI: {entry['url']}\r\n".encode() in record
    export_cdxj(crawl, tmp_path / "steps.cdxj", open_files=1)  # so that files are merged in steps
    assert (tmp_path / "steps.cdxj").read_bytes() == text


def test_urls(crawl: Path, tmp_path: Path) -> None:
    out = tmp_path / "urls.txt"
    assert export_urls(crawl, out) == 4
    assert out.read_text().splitlines() == [A, B, D, C]
    with pytest.raises(ConfigError, match="one of all, fetched"):
        export_urls(crawl, out, "some")


def test_text(crawl: Path, tmp_path: Path) -> None:
    expected: dict[str, object] = {"url": A, "title": TITLE, "language": "en", "text": "Gossamer & wind"}
    expected |= {"noindex": False, "not_for": "", "licences": [], "digest": "S7X2PC6X37ELYM3W5NFYU33FL4Z3GZ22"}
    assert export_text(crawl, tmp_path / "text.jsonl") == 1
    (line,) = (tmp_path / "text.jsonl").read_text().splitlines()
    assert json.loads(line) == {**expected, "time": "2025-06-15T15:07:40.250Z"}
    assert export_text(crawl, tmp_path / "text.parquet") == 1
    (row,) = pq.read_table(tmp_path / "text.parquet").to_pylist()
    assert row.pop("time").timestamp() == NOW_S + 60
    assert row == expected


def test_requisites_are_no_pages(tmp_path: Path) -> None:
    style = "http://a.test/style.css"
    visits = [page(A, "<p>a page"), page(style, "p { color: red }", kind="requisite")]
    Sample(tmp_path / "crawl").commit([A, style], visits)
    assert export_urls(tmp_path / "crawl", tmp_path / "urls.txt") == 1
    assert export_text(tmp_path / "crawl", tmp_path / "text.jsonl") == 1
    export_wacz(tmp_path / "crawl", tmp_path / "out.wacz")
    with zipfile.ZipFile(tmp_path / "out.wacz") as archive:
        pages = archive.read("pages/pages.jsonl").splitlines()[1:]
        index = gzip.decompress(archive.read("indexes/index.cdx.gz"))
    assert [json.loads(line)["url"] for line in pages] == [A]
    assert style.encode() in index


def test_text_of_many_pages_in_batches(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    urls = [f"http://a.test/{number:03d}" for number in range(150)]
    Sample(tmp_path / "crawl").commit(urls, [page(url, f"<p>{url}", after_s=i) for i, url in enumerate(urls)])
    assert export_text(tmp_path / "crawl", tmp_path / "text.parquet", group_characters=1000) == 150
    file = pq.ParquetFile(tmp_path / "text.parquet")
    assert file.num_row_groups > 1
    assert file.read().column("text").to_pylist() == urls
    assert export_text(tmp_path / "crawl", "-") == 150
    assert [json.loads(line)["url"] for line in capsysbinary.readouterr().out.splitlines()] == urls


def test_an_empty_crawl(tmp_path: Path) -> None:
    Directory.prepare(tmp_path / "crawl", NOW_S)
    assert export_warc(tmp_path / "crawl", tmp_path / "a.warc.gz") == [tmp_path / "a.warc.gz"]
    assert export_cdxj(tmp_path / "crawl", tmp_path / "a.cdxj") == 0
    assert export_urls(tmp_path / "crawl", tmp_path / "a.txt") == 0
    assert export_text(tmp_path / "crawl", tmp_path / "a.jsonl") == 0
    assert export_text(tmp_path / "crawl", tmp_path / "a.parquet") == 0
    assert (tmp_path / "a.txt").read_bytes() == b""


def test_nothing_is_overwritten_unasked(crawl: Path, tmp_path: Path) -> None:
    out = tmp_path / "urls.txt"
    out.write_text("mine")
    with pytest.raises(ConfigError, match="--force"):
        export_urls(crawl, out)
    assert out.read_text() == "mine"
    assert export_urls(crawl, out, force=True) == 4
    with pytest.raises(ConfigError, match="is a directory"):
        export_text(crawl, tmp_path)
    with pytest.raises(ConfigError, match="make it first"):
        export_urls(crawl, tmp_path / "absent" / "urls.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["urls.txt"]


def test_a_failed_export_leaves_nothing(tmp_path: Path) -> None:
    sample(tmp_path / "crawl")
    for path in (tmp_path / "crawl" / "warc").iterdir():
        path.unlink()
    for out in ("all.warc.gz", "text.jsonl", "text.parquet"):
        with pytest.raises(ArchiveError, match="damaged"):
            (export_warc if out.endswith("gz") else export_text)(tmp_path / "crawl", tmp_path / out)
    with pytest.raises(ArchiveError, match="damaged"):
        export_warc(tmp_path / "crawl", "-")
    assert [path.name for path in tmp_path.iterdir()] == ["crawl"]


@pytest.fixture
def merging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A crawl that merges its files when an export has copied the first; the files that it asked for."""
    archive = Sample(tmp_path / "crawl")
    for url in (A, B, D):  # rounds of about the same size, or they would not be merged yet
        archive.commit([url], [page(url, f"<p>{url}")])
    original = export._append
    sources: list[str] = []

    def append(source: Path, file: BinaryIO, inflated: bool = False) -> None:
        if len(sources) == 1:
            archive.merge()
        sources.append(source.name)
        original(source, file, inflated)

    monkeypatch.setattr(export, "_append", append)
    return sources


def test_an_export_begins_anew_when_files_were_merged(tmp_path: Path, merging: list[str]) -> None:
    (made,) = export_warc(tmp_path / "crawl", tmp_path / "all.warc.gz")
    with made.open("rb") as file:
        urls = [record.rec_headers.get_header("WARC-Target-URI") for record in ArchiveIterator(file)]
    assert urls == [None, A, A, None, B, B, None, D, D]
    assert len(set(merging)) == 3


def test_what_was_written_to_standard_output_is_not_repeated(
    tmp_path: Path, merging: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with pytest.raises(ArchiveError, match="run the same command again"):
        export_warc(tmp_path / "crawl", "-")
    assert len(merging) == 2
    assert capsysbinary.readouterr().out

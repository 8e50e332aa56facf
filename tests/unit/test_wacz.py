"""WACZ files: what is in them, that their digests are right, and that others accept them."""

import gzip
import hashlib
import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from sample_archive import Sample, page

from gossamer.archive.wacz import export_wacz
from gossamer.archive.warc_reader import read_record
from gossamer.errors import ConfigError

URLS = [f"http://a.test/{n}" for n in range(7)]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    sample = Sample(tmp_path / "crawl")
    for urls in (URLS[:4], URLS[4:]):
        sample.commit(urls, [page(url, f"<title>{url}</title><p>the text of {url}", title=url) for url in urls])
    (found,) = export_wacz(tmp_path / "crawl", tmp_path / "out.wacz", title="Spiders", block_lines=3)
    return found


def test_every_file_is_listed_with_its_digest(exported: Path) -> None:
    with zipfile.ZipFile(exported) as archive:
        assert archive.testzip() is None
        package = json.loads(archive.read("datapackage.json"))
        listed = {each["path"]: (each["hash"], each["bytes"]) for each in package["resources"]}
        own = {"datapackage.json", "datapackage-digest.json"}
        stored = {name: archive.read(name) for name in archive.namelist() if name not in own}
        assert listed == {
            name: (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)) for name, data in stored.items()
        }
        digest = json.loads(archive.read("datapackage-digest.json"))["hash"]
        assert digest == f"sha256:{hashlib.sha256(archive.read('datapackage.json')).hexdigest()}"
        for name in stored:
            if name.endswith(".gz"):
                assert archive.getinfo(name).compress_type == zipfile.ZIP_STORED
    assert package["title"] == "Spiders"


def test_the_index_leads_to_every_record(exported: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(exported) as archive:
        archive.extractall(tmp_path / "all")
    blocks = (tmp_path / "all" / "indexes" / "index.cdx.gz").read_bytes()
    meta, *entries = (tmp_path / "all" / "indexes" / "index.idx").read_text().splitlines()
    assert json.loads(meta.removeprefix("!meta 0 ")) == {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}
    found = []
    for entry in entries:
        first, _, place = entry.partition(" {")
        at = json.loads("{" + place)
        lines = gzip.decompress(blocks[at["offset"] : at["offset"] + at["length"]]).decode().splitlines()
        assert lines[0].startswith(first + " {")
        found += [json.loads(line[line.index("{") :]) for line in lines]
    assert len(entries) == 3
    assert sorted(each["url"] for each in found) == URLS
    for each in found:
        record = read_record(tmp_path / "all" / "archive" / each["filename"], int(each["offset"]), int(each["length"]))
        assert record.headers["WARC-Target-URI"] == each["url"]


def test_pages_have_their_text(exported: Path) -> None:
    with zipfile.ZipFile(exported) as archive:
        head, *pages = map(json.loads, archive.read("pages/pages.jsonl").decode().splitlines())
    assert head["hasText"]
    assert {row["url"]: (row["title"], row["text"]) for row in pages} == {u: (u, f"the text of {u}") for u in URLS}
    assert len({row["id"] for row in pages}) == len(URLS)


def test_wacz_validates_it(exported: Path, pywb: str) -> None:
    code = "import sys; from wacz.main import main; sys.exit(main(sys.argv[1:]))"
    command = [pywb, "-W", "ignore", "-c", code, "validate", "-f", str(exported)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_standard_output_is_refused(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name a file"):
        export_wacz(tmp_path / "crawl", "-")

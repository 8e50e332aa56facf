"""Archives of earlier layouts can be read, those of later ones are refused by number; nobody writes to either."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sample_archive import A, B, C, D, sample

from gossamer import Config, Crawl
from gossamer.archive.export import export_cdxj, export_text, export_urls, export_warc
from gossamer.archive.query import ask
from gossamer.archive.versions import content, version, versions
from gossamer.errors import ArchiveVersion
from gossamer.repair.repair import Repair
from gossamer.repair.verify import verify
from gossamer.watch.status import status

# Columns of `visits` that came with layouts 2 and 3; `status` came while layout 1 was in use.
SINCE_3 = ["lookup_s", "connect_s", "response_s"]
SINCE_2 = [*SINCE_3, "country", "g_per_kwh", "energy_j", "energy_low_j", "carbon_g"]
SINCE = {2: SINCE_3, 1: [*SINCE_2, "status"]}


@pytest.fixture(params=[1, 2])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An archive as the version of that layout left it: fewer columns, and no checksums."""
    directory = sample(tmp_path / "crawl")
    for path in (directory / "tables").glob("visits-*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns(SINCE[request.param]), path)
    for path in (directory / "manifest" / "a0").iterdir():
        body = json.loads(path.read_bytes())
        for field in ("sums", "gone", "xxh3"):
            body.pop(field, None)
        path.write_text(json.dumps(body))
    (directory / "gossamer.json").write_text(json.dumps({"layout": request.param, "created": 1.0}))
    return directory


def test_an_earlier_layout_can_be_read(old: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    rows = ask(old, "SELECT url, status FROM pages ORDER BY url")
    assert {row["url"]: row["status"] for row in rows} == {A: "fetched", B: "moved", C: "failed", D: "new"}
    assert ask(old, "SELECT DISTINCT connect_s FROM visits") == [{"connect_s": None}]
    assert [row["status"] for row in ask(old, f"SELECT status FROM visits WHERE url = '{A}'")] == ["fetched"] * 2
    assert status(old)["visits"] == 2
    assert [row["visits"] for row in versions(old, A)] == [2]
    assert content(old, version(old, A), as_text=True) == b"Gossamer & wind"
    assert verify(old).faults == []
    assert export_urls(old, tmp_path / "urls") == 4
    assert export_cdxj(old, tmp_path / "cdxj") == 3
    assert export_text(old, tmp_path / "text.jsonl") == 1
    assert export_warc(old, tmp_path / "out.warc.gz") == [tmp_path / "out.warc.gz"]
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before


def test_an_earlier_layout_is_not_crawled_on(old: Path) -> None:
    with pytest.raises(ArchiveVersion, match=r"has layout \d, this Gossamer writes layout 3: it can be read"):
        Crawl(old, [A], Config().replace({"fetch.contact": "me@example.org"})).run()
    with pytest.raises(ArchiveVersion, match="it can be read"):
        Repair(old, 1.0).plan()
    with pytest.raises(ArchiveVersion, match="it can be read"):
        Crawl(old).add([A])


def test_a_later_layout_is_refused_by_number(tmp_path: Path) -> None:
    directory = sample(tmp_path / "crawl")
    (directory / "gossamer.json").write_text(json.dumps({"layout": 99, "created": 1.0}))
    with pytest.raises(ArchiveVersion, match="has layout 99, this Gossamer knows layouts up to 3"):
        ask(directory, "SELECT 1")

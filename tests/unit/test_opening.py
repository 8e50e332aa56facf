"""What a crawl finds in its directory when it begins."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gossamer.archive.chain import Chain
from gossamer.archive.store import Directory, Memory
from gossamer.archive.tables import write_table
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.columns import ROBOTS
from gossamer.crawl import opening
from gossamer.errors import ArchiveError


def test_robots_files_that_are_still_good_come_few_at_a_time_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_FEW", 3)
    store, names = Memory(), []
    for number in (1, 2):
        origins = [f"http://{number}-{i}.test" for i in range(10)]
        expires = [100.0 + i for i in range(10)]
        values: dict[str, Any] = {"origin": origins, "time": 1.0, "expires": expires, "http_status": 200}
        values |= {"verdict": "rules", "body": [b"x"] * 10}
        names += write_table(store, ROBOTS, "a0", number, values).added["robots"]
    chain = cast(Chain, SimpleNamespace(agent="a0", zones=range(ZONES_IN_ALL), files={"robots": names}))
    found = [row["origin"] for row in opening.robots_rows(store, chain, now_s=105.0)]
    assert found == [f"http://{number}-{i}.test" for number in (1, 2) for i in range(6, 10)]


@pytest.mark.parametrize("data", [None, b"", b"PAR1 and no more"])
def test_a_damaged_file_is_named(tmp_path: Path, data: bytes | None) -> None:
    store = Directory.prepare(tmp_path, 1.0)
    name = "tables/robots-a0-00000001.parquet"
    if data is not None:
        (tmp_path / "tables").mkdir()
        (tmp_path / name).write_bytes(data)
    chain = cast(Chain, SimpleNamespace(agent="a0", zones=range(ZONES_IN_ALL), files={"robots": [name]}))
    with pytest.raises(ArchiveError, match=f"{name} is missing or damaged"):
        list(opening.robots_rows(store, chain, now_s=1.0))

"""`gossamer extract` at an address: the same items as in a directory, in one commit, and nobody else's work is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crawls import crawl
from object_stores import Server, at

from gossamer import Crawl
from gossamer.archive.chain import Chain
from gossamer.archive.object_store import ObjectStore
from gossamer.cli.app import main
from gossamer.config.folders import folder_of
from gossamer.errors import Deposed
from gossamer.functions import again
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec.plain(seed=4, hosts=3, pages=40, links=6.0)
ROWS = "SELECT url, function, number, item FROM items ORDER BY ALL"


def rows(place: Any) -> list[dict[str, Any]]:
    return Crawl(place).query(ROWS)


def test_functions_run_over_a_bucket(
    object_servers: Callable[[str], Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weed = object_servers("seaweedfs")
    address = weed.address()
    with RunningWeb(SPEC, log_path=tmp_path / "log") as web, at(weed, tmp_path / "one"):
        crawl(web, tmp_path / "c", {"crawl.width": 15})
        crawl(web, address, {"crawl.width": 15})
    functions = ["page_functions:heading", "page_functions:longer"]
    again.extract(tmp_path / "c", functions, "", 2e9, lambda *_: None, workers=1)
    with at(weed, tmp_path / "two"):  # another machine, with an empty cache
        assert main(["extract", address, *functions, "--workers", "1"]) == 0
        assert rows(address) == rows(tmp_path / "c")
        assert main(["verify", address]) == 0
        assert not list((folder_of(address) / "extract").iterdir())
        before, commit = rows(address), again._commit

        def overtaken(*arguments: Any) -> Any:
            Chain.take_over(ObjectStore.open(address), "a0", again._Nobody(), 2e9)  # as a crawl that starts elsewhere
            return commit(*arguments)

        monkeypatch.setattr(again, "_commit", overtaken)
        with pytest.raises(Deposed, match="let only one run"):
            again.extract(address, ["page_functions:size"], "", 2e9, lambda *_: None, workers=1)
        assert rows(address) == before
        monkeypatch.setattr(again, "_commit", commit)
        monkeypatch.setattr(again._Again, "_rows", None)  # what was done is kept: no function runs again
        done = again.extract(address, ["page_functions:size"], "", 2e9, lambda *_: None, workers=1)
        assert len(rows(address)) == len(before) + done.items > len(before)
    with RunningWeb(SPEC, log_path=tmp_path / "log") as web, at(weed, tmp_path / "one"):
        crawl(web, address, {"crawl.width": 15}, [])  # it goes on after that
        assert len(rows(address)) == len(before) + done.items

"""`gossamer simulate DIR` says what another order would have brought of the links that a crawl has found."""

import json
from pathlib import Path

import pytest
from crawls import crawl

from gossamer.cli import app as cli
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec


def test_a_crawl_is_simulated_from_its_own_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("numba")
    with RunningWeb(WebSpec.plain(seed=4, hosts=5, pages=150, links=6.0, page_bytes=800.0)) as web:
        found = crawl(web, tmp_path / "crawl")
    (count,) = found.query("SELECT count(*) AS pages FROM pages")
    asked = ["simulate", str(found.directory), "--delay", "0", "--connections", "1"]
    orders = ("opic", "relevance", "historical-pagerank-parent")
    more = ["--topic", "gardening and chess", "--history", str(found.directory)]
    assert cli.main([*asked, *(f"--order={name}" for name in orders), *more, "--json"]) == 0
    rows = {row["order"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert set(rows) == set(orders)
    for row in rows.values():
        assert row["pages"] == count["pages"]
        assert 0 < row["at_10_percent"] < row["average"] <= 1
    assert cli.main([*asked, "--order", "breadth-first"]) == 0
    assert "hosts of its URLs; start pages: 1" in capsys.readouterr().out

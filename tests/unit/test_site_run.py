"""One `site run`, though the list of sites changes meanwhile."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sample_archive import Sample, page

from gossamer.archive.state import Counters
from gossamer.archive.store import Directory
from gossamer.cluster.federation import SiteRun, prepare
from gossamer.cluster.federation_file import load
from gossamer.cluster.supervisor import SITES_CHANGE, Supervisor
from gossamer.cluster.totals import committed
from gossamer.crawl.stats import Stats

SITES = """[fetch]
contact = "me@gossamer-tests.org"
[sites.paris]
address = "127.0.0.1:4001"
[sites.lima]
address = "127.0.0.1:4002"
"""


def test_it_goes_on_with_its_figures_when_the_list_of_sites_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.toml"
    path.write_text(SITES)
    prepare(load(path))
    shown: list[Stats] = []

    def run(self: Supervisor, show: Callable[[Stats], None]) -> Stats:
        """Without a server: each run commits a visit, and the first sees a new list of sites."""
        number = len(shown) + 1
        counters = Counters(visits=number, wire_bytes=100 * number, outcomes={"ok": number})
        url = f"http://a.test/{number}"
        Sample(tmp_path / "paris", "paris_a0").commit([url], [page(url, "x")], counters=counters)
        path.write_text(f"[federation]\nversion = 2\n{SITES}gone = true\n")
        show(self.totals.now([], ""))
        after = committed(Directory(tmp_path / "paris"))
        return self.totals.final(after, SITES_CHANGE if number == 1 else "stopped")

    monkeypatch.setattr(Supervisor, "run", run)
    stats = SiteRun(path, "paris", []).run(shown.append)
    assert (stats.ended, stats.run_visits, stats.wire_bytes, stats.outcomes) == ("stopped", 2, 200, {"ok": 2})
    assert shown[0].elapsed_s < shown[1].elapsed_s
    assert capsys.readouterr().err == "gossamer: version 2 of the list of sites: paris (lima is gone)\n"

from pathlib import Path

from sample_archive import sample

from gossamer.cluster import hub, store_registrar
from gossamer.watch.monitor import Monitor
from gossamer.watch.reports import MEETINGS

FEDERATION = """
[sites.paris]
address = "127.0.0.1:1"
[sites.tokyo]
address = "127.0.0.1:2"
"""


def test_agents_report_where_hubs_are() -> None:
    assert (hub.FOLDER, store_registrar.FOLDER.rstrip("/")) == MEETINGS


def test_a_site_elsewhere_is_missed_after_it_was_asked(tmp_path: Path) -> None:
    sample(tmp_path / "paris")
    path = tmp_path / "sites.toml"
    path.write_text(FEDERATION)
    monitor = Monitor(path)
    monitor.check()
    assert {row["site"]: row["state"] for row in monitor.sites()["sites"]}["tokyo"] == "asking"
    assert monitor.problems() == []
    monitor.look(1_000_000.0)
    monitor.wait()
    assert {row["site"]: row["state"] for row in monitor.sites()["sites"]}["tokyo"] == "not reached"
    assert [problem["what"] for problem in monitor.problems()] == ["No answer from tokyo."]
    monitor.close()

"""A crawl with one agent is the core and nothing else: neither sharing nor the cluster, nor what nobody asked for."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gossamer
from gossamer import Config, Crawl
from gossamer.country_facts import WORLD_G_PER_KWH
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.watch.status import status

BEYOND = {
    "sharing", "cluster", "placement", "refresh", "functions", "carbon", "scan", "sim", "testweb", "repair", "watch",
    "cli",
}  # fmt: skip
_RUN = """
import json, sys
from gossamer import Config, Crawl
directory, seed, address = sys.argv[1:]
values = {"resolve.map": {"*": address}, "polite.delay_s": 0.0, "crawl.pages": 20}
stats = Crawl(directory, [seed], Config().replace(values)).run()
print(json.dumps([stats.visits, sorted(name for name in sys.modules if name.startswith("gossamer."))]))
"""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWeb]:
    with RunningWeb(
        WebSpec.plain(seed=4, hosts=3, pages=60, links=6.0), log_path=tmp_path_factory.mktemp("web") / "log"
    ) as running:
        yield running


def _imports(path: Path) -> Iterator[str]:
    """Also those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)


def test_the_crawl_package_imports_nothing_beyond_the_core() -> None:
    folder = Path(gossamer.__file__).parent / "crawl"
    found = {
        f"{path.name}: {name}"
        for path in folder.glob("*.py")
        for name in _imports(path)
        if name.startswith("gossamer.") and name.split(".")[1] in BEYOND
    }
    assert not found


def test_one_agent_runs_the_core_alone(web: RunningWeb, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RUN, str(tmp_path / "c"), web.start_urls[0], web.address]
    visits, modules = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert visits == 20
    assert not {name for name in modules if name.split(".")[1] in BEYOND}


def test_what_visits_cost_follows_from_their_rows(web: RunningWeb, tmp_path: Path) -> None:
    """Nobody asked for an account of carbon, and there is one all the same: by the bytes, and by the country."""
    config = Config().replace({"resolve.map": {"*": web.address}, "polite.delay_s": 0.0, "crawl.pages": 20})
    crawl = Crawl(tmp_path / "c", web.start_urls, config)
    crawl.run()
    (row,) = crawl.query(
        "SELECT count(*) AS visits, sum(wire_bytes)::BIGINT AS wire_bytes, sum(energy_j) AS energy_j,"
        " sum(energy_low_j) AS energy_low_j, sum(carbon_g) AS carbon_g, max(country) AS country FROM visits"
    )
    carbon = config.carbon
    for name, kwh in (("energy_j", carbon.kwh_per_gb), ("energy_low_j", carbon.kwh_per_gb_low)):
        assert row[name] == pytest.approx(kwh * 3.6e-3 * row["wire_bytes"] + carbon.request_j * row["visits"])
    assert row["carbon_g"] == pytest.approx(row["energy_j"] / 3.6e6 * WORLD_G_PER_KWH)  # loopback is nowhere
    assert row["country"] == ""
    at = status(tmp_path / "c")
    assert at["costs"]["carbon_g"] == pytest.approx(row["carbon_g"])
    (host,) = crawl.query("SELECT sum(energy_low_j) AS energy_low_j FROM hosts")
    assert host["energy_low_j"] == pytest.approx(row["energy_low_j"])

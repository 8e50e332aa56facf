"""Agents that share nothing but a store, killed, stopped, added and retired: the crawl ends as if in peace."""

import random
import signal
import time
from pathlib import Path

import pytest
from site_support import Site
from test_site_faults import FAULTS, OPTIONS, World, check, disturbed
from test_site_faults import world as world

# Small rounds, so that there is something new between two of many kills.
STORE = [*OPTIONS, "--set", "site.exchange=store", "--width", "6"]


def of_each(number: int) -> list[str]:
    faults = [fault for fault in FAULTS if fault != "kill server"]
    random.Random(number).shuffle(faults)
    return faults


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("faults", "agents"),
    [
        pytest.param(["kill agent"] * 5, 2, id="killed"),
        pytest.param(["kill agent"] * 40, 2, id="killed 40 times", marks=pytest.mark.slow),
        pytest.param(of_each(2), 3, id="one of each", marks=pytest.mark.slow),
        pytest.param(["stop agent"] * 3, 2, id="stopped", marks=pytest.mark.slow),
    ],
)
def test_as_if_nothing_had_happened(world: World, tmp_path: Path, faults: list[str], agents: int) -> None:
    site, start_s = Site(world.web, tmp_path / "crawl", STORE), time.time()
    with site.cared_for():
        trouble = disturbed(site, world, faults, random.Random(str(faults)), [agents])
    assert len(trouble.done) == len(faults)
    killed = sum(event.get("code") == -signal.SIGKILL for event in site.log_events())
    assert killed >= faults.count("kill agent")
    assert not (site.directory / "site").exists(), "there was no server"
    check(site, world, trouble, start_s)

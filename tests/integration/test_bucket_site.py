"""Agents that share nothing but a bucket, each with a cache of its own, as on machines of their own."""

import contextlib
import signal
from pathlib import Path

import pytest
from commands import Process, answer, running
from object_stores import Server, at
from test_bucket import SPEC as SPEC
from test_bucket import command, statuses
from test_bucket import plain as plain
from test_bucket import weed as weed

from gossamer.archive.chain import snapshots
from gossamer.archive.object_store import ObjectStore
from gossamer.archive.places import exists
from gossamer.config.folders import Address
from gossamer.testweb.running import RunningWeb

SHARED = ("--agents", "2", "--set", "crawl.patience_s=3", "--set", "site.lease_s=4", "--set", "fetch.timeout_s=3")


def visits(address: Address) -> int:
    return sum(at.state.counters.visits for at in snapshots(ObjectStore.open(address)).values())


def test_two_agents_without_a_server(web: RunningWeb, weed: Server, plain: dict[str, str], tmp_path: Path) -> None:
    address = weed.address()
    with at(weed, tmp_path / "cache"):
        with running(*command(web, address, *SHARED, "--set", "site.exchange=store"), at=tmp_path) as process:
            code, _, said = process.finish()
        assert (code, said) == (0, "")
        assert {row["state"] for row in answer("agents", address, "--json", at=tmp_path)["agents"]} == {"ended"}
        assert statuses(address, tmp_path) == plain


@pytest.mark.slow
def test_machines_join_by_the_address_of_a_bucket(
    web: RunningWeb, weed: Server, plain: dict[str, str], tmp_path: Path
) -> None:
    """One of them is lost, and another comes, with an empty cache."""
    address = weed.address()
    with contextlib.ExitStack() as stack:

        def machine(number: int, *words: str) -> Process:
            with at(weed, tmp_path / f"cache{number}"):
                return stack.enter_context(running(*words, at=tmp_path))

        crawl = machine(0, *command(web, address, *SHARED, "--engine", "pull", "--delay", "0.5"))
        with at(weed, tmp_path / "looking"):
            crawl.wait_until(lambda: exists(address), "the crawl")
            joined = [machine(number, "agent", "join", address) for number in (1, 2)]
            crawl.wait_until(lambda: visits(address) > 60, "visits")
            joined[0].signal(signal.SIGKILL)
            joined.append(machine(3, "agent", "join", address))
            code, _, said = crawl.finish()
            assert (code, said) == (0, "")
            assert statuses(address, tmp_path) == plain
        for one in joined[1:]:
            one.signal(signal.SIGTERM)
            assert one.finish()[0] == 0

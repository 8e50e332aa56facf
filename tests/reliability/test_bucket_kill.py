"""Machines that share nothing but a bucket, each with a cache of its own, killed at random: the crawl ends as if in
peace, and was polite throughout."""

import contextlib
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import Process, running
from object_stores import Server, at
from site_support import check_same, check_served, since
from test_site_faults import DELAY_S, OPTIONS, WIDTH, World
from test_site_faults import world as world

from gossamer.archive.chain import snapshots
from gossamer.archive.object_store import ObjectStore
from gossamer.archive.places import exists
from gossamer.config.folders import Address

PULL = [*OPTIONS, "--engine", "pull", "--agents", "2", "--width", "6", "--quiet"]
PATIENCE_S = 600.0


class Machines:
    """Two workers, `gossamer agent join`, each a process that stands for a machine with a cache of its own."""

    def __init__(self, stack: contextlib.ExitStack, weed: Server, address: Address, scratch: Path) -> None:
        self._stack, self._weed, self._address, self._scratch = stack, weed, address, scratch
        self.running = {number: self._join(number) for number in range(2)}

    def _join(self, number: int) -> Process:
        with at(self._weed, self._scratch / f"cache{number}"):
            return self._stack.enter_context(running("agent", "join", self._address, at=self._scratch))

    def lose(self, chance: random.Random) -> None:
        """One is killed. It comes back with the cache that it had, or, as a new machine would, with none."""
        number = chance.randrange(2)
        self.running[number].inner.kill()
        self.running[number].inner.wait()
        if chance.random() < 0.5:
            shutil.rmtree(self._scratch / f"cache{number}", ignore_errors=True)
        self.running[number] = self._join(number)


@pytest.fixture
def weed(object_servers: Callable[[str], Server]) -> Server:
    return object_servers("seaweedfs")


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def downloaded(address: Address, target: Path) -> Path:
    """All of the archive, as its user would copy it."""
    store = ObjectStore.open(address, read_only=True)
    for name in store.list(""):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(name))
    return target


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("times", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_two_machines_and_a_bucket(
    world: World, weed: Server, stack: contextlib.ExitStack, tmp_path: Path, times: int
) -> None:
    address, start_s, chance = weed.address(), time.time(), random.Random(times)
    words = ["crawl", *world.web.start_urls, "--dir", address, "--testweb", world.web.address, *PULL]
    with at(weed, tmp_path / "supervisor"):
        crawl = stack.enter_context(running(*words, at=tmp_path))
    with at(weed, tmp_path / "looking"):
        crawl.wait_until(lambda: exists(address), "the crawl")
        store = ObjectStore.open(address, read_only=True)
        machines = Machines(stack, weed, address, tmp_path)

        def visits() -> int:
            return sum(found.state.counters.visits for found in snapshots(store).values())

        for place in range(times):
            due = world.visits * (place + 1) // (times + 2)
            crawl.wait_until(lambda due=due: visits() >= due, f"{due} visits")
            time.sleep(chance.uniform(0.0, 0.5))
            machines.lose(chance)
        code, _, said = crawl.finish(PATIENCE_S)
        assert (code, said) == (0, "")
        copy = downloaded(address, tmp_path / "copy")
    check_same(copy, world.undisturbed)
    check_served(since(world.web.log(), start_s), world.web.truth, copy, DELAY_S, times * 2 * WIDTH)

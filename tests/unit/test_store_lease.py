"""Which of several processes leads a site that has nothing but a store."""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from nats_site import eventually
from store_site import Mount

from gossamer.archive.store import Directory, Memory
from gossamer.cluster.protocol import encode
from gossamer.cluster.store_lease import LEAD, SiteLease, Term, _machine, leader

LEASE_S = 1.0


def taken(store: Memory | Directory, is_alone: bool = False) -> SiteLease:
    lease = SiteLease(store, LEASE_S, is_alone)
    assert lease.take(lambda _: True)
    return lease


def says(pid: int, machine: str = "", is_alone: bool = True) -> bytes:
    return encode(Term(machine=machine, pid=pid, is_alone=is_alone, lease_s=LEASE_S))


def dead() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_the_first_has_it_at_once_and_the_next_when_it_is_released() -> None:
    store = Memory()
    assert leader(store) is None
    first = taken(store)
    assert (first.term, first.is_quiet, first.is_held) == (1, True, True)
    found = leader(store)
    assert found is not None
    assert found.pid == os.getpid()
    asked: list[Term] = []
    assert not SiteLease(store, LEASE_S).take(lambda holder: bool(asked.append(holder))), "who does not wait, has not"
    assert [holder.pid for holder in asked] == [os.getpid()]
    first.release(is_over=True)
    assert leader(store) is None
    second = taken(store)
    assert (second.term, second.is_quiet) == (2, True)
    second.release(is_over=True)


def test_whoever_says_nothing_new_for_a_lease_has_lost_it() -> None:
    store = Memory()
    first = taken(store)
    waiting = SiteLease(store, LEASE_S)
    thread = threading.Thread(target=waiting.take, args=(lambda _: True,))
    thread.start()
    beats = {store.get(f"{LEAD}00000001")}
    eventually(lambda: beats.add(store.get(f"{LEAD}00000001")) or len(beats) > 6)
    assert waiting.term == 0, "as long as it is renewed"
    first.release(is_over=False)  # as a process that was killed leaves it
    thread.join(20)
    assert (waiting.term, waiting.is_quiet) == (2, False), "its agents may be at work"
    waiting.release(is_over=True)


def test_a_holder_that_slept_sees_that_it_is_replaced() -> None:
    store = Memory()
    holder = taken(store)
    assert holder.check()
    assert store.create(f"{LEAD}00000002", says(1))
    eventually(lambda: holder.is_lost)
    assert not holder.check()
    assert not holder.is_held
    holder.release(is_over=True)
    assert leader(store) is not None, "it says nothing about its successor"


def test_of_many_who_wait_one_has_it() -> None:
    store = Memory()
    store.put(f"{LEAD}00000007", says(1, is_alone=False))
    leases = [SiteLease(store, LEASE_S) for _ in range(8)]
    give_up = threading.Event()
    threads = [threading.Thread(target=lease.take, args=(lambda _: not give_up.is_set(),)) for lease in leases]
    for thread in threads:
        thread.start()
    eventually(lambda: any(lease.term for lease in leases))
    give_up.set()
    for thread in threads:
        thread.join()
    assert [lease.term for lease in leases if lease.term] == [8]
    for lease in leases:
        lease.release(is_over=True)


@pytest.mark.skipif(not Path("/proc/self/ns/pid").is_symlink(), reason="needs Linux")
def test_a_process_of_this_machine_that_is_dead_is_not_waited_for() -> None:
    store = Memory()
    store.put(f"{LEAD}00000003", says(dead(), _machine()))
    lease = SiteLease(store, 3600.0)
    assert lease.take(lambda _: False)
    assert (lease.term, lease.is_quiet) == (4, True)
    lease.release(is_over=True)


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param(says(dead(), "another"), id="of another machine, or container"),
        pytest.param(says(dead(), _machine(), is_alone=False), id="its agents are on other machines"),
        pytest.param(says(os.getpid(), _machine()), id="it lives"),
    ],
)
def test_others_are_waited_for(holder: bytes) -> None:
    store = Memory()
    store.put(f"{LEAD}00000003", holder)
    assert not SiteLease(store, 3600.0).take(lambda _: False)
    assert store.list(LEAD) == [f"{LEAD}00000003"]


def test_while_the_store_is_gone_nobody_holds_it_and_afterwards_the_same_one(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    lease = taken(Directory.prepare(mount.path, 1.0))
    with mount.gone():
        eventually(lambda: not lease.is_held)
        assert not lease.is_lost
    eventually(lambda: lease.is_held)
    lease.release(is_over=True)

"""Processes that are watched, replaced and stopped: the same for agents, clients of scans and sites, on any engine."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats_site import eventually

from gossamer.clocks import VirtualClock
from gossamer.cluster.engine import Engine, Job
from gossamer.cluster.members import Ended, Member, Members
from gossamer.cluster.processes import Processes
from gossamer.errors import SiteError

LEASE_S, BEGIN_S, SLACK_S = 10.0, 20.0, 1.0
SLEEPS = "import time\ntime.sleep(600)"
FAILS = "raise SystemExit('no luck')"


@pytest.fixture(params=[Processes])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    (tmp_path / "job_sleeps.py").write_text(SLEEPS)
    (tmp_path / "job_fails.py").write_text(FAILS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made: Engine = request.param()
    return made


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def members(engine: Engine, clock: VirtualClock) -> Iterator[Members]:
    made = Members(engine, clock, LEASE_S, BEGIN_S, SLACK_S)
    yield made
    made.close()


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_who_does_not_report_is_silent_and_each_time_we_are_twice_as_patient(
    members: Members, clock: VirtualClock
) -> None:
    member = Member("a1")
    assert members.silent([member]) == [], "it does not run"
    members.start(member, Job("a1", "job_sleeps"))
    clock.advance(BEGIN_S + SLACK_S)
    assert members.silent([member]) == [], "it may take its time to begin"
    member.reported(clock.monotonic())
    clock.advance(LEASE_S + SLACK_S)
    assert members.silent([member]) == []
    clock.advance(0.1)
    assert members.silent([member]) == [member]
    for doubled in (2, 4):
        members.start(member, Job("a1", "job_sleeps"))
        member.reported(clock.monotonic())
        clock.advance(doubled * (LEASE_S + SLACK_S))
        assert members.silent([member]) == []
        clock.advance(0.1)
        assert members.silent([member]) == [member]


def test_one_that_hangs_is_replaced_and_killed_in_the_end(members: Members) -> None:
    member = Member("a1")
    hangs = members.start(member, Job("a1", "job_sleeps"))
    os.kill(hangs.pid, signal.SIGSTOP)
    successor = members.start(member, Job("a1", "job_sleeps"))
    assert member.handle is successor
    assert list(members.ended([member])) == []
    members.close()
    assert not is_alive(hangs.pid)
    assert not is_alive(successor.pid)


def test_the_end_of_one_that_was_replaced_is_not_that_of_its_successor(members: Members) -> None:
    member = Member("a1")
    first = members.start(member, Job("a1", "job_sleeps"))
    members.start(member, Job("a1", "job_sleeps"))
    first.kill()
    assert list(members.ended([member])) == []
    assert member.is_running


def test_each_end_is_told_once_with_what_was_said(members: Members) -> None:
    one, other = Member("a1"), Member("a2")
    members.start(one, Job("a1", "job_fails"))
    members.start(other, Job("a2", "job_sleeps"))
    [(member, ended)] = eventually(lambda: list(members.ended([one, other])))
    assert (member, ended.code) == (one, 1)
    assert ended.errors.endswith("no luck")
    assert not one.is_running
    assert other.is_running
    assert list(members.ended([one, other])) == []
    members.start(one, Job("a1", "job_sleeps"))
    assert one.is_running


def test_who_crashes_again_and_again_is_given_up() -> None:
    member = Member("a1")
    for _ in range(4):
        member.crashed(Ended(-9, ""), was_of_use=False)
    member.crashed(Ended(-9, ""), was_of_use=True)
    for _ in range(4):
        member.crashed(Ended(1, "Traceback\nValueError: x"), was_of_use=False)
    with pytest.raises(SiteError, match="process a1 died 5 times in a row: exit code 1; ValueError: x"):
        member.crashed(Ended(1, "Traceback\nValueError: x"), was_of_use=False)

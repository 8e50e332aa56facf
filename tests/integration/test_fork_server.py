"""Jobs that are forked from one process; what every engine does with them is in tests/contract/test_engine.py."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from experiments.processes import family
from gossamer.cluster import fork_server
from gossamer.cluster.engine import Handle, Job
from gossamer.cluster.fork_server import Forks

PATIENCE_S = 60.0
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")

# A module that takes long to import, and says where that happened.
NEEDED = "import os\nPROCESS = os.getpid()\n"
JOB = "import os, sys, needed\nprint(needed.PROCESS, os.getpid(), os.getppid(), flush=True)\nsys.stdin.read()\n"


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "needed.py").write_text(NEEDED)
    (tmp_path / "first_needs.py").write_text("import needed\n")
    (tmp_path / "job_forked.py").write_text(JOB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


class Started:
    """An engine and its jobs."""

    def __init__(self) -> None:
        self.engine = Forks("first_needs")
        self.handles: list[Handle] = []

    def job(self) -> tuple[int, int, int]:
        """Starts a job; returns which process has imported what it needs, the job's, and that one's parent."""
        lines: Queue[bytes | None] = Queue()
        self.handles.append(self.engine.start(Job("forked", "job_forked", task=b"x"), lines.put))
        line = lines.get(timeout=PATIENCE_S)
        assert line is not None
        imported, job, parent = map(int, line.split())
        assert job == self.handles[-1].pid
        return imported, job, parent


@pytest.fixture
def started(modules: Path) -> Iterator[Started]:
    started = Started()
    yield started
    for handle in started.handles:
        handle.close()
    started.engine.close()


def test_what_jobs_need_is_imported_once(started: Started) -> None:
    first, second = started.job(), started.job()
    assert first[0] == first[2] == second[0] == second[2], "by the process that they were forked from"
    assert first[1] != second[1]


def test_when_the_server_is_lost_its_jobs_end_and_the_next_one_begins_all_the_same(started: Started) -> None:
    server, *_ = started.job()
    os.kill(server, signal.SIGKILL)
    assert started.handles[0].wait(PATIENCE_S) == -signal.SIGKILL
    another, _, parent = started.job()
    assert another == parent != server


def test_when_the_server_hangs_its_jobs_go_on_and_others_begin(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, *_ = started.job()
    os.kill(server, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(fork_server, "_PATIENCE_S", 0.5)
        imported, job, parent = started.job()
    assert (imported, parent) == (job, os.getpid()), "it imports for itself"
    assert [handle.poll() for handle in started.handles] == [None, None]
    another, _, parent = started.job()
    assert another == parent != server
    os.kill(server, signal.SIGCONT)
    assert started.handles[0].kill() == "signal 9"


def test_a_server_that_hung_begins_no_job_that_another_process_does(
    modules: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    (modules / "job_forked.py").write_text(f"with open({str(modules / 'begun')!r}, 'a') as f:\n    f.write('x')\n{JOB}")
    server, *_ = started.job()
    os.kill(server, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(fork_server, "_PATIENCE_S", 0.5)
        started.job()
    os.kill(server, signal.SIGCONT)
    started.handles[0].close()
    assert started.engine._servers[0].wait(PATIENCE_S) == 0
    assert (modules / "begun").read_text() == "xx"


def test_where_the_server_cannot_begin_a_job_imports_for_itself(modules: Path, started: Started) -> None:
    (modules / "first_needs.py").write_text("raise SystemExit('no luck')\n")
    imported, job, parent = started.job()
    assert imported == job
    assert parent == os.getpid()


@pytest.mark.parametrize("call", ["os.pidfd_open", "signal.pidfd_send_signal"])
@pytest.mark.parametrize("is_missing", [True, False])
def test_where_no_file_can_stand_for_a_process_a_job_imports_for_itself(
    started: Started, monkeypatch: pytest.MonkeyPatch, call: str, is_missing: bool
) -> None:
    if is_missing:  # as in Python that was built for old systems
        monkeypatch.delattr(call)
    else:
        monkeypatch.setattr(call, refused)
    imported, job, parent = started.job()
    assert (imported, parent) == (job, os.getpid())
    assert started.handles[0].kill() == "signal 9"


def refused(*_: int) -> int:
    raise PermissionError("not in this container")


def test_nothing_is_left_when_it_is_closed(started: Started) -> None:
    before = {*family()}
    started.job()
    started.job()
    assert len(family()) == len(before) + 3
    started.engine.close()
    assert [handle.wait(PATIENCE_S) for handle in started.handles] == [-signal.SIGKILL] * 2
    assert {*family()} <= before
    assert started.job(), "another job may begin it again"

"""What every Engine does with a job, however that behaves."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from queue import Queue

import pull_site
import pytest

from gossamer.cluster.engine import Engine, Handle, Job
from gossamer.errors import SiteError

PATIENCE_S = 60.0
WORKERS = 12
FLOOD = 200_000  # lines
# How to make each engine; it is imported under this name by other processes, too.
ENGINES = {
    "processes": ("gossamer.cluster.processes", "Processes"),
    "forked": ("gossamer.cluster.fork_server", "Forks"),
    "pull": ("pull_site", "engine"),
    "ray": ("gossamer.cluster.ray_engine", "RayEngine"),
}

# What jobs do, as modules of their own.
MODULES = {
    "ends": "import sys\nsys.exit(int(sys.argv[1]))",
    "crashes": "print('so far')\nraise ValueError('no luck')",
    "waits": "import sys\nprint('here', flush=True)\nsys.stdin.read()",
    "echoes": "import sys\nfor line in sys.stdin:\n    print(line.strip()[::-1], flush=True)\nsys.exit(7)",
    "deaf": (
        "import signal, time\n"
        "for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n    signal.signal(each, signal.SIG_IGN)\n"
        "print('here', flush=True)\nwhile True:\n    time.sleep(60)"
    ),
    "sleeps": "import time\nprint('here', flush=True)\ntime.sleep(600)",
    "floods": (
        f"import sys\nfor number in range({FLOOD}):\n    print(number)\n    print('x' * 60, file=sys.stderr)\n"
        "print('the last words', file=sys.stderr)"
    ),
    "folder": "import os, sys\nprint(os.getcwd())\nprint(sys.argv[1:])",
}


# Ray takes seconds to begin, twenty times; tests/integration/test_ray.py has the quick one.
@pytest.fixture(params=["processes", "forked", "pull", pytest.param("ray", marks=pytest.mark.slow)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in MODULES.items():
        (tmp_path / f"job_{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


class Started:
    """Jobs of an engine; what they wrote, line by line."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.lines: Queue[bytes | None] = Queue()
        self.handles: list[Handle] = []

    def __call__(self, what: str, *arguments: str, task: bytes = b"", errors: Path | None = None) -> Handle:
        job = Job(what, f"job_{what}", arguments, task, errors)
        handle = self.engine.start(job, self.lines.put)
        self.handles.append(handle)
        return handle

    def line(self) -> bytes | None:
        return self.lines.get(timeout=PATIENCE_S)


@pytest.fixture
def machines(kind: str, jobs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What an engine runs jobs on, if that is not there already."""
    with ExitStack() as stack:
        if kind == "pull":
            monkeypatch.setenv(pull_site.STORE, str(jobs / "crawl"))
            stack.enter_context(pull_site.workers(jobs / "crawl", WORKERS))
        yield


@pytest.fixture
def start(kind: str, machines: None) -> Iterator[Started]:
    module, name = ENGINES[kind]
    started = Started(getattr(import_module(module), name)())
    yield started
    for handle in started.handles:
        handle.close()
    started.engine.close()


def eventually(look: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("code", [0, 3])
def test_it_ends_with_its_exit_code(start: Started, code: int) -> None:
    handle = start("ends", str(code))
    assert handle.wait(PATIENCE_S) == code
    assert handle.poll() == code
    assert handle.wait() == code
    assert start.line() is None
    assert handle.kill() == f"exit code {code}", "too late: it had ended"


def test_it_is_run_where_we_are_with_its_arguments(start: Started) -> None:
    start("folder", "a b", "--c", "ä")
    assert start.line() == os.getcwd().encode()
    assert start.line() == str(["a b", "--c", "ä"]).encode()


def test_one_that_runs_has_no_exit_code_yet(start: Started) -> None:
    handle = start("waits", task=b"x")
    assert start.line() == b"here"
    assert handle.poll() is None
    assert handle.wait(0.01) is None
    assert is_alive(handle.pid)


def test_lines_go_to_and_fro_in_order(start: Started) -> None:
    handle = start("echoes", task=b"0")
    sent = [b"0", *(b"%d" % number for number in range(1000, 2000)), b"y" * 1_000_000]
    for line in sent[1:]:
        handle.send(line)
    assert [start.line() for _ in sent] == [line[::-1] for line in sent]


def test_a_crash_says_why(start: Started, tmp_path: Path) -> None:
    for errors in (None, tmp_path / "new" / "job.err"):
        handle = start("crashes", errors=errors)
        assert handle.wait(PATIENCE_S) == 1
        assert [start.line(), start.line()] == [b"so far", None]
        assert handle.errors().endswith("ValueError: no luck")
        handle.close()
        assert handle.errors().endswith("ValueError: no luck"), "also afterwards"
    assert (tmp_path / "new" / "job.err").read_text().endswith("ValueError: no luck\n")


def test_lines_to_one_that_has_ended_are_lost(start: Started) -> None:
    handle = start("ends", "0", task=b"x")
    handle.wait(PATIENCE_S)
    for _ in range(3):
        handle.send(b"x" * 100_000)
    handle.close()
    handle.send(b"x")


def test_one_that_is_asked_to_may_end(start: Started) -> None:
    handle = start("sleeps")
    assert start.line() == b"here"
    handle.stop()
    assert handle.wait(PATIENCE_S) not in (None, 0)
    handle.stop()


def test_one_that_ignores_that_is_killed(start: Started) -> None:
    handle = start("deaf")
    assert start.line() == b"here"
    handle.stop()
    assert handle.wait(0.2) is None
    assert handle.kill() == "signal 9"
    assert handle.poll() == -signal.SIGKILL
    assert handle.kill() == "signal 9"
    assert not is_alive(handle.pid)
    assert start.line() is None


def test_one_that_hangs_is_killed(start: Started) -> None:
    handle = start("sleeps")
    assert start.line() == b"here"
    os.kill(handle.pid, signal.SIGSTOP)
    assert handle.kill() == "signal 9"


def test_one_that_somebody_else_kills_is_noticed(start: Started) -> None:
    handle = start("sleeps")
    assert start.line() == b"here"
    os.kill(handle.pid, signal.SIGKILL)
    assert start.line() is None
    assert handle.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_flood_of_output_hinders_nobody(start: Started, tmp_path: Path) -> None:
    handle = start("floods", errors=tmp_path / "errors")
    assert handle.wait(PATIENCE_S) == 0
    lines = [start.line() for _ in range(FLOOD + 1)]
    assert lines == [*(b"%d" % number for number in range(FLOOD)), None]
    assert handle.errors().endswith("the last words")
    assert len(handle.errors()) < 100_000, "an error message quotes the end of it"


def test_output_that_nobody_wants_is_thrown_away(start: Started) -> None:
    handle = start.engine.start(Job("floods", "job_floods"))
    start.handles.append(handle)
    assert handle.wait(PATIENCE_S) == 0
    assert handle.errors().endswith("the last words")


def test_close_waits_then_kills_and_may_come_twice(start: Started) -> None:
    patient, deaf = start("echoes", task=b"ab"), start("deaf")
    assert {start.line(), start.line()} == {b"ba", b"here"}
    deaf.close()
    assert deaf.poll() == -signal.SIGKILL
    timer = threading.Timer(0.2, lambda: os.kill(patient.pid, signal.SIGTERM))
    timer.start()
    patient.close(PATIENCE_S)
    timer.join()
    assert patient.poll() == -signal.SIGTERM, "it had the time to end"
    for handle in (patient, deaf):
        handle.close()
        handle.close(1.0)
        assert handle.poll() is not None


def test_many_at_once(start: Started) -> None:
    handles = [start("echoes", task=b"%d0" % number) for number in range(12)]
    assert {start.line() for _ in handles} == {(b"%d0" % number)[::-1] for number in range(12)}
    assert len({handle.pid for handle in handles}) == 12
    for handle in handles:
        handle.close()
    assert not any(is_alive(handle.pid) for handle in handles)


def test_it_says_how_many_more_can_begin(start: Started, kind: str) -> None:
    eventually(lambda: start.engine.room() >= WORKERS)
    handles = [start("waits", task=b"x") for _ in range(3)]
    assert [start.line() for _ in handles] == [b"here"] * 3
    eventually(lambda: start.engine.room() == (WORKERS - 3 if kind == "pull" else math.inf))
    assert start.engine.cores() >= 1
    for handle in handles:
        handle.close()
    eventually(lambda: start.engine.room() >= WORKERS)


def test_a_module_that_is_not_there_is_named(start: Started) -> None:
    handle = start.engine.start(Job("lost", "no_such_module"))
    start.handles.append(handle)
    assert handle.wait(PATIENCE_S) == 1
    assert "no_such_module" in handle.errors().splitlines()[-1]


@pytest.mark.parametrize("job", [Job("odd", "job_ends", ("\0",)), Job("odd", "job_ends", errors=Path("/proc/none/x"))])
def test_a_job_that_cannot_be_started_is_refused_by_name(start: Started, job: Job) -> None:
    with pytest.raises(SiteError, match="odd cannot be started: "):
        start.engine.start(job)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_none_outlives_its_supervisor(kind: str, jobs: Path, machines: None, is_stopped: bool) -> None:
    """Not even one that does not listen, or that is stopped."""
    module, name = ENGINES[kind]
    text = (
        f"import threading, time\nfrom {module} import {name} as Kind\nfrom gossamer.cluster.engine import Job\n"
        "is_there = threading.Event()\n"
        "handle = Kind().start(Job('deaf', 'job_deaf'), lambda line: is_there.set())\n"
        "is_there.wait()\nprint(handle.pid, flush=True)\ntime.sleep(600)\n"
    )
    (jobs / "supervising.py").write_text(text)
    path = os.pathsep.join([str(jobs), *(str(Path(__file__).parents[at]) for at in (1, 2))])
    supervisor = subprocess.Popen(
        [sys.executable, str(jobs / "supervising.py")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    with supervisor:
        assert supervisor.stdout is not None
        pid = int(supervisor.stdout.readline())
        try:
            if is_stopped:
                os.kill(pid, signal.SIGSTOP)
            supervisor.kill()
            eventually(lambda: not is_alive(pid))
        finally:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)

"""This module has what the engine `Pull` and its workers write to the store for each other, and how both look at it.

A worker reports again and again that it is there (`workers/NAME`). Its next piece of work is `work/NAME/NUMBER`. Of a
job there are two sequences of numbered files: what the job is sent (`jobs/ID/in/NUMBER`), and what its worker reports
of it (`jobs/ID/out/NUMBER`). Nobody compares clocks: who reports nothing new for a lease is gone, by the monotonic
clock of whoever looks.
"""

from gossamer.clocks import Clock
from gossamer.cluster.engine import Job
from gossamer.cluster.protocol import Versioned
from gossamer.cluster.store_registrar import FOLDER

WORKERS, WORK, JOBS, ENGINES = f"{FOLDER}workers/", f"{FOLDER}work/", f"{FOLDER}jobs/", f"{FOLDER}engines/"
LEAST_S = 0.05  # between two looks at a job that writes something, or is sent something
BATCH_BYTES = 1 << 20


class Available(Versioned, frozen=True, kw_only=True):
    """`Available` is a worker's sign of life."""

    beat: int
    taken: int = 0  # the number of its last piece of work
    is_busy: bool = False
    pid: int = 0


class Work(Versioned, frozen=True, kw_only=True):
    """`Work` is a job for a worker."""

    id: str
    engine: str  # whose sign of life the worker watches
    name: str
    module: str
    arguments: tuple[str, ...] = ()
    task: bytes = b""
    wants_output: bool = False  # somebody wants the lines that it writes
    lease_s: float = 10.0  # so long the engine waits for a sign of life


class Sent(Versioned, frozen=True, kw_only=True):
    """`Sent` is what a job is sent."""

    lines: tuple[bytes, ...] = ()
    stop: bool = False
    kill: bool = False


class Reported(Versioned, frozen=True, kw_only=True):
    """`Reported` is what a worker reports of a job: lines, then how it ended."""

    pid: int = 0
    lines: tuple[bytes, ...] = ()
    code: int | None = None
    errors: str = ""


class Watch:
    """`Watch` looks at somebody's sign of life. Somebody is alive who has reported something new within a lease; nobody
    knows how old the report is that we saw first."""

    def __init__(self, clock: Clock, lease_s: float) -> None:
        self._clock, self._lease_s = clock, lease_s
        self._data: bytes | None = None
        self._since_s = clock.monotonic()
        self._changes = 0

    def saw(self, data: bytes | None) -> None:
        if data is not None and data != self._data:
            self._changes += self._data is not None
            self._data, self._since_s = data, self._clock.monotonic()

    @property
    def is_alive(self) -> bool:
        return self._changes > 0 and not self.is_silent

    @property
    def is_silent(self) -> bool:
        return self._clock.monotonic() - self._since_s > self._lease_s


class Pace:
    """`Pace` decides when to look again: the longer nothing has come, the later, up to a bound."""

    def __init__(self, clock: Clock, most_s: float) -> None:
        self._clock, self._most_s = clock, most_s
        self.hurry()

    def hurry(self) -> None:
        self._since_s = self.due_s = self._clock.monotonic()

    def looked(self, has_come: bool) -> None:
        now_s = self._clock.monotonic()
        if has_come:
            self._since_s = now_s
        self.due_s = now_s + min(self._most_s, max(LEAST_S, (now_s - self._since_s) / 4))

    @property
    def is_due(self) -> bool:
        return self._clock.monotonic() >= self.due_s


def step_name(job: str, side: str, number: int) -> str:
    return f"{JOBS}{job}/{side}/{number:08d}"


def job_of(work: Work) -> Job:
    return Job(work.name, work.module, work.arguments, work.task)

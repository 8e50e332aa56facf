"""A `Worker` runs the jobs that a `Pull` engine gives it, one at a time, as processes of its own machine."""

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Collection

import msgspec

from gossamer.archive.store import Store
from gossamer.clocks import Clock, RealClock
from gossamer.cluster.engine import Job
from gossamer.cluster.processes import Process, Processes
from gossamer.cluster.protocol import decode_or_none, encode
from gossamer.cluster.pull_messages import (
    BATCH_BYTES,
    ENGINES,
    WORK,
    WORKERS,
    Available,
    Pace,
    Reported,
    Sent,
    Watch,
    Work,
    job_of,
    step_name,
)
from gossamer.cluster.store_exchange import BROKEN
from gossamer.cluster.store_registrar import pace_s, put, read
from gossamer.errors import SiteError

LOOK_S = 0.05
ORPHAN = 3  # leases: an engine that is silent for so long does not come back, and its jobs end
_LEASE_S = 10.0
_REST_S = 10.0  # so long a process that it has left behind may hold its standard output
_REFUSED = 2  # the exit code of work that is not for us


def names(count: int) -> list[str]:
    """Returns names that no other workers have."""
    letters = "".join(c if c.isascii() and c.isalnum() else "_" for c in socket.gethostname())[:40]
    stem = f"{letters}_{os.getpid()}_{os.urandom(3).hex()}"
    return [f"{stem}_{number}" for number in range(count)]


def work(workers: "Collection[Worker]") -> None:
    """Lets workers work, each in a thread of its own: a process ends with the thread that started it."""
    threads = [threading.Thread(target=worker.run, name="worker") for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Worker:
    """`Worker` asks for work under a name of its own. `modules` are what it runs, and nothing else: whoever can write
    to the store must not be able to run anything here. `lease_s` returns the lease of the site as it is now. `prepared`
    fits a job to this machine."""

    def __init__(
        self,
        store: Store,
        name: str,
        lease_s: Callable[[], float],
        modules: Collection[str],
        prepared: Callable[[Job], Job] = lambda job: job,
        show: Callable[[str], object] = lambda _: None,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._name, self._lease_now, self._modules = store, name, lease_s, modules
        self._lease_s, self._asked_s = lease_s(), (clock or RealClock()).monotonic()
        self._prepared, self._show, self._clock = prepared, show, clock or RealClock()
        self._life = Available(beat=0, pid=os.getpid())
        self._beat_s = -1e9
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Ends `run`: at once if there is nothing to do, else when the job has ended, which is asked to."""
        self._stopping.set()

    def run(self) -> None:
        """Works until `stop`."""
        pace = Pace(self._clock, pace_s(self._lease_s))
        while not self._stopping.wait(LOOK_S):
            with contextlib.suppress(*BROKEN):
                self._ask_lease()
                self._show_life()
                if pace.is_due:
                    found = read(self._store, f"{WORK}{self._name}/{self._life.taken + 1:08d}")
                    pace.looked(found is not None)
                    if found is not None:
                        self._take(found)
                        pace.hurry()
        with contextlib.suppress(*BROKEN):
            self._store.delete(WORKERS + self._name)

    def _ask_lease(self) -> None:
        """Asks now and then: a crawl may begin anew, with another lease."""
        if self._clock.monotonic() - self._asked_s >= _LEASE_S:
            self._lease_s, self._asked_s = self._lease_now(), self._clock.monotonic()

    def _show_life(self, **changes: object) -> None:
        """Says that we are there, in time, or at once if something changes."""
        if changes or self._clock.monotonic() - self._beat_s >= pace_s(self._lease_s):
            self._life = msgspec.structs.replace(self._life, beat=self._life.beat + 1, **changes)
            put(self._store, WORKERS + self._name, encode(self._life))
            self._beat_s = self._clock.monotonic()

    def _take(self, data: bytes) -> None:
        number, work = self._life.taken + 1, decode_or_none(Work, data)
        self._show_life(taken=number, is_busy=True)
        if work is not None:
            self._lease_s = work.lease_s
            self._show(f"{self._name} runs {work.name}")
            code = _Run(self._store, work, self._clock, self._lease_s).end(self._started(work), self._running)
            self._show(f"{self._name}: {work.name} ended ({code})")
        with contextlib.suppress(*BROKEN):
            self._store.delete(f"{WORK}{self._name}/{number:08d}")
        self._life = msgspec.structs.replace(self._life, is_busy=False)
        self._beat_s = -1e9

    def _started(self, work: Work) -> "Callable[[Callable[[bytes | None], object]], Process]":
        def start(received: Callable[[bytes | None], object]) -> Process:
            if work.module not in self._modules:
                raise SiteError(f"{work.module} is not what this worker runs")
            return Processes().start(self._prepared(job_of(work)), received)

        return start

    def _running(self) -> bool:
        """Shows life while a job runs. Returns whether the job may go on."""
        with contextlib.suppress(*BROKEN):
            self._show_life()
        return not self._stopping.is_set()


class _Run:
    """`_Run` is one job on its way."""

    def __init__(self, store: Store, work: Work, clock: Clock, lease_s: float) -> None:
        self._store, self._work, self._clock = store, work, clock
        self._output: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._is_mute = False  # it has closed its standard output
        self._read = self._sent = 0
        self._pace = Pace(clock, pace_s(lease_s))
        self._engine = Watch(clock, ORPHAN * lease_s)
        self._engine_pace = Pace(clock, pace_s(lease_s))

    def end(self, start: Callable[[Callable[[bytes | None], object]], Process], lives: Callable[[], bool]) -> int:
        """Runs it to its end. Returns its exit code."""
        try:
            process = start(self._output.put)
        except SiteError as error:
            self._report(Reported(code=_REFUSED, errors=str(error)))
            return _REFUSED
        self._report(Reported(pid=process.pid))
        while (code := process.poll()) is None:
            if not lives():
                process.hang_up() if self._work.task else process.stop()
            self._carry(process)
            if self._engine.is_silent:
                process.kill()
            process.wait(LOOK_S)
        end_s = self._clock.monotonic() + _REST_S
        while not self._is_mute and self._clock.monotonic() < end_s:
            self._carry(process)
        errors = process.errors()
        process.close()
        self._report(Reported(code=code, errors=errors))
        return code

    def _carry(self, process: Process) -> None:
        with contextlib.suppress(*BROKEN):
            if self._pace.is_due:
                self._pace.looked(self._receive(process))
            if self._engine_pace.is_due:
                self._engine.saw(read(self._store, ENGINES + self._work.engine))
                self._engine_pace.looked(False)
        while lines := self._lines():
            if self._work.wants_output:
                self._report(Reported(lines=lines))

    def _receive(self, process: Process) -> bool:
        data = read(self._store, step_name(self._work.id, "in", self._read + 1))
        if data is None:
            return False
        self._read += 1
        sent = decode_or_none(Sent, data) or Sent()
        for line in sent.lines if self._work.task else ():
            process.send(line)
        if sent.stop and process.poll() is None:
            process.stop()
        if sent.kill:
            process.kill()
        return True

    def _lines(self) -> tuple[bytes, ...]:
        found: list[bytes] = []
        size = 0
        with contextlib.suppress(queue.Empty):
            while size < BATCH_BYTES:
                line = self._output.get_nowait()
                if line is None:
                    self._is_mute = True
                    break
                found.append(line)
                size += len(line)
        return tuple(found)

    def _report(self, report: Reported) -> None:
        """Stores a report, and tries until the store takes it: nothing may be left out."""
        data = encode(report)
        while True:
            with contextlib.suppress(*BROKEN):
                put(self._store, step_name(self._work.id, "out", self._sent + 1), data)
                self._sent += 1
                return
            if self._engine.is_silent:
                return
            time.sleep(LOOK_S)

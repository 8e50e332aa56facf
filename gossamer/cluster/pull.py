"""`Pull` is the engine of machines that ask for work: whoever runs `gossamer agent join` is a worker, wherever it is.

All of it goes through the Store (`pull_messages`). The engine gives a job to a worker by creating the worker's next
piece of work; of two engines one succeeds.
"""

import contextlib
import secrets
import signal
import threading
from math import inf

from gossamer.archive.store import Store
from gossamer.clocks import Clock, RealClock
from gossamer.cluster.engine import LOST, Job, Received, how
from gossamer.cluster.protocol import decode_or_none, encode
from gossamer.cluster.pull_messages import (
    BATCH_BYTES,
    ENGINES,
    JOBS,
    LEAST_S,
    WORK,
    WORKERS,
    Available,
    Pace,
    Reported,
    Sent,
    Watch,
    Work,
    step_name,
)
from gossamer.cluster.store_exchange import BROKEN
from gossamer.cluster.store_registrar import pace_s, put, read
from gossamer.errors import SiteError


class PullHandle:
    """`PullHandle` is the Handle of a job that a worker runs, or will run when there is one."""

    def __init__(self, engine: "Pull", job: Job, received: Received | None) -> None:
        self.job, self.id = job, secrets.token_hex(8)
        self._engine, self._received = engine, received
        self.wants_output = received is not None
        self._path = job.errors
        self._pid, self._code, self._errors = 0, None, ""  # type: int, int | None, str
        self._over = threading.Event()
        self._guard = threading.Lock()
        self._lines: list[bytes] = []
        self._stop = self._kill = False
        self.worker = ""
        self.sent = self.read = 0  # numbers of the last steps

    @property
    def pid(self) -> int:
        return self._pid

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout_s: float | None = None) -> int | None:
        self._over.wait(timeout_s)
        return self._code

    def send(self, line: bytes) -> None:
        with self._guard:
            self._lines.append(line)
        self._engine.wake(self)

    def stop(self) -> None:
        self._stop = True
        self._engine.wake(self)

    def kill(self) -> str:
        self._kill = True
        self._engine.wake(self)
        code = self.wait()
        assert code is not None
        return how(code)

    def errors(self) -> str:
        return self._errors

    def close(self, patience_s: float = 0.0) -> None:
        if self.wait(patience_s) is None:
            self.kill()
        self._engine.forget(self)

    @property
    def is_wanted(self) -> bool:
        """Returns whether it is still to be begun; one that was killed before is not."""
        if self._kill and not self.worker:
            self.ended(-signal.SIGKILL, "")
        return self._code is None and not self.worker

    def outgoing(self) -> Sent | None:
        """Returns what the job shall get now; None: nothing."""
        with self._guard:
            size, count = 0, 0
            while count < len(self._lines) and size < BATCH_BYTES:
                size += len(self._lines[count])
                count += 1
            lines, self._lines = self._lines[:count], self._lines[count:]
            kill, stop, self._stop = self._kill and not self._lines, self._stop, False
        return (
            Sent(lines=tuple(lines), stop=stop, kill=kill)
            if lines or stop or (kill and not self._over.is_set())
            else None
        )

    def received(self, report: Reported) -> None:
        self._pid = report.pid or self._pid
        if self._received:
            for line in report.lines:
                self._received(line)
        if report.code is not None:
            self.ended(report.code, report.errors)

    def ended(self, code: int, errors: str) -> None:
        if self._code is not None:
            return
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.write_text(errors + "\n")
        self._errors, self._code = errors, code
        if self._received:
            self._received(None)
        self._over.set()


class Pull:
    """`Pull` is an Engine. Workers come and go; a job waits until one is free."""

    def __init__(self, store: Store, lease_s: float, clock: Clock | None = None) -> None:
        self._store, self._lease_s, self._clock = store, lease_s, clock or RealClock()
        self._id, self._beat, self._beat_s = secrets.token_hex(8), 0, -1e9
        self._guard = threading.Lock()
        self._waiting: list[PullHandle] = []
        self._running: dict[PullHandle, Pace] = {}
        self._forgotten: list[PullHandle] = []
        self._workers: dict[str, Watch] = {}
        self._free: list[tuple[str, int]] = []  # workers, and the number of their next piece of work
        self._looked_s = -1e9
        self._asked_s = -1e9
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pull", daemon=True)

    def start(self, job: Job, received: Received | None = None) -> PullHandle:
        handle = PullHandle(self, job, received)
        try:
            if any("\0" in argument for argument in job.arguments):
                raise ValueError("embedded null byte")
            if job.errors is not None:
                job.errors.parent.mkdir(parents=True, exist_ok=True)
                job.errors.write_bytes(b"")
        except (OSError, ValueError) as error:
            raise SiteError(f"{job.name} cannot be started: {error}") from error
        with self._guard:
            self._waiting.append(handle)
            if not self._thread.ident:
                self._thread.start()
        self._wake.set()
        return handle

    def cores(self) -> float:
        return inf  # a worker that asks for work has something to do it with

    def close(self) -> None:
        """There is nothing but the jobs: workers go on asking for some."""

    def room(self) -> float:
        """Returns how many workers are free."""
        self._asked_s = self._clock.monotonic()
        with self._guard:
            if not self._thread.ident:
                self._thread.start()
            return max(0, len(self._free) - len(self._waiting))

    def wake(self, handle: PullHandle) -> None:
        with self._guard:
            if handle in self._running:
                self._running[handle].hurry()
        self._wake.set()

    def forget(self, handle: PullHandle) -> None:
        with self._guard:
            if handle not in self._forgotten:
                self._forgotten.append(handle)
        self._wake.set()

    # The thread

    def _run(self) -> None:
        with contextlib.suppress(*BROKEN):
            self._sweep()
        while True:
            self._wake.clear()
            with contextlib.suppress(*BROKEN):
                self._show_life()
                self._look_for_workers()
                self._hand_out()
            for handle, pace in list(self._running.items()):
                if pace.is_due:
                    with contextlib.suppress(*BROKEN):
                        pace.looked(self._carried(handle))
            with contextlib.suppress(*BROKEN):
                self._clean_up()
            self._wake.wait(self._pause_s())

    def _sweep(self) -> None:
        """Deletes what engines before us have left; a site has one at a time."""
        workers = {name.removeprefix(WORKERS) for name in self._store.list(WORKERS)}
        left = [name for name in self._store.list(WORK) if name.split("/")[2] not in workers]
        ours = {handle.id for handle in (*self._waiting, *self._running)}
        left += [name for name in self._store.list(JOBS) if name.split("/")[2] not in ours]
        for name in (*left, *self._store.list(ENGINES)):
            self._store.delete(name)

    def _pause_s(self) -> float:
        now_s, due_s = self._clock.monotonic(), self._beat_s + pace_s(self._lease_s)
        with self._guard:
            return max(LEAST_S, min([due_s, *(pace.due_s for pace in self._running.values())]) - now_s)

    def _show_life(self) -> None:
        """Workers end the jobs of an engine that does not do this for some leases."""
        if self._clock.monotonic() - self._beat_s >= pace_s(self._lease_s):
            self._beat += 1
            put(self._store, ENGINES + self._id, b"%d" % self._beat)
            self._beat_s = self._clock.monotonic()

    def _look_for_workers(self) -> None:
        """Looks who is there: all, while somebody wants workers, else those who work for us."""
        now_s, pause_s = self._clock.monotonic(), pace_s(self._lease_s)
        is_asked = bool(self._waiting) or now_s - self._asked_s < 2 * pause_s
        if now_s - self._looked_s < pause_s:
            return
        self._looked_s = now_s
        ours = {handle.worker for handle in self._running}
        names = [name.removeprefix(WORKERS) for name in self._store.list(WORKERS)] if is_asked else sorted(ours)
        free = []
        for name in {*names, *ours}:
            data = read(self._store, WORKERS + name)
            watch = self._workers.setdefault(name, Watch(self._clock, self._lease_s))
            watch.saw(data)
            found = decode_or_none(Available, data) if data else None
            if watch.is_silent and name not in ours:
                self._store.delete(WORKERS + name)  # if it comes back, it reports again
                del self._workers[name]
            elif found and watch.is_alive and not found.is_busy and name not in ours:
                free.append((name, found.taken + 1))
        with self._guard:
            self._free = free
        for handle in list(self._running):
            if self._workers[handle.worker].is_silent:
                self._ended(handle, LOST)

    def _hand_out(self) -> None:
        with self._guard:
            self._waiting = [handle for handle in self._waiting if handle.is_wanted]
            waiting = list(self._waiting)
        for handle in waiting:
            while self._free and handle.is_wanted:
                name, number = self._free.pop()
                job = handle.job
                work = Work(
                    id=handle.id,
                    engine=self._id,
                    name=job.name,
                    module=job.module,
                    arguments=job.arguments,
                    task=job.task,
                    wants_output=handle.wants_output,
                    lease_s=self._lease_s,
                )
                if self._store.create(f"{WORK}{name}/{number:08d}", encode(work)):
                    handle.worker = name
                    with self._guard:
                        self._waiting.remove(handle)
                        self._running[handle] = Pace(self._clock, pace_s(self._lease_s))

    def _carried(self, handle: PullHandle) -> bool:
        """Carries to and fro. Returns whether there was anything."""
        has_come = False
        while (sent := handle.outgoing()) is not None:
            put(self._store, step_name(handle.id, "in", handle.sent + 1), encode(sent))
            handle.sent += 1
            has_come = True
            if sent.kill:
                break
        while (data := read(self._store, step_name(handle.id, "out", handle.read + 1))) is not None:
            handle.read += 1
            has_come = True
            report = decode_or_none(Reported, data)
            if report is not None:
                handle.received(report)
        if handle.poll() is not None:
            self._ended(handle, 0)
        return has_come

    def _ended(self, handle: PullHandle, code: int) -> None:
        handle.ended(code, "its worker no longer reports" if code == LOST else "")
        with self._guard:
            self._running.pop(handle, None)

    def _clean_up(self) -> None:
        with self._guard:
            gone, self._forgotten = self._forgotten, []
        for handle in gone:
            for name in self._store.list(f"{JOBS}{handle.id}/") if handle.worker else ():
                self._store.delete(name)

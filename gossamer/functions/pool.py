"""`Pool` runs worker processes beside the crawl: it deals batches of pages out, and no page's fate is another's.

A thread of its own talks to the workers, and decides about them by three facts: what came through the pipe, which page
a worker is at (a memory map), and whether the process lives. The agent's thread only appends and takes.
"""

import contextlib
import fcntl
import mmap
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from gossamer.errors import ConfigError, FunctionError
from gossamer.functions.protocol import (
    CRASHED,
    PROGRESS,
    RETIRED,
    TIMEOUT,
    Error,
    Ready,
    Result,
    Setup,
    Task,
    frame,
    frames,
)

_BATCH_PAGES = 32
_BATCH_BYTES = 512 << 10
_BEHIND_BYTES = 64 << 20  # of pages that wait for functions; beyond that no more should be put
_BATCHES = 2  # given to a worker at a time: it need not wait for the next one
_START_S = 60.0  # until a worker is ready; it imports the user's module
_GRACE_S = 2.0  # after the time limit, before the process is killed
_LAST_WORDS_S = 0.5  # from SIGABRT, at which Python writes where it is, to SIGKILL
_LOOK_S = 0.25
_READ_BYTES = 1 << 20
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
_TRACE_BYTES = 20_000
_FUTILE = 3  # workers in a row that end before they are ready
# This package must be found by the new process, however it was found by ours.
_ROOT = Path(__file__).parents[2]
_START = """import sys
root = sys.argv.pop(1)
root in sys.path or sys.path.insert(0, root)
from gossamer.functions.worker import run
run()"""

# A page's tree takes some hundred kB. To give them back to the system after each page, and get them again, takes as
# long as to parse it: so the C library keeps what was freed.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
}

_ready = msgspec.msgpack.Decoder(Ready)
_results = msgspec.msgpack.Decoder(Result)


class _Worker:
    """`_Worker` is one process, with what it was given and has not answered yet."""

    def __init__(self, setup: bytes, is_shown: bool) -> None:
        self.progress_fd = os.memfd_create("progress")
        self.trace_fd = os.memfd_create("trace")
        os.ftruncate(self.progress_fd, PROGRESS.size)
        self._progress = mmap.mmap(self.progress_fd, PROGRESS.size)
        fds = (self.progress_fd, self.trace_fd)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(_ROOT), *map(str, fds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if is_shown else subprocess.DEVNULL,
            pass_fds=fds,
            start_new_session=True,  # Ctrl-C is for the crawl; and what a function starts ends with its group
            env={**os.environ, **ENVIRONMENT},
            bufsize=0,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.to, self.of = self.process.stdin.fileno(), self.process.stdout.fileno()
        for fd in (self.to, self.of):
            os.set_blocking(fd, False)
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)
        self.waiting: deque[memoryview] = deque([memoryview(setup)])
        self.received = bytearray()
        self.given: dict[int, Task] = {}
        self.is_ready = False
        self.at, self.since_s = 0, time.monotonic()

    def look(self, now_s: float) -> float:
        """Returns for how many seconds the worker has been at the same page."""
        at, _ = PROGRESS.unpack_from(self._progress, 0)
        if at != self.at or (self.is_ready and not self.given):
            self.at, self.since_s = at, now_s
        return now_s - self.since_s

    def kill(self) -> None:
        """Ends the process and all that it started, and waits for its end."""
        for signal_, patience_s in ((signal.SIGABRT, _LAST_WORDS_S), (signal.SIGKILL, None)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal_)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)

    def trace(self) -> str:
        """Returns where the process was when it crashed, as `faulthandler` wrote it."""
        return os.pread(self.trace_fd, _TRACE_BYTES, 0).decode("utf-8", "replace")

    def culprit(self) -> tuple[int | None, int]:
        """Returns the page that was being worked on, and the place of the function that was at it; of a process that
        died between pages, the next one, and -1; of one that has retired, none."""
        at, place = PROGRESS.unpack_from(self._progress, 0)
        if place == RETIRED:
            return None, place
        return (at, place) if at in self.given else (next(iter(self.given), None), -1)

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            with contextlib.suppress(OSError):
                stream.close()
        self._progress.close()
        os.close(self.progress_fd)
        os.close(self.trace_fd)


class Pool:
    """`Pool` is used by one thread; `close` ends it. Making it starts nothing. `is_shown`: what functions print goes to
    our standard error, and not nowhere."""

    def __init__(self, setup: Setup, workers: int, is_shown: bool = False) -> None:
        self._setup, self._setup_frame, self._count, self._is_shown = setup, frame(setup), workers, is_shown
        self._batch: list[Task] = []
        self._batch_bytes = 0
        self._lock = threading.Condition()
        self._queue: deque[list[Task]] = deque()
        self._done: list[Result] = []
        self.unfinished = 0  # pages
        self.held_bytes = 0  # of the pages that wait for a function
        self._ready: Ready | None = None
        self._broken = ""
        self._closing = False
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self._futile = 0
        self._thread = threading.Thread(target=self._run, name="functions", daemon=True)

    # For the agent's thread

    def start(self) -> Ready:
        """Starts, and waits until the functions are loaded; a function that cannot be is the user's mistake."""
        self._thread.start()
        with self._lock:
            self._lock.wait_for(lambda: self._ready is not None or self._broken, self._start_s + 5)
            ready, broken = self._ready, self._broken
        if ready is None or ready.error:
            self.close()
            raise ConfigError(f"extract: {ready.error if ready else broken or 'no worker could be started'}")
        return ready

    def put(self, task: Task) -> None:
        self._batch.append(task)
        size = len(task.body) + len(task.head)
        self._batch_bytes += size
        with self._lock:
            self.unfinished += 1
            self.held_bytes += size
        if len(self._batch) >= _BATCH_PAGES or self._batch_bytes >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Gives out what has been put, however little it is."""
        if self._batch:
            with self._lock:
                self._queue.append(self._batch)
            self._batch, self._batch_bytes = [], 0
            os.eventfd_write(self._wake_fd, 1)

    @property
    def is_behind(self) -> bool:
        return self.held_bytes > _BEHIND_BYTES

    def finish(self) -> list[Result]:
        """Waits until all pages are done, and takes their results."""
        while not self.wait(_LOOK_S):
            pass
        return self.take()

    def take(self) -> list[Result]:
        """Returns the results that have come since the last call."""
        with self._lock:
            done, self._done = self._done, []
        return done

    def wait(self, patience_s: float) -> bool:
        """Waits until all pages are done, or until some time has passed; returns whether they are."""
        self.flush()
        with self._lock:
            self._lock.wait_for(lambda: not self.unfinished or bool(self._broken), patience_s)
            if self._broken:
                raise FunctionError(f"extract: {self._broken}")
            return not self.unfinished

    def close(self) -> None:
        """Ends all workers."""
        if self._closing:
            return
        self._closing = True
        os.eventfd_write(self._wake_fd, 1)
        if self._thread.ident:
            self._thread.join()
        self._selector.close()
        os.close(self._wake_fd)

    # The thread

    def _run(self) -> None:
        self._selector.register(self._wake_fd, selectors.EVENT_READ, None)
        try:
            self._begin()
            while not self._closing:
                for key, events in self._selector.select(_LOOK_S if self._workers else None):
                    if key.data is None:
                        os.eventfd_read(self._wake_fd)
                    elif key.data in self._workers:
                        self._serve(key.data, events)
                self._look()
                self._deal()
        except BaseException as error:
            self._break(f"the function workers cannot go on: {error!r}")
        finally:
            for worker in self._workers:
                worker.kill()
                worker.close()

    def _begin(self) -> None:
        worker = _Worker(self._setup_frame, self._is_shown)
        self._workers.append(worker)
        self._selector.register(worker.of, selectors.EVENT_READ, worker)
        self._selector.register(worker.to, selectors.EVENT_WRITE, worker)

    def _deal(self) -> None:
        """Gives batches to workers that have few; starts another worker while there are batches for it."""
        if self._ready is None or self._ready.error or self._broken:
            return
        for worker in sorted(self._workers, key=lambda each: len(each.given)):
            while self._queue and worker.is_ready and len(worker.given) < (_BATCHES - 1) * _BATCH_PAGES + 1:
                with self._lock:
                    batch = self._queue.popleft()
                worker.given.update((task.number, task) for task in batch)
                self._send(worker, frame(batch))
        are_ready = all(worker.is_ready for worker in self._workers)
        if self._queue and are_ready and len(self._workers) < self._count:
            self._begin()

    def _send(self, worker: _Worker, data: bytes) -> None:
        if not worker.waiting:
            with contextlib.suppress(KeyError):
                self._selector.register(worker.to, selectors.EVENT_WRITE, worker)
        worker.waiting.append(memoryview(data))

    def _serve(self, worker: _Worker, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._write(worker)
        if events & selectors.EVENT_READ and not self._read(worker):
            self._lost(worker, "")

    def _write(self, worker: _Worker) -> None:
        try:
            while worker.waiting:
                sent = os.write(worker.to, worker.waiting[0])
                rest = worker.waiting[0][sent:]
                worker.waiting.popleft()
                if rest:
                    worker.waiting.appendleft(rest)
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass  # its end is seen when we read
        worker.waiting.clear()
        self._selector.unregister(worker.to)

    def _read(self, worker: _Worker) -> bool:
        """Takes what a worker has sent; returns whether it lives."""
        try:
            data = os.read(worker.of, _READ_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        worker.received += data
        try:
            for each in frames(worker.received):
                self._receive(worker, each)
        except msgspec.MsgspecError:
            self._lost(worker, "its worker sends nonsense")
        return True

    def _receive(self, worker: _Worker, data: bytes) -> None:
        if worker.is_ready:
            result = _results.decode(data)
            if (task := worker.given.pop(result.number, None)) is not None:
                self._finish(task, result)
            return
        ready = _ready.decode(data)
        worker.is_ready, self._futile = not ready.error, 0
        with self._lock:
            if self._ready is not None and ready.error:
                self._broken = ready.error
            self._ready = self._ready or ready
            self._lock.notify_all()

    def _finish(self, task: Task, result: Result) -> None:
        with self._lock:
            self._done.append(result)
            self.unfinished -= 1
            self.held_bytes -= len(task.body) + len(task.head)
            if not self.unfinished:
                self._lock.notify_all()

    def _look(self) -> None:
        """Ends workers that hang."""
        now_s = time.monotonic()
        for worker in list(self._workers):
            at_it_s = worker.look(now_s)
            if at_it_s > (self._limit_s if worker.is_ready else self._start_s):
                self._lost(worker, "hangs")

    @property
    def _start_s(self) -> float:
        return max(_START_S, self._setup.time_s)

    @property
    def _limit_s(self) -> float:
        functions = len(self._setup.functions) + bool(self._setup.links)
        return self._setup.time_s * functions + _GRACE_S

    def _lost(self, worker: _Worker, why: str) -> None:
        """Takes leave of a worker: the page it was at has failed, the others go to another one."""
        for fd in (worker.of, worker.to):
            with contextlib.suppress(KeyError):
                self._selector.unregister(fd)
        worker.kill()
        self._workers.remove(worker)
        culprit, place = worker.culprit()
        if culprit is not None:
            task = worker.given.pop(culprit)
            errors = [self._failure(worker, why, place)]
            self._finish(task, Result(task.number, errors=errors, refuses_all=bool(self._setup.links)))
        elif not worker.is_ready:
            self._futile += 1
            if self._futile >= _FUTILE or self._ready is None:
                self._break(self._why_not_loaded(worker, why))
        if worker.given:
            with self._lock:
                self._queue.appendleft([*worker.given.values()])
        worker.close()

    def _why_not_loaded(self, worker: _Worker, why: str) -> str:
        names = ", ".join([*self._setup.functions.values(), *filter(None, [self._setup.links])])
        if why == "hangs":
            where = next((line.strip() for line in worker.trace().splitlines() if line.endswith(" in <module>")), "")
            return (
                f"the module of {names} is not loaded after {self._start_s:g} s (60, or extract.time_s if that is "
                f"more): what it does when it is imported takes too long{f', at {where}' if where else ''}"
            )
        return f"a worker {why or _ending(worker.process.returncode)} while it loads {names}"

    def _failure(self, worker: _Worker, why: str, place: int) -> Error:
        """Returns what went wrong. Where nobody knows which function was at work, all of them are named."""
        known = [*self._setup.functions, *filter(None, [self._setup.links])]
        name = known[place] if 0 <= place < len(known) else ", ".join(known)
        if why == "hangs":
            words = f"longer than extract.time_s = {self._setup.time_s:g}, and cannot be interrupted"
            return Error(name, TIMEOUT, words, worker.trace())
        return Error(name, CRASHED, why or f"the worker {_ending(worker.process.returncode)}", worker.trace())

    def _break(self, why: str) -> None:
        with self._lock:
            self._broken = why
            self._lock.notify_all()


def _ending(code: Any) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with code {code}"

"""`Processes` is the engine of one machine: each job is a process of its own.

A process ends with the thread that started it: the kernel ensures that (Linux). Agents are forked (`fork_server`).
"""

import contextlib
import ctypes
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import IO, Protocol

from gossamer.cluster.engine import Job, Received, how
from gossamer.errors import SiteError
from gossamer.runtime import cores

_JOIN_S = 0.25
_QUOTED = 8_192  # bytes of standard error
_MOST = 1 << 20  # of them, read at a time
_PR_SET_PDEATHSIG = 1
# This package must be found by the new process, however it was found by ours.
_ROOT = Path(__file__).parents[2]
_START = """import sys
root = sys.argv.pop(1)
root in sys.path or sys.path.insert(0, root)
from gossamer.cluster.processes import main
main()"""
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


class Spawned(Protocol):
    """Port: a process as `subprocess.Popen` has it, with what `Process` uses of that."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...

    def kill(self) -> None: ...


Spawn = Callable[[Job, bool, IO[bytes]], Spawned]  # the flag: somebody reads its standard output


class Processes:
    """`Processes` is an Engine that starts processes of this machine."""

    def start(self, job: Job, received: Received | None = None) -> "Process":
        try:
            return Process(job, received, self._spawn)
        except (OSError, ValueError) as error:
            raise SiteError(f"{job.name} cannot be started: {error}") from error

    def _spawn(self, job: Job, wants_output: bool, errors: IO[bytes]) -> Spawned:
        return subprocess.Popen(
            command(job.module, *job.arguments),
            stdin=subprocess.PIPE if job.task else subprocess.DEVNULL,
            stdout=subprocess.PIPE if wants_output else subprocess.DEVNULL,
            stderr=errors,
            start_new_session=not job.is_foreground,
        )

    def close(self) -> None:
        """There is nothing but the jobs."""

    def room(self) -> float:
        return inf

    def cores(self) -> float:
        return cores()


class Process:
    """`Process` is the Handle of such a process."""

    def __init__(self, job: Job, received: Received | None, spawn: Spawn) -> None:
        with _file(job.errors) as self._errors:
            self._process = spawn(job, received is not None, self._errors)
        self._last_errors = ""
        self._is_closed = False
        self._reader = threading.Thread(target=self._read, args=(received,), name=job.name, daemon=True)
        if received:
            self._reader.start()
        if job.task:
            self.send(job.task)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended, which others see
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def hang_up(self) -> None:
        """Closes its standard input, as if we had ended."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def poll(self) -> int | None:
        return self._process.poll()

    def wait(self, timeout_s: float | None = None) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> str:
        self._process.kill()
        return how(self._process.wait())

    def errors(self) -> str:
        if self._is_closed:
            return self._last_errors
        size = os.fstat(self._errors.fileno()).st_size
        tail = os.pread(self._errors.fileno(), _QUOTED, max(0, size - _QUOTED))  # the job's own place stays
        return tail.decode("utf-8", "replace").strip()

    def errors_since(self, place: int) -> bytes:
        """Returns what it has written to standard error from this place on."""
        return os.pread(self._errors.fileno(), _MOST, place)

    def close(self, patience_s: float = 0.0) -> None:
        if self._is_closed:
            return
        self.wait(patience_s)
        self.kill()
        self._last_errors, self._is_closed = self.errors(), True
        self._errors.close()
        if self._reader.ident:
            self._reader.join(_JOIN_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe and not (pipe is self._process.stdout and self._reader.is_alive()):
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read(self, received: Received) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            received(line.rstrip(b"\n"))
        received(None)


@contextlib.contextmanager
def _file(path: Path | None) -> Iterator[IO[bytes]]:
    """Yields a file that is open after the block too, unless the job did not start."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    file: IO[bytes] = tempfile.TemporaryFile() if path is None else path.open("w+b")  # noqa: SIM115
    try:
        yield file
    except BaseException:
        file.close()
        raise


def command(module: str, *arguments: str) -> list[str]:
    """Returns the command line that runs a module as a process that does not outlive its starter, which is us."""
    return [sys.executable, "-c", _START, str(_ROOT), str(os.getpid()), module, *arguments]


def die_with_parent(parent: int) -> None:
    """Ensures, as a child's first call, that it does not outlive its starter (Linux; elsewhere it does nothing)."""
    if _PRCTL is None:
        return
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before this call
        os._exit(1)


def main() -> None:
    """Runs in the process of a job."""
    parent, module, *arguments = sys.argv[1:]
    die_with_parent(int(parent))
    # `stop` sends SIGINT. A starter that ignores or blocks it, such as a shell's background job, would pass that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)

"""The fork server is a process that has imported what jobs need; each job is forked from it. A job then begins in some
milliseconds, where importing takes half a second of CPU, and all jobs share the memory of what was imported.

The server has no crawl, no connection and no thread of its own making: nothing that a fork could tear apart. It says on
a pipe, for each job, which process it is and how that ended. If the server dies, its jobs die with it.
"""

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from struct import Struct
from typing import IO, NoReturn

from gossamer.cluster.engine import Job
from gossamer.cluster.processes import Processes, Spawned, command, die_with_parent

_NUMBER = Struct("<q")  # a process, then its exit code or minus the number of a signal
_REQUEST_BYTES = 1 << 16
_PATIENCE_S = 10.0  # for the server, which begins with the first job
_FDS = 4  # of a request: standard input, output and error, and the pipe for its numbers


class Forks(Processes):
    """`Forks` is an Engine of this machine whose jobs need the same modules. Where nothing can be forked, or when the
    server is lost, a job is a process that imports for itself."""

    def __init__(self, *needed: str) -> None:
        self._needed = needed
        self._servers: list[subprocess.Popen[bytes]] = []  # the last one serves; those before it may have jobs
        self._asks: socket.socket | None = None

    def _spawn(self, job: Job, wants_output: bool, errors: IO[bytes]) -> Spawned:
        if job.is_foreground or not _can_stand_for_processes():
            return super()._spawn(job, wants_output, errors)
        if any("\0" in word for word in job.arguments):
            raise ValueError("an argument has a null character")
        if self._asks is not None and self._servers[-1].poll() is not None:
            self._asks.close()
            self._asks = None
        self._asks = self._asks or self._begun()
        forked = self._forked(self._asks, job, wants_output, errors)
        if forked is None:  # what it has forked goes on, if it hangs; the next job asks another server
            self._asks.close()
            self._asks = None
        return forked or super()._spawn(job, wants_output, errors)

    def _begun(self) -> socket.socket:
        """Begins a server; returns where to ask it."""
        asks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            server = subprocess.Popen(
                command(__name__, *self._needed, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # if it cannot begin, a job says why
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._servers.append(server)
        return asks

    @staticmethod
    def _forked(asks: socket.socket, job: Job, wants_output: bool, errors: IO[bytes]) -> "Forked | None":
        """Returns the new process; None: the server is lost, or hangs."""
        request = json.dumps([job.module, *job.arguments]).encode()
        their_input, our_input = os.pipe() if job.task else (os.open(os.devnull, os.O_RDONLY), None)
        our_output, their_output = os.pipe() if wants_output else (None, os.open(os.devnull, os.O_WRONLY))
        numbers, their_numbers = os.pipe()
        try:
            with suppress(OSError):
                socket.send_fds(asks, [request], [their_input, their_output, errors.fileno(), their_numbers])
        finally:
            for fd in (their_input, their_output, their_numbers):
                os.close(fd)
        pid = _read(numbers) if _is_readable(numbers, _PATIENCE_S) else None
        if pid is not None:
            return Forked(pid, numbers, our_input, our_output)
        for left in (our_input, our_output, numbers):
            if left is not None:
                os.close(left)
        return None

    def close(self) -> None:
        """Ends the servers, and whatever is left of their jobs."""
        if self._asks is not None:
            self._asks.close()
            self._asks = None
        for server in self._servers:
            server.kill()
            server.wait()
        self._servers.clear()


class Forked:
    """`Forked` is a job that was forked, as `subprocess.Popen` would have it: with what `Process` uses of that."""

    def __init__(self, pid: int, numbers: int, our_input: int | None, our_output: int | None) -> None:
        self.pid, self._numbers = pid, numbers
        self.stdin: IO[bytes] | None = None if our_input is None else os.fdopen(our_input, "wb")
        self.stdout: IO[bytes] | None = None if our_output is None else os.fdopen(our_output, "rb")
        self._code: int | None = None
        self._fd = -1  # stands for the process: its number may be another's as soon as it has ended
        with suppress(ProcessLookupError):
            self._fd = os.pidfd_open(pid)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            if self._fd >= 0 and not _is_readable(self._fd, timeout):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            # A server that is dead says nothing of its jobs: they died with it. One that hangs says nothing either.
            code = _read(self._numbers) if _is_readable(self._numbers, _PATIENCE_S) else None
            self._code = -signal.SIGKILL if code is None else code
            for fd in (self._numbers, self._fd):
                if fd >= 0:
                    os.close(fd)
        return self._code

    def send_signal(self, number: int) -> None:
        if self.poll() is None and self._fd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _can_stand_for_processes() -> bool:
    """Returns whether a file can: many builds of Python, and some containers, do not let it."""
    try:
        fd = os.pidfd_open(os.getpid())
        signal.pidfd_send_signal(fd, 0)
        os.close(fd)
    except (AttributeError, OSError):
        return False
    return True


def _serve(fd: int) -> NoReturn:
    """Forks a job for each request, until nobody can ask any more and the last job has ended."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    asked: socket.socket | None = socket.socket(fileno=fd)
    running: dict[int, int] = {}  # by process, the pipe for its numbers
    while asked or running:
        ready, _, _ = select.select([woken, *([fd] if asked else [])], [], [])
        if woken in ready:
            os.read(woken, _REQUEST_BYTES)
            _report_ended(running)
        if asked and fd in ready:
            request, fds, _, _ = socket.recv_fds(asked, _REQUEST_BYTES, _FDS)
            if request and not _is_readable(fds[-1], 0.0):  # which it is once nobody waits for the job any more
                pid = _fork(request, fds, [fd, woken, wake, *running.values()])
                running[pid] = fds[-1]
                _write(fds[-1], pid)
            else:
                asked.close()
                asked = None
    os._exit(0)


def _fork(request: bytes, fds: Sequence[int], ours: Iterable[int]) -> int:
    """Returns the process of a new job; it has none of our open files."""
    me = os.getpid()
    pid = os.fork()
    if not pid:
        die_with_parent(me)
        for fd in ours:
            os.close(fd)
        _run(json.loads(request), fds)
    for fd in fds[:-1]:
        os.close(fd)
    return pid


def _run(command: list[str], fds: Sequence[int]) -> NoReturn:
    """Runs a job in its own process, as `python -m` does."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for target, fd in enumerate(fds[:-1]):
            os.dup2(fd, target)
        for fd in fds:
            os.close(fd)
        sys.argv = command
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code == 1 and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _report_ended(running: dict[int, int]) -> None:
    for pid in [*running]:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            numbers = running.pop(pid)
            _write(numbers, os.waitstatus_to_exitcode(status))
            os.close(numbers)


def _write(fd: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody wants to know
        os.write(fd, _NUMBER.pack(number))


def _read(fd: int) -> int | None:
    data = os.read(fd, _NUMBER.size)
    return int(_NUMBER.unpack(data)[0]) if data else None


def _is_readable(fd: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if timeout is None else 1000 * timeout))


def main() -> NoReturn:
    *needed, fd = sys.argv[1:]
    for module in needed:
        import_module(module)
        del sys.modules[module]  # a job may run it as its main module
    gc.freeze()  # what was imported stays shared: the collector does not write to it
    _serve(int(fd))


if __name__ == "__main__":
    main()

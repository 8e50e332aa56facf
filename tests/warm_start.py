"""Commands that start at once: a process that has imported the package waits, and forks a child for each command.

Each command is still a process of its own, with its own arguments, directory, environment, output and exit code, and it
ends as an interpreter ends. Only the imports, most of the time of a short command, were made before.
"""

import array
import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

_COMMANDS = ("crawl", "export", "extract", "federation", "query", "repair", "report", "scan", "status")
# What commands import when they need it.
_NEEDED = ("api", "archive.contents", "cluster.sites", "watch.progress", "watch.status")
_FAREWELL_S = 10.0


class WarmStart:
    """`WarmStart` is the process that waits, seen from the tests. It ends when its socket is closed."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            line = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(
                line, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
            )

    def run(
        self, words: list[str], at: Path, environment: dict[str, str], given: bytes, timeout_s: float
    ) -> "subprocess.CompletedProcess[bytes]":
        """Runs one command to its end, as `subprocess.run` does."""
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(given)
            files[0].seek(0)
            request = json.dumps([words, str(at), environment]).encode()
            rights = array.array("i", [file.fileno() for file in files])
            self._ours.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            child = int(self._ours.recv(64))
            self._ours.settimeout(timeout_s)
            try:
                code = int(self._ours.recv(64))
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self._ours.settimeout(_FAREWELL_S)
                self._ours.recv(64)
                raise subprocess.TimeoutExpired(words, timeout_s) from None
            finally:
                self._ours.settimeout(None)
            for file in files:
                file.seek(0)
            return subprocess.CompletedProcess(words, code, files[1].read(), files[2].read())

    def close(self) -> None:
        self._ours.close()
        self._process.wait(_FAREWELL_S)


def _wait_for_commands(requests: socket.socket) -> int:
    """Forks a child for each request, and returns in the child with the exit code of its command."""
    for name in (*(f"cli.{command}" for command in _COMMANDS), *_NEEDED):
        importlib.import_module(f"gossamer.{name}")
    while True:
        message, rights, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not message:
            os._exit(0)
        child = os.fork()
        if child == 0:
            requests.close()
            return _command(*json.loads(message), rights)
        for right in rights:
            os.close(right)
        requests.send(b"%d" % child)
        _, status = os.waitpid(child, 0)
        requests.send(b"%d" % os.waitstatus_to_exitcode(status))


def _command(words: list[str], at: str, environment: dict[str, str], rights: list[int]) -> int:
    from gossamer.cli.app import main

    for number, right in enumerate(rights):
        os.dup2(right, number)
        os.close(right)
    os.chdir(at)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["gossamer", *words]
    return main(words)


if __name__ == "__main__":
    sys.exit(_wait_for_commands(socket.socket(fileno=int(sys.argv[1]))))

"""A client of this machine: a process, with pipes to and from it, and a thread that hears what it says."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.scan.channel import Said, Worker

_JOIN_S = 0.25


class Process:
    """A Channel."""

    def __init__(self, number: int, worker: Worker, said: Said) -> None:
        self._number = number
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gossamer.scan.client"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=_environment(),
        )  # fmt: skip
        self._thread = threading.Thread(target=self._read, args=(said,), name=worker.name, daemon=True)
        self._thread.start()

    def _read(self, said: Said) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                said.put((self._number, json.loads(line)))
            except ValueError:  # the last words of a client that was killed
                break
        said.put((self._number, None))

    def tell(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it has died; the reading thread says so
            return

    def kill(self) -> str:
        self._process.kill()
        code = self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def close(self, patience_s: float) -> None:
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(_JOIN_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                try:
                    pipe.close()
                except OSError:
                    continue


def _environment() -> dict[str, str]:
    """This package must be found by the new process, however it was found by ours."""
    root = str(Path(__file__).parents[2])
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}

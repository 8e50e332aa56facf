"""A client as the coordinator has it: its name and configuration, its process, and a thread that hears what it says."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

from gossamer.config import Config

_JOIN_S = 0.25

Said = Queue[tuple[int, dict[str, Any] | None]]  # by which client, and what; None: it is gone


@dataclass(frozen=True)
class Worker:
    """A client as the coordinator wants it."""

    name: str
    slots: int = 4
    values: Mapping[str, Any] = field(default_factory=dict)  # configuration of its own

    def delay_s(self, config: Config) -> float:
        """What it keeps between two requests, if all are told `config`."""
        return config.replace(self.values).polite.delay_s


class Process:
    """`close` it in the end, whatever became of it."""

    def __init__(self, number: int, worker: Worker, said: Said) -> None:
        self.worker, self.number = worker, number
        self.at: dict[str, tuple[int, int]] = {}
        self.pages = self.done = 0
        self.took_s = self.forecast_s = 0.0  # of pages that it has fetched
        self.heard_s = 0.0
        self.is_alive = True
        self.is_ready = False  # it has begun to speak
        self.way: dict[str, float] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gossamer.scan.client"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=_environment(),
        )  # fmt: skip
        self.pid = self._process.pid
        self._thread = threading.Thread(target=self._read, args=(said,), name=worker.name, daemon=True)
        self._thread.start()

    def _read(self, said: Said) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                said.put((self.number, json.loads(line)))
            except ValueError:  # the last words of a client that was killed
                break
        said.put((self.number, None))

    def tell(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it has died; the reading thread says so
            return

    def kill(self) -> int:
        self._process.kill()
        return self._process.wait()

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

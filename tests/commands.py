"""The command `gossamer` as users run it: real processes, their output, and crawls that are still running."""

import atexit
import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from warm_start import WarmStart

ROOT = Path(__file__).parents[1]
_PATIENCE_S = 120.0


def environment() -> dict[str, str]:
    """Wide output, so that no word is broken; and this package, not one that may be installed."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}


def line(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "gossamer", *map(str, arguments)]


def run(*arguments: object, at: Path, given: str = "") -> "subprocess.CompletedProcess[bytes]":
    """Runs a command to its end; output as bytes, because some commands write files to standard output."""
    return _warm_start().run([str(each) for each in arguments], at, environment(), given.encode(), _PATIENCE_S)


@functools.cache
def _warm_start() -> WarmStart:
    """Starts the process that waits, once in a process of tests."""
    warm = WarmStart(environment())
    atexit.register(warm.close)
    return warm


def succeed(*arguments: object, at: Path, given: str = "") -> str:
    """What a command prints that must not complain."""
    done = run(*arguments, at=at, given=given)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    return done.stdout.decode()


def answer(*arguments: object, at: Path) -> Any:
    """The same as JSON."""
    return json.loads(succeed(*arguments, at=at))


def complaint(*arguments: object, at: Path) -> str:
    """What a command says that must fail: one message, no traceback, no other output."""
    done = run(*arguments, at=at)
    said = done.stderr.decode()
    assert done.returncode in (1, 2), said
    assert done.stdout == b""
    assert "Traceback" not in said
    return said


class Process:
    """A command that runs while the test does other things."""

    def __init__(self, arguments: tuple[object, ...], at: Path) -> None:
        self.inner = subprocess.Popen(
            line(*arguments), cwd=at, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def signal(self, number: int) -> None:
        self.inner.send_signal(number)

    def finish(self, timeout_s: float = _PATIENCE_S) -> tuple[int, str, str]:
        """Exit code, output and complaints."""
        out, err = self.inner.communicate(timeout=timeout_s)
        return self.inner.returncode, out.decode(), err.decode()

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while not condition():
            assert self.inner.poll() is None, f"it ended before {what}: {self.finish()}"
            assert time.monotonic() < end_s, f"no {what} within {_PATIENCE_S:g} s"
            time.sleep(0.05)


@contextlib.contextmanager
def running(*arguments: object, at: Path) -> Iterator[Process]:
    process = Process(arguments, at)
    try:
        yield process
    finally:
        process.inner.kill()
        process.inner.communicate()


def committed_visits(directory: Path) -> int:
    """Visits that the crawl has logged as committed so far."""
    log = directory / "log" / "crawl.jsonl"
    if not log.exists():
        return 0
    events = [json.loads(text) for text in log.read_text().splitlines()]
    return sum(event["visits"] for event in events if event["event"] == "commit")

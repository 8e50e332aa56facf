"""`RunningWeb` is a test web in a process of its own, for as long as a `with` block; tests, demo and benchmarks use it.

with RunningWeb(WebSpec(seed=1, hosts=30, pages=1_000), log_path=path) as web:
    web.address      "127.0.0.1:40123", for resolve.map = {"*": address}
    web.start_url    "http://h0.test/"
    web.truth        the same web as a SyntheticWeb, to ask what a crawl must find
    web.log()        the requests so far, as columns
    web.fault("h3.test", "hang"); web.advance(3_600)
"""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from urllib.parse import urlencode

from gossamer.errors import GossamerError
from gossamer.testweb.log import FLUSH_S, Log, read_log
from gossamer.testweb.server import CONTROL
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb

_STOP_S = 10.0


class RunningWeb:
    def __init__(
        self,
        spec: WebSpec | None = None,
        *,
        roots: Mapping[str, Path] | None = None,
        graph: Path | None = None,
        log_path: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """`options` are further ones of the command line, such as --latency-ms 20 or --fault h1.test=hang."""
        self._spec = spec
        self.log_path = log_path
        command = [sys.executable, "-m", "gossamer", "testweb", "--json", "--stop-on-eof"]
        command += spec.options() if spec else []
        if spec is None and not roots and graph is None:
            raise GossamerError("a test web needs a WebSpec, roots or a graph")
        if spec is not None and (roots or graph):
            command.append("--synthetic")
        for name, root in (roots or {}).items():
            command += ["--root", f"{name}={root}"]
        command += ["--graph", str(graph)] if graph else []
        command += ["--log", str(log_path)] if log_path else []
        self._command = [*command, *options]
        self.address = ""
        self.start_urls: list[str] = []
        self.epoch_s = 0.0  # wall clock when the web's time began
        self.pid = 0

    def __enter__(self) -> "RunningWeb":
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()  # it listens already when it writes this
        if not line:
            self._stop()
            raise GossamerError(f"the test web did not start: {' '.join(self._command)}")
        announced = json.loads(line)
        self.address, self.start_urls, self.epoch_s = (announced[name] for name in ("address", "start_urls", "epoch_s"))
        self.pid = self._process.pid
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        process = self._process
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()

    @property
    def start_url(self) -> str:
        return self.start_urls[0]

    @cached_property
    def truth(self) -> SyntheticWeb:
        if self._spec is None:
            raise GossamerError("only a synthetic web knows the truth about itself: give a WebSpec")
        return SyntheticWeb(self._spec)

    def log(self) -> Log:
        """Returns what has been answered so far. Waits until the lines of finished requests are in the file."""
        if self.log_path is None:
            raise GossamerError("this test web keeps no log: give log_path")
        if self._process.poll() is None:
            time.sleep(2 * FLUSH_S)
        return read_log(self.log_path)

    def fault(self, host: str, kind: str = "") -> None:
        """Switches a fault of a host on (see faults.py), or off."""
        self._tell("/fault", {"host": host, **({"kind": kind} if kind else {})})

    def advance(self, seconds: float) -> None:
        """Moves the web's time on."""
        self._tell("/advance", {"s": str(seconds)})

    def _tell(self, path: str, values: Mapping[str, str]) -> None:
        connection = http.client.HTTPConnection(self.address, timeout=_STOP_S)
        try:
            connection.request("GET", f"{path}?{urlencode(values)}", headers={"Host": CONTROL})
            answer = connection.getresponse()
            message = answer.read().decode()
            if answer.status != 200:
                raise GossamerError(message.strip())
        finally:
            connection.close()


def _environment() -> dict[str, str]:
    """Returns an environment in which the new process finds this package, however it was found by ours."""
    root = str(Path(__file__).parents[2])
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}

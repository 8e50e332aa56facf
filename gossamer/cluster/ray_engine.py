"""`RayEngine` is the engine of a Ray cluster: each job is a process beside an actor, on a node that Ray chooses.

The actor carries lines to and fro, and ends with its owner; the process ends with the actor. Ray restarts nothing:
whoever supervises a job replaces it. Every node needs the same version of Gossamer, and the archive at a place that all
of them reach.
"""

import contextlib
import logging
import os
import queue
import threading
from math import inf
from pathlib import Path
from typing import IO, Any, NamedTuple

from gossamer.cluster.engine import LOST, Job, Received, how
from gossamer.cluster.processes import Process, Processes
from gossamer.errors import ConfigError, SiteError
from gossamer.version import __version__

_BEGIN_S = 60.0  # a worker process of Ray is started within seconds, unless the cluster is in trouble
_READ_S = 1.0  # how long a question for output waits
_KILL_S = 5.0  # a node that does not answer for so long is left to Ray
_LINES = 10_000  # of output that wait for the supervisor; a job that writes more has to wait
_TAIL = 8_192  # bytes of standard error that stay here
_STORE_BYTES = 80 << 20  # of a private cluster's object store, which is not used
_GROUPS = {"input": 1, "output": 1, "control": 2}


class Output(NamedTuple):
    """`Output` is what a job has written since the last question."""

    lines: list[bytes]
    errors: bytes
    code: int | None  # once it has ended, and everything was read


class RayEngine:
    """`RayEngine` is an Engine. Without an address it uses the cluster of RAY_ADDRESS, or starts a private one on this
    machine that ends with us. A cluster that was there before is left as it is."""

    def __init__(self, address: str = "") -> None:
        self._ray = _ray()
        if not self._ray.is_initialized():
            self._connect(address or os.environ.get("RAY_ADDRESS", ""))
        self._actor = self._ray.remote(**_OPTIONS)(_Carrier)

    def start(self, job: Job, received: Received | None = None) -> "RayHandle":
        try:
            return RayHandle(self._ray, self._actor, job, received)
        except (OSError, ValueError, self._ray.exceptions.RayError) as error:
            raise SiteError(f"{job.name} cannot be started: {_reason(error)}") from error

    def room(self) -> float:
        return inf  # what has no place yet waits for one

    def cores(self) -> float:
        """Returns the CPUs that the cluster has now; it may grow."""
        return float(self._ray.cluster_resources().get("CPU", 1.0))

    def close(self) -> None:
        """There is nothing but the jobs: the cluster is not ours, or ends with us."""

    def _connect(self, address: str) -> None:
        options: dict[str, Any] = {"address": address} if address else {"object_store_memory": _STORE_BYTES}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told about a crawl unless the user wants it
        try:
            self._ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False, **options)
        except (ConnectionError, ValueError, RuntimeError, self._ray.exceptions.RayError) as error:
            raise ConfigError(
                f"there is no Ray cluster at {address or 'this machine'}: {_reason(error)}; "
                "start one with `ray start --head`, or leave the address out for a private one"
            ) from None


_OPTIONS = {
    "max_restarts": 0,
    "num_cpus": 0.01,  # a polite crawl waits most of the time; of actors that need nothing, Ray puts all on one node
    "scheduling_strategy": "SPREAD",
    "concurrency_groups": _GROUPS,
}


class _Carrier:
    """The carrier runs in a worker process of Ray. It starts the job's process, and carries lines."""

    def __init__(self, job: Job, folder: str, path: str, wants_output: bool) -> None:
        with contextlib.suppress(OSError):  # on another machine it need not exist
            os.chdir(folder)
        os.environ["PYTHONPATH"] = path
        self._job, self._wants_output = job, wants_output
        self._lines: queue.Queue[bytes | None] = queue.Queue(_LINES)
        self._read_errors = 0
        self._is_over = False  # all of the output was read
        self._started = threading.Event()
        self._process: Process | None = None
        self._failure: Exception | None = None
        # The process ends with the thread that starts it, and Ray's own threads come and go.
        threading.Thread(target=self._run, name="job", daemon=True).start()

    def begun(self) -> tuple[int, str]:
        """Returns the process id, and the version that is installed here."""
        return self._one.pid, __version__

    def read(self) -> Output:
        lines, is_over = self._waiting_lines() if self._wants_output else ([], True)
        code = self._one.wait(_READ_S) if is_over else None
        errors = self._new_errors()
        return Output(lines, errors, None if errors else code)

    def _waiting_lines(self) -> tuple[list[bytes], bool]:
        """Returns the lines that wait, and whether there will be no more; it waits for the first one."""
        lines: list[bytes] = []
        with contextlib.suppress(queue.Empty):
            line = None if self._is_over else self._lines.get(timeout=_READ_S)
            while line is not None:
                lines.append(line)
                line = self._lines.get_nowait()
            self._is_over = True
        return lines, self._is_over

    def send(self, line: bytes) -> None:
        self._one.send(line)

    def stop(self) -> None:
        self._one.stop()

    def kill(self) -> int:
        self._one.kill()
        return self._one.wait() or 0

    @property
    def _one(self) -> Process:
        """Returns the process; whoever asks before it has begun waits."""
        self._started.wait()
        if self._process is None:
            raise self._failure or SiteError(f"{self._job.name} did not begin")
        return self._process

    def _run(self) -> None:
        try:
            self._process = Processes().start(self._job, self._lines.put if self._wants_output else None)
        except Exception as error:
            self._failure = error
        self._started.set()
        if self._process is not None:
            self._process.wait()

    def _new_errors(self) -> bytes:
        found = self._one.errors_since(self._read_errors)
        self._read_errors += len(found)
        return found


class RayHandle:
    """`RayHandle` is the Handle of such a job."""

    def __init__(self, ray: Any, actor: Any, job: Job, received: Received | None) -> None:
        if any("\0" in argument for argument in job.arguments):
            raise ValueError("an argument has a null character")
        self._ray, self._received = ray, received
        self._file: IO[bytes] | None = _opened(job.errors) if job.errors else None
        self._tail = b""
        self._code: int | None = None
        self._ended = threading.Event()
        path = os.environ.get("PYTHONPATH", "")
        near = Job(job.name, job.module, job.arguments, job.task)
        self._actor = actor.remote(near, str(Path.cwd()), path, received is not None)
        self._pid = 0
        self._reader = threading.Thread(target=self._read, name=job.name, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Returns the process id on the job's node; 0 until it has begun, which takes a second or more."""
        return self._pid

    def send(self, line: bytes) -> None:
        if not self._ended.is_set():
            self._actor.send.options(concurrency_group="input").remote(line)

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout_s: float | None = None) -> int | None:
        self._ended.wait(timeout_s)
        return self._code

    def stop(self) -> None:
        if not self._ended.is_set():
            self._actor.stop.options(concurrency_group="control").remote()

    def kill(self) -> str:
        if not self._ended.is_set():
            with contextlib.suppress(self._ray.exceptions.RayError, TimeoutError):
                self._ask("kill", _KILL_S)
                self._ended.wait(_KILL_S)
        if not self._ended.is_set():  # the node does not answer: Ray kills the actor there as soon as it can
            self._ray.kill(self._actor)
            self._ended.wait(_KILL_S)
            self._end(LOST)
        return how(self._code or 0)

    def errors(self) -> str:
        return self._tail.decode("utf-8", "replace").strip()

    def close(self, patience_s: float = 0.0) -> None:
        self.wait(patience_s)
        self.kill()
        self._ray.kill(self._actor)
        self._reader.join(_READ_S)
        if self._file:
            self._file.close()

    def _ask(self, what: str, timeout_s: float | None) -> Any:
        method = getattr(self._actor, what).options(concurrency_group="output" if what == "read" else "control")
        return self._ray.get(method.remote(), timeout=timeout_s)

    def _read(self) -> None:
        """Reads until the end: that of the job, or of the node that it was on."""
        code: int | None = None if self._begins() else 1
        while code is None:
            try:
                lines, errors, code = self._ask("read", None)
            except self._ray.exceptions.RayError:
                lines, errors, code = [], b"", LOST
            self._keep(errors)
            if self._received:
                for line in lines:
                    self._received(line)
        self._end(code)
        if self._received:
            self._received(None)

    def _begins(self) -> bool:
        try:
            self._pid, version = self._ask("begun", _BEGIN_S)
        except (self._ray.exceptions.RayError, TimeoutError) as error:
            self._keep(f"Ray did not start it: {_reason(error)}\n".encode())
            return False
        if version != __version__:
            self._keep(f"its node has Gossamer {version}, and here is {__version__}: install the same\n".encode())
        return bool(version == __version__)

    def _keep(self, errors: bytes) -> None:
        self._tail = (self._tail + errors)[-_TAIL:]
        if self._file and errors and not self._file.closed:
            self._file.write(errors)
            self._file.flush()

    def _end(self, code: int) -> None:
        if self._code is None:
            self._code = code
        self._ended.set()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError(
            "Ray is not installed: pip install 'gossamer-crawler[ray]', on every node of the cluster"
        ) from None
    return ray


def _opened(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("w+b")


def _reason(error: BaseException) -> str:
    """Returns the last line of an error: those of Ray have the traceback of the worker before it."""
    lines = str(getattr(error, "cause", None) or error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__

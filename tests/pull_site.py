"""Workers that ask for jobs of any kind, as processes of their own, and the engine that gives them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gossamer.archive.store import Directory
from gossamer.cluster.pull import Pull
from gossamer.cluster.pull_worker import Worker, names, work

LEASE_S = 2.0
STORE = "PULL_STORE"


class Anything:
    """Every module may be run here."""

    def __contains__(self, _: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def engine() -> Pull:
    return Pull(Directory(os.environ[STORE]), LEASE_S)


@contextmanager
def workers(store: Path, count: int) -> Iterator["subprocess.Popen[bytes]"]:
    Directory.prepare(store, 1.0)
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), *(str(Path(__file__).parents[at]) for at in (0, 1))])
    env = {**os.environ, "PYTHONPATH": path, STORE: str(store)}
    process = subprocess.Popen([sys.executable, __file__, str(count)], env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    store, count = Directory(os.environ[STORE]), int(sys.argv[1])
    work([Worker(store, name, lambda: LEASE_S, Anything()) for name in names(count)])

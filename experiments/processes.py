"""This module asks the kernel what processes use of the CPU (Linux)."""

import os
from collections.abc import Iterable
from pathlib import Path


def cpu_s(pids: Iterable[int]) -> float:
    """User and system seconds so far of those that live."""
    return sum(_ticks(pid) for pid in pids) / os.sysconf("SC_CLK_TCK")


def family(pid: int | None = None) -> list[int]:
    """A process (ours, unless said otherwise) and all its descendants."""
    parents = {int(path.name): _stat(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found = [pid or os.getpid()]
    for parent in found:  # it grows meanwhile
        found += [child for child, stat in parents.items() if stat and int(stat[1]) == parent]
    return found


def _ticks(pid: int) -> int:
    stat = _stat(pid)
    return int(stat[11]) + int(stat[12]) if stat else 0


def _stat(pid: int) -> list[str]:
    """The fields behind the name, which may contain anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []

"""This module turns strategies and the kernel into machine code: the kernel once, strategies as pointers to it."""

import fcntl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from numba import from_dtype, njit, types
from numba.core.errors import NumbaError
from xxhash import xxh3_64_hexdigest

from gossamer import columns
from gossamer.crawl import pacing
from gossamer.errors import ConfigError
from gossamer.sim import kernel
from gossamer.sim.world import HOST_ROW, LINK_ROW, PAGE_ROW, Calls

_SOON_S = 2.0


def _rows(dtype: np.dtype[np.void]) -> types.Array:
    return types.Array(from_dtype(dtype), 1, "C")


_SIGNATURES = {
    "page_rank": types.float64[::1](_rows(PAGE_ROW), types.int64),
    "host_rank": types.float64[::1](_rows(HOST_ROW)),
    "link_weight": types.int64[::1](_rows(LINK_ROW)),
}


@cache
def compiled(function: Callable[..., Any], role: str, name: str) -> Any:
    """A strategy's own function."""
    try:
        return njit(_SIGNATURES[role])(function)
    except NumbaError as error:
        reason = str(error).strip().splitlines()
        raise ConfigError(
            f"the simulator cannot compile {role} of {name}: write it with plain NumPy on whole columns ({reason[-1]})"
        ) from None


@cache
def entry_points(world: Any, hosts: Any, frontier: Any, rules: Any) -> tuple[Any, Any]:
    """`kernel.run` and `kernel.rank_anew` for arguments of these types."""
    crawl, anew = _cached(_stamp())
    calls = tuple(types.FunctionType(signature) for signature in _SIGNATURES.values())
    with Path(__file__).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes one compiles, for a minute; the others read that
        with _explained():
            run = njit((world, hosts, frontier, frontier, rules, *calls, types.int64), cache=True, nogil=True)(crawl)
            return run, njit((world, frontier, rules, *calls), cache=True, nogil=True)(anew)  # several, in threads


@contextmanager
def _explained() -> Iterator[None]:
    """Tells a person at a terminal why nothing happens yet, unless it is soon over."""
    words = "gossamer: compiling the simulator, which is done once and takes a minute or two"
    note = Timer(_SOON_S, print, [words], {"file": sys.stderr})
    note.daemon = True
    if sys.stderr.isatty():
        note.start()
    try:
        yield
    finally:
        note.cancel()


def _cached(stamp: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """numba's cache notices a change in a function's own file and in what it closes over, but not in what it calls. So
    only these two are cached, and they close over a digest of all the code."""

    def crawl(
        world: Any,
        hosts: Any,
        frontier: Any,
        bench: Any,
        rules: Any,
        page_rank: Any,
        host_rank: Any,
        link_weight: Any,
        limit: int,
    ) -> bool:
        calls = Calls(page_rank, host_rank, link_weight)
        return len(stamp) > 0 and kernel.run(world, hosts, frontier, bench, rules, calls, limit)

    def anew(world: Any, frontier: Any, rules: Any, page_rank: Any, host_rank: Any, link_weight: Any) -> None:
        if len(stamp) > 0:
            kernel.rank_anew(world, frontier, rules, Calls(page_rank, host_rank, link_weight))

    return crawl, anew


def _stamp() -> str:
    files = [Path(str(columns.__file__)), Path(str(pacing.__file__)), *sorted(Path(__file__).parent.glob("*.py"))]
    return xxh3_64_hexdigest(b"".join(file.read_bytes() for file in files))

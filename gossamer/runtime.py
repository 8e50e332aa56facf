"""This module knows and tunes the runtime of a process that crawls; the command line tunes it, never an import."""

import ctypes
import gc
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_KEPT_BYTES = 256 << 20


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def tune() -> None:
    """Tunes garbage collection and malloc. A page makes many objects and hardly a cycle, so cycles are looked for less
    often. Freed memory is kept for the next page: giving it back and having the kernel clear it again took a tenth of
    the agent's thread."""
    gc.set_threshold(50_000, 20, 100)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


class InWorker(BaseException):
    """`InWorker` ends the loading of a script in a function worker where the script would begin to crawl."""


is_worker = False  # whether this process runs page functions for a crawl

"""This module tells how long the scan of a website waited for what failed, apart from how long the website takes.

A page that fails is tried again after `fetch.retry_s`, a host that does not answer rests for `polite.backoff_s`. Both
are our patience, not the website's slowness: the next scan waits again only for what fails again.
"""

from collections.abc import Sequence

import numpy as np

from gossamer.arrays import F64, Bools


def waited_s(begun_s: F64, ended_s: F64, failed: Bools, keys: Sequence[int], delay_s: float, most_s: float) -> float:
    """Returns the seconds in which no request was under way but such as failed, before what failed was tried again.
    Requests are in order of their beginning. Delays between requests do not count, nor do times of more than `most_s`
    without any: they are between two runs."""
    begun_s, ended_s = _in_one(begun_s, ended_s, most_s)
    found, failures, waiting = 0.0, set[int](), 0  # `waiting`: failures since the last request that did not fail
    free_s = float(begun_s[0]) - delay_s if len(begun_s) else 0.0
    for begin_s, end_s, has_failed, key in zip(begun_s.tolist(), ended_s.tolist(), failed.tolist(), keys, strict=True):
        if has_failed:
            failures.add(key)
            waiting += 1
            continue
        if waiting or key in failures:
            found += max(0.0, begin_s - free_s - (waiting + 1) * delay_s)
        failures.discard(key)
        free_s, waiting = max(free_s, end_s), 0
    return found + (max(0.0, float(ended_s.max()) - free_s - waiting * delay_s) if waiting else 0.0)


def _in_one(begun_s: F64, ended_s: F64, most_s: float) -> tuple[F64, F64]:
    """Returns the times as if there had been one run."""
    if not len(begun_s):
        return begun_s, ended_s
    silent_s = begun_s - np.append(begun_s[0], np.maximum.accumulate(ended_s)[:-1])
    early_s = np.where(silent_s > most_s, silent_s, 0.0).cumsum()
    return begun_s - early_s, ended_s - early_s

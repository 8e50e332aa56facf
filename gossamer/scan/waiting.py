"""This module tells what a scan waits for, while it does, and how long the scan of a website has waited.

A page that fails is tried again after `fetch.retry_s`, a host that does not answer rests for `polite.backoff_s`. Both
are our patience, not the website's slowness: the next scan waits again only for what fails again.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gossamer.arrays import F64, Bools
from gossamer.crawl.stats import CALM
from gossamer.watch.figures import moment

_LASTING = (
    "gone",
    "rejected",
    "forbidden",
    "no_name",
    "refused_address",
    "bad_redirect",
    "refused_type",
)  # not tried again soon
_QUIET_S = 10.0  # a website without progress for so long is reported


def in_words(outcomes: Iterable[str], until_s: float | None) -> str:
    """Returns why a website waits, as far as it is known: what went wrong that may pass, and until when it waits."""
    kinds = [word.replace("_", " ") for word in outcomes if word and word not in (*CALM, *_LASTING)]
    until = [f"tried again at {moment(until_s)[11:]}"] if until_s else []
    return ", ".join(kinds + until)


class Waiting:
    """Call `look` now and then; `delay_s` is the least time between two pages of a website."""

    def __init__(self, delay_s: float) -> None:
        self._quiet_s = max(_QUIET_S, 3 * delay_s)
        self._moved: dict[str, tuple[int, float]] = {}  # by website: pages when last seen to change, and when

    def look(self, under_way: Mapping[str, tuple[int, str]], now_s: float) -> list[str]:
        """Takes websites under way, with pages so far and what went wrong; returns those that stand still, as text."""
        found = []
        for name, (pages, trouble) in under_way.items():
            before, since_s = self._moved.get(name, (-1, now_s))
            if before != pages:
                self._moved[name] = (pages, since_s := now_s)
            if now_s - since_s >= self._quiet_s:
                found.append(f"{name} (no page for {now_s - since_s:.0f} s{': ' + trouble if trouble else ''})")
        return found


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

"""This module keeps the change history of visited pages in their rows, and adds each further visit to it."""

import numpy as np

from gossamer.arrays import F64, U8, AnyKeys, Bools, Rows
from gossamer.config import Refresh
from gossamer.frontier.pages import host_of_key
from gossamer.refresh.change_rates import counted, rates, shortest_s
from gossamer.refresh.policies import Intervals, next_interval_s

COUNTERS = [f"counters{n}" for n in range(4)]
RATE = 1e-9  # changes per second: the unit of `change_rate`


def counters(rows: Rows) -> U8:
    """Returns the change counters of VISITED rows, 32 columns."""
    words = np.empty((len(rows), len(COUNTERS)), "<u8")
    for place, name in enumerate(COUNTERS):
        words[:, place] = rows[name]
    return words.view(np.uint8)


def set_counters(rows: Rows, values: U8) -> None:
    words = np.ascontiguousarray(values).view("<u8")
    for place, name in enumerate(COUNTERS):
        rows[name] = words[:, place]


def usual_s(hosts: AnyKeys, spans_s: F64, intervals: F64) -> F64:
    """Returns the mean interval between visits at each page's host, from spans with so many; 0 if there was none."""
    _, number = np.unique(hosts, return_inverse=True)
    again = intervals > 0
    mean_s = np.divide(spans_s, intervals, out=np.zeros(len(spans_s)), where=again)
    usual: F64 = np.bincount(number, mean_s) / np.maximum(np.bincount(number, again), 1)
    return usual[number]


def restless_s(rows: Rows, settings: Refresh) -> F64:
    """Returns the shortest interval after which pages had changed that had changed at every visit; of others nan."""
    found = np.full(len(rows), np.nan)
    some = np.flatnonzero((rows["changes"] > 0) & (rows["changes"].astype(np.int64) + 1 >= rows["visits"]))
    found[some] = shortest_s(counters(rows[some]), settings.least_s)
    return found


def learn(rows: Rows, times: F64, changed: Bools, modified_s: F64, settings: Refresh) -> None:
    """Notes in the rows (VISITED, in place) how long after the visit before this one found a change, or none.
    `modified_s` is when the server says that the page was modified; nan: it does not."""
    seen = counted(counters(rows), times - rows["last_s"], changed, settings.least_s, times - modified_s)
    set_counters(rows, seen)
    prior_s = usual_s(host_of_key(rows["key"]), times - rows["first_s"], rows["visits"].astype(np.float64))
    found = rates(seen, np.maximum(prior_s, settings.least_s), settings.least_s)
    rows["change_rate"] = np.clip(found / RATE, 1, 0xFFFFFFFF)
    planned_s = np.where(rows["interval_s"] > 0, rows["interval_s"], settings.interval_s)
    rule = Intervals(least_s=settings.least_s, most_s=settings.most_s)
    rows["interval_s"] = np.ceil(next_interval_s("adaptive", planned_s, changed, rule))

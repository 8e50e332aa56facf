"""How many connections a simulated crawl kept busy: on average, and over time."""

import numpy as np

from gossamer.arrays import F64
from gossamer.sim.simulator import Trace

BINS = 300


def busy_s(trace: Trace, at_s: F64) -> F64:
    """Seconds of busy connections, all together, until each of these times."""
    lasted = np.diff(trace.active_s, append=np.maximum(at_s.max(initial=0.0), trace.active_s[-1:]))
    until = np.concatenate((np.zeros(1), np.cumsum(lasted * trace.active)))
    ends = np.concatenate((trace.active_s, trace.active_s[-1:] + lasted[-1:]))
    busy: F64 = np.interp(at_s, ends, until)
    return busy


def mean_active(trace: Trace, until_s: float) -> float:
    return float(busy_s(trace, np.array([until_s]))[0] / until_s) if until_s > 0 else 0.0


def over_time(trace: Trace, until_s: float, bins: int = BINS) -> tuple[F64, F64]:
    """The middle of each bin in seconds, and the mean number of busy connections in it."""
    edges: F64 = np.linspace(0.0, until_s, bins + 1)
    return (edges[1:] + edges[:-1]) / 2, np.diff(busy_s(trace, edges)) / (until_s / bins)

"""This module forecasts the next value of many short series, robust to outliers: a trend, and how far it may be off."""

from typing import NamedTuple

import numpy as np

from gossamer.arrays import F64

LAST = 8  # values that count; what a website was like years ago matters little
_LEAST = 4  # values before a trend is believed: with three, two of them lie on it, and it looks sure
_STEP = np.log(2.0)  # nothing is forecast to more than double, or to less than half, against its typical value
_UNSURE = 0.3  # the spread of a single value
_NORMAL = 1.4826  # the median deviation of a normal distribution, in standard deviations


class Forecast(NamedTuple):
    value: F64  # NaN where a series is empty
    spread: F64  # as a part of it: one standard deviation


def forecast(series: F64) -> Forecast:
    """Forecasts the next value of each row. A row is a series, oldest first, NaN where nothing is known; values are
    above zero. The trend is the Theil-Sen estimator: the median of the slopes between all pairs, of logarithms, since
    websites grow by parts of themselves."""
    n, width = series.shape
    if not width:
        return Forecast(np.full(n, np.nan), np.full(n, _UNSURE))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(series[:, -LAST:])
    logs[~np.isfinite(logs)] = np.nan
    width = logs.shape[1]
    early, late = np.triu_indices(width, 1)
    slopes = (logs[:, late] - logs[:, early]) / (late - early)
    counts = (~np.isnan(logs)).sum(axis=1)
    slope = np.where(counts >= _LEAST, medians(slopes), 0.0)
    when = np.arange(width) - width
    levels = logs - slope[:, None] * when
    level = medians(levels)
    typical = medians(logs)
    value = np.exp(np.clip(level, typical - _STEP, typical + _STEP))
    seen = _NORMAL * medians(np.abs(levels - level[:, None]))
    unsure = _UNSURE / np.maximum(counts, 1)  # few values that happen to agree prove little
    return Forecast(value, np.fmax(seen, unsure))


def medians(values: F64) -> F64:
    """Returns the median of each row, NaN not counted; NaN for a row that has nothing else."""
    found = np.full(len(values), np.nan)
    some = ~np.isnan(values).all(axis=1)
    if values.shape[1] and some.any():
        found[some] = np.nanmedian(values[some], axis=1)
    return found

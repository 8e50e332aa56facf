"""Tasks of uniform clients, as Pechnikov et al. have them: a website takes work / speed, and a sharper bound holds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gossamer.arrays import F64
from gossamer.errors import ConfigError
from gossamer.scan.task import Task, task


@dataclass(frozen=True)
class Uniform(Task):
    def bound_s(self) -> float:
        if self.busy_s.any():
            return super().bound_s()
        return uniform_bound_s(self.times_s[:, 0] * self.speed[0], self.speed)


def uniform(work_s: npt.ArrayLike, speed: npt.ArrayLike, *, pages: Any = None, busy_s: Any = None) -> Uniform:
    work, fast = np.asarray(work_s, np.float64), np.asarray(speed, np.float64)
    if not (np.isfinite(fast).all() and (fast > 0).all()):
        raise ConfigError("speeds must be above zero")
    made = task(work[:, None] / fast[None, :], speed=fast, pages=work if pages is None else pages, busy_s=busy_s)
    return Uniform(made.times_s, made.speed, made.pages, made.busy_s)


def uniform_bound_s(work: F64, speed: F64) -> float:
    """Returns the bound for uniform clients: all work at the speed of all; and for every k, the k largest at the speed
    of the k fastest, since k websites can occupy no more than k clients."""
    if not len(work):
        return 0.0
    largest = np.sort(work)[::-1].cumsum()
    fastest = np.sort(speed)[::-1].cumsum()
    few = min(len(work), len(speed))
    return float(max(largest[-1] / fastest[-1], (largest[:few] / fastest[:few]).max()))

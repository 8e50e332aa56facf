"""This module adds up what a round found about each page."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gossamer.arrays import I64, U8, U64, Bools, Indices
from gossamer.columns import Contributions


class Targets(NamedTuple):
    """Contributions summed up per target."""

    key: U64  # sorted, unique
    cash: I64
    hits: I64
    depth: U8
    hops: U8
    referrer: U64
    first: Indices  # place of the first contribution: order of discovery

    def where(self, mask: Bools) -> "Targets":
        if mask.all():
            return self
        columns: list[Any] = [column[mask] for column in self]
        return Targets(*columns)


class Groups(NamedTuple):
    """Which contributions go to the same page."""

    key: U64
    order: Indices
    starts: Indices

    @classmethod
    def of(cls, keys: U64) -> "Groups":
        order = np.argsort(keys)
        ordered = keys[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] + np.uint64(1)))
        return cls(ordered[starts], order, starts)

    def reduce(self, what: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return what.reduceat(values[self.order], self.starts) if len(self.starts) else values[:0]

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A value per group becomes one per contribution."""
        spread = np.empty(len(self.order), values.dtype)
        spread[self.order] = np.repeat(values, np.diff(self.starts, append=len(self.order)))
        return spread


def added_up(parts: Sequence[Contributions]) -> Contributions:
    """One row per page, by key."""
    rows = Contributions.joined(parts)
    groups = Groups.of(rows.key)
    if len(groups.key) == len(rows.key):
        return rows.take(groups.order)
    first = groups.reduce(np.minimum, np.arange(len(rows.key)))
    urls = {key: url for key, url in zip(rows.key.tolist(), rows.url, strict=True) if url}
    return Contributions(
        groups.key,
        groups.reduce(np.add, rows.cash),
        groups.reduce(np.add, rows.hits),
        groups.reduce(np.minimum, rows.depth),
        groups.reduce(np.minimum, rows.hops),
        rows.referrer[first],
        [urls.get(key, "") for key in groups.key.tolist()],
    )

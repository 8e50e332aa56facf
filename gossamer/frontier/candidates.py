"""`Candidates` are the best due pages in memory, with an exact account of what was left out of them.

A page is left out because it is worse than the *floor* (one for all), or because its host already has enough
candidates; then the host has a *cut*: the best page of it that was left out. So every due page that is better
than the floor and its host's cut is here, and nothing else is. A host that runs low is read again from the index,
where it is one range of keys; only when the floor must be lowered is the whole index read.
"""

from typing import NamedTuple

import numpy as np

from gossamer.arrays import F64, AnyKeys, Bools, Indices
from gossamer.frontier.pages import HOST_SHIFT, host_of_key
from gossamer.frontier.sorted_runs import search, search_many


class Position(NamedTuple):
    """`Position` is a position in the total order of pages: rank descending, then key ascending."""

    rank: float
    key: int


NOTHING_YET = Position(float("inf"), 0)  # no page is better


def better(ranks: F64, keys: AnyKeys, than_rank: F64 | float, than_key: AnyKeys | int) -> Bools:
    other = than_key if isinstance(than_key, np.ndarray) else np.uint64(than_key)
    is_better: Bools = (ranks > than_rank) | ((ranks == than_rank) & (keys < other))
    return is_better


def top(ranks: F64, count: int) -> Indices:
    """Returns indices of the `count` highest ranks, best first; equal ones in order of position."""
    if count >= len(ranks):
        return np.argsort(-ranks, kind="stable")
    if count <= 0:
        return np.zeros(0, np.intp)
    limit = np.partition(ranks, len(ranks) - count)[len(ranks) - count]
    above = np.flatnonzero(ranks > limit)
    equal = np.flatnonzero(ranks == limit)[: count - len(above)]
    return np.concatenate((above[np.argsort(-ranks[above], kind="stable")], equal))


def place_in_group(groups: AnyKeys) -> Indices:
    """Returns for each element how many of its group stand before it."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=groups[order][:1] + 1))
    sizes = np.diff(starts, append=len(groups))
    turns = np.empty(len(groups), np.intp)
    turns[order] = np.arange(len(groups)) - np.repeat(starts, sizes)
    return turns


class Cuts(NamedTuple):
    """Cuts are the hosts (sorted) of which something was left out, and the best page of each that was."""

    hosts: AnyKeys
    ranks: F64
    keys: AnyKeys

    @classmethod
    def none(cls) -> "Cuts":
        return cls(np.zeros(0, np.uint32), np.zeros(0), np.zeros(0, np.uint64))

    def where(self, mask: Bools) -> "Cuts":
        return Cuts(self.hosts[mask], self.ranks[mask], self.keys[mask])

    def without(self, hosts: AnyKeys) -> "Cuts":
        return self.where(~np.isin(self.hosts, hosts))

    def joined(self, other: "Cuts") -> "Cuts":
        """Returns both together; where both have a host, the better page counts."""
        hosts, ranks, keys = (np.concatenate(pair) for pair in zip(self, other, strict=True))
        order = np.lexsort((keys, -ranks, hosts))
        both = Cuts(hosts[order], ranks[order], keys[order])
        return both.where(np.diff(both.hosts, prepend=both.hosts[:1] + 1) != 0)


class Candidates:
    """Keys are sorted. Every due page above the floor and above its host's cut is here, and no other."""

    def __init__(self) -> None:
        self.clear()
        self.floor: Position | None = NOTHING_YET

    def clear(self) -> None:
        self.keys: AnyKeys = np.zeros(0, np.uint64)
        self.ranks: F64 = np.zeros(0)
        self.floor = None  # nothing is left out
        self.cuts = Cuts.none()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def memory_bytes(self) -> int:
        return self.keys.nbytes + self.ranks.nbytes + sum(part.nbytes for part in self.cuts)

    def put(self, keys: AnyKeys, ranks: F64, wanted: Bools) -> None:
        """Updates pages (sorted by key): they are now wanted with this rank, or not wanted."""
        if self.floor:
            wanted = wanted & better(ranks, keys, *self.floor)
        if len(self.cuts.hosts):
            cut, at = search(self.cuts.hosts, host_of_key(keys))
            at = np.minimum(at, len(self.cuts.hosts) - 1)
            wanted = wanted & (~cut | better(ranks, keys, self.cuts.ranks[at], self.cuts.keys[at]))
        here, at = search_many(self.keys, keys)
        stays = here & wanted
        self.ranks[at[stays]] = ranks[stays]
        goes, comes = here & ~wanted, wanted & ~here
        if goes.any() or comes.any():
            self._replace(at[goes], keys[comes], ranks[comes])

    def _replace(self, gone: Indices, keys: AnyKeys, ranks: F64) -> None:
        old_keys, old_ranks = self.keys, self.ranks
        if len(gone):
            old_keys, old_ranks = np.delete(old_keys, gone), np.delete(old_ranks, gone)
        if len(keys) and (not len(old_keys) or keys[0] > old_keys[-1]):  # a scan comes in order
            old_keys, old_ranks = np.concatenate((old_keys, keys)), np.concatenate((old_ranks, ranks))
        elif len(keys):
            at = np.searchsorted(old_keys, keys)
            old_keys, old_ranks = np.insert(old_keys, at, keys), np.insert(old_ranks, at, ranks)
        self.keys, self.ranks = old_keys, old_ranks

    def drop(self, positions: Indices) -> None:
        self._replace(positions, self.keys[:0], self.ranks[:0])

    def count_of(self, hosts: AnyKeys) -> Indices:
        """Returns how many candidates each of these hosts has."""
        first = hosts.astype(np.uint64) << HOST_SHIFT
        last = first | np.uint64(2 ** int(HOST_SHIFT) - 1)
        return np.searchsorted(self.keys, last, side="right") - np.searchsorted(self.keys, first)

    def hosts(self) -> tuple[AnyKeys, Indices, Indices]:
        """Returns hosts that have candidates: the host, where its candidates start, how many there are."""
        hosts = host_of_key(self.keys)
        starts = np.flatnonzero(np.diff(hosts, prepend=hosts[:1] + 1))
        return hosts[starts], starts, np.diff(starts, append=len(hosts))

    def cap(self, per_host: int) -> None:
        """Leaves out all but the best `per_host` pages of each host."""
        hosts, starts, sizes = self.hosts()
        keep = np.ones(len(self.keys), np.bool_)
        large = np.flatnonzero(sizes > per_host)
        left_out: list[Position] = []
        for start, size in zip(starts[large].tolist(), sizes[large].tolist(), strict=True):
            ranks = self.ranks[start : start + size]
            best = top(ranks, per_host + 1)
            keep[start : start + size] = False
            keep[start + best[:-1]] = True
            left_out.append(Position(float(ranks[best[-1]]), int(self.keys[start + best[-1]])))
        if left_out:
            cut_ranks, cut_keys = zip(*left_out, strict=True)
            new = Cuts(hosts[large], np.array(cut_ranks, np.float64), np.array(cut_keys, np.uint64))
            self.cuts = self.cuts.joined(new)
            self.keys, self.ranks = self.keys[keep], self.ranks[keep]

    def raise_floor(self, count: int) -> None:
        """Leaves out all but the best `count` pages."""
        if count >= len(self.keys):
            return
        limit = np.partition(self.ranks, len(self.ranks) - count - 1)[len(self.ranks) - count - 1]
        keep = self.ranks > limit
        equal = np.flatnonzero(self.ranks == limit)
        spare = count - int(keep.sum())
        keep[equal[:spare]] = True
        self.floor = Position(float(limit), int(self.keys[equal[spare]]))
        self.keys, self.ranks = self.keys[keep], self.ranks[keep]
        # What a host's cut left out is below the floor too, if its best page is.
        cuts = self.cuts
        self.cuts = cuts.where(better(cuts.ranks, cuts.keys, *self.floor))

    def leave_hosts(self, host_ranks: F64, count: int) -> None:
        """Leaves out the lowest ranked hosts (one rank per host of `hosts()`) until `count` pages are left."""
        hosts, starts, sizes = self.hosts()
        order = np.argsort(-host_ranks, kind="stable")
        leaves = np.zeros(len(hosts), np.bool_)
        leaves[order[np.cumsum(sizes[order]) > count]] = True
        if not leaves.any():
            return
        best = np.maximum.reduceat(self.ranks, starts)
        # A mark with key 0 is better than any page of that rank: it errs towards reading the host again.
        new = Cuts(hosts[leaves], best[leaves], np.zeros(int(leaves.sum()), np.uint64))
        self.cuts = self.cuts.joined(new)
        keep = np.repeat(~leaves, sizes)
        self.keys, self.ranks = self.keys[keep], self.ranks[keep]

"""`DueQueue` has pages that become due later, in buckets of a minute, up to a horizon; the index has the others."""

import numpy as np

from gossamer.arrays import U32, AnyKeys

BUCKET_S = 60
NO_HORIZON_S = 2**32  # later than any due time


class DueQueue:
    """It keeps at most `capacity` pages, those due first. An entry may be outdated: the page's row decides."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._buckets: dict[int, list[tuple[AnyKeys, U32]]] = {}
        self._count = 0
        self.horizon_s = 0  # pages due from here on are not kept

    def clear(self) -> None:
        self._buckets = {}
        self._count = 0
        self.horizon_s = NO_HORIZON_S

    def __len__(self) -> int:
        return self._count

    @property
    def memory_bytes(self) -> int:
        return 12 * self._count

    def add(self, keys: AnyKeys, due_s: U32) -> None:
        near = due_s < self.horizon_s
        keys, due_s = keys[near], due_s[near]
        if not len(keys):
            return
        buckets = due_s // BUCKET_S
        order = np.argsort(buckets, kind="stable")
        keys, due_s, buckets = keys[order], due_s[order], buckets[order]
        starts = np.flatnonzero(np.diff(buckets, prepend=buckets[:1] + 1))
        for number, part, times in zip(
            buckets[starts].tolist(), np.split(keys, starts[1:]), np.split(due_s, starts[1:]), strict=True
        ):
            # Copies: a view would keep the whole batch alive.
            self._buckets.setdefault(number, []).append((part.copy(), times.copy()))
        self._count += len(keys)
        self._shorten()

    def all(self) -> tuple[AnyKeys, U32]:
        """Returns everything, in the order of buckets."""
        batches = [batch for number in sorted(self._buckets) for batch in self._buckets[number]]
        if not batches:
            return np.zeros(0, np.uint64), np.zeros(0, np.uint32)
        keys, times = zip(*batches, strict=True)
        return np.concatenate(keys), np.concatenate(times)

    def take(self, now_s: int) -> AnyKeys:
        """Returns keys whose time has come, sorted, without repetition."""
        due: list[AnyKeys] = []
        for number in [number for number in self._buckets if number * BUCKET_S <= now_s]:
            for keys, times in self._pop(number):
                ready = times <= now_s
                due.append(keys[ready])
                if not ready.all():
                    self._buckets.setdefault(number, []).append((keys[~ready], times[~ready]))
                    self._count += int((~ready).sum())
        return np.unique(np.concatenate(due)) if due else np.zeros(0, np.uint64)

    def first(self) -> tuple[AnyKeys, U32] | None:
        """Returns what is in the earliest bucket."""
        if not self._buckets:
            return None
        keys, times = zip(*self._buckets[min(self._buckets)], strict=True)
        return np.concatenate(keys), np.concatenate(times)

    def last_s(self, limit_s: float) -> int | None:
        """Returns the latest time up to the limit at which something becomes due."""
        times = [int(t) for batches in self._buckets.values() for _, due_s in batches for t in due_s[due_s <= limit_s]]
        return max(times, default=None)

    def reaches(self, limit_s: float) -> bool:
        """Returns whether something is due in a bucket that begins later."""
        return max(self._buckets, default=0) * BUCKET_S > limit_s

    def forget_first(self) -> None:
        self._pop(min(self._buckets))

    def _pop(self, number: int) -> list[tuple[AnyKeys, U32]]:
        batches = self._buckets.pop(number)
        self._count -= sum(len(keys) for keys, _ in batches)
        return batches

    def _shorten(self) -> None:
        """Forgets the farthest when over capacity, and so much that this is not soon needed again."""
        if self._count <= self._capacity:
            return
        for number in sorted(self._buckets, reverse=True):
            if self._count <= self._capacity // 2:
                return
            self._pop(number)
            self.horizon_s = number * BUCKET_S

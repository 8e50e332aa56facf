"""`Held` keeps links for other agents back while there are few of them, so that they go out in fewer, longer messages.

Each message costs its sender and its receiver milliseconds, however short it is, and with n agents a round has n - 1 of
them. So an agent whose rounds are full, and follow each other closely, sends links with one round in so many: the more
agents there are, the fewer. A message is then as long with many agents as with two. Links that say only that pages are
less deep than was known are in no hurry either: while others work, they wait once for more. What is held back is in
files that the manifests name, one of each round: a crash loses none of it.
"""

import numpy as np

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import HELD, Changes
from gossamer.archive.store import Store
from gossamer.columns import Contributions
from gossamer.crawl.inbox import decode, encode
from gossamer.frontier.targets import added_up
from gossamer.sharing.owners import Owners

ENOUGH, MOST = 2_000, 100_000  # links for each other agent on average, and in all
ROUNDS = 4  # for each other agent


class Held:
    """`Held` is read from the chain; `divided` comes once a round."""

    def __init__(self, store: Store, chain: Chain) -> None:
        self._store, self._chain = store, chain
        self._before = Contributions.joined(decode(store.get(name)) for name in chain.files.get(HELD, ()))
        self._parts: list[Contributions] = []
        self._rounds = 0  # since all was sent

    def __bool__(self) -> bool:
        return bool(self._parts or len(self._before.key))

    @property
    def of_before(self) -> Contributions:
        """Returns what a run before this one held back. It goes through a round once more: some may be ours by now."""
        return self._before

    @property
    def has_time(self) -> bool:
        """Returns whether nobody waits for what is held back: there is no new page in it, and no cash."""
        return not len(self._before.key) and all(map(_is_only_depth, self._parts))

    @property
    def is_late(self) -> bool:
        """Returns whether the last round has held links back."""
        return bool(self._rounds)

    def divided(
        self, links: Contributions, owners: Owners, others: int, is_full: bool, has_time: bool = False
    ) -> tuple[Contributions, Changes]:
        """Returns the links that go out with this round: all, or those for whom it has enough. The others are held.
        `has_time`: others work, so that a round with nothing but less deep pages may wait for the next one."""
        names = list(self._chain.files.get(HELD, ()))
        count = len(links.key) + sum(len(part.key) for part in self._parts)
        may_wait = is_full or (has_time and not self._parts and _is_only_depth(links))
        if not may_wait or self._rounds >= ROUNDS * others or count >= min(MOST, ENOUGH * others):
            links = added_up([*self._parts, links]) if self._parts else links
            self._parts, self._rounds, self._before = [], 0, Contributions.none()
            return links, Changes({}, {HELD: names} if names else {})
        self._rounds += 1
        few = np.zeros(len(links.key), np.bool_)
        for name, rows in owners.by_name(links.key):
            few[rows] = len(rows) < ENOUGH and not owners.is_remote_site(name)
        held = links.take(np.flatnonzero(few))
        if len(held.key):
            self._parts.append(held)
        removed = names if len(self._before.key) else []
        self._before = Contributions.none()
        return links.take(np.flatnonzero(~few)), Changes(self._written(held), {HELD: removed} if removed else {})

    def _written(self, held: Contributions) -> dict[str, list[str]]:
        names = []
        for part, data in enumerate(encode(held)):
            names.append(f"outbox/{HELD}/{self._chain.label}-{part:04d}.arrow")
            self._store.put(names[-1], data)
        return {HELD: names} if names else {}


def _is_only_depth(links: Contributions) -> bool:
    """Returns whether these links lead to pages that are known where they belong, and bring nothing but their depth."""
    return not (links.hits.any() or links.cash.any())

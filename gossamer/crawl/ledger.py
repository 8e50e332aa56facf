"""The account of OPIC cash: whole quanta, so that its total is the same after every round, in any order.

minted = (stored cash of all pages) + known * v + pool + cash in outboxes

The virtual page links to every page, but nobody can add to every row. So a row stores its cash minus `v`,
what the virtual page has given to each page since the beginning, and giving is adding to `v`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from gossamer.archive.state import LedgerState

SEED_CASH = 1 << 40
MAX_MINTED = 1 << 62  # any sum of cash stays an int64


@dataclass
class Ledger:
    v: int = 0  # given to every known page so far
    pool: int = 0  # what the virtual page has and has not given yet
    minted: int = 0  # all there is
    known: int = 0  # pages

    def mint(self, seeds: int) -> int:
        """New cash for so many seeds: how much each gets."""
        each = min(SEED_CASH, (MAX_MINTED - self.minted) // max(seeds, 1))
        self.minted += each * seeds
        return each

    def give(self, others: int = 0) -> None:
        """The virtual page is visited: every known page gets the same, those that other agents know included; what is
        theirs, and the remainder, waits."""
        if self.known:
            each = self.pool // (self.known + others)
            self.pool -= each * self.known
            self.v += each

    def share(self, others: Mapping[str, int]) -> dict[str, int]:
        """After `give`: what of the pool goes to other agents, by the pages they know."""
        all_known = sum(others.values())
        each = self.pool // all_known if all_known else 0
        shares = {name: each * known for name, known in others.items() if each and known}
        self.pool -= sum(shares.values())
        return shares

    def missing(self, stored: int, outboxes: int = 0) -> int:
        """What the account lacks, given the sums of stored cash and of cash on its way: always 0."""
        return self.minted - (stored + self.known * self.v + self.pool + outboxes)

    def state(self) -> LedgerState:
        return LedgerState(**asdict(self))

    @classmethod
    def of(cls, state: LedgerState) -> "Ledger":
        return cls(state.v, state.pool, state.minted, state.known)

"""`Ledger` is the account of OPIC cash in whole quanta: its total is the same after every round, in any order.

minted = (stored cash of all pages) + known * v + pool + cash in outboxes

The virtual page links to every page, but nobody can add to every row. So a row stores its cash minus `v`,
what the virtual page has given to each page since the beginning, and giving is adding to `v`.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict

from gossamer.archive.state import LedgerState

SEED_CASH = 1 << 40
MAX_MINTED = 1 << 62  # any sum of cash stays an int64


class Ledger(Struct):
    v: int = 0  # given to every known page so far
    pool: int = 0  # what the virtual page has and has not given yet
    minted: int = 0  # all cash there is
    known: int = 0  # pages

    def mint(self, seeds: int) -> int:
        """Mints new cash for so many seeds, and returns how much each gets."""
        each = min(SEED_CASH, (MAX_MINTED - self.minted) // max(seeds, 1))
        self.minted += each * seeds
        return each

    def give(self, others: int = 0) -> None:
        """Visits the virtual page: every known page gets the same, those that other agents know included. Their shares
        and the remainder stay in the pool."""
        if self.known:
            each = self.pool // (self.known + others)
            self.pool -= each * self.known
            self.v += each

    def share(self, others: Mapping[str, int]) -> dict[str, int]:
        """Returns, after `give`, what of the pool goes to other agents, by the pages they know."""
        all_known = sum(others.values())
        each = self.pool // all_known if all_known else 0
        shares = {name: each * known for name, known in others.items() if each and known}
        self.pool -= sum(shares.values())
        return shares

    def missing(self, stored: int, outboxes: int = 0) -> int:
        """Returns what the account lacks, given the sums of stored cash and of cash on its way: always 0."""
        return self.minted - (stored + self.known * self.v + self.pool + outboxes)

    def state(self) -> LedgerState:
        return LedgerState(**asdict(self))

    @classmethod
    def of(cls, state: LedgerState) -> "Ledger":
        return cls(state.v, state.pool, state.minted, state.known)

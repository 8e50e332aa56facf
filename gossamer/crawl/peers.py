"""`Peers` is the port between an agent and all others; `Alone` is its implementation for a crawl with one agent.

The agent asks it what came in, whose a link is, what goes out with a round, and when to end. All of it becomes part of
the round's commit, or none.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np

from gossamer.archive.chain import Publisher
from gossamer.archive.manifest import SEED_FILES, SEEDS, Batch, Changes
from gossamer.arrays import Bools
from gossamer.columns import Contributions
from gossamer.crawl.commit import Closed, Whose
from gossamer.crawl.control import Report
from gossamer.crawl.inbox import Aside, Inbox
from gossamer.crawl.opening import Books, mentioned
from gossamer.crawl.round import Round
from gossamer.crawl.seeds import Intake, minted, readable
from gossamer.frontier.sorted_runs import Keys


class Arrived(NamedTuple):
    """What a commit takes in besides its own visits."""

    rows: Contributions
    changes: Changes
    widened: bool  # the scope: links that were refused may be admitted now


class Sent(NamedTuple):
    """What goes out with a commit."""

    outbox: Sequence[Batch] = ()
    changes: Changes = Changes()
    links: int = 0
    remote: tuple[int, int] = (0, 0)  # links to remote sites so far, and how many of them a cache knew


class Peers(Whose, Protocol):
    """Everybody else, as one agent sees them. Only the agent's thread calls it."""

    @property
    def intake(self) -> Intake:
        """Seeds, the scope, and named sitemaps."""

    @property
    def exchange(self) -> Publisher:
        """How messages travel."""

    @property
    def is_site(self) -> bool:
        """Somebody else says when the agent ends, and hears how it gets on."""

    @property
    def is_due(self) -> bool:
        """Something is to be sent, without waiting for a round to fill."""

    @property
    def lease_until_s(self) -> float:
        """By the monotonic clock: until then nobody else crawls what is ours. Nothing is fetched afterwards."""

    @property
    def known_elsewhere(self) -> int:
        """Pages of others that a virtual page of ours gives cash to."""

    def begin(self) -> bool:
        """Called once, before the first commit. Whether that must be at once."""

    def look(self) -> None:
        """Called several times a second."""

    def allowed(self) -> int | None:
        """So many pages may be visited, earlier runs included; None: any number."""

    def why_over(self) -> str:
        """Why the run must end, in words; empty while it may go on."""

    def report(self, report: Report) -> None:
        """How the agent gets on, several times a second: who does not report, is not alive."""

    def facts(self) -> Mapping[str, Any]:
        """What a report says besides."""

    def pending(self) -> list[Batch]:
        """Messages that the next commit may apply."""

    def take(self, messages: list[Batch], round_: Round) -> Arrived:
        """They are applied with this round."""

    def send(self, closed: Closed, /) -> Sent:
        """The round is closed: what of it is for others. `take` came before."""

    def state(self) -> dict[str, Any]:
        """For the manifest of the commit that `send` was called for."""


class Alone:
    """One agent owns every page: nothing comes in but seeds, and nothing goes out."""

    is_site = is_due = False
    lease_until_s, known_elsewhere = inf, 0

    def __init__(self, books: Books, inbox: Inbox, aside: Aside) -> None:
        self._books, self.exchange, self._aside = books, inbox, aside
        self.intake = Intake(books.store, books.chain, books.config.crawl.scope)

    def is_own(self, keys: Keys, /) -> Bools:
        return np.ones(len(keys), np.bool_)

    is_native = is_own

    def pending(self) -> list[Batch]:
        found = self.exchange.pending(self._books.chain.agent, self._books.chain.marks)
        return [readable(each, self._aside) for each in found if each.sender in (SEEDS, SEED_FILES)]

    def take(self, messages: list[Batch], round_: Round) -> Arrived:
        books, intake = self._books, self.intake
        seeds = intake.take(messages)
        hosts, namings = intake.scope.widen(seeds), intake.named.add(round_.named)
        rows = [mentioned(list(round_.sitemaps)), minted(seeds, books.index, books.ledger)]
        return Arrived(Contributions.joined(rows), intake.write(hosts, namings), bool(hosts))

    def send(self, _closed: Closed, /) -> Sent:
        return Sent()

    def allowed(self) -> int | None:
        return self._books.config.crawl.pages or None

    def begin(self) -> bool:
        return False

    def look(self) -> None:
        pass

    def why_over(self) -> str:
        return ""

    def report(self, report: Report) -> None:
        pass

    def facts(self) -> Mapping[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

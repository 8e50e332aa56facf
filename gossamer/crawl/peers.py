"""`Peers` is the port between an agent and all others; `Alone` is its implementation for a crawl with one agent.

The agent asks it what came in, whose a link is, what goes out with a round, and when to end. All of it becomes part of
the round's commit, or none.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from gossamer.archive.chain import Publisher
from gossamer.archive.manifest import SEED_FILES, SEED_RULES, SEEDS, Changes, Message
from gossamer.archive.state import AgentState
from gossamer.arrays import AnyKeys, Bools
from gossamer.columns import Contributions
from gossamer.crawl.commit import Closed, Whose
from gossamer.crawl.inbox import Aside, Inbox
from gossamer.crawl.opening import Books, mentioned
from gossamer.crawl.round import Round
from gossamer.crawl.seeds import Intake, minted, readable
from gossamer.crawl.stats import Report, SiteProgress


class Arrived(NamedTuple):
    """`Arrived` is what a commit takes in besides its own visits."""

    rows: Contributions
    changes: Changes
    widened: bool  # the scope, or rules of a website are new: links that were refused may be admitted now


class Sent(NamedTuple):
    """`Sent` is what goes out with a commit."""

    outbox: Sequence[Message] = ()
    changes: Changes = Changes()
    links: int = 0
    remote: tuple[int, int] = (0, 0)  # links to remote sites so far, and how many of them a cache knew


class Peers(Whose, Protocol):
    """This port is everybody else, as one agent sees them. Its defaults are those of an agent that is alone. Only the
    agent's thread calls it."""

    @property
    def intake(self) -> Intake:
        """Returns the intake of seeds, scope and named sitemaps."""

    @property
    def exchange(self) -> Publisher:
        """Returns the exchange that carries messages."""

    def pending(self) -> list[Message]:
        """Returns the messages that the next commit may apply."""

    def take(self, messages: list[Message], round_: Round) -> Arrived:
        """Applies messages with this round."""

    def send(self, _closed: Closed, _is_last: bool = False, /) -> Sent:
        """Returns what of the closed round is for others; of the last one, all that is. `take` came before."""
        return Sent()

    def noted(self, state: AgentState) -> AgentState:
        """Returns the state with what is to be kept, for the manifest of the commit that `send` was called for."""
        return state

    def committed(self) -> None:
        """Notes that the round is part of the archive."""
        return

    @property
    def known_elsewhere(self) -> int:
        """Returns how many pages of others our virtual page gives cash to."""
        return 0

    def begin(self) -> bool:
        """Prepares the first commit; called once, before it. Returns whether it must be made at once."""
        return False

    def may_wait(self, _messages: list[Message], /) -> float:
        """Returns for how many seconds after a commit an agent that has nothing else to do may leave these messages,
        and links that it holds back, as they are."""
        return 0.0

    @property
    def is_due(self) -> bool:
        """Returns whether something must be sent without waiting for a round to fill."""
        return False

    @property
    def is_holding(self) -> bool:
        """Returns whether links for others wait for more of them: an agent that finds no more must send them."""
        return False

    @property
    def is_site(self) -> bool:
        """Returns whether a site decides when the agent ends, and receives its reports."""
        return False

    @property
    def lease_until_s(self) -> float:
        """Returns when our lease ends (monotonic clock): nobody else crawls ours before; we fetch nothing after."""
        return inf

    def allowed(self) -> int | None:
        """Returns how many pages may be visited, earlier runs included; None: any number."""
        return None

    def why_over(self) -> str:
        """Returns why the run must end, in words; empty while it may go on."""
        return ""

    def look(self) -> None:
        """Checks whether something must be sent (`is_due`); called several times a second."""
        return

    def report(self, _report: Report, /) -> None:
        """Sends a report, several times a second: an agent that does not report counts as dead."""
        return

    def progress(self) -> SiteProgress:
        """Returns how far our site has carried out the federation's list of sites, for a report."""
        return SiteProgress()


class Alone(Peers):
    """`Alone` has one agent that owns every page: nothing comes in but seeds, and nothing goes out."""

    def __init__(self, books: Books, inbox: Inbox, aside: Aside) -> None:
        self._books, self._inbox, self._aside = books, inbox, aside
        self._intake = Intake(books.store, books.chain, books.scope)

    @property
    def intake(self) -> Intake:
        return self._intake

    @property
    def exchange(self) -> Inbox:
        return self._inbox

    def is_own(self, keys: AnyKeys, /) -> Bools:
        return np.ones(len(keys), np.bool_)

    is_native = is_own

    def allowed(self) -> int | None:
        return self._books.config.crawl.pages or None

    def pending(self) -> list[Message]:
        found = self._inbox.pending(self._books.chain.agent, self._books.chain.marks)
        return [readable(each, self._aside) for each in found if each.sender in (SEEDS, SEED_FILES, SEED_RULES)]

    def take(self, messages: list[Message], round_: Round) -> Arrived:
        books, intake = self._books, self._intake
        seeds = intake.take(messages)
        hosts, namings = intake.scope.widen(seeds), intake.named.add(round_.named)
        rows = [mentioned(list(round_.sitemaps)), minted(seeds, books.index, books.ledger)]
        changes = intake.write(hosts, namings)
        return Arrived(Contributions.joined(rows), changes, bool(hosts or intake.has_other_rules))

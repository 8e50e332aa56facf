"""`Orders` are what an agent receives from its site; a `Post` delivers them, and takes the agent's reports."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from gossamer.crawl.stats import Stats


class Orders(msgspec.Struct, frozen=True):
    """`Orders` are what a site wants of an agent."""

    owners: tuple[str, ...]  # of each zone, as it shall be
    pages: int | None = None  # the limit of this agent's visits, earlier runs included; None: any number
    stop: bool = False
    others: Mapping[str, int] = {}  # the other agents, and how many pages each knows
    replicated: int = 0  # this agent's last commit that is at all replicas of the site
    holding: bool = False  # other sites may still have hosts that are ours by now


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`Report` is the state of an agent, as it reports it to its site."""

    number: int  # of its last commit
    epoch: int
    zones: list[int]
    sent: Mapping[str, int]  # by stream: the number of the last message
    marks: Mapping[str, int]  # by stream: the last message that it has committed
    pages: int | None  # the limit of visits that it works under
    rounds: int  # of this run
    idle: str  # why it has nothing to do; empty: it has
    next_due_s: float | None
    backlog_bytes: int  # of messages that are not confirmed
    committed_s: float
    cpu_s: float
    stats: Stats
    # Of the agent that speaks for a site of a federation:
    clean: Mapping[str, int] | None = None  # by other site: the version of the list of sites that it has carried out
    passing: bool = False  # hosts are on their way through it to another agent
    is_clean: bool = False  # its own site has carried out the list of sites


class Post(Protocol):
    """This port connects an agent and its site."""

    is_site: bool  # False: only the agent itself decides when it ends

    @property
    def lease_until_s(self) -> float:
        """Returns when our lease ends (monotonic clock): nobody else crawls ours before; we fetch nothing after."""

    def report(self, report: Report) -> None:
        """Takes a report from the working loop, several times a second: an agent without reports counts as dead."""

    def orders(self) -> Orders:
        """Returns the last orders that came, without waiting."""


def site_of(agent: str) -> str:
    """Returns the site of a federation that an agent belongs to, by its name; empty if it belongs to none."""
    return agent.rpartition("_a")[0]

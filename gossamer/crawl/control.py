"""`Orders` are what an agent receives from its site; a `Post` brings them, and takes its reports."""

from collections.abc import Mapping
from math import inf
from typing import Protocol

import msgspec

from gossamer.crawl.stats import Stats


class Orders(msgspec.Struct, frozen=True):
    """What its site tells an agent."""

    owners: tuple[str, ...]  # of each zone, as it shall be
    pages: int | None = None  # this agent's visits may be so many in all, earlier runs included; None: any number
    stop: bool = False
    others: Mapping[str, int] = {}  # the other agents, and how many pages each knows
    replicated: int = 0  # this agent's last commit that is at all replicas of the site
    holding: bool = False  # other sites may still have hosts that are ours by now


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent tells its site."""

    number: int  # of its last commit
    epoch: int
    zones: list[int]
    sent: Mapping[str, int]  # by stream: the number of the last message
    marks: Mapping[str, int]  # by stream: the last message that it has committed
    pages: int | None  # the limit of visits that it works under
    rounds: int  # of this run
    idle: str  # why it has nothing to do; empty: it has
    next_due_s: float | None
    backlog_bytes: int  # of messages that nobody has confirmed
    committed_s: float
    cpu_s: float
    stats: Stats
    # Of the agent that speaks for a site of a federation:
    clean: Mapping[str, int] | None = None  # by other site: the version of the list of sites that it has carried out
    passing: bool = False  # hosts are on their way through it to another agent
    is_clean: bool = False  # its own site has carried out the list of sites


class Post(Protocol):
    """Between an agent and its site."""

    is_site: bool  # False: nobody but the agent itself says when it ends

    @property
    def lease_until_s(self) -> float:
        """By the monotonic clock: until then nobody else crawls what is ours. Nothing is fetched afterwards."""

    def report(self, report: Report) -> None:
        """Called by the loop that does the work, several times a second: who does not report, is not alive."""

    def orders(self) -> Orders:
        """The last ones that came; no waiting."""


class Fixed:
    """Agents that share a crawl and whose zones never move: nobody tells them anything."""

    is_site = False
    lease_until_s = inf

    def __init__(self, owners: tuple[str, ...]) -> None:
        self._orders = Orders(owners)

    def report(self, report: Report) -> None:
        pass

    def orders(self) -> Orders:
        return self._orders


def site_of(agent: str) -> str:
    """The site of a federation that an agent belongs to, by its name; empty if it belongs to none."""
    return agent.rpartition("_a")[0]

"""`Orders` are what an agent receives from its site; a `Post` delivers them, and takes the agent's reports."""

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

import msgspec

from gossamer.archive.zones import owners
from gossamer.crawl.stats import Report


class Orders(msgspec.Struct, frozen=True, dict=True):
    """`Orders` are what a site wants of an agent."""

    shares: Mapping[str, str]  # the zones that each agent shall own, in ranges
    pages: int | None = None  # the limit of this agent's visits, earlier runs included; None: any number
    stop: bool = False
    others: Mapping[str, int] = {}  # the other agents, and how many pages each knows
    replicated: int = 0  # this agent's last commit that is at all replicas of the site
    holding: bool = False  # other sites may still have hosts that are ours by now
    others_work: bool = False  # another agent of the site has pages under way: the crawl's end waits for that, not us

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """Returns the owner of each zone, as it shall be."""
        return owners(self.shares)


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

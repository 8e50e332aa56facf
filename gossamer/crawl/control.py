"""`Orders` are what an agent receives from its site; a `Post` brings them, and takes its reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Orders:
    """What its site tells an agent."""

    owners: tuple[str, ...]  # of each zone, as it shall be
    pages: int | None = None  # this agent's visits may be so many in all, earlier runs included; None: any number
    stop: bool = False
    others: Mapping[str, int] = field(default_factory=dict)  # the other agents, and how many pages each knows
    replicated: int = 0  # this agent's last commit that is at all replicas of the site
    holding: bool = False  # other sites may still have hosts that are ours by now


class Post(Protocol):
    """Between an agent and its site."""

    is_site: bool  # False: nobody but the agent itself says when it ends

    @property
    def lease_until_s(self) -> float:
        """By the monotonic clock: until then nobody else crawls what is ours. Nothing is fetched afterwards."""

    def report(self, facts: Mapping[str, Any]) -> None:
        """Called by the loop that does the work, several times a second: who does not report, is not alive."""

    def orders(self) -> Orders:
        """The last ones that came; no waiting."""


def site_of(agent: str) -> str:
    """The site of a federation that an agent belongs to, by its name; empty if it belongs to none."""
    return agent.rpartition("_a")[0]

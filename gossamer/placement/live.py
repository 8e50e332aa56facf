"""Places hosts one by one as a crawl discovers them, with the same decision as the partitioners of whole graphs."""

import numpy as np

from gossamer.arrays import F64
from gossamer.placement.passes import FENNEL, LDG
from gossamer.placement.stream import LINKED, SEEN, Rule, choose, learn, settle
from gossamer.placement.task import Goal

RULES: dict[str, Rule] = {"fennel": FENNEL, "ldg": LDG}
START = 1_000  # pages: before so many are known, balance does not matter


class Live:
    """How full each part is, and how much has been seen. A part here is a site, a vertex a host, its size its pages.

    No place is forgotten or changed here: who remembers them, the host map, says so with `grow` after a restart."""

    def __init__(self, goal: Goal, rule: Rule = FENNEL, start: int = START) -> None:
        self._goal = goal
        self._rule = rule._replace(slack=goal.slack)
        self.parts = goal.before(start, 0.0)

    def place(self, links: F64, size: int = 1, toll: F64 | None = None) -> int:
        """The part for a host that has so many links with hosts of each part, as far as is known now."""
        learn(self.parts, self._rule, size, float(links.sum()))
        near = self._goal.closeness @ links if len(self._goal.closeness) else links
        part = choose(near, np.zeros(len(links)) if toll is None else toll, size, self.parts, self._rule.ties_first)
        settle(self.parts, self._rule, part, size)
        return part

    def grow(self, part: int, size: int, links: float = 0.0) -> None:
        """A placed host turns out to have more pages, or more links; or both were known before a restart."""
        learn(self.parts, self._rule, size, links)
        settle(self.parts, self._rule, part, size)

    def move(self, source: int, target: int, size: int) -> None:
        """A rebalance handed a host over."""
        settle(self.parts, self._rule, source, -size)
        settle(self.parts, self._rule, target, size)

    @property
    def seen(self) -> tuple[float, float]:
        """n and m so far: sizes and weights of links."""
        return float(self.parts.known[SEEN]), float(self.parts.known[LINKED])

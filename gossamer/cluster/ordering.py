"""`Ordering` gives the agents of a site their orders: zones, pages that they may visit, and when to stop."""

from typing import TYPE_CHECKING

import msgspec

from gossamer.clocks import Clock
from gossamer.cluster.hub import NatsHub, StoreHub
from gossamer.cluster.plan import Budget
from gossamer.cluster.protocol import AgentOrders
from gossamer.cluster.roster import Roster
from gossamer.cluster.site_agent import SiteAgent
from gossamer.config import Config
from gossamer.sharing.control import Orders

if TYPE_CHECKING:
    from gossamer.cluster.neighbours import Neighbours

_KNOWN_S = 2.0  # how often an agent is told how many pages others know


class Ordering:
    """`is_stopping` is set when the crawl ends: then all get the order to stop."""

    def __init__(
        self,
        roster: Roster,
        config: Config,
        hub: NatsHub | StoreHub,
        clock: Clock,
        neighbours: "Neighbours | None" = None,
    ) -> None:
        self._roster, self._config, self._hub, self._clock = roster, config, hub, clock
        self._neighbours = neighbours
        self._budget = Budget(config.crawl.pages) if config.crawl.pages else None
        self._sent: dict[str, tuple[AgentOrders, float]] = {}  # and when
        self.is_stopping = False

    def order_all(self) -> None:
        self._divide()
        for agent in self._roster.agents.values():
            if agent.is_running:
                self.order(agent)

    def _divide(self) -> None:
        if self._budget is None:
            return
        agents = self._roster.everybody
        idle = {agent.name for agent in agents if agent.is_idle or not agent.is_running}
        received = {one.name: (one.report and one.report.pages) or 0 for one in agents if one.is_running}
        need = {agent.name: agent.figure("frontier") for agent in agents}
        self._budget.divide({agent.name: agent.visits for agent in agents}, received, idle, need)

    def order(self, agent: SiteAgent) -> None:
        others = [other for other in self._roster.agents.values() if other is not agent]
        orders = Orders(
            shares=self._roster.shares,
            pages=self._budget.grants.get(agent.name, 0) if self._budget else None,
            stop=self.is_stopping or self._may_rest(agent),
            others={other.name: other.figure("known") for other in others},
            holding=self.is_holding(),
            others_work=any(other.report is not None and other.report.is_working for other in others),
            replicated=self._neighbours.replicated(agent.name) if self._neighbours else 0,
        )
        message = AgentOrders(incarnation=agent.incarnation, orders=orders)
        if self._is_worth_sending(agent.name, message) and self._hub.registrar.order(agent.name, message):
            self._sent[agent.name] = message, self._clock.monotonic()

    def _is_worth_sending(self, name: str, message: AgentOrders) -> bool:
        """Returns whether these orders are news. How many pages others know is none for a while: it changes with every
        commit of each, for all. Where each request costs money, who they are is none either; but then orders are
        repeated, as a supervisor before us may have written its own over ours."""
        if name not in self._sent:
            return True
        before, sent_s = self._sent[name]
        calm_s, since_s = self._hub.calm_s, self._clock.monotonic() - sent_s
        if since_s >= (calm_s or _KNOWN_S):
            return bool(calm_s) or message != before
        is_same = message.incarnation == before.incarnation
        if is_same and (calm_s or message.orders.others.keys() == before.orders.others.keys()):
            return msgspec.structs.replace(message.orders, others=before.orders.others) != before.orders
        return message != before

    def _may_rest(self, agent: SiteAgent) -> bool:
        """Returns whether it has had nothing to do for a while, though others have; or has given everything away."""
        if not (agent.is_idle and agent.report) or agent.idle_since_s is None:
            return False
        if agent.name in self._roster.waited_for():
            return False
        if agent.is_retiring:
            return not (agent.zones or agent.report.backlog_bytes)
        if agent is self._roster.home and self._neighbours:
            return False  # it communicates with the other sites
        return self._clock.monotonic() - agent.idle_since_s >= self._config.site.idle_s

    # A list of sites that is being carried out

    def is_holding(self) -> bool:
        """Returns whether hosts that are ours by the list of sites may still be at others, or on their way to us."""
        if self._neighbours is None or self._neighbours.members.version == 1:
            return False
        report = self._roster.home.report
        if report is None or report.clean is None:
            return True
        return report.passing or self._neighbours.is_holding(report.clean)

    def is_moving(self) -> bool:
        """Returns whether others wait for what we must give away: that comes first, however many pages we visited."""
        if self._neighbours is None or self._neighbours.members.version == 1:
            return False
        report = self._roster.home.report
        return report is None or not report.is_clean

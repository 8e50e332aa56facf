"""`OnDemand` carries out what `scaling` decides: it lets agents come and leave, and remembers when it last did.

What it remembers is in the store, so that a supervisor that takes over goes on where the one before it was.
"""

import contextlib

from gossamer.archive.store import Store
from gossamer.clocks import Clock
from gossamer.cluster.engine import Engine
from gossamer.cluster.protocol import Versioned, decode_or_none, encode
from gossamer.cluster.roster import Roster
from gossamer.cluster.scaling import NONE, Change, Limits, Load, Scaler, Situation
from gossamer.cluster.site_agent import SiteAgent
from gossamer.cluster.store_exchange import BROKEN
from gossamer.cluster.store_registrar import FOLDER, put, read
from gossamer.config import UNLIMITED, Config
from gossamer.crawl.stats import Report

_FILE = f"{FOLDER}on-demand"


class Scaled(Versioned, frozen=True, kw_only=True):
    """`Scaled` is the last change of the number of agents."""

    time_s: float
    agents: tuple[str, ...]  # that shall share the crawl from then on


def limits(config: Config, cores: float) -> Limits:
    """Returns what holds for the agents of a site."""
    site, connections = config.site, config.polite.connections
    if not site.max_agents:
        return Limits(connections, cores=cores)
    most = site.max_agents
    if most == UNLIMITED:  # of processes that compute on one machine more than cores are of no use
        most = int(max(site.min_agents, min(most, cores)))
    return Limits(connections, site.min_agents, most, cores)


def load_of(report: Report) -> Load:
    return Load(report.stats.connections or 0, report.due_hosts, report.cpu_share)


def last_change(store: Store) -> Scaled | None:
    data = read(store, _FILE)
    return decode_or_none(Scaled, data) if data else None


def forget(store: Store) -> None:
    store.delete(_FILE)


class OnDemand:
    """`begin` is called when nobody else leads the site, `look` again and again."""

    def __init__(self, store: Store, config: Config, clock: Clock, engine: Engine, roster: Roster) -> None:
        self._store, self._config, self._clock, self._engine, self._roster = store, config, clock, engine, roster
        self._scaler = Scaler(config.site.scale_s)

    def begin(self) -> None:
        """Reads who there is. The agents of the last change go on, as far as their number is allowed now."""
        before, allowed = last_change(self._store), self._limits()
        number = len(before.agents) if before else max(self._config.site.agents, self._roster.sharing())
        self._roster.read(max(allowed.least, min(number, allowed.most)), before.agents if before else ())
        if before:
            self._scaler.changed_s = min(before.time_s, self._clock.now())  # another machine's clock may be ahead

    def look(self, is_settled: bool, pages_left: float) -> Change:
        """Makes the change that is due, if any, and returns it."""
        roster = self._roster
        is_settled = is_settled and len(roster.agents) == len(roster.staying)
        is_settled = is_settled and not any(roster.leaves(agent) for agent in roster.staying)
        loads = {agent.name: _load(agent) for agent in roster.staying}
        situation = Situation(loads, is_settled, self._engine.room(), pages_left, (roster.home.name,))
        change = self._scaler.decide(self._clock.now(), situation, self._limits())
        for _ in range(change.add):
            roster.add()
        for name in change.retire:
            roster.retire(name)
        if change is not NONE:
            self.note()
        return change

    def note(self) -> None:
        """Notes that the number of agents has just changed, by our decision or a person's."""
        self._scaler.changed_s = now_s = self._clock.now()
        names = tuple(agent.name for agent in self._roster.staying)
        with contextlib.suppress(*BROKEN):  # then whoever takes over may decide sooner
            put(self._store, _FILE, encode(Scaled(time_s=now_s, agents=names)))

    def _limits(self) -> Limits:
        return limits(self._config, self._engine.cores())


def _load(agent: SiteAgent) -> Load | None:
    if not agent.is_running and agent.is_resting:
        return Load()
    return load_of(agent.report) if agent.is_running and agent.report else None

"""The supervisor runs the agents of a site: it starts them, replaces those that die, gives them orders, and knows when
the crawl is over. It touches no page and no link."""

import sys
import time
from collections.abc import Callable, Collection, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gossamer.archive.chain import Chain, chains, snapshots
from gossamer.archive.manifest import Snapshot
from gossamer.archive.places import opened
from gossamer.archive.store import Store
from gossamer.clocks import Clock
from gossamer.cluster.agent_process import FULL, MISTAKE
from gossamer.cluster.engine import LOST, Engine, Job, last_words, room
from gossamer.cluster.hub import NatsHub, StoreHub
from gossamer.cluster.members import Members
from gossamer.cluster.plan import Budget, shared_out, undelivered
from gossamer.cluster.processes import Processes
from gossamer.cluster.protocol import AgentOrders, AgentTask, Summary, encode
from gossamer.cluster.pull import Pull
from gossamer.cluster.site_agent import SiteAgent
from gossamer.cluster.store_lease import Term
from gossamer.cluster.totals import Totals, committed
from gossamer.config import BY_STORE, PROCESSES, PULL, RAY, Config
from gossamer.config.folders import Place, folder_of
from gossamer.crawl.inbox import Inbox
from gossamer.crawl.stats import Stats
from gossamer.errors import ConfigError, OutOfSpace, SiteError
from gossamer.event_log import EventLog
from gossamer.sharing.control import Orders

if TYPE_CHECKING:
    from gossamer.cluster.neighbours import Neighbours

SITES_CHANGE = "the list of sites has changed"  # why a run ends that is to be followed by another at once
_STEP_S = 0.05
_AGENT = "gossamer.cluster.agent_process"
# On another machine no host is contacted before its delay has passed: when the last contact was, by the clock of the
# machine before it, says nothing there.
_AT_ALL_S = 0.001
_END_S = 60.0  # longest that a clean end may take


class Supervisor:
    """`run` returns when the crawl is over; `stop` may be called from a signal handler."""

    def __init__(
        self,
        crawl: Place,
        config: Config,
        clock: Clock,
        log: EventLog,
        neighbours: "Neighbours | None" = None,
        store: Store | None = None,
        totals: Totals | None = None,
        engine: Engine | None = None,
    ) -> None:
        """`store`: where the archive is, if it is not in the directory alone. `totals`: of a run that this one follows,
        so that both look like one. `engine`: what agents run on, if not as processes of this machine."""
        if config.site.engine != PROCESSES:
            config = for_machines(config)
        self._crawl, self._directory = crawl, folder_of(crawl)  # the archive, and what is beside it on this machine
        self._config, self._clock, self._log = config, clock, log
        self._store, self._neighbours = store or opened(crawl), neighbours
        self._remote_sites = set(neighbours.names) if neighbours else set()  # sites that we can contact, and ...
        self._ever = set(neighbours.members.weights) if neighbours else set()  # ... those that are gone, too
        self._home = config.crawl.agent
        if engine is None:
            engine = _engine(config, self._store)
        self._engine, self._is_alone = engine, isinstance(engine, Processes)  # then the agents end with us
        self._hub = self._chosen_hub()
        self._read_archive()
        self._budget = Budget(config.crawl.pages) if config.crawl.pages else None
        self.totals = totals or Totals(committed(self._store), clock)
        self._ordered: dict[str, tuple[AgentOrders, float]] = {}  # and when
        self._members = Members(engine, clock, config.site.lease_s, slack_s=2 * self._hub.look_s)
        self._stopping = self._has_waited = False
        self._ended = ""
        self._asked_s = self._stop_s = self._summed_up_s = 0.0

    def _chosen_hub(self) -> NatsHub | StoreHub:
        """Returns where agents and we meet."""
        config, neighbours = self._config, self._neighbours
        if config.site.exchange != BY_STORE:  # as in every federation
            opened = neighbours.open if neighbours else None
            return NatsHub(self._directory, config.site.lease_s, self._clock, self._log, opened)
        return StoreHub(self._store, config.site.lease_s, self._is_alone)

    def _read_archive(self) -> None:
        """Reads who there is, and what they have committed."""
        before = snapshots(self._store)
        self._agents: dict[str, SiteAgent] = {}
        for name in self._names(before, self._config.site.agents):
            self._agents[name] = SiteAgent(name, before.get(name, Snapshot(name)))
        for name in before.keys() - self._agents.keys():
            if before[name].zones or before[name].outbox:
                self._agents[name] = SiteAgent(name, before[name], is_retiring=True)
        self._left = {name: SiteAgent(name, at) for name, at in before.items() if name not in self._agents}
        self._owners = self._planned()

    def stop(self) -> None:
        self._stopping = True
        self._ended = self._ended or "stopped"

    def run(self, show: Callable[[Stats], None]) -> Stats:
        hub, neighbours = self._hub, self._neighbours
        if not hub.open(self._waits):
            return self.totals.final(committed(self._store), self._ended)
        self._registrar = hub.registrar
        if self._has_waited:
            self._read_archive()
        if self._is_alone:
            self._sweep()
        for agent in [] if hub.is_quiet else self._agents.values():
            self._depose(agent)
        if neighbours and isinstance(hub, NatsHub):
            neighbours.begin(hub.wire)
        try:
            hub.wait_up()
            self._answered_s = self._clock.monotonic()
            while not self._is_over():
                self._answered_s = hub.look_after(self._answered_s)
                self._step(show)
                time.sleep(_STEP_S)
        finally:
            self._members.close()  # nothing that is committed can be lost
            if neighbours:
                if self._ended != SITES_CHANGE:
                    neighbours.leave(self._summary())
                neighbours.close()
            hub.close(is_over=self._is_alone or not any(agent.is_running for agent in self._agents.values()))
        stats = self.totals.final(committed(self._store), self._ended)
        self._log.event("end", visits=stats.visits, why=self._ended)
        return stats

    def _waits(self, holder: Term) -> bool:
        """Tells a person, once, why nothing happens: another supervisor has the site, and we take over when it ends."""
        if not self._has_waited:
            self._has_waited = True
            self._log.event("waiting", leader=holder.pid)
            print(
                f"gossamer: process {holder.pid}, perhaps on another machine, leads the crawl in {self._directory}; "
                "this one takes over when that one ends",
                file=sys.stderr,
            )
        return not self._stopping

    def _depose(self, agent: SiteAgent) -> None:
        """Gives new orders to an agent that may be at work where we do not see it. It learns that it is replaced when
        it renews its lease, and ends. So its machine is free, and its successor need not wait longer than this."""
        agent.begin(self._clock.now(), self._hub.term)
        self._order(agent)
        agent.quiet_s = self._config.site.lease_s + self._config.fetch.timeout_s

    def _sweep(self) -> None:
        """Sweeps scratch files: only we work here, so their processes were killed. Agents would not know whose."""
        self._store.delete(*self._store.list("tmp/"))

    def _step(self, show: Callable[[Stats], None]) -> None:
        self._reap()
        now_s = self._clock.monotonic()
        if now_s - self._asked_s < self._hub.look_s:
            return
        self._asked_s = now_s
        self._receive(now_s)
        self._replace_silent()
        self._grant_wishes()
        self._start_needed()
        self._order_all()
        show(self.totals.now(self._everybody(), self._phase()))

    def _phase(self) -> str:
        if self._stopping:
            return "stopping"
        if isinstance(self._engine, Pull) and not any(agent.is_running for agent in self._agents.values()):
            return f"waiting for machines: `gossamer agent join {self._directory}`"
        if self._neighbours is None:
            return ""
        if self._neighbours.refused:
            return f"goes on as before, the file is refused: {self._neighbours.refused}"
        waiting = self._neighbours.waiting_for
        return f"waiting for {', '.join(waiting)}" if waiting else ""

    def _receive(self, now_s: float) -> None:
        beats = self._registrar.alive()
        if beats is None:  # it is the server that is silent: nothing is known of any agent
            for agent in self._agents.values():
                agent.reported_s = now_s
            return
        self._answered_s = now_s
        for name, beat in beats.items():
            if name in self._agents and self._agents[name].is_running:
                self._agents[name].receive(beat, now_s)

    def _reap(self) -> None:
        """Handles processes that ended: those that were ordered to, or had nothing to do, rest; others start again."""
        for agent, ended in self._members.ended(self._agents.values()):
            self._log.event("agent ended", agent=agent.name, code=ended.code)
            if ended.code == FULL:
                raise OutOfSpace(
                    f"no space left for agent {agent.name} in {self._directory}: free some, then run the same command "
                    "again; everything committed so far is safe"
                )
            if ended.code == MISTAKE:
                raise SiteError(f"{agent.name}: {last_words(ended.errors)}")
            agent.ended(ended, Chain.read(self._store, agent.name))
            if ended.code == LOST:
                self._depose(agent)

    # Who there is

    def _names(self, before: Mapping[str, Snapshot], wanted: int) -> list[str]:
        """Returns agents that shall share the zones: those that have some, and as many new ones as it takes."""
        names = [self._home, *(name for name, at in sorted(before.items()) if at.zones and name != self._home)]
        while len(names) < wanted:
            names.append(_next_name(self._home, names))
        return names[:wanted]

    def _everybody(self) -> list[SiteAgent]:
        """Returns all agents, also those that have left."""
        return [*self._left.values(), *self._agents.values()]

    def _planned(self) -> tuple[str, ...]:
        owned = {agent.name: agent.zones for agent in self._agents.values()}
        return shared_out(owned, [agent.name for agent in self._agents.values() if not agent.is_retiring])

    def _waited_for(self) -> set[str]:
        """Returns agents for whom there is a message."""
        marks = {agent.name: agent.marks for agent in self._everybody()}
        return undelivered({agent.name: agent.sent for agent in self._agents.values()}, marks) - self._ever

    # Who runs

    def _replace_silent(self) -> None:
        """Replaces agents that are silent. They fetch nothing more, and what they are about to commit will be refused.
        A successor contacts no host until their last requests must be over."""
        if self._stopping or room(self._engine) < 1:
            return  # it may come to its end; we do not wait for it for long
        for agent in self._members.silent(self._agents.values()):
            self._log.event("agent silent", agent=agent.name, process=agent.handle and agent.handle.pid)
            agent.at = Chain.read(self._store, agent.name)
            self._start(agent, self._config.fetch.timeout_s)

    def _start_needed(self) -> None:
        """Starts agents when there is something to do for them, as many as may run at a time."""
        if self._stopping:
            return
        waited_for = self._waited_for()
        for name in waited_for - self._agents.keys():  # it has left, but another agent did not know that
            self._agents[name] = SiteAgent(name, Chain.read(self._store, name), is_retiring=True)
            self._left.pop(name, None)
        most = self._config.site.max_agents or len(self._agents)
        running = sum(agent.is_running for agent in self._agents.values())
        for agent in self._agents.values():
            if running < most and not agent.is_running and self._has_work(agent, waited_for):
                if room(self._engine) < 1:
                    break
                self._start(agent)
                running += 1

    def _has_work(self, agent: SiteAgent, waited_for: set[str]) -> bool:
        if not agent.is_resting or agent.name in waited_for or self._leaves(agent):
            return True
        due_s = agent.next_due_s
        if due_s is not None and due_s <= self._clock.now():
            return True
        return agent.name == self._home and self._has_seeds(agent)

    def _has_seeds(self, home: SiteAgent) -> bool:
        return bool(Inbox(self._store).pending(self._home, home.marks))

    def _leaves(self, agent: SiteAgent) -> bool:
        """Returns whether it has zones that shall be another's."""
        return any(self._owners[zone] != agent.name for zone in agent.zones)

    def _start(self, agent: SiteAgent, quiet_s: float = 0.0) -> None:
        agent.begin(self._clock.now(), self._hub.term)
        self._order(agent)  # orders are there before it asks
        task = AgentTask(
            name=agent.name,
            directory=str(self._crawl.resolve() if isinstance(self._crawl, Path) else self._crawl),
            config=self._config,
            address=self._hub.address,
            incarnation=agent.incarnation,
            is_home=agent.name == self._home,
            quiet_s=max(quiet_s, agent.quiet_s, 0.0 if self._is_alone else _AT_ALL_S),
            federation=self._neighbours.for_agents() if self._neighbours else None,
        )
        errors = self._directory / "log" / f"{agent.name}.err"
        agent.quiet_s = 0.0
        handle = self._members.start(agent, Job(agent.name, _AGENT, task=encode(task), errors=errors))
        self._log.event("agent started", agent=agent.name, process=handle.pid)

    # Orders

    def _order_all(self) -> None:
        if self._budget:
            agents = self._everybody()
            idle = {agent.name for agent in agents if agent.is_idle or not agent.is_running}
            received = {one.name: (one.report and one.report.pages) or 0 for one in agents if one.is_running}
            need = {agent.name: agent.figure("frontier") for agent in agents}
            self._budget.divide({agent.name: agent.visits for agent in agents}, received, idle, need)
        for agent in list(self._agents.values()):
            if agent.is_running:
                self._order(agent)
            elif agent.is_retiring and agent.is_resting and not agent.zones:
                self._left[agent.name] = self._agents.pop(agent.name)

    def _order(self, agent: SiteAgent) -> None:
        orders = Orders(
            owners=self._owners,
            pages=self._budget.grants.get(agent.name, 0) if self._budget else None,
            stop=self._stopping or self._may_rest(agent),
            others={other.name: other.figure("known") for other in self._agents.values() if other is not agent},
            holding=self._is_holding(),
            replicated=self._neighbours.replicated(agent.name) if self._neighbours else 0,
        )
        message = AgentOrders(incarnation=agent.incarnation, orders=orders)
        if self._is_worth_sending(agent.name, message) and self._registrar.order(agent.name, message):
            self._ordered[agent.name] = message, self._clock.monotonic()

    def _is_worth_sending(self, name: str, message: AgentOrders) -> bool:
        """Returns whether these orders are news. Where each request costs money, how many pages others know is none for
        a while; but then orders are repeated, as a supervisor before us may have written its own over ours."""
        if name not in self._ordered:
            return True
        before, sent_s = self._ordered[name]
        if self._hub.calm_s and self._clock.monotonic() - sent_s >= self._hub.calm_s:
            return True
        if self._hub.calm_s and message.incarnation == before.incarnation:
            return msgspec.structs.replace(message.orders, others=before.orders.others) != before.orders
        return message != before

    def _is_holding(self) -> bool:
        """Returns whether hosts that are ours by the list of sites may still be at others, or on their way to us."""
        if self._neighbours is None or self._neighbours.members.version == 1:
            return False
        report = self._agents[self._home].report
        if report is None or report.clean is None:
            return True
        return report.passing or self._neighbours.is_holding(report.clean)

    def _is_moving(self) -> bool:
        """Returns whether others wait for what we must give away: that comes first, however many pages we visited."""
        if self._neighbours is None or self._neighbours.members.version == 1:
            return False
        report = self._agents[self._home].report
        return report is None or not report.is_clean

    def _may_rest(self, agent: SiteAgent) -> bool:
        """Returns whether it has had nothing to do for a while, though others have; or has given everything away."""
        if not (agent.is_idle and agent.report) or agent.idle_since_s is None or agent.name in self._waited_for():
            return False
        if agent.is_retiring:
            return not (agent.zones or agent.report.backlog_bytes)
        if agent.name == self._home and self._neighbours:
            return False  # it communicates with the other sites
        return self._clock.monotonic() - agent.idle_since_s >= self._config.site.idle_s

    def _grant_wishes(self) -> None:
        """Does what `gossamer agents DIR add` and `retire` asked for."""
        for wish in self._registrar.take_wishes():
            name = wish.retire
            if not name:
                name = _next_name(self._home, {*self._agents, *chains(self._store)})
                self._agents[name] = SiteAgent(name, Snapshot(name))
            elif name != self._home and name in self._agents:
                self._agents[name].is_retiring = True
            self._owners = self._planned()
            self._log.event("wish", retire=wish.retire)

    # The end

    def _is_over(self) -> bool:
        crawl, agents = self._config.crawl, self._agents.values()
        if self._stopping:
            self._stop_s = self._stop_s or self._clock.monotonic()
            late = self._clock.monotonic() - self._stop_s > _END_S
            return late or not any(agent.is_running for agent in agents)
        if crawl.minutes and self.totals.elapsed_s >= crawl.minutes * 60:
            self._ended = f"limit of {crawl.minutes:g} minutes"
        elif crawl.pages and self._visits() >= crawl.pages and not self._is_moving():
            self._ended = f"limit of {crawl.pages:,} pages"
        elif crawl.rounds and max(agent.report.rounds if agent.report else 0 for agent in agents) >= crawl.rounds:
            self._ended = f"limit of {crawl.rounds:,} rounds"
        elif self._neighbours and self._has_changed(self._neighbours):
            self._ended = SITES_CHANGE
        elif self._is_all_over():
            idle = (agent.report.idle for agent in agents if agent.report and agent.report.idle)
            self._ended = next(idle, "nothing left to visit")
        self._stopping = bool(self._ended)
        return False

    def _has_changed(self, neighbours: "Neighbours") -> bool:
        """Returns whether the list of sites has changed. One that cannot be carried out is refused, with a warning; the
        crawl goes on."""
        before = neighbours.refused
        changed = neighbours.has_changed()
        if neighbours.refused not in ("", before):
            self._log.event("file refused", why=neighbours.refused)
            print(f"gossamer: {neighbours.refused}; going on as before", file=sys.stderr)
        return changed

    def _visits(self) -> int:
        return sum(agent.visits for agent in self._everybody())

    def _is_all_over(self) -> bool:
        now_s = self._clock.monotonic()
        if (self._neighbours or self._hub.calm_s) and now_s - self._summed_up_s < self._hub.look_s:
            return False
        self._summed_up_s = now_s
        return self._neighbours.is_over(self._summary()) if self._neighbours else self._is_finished()

    def _summary(self) -> Summary:
        """Returns our state, for the other sites."""
        at = snapshots(self._store)
        home = at.get(self._home, Snapshot(self._home))
        return Summary(
            finished=self._is_finished(),
            sent={stream: number for stream, number in home.sent.items() if _receiver(stream) in self._remote_sites},
            marks={stream: number for stream, number in home.marks.items() if _receiver(stream) in self._remote_sites},
            numbers={name: one.number for name, one in at.items()},
            crossed=home.state.crossed,
            agents=sum(agent.is_running for agent in self._agents.values()),
            stats=self.totals.now(self._everybody(), ""),
        )

    def _is_finished(self) -> bool:
        """Returns whether all are idle, as of their last commits, and no message is on its way: then none can be sent
        any more."""
        agents = self._agents.values()
        if not all(agent.is_idle for agent in agents):
            return False
        at = snapshots(self._store)
        if undelivered({n: s.sent for n, s in at.items()}, {n: s.marks for n, s in at.items()}) - self._ever:
            return False
        if any(agent.report and agent.report.number != at[agent.name].number for agent in agents):
            return False
        return not self._has_seeds(self._agents[self._home]) and not any(self._leaves(agent) for agent in agents)


def _engine(config: Config, store: Store) -> Engine:
    if config.site.engine == PULL:
        return Pull(store, config.site.lease_s)
    if config.site.engine == RAY:
        from gossamer.cluster.ray_engine import RayEngine  # which is large: nobody else waits for it

        return RayEngine(config.site.ray_address)
    return Processes()


def for_machines(config: Config) -> Config:
    """Returns the configuration for agents on other machines, which need nothing but the store to work together."""
    if config.carbon.token and config.site.engine == PULL:
        raise ConfigError(
            "carbon.token is a secret, and --engine pull would write it to the store for the workers: "
            "leave it out, or crawl with --engine processes"
        )
    return config.replace({"site.exchange": BY_STORE})


def _receiver(stream: str) -> str:
    return stream.partition(">")[2]


def _next_name(home: str, names: Collection[str]) -> str:
    """Returns a name like that of the first one, with another number: a0, a1, ...; north_a0, north_a1, ..."""
    stem = home.rstrip("0123456789") or "a"
    return next(name for name in (f"{stem}{number}" for number in count(1)) if name not in names)

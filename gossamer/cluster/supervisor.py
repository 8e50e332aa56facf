"""The supervisor runs the agents of a site: it starts them, replaces those that die, gives them orders, and knows when
the crawl is over. It touches no page and no link."""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Snapshot
from gossamer.archive.places import opened
from gossamer.archive.store import Store
from gossamer.clocks import Clock
from gossamer.cluster import on_demand
from gossamer.cluster.agent_process import FULL, MISTAKE
from gossamer.cluster.engine import LOST, Engine, Job, last_words
from gossamer.cluster.fork_server import Forks
from gossamer.cluster.hub import NatsHub, StoreHub
from gossamer.cluster.members import Members
from gossamer.cluster.on_demand import OnDemand
from gossamer.cluster.ordering import Ordering
from gossamer.cluster.processes import Processes
from gossamer.cluster.protocol import AgentTask, Summary, encode
from gossamer.cluster.pull import Pull
from gossamer.cluster.roster import Roster
from gossamer.cluster.scaling import NONE
from gossamer.cluster.site_agent import SiteAgent
from gossamer.cluster.store_lease import Term
from gossamer.cluster.totals import Totals, committed
from gossamer.config import BY_STORE, PROCESSES, PULL, RAY, Config
from gossamer.config.folders import Place, folder_of
from gossamer.crawl.stats import Stats
from gossamer.errors import ConfigError, OutOfSpace, SiteError
from gossamer.event_log import EventLog

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
        if engine is None:
            engine = _engine(config, self._store)
        self._engine, self._is_alone = engine, isinstance(engine, Processes)  # then the agents end with us
        self._hub = self._chosen_hub()
        self._roster = Roster(self._store, config.crawl.agent, neighbours.members.weights if neighbours else ())
        self._on_demand = OnDemand(self._store, config, clock, engine, self._roster) if config.site.max_agents else None
        self._read_archive()
        self._orders = Ordering(self._roster, config, self._hub, clock, neighbours)
        self.totals = totals or Totals(committed(self._store), clock)
        self._members = Members(engine, clock, config.site.lease_s, slack_s=2 * self._hub.look_s)
        self._stopping = self._has_waited = False
        self._notes: list[str] = []  # for people
        self._ended = self._conflict = ""
        self._trouble: dict[str, str] = {}  # that was printed
        self._asked_s = self._stop_s = self._summed_up_s = 0.0

    def _chosen_hub(self) -> NatsHub | StoreHub:
        """Returns where agents and we meet."""
        config, neighbours = self._config, self._neighbours
        if config.site.exchange != BY_STORE:  # as in every federation
            opened = neighbours.open if neighbours else None
            return NatsHub(self._directory, config.site.lease_s, self._clock, self._log, opened)
        return StoreHub(self._store, config.site.lease_s, self._is_alone)

    def _read_archive(self) -> None:
        if self._on_demand:
            self._on_demand.begin()
        else:
            self._roster.read(self._config.site.agents)

    def stop(self) -> None:
        self._stopping = True
        self._ended = self._ended or "stopped"

    def run(self, show: Callable[[Stats], None]) -> Stats:
        hub, neighbours = self._hub, self._neighbours
        if not hub.open(self._waits):
            return self.totals.final(committed(self._store), self._ended)
        if self._has_waited:
            self._read_archive()
        if self._on_demand is None:
            on_demand.forget(self._store)  # of a run before, whose agents may have left since
        if self._is_alone:
            self._sweep()
        for agent in [] if hub.is_quiet else self._roster.agents.values():
            self._depose(agent)
        if neighbours and isinstance(hub, NatsHub):
            neighbours.begin(hub.wire)
        try:
            hub.wait_up()
            if neighbours:
                neighbours.learn()
            self._answered_s = self._clock.monotonic()
            while not self._is_over():
                self._answered_s = hub.look_after(self._answered_s)
                self._step(show)
                time.sleep(_STEP_S)
        finally:
            self._members.close()  # nothing that is committed can be lost
            self._engine.close()
            if neighbours:
                if self._ended != SITES_CHANGE:
                    neighbours.leave(self._summary())
                neighbours.close()
            hub.close(is_over=self._is_alone or not self._roster.running)
        stats = self._with_notes(self.totals.final(committed(self._store), self._ended))
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
        self._orders.order(agent)
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
        self._scale()
        self._start_needed()
        self._orders.is_stopping = self._stopping or self._is_waiting
        self._orders.order_all()
        self._roster.let_go()
        show(self._with_notes(self.totals.now(self._roster.everybody, self._phase())))

    def _with_notes(self, stats: Stats) -> Stats:
        return replace(stats, notes=(*stats.notes, *self._notes))

    def _phase(self) -> str:
        if self._stopping:
            return "stopping"
        if isinstance(self._engine, Pull) and not self._roster.running:
            return f"waiting for machines: `gossamer agent join {self._crawl}`"
        if self._neighbours is None:
            return ""
        if self._neighbours.refused:
            return f"goes on as before, the file is refused: {self._neighbours.refused}"
        if self._neighbours.conflict:
            return f"waits: {self._neighbours.conflict}"
        waiting = self._neighbours.waiting_for
        return f"waiting for {', '.join(waiting)}" if waiting else ""

    @property
    def _is_waiting(self) -> bool:
        """Returns whether nobody may work here now: other sites go by another list of sites."""
        return bool(self._neighbours and self._neighbours.conflict)

    def _receive(self, now_s: float) -> None:
        beats = self._hub.registrar.alive()
        if beats is None:  # it is the server that is silent: nothing is known of any agent
            for agent in self._roster.agents.values():
                agent.reported_s = now_s
            return
        self._answered_s = now_s
        for name, beat in beats.items():
            if name in self._roster.agents and self._roster.agents[name].is_running:
                self._roster.agents[name].receive(beat, now_s)

    def _reap(self) -> None:
        """Handles processes that ended: those that were ordered to, or had nothing to do, rest; others start again."""
        for agent, ended in self._members.ended(self._roster.agents.values()):
            if ended.code:
                why = last_words(ended.errors)
                self._log.event("agent ended", "warning", agent=agent.name, code=ended.code, why=why)
            else:
                self._log.event("agent ended", agent=agent.name, code=0)
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

    # Who runs

    def _replace_silent(self) -> None:
        """Replaces agents that are silent. They fetch nothing more, and what they are about to commit will be refused.
        A successor contacts no host until their last requests must be over."""
        if self._stopping or self._engine.room() < 1:
            return  # it may come to its end; we do not wait for it for long
        for agent in self._members.silent(self._roster.agents.values()):
            self._log.event("agent silent", "warning", agent=agent.name, process=agent.handle and agent.handle.pid)
            agent.at = Chain.read(self._store, agent.name)
            self._start(agent, self._config.fetch.timeout_s)

    def _start_needed(self) -> None:
        """Starts agents when there is something to do for them, as far as there is room."""
        if self._stopping or self._is_waiting:
            return
        waited_for, now_s = self._roster.waited_for(), self._clock.now()
        self._roster.recall(waited_for)
        for agent in self._roster.agents.values():
            if not agent.is_running and self._roster.has_work(agent, waited_for, now_s):
                if self._engine.room() < 1:
                    break
                self._start(agent)

    def _start(self, agent: SiteAgent, quiet_s: float = 0.0) -> None:
        agent.begin(self._clock.now(), self._hub.term)
        self._orders.order(agent)  # orders are there before it asks
        task = AgentTask(
            name=agent.name,
            directory=str(self._crawl.resolve() if isinstance(self._crawl, Path) else self._crawl),
            config=self._config,
            address=self._hub.address,
            incarnation=agent.incarnation,
            is_home=agent is self._roster.home,
            quiet_s=max(quiet_s, agent.quiet_s, 0.0 if self._is_alone else _AT_ALL_S),
            federation=self._neighbours.for_agents() if self._neighbours else None,
        )
        errors = self._directory / "log" / f"{agent.name}.err"
        agent.quiet_s = 0.0
        handle = self._members.start(agent, Job(agent.name, _AGENT, task=encode(task), errors=errors))
        self._log.event("agent started", agent=agent.name, process=handle.pid)

    def _grant_wishes(self) -> None:
        """Does what `gossamer agents DIR add` and `retire` asked for."""
        for wish in self._hub.registrar.take_wishes():
            if wish.retire:
                self._roster.retire(wish.retire)
            else:
                self._roster.add()
            if self._on_demand:
                self._on_demand.note()
            self._log.event("wish", retire=wish.retire)

    def _scale(self) -> None:
        """Lets agents come and leave on demand, if that is wanted."""
        if self._on_demand is None or self._stopping:
            return
        pages, before = self._config.crawl.pages, len(self._roster.staying)
        change = self._on_demand.look(not self._orders.is_holding(), pages - self._roster.visits if pages else inf)
        if change is not NONE:
            after = len(self._roster.staying)
            self._log.event("scaled", before=before, agents=after, retire=change.retire, why=change.why)
            self._notes.append(f"{before} → {after} agents: {change.why}")

    # The end

    def _is_over(self) -> bool:
        crawl, agents = self._config.crawl, self._roster.agents.values()
        if self._stopping:
            self._stop_s = self._stop_s or self._clock.monotonic()
            late = self._clock.monotonic() - self._stop_s > _END_S
            return late or not any(agent.is_running for agent in agents)
        if crawl.minutes and self.totals.elapsed_s >= crawl.minutes * 60:
            self._ended = f"limit of {crawl.minutes:g} minutes"
        elif crawl.pages and self._roster.visits >= crawl.pages and not self._orders.is_moving():
            self._ended = f"limit of {crawl.pages:,} pages"
        elif crawl.rounds and max(agent.report.rounds if agent.report else 0 for agent in agents) >= crawl.rounds:
            self._ended = f"limit of {crawl.rounds:,} rounds"
        elif self._neighbours and self._has_changed(self._neighbours):
            self._ended = SITES_CHANGE
        elif self._is_all_over():
            idle = (agent.report.idle for agent in agents if agent.report and agent.report.idle)
            self._ended = max(idle, key=len, default="nothing left to visit")  # who still waits has more to say
        self._stopping = bool(self._ended)
        return False

    def _has_changed(self, neighbours: "Neighbours") -> bool:
        """Returns whether the list of sites has changed. One that cannot be carried out is refused, with a warning; the
        crawl goes on."""
        before = neighbours.refused
        changed = neighbours.has_changed()
        for name, why in neighbours.trouble.items():
            if self._trouble.get(name) != why:
                self._log.event("site refused", site=name, why=why)
                print(f"gossamer: {name} is not heard: its server {why}", file=sys.stderr)
        self._trouble = dict(neighbours.trouble)
        if neighbours.conflict != self._conflict:
            self._conflict = neighbours.conflict
            if self._conflict:
                self._log.event("waits", why=self._conflict)
                print(f"gossamer: {self._conflict}; waiting", file=sys.stderr)
        if neighbours.refused not in ("", before):
            self._log.event("file refused", "warning", why=neighbours.refused)
            print(f"gossamer: {neighbours.refused}; going on as before", file=sys.stderr)
        return changed

    def _is_all_over(self) -> bool:
        now_s = self._clock.monotonic()
        if (self._neighbours or self._hub.calm_s) and now_s - self._summed_up_s < self._hub.look_s:
            return False
        self._summed_up_s = now_s
        return self._neighbours.is_over(self._summary()) if self._neighbours else self._roster.is_finished()

    def _summary(self) -> Summary:
        """Returns our state, for the other sites."""
        at, name = self._roster.followed.snapshots(), self._roster.home.name
        home = at.get(name, Snapshot(name))
        remote = set(self._neighbours.names) if self._neighbours else set()
        return Summary(
            finished=self._roster.is_finished() and not self._is_waiting,
            sent={stream: number for stream, number in home.sent.items() if _receiver(stream) in remote},
            marks={stream: number for stream, number in home.marks.items() if _receiver(stream) in remote},
            numbers={name: one.number for name, one in at.items()},
            crossed=home.state.crossed,
            agents=self._roster.running,
            stats=self.totals.now(self._roster.everybody, ""),
        )


def _engine(config: Config, store: Store) -> Engine:
    if config.site.engine == PULL:
        return Pull(store, config.site.lease_s)
    if config.site.engine == RAY:
        from gossamer.cluster.ray_engine import RayEngine  # which is large: nobody else waits for it

        return RayEngine(config.site.ray_address)
    return Forks(_AGENT)


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

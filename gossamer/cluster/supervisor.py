"""Runs the agents of a site on one machine: starts them, replaces those that die, tells them what is theirs, and
knows when the crawl is over. It touches no page and no link."""

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.archive.chain import Chain, chains, snapshots
from gossamer.archive.manifest import Snapshot
from gossamer.archive.store import Directory, Store
from gossamer.clocks import Clock
from gossamer.cluster.members import Member, flat, incarnation
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import Server
from gossamer.cluster.plan import Budget, shared_out, undelivered
from gossamer.cluster.processes import ASK_S, Processes
from gossamer.cluster.registrar import Registrar
from gossamer.cluster.totals import Totals
from gossamer.config import Config
from gossamer.crawl.event_log import EventLog
from gossamer.crawl.stats import Stats
from gossamer.sharing.exchange import Inbox

if TYPE_CHECKING:
    from gossamer.cluster.neighbours import Neighbours

SITES_CHANGE = "the list of sites has changed"  # why a run ends that is to be followed by another at once
FOLDER = "site"  # of the crawl's directory: the server's files
_STEP_S = 0.05
_END_S = 60.0  # longest that a clean end may take
_SERVER_S = 20.0  # a server that does not answer for so long is started again


class Supervisor:
    """`run` returns when the crawl is over; `stop` may be called from a signal handler."""

    def __init__(
        self,
        directory: Path,
        config: Config,
        clock: Clock,
        log: EventLog,
        neighbours: "Neighbours | None" = None,
        store: Store | None = None,
        totals: Totals | None = None,
    ) -> None:
        """`store`: where the archive is, if it is not in the directory alone. `totals`: of a run that this one follows,
        so that both are one for whoever looks on."""
        self._directory, self._config, self._clock, self._log = directory, config, clock, log
        self._store, self._neighbours = store or Directory(directory), neighbours
        self._abroad = set(neighbours.names) if neighbours else set()  # sites that we speak with, and ...
        self._ever = set(neighbours.members.weights) if neighbours else set()  # ... those that are gone, too
        self._home = config.crawl.agent
        before = snapshots(self._store)
        self._members: dict[str, Member] = {}
        for name in self._names(before, config.site.agents):
            self._members[name] = Member(name, before.get(name, Snapshot(name)))
        for name in before.keys() - self._members.keys():
            if before[name].zones or before[name].outbox:
                self._members[name] = Member(name, before[name], is_retiring=True)
        self._left = {name: Member(name, at) for name, at in before.items() if name not in self._members}
        self._owners = self._planned()
        self._budget = Budget(config.crawl.pages) if config.crawl.pages else None
        self.totals = totals or Totals(before.values(), clock)
        self._told: dict[str, dict[str, Any]] = {}
        self._processes = Processes(directory, config, clock, log, self._store)
        self._stopping = False
        self._ended = ""
        self._asked_s = self._stop_s = self._said_s = 0.0

    def stop(self) -> None:
        self._stopping = True
        self._ended = self._ended or "stopped"

    def run(self, show: Callable[[Stats], None]) -> Stats:
        neighbours = self._neighbours
        server = Server(self._directory / FOLDER, neighbours.open if neighbours else None)
        server.start()
        self._sweep()
        wire = Wire(server.address)
        self._registrar = Registrar(wire, self._config.site.lease_s)
        self._address = server.address
        if neighbours:
            neighbours.begin(wire)
        try:
            wire.wait_up(_END_S)
            self._answered_s = self._clock.monotonic()
            while not self._is_over():
                self._look_after(server)
                self._step(show)
                time.sleep(_STEP_S)
        finally:
            self._processes.kill(self._members.values())
            if neighbours:
                if self._ended != SITES_CHANGE:
                    neighbours.leave(self._summary())
                neighbours.close()
            wire.close()
            server.stop()
        stats = self.totals.final(snapshots(self._store).values(), self._ended)
        self._log.event("end", visits=stats.visits, why=self._ended)
        return stats

    def _sweep(self) -> None:
        """Nobody else works here: scratch files are of processes that were killed. Agents would not know whose."""
        for name in self._store.list("tmp/"):
            self._store.delete(name)

    def _look_after(self, server: Server) -> None:
        if not server.is_alive():
            self._log.event("server died")
            server.start()
        elif self._clock.monotonic() - self._answered_s > _SERVER_S:
            self._log.event("server silent")
            server.stop()
            server.start()
            self._answered_s = self._clock.monotonic()

    def _step(self, show: Callable[[Stats], None]) -> None:
        self._processes.reap(self._members.values())
        now_s = self._clock.monotonic()
        if now_s - self._asked_s < ASK_S:
            return
        self._asked_s = now_s
        self._hear(now_s)
        self._replace_silent(now_s)
        self._grant_wishes()
        self._start_needed()
        self._order()
        show(self.totals.now([*self._left.values(), *self._members.values()], self._phase()))

    def _phase(self) -> str:
        if self._stopping:
            return "stopping"
        if self._neighbours is None:
            return ""
        if self._neighbours.refused:
            return f"goes on as before, the file is refused: {self._neighbours.refused}"
        waiting = self._neighbours.waiting_for
        return f"waiting for {', '.join(waiting)}" if waiting else ""

    def _hear(self, now_s: float) -> None:
        reports = self._registrar.alive()
        if reports is None:  # it is the server who is silent: nothing is known of anybody
            for member in self._members.values():
                member.heard_s = now_s
            return
        self._answered_s = now_s
        for name, report in reports.items():
            if name in self._members and self._members[name].is_running:
                self._members[name].hear(report, now_s)

    # Who there is

    def _names(self, before: Mapping[str, Snapshot], wanted: int) -> list[str]:
        """Agents that shall share the zones: those that have some, and as many new ones as it takes."""
        names = [self._home, *(name for name, at in sorted(before.items()) if at.zones and name != self._home)]
        while len(names) < wanted:
            names.append(_next_name(self._home, names))
        return names[:wanted]

    def _planned(self) -> tuple[str, ...]:
        owned = {member.name: member.zones for member in self._members.values()}
        return shared_out(owned, [member.name for member in self._members.values() if not member.is_retiring])

    def _waited_for(self) -> set[str]:
        """Agents for whom there is a letter."""
        members = self._members.values()
        marks = {m.name: m.marks for m in (*self._left.values(), *members)}
        return undelivered({m.name: m.sent for m in members}, marks) - self._ever

    # Who runs

    def _replace_silent(self, now_s: float) -> None:
        """Its successor contacts nobody until its last requests must be over."""
        if self._stopping:
            return  # it may come to its end; we do not wait for it for long
        for member in self._processes.silent(self._members.values(), now_s):
            self._start(member, self._clock.now() + self._config.fetch.timeout_s)

    def _start_needed(self) -> None:
        """Agents are started when there is something to do for them, as many as may run at a time."""
        if self._stopping:
            return
        waited_for = self._waited_for()
        for name in waited_for - self._members.keys():  # it has left, but somebody had not heard of it
            self._members[name] = Member(name, Chain.read(self._store, name), is_retiring=True)
            self._left.pop(name, None)
        most = self._config.site.max_agents or len(self._members)
        running = sum(member.is_running for member in self._members.values())
        for member in self._members.values():
            if running < most and not member.is_running and self._has_work(member, waited_for):
                self._start(member)
                running += 1

    def _has_work(self, member: Member, waited_for: set[str]) -> bool:
        if not member.is_resting or member.name in waited_for or self._leaves(member):
            return True
        due_s = member.next_due_s
        if due_s is not None and due_s <= self._clock.now():
            return True
        return member.name == self._home and self._has_seeds(member)

    def _has_seeds(self, home: Member) -> bool:
        return bool(Inbox(self._store).pending(self._home, home.marks))

    def _leaves(self, member: Member) -> bool:
        """Whether it has zones that shall be another's."""
        return any(self._owners[zone] != member.name for zone in member.zones)

    def _start(self, member: Member, quiet_until_s: float = 0.0) -> None:
        member.incarnation = incarnation(self._clock.now())
        self._tell(member)  # orders are there before it asks
        self._processes.start(member, self._job(member, quiet_until_s))

    def _job(self, member: Member, quiet_until_s: float) -> dict[str, Any]:
        return {
            "module": "gossamer.cluster.agent_process",
            "name": member.name,
            "directory": str(self._directory.resolve()),
            "config": flat(self._config),
            "address": self._address,
            "incarnation": member.incarnation,
            "supervisor": os.getpid(),
            "is_home": member.name == self._home,
            "quiet_until_s": quiet_until_s,
            "federation": self._neighbours.job() if self._neighbours else None,
        }

    # Orders

    def _order(self) -> None:
        if self._budget:
            members = [*self._left.values(), *self._members.values()]
            idle = {m.name for m in members if m.is_idle or not m.is_running}
            heard = {m.name: int(m.report.get("pages") or 0) for m in members if m.is_running}
            need = {m.name: m.frontier for m in members}
            self._budget.divide({m.name: m.visits for m in members}, heard, idle, need)
        for member in list(self._members.values()):
            if member.is_running:
                self._tell(member)
            elif member.is_retiring and member.is_resting and not member.zones:
                self._left[member.name] = self._members.pop(member.name)

    def _tell(self, member: Member) -> None:
        others = {m.name: m.known for m in self._members.values() if m is not member}
        orders = {
            "incarnation": member.incarnation,
            "owners": list(self._owners),
            "pages": self._budget.grants.get(member.name, 0) if self._budget else None,
            "stop": self._stopping or self._may_rest(member),
            "others": others,
            "holding": self._is_holding(),
            "replicated": self._neighbours.replicated(member.name) if self._neighbours else 0,
        }
        if orders != self._told.get(member.name) and self._registrar.order(member.name, orders):
            self._told[member.name] = orders

    def _is_holding(self) -> bool:
        """Whether hosts that are ours by the list of sites may still be at others, or on their way to one of us."""
        if self._neighbours is None or self._neighbours.members.version == 1:
            return False
        report = self._members[self._home].report
        if "clean" not in report:
            return True
        return bool(report["passing"]) or self._neighbours.is_holding(report["clean"])

    def _is_moving(self) -> bool:
        """Whether others wait for us to give away what is not ours: that comes first, however many pages we visited."""
        if self._neighbours is None or self._neighbours.members.version == 1:
            return False
        return not self._members[self._home].report.get("is_clean", False)

    def _may_rest(self, member: Member) -> bool:
        """It has had nothing to do for a while, though others have; or it has given everything away."""
        if not member.is_idle or member.idle_since_s is None or member.name in self._waited_for():
            return False
        if member.is_retiring:
            return not (member.zones or member.report["backlog_bytes"])
        if member.name == self._home and self._neighbours:
            return False  # it speaks with the other sites
        return self._clock.monotonic() - member.idle_since_s >= self._config.site.idle_s

    def _grant_wishes(self) -> None:
        """What `gossamer agents DIR add` and `retire` asked for."""
        for wish in self._registrar.take_wishes():
            name = str(wish.get("retire", ""))
            staying = [member.name for member in self._members.values() if not member.is_retiring]
            if name and name != self._home and name in staying:
                self._members[name].is_retiring = True
            elif not name:
                name = _next_name(self._home, {*self._members, *chains(self._store)})
                self._members[name] = Member(name, Snapshot(name))
            self._owners = self._planned()
            self._log.event("wish", wish=wish)

    # The end

    def _is_over(self) -> bool:
        crawl, members = self._config.crawl, self._members.values()
        if self._stopping:
            self._stop_s = self._stop_s or self._clock.monotonic()
            late = self._clock.monotonic() - self._stop_s > _END_S
            return late or not any(member.is_running for member in members)
        if crawl.minutes and self.totals.elapsed_s >= crawl.minutes * 60:
            self._ended = f"limit of {crawl.minutes:g} minutes"
        elif crawl.pages and self._visits() >= crawl.pages and not self._is_moving():
            self._ended = f"limit of {crawl.pages:,} pages"
        elif crawl.rounds and max(int(member.report.get("rounds", 0)) for member in members) >= crawl.rounds:
            self._ended = f"limit of {crawl.rounds:,} rounds"
        elif self._neighbours and self._has_changed(self._neighbours):
            self._ended = SITES_CHANGE
        elif self._is_all_over():
            self._ended = next(
                (str(m.report["idle"]) for m in members if m.report.get("idle")), "nothing left to visit"
            )
        self._stopping = bool(self._ended)
        return False

    def _has_changed(self, neighbours: "Neighbours") -> bool:
        """A list of sites that cannot be carried out is refused, and said to be; the crawl goes on."""
        before = neighbours.refused
        changed = neighbours.has_changed()
        if neighbours.refused not in ("", before):
            self._log.event("file refused", why=neighbours.refused)
            print(f"gossamer: {neighbours.refused}; going on as before", file=sys.stderr)
        return changed

    def _visits(self) -> int:
        """Of all agents, also those that have left."""
        return sum(member.visits for member in (*self._left.values(), *self._members.values()))

    def _is_all_over(self) -> bool:
        if self._neighbours is None:
            return self._is_finished()
        now_s = self._clock.monotonic()
        if now_s - self._said_s < ASK_S:
            return False
        self._said_s = now_s
        return self._neighbours.is_over(self._summary())

    def _summary(self) -> dict[str, Any]:
        """How we stand, for the other sites."""
        at = snapshots(self._store)
        home = at.get(self._home, Snapshot(self._home))
        stats = self.totals.now([*self._left.values(), *self._members.values()], "").as_dict()
        return {
            "finished": self._is_finished(),
            "sent": {stream: number for stream, number in home.sent.items() if _receiver(stream) in self._abroad},
            "marks": {stream: number for stream, number in home.marks.items() if _receiver(stream) in self._abroad},
            "numbers": {name: one.number for name, one in at.items()},
            "crossed": home.state.crossed,
            "agents": sum(member.is_running for member in self._members.values()),
            "stats": stats,
        }

    def _is_finished(self) -> bool:
        """Everybody is idle, as of its last commit, and no letter is on its way: then none can be written any more."""
        if not all(member.is_idle for member in self._members.values()):
            return False
        at = snapshots(self._store)
        if undelivered({n: s.sent for n, s in at.items()}, {n: s.marks for n, s in at.items()}) - self._ever:
            return False
        if any(m.is_running and m.report["number"] != at[m.name].number for m in self._members.values()):
            return False
        home = self._members[self._home]
        return not self._has_seeds(home) and not any(self._leaves(member) for member in self._members.values())


def _receiver(stream: str) -> str:
    return stream.partition(">")[2]


def _next_name(home: str, names: Collection[str]) -> str:
    """As the first one is called, with another number: a0, a1, ...; north_a0, north_a1, ..."""
    stem = home.rstrip("0123456789") or "a"
    return next(name for name in (f"{stem}{number}" for number in count(1)) if name not in names)

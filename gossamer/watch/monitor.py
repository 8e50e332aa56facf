"""`Monitor` knows how a crawl stands by manifests, reports and processes alone: who runs, and what is wrong.

It reads only what is new since it last looked. Nothing that it does reaches the agents. It reads no tables: to judge
the health of a crawl takes the same however large that is.
"""

import shutil
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.archive.manifest import Snapshot, site_of
from gossamer.archive.mark import is_federation
from gossamer.archive.reading import troubles
from gossamer.archive.state import AgentState, Counters, total
from gossamer.config.folders import Place
from gossamer.crawl.inbox import refused, set_aside
from gossamer.crawl.stats import CALM, waited_for_s
from gossamer.errors import ArchiveError, GossamerError
from gossamer.watch.figures import printable
from gossamer.watch.following import Follower, agents_with_locks
from gossamer.watch.health import Facts, problems
from gossamer.watch.pace import Pace
from gossamer.watch.reports import Reports, figures

if TYPE_CHECKING:
    from gossamer.archive.resting import Rests
    from gossamer.cluster.federation_file import Federation

_WAITING_S = 5.0
_CPU_S = 3.0
_SITES_S = 10.0  # sites on other machines are asked so often
_SLOW_S = 5.0  # what needs more than a look at manifests is looked at so often

_LIVE = ("memory_bytes", "connections", "active_hosts", "backed_off_hosts", "due_hosts")  # None: not known from here

FAR = ("visits", "known", "frontier")  # that sites elsewhere tell
_SUMMED = ("visits", "requisites", "truncated", "known", "frontier", "hosts", "wire_bytes")

Row = dict[str, Any]


class Archive:
    """`Archive` is one archive of the crawl that is watched: the only one, or that of a site."""

    def __init__(self, place: Place, site: str = "") -> None:
        self.site, self.follower, self.reports = site, Follower(place), Reports(place)
        self.agents: dict[str, Row] = {}
        self.rests: Rests = {}
        self.messages = 0
        self._rest_files: list[str] = []
        self._paces: dict[str, tuple[int, Pace]] = {}
        self._used: dict[str, tuple[float, float, float | None]] = {}  # when, seconds of CPU, and cores until then

    def look(self, now_s: float, is_slow: bool) -> bool:
        """Looks for what is new. `is_slow`: also for what changes seldom."""
        changed = self.follower.look()
        pids = dict(agents_with_locks(self.follower.store))
        beats = self.reports.read(now_s, any(pids.values()) or not self.follower.is_near)
        names = sorted({*self.follower.snapshots, *beats, *(agent for agent, pid in pids.items() if pid)})
        self.agents = {
            name: self._agent(name, figures(beats.get(name), pids.get(name, 0)), pids.get(name, 0), now_s)
            for name in names
        }
        if is_slow:
            self.messages = set_aside(self.follower.store) + len(refused(self.follower.store))
        return changed

    @property
    def counters(self) -> Counters:
        return total(snapshot.state.counters for snapshot in self.follower.snapshots.values())

    def _agent(self, name: str, now: Mapping[str, Any], pid: int, now_s: float) -> Row:
        at = self.follower.snapshots.get(name, Snapshot(name))
        counted = at.state.counters
        seen_s, visits, size = (
            now.get("at_s", at.time_s), now.get("visits", counted.visits), now.get("wire_bytes", counted.wire_bytes)
        )  # fmt: skip
        pace = self._pace(name, pid, seen_s, visits, size)
        row = {
            "agent": name,
            "site": self.site or site_of(name),
            "state": now["state"] or ("ended" if at.state.clean is not False else "stopped"),
            "process": pid or None,
            "zones": len(at.zones),
            "round": at.number,
            "visits": counted.visits,
            "known": counted.known,
            "frontier": counted.frontier,
            "committed_s": at.time_s or None,
            "waits_until_s": at.state.waits_until_s,
            "backlog_bytes": sum(entry.size for entry in at.outbox),
            "cpu": self._cpu(name, now.get("cpu_s"), now.get("at_s", now_s)),
            **{key: now.get(key) for key in _LIVE},
        }
        is_running = bool(now["state"])
        return row | {
            "pages_per_s": pace.pages() if is_running else None,
            "bytes_per_s": pace.bytes() if is_running else None,
        }

    def read_rests(self) -> None:
        """Reads which hosts rest, if that may have changed."""
        follower = self.follower
        names = [name for at in follower.snapshots.values() for name in at.files.get("resting", [])]
        if names != self._rest_files:
            from gossamer.archive.resting import read_rests  # and Arrow with it

            found: Rests = {}
            for at in follower.snapshots.values():
                found |= at.state.resting
                for name in at.files.get("resting", []):
                    follower.store.fetch([name])
                    found |= read_rests(follower.store, name)
            self._rest_files, self.rests = names, found

    def _pace(self, name: str, pid: int, seen_s: float, visits: int, size: int) -> Pace:
        """Returns the agent's pace. Another process begins anew, as its report counts only what it received itself."""
        known, pace = self._paces.get(name, (pid, Pace()))
        if known != pid:
            pace = Pace()
        self._paces[name] = pid, pace
        if seen_s > pace.last_s:
            pace.see(seen_s, visits, size)
        return pace

    def _cpu(self, name: str, cpu_s: float | None, at_s: float) -> float | None:
        """Returns how many cores it uses, over the last moments; None if that is not known yet."""
        if cpu_s is None:
            return None
        before_s, used_s, cores = self._used.setdefault(name, (at_s, cpu_s, None))
        if at_s - before_s >= _CPU_S:
            cores = max(0.0, (cpu_s - used_s) / (at_s - before_s))
            self._used[name] = at_s, cpu_s, cores
        return cores


class Monitor:
    """`Monitor` looks when it is asked to, and keeps what it has seen."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.federation = _federation(place)
        self.archives: dict[str, Archive] = {}  # by site; a crawl that is no federation has one, without a name
        self.failure = ""  # why the archive cannot be read, in words
        self._counters = Counters()  # of all agents
        self._elsewhere: list[Row] | None = None  # None: not asked yet
        self._asking: threading.Thread | None = None
        self._asked_s = self._slow_s = float("-inf")
        self.now_s = 0.0

    @property
    def is_near(self) -> bool:
        return all(archive.follower.is_near for archive in self.archives.values())

    def look(self, now_s: float) -> None:
        """Looks at everything that may have changed."""
        self.now_s = now_s
        is_slow = now_s - self._slow_s >= _SLOW_S
        try:
            self._open()
            for archive in self.archives.values():
                archive.look(now_s, is_slow)
                self._read(archive, is_slow)
            self._counters = total(archive.counters for archive in self.archives.values())
            self.failure = ""
        except FileNotFoundError:  # files were merged while we read: the next look finds the newer ones
            return
        except GossamerError as error:
            self.failure = printable(str(error))
        except troubles() as error:
            self.failure = printable(str(error))
        if is_slow:
            self._slow_s = now_s
        self._ask_elsewhere(now_s)

    def wait(self) -> None:
        """Waits for the answers of sites on other machines."""
        if self._asking is not None:
            self._asking.join()

    def check(self) -> None:
        """Complains if there is no crawl to look at."""
        self._open()

    def close(self) -> None:
        for archive in self.archives.values():
            archive.reports.close()

    # What there is to see, as plain values

    def state(self) -> str:
        """Returns one word for all agents: starting, running, waiting, ended, or stopped."""
        rows = self.agents()
        far = {row["state"] for row in self.elsewhere}
        if far & {"crawling", "idle"}:  # idle: others have work
            return "running"
        if any(row["process"] or row["state"] not in ("ended", "stopped") for row in rows):
            until_s = self._waits_until_s() or 0.0  # a moment is no waiting: it would come and go all the time
            is_waiting = until_s - self.now_s > _WAITING_S
            return "waiting" if is_waiting else "running" if self._snapshots() else "starting"
        if not rows:
            return "ended" if "ended" in far else "empty"
        return "stopped" if any(row["state"] == "stopped" for row in rows) else "ended"

    @property
    def elsewhere(self) -> list[Row]:
        """Returns what sites on other machines last said of themselves."""
        return [row for row in self._elsewhere or () if row["site"] not in self.archives]

    def agents(self) -> list[Row]:
        return [row for archive in self.archives.values() for row in archive.agents.values()]

    def sites(self) -> Row:
        """Returns the sites of a federation, and what crossed between them."""
        if self.federation is None:
            return {"sites": [], "flows": []}
        here = {site: self._site(site) for site in self.archives}
        rows = {row["site"]: row for row in self._elsewhere or ()} | here
        unknown = {"state": "asking" if self._elsewhere is None else "not reached"}
        sites = [self._placed(site, rows.get(site, unknown)) for site in self.federation.sites]
        flows = [
            {"from": site, "to": other, **sent}
            for site, row in rows.items()
            for other, sent in row.get("crossed", {}).items()
        ]
        return {"sites": sites, "flows": flows}

    def problems(self) -> list[Row]:
        """Returns what a person should look after, the worst first."""
        return [asdict(problem) for problem in problems(self._facts())]

    def health(self) -> Row:
        """Returns whether all is well, and what is not."""
        found = self.problems()
        is_healthy = not any(problem["is_failure"] for problem in found)
        return {"healthy": is_healthy, "state": self.state(), "problems": found}

    # How it is found out

    def _read(self, archive: Archive, is_slow: bool) -> None:
        """Reads what is new in the tables of an archive: for health, nothing."""

    def _open(self) -> None:
        """Opens the archives that are there and not open yet: a site may begin later."""
        if self.federation is None:
            if not self.archives:
                self.archives = {"": Archive(self.place)}
            return
        for site in self.federation.here:
            if site not in self.archives:
                self.archives = {**self.archives, site: Archive(self.federation.directory(site), site)}
        if not self.archives and not self.federation.elsewhere:
            raise ArchiveError(f"no site of {self.place} has begun")

    def _ask_elsewhere(self, now_s: float) -> None:
        """Asks the sites on other machines how they are, without waiting for their answers."""
        federation = self.federation
        if federation is None or not federation.elsewhere or now_s - self._asked_s < _SITES_S:
            return
        if self._asking is not None and self._asking.is_alive():
            return

        def ask() -> None:
            from gossamer.cluster import federation as federated

            before, found = {row["site"]: row for row in self._elsewhere or ()}, self._elsewhere or []
            with suppress(GossamerError, OSError):
                found = federated.status(federation, federation.elsewhere)
            for row in found:  # what a site that is not reached has done before is not undone
                row |= {name: before.get(row["site"], row)[name] for name in FAR if row[name] is None}
            self._elsewhere = found

        self._asked_s = now_s
        self._asking = threading.Thread(target=ask, daemon=True, name="sites")
        self._asking.start()

    def _snapshots(self) -> Sequence[Snapshot]:
        return [at for archive in self.archives.values() for at in archive.follower.snapshots.values()]

    def _waits_until_s(self) -> float | None:
        return waits_until_s([at.state for at in self._snapshots()], self.now_s)

    def _site(self, site: str) -> Row:
        from gossamer.cluster.federation_file import home_of

        archive = self.archives[site]
        rows = archive.agents.values()
        running = [row for row in rows if row["state"] not in ("ended", "stopped")]
        rates = [row["pages_per_s"] for row in running if row["pages_per_s"] is not None]
        is_stopped = any(row["state"] == "stopped" for row in rows)
        counters, home = archive.counters, archive.follower.snapshots.get(home_of(site))
        return {
            "site": site,
            "state": "crawling" if running else "stopped" if is_stopped else "ended",
            "agents": len(running),
            **{name: getattr(counters, name) for name in ("visits", "known", "frontier", "wire_bytes")},
            "pages_per_s": sum(rates) if rates else None,
            "crossed": dict(home.state.crossed) if home else {},
        }

    def _placed(self, name: str, row: Row) -> Row:
        from gossamer.cluster.federation_file import NOWHERE

        assert self.federation is not None
        site = self.federation.sites[name]
        is_placed = NOWHERE not in (site.latitude, site.longitude)
        where = {"latitude": site.latitude, "longitude": site.longitude} if is_placed else {}
        state = {"state": "gone"} if site.gone else {}
        shown = {key: value for key, value in row.items() if key not in ("crossed", "behind", "version")}
        return {"site": name, **shown, **where, **state}

    def _facts(self) -> Facts:
        folders = [archive.follower.place for archive in self.archives.values()]
        free = [shutil.disk_usage(folder).free for folder in folders if isinstance(folder, Path) and folder.exists()]
        outcomes = self._counters.outcomes
        return Facts(
            now_s=self.now_s,
            failure=self.failure,
            is_near=self.is_near,
            agents=self.agents(),
            waits_until_s=self._waits_until_s(),
            free_bytes=min(free, default=None),
            messages=sum(archive.messages for archive in self.archives.values()),
            visits=sum(outcomes.values()),
            trouble={name: times for name, times in outcomes.items() if name not in CALM},
            lost_sites=[row["site"] for row in self.sites()["sites"] if row["state"] == "not reached"],
        )


def totals(snapshots: Collection[Snapshot], now_s: float) -> Row:
    """Returns what the status and the dashboard have in common: all agents together, as of their last commits."""
    states = [at.state for at in snapshots]
    counters = total(state.counters for state in states)
    busy_s = max((state.busy_s for state in states if state.busy_s is not None), default=None)
    costs = dict.fromkeys(name for state in states for name in state.costs)
    return {
        "started_s": min((state.started_s for state in states if state.started_s is not None), default=None),
        "busy_s": busy_s,
        "last_commit_s": max((at.time_s for at in snapshots), default=None),
        "waits_until_s": waits_until_s(states, now_s),
        "rounds": sum(at.number for at in snapshots),
        **{name: getattr(counters, name) if states else None for name in _SUMMED},
        "rate": {"mean": counters.visits / busy_s if busy_s else None},
        "costs": {name: sum(state.costs.get(name, 0.0) for state in states) for name in costs},
    }


def waits_until_s(states: Sequence[AgentState], now_s: float) -> float | None:
    """Returns when something is due again, if nothing was at the last commits of all agents."""
    seen = [(state.waits_until_s, state.counters.frontier) for state in states]
    until_s = waited_for_s([{"waits_until_s": s, "frontier": pages, "connections": 0} for s, pages in seen])
    return until_s if until_s is not None and until_s > now_s else None


def _federation(place: Place) -> "Federation | None":
    if not (isinstance(place, Path) and is_federation(place)):
        return None
    from gossamer.cluster.federation_file import load

    return load(place)

"""This module runs a federation: one site of it here, or all of them on one machine, each as it would run elsewhere."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.archive import places
from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import Snapshot
from gossamer.archive.state import Counters, total
from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.cluster.engine import Job, how
from gossamer.cluster.federation_file import Federation, home_of, load
from gossamer.cluster.keys import OPERATOR, address, any_of, check_valid, make_keys, paths
from gossamer.cluster.members import Member, Members
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import why_refused
from gossamer.cluster.neighbours import Neighbours, kept_by
from gossamer.cluster.processes import Processes
from gossamer.cluster.protocol import Summary
from gossamer.cluster.site_list import in_words, why_behind
from gossamer.cluster.standing import read_summary
from gossamer.cluster.supervisor import SITES_CHANGE, Supervisor
from gossamer.cluster.totals import Totals, committed
from gossamer.config.folders import folder_of
from gossamer.crawl.inbox import Inbox
from gossamer.crawl.seeds import NO_SEEDS, hand_in, parse_seeds
from gossamer.crawl.stats import Stats
from gossamer.errors import ArchiveBusy, ConfigError, SeedError, SiteError, StoreError
from gossamer.event_log import EventLog

if TYPE_CHECKING:
    from gossamer.archive.object_store import ObjectStore

_STEP_S = 0.2
_CONNECT_S = 2.0


def prepare(federation: Federation, sites: Sequence[str] = ()) -> list[str]:
    """Makes certificates for the sites that have none, or for these, and one for the operator; returns for whom."""
    now, sites = datetime.fromtimestamp(RealClock().now(), UTC), sites or list(federation.sites)
    made = make_keys(federation.keys, sites, now)
    with contextlib.suppress(ConfigError):  # a machine without the authority's key has what it needs
        made += make_keys(federation.keys, [*sites, OPERATOR], now)
    return made


def prepare_to_ask(federation: Federation) -> None:
    """Makes a certificate for the operator, if the authority's key is here: whoever only asks need not have it."""
    with contextlib.suppress(ConfigError):
        make_keys(federation.keys, [OPERATOR], datetime.fromtimestamp(RealClock().now(), UTC))


@contextlib.contextmanager
def opened(
    federation: Federation, site: str, seeds: Sequence[str], totals: Totals | None = None
) -> Iterator[Supervisor]:
    """Yields the supervisor of one site, ready to run."""
    federation.check_site(site)
    federation.check()
    clock, config, directory = RealClock(), federation.config_of(site), federation.directory(site)
    check_valid(federation.keys, site, datetime.fromtimestamp(clock.now(), UTC))
    neighbours = Neighbours(federation, site, clock)
    urls, files = parse_seeds(seeds)
    store = places.prepare(directory, config, clock.now())
    with locked(store, site), EventLog(folder_of(directory) / "log" / "crawl.jsonl") as log:
        hand_in(Inbox(store), urls, files, clock.now())  # before anything else: from here on they cannot be lost
        places.remember(store, config)
        yield Supervisor(directory, config, clock, log, neighbours, store=store, totals=totals)


@contextlib.contextmanager
def locked(store: "Directory | ObjectStore", site: str) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(store.lock(home_of(site)))
        except ArchiveBusy:
            raise ArchiveBusy(
                f"site {site} runs already: process {store.holder(home_of(site))} crawls in {store.path}; "
                "stop that one to start it anew"
            ) from None
        yield


class SiteRun:
    """`SiteRun` runs one site, as long as there is something to do: anew when the list of sites changes."""

    def __init__(self, path: Path, site: str, seeds: Sequence[str]) -> None:
        self._path, self._site, self._seeds = path, site, list(seeds)
        self._supervisor: Supervisor | None = None
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True
        if self._supervisor:
            self._supervisor.stop()

    def run(self, show: Callable[[Stats], None]) -> Stats:
        seeds, totals = self._seeds, None
        while True:
            federation = load(self._path)
            with opened(federation, self._site, seeds, totals) as self._supervisor:
                if self._stopping:
                    self._supervisor.stop()
                elif totals:
                    print(f"gossamer: {in_words(federation)}", file=sys.stderr)
                totals = self._supervisor.totals
                stats = self._supervisor.run(show)
            if stats.ended != SITES_CHANGE:
                return stats
            seeds = []  # those of before were handed in


class FederationRun:
    """Runs all sites on this machine. `run` returns when all have ended; `stop` may be called from a signal handler."""

    def __init__(self, federation: Federation, seeds: Sequence[str]) -> None:
        self._federation, self._seeds = federation, list(seeds)
        self._clock = RealClock()
        self._sites: dict[str, Member] = {}
        self._rebalancing = Member("rebalance")
        self._members = Members(Processes(), self._clock)
        self._stopping = False
        self._last: dict[str, Summary] = {}
        self._before = counters(federation, *federation.here)
        self._read_s = federation.path.stat().st_mtime

    def stop(self) -> None:
        """Ends each site as Ctrl-C would."""
        self._stopping = True
        for site in self._sites.values():
            if site.handle:
                site.handle.stop()

    def run(self, show: Callable[[Stats], None]) -> Stats:
        self._federation.check()
        totals = Totals(self._before, self._clock)
        wires: dict[str, Wire] = {}
        try:
            self._start_all()
            self._start_rebalancing()
            while any(site.is_running for site in self._sites.values()):
                for site in self._sites.keys() - wires.keys():
                    wires[site] = _wire(self._federation, site, address_here(self._federation, site))
                for site, wire in wires.items():
                    if wire.is_up and (found := read_summary(wire, site)) is not None:
                        self._last[site] = found
                phase = "stopping" if self._stopping else ""
                show(totals.added(self._stats(), phase))
                self._check()
                self._look_for_new_sites()
                time.sleep(_STEP_S)
        finally:
            for wire in wires.values():
                wire.close()
            self._members.close()
        ended = "stopped" if self._stopping else why_ended(self._federation, list(self._sites))
        return totals.final(counters(self._federation, *self._federation.here), ended, self._stats())

    def _stats(self) -> list[Stats]:
        return [summary.stats for summary in self._last.values() if summary.stats]

    def _start_all(self) -> None:
        """Starts the sites of the file that are not running, unless they are gone."""
        for name, site in self._federation.sites.items():
            if name not in self._sites and not site.gone:
                self._start(name)

    def _look_for_new_sites(self) -> None:
        """Starts new sites. The others see for themselves that the list of sites has changed."""
        with contextlib.suppress(ConfigError, OSError):
            modified_s = self._federation.path.stat().st_mtime
            if modified_s != self._read_s and not self._stopping:
                self._federation = load(self._federation.path)
                self._read_s = modified_s
                prepare(self._federation)
                self._start_all()

    def _start_rebalancing(self) -> None:
        """Lets hosts change sites from time to time, if the file says so: in a process, as it reads all archives."""
        path = self._federation.path
        if self._federation.shared.rebalance_hours:
            arguments = ("federation", "rebalance", "--repeat", str(path))
            errors = path.with_name(f"{path.stem}.rebalance.err")
            self._members.start(self._rebalancing, Job("rebalance", "gossamer", arguments, errors=errors))

    def _start(self, site: str) -> None:
        seeds = self._seeds if site == self._federation.first else []
        directory = self._federation.directory(site)
        arguments = ("site", "run", "--quiet", "--name", site, str(self._federation.path), *seeds)
        beside = directory if isinstance(directory, Path) else self._federation.path.with_name(site)
        errors = beside.with_name(f"{beside.name}.err")
        self._sites[site] = Member(site)
        self._members.start(self._sites[site], Job(site, "gossamer", arguments, errors=errors))

    def _check(self) -> None:
        """Ends the whole run if a site fails: the user who runs all of them here wants to know why."""
        for site, ended in self._members.ended([*self._sites.values(), self._rebalancing]):
            if ended.code and site is self._rebalancing:
                print(f"gossamer: hosts stay where they are: {ended.errors or how(ended.code)}", file=sys.stderr)
            elif ended.code:
                raise SiteError(f"site {site.name} failed: {ended.errors or how(ended.code)}")


def why_ended(federation: Federation, sites: Sequence[str]) -> str:
    """Returns why sites have ended, by their own reports: in one word, if it is the same for all."""
    reasons: dict[str, str] = {}
    for site in sites:
        log = folder_of(federation.directory(site)) / "log" / "crawl.jsonl"
        events = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
        reasons[site] = next((str(event["why"]) for event in reversed(list(events)) if event["event"] == "end"), "")
    different = set(reasons.values())
    return (
        different.pop() if len(different) == 1 else "; ".join(f"{site}: {why}" for site, why in reasons.items() if why)
    )


def _wire(federation: Federation, site: str, where: str = "") -> Wire:
    """Returns a connection to a site: as one of its own, if its certificate is here."""
    try:
        files = paths(federation.keys, site)
    except ConfigError:
        files = any_of(federation.keys, list(federation.sites))
    return Wire(address(files, site, where or federation.sites[site].address))


def address_here(federation: Federation, site: str) -> str:
    """Returns where a site on this machine listens. The way that others take may be long, and looking on is no traffic
    between sites."""
    here = federation.sites[site]
    return here.listen.replace("0.0.0.0:", "127.0.0.1:") or here.address


def check_seeds(federation: Federation, seeds: Sequence[str]) -> None:
    if not seeds and federation.first not in federation.here:
        raise SeedError(NO_SEEDS)
    parse_seeds(seeds)  # a mistake should be found before any site is started


def status(federation: Federation, names: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Returns the state of each site, or of these: from itself if it answers, else from its directory, if that is
    here. All are asked at once."""
    asked = list(federation.sites if names is None else names)
    with ThreadPoolExecutor(len(asked) or 1) as pool:
        return list(pool.map(partial(_state, federation), asked))


def _state(federation: Federation, name: str) -> dict[str, Any]:
    site = federation.sites[name]
    summary = None if site.gone else _summary(federation, name)
    row = _row(name, federation, summary) | ({"state": "gone", "behind": ""} if site.gone else {})
    if row["state"] == "not reached" and not row["behind"]:
        row["behind"] = _why_not_reached(federation, name)
    return row


def _summary(federation: Federation, site: str) -> Summary | None:
    wire = _wire(federation, site)
    try:
        return read_summary(wire, site) if wire.wait_up(_CONNECT_S) else None
    finally:
        wire.close()


def _why_not_reached(federation: Federation, site: str) -> str:
    """Returns why a site's server does not let us in; empty if nobody is there."""
    files = any_of(federation.keys, list(federation.sites))
    why = why_refused(address(files, site, federation.sites[site].address), _CONNECT_S)
    return f"its server {why}" if "certificate" in why or "let" in why else ""


def _row(site: str, federation: Federation, summary: Summary | None) -> dict[str, Any]:
    row: dict[str, Any] = {"site": site, "state": "not reached", "agents": 0, "visits": None, "known": None}
    row |= {"frontier": None, "pages_per_s": None, "waits_until_s": None, "crossed": {}}
    row |= _followed(federation, site, summary)
    if summary is not None and summary.stats is not None:
        stats = summary.stats.as_dict()
        row |= {key: stats[key] for key in ("visits", "known", "frontier", "pages_per_s", "waits_until_s")}
        row |= {"state": "ended" if summary.left else "idle" if summary.finished else "crawling"}
        return row | {"agents": summary.agents, "crossed": summary.crossed}
    if _is_here(federation, site):
        figures = counters(federation, site)
        state = "ended" if _home(federation, site).state.clean else "not reached"
        row |= {"state": state, **{key: getattr(figures, key) for key in ("visits", "known", "frontier")}}
        row["crossed"] = crossed(federation, site)
    return row


def _is_here(federation: Federation, site: str) -> bool:
    """Returns whether we can read a site's archive; not, if we have no credentials for its bucket."""
    try:
        return places.exists(federation.directory(site))
    except StoreError:
        return False


def _followed(federation: Federation, site: str, summary: Summary | None) -> dict[str, Any]:
    """Returns which version of the list of sites it follows, and why not the file's, if so."""
    members, refused = kept_by(federation, site).members if _is_here(federation, site) else None, ""
    if summary is not None:
        members, refused = summary.members.as_dict() if summary.members else None, summary.refused
    behind = refused or why_behind(federation, site, members, is_running=summary is not None)
    return {"version": members["version"] if members else None, "behind": behind}


def crossed(federation: Federation, site: str) -> dict[str, dict[str, int]]:
    """Returns what a site has sent to each other one, by the manifest of its first agent."""
    return dict(_home(federation, site).state.crossed)


def _home(federation: Federation, site: str) -> Snapshot:
    """Returns the manifest of the agent that speaks for a site."""
    return snapshots(places.opened(federation.directory(site))).get(home_of(site), Snapshot(home_of(site)))


def counters(federation: Federation, *sites: str) -> Counters:
    """Returns what the manifests of sites on this machine count."""
    return total(committed(places.opened(federation.directory(site))) for site in sites)

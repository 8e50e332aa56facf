"""Runs a federation: one site of it here, or all of them on one machine, each as it would run elsewhere."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from gossamer.archive.chain import snapshots
from gossamer.archive.state import Counters, total
from gossamer.archive.store import Directory
from gossamer.archive.views import word
from gossamer.clocks import RealClock
from gossamer.cluster.federation_file import Federation, home_of, load
from gossamer.cluster.keys import make_keys, paths, tls_name
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import die_with_parent
from gossamer.cluster.neighbours import Neighbours, Summary, kept_by, read_summary
from gossamer.cluster.supervisor import SITES_CHANGE, Supervisor
from gossamer.cluster.totals import Totals
from gossamer.columns import Outcome
from gossamer.config.last_run import remember
from gossamer.crawl.event_log import EventLog
from gossamer.crawl.seeds import NO_SEEDS, hand_in, parse_seeds
from gossamer.crawl.stats import Stats, refused_links, waited_for_s
from gossamer.errors import ArchiveBusy, ConfigError, SeedError, SiteError
from gossamer.sharing.exchange import Inbox
from gossamer.sharing.site_list import in_words, why_behind

_STEP_S = 0.2
_CONNECT_S = 2.0
_ADDED = ("visits", "run_visits", "wire_bytes", "refused_seeds")
_KNOWN = ("connections", "hosts", "active_hosts", "backed_off_hosts", "frontier", "known", "memory_bytes")


def prepare(federation: Federation) -> list[str]:
    """Certificates for the sites that have none; returns for whom they were made."""
    return make_keys(federation.keys, list(federation.sites), datetime.fromtimestamp(RealClock().now(), UTC))


@contextlib.contextmanager
def opened(
    federation: Federation, site: str, seeds: Sequence[str], totals: Totals | None = None
) -> Iterator[Supervisor]:
    """The supervisor of one site, ready to run."""
    federation.check_site(site)
    federation.check_contact()
    clock, config, directory = RealClock(), federation.config_of(site), federation.directory(site)
    neighbours = Neighbours(federation, site, clock)
    urls, files = parse_seeds(seeds)
    store = Directory.prepare(directory, clock.now())
    with _locked(store, site), EventLog(directory / "log" / "crawl.jsonl") as log:
        hand_in(Inbox(store), urls, files)  # before anything else: from here on they cannot be lost
        remember(directory, config)
        yield Supervisor(directory, config, clock, log, neighbours, totals=totals)


@contextlib.contextmanager
def _locked(store: Directory, site: str) -> Iterator[None]:
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
    """One site, for as long as there is something to do: begun anew when the list of sites changes."""

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
    """All sites on this machine. `run` returns when all have ended; `stop` may be called from a signal handler."""

    def __init__(self, federation: Federation, seeds: Sequence[str]) -> None:
        self._federation, self._seeds = federation, list(seeds)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping = False
        self._last: dict[str, Summary] = {}
        self._before = _all_counters(federation)
        self._read_s = federation.path.stat().st_mtime

    def stop(self) -> None:
        """Each site ends as it would by Ctrl-C."""
        self._stopping = True
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)

    def run(self, show: Callable[[Stats], None]) -> Stats:
        self._federation.check_contact()
        clock = RealClock()
        start_s = clock.monotonic()
        self._start_all()
        wires: dict[str, Wire] = {}
        try:
            while any(process.poll() is None for process in self._processes.values()):
                for site in self._processes.keys() - wires.keys():
                    wires[site] = _wire(self._federation, site, address_here(self._federation, site))
                for site, wire in wires.items():
                    if wire.is_up and (found := read_summary(wire, site)) is not None:
                        self._last[site] = found
                show(added(self._last.values(), clock.monotonic() - start_s, "stopping" if self._stopping else ""))
                self._check()
                self._look_for_new_sites()
                time.sleep(_STEP_S)
        finally:
            for wire in wires.values():
                wire.close()
            for process in self._processes.values():
                if process.poll() is None:
                    process.kill()
                process.wait()
        self._check()
        ended = "stopped" if self._stopping else why_ended(self._federation, list(self._processes))
        refused = sum(int(summary["stats"]["refused_seeds"]) for summary in self._last.values())
        return final(self._federation, self._before, refused, clock.monotonic() - start_s, ended)

    def _start_all(self) -> None:
        """Those of the file that are not running, unless they are gone."""
        for name, site in self._federation.sites.items():
            if name not in self._processes and not site.gone:
                self._start(name)

    def _look_for_new_sites(self) -> None:
        """Sites see for themselves that the list of them has changed; those that are new must be started."""
        with contextlib.suppress(ConfigError, OSError):
            modified_s = self._federation.path.stat().st_mtime
            if modified_s != self._read_s and not self._stopping:
                self._federation = load(self._federation.path)
                self._read_s = modified_s
                prepare(self._federation)
                self._start_all()

    def _start(self, site: str) -> None:
        words = self._words(site)
        words.parent.mkdir(parents=True, exist_ok=True)
        seeds = self._seeds if site == self._federation.first else []
        command = [sys.executable, "-m", "gossamer", "site", "run", "--quiet", "--name", site]
        with words.open("wb") as file:
            self._processes[site] = subprocess.Popen(
                [*command, str(self._federation.path), *seeds],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,  # Ctrl-C is for us
                preexec_fn=partial(die_with_parent, os.getpid()),
            )

    def _words(self, site: str) -> Path:
        directory = self._federation.directory(site)
        return directory.with_name(f"{directory.name}.err")

    def _check(self) -> None:
        """A site that fails ends the whole run: whoever runs all of them here wants to know why."""
        for site, process in self._processes.items():
            if process.poll():
                words = self._words(site).read_text("utf-8", "replace").strip()
                raise SiteError(f"site {site} failed: {words or f'exit code {process.returncode}'}")


def why_ended(federation: Federation, sites: Sequence[str]) -> str:
    """What sites have said at their end: in one word, if it is the same for all."""
    said: dict[str, str] = {}
    for site in sites:
        log = federation.directory(site) / "log" / "crawl.jsonl"
        events = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
        said[site] = next((str(event["why"]) for event in reversed(list(events)) if event["event"] == "end"), "")
    reasons = set(said.values())
    return reasons.pop() if len(reasons) == 1 else "; ".join(f"{site}: {why}" for site, why in said.items() if why)


def _wire(federation: Federation, site: str, address: str = "") -> Wire:
    """To a site, as one of its own."""
    url = f"tls://{address or federation.sites[site].address}"
    return Wire({"url": url, "name": tls_name(site), **paths(federation.keys, site)})


def address_here(federation: Federation, site: str) -> str:
    """Of a site on this machine: where it listens. The way that others take may be long, and looking on is no traffic
    between sites."""
    here = federation.sites[site]
    return here.listen.replace("0.0.0.0:", "127.0.0.1:") or here.address


def added(summaries: Collection[Summary], elapsed_s: float, phase: str) -> Stats:
    """The figures of all sites as those of one crawl."""
    total: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    for summary in summaries:
        stats = summary["stats"]
        total.update({name: stats[name] or 0 for name in (*_ADDED, *_KNOWN)})
        outcomes.update(stats["outcomes"])
    figures: dict[str, Any] = {name: total[name] for name in (*_ADDED, *_KNOWN)}
    figures["waits_until_s"] = waited_for_s([summary["stats"] for summary in summaries])
    return Stats(now_s=RealClock().now(), elapsed_s=elapsed_s, outcomes=dict(outcomes), phase=phase, **figures)


def final(federation: Federation, before: Counters, refused: int, elapsed_s: float, ended: str) -> Stats:
    """What is committed, at the end."""
    after = _all_counters(federation)
    run = after - before
    figures: dict[str, Any] = {name: getattr(after, name) for name in ("visits", "hosts", "known", "frontier")}
    figures |= {"run_visits": run.visits, "wire_bytes": run.wire_bytes, "refused_seeds": refused}
    figures["refused"] = refused_links(after.refused)
    figures["outcomes"] = {name: run.outcomes[name] for name in map(word, Outcome) if name in run.outcomes}
    return Stats(now_s=RealClock().now(), elapsed_s=elapsed_s, ended=ended, **figures)


def check_seeds(federation: Federation, seeds: Sequence[str]) -> None:
    if not seeds and federation.first not in federation.here:
        raise SeedError(NO_SEEDS)
    parse_seeds(seeds)  # a mistake should be found before any site is started


def _all_counters(federation: Federation) -> Counters:
    return total(counters(federation, site) for site in federation.here)


def status(federation: Federation) -> list[dict[str, Any]]:
    """How each site stands: from itself if it answers, else from its directory, if that is here."""
    rows = []
    for name, site in federation.sites.items():
        summary = None if site.gone else _summary(federation, name)
        rows.append(_row(name, federation, summary) | ({"state": "gone", "behind": ""} if site.gone else {}))
    return rows


def _summary(federation: Federation, site: str) -> Summary | None:
    wire = _wire(federation, site)
    try:
        return read_summary(wire, site) if wire.wait_up(_CONNECT_S) else None
    finally:
        wire.close()


def _row(site: str, federation: Federation, summary: Summary | None) -> dict[str, Any]:
    row: dict[str, Any] = {"site": site, "state": "not reached", "agents": 0, "visits": None, "known": None}
    row |= {"frontier": None, "pages_per_s": None, "waits_until_s": None, "crossed": {}}
    row |= _followed(federation, site, summary)
    if summary is not None:
        stats: Mapping[str, Any] = summary["stats"]
        row |= {key: stats[key] for key in ("visits", "known", "frontier", "pages_per_s", "waits_until_s")}
        row |= {"state": "idle" if summary["finished"] else "crawling"}
        return row | {"agents": summary["agents"], "crossed": summary["crossed"]}
    if site in federation.here:
        figures = counters(federation, site)
        home = snapshots(Directory(federation.directory(site))).get(home_of(site))
        state = "ended" if home and home.state.clean else "not reached"
        row |= {"state": state, **{key: getattr(figures, key) for key in ("visits", "known", "frontier")}}
        row["crossed"] = crossed(federation, site)
    return row


def _followed(federation: Federation, site: str, summary: Summary | None) -> dict[str, Any]:
    """Which version of the list of sites it goes by, and why not by the file's, if so."""
    kept = kept_by(federation, site) if summary is None else summary
    members, refused = kept.get("members"), str(kept.get("refused", ""))
    behind = refused or why_behind(federation, site, members, is_running=summary is not None)
    return {"version": members["version"] if members else None, "behind": behind}


def crossed(federation: Federation, site: str) -> dict[str, dict[str, int]]:
    """What a site has sent to each other one, by the books of its first agent."""
    home = snapshots(Directory(federation.directory(site))).get(home_of(site))
    return dict(home.state.crossed) if home else {}


def counters(federation: Federation, site: str) -> Counters:
    return total(at.state.counters for at in snapshots(Directory(federation.directory(site))).values())

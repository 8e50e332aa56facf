"""`gossamer scan` runs one scan, or one after the other, from a list of websites to tables of links."""

import argparse
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from gossamer.api import stopped_by_signals
from gossamer.clocks import Clock, RealClock
from gossamer.cluster.federation_file import load as load_federation
from gossamer.config import PROCESSES, Config, last_run
from gossamer.config.file import read_toml
from gossamer.crawl.opening import check_contact
from gossamer.errors import ConfigError
from gossamer.fetch.resolver import checked_map
from gossamer.scan import clients, results
from gossamer.scan.clients import Worker
from gossamer.scan.coordinator import Coordinator
from gossamer.scan.defaults import defaults
from gossamer.scan.dispatch import Dispatch
from gossamer.scan.gathering import Gathering
from gossamer.scan.history import Outlook, outlook
from gossamer.scan.planners import plan
from gossamer.scan.records import Facts, Record, ScanFolder, Scans
from gossamer.scan.show import Display, summary, wide
from gossamer.scan.websites import Listed, Website, name_of, read_list
from gossamer.web.url import normalise

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_NAP_S = 0.5


def scan(arguments: argparse.Namespace, given: Mapping[str, Any]) -> int:
    directory = Path(arguments.dir)
    file = arguments.config or arguments.federation
    config = configuration(directory, file, given)
    _check(config)
    listed = read_list(arguments.websites, config.crawl.scope)
    check_contact(config, doing="scanning")
    checked_map(config.resolve)
    every_s = span_s(arguments.repeat) if arguments.repeat else 0.0
    federation = load_federation(arguments.federation) if arguments.federation else None
    here = arguments.name or (federation.first if federation else "")
    times: dict[str, float] = {}
    if federation:
        federation.check_site(here)
        workers = clients.of_federation(federation, arguments.at_once, here)
    else:
        file, slots = arguments.clients, arguments.at_once
        workers, times = clients.load(file, slots) if file else (clients.local(config.site.agents, slots), {})
    if config.crawl.render:  # clients are as agents
        from gossamer.render.renderer import check_render

        check_render(config.replace({"site.agents": min(len(workers), 2)}))
    wish = Wish(
        arguments.mode,
        reference=arguments.reference or "",
        keep=arguments.keep,
        json=arguments.json,
        quiet=arguments.quiet or arguments.json,
    )
    run = Run(Scans(directory), workers, config, wish, RealClock(), Console(stderr=wish.json))
    run.reference_s = times
    with run.scans.lock(), stopped_by_signals(run), ExitStack() as stack:
        last_run.remember(directory, config)
        if federation:
            run.gathering = stack.enter_context(Gathering(directory / "site", federation, here, config.site.lease_s))
        while True:
            begun_s = run.once(listed)
            if not every_s or run.stopping or not run.nap(begun_s + every_s):
                return 0
            listed = read_list(arguments.websites, config.crawl.scope)  # it may have changed meanwhile


def _check(config: Config) -> None:
    """Refuses what makes no sense for websites that share a crawl."""
    if config.crawl.scope == "any":
        raise ConfigError("--scope any: a scan stays on its websites, and reports the links that lead away from them; "
                          "write --scope host or --scope domain")  # fmt: skip
    if config.crawl.rounds:
        raise ConfigError("crawl.rounds: a scan has no rounds of its own; limit a website by --pages or --minutes")
    if config.site.engine != PROCESSES:
        raise ConfigError(
            f"--engine {config.site.engine}: the clients of a scan are processes of this machine, or the sites of a "
            "federation; leave it out, or name the federation's file with --federation"
        )
    if config.site.max_agents:
        raise ConfigError("--agents MIN..MAX: a scan has as many clients from beginning to end; write one number")


def configuration(directory: Path, file: Path | None, given: Mapping[str, Any]) -> Config:
    """Returns the defaults of a scan, changed by the last scan's configuration or a file, then by what is given."""
    if file is not None:
        values = read_toml(file, "does not exist; `gossamer config` prints a file to start from")
        if "sites" in values:  # a federation's, with what it crawls by
            load_federation(file)
            values = {name: value for name, value in values.items() if name not in ("sites", "federation")}
        return defaults().replace(values).replace(given)
    return (last_run.recall(directory) or defaults()).replace(given)


def span_s(text: str) -> float:
    """Parses a length of time: 90s, 30m, 6h, 1d, 2w."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if not found or float(found[1]) <= 0:
        raise ConfigError(f"--repeat {text}: write a length of time, such as 30m, 6h, 1d or 2w")
    return float(found[1]) * _UNITS[found[2]]


@dataclass(frozen=True)
class Wish:
    """`Wish` holds how to scan, and how much to show of it."""

    mode: str = "dynamic"
    reference: str = ""
    keep: bool = False
    json: bool = False
    quiet: bool = False  # no progress, no summary


class Run:
    """`Run` runs the scans of one directory, in one process."""

    def __init__(
        self, scans: Scans, workers: list[Worker], config: Config, wish: Wish, clock: Clock, console: Console
    ) -> None:
        self.scans, self._workers, self._config, self._clock = scans, workers, config, clock
        self._wish, self._console = wish, wide(console)
        self.make_dispatch: Callable[..., Dispatch] = Dispatch
        self._coordinator: Coordinator | None = None
        self.gathering: Gathering | None = None  # where clients are on other machines
        self.reference_s: dict[str, float] = {}
        self.stopping = False

    def stop(self) -> None:
        self.stopping = True
        if self._coordinator is not None:
            self._coordinator.stop()

    def nap(self, until_s: float) -> bool:
        """Waits for the next scan; returns False if there is to be none."""
        self._note(f"the next scan begins in {max(0.0, until_s - self._clock.now()):,.0f} s; Ctrl-C ends")
        while self._clock.now() < until_s and not self.stopping:
            time.sleep(min(_NAP_S, max(0.0, until_s - self._clock.now())))
        return not self.stopping

    def once(self, listed: Listed) -> float:
        """Runs one scan, or the rest of the one that was interrupted. Returns when it began."""
        record = self.scans.unfinished()
        if record is not None:
            self._note(f"scan {record.number} goes on, with the websites that it began with")
        else:
            record = self._begin(listed)
        self.scans.write(record)
        finished = self.scans.files(record.number).done(record.listed)
        if len(finished) < len(record.websites):
            self._measure_clients(record)
        start_s = self._clock.monotonic()
        complete = self.stopping or self._work(record, finished)
        record.makespan_s += self._clock.monotonic() - start_s
        sums: dict[str, Any] = {}
        if complete and not self.stopping:
            sums = results.publish(self.scans, record)
            record.ended_s = self._clock.now()
        self.scans.write(record)
        self._report(record, sums)
        return record.begun_s

    def _begin(self, listed: Listed) -> Record:
        numbers = self.scans.numbers()
        websites = [[website.name, website.start] for website in listed.websites]
        record = Record(
            (numbers[-1] if numbers else 0) + 1, self._wish.mode, self._clock.now(), websites,
            listed.duplicates, listed.invalid,
        )  # fmt: skip
        for kind, lines in (
            ("is listed again, and scanned once", listed.duplicates),
            ("is no web address", listed.invalid),
        ):
            record.events += [f"{line} {kind}" for line in lines]
        return record

    def _work(self, record: Record, finished: dict[str, Facts]) -> bool:
        names = [website.name for website in record.listed]
        delays = {worker.name: worker.delay_s(self._config) for worker in self._workers}
        for worker in self._workers:
            record.clients.setdefault(worker.name, {})["at_once"] = worker.slots
        times = {name: had["reference_s"] for name, had in record.clients.items() if "reference_s" in had}
        ahead = outlook(self.scans, names, delays, times)
        dispatch = self._dispatch(record, ahead, finished)
        self._coordinator = self._coordinating(self.scans.files(record.number), record.listed, self._workers)
        self._coordinator.keep = self._wish.keep
        self._coordinator.requests = {names[i]: float(ahead.requests[i]) for i in ahead.known.tolist()}
        for text in record.events:
            self._note(text)
        try:
            with Display(self._console, quiet=self._wish.quiet) as display:
                return self._coordinator.run(dispatch, display.update)
        finally:
            for text in self._coordinator.events:
                self._note(text)
            record.events += self._coordinator.events
            for name, way in self._coordinator.ways.items():
                record.clients.setdefault(name, {}).update(way)
            self.scans.write(record)

    def _coordinating(self, files: ScanFolder, websites: list[Website], workers: list[Worker]) -> Coordinator:
        made = Coordinator(files, websites, workers, self._config, self._clock)
        if self.gathering is not None:
            made.open_remote = self.gathering.open
        return made

    def _dispatch(self, record: Record, ahead: Outlook, finished: dict[str, Facts]) -> Dispatch:
        slots = [worker.slots for worker in self._workers]
        if record.mode != "round-robin" and not len(ahead.known) and not finished:
            record.events.append("nothing is known of these websites yet: the next one goes to the next free client")
        number = {name: i for i, name in enumerate(ahead.websites)}
        dispatch = self.make_dispatch(
            ahead.times_s,
            slots,
            record.mode,
            known=ahead.known,
            pages=ahead.requests,
            done=[number[name] for name in finished],
            absent=[j for j, worker in enumerate(self._workers) if worker.is_remote],
        )
        if len(ahead.known):
            found = plan(ahead.task(slots)[0], "next-free" if record.mode == "round-robin" else "lpt")
            record.planned_s, record.bound_s = found.makespan_s, found.bound_s
        record.forecast_s = {ahead.websites[i]: float(ahead.times_s[i].mean()) for i in ahead.known.tolist()}
        return dispatch

    def _measure_clients(self, record: Record) -> None:
        """Lets clients that have no reference time yet scan the reference site, one after the other."""
        for name, seconds in self.reference_s.items():
            record.clients.setdefault(name, {})["reference_s"] = seconds
        if not self._wish.reference:
            return
        url = normalise(self._wish.reference)
        if url is None:
            raise ConfigError(f"--reference {self._wish.reference} is no web address; write https://example.org/")
        website = Website(name_of(url, self._config.crawl.scope), url)
        known = {name for each in self.scans.ended() for name, had in each.clients.items() if had.get("reference_s")}
        for worker in self._workers:
            measured = record.clients.setdefault(worker.name, {})
            if worker.name in known or measured.get("reference_s") or self.stopping:
                continue
            files = ScanFolder(self.scans.folder(record.number) / "reference" / worker.name)
            if worker.is_remote and not (self.gathering and self.gathering.is_there(worker.name)):
                continue
            self._coordinator = self._coordinating(files, [website], [worker])
            nothing_known = Dispatch(np.ones((1, 1)), [1], absent=[0] if worker.is_remote else [])
            if self._coordinator.run(nothing_known, lambda _: None):
                facts = Facts.read(files.facts(website))
                if facts.status != "ok":
                    raise ConfigError(f"the reference site {url} is {facts.status}: {facts.reason}; choose another one")
                measured |= {"reference_s": facts.scan_s, "reference_pages": facts.pages, "reference_site": facts.site}
                measured |= {"reference_bytes": facts.wire_bytes, "reference_depth": facts.mean_depth}
                measured |= {"reference_address": facts.address}
                self._note(f"client {worker.name}: {facts.pages:,} pages of {facts.site} in {facts.scan_s:.1f} s")
            self.scans.write(record)

    def _note(self, text: str) -> None:
        if not self._wish.json:
            self._console.print(f"gossamer: {text}", highlight=False, markup=False, soft_wrap=True)

    def _report(self, record: Record, sums: dict[str, Any]) -> None:
        folder = self.scans.folder(record.number)
        if self._wish.json:
            print(json.dumps(_as_json(record, sums, folder)), flush=True)
        elif not record.ended_s:
            self._note(f"scan {record.number} was interrupted; the same command goes on where it was")
        elif not self._wish.quiet:
            self._console.print(summary(record, sums, results.read_sites(self.scans, record.number), folder))


def _as_json(record: Record, sums: dict[str, Any], folder: Path) -> dict[str, Any]:
    found = {
        "scan": record.number,
        "mode": record.mode,
        "websites": len(record.websites),
        "ended": bool(record.ended_s),
    }
    found |= {name: getattr(record, name) for name in ("makespan_s", "planned_s", "bound_s", "events")}
    return found | sums | {"folder": str(folder)}

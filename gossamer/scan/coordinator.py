"""The coordinator runs a scan: it starts clients, assigns websites as the dispatch decides, survives their death."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any

from gossamer.clocks import Clock
from gossamer.cluster.engine import Channel, Received, last_words
from gossamer.cluster.members import Member, Members
from gossamer.cluster.processes import Processes
from gossamer.cluster.protocol import encode
from gossamer.config import Config
from gossamer.errors import SiteError
from gossamer.scan.clients import Worker, job_of
from gossamer.scan.dispatch import Dispatch
from gossamer.scan.messages import (
    SILENT,
    Begin,
    ClientTask,
    Done,
    Echo,
    Failed,
    Message,
    Progress,
    Standing,
    Stop,
    read,
)
from gossamer.scan.records import Facts, ScanFolder
from gossamer.scan.waiting import Waiting
from gossamer.scan.websites import Website

_LOOK_S = 0.25
_STOP_S = 30.0  # clients that are ordered to stop may finish what is under way for so long
_DEATHS = 3  # a website during which so many clients died is given up
_EVIDENCE_S = 3.0  # of work, before a client's pace is judged ...
_SLACK_S = 5.0  # ... and so long after the time of a website under way is over
_BEGIN_S = 60.0  # a client may take so long to begin
_ECHO_BYTES = 32_768  # echo messages, by which the way to a client is measured

Lines = Queue[tuple[int, bytes | None]]  # from which client; None: it is gone


@dataclass
class View:
    """`View` shows a scan under way at one moment, for whoever watches."""

    elapsed_s: float
    total: int
    done: int
    clients: list[dict[str, Any]]
    waits: list[str]  # websites that have made no progress for a while, and why


@dataclass
class ScanClient(Member):
    """`ScanClient` holds what the coordinator knows of a client, here or on another machine."""

    worker: Worker
    number: int
    is_alive: bool
    channel: Channel = field(init=False)
    at: Mapping[str, Progress] = field(default_factory=dict)
    pages: int = 0
    done: int = 0
    took_s: float = 0.0  # of pages that it has fetched, and
    forecast_s: float = 0.0
    way: dict[str, float] = field(default_factory=dict)  # what was measured of the way to it

    def send(self, message: Message) -> None:
        self.channel.send(encode(message))

    def left(self, website: str) -> None:
        self.at = {name: progress for name, progress in self.at.items() if name != website}


def _in_words(status: str) -> str:
    return status if status in ("failed", "moved") else f"is {status}"


class Coordinator:
    """`Coordinator` runs one scan. `run` returns when every website is done, or after `stop`; the next run goes on."""

    def __init__(
        self, files: ScanFolder, websites: Sequence[Website], workers: Sequence[Worker], config: Config, clock: Clock
    ) -> None:
        self._files, self._websites, self._workers = files, list(websites), list(workers)
        self._config, self._clock = config, clock
        self._number = {website.name: i for i, website in enumerate(self._websites)}
        self._lines: Lines = Queue()
        self._clients: list[ScanClient] = []
        self._deaths: dict[int, int] = {}
        self._waiting = Waiting(config.polite.delay_s)
        self._stopping = False
        self.events: list[str] = []
        self.keep = False
        self.open_remote: Callable[[ClientTask, Received], Channel] | None = None  # for clients on other machines
        self.requests: Mapping[str, float] = {}  # by website that was scanned before: how many pages are expected

    def stop(self) -> None:
        self._stopping = True

    @property
    def ways(self) -> dict[str, dict[str, float]]:
        """Returns what was measured of the way to each client, by client."""
        return {client.name: client.way for client in self._clients}

    def run(self, dispatch: Dispatch, show: Callable[[View], None]) -> bool:
        """Runs the scan; returns whether all is done."""
        start_s = self._clock.monotonic()
        self._files.prepare()
        lease_s = self._config.site.lease_s
        self._members = Members(Processes(), self._clock, lease_s, begin_s=lease_s)
        try:
            for number, worker in enumerate(self._workers):
                client = ScanClient(worker.name, worker, number, is_alive=not worker.is_remote)
                self._open(client)
                self._clients.append(client)
            while not dispatch.is_over and not self._stopping:
                now_s = self._clock.monotonic() - start_s
                self._hand_out(dispatch, now_s)
                self._receive(dispatch, now_s)
                self._watch(dispatch, now_s)
                show(self._view(dispatch, now_s))
                if not dispatch.alive and not dispatch.is_over and not self._may_come():
                    last = self.events[-1] if self.events else "none has come"
                    raise SiteError(f"all clients died: {last}; the same command goes on where they were")
            self._end(dispatch)
        finally:
            self._members.close()
            for client in self._clients:
                if client.worker.is_remote:
                    client.channel.close()
        if dispatch.is_over and not self.keep:
            shutil.rmtree(self._files.crawls, ignore_errors=True)
        return dispatch.is_over

    # To clients

    def _open(self, client: ScanClient) -> None:
        config, number = self._config.replace(client.worker.values), client.number
        task = ClientTask(client=client.name, scan=str(self._files.scan), config=config, keep=self.keep)

        def received(line: bytes | None) -> None:
            self._lines.put((number, line))

        if client.worker.is_remote:
            assert self.open_remote is not None
            client.channel = self.open_remote(task, received)
        else:
            client.channel = self._members.start(client, job_of(task), received)
        client.reported_s = self._clock.monotonic() + _BEGIN_S

    def _hand_out(self, dispatch: Dispatch, now_s: float) -> None:
        for client in self._clients:
            while client.has_reported and (i := dispatch.next(client.number, now_s)) is not None:
                client.send(Begin(self._websites[i].name, self._websites[i].start))

    # From clients

    def _receive(self, dispatch: Dispatch, now_s: float) -> None:
        try:
            number, line = self._lines.get(timeout=_LOOK_S)
            while True:
                client = self._clients[number]
                if line is None:
                    self._died(dispatch, client, now_s)
                elif (message := read(line)) is not None:
                    self._take(dispatch, client, message, now_s)
                number, line = self._lines.get_nowait()
        except Empty:
            return

    def _take(self, dispatch: Dispatch, client: ScanClient, message: Message, now_s: float) -> None:
        client.reported_s = self._clock.monotonic()
        match message:
            case Standing(at):
                if not client.is_alive:
                    self._came(dispatch, client, now_s)
                client.at = at
                if not client.has_reported:
                    client.has_reported = True
                    for text in ("", "x" * _ECHO_BYTES):
                        client.send(Echo(text, self._clock.monotonic()))
            case Echo(text, sent_s):
                self._measure(client, len(text), client.reported_s - sent_s)
            case Done(website):
                self._done(dispatch, client, self._number[website], now_s)
            case Failed(website, why):
                self._give_up(dispatch, client, self._number[website], why)

    def _came(self, dispatch: Dispatch, client: ScanClient, now_s: float) -> None:
        """Takes in a client from another machine, for the first time or again."""
        client.is_alive = True
        dispatch.joined(client.number, now_s)
        self.events.append(f"client {client.name} has joined")

    def _done(self, dispatch: Dispatch, client: ScanClient, i: int, now_s: float) -> None:
        client.done += 1
        facts = Facts.read(self._files.facts(self._websites[i]))
        if (per_s := self._per_page_s(dispatch, client, i)) is not None and i in dispatch.running:
            client.took_s += now_s - dispatch.running[i][1]
            client.forecast_s += per_s * facts.requests
        client.pages += facts.pages
        client.left(facts.site)
        if facts.status != "ok":
            self.events.append(f"{facts.site} {_in_words(facts.status)}: {facts.reason}")
        dispatch.end(i)

    def _give_up(self, dispatch: Dispatch, client: ScanClient, i: int, why: str) -> None:
        website, now_s = self._websites[i], self._clock.now()
        client.left(website.name)
        facts = Facts(website.name, website.start, "failed", why, client.name, begun_s=now_s, ended_s=now_s)
        facts.write(self._files.facts(website))
        self.events.append(f"{website.name} failed: {why}")
        dispatch.end(i)

    def _died(self, dispatch: Dispatch, client: ScanClient, now_s: float) -> None:
        """Handles the death of a client: what it has finished is finished, and the rest is planned again."""
        if not client.is_alive:
            return
        client.is_alive = client.has_reported = False
        cause = client.channel.kill()  # it may only have closed its output
        if client.handle and (client.handle.poll() or 0) > 0:
            cause += f"; {last_words(client.handle.errors())}"
        client.at = {}
        for i in [i for i, (on, _) in dispatch.running.items() if on == client.number]:
            # A way that breaks again and again is not the website's fault.
            self._deaths[i] = self._deaths.get(i, 0) + (cause != SILENT)
            if self._files.facts(self._websites[i]).exists():
                self._done(dispatch, client, i, now_s)
            elif self._deaths[i] >= _DEATHS:
                self._give_up(dispatch, client, i, f"{_DEATHS} clients died while they scanned it")
        lost = dispatch.died(client.number, now_s)
        self.events.append(
            f"client {client.name} died ({cause}); its {len(lost)} unfinished websites went to the others"
        )

    def _measure(self, client: ScanClient, size: int, took_s: float) -> None:
        if not size:
            client.way["server_s"] = took_s
        elif took_s > 0:
            client.way["transfer_bytes_per_s"] = 2 * size / max(took_s - client.way.get("server_s", 0.0), 1e-6)

    # What the coordinator sees for itself

    def _watch(self, dispatch: Dispatch, now_s: float) -> None:
        for client in self._members.silent(client for client in self._clients if client.is_alive):
            client.channel.kill()  # its end is noticed as that of any other
        for client in self._clients:
            pace = self._pace(dispatch, client, now_s) if client.is_alive else None
            if pace is not None and dispatch.observe(client.number, pace, now_s):
                self.events.append(
                    f"client {client.name} takes {pace:.2g} times as long as forecast; "
                    "what it had not begun was planned again"
                )

    def _may_come(self) -> bool:
        """Returns whether a client that is not there now may be there soon."""
        patience_s = max(_BEGIN_S, self._config.site.lease_s)
        reported_s = max(client.reported_s for client in self._clients)
        return (
            any(client.worker.is_remote for client in self._clients)
            and self._clock.monotonic() - reported_s < patience_s
        )

    def _pace(self, dispatch: Dispatch, client: ScanClient, now_s: float) -> float | None:
        """Returns seconds per second of forecast, page by page: a website's growth cannot count against its client."""
        took_s, forecast_s = client.took_s, client.forecast_s
        for i, (on, since_s) in dispatch.running.items():
            at, per_s = client.at.get(self._websites[i].name), self._per_page_s(dispatch, client, i)
            # Before its time is over this cannot be judged: a website's first pages are the slowest.
            if on == client.number and at and per_s and now_s - since_s > dispatch.times_s[i, on] + _SLACK_S:
                took_s += now_s - since_s
                forecast_s += per_s * at.pages
        return took_s / forecast_s if forecast_s > 0 and took_s >= _EVIDENCE_S else None

    def _per_page_s(self, dispatch: Dispatch, client: ScanClient, i: int) -> float | None:
        expected = self.requests.get(self._websites[i].name)
        return float(dispatch.times_s[i, client.number]) / expected if expected else None

    def _view(self, dispatch: Dispatch, now_s: float) -> View:
        rows = []
        for client in self._clients:
            under_way = [self._websites[i].name for i, (on, _) in dispatch.running.items() if on == client.number]
            rows.append(
                {
                    "client": client.name,
                    "alive": client.is_alive,
                    "done": client.done,
                    "waiting": len(dispatch.queues[client.number]),
                    "pages": client.pages + sum(progress.pages for progress in client.at.values()),
                    "under_way": under_way,
                    "left_s": dispatch.left_s(client.number, now_s),
                }
            )
        return View(now_s, len(self._websites), len(dispatch.finished), rows, self._waits(dispatch, now_s))

    def _waits(self, dispatch: Dispatch, now_s: float) -> list[str]:
        under_way = {}
        for i, (on, _) in sorted(dispatch.running.items()):
            progress = self._clients[on].at.get(self._websites[i].name, Progress())
            under_way[self._websites[i].name] = (progress.pages, progress.trouble)
        return self._waiting.look(under_way, now_s)

    def _end(self, dispatch: Dispatch) -> None:
        for client in self._clients:
            client.send(Stop())
        end_s = self._clock.monotonic() + _STOP_S
        for client in self._clients:
            client.channel.close(max(0.0, end_s - self._clock.monotonic()))
        while not self._lines.empty():
            number, line = self._lines.get()
            if line is not None and isinstance(message := read(line), Done):
                self._done(dispatch, self._clients[number], self._number[message.website], 0.0)

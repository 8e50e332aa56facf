"""Runs one scan: starts clients, hands websites out as the dispatch says, and survives the clients' death."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

from gossamer.clocks import Clock
from gossamer.config import Config
from gossamer.errors import SiteError
from gossamer.scan.channel import UNHEARD, Channel, Member, Said, Worker
from gossamer.scan.dispatch import Dispatch
from gossamer.scan.facts import Facts, Places
from gossamer.scan.process import Process
from gossamer.scan.waiting import Waiting
from gossamer.scan.websites import Website

_LOOK_S = 0.25
_STOP_S = 30.0  # clients that are told to stop may finish what is under way for so long
_DEATHS = 3  # a website during which so many clients died is given up
_EVIDENCE_S = 3.0  # of work, before a client's pace is judged ...
_SLACK_S = 5.0  # ... and so long after the time of a website under way is over
_BEGIN_S = 60.0  # a client may take so long to begin
_SAID = 32_768  # bytes that are sent to and fro to measure the way to a client


@dataclass
class View:
    """One look at a scan under way, for whoever watches."""

    elapsed_s: float
    total: int
    done: int
    clients: list[dict[str, Any]]
    waits: list[str]  # websites of which nothing has come for a while, and why


def _said_of(status: str) -> str:
    return status if status in ("failed", "moved") else f"is {status}"


class Coordinator:
    """One scan. `run` returns when every website is done, or after `stop`; then what is left is for the next run."""

    def __init__(
        self, places: Places, websites: Sequence[Website], workers: Sequence[Worker], config: Config, clock: Clock
    ) -> None:
        self._places, self._websites, self._workers = places, list(websites), list(workers)
        self._config, self._clock = config, clock
        self._number = {website.name: i for i, website in enumerate(self._websites)}
        self._said: Said = Queue()
        self._members: list[Member] = []
        self._deaths: dict[int, int] = {}
        self._waiting = Waiting(config.polite.delay_s)
        self._stopping = False
        self.events: list[str] = []
        self.keep = self.together = False
        self.open: Callable[[int, Worker, Said], Channel] = Process
        self.requests: Mapping[str, float] = {}  # by website that was scanned before: how many pages are expected

    def stop(self) -> None:
        self._stopping = True

    @property
    def ways(self) -> dict[str, dict[str, float]]:
        """By client, what was measured of the way to it."""
        return {member.worker.name: member.way for member in self._members}

    def run(self, dispatch: Dispatch, show: Callable[[View], None]) -> bool:
        """Whether all is done."""
        start_s = self._clock.monotonic()
        self._places.prepare()
        self._members = [
            Member(worker, number, self.open(number, worker, self._said), is_alive=not worker.is_remote)
            for number, worker in enumerate(self._workers)
        ]
        try:
            for member in self._members:
                self._greet(member)
            while not dispatch.is_over and not self._stopping:
                now_s = self._clock.monotonic() - start_s
                self._hand_out(dispatch, now_s)
                self._listen(dispatch, now_s)
                self._watch(dispatch, now_s)
                show(self._view(dispatch, now_s))
                if not dispatch.alive and not dispatch.is_over and not self._may_come():
                    raise SiteError(f"all clients died: {self._last_event}; the same command goes on where they were")
            self._end(dispatch)
        finally:
            for member in self._members:
                member.channel.kill()
                member.channel.close(0.0)
        return dispatch.is_over

    # What clients are told

    def _greet(self, member: Member) -> None:
        worker = member.worker
        values = self._config.replace(worker.values).values()
        member.channel.tell(
            {"client": worker.name, "scan": str(self._places.scan), "config": values, "keep": self.keep}
        )
        member.heard_s = self._clock.monotonic() + _BEGIN_S

    def _hand_out(self, dispatch: Dispatch, now_s: float) -> None:
        if self.together and not all(member.is_ready for member in self._members if member.is_alive):
            return
        self.together = False
        for member in self._members:
            while member.is_ready and (i := dispatch.next(member.number, now_s)) is not None:
                website = self._websites[i]
                member.channel.tell({"begin": website.name, "start": website.start})

    # What clients say

    def _listen(self, dispatch: Dispatch, now_s: float) -> None:
        try:
            number, message = self._said.get(timeout=_LOOK_S)
            while True:
                self._hear(dispatch, self._members[number], message, now_s)
                number, message = self._said.get_nowait()
        except Empty:
            return

    def _hear(self, dispatch: Dispatch, member: Member, message: dict[str, Any] | None, now_s: float) -> None:
        member.heard_s = self._clock.monotonic()
        if message is None:
            self._died(dispatch, member, now_s)
        elif "at" in message:
            if not member.is_alive:
                self._came(dispatch, member, now_s)
            member.at = message["at"]
            if not member.is_ready:
                member.is_ready = True
                for text in ("", "x" * _SAID):
                    member.channel.tell({"echo": text, "s": self._clock.monotonic()})
        elif "echo" in message:
            self._measure(member, len(message["echo"]), member.heard_s - message["s"])
        elif "done" in message:
            self._done(dispatch, member, self._number[message["done"]], now_s)
        elif "failed" in message:
            self._give_up(dispatch, member, self._number[message["failed"]], message["why"])

    def _came(self, dispatch: Dispatch, member: Member, now_s: float) -> None:
        """From another machine, for the first time or again."""
        member.is_alive = True
        dispatch.joined(member.number, now_s)
        self.events.append(f"client {member.worker.name} has joined")

    def _done(self, dispatch: Dispatch, member: Member, i: int, now_s: float) -> None:
        member.done += 1
        facts = Facts.read(self._places.facts(self._websites[i]))
        if (per_s := self._per_page_s(dispatch, member, i)) is not None and i in dispatch.running:
            member.took_s += now_s - dispatch.running[i][1]
            member.forecast_s += per_s * facts.requests
        member.pages += facts.pages
        member.at.pop(facts.site, None)
        if facts.status != "ok":
            self.events.append(f"{facts.site} {_said_of(facts.status)}: {facts.reason}")
        dispatch.end(i)

    def _give_up(self, dispatch: Dispatch, member: Member, i: int, why: str) -> None:
        website, now_s = self._websites[i], self._clock.now()
        member.at.pop(website.name, None)
        facts = Facts(website.name, website.start, "failed", why, member.worker.name, begun_s=now_s, ended_s=now_s)
        facts.write(self._places.facts(website))
        self.events.append(f"{website.name} failed: {why}")
        dispatch.end(i)

    def _died(self, dispatch: Dispatch, member: Member, now_s: float) -> None:
        """What it has finished is finished; the rest is planned again."""
        if not member.is_alive:
            return
        member.is_alive = member.is_ready = False
        cause = member.channel.kill()  # it may only have closed its output
        member.at = {}
        for i in [i for i, (on, _) in dispatch.running.items() if on == member.number]:
            # A way that breaks again and again is not the website's fault.
            self._deaths[i] = self._deaths.get(i, 0) + (cause != UNHEARD)
            if self._places.facts(self._websites[i]).exists():
                self._done(dispatch, member, i, now_s)
            elif self._deaths[i] >= _DEATHS:
                self._give_up(dispatch, member, i, f"{_DEATHS} clients died while they scanned it")
        lost = dispatch.died(member.number, now_s)
        self.events.append(
            f"client {member.worker.name} died ({cause}); its {len(lost)} unfinished websites went to the others"
        )

    def _measure(self, member: Member, size: int, took_s: float) -> None:
        if not size:
            member.way["server_s"] = took_s
        elif took_s > 0:
            member.way["transfer_bytes_per_s"] = 2 * size / max(took_s - member.way.get("server_s", 0.0), 1e-6)

    # What the coordinator sees for itself

    def _watch(self, dispatch: Dispatch, now_s: float) -> None:
        for member in self._members:
            if not member.is_alive:
                continue
            if not member.worker.is_remote and self._clock.monotonic() - member.heard_s > self._config.site.lease_s:
                member.channel.kill()  # its end is heard of as that of any other
            pace = self._pace(dispatch, member, now_s)
            if pace is not None and dispatch.observe(member.number, pace, now_s):
                self.events.append(
                    f"client {member.worker.name} takes {pace:.2g} times as long as forecast; "
                    "what it had not begun was planned again"
                )

    def _may_come(self) -> bool:
        """Whether a client that is not there now may be there soon."""
        patience_s = max(_BEGIN_S, self._config.site.lease_s)
        heard_s = max(member.heard_s for member in self._members)
        return any(m.worker.is_remote for m in self._members) and self._clock.monotonic() - heard_s < patience_s

    @property
    def _last_event(self) -> str:
        return self.events[-1] if self.events else "none has come"

    def _pace(self, dispatch: Dispatch, member: Member, now_s: float) -> float | None:
        """Seconds per second of forecast, page by page: a website that has grown says nothing about its client."""
        took_s, forecast_s = member.took_s, member.forecast_s
        for i, (on, since_s) in dispatch.running.items():
            at, per_s = member.at.get(self._websites[i].name), self._per_page_s(dispatch, member, i)
            # Before its time is over nobody can say: a website's first pages are the slowest.
            if on == member.number and at and per_s and now_s - since_s > dispatch.times_s[i, on] + _SLACK_S:
                took_s += now_s - since_s
                forecast_s += per_s * at[0]
        return took_s / forecast_s if forecast_s > 0 and took_s >= _EVIDENCE_S else None

    def _per_page_s(self, dispatch: Dispatch, member: Member, i: int) -> float | None:
        expected = self.requests.get(self._websites[i].name)
        return float(dispatch.times_s[i, member.number]) / expected if expected else None

    def _view(self, dispatch: Dispatch, now_s: float) -> View:
        rows = []
        for member in self._members:
            under_way = [self._websites[i].name for i, (on, _) in dispatch.running.items() if on == member.number]
            rows.append(
                {
                    "client": member.worker.name,
                    "alive": member.is_alive,
                    "done": member.done,
                    "waiting": len(dispatch.queues[member.number]),
                    "pages": member.pages + sum(pages for pages, *_ in member.at.values()),
                    "under_way": under_way,
                    "left_s": dispatch.left_s(member.number, now_s),
                }
            )
        return View(now_s, len(self._websites), len(dispatch.finished), rows, self._waits(dispatch, now_s))

    def _waits(self, dispatch: Dispatch, now_s: float) -> list[str]:
        under_way = {}
        for i, (on, _) in sorted(dispatch.running.items()):
            pages, _, trouble = self._members[on].at.get(self._websites[i].name, (0, 0, ""))
            under_way[self._websites[i].name] = (pages, trouble)
        return self._waiting.look(under_way, now_s)

    def _end(self, dispatch: Dispatch) -> None:
        for member in self._members:
            member.channel.tell({"stop": True})
        end_s = self._clock.monotonic() + _STOP_S
        for member in self._members:
            member.channel.close(max(0.0, end_s - self._clock.monotonic()))
        while not self._said.empty():
            number, message = self._said.get()
            if message and "done" in message:
                self._done(dispatch, self._members[number], self._number[message["done"]], 0.0)

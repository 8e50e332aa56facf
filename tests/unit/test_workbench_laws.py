"""What holds for the workbench whatever happens: hypothesis adds pages, ends requests and moves the clock."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.fetch.politeness import Deferred, Denied, Failed, Fetch, Wait
from gossamer.fetch.request import Request, Response
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.fetch.workbench import Workbench
from gossamer.web.url import host_of, origin_of, page_key

HOSTS = ("a.test", "b.test", "c.test", "d.test")
ADDRESSES = {"a.test": "192.0.2.1", "b.test": "192.0.2.1", "c.test": "192.0.2.2", "d.test": "192.0.2.2"}
ROBOTS = b"User-agent: *\nDisallow: /private\n"
DELAY_S = 5.0
TARGETS = ("http://a.test/robots.txt", "http://b.test/rules", "https://c.test/robots.txt")
OUTCOMES = (
    Outcome.OK, Outcome.OK, Outcome.OK, Outcome.GONE, Outcome.THROTTLED, Outcome.SERVER_ERROR,
    Outcome.CONNECT_FAILED, Outcome.TIMEOUT, Outcome.NO_NAME,
)  # fmt: skip


class Polite(RuleBasedStateMachine):
    """Every page comes out once; hosts (and addresses) are never asked twice at a time, nor too soon."""

    @initialize(robots=st.booleans(), burst=st.sampled_from((1, 3)), per_address=st.booleans(), wait_all=st.booleans())
    def begin(self, robots: bool, burst: int, per_address: bool, wait_all: bool) -> None:
        polite = Config().replace(
            {
                "polite.delay_s": DELAY_S,
                "polite.robots": robots,
                "polite.burst": burst,
                "polite.per_address": per_address,
                "polite.burst_delay_s": 1.0,
                "polite.backoff_s": 20.0,
            }
        )
        self.polite = polite.polite
        self.workbench = Workbench(self.polite, RobotsCache(self.polite, "Gossamer"))
        self.now = 1_000_000_000.0
        self.not_before = {}  # type: dict[str, float]
        if wait_all:
            self.workbench.restore({}, self.now, self.now + 7.0 - DELAY_S)
            self.not_before = {self.turn(host): self.now + 7.0 for host in HOSTS}
        self.flying: list[tuple[Request, bool]] = []
        self.inside: set[int] = set()
        self.number = 0
        self.robots_seen: dict[str, float] = {}
        self.has_lost_rules = False  # to too many redirects, which allow everything

    def turn(self, host: str) -> str:
        return ADDRESSES[host] if self.polite.per_address else host

    @rule(
        host=st.sampled_from(HOSTS),
        scheme=st.sampled_from(("http", "https")),
        private=st.booleans(),
        rank=st.integers(0, 3),
        copies=st.integers(1, 4),
    )
    def add(self, host: str, scheme: str, private: bool, rank: int, copies: int) -> None:
        requests = []
        for _ in range(copies):
            self.number += 1
            url = f"{scheme}://{host}/{'private/' if private else ''}{self.number}"
            requests.append(Request(page_key(url), url, host, rank=float(rank), known=500))
            self.inside.add(page_key(url))
        self.workbench.add(requests)

    @rule(seconds=st.sampled_from((0.5, 1.0, 4.0, 5.0, 30.0, 300.0, 4000.0)))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def proceed(self) -> None:
        step = self.workbench.next(self.now)
        if isinstance(step, Fetch):
            self.start(step)
        elif isinstance(step, Denied):
            assert "/private" in step.request.url
            assert self.polite.robots
            self.inside.remove(step.request.key)
        elif isinstance(step, Deferred):
            self.inside.remove(step.request.key)
        elif isinstance(step, Failed):
            assert step.outcome is Outcome.NO_NAME
            self.inside.remove(step.request.key)
        else:
            assert isinstance(step, Wait)
            assert step.seconds is None or step.seconds > 0

    def start(self, fetch: Fetch) -> None:
        request = fetch.request
        turn = self.turn(request.host)
        if self.polite.per_address and not self.workbench.learn(request, turn, self.now):
            return
        assert all(self.turn(flying.host) != turn for flying, _ in self.flying)
        assert self.not_before.get(turn, 0.0) <= self.now
        if request.is_robots:
            assert self.polite.robots
            # Once per origin, unless it is out of reach: then again after a rest.
            assert request.hops or self.now >= self.robots_seen.get(request.url, 0.0)
        elif self.polite.robots:
            assert "/private" not in request.url or self.has_lost_rules
            assert origin_of(request.url) + "/robots.txt" in self.robots_seen
        self.flying.append((request, fetch.reuse_connection))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES), closes=st.booleans(), leads_to=st.sampled_from(TARGETS))
    def end(self, data: Any, outcome: Outcome, closes: bool, leads_to: str) -> None:
        request, reuse = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        if outcome is Outcome.GONE and request.is_robots:
            self.redirect(request, leads_to)
            return
        status = {Outcome.OK: 200, Outcome.GONE: 404, Outcome.THROTTLED: 503, Outcome.SERVER_ERROR: 500}
        kept = reuse and not closes and outcome in (Outcome.OK, Outcome.GONE)
        body = ROBOTS if request.is_robots else b""
        response = Response(request, outcome, http_status=status.get(outcome, 0), body=body, kept=kept)
        self.workbench.done(response, self.now)
        if outcome is not Outcome.NO_NAME:
            self.not_before[self.turn(request.host)] = self.now + (1.0 if kept else DELAY_S)
        if request.is_robots:
            if not request.hops:
                self.robots_seen[request.url] = self.now + (86_400 if outcome is Outcome.OK else 20)
            elif outcome is Outcome.OK:
                self.robots_seen.setdefault(request.url, 0.0)  # a redirect led to the file of another origin
        else:
            self.inside.remove(request.key)

    def redirect(self, request: Request, target: str) -> None:
        response = Response(request, Outcome.MOVED, http_status=301, location=target)
        self.workbench.done(response, self.now)
        self.not_before[self.turn(request.host)] = self.now + DELAY_S
        self.robots_seen[request.url] = 0.0
        self.has_lost_rules |= request.hops >= 5

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "inside"):
            assert sorted(self.workbench.pages()) == sorted(self.inside)
            assert self.workbench.size == len(self.inside)

    def teardown(self) -> None:
        """Whatever state it was left in, everything comes out in the end."""
        if not hasattr(self, "inside"):
            return
        for _ in range(20 * self.number + 100):
            if not self.inside:
                break
            while self.flying:
                request, _ = self.flying.pop()
                body = ROBOTS if request.is_robots else b""
                self.workbench.done(Response(request, Outcome.OK, http_status=200, body=body), self.now)
                if not request.is_robots:
                    self.inside.remove(request.key)
            self.now += 4000
            self.not_before.clear()
            self.robots_seen = {f"{scheme}://{host}/robots.txt": 0.0 for host in HOSTS for scheme in ("http", "https")}
            self.proceed()
        assert not self.inside
        assert self.workbench.size == 0


TestPolite = Polite.TestCase
TestPolite.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)


def test_hosts_of_pages_are_as_normalised() -> None:
    assert {host_of(f"http://{host}/") for host in HOSTS} == set(ADDRESSES)

"""The workbench's promises, one by one, on a clock that moves only when told to."""

import gzip
from typing import Any

import pytest

from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.fetch.politeness import Deferred, Denied, Failed, Fetch, Step, Wait
from gossamer.fetch.request import Request, Response
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.fetch.workbench import Workbench
from gossamer.web.url import host_of, origin_of, page_key

T0 = 1_000_000_000.0
ALLOW = b"User-agent: *\nDisallow: /private\n"


class Bench:
    """A workbench with its clock, and short words for what tests do with it."""

    def __init__(self, robots: bytes | None = None, **polite: Any) -> None:
        changes = {"delay_s": 10.0, "robots": robots is not None, **polite}
        self.polite = Config().replace({f"polite.{name}": value for name, value in changes.items()}).polite
        self.book = RobotsCache(self.polite, "Gossamer")
        self.workbench = Workbench(self.polite, self.book)
        self.robots = robots
        self.now = T0

    def add(self, *urls: str, rank: float = 0.0, known: int = 1000) -> None:
        self.workbench.add([page(url, rank, known) for url in urls])

    def know(self, *urls: str) -> None:
        """The robots.txt of these pages' origins is known already."""
        for url in urls:
            self.book.put(origin_of(url), 200, self.robots or b"", self.now)

    def next(self) -> Step:
        return self.workbench.next(self.now)

    def fetch(self) -> Request:
        step = self.next()
        assert isinstance(step, Fetch), step
        return step.request

    def wait(self) -> float | None:
        step = self.next()
        assert isinstance(step, Wait), step
        return step.seconds

    def done(self, request: Request, outcome: Outcome = Outcome.OK, **fields: Any) -> None:
        self.workbench.done(Response(request, outcome, **fields), self.now)

    def visit(self, outcome: Outcome = Outcome.OK, **fields: Any) -> str:
        request = self.fetch()
        self.done(request, outcome, **fields)
        return request.url


def page(url: str, rank: float = 0.0, known: int = 1000) -> Request:
    return Request(page_key(url), url, host_of(url), rank=rank, known=known)


def test_one_request_at_a_time_to_a_host() -> None:
    bench = Bench()
    bench.add("http://a.test/1", "http://a.test/2")
    request = bench.fetch()
    bench.now += 1000
    assert bench.wait() is None
    bench.done(request)
    assert bench.wait() == 10.0
    bench.now += 9.5
    assert bench.wait() == pytest.approx(0.5)
    bench.now += 0.5
    assert bench.fetch().url != request.url


def test_delay_counts_from_the_end_of_the_exchange() -> None:
    bench = Bench()
    bench.add("http://a.test/1", "http://a.test/2")
    request = bench.fetch()
    bench.now += 60
    bench.done(request)
    assert bench.wait() == 10.0


def test_hosts_do_not_wait_for_each_other() -> None:
    bench = Bench()
    bench.add("http://a.test/1", "http://b.test/1", "http://c.test/1")
    assert len({bench.fetch().host for _ in range(3)}) == 3
    assert bench.workbench.stats().busy == 3


def test_rank_order_without_delay() -> None:
    bench = Bench(delay_s=0.0)
    urls = [f"http://{'abc'[i % 3]}.test/{i}" for i in range(30)]
    ranks = [(i * 7919) % 31 for i in range(30)]
    bench.workbench.add([page(url, rank) for url, rank in zip(urls, ranks, strict=True)])
    visited = [bench.visit() for _ in range(30)]
    assert visited == [url for _, url in sorted(zip(ranks, urls, strict=True), reverse=True)]


def test_equal_ranks_go_by_key() -> None:
    bench = Bench(delay_s=0.0)
    urls = [f"http://{'abc'[i % 3]}.test/{i}" for i in range(30)]
    bench.add(*urls)
    assert [bench.visit() for _ in range(30)] == sorted(urls, key=page_key)


def test_a_better_page_overtakes_those_that_are_ready() -> None:
    bench = Bench(delay_s=0.0)
    bench.add("http://a.test/1", rank=1.0)
    bench.add("http://b.test/1", rank=2.0)
    assert isinstance(bench.next(), Fetch)
    bench.add("http://c.test/1", rank=0.0)
    bench.add("http://c.test/2", rank=3.0)
    assert bench.fetch().url == "http://c.test/2"


def test_an_empty_host_is_still_rested() -> None:
    bench = Bench()
    bench.add("http://a.test/1")
    bench.visit()
    assert bench.workbench.size == 0
    bench.add("http://a.test/2")
    assert bench.wait() == 10.0
    bench.now += 10
    assert bench.visit() == "http://a.test/2"


def test_rests_that_are_over_are_forgotten() -> None:
    bench = Bench()
    for i in range(100):
        bench.add(f"http://h{i}.test/")
        bench.visit()
    bench.now += 11
    bench.next()
    assert not bench.workbench._queues._rests


@pytest.mark.parametrize(("known", "delay_s"), [(99, 15.0), (100, 5.0)])
def test_small_hosts_have_their_own_delay(known: int, delay_s: float) -> None:
    bench = Bench(delay_s=5.0, small_delay_s=15.0, small_pages=100)
    bench.add("http://a.test/1", "http://a.test/2", known=known)
    bench.visit()
    assert bench.wait() == delay_s


def test_robots_come_first_and_once() -> None:
    bench = Bench(robots=ALLOW)
    bench.add("http://a.test/1", "http://a.test/2", "http://a.test/private/3")
    request = bench.fetch()
    assert (request.url, request.is_robots, request.origin) == (
        "http://a.test/robots.txt", True, "http://a.test",
    )  # fmt: skip
    assert bench.workbench.size == 3
    bench.now += 1
    bench.done(request, http_status=200, body=ALLOW)
    assert bench.wait() == 10.0
    seen = []
    for _ in range(3):
        bench.now += 10
        seen.append(bench.next())
        if isinstance(seen[-1], Fetch):
            bench.done(seen[-1].request)
    assert sorted(type(step).__name__ for step in seen) == ["Denied", "Fetch", "Fetch"]
    denied = next(step for step in seen if isinstance(step, Denied))
    assert denied.line == "Disallow: /private"
    assert bench.workbench.size == 0


def test_robots_of_each_origin() -> None:
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/1", "https://a.test/1", "http://a.test:8080/1")
    seen = []
    for _ in range(6):
        request = bench.fetch()
        seen.append(request.url)
        bench.done(request, http_status=200, body=b"")
    assert sorted(seen) == sorted(
        origin + path
        for origin in ("http://a.test", "https://a.test", "http://a.test:8080")
        for path in ("/robots.txt", "/1")
    )


def test_expired_robots_are_fetched_again() -> None:
    bench = Bench(robots=ALLOW)
    bench.add("http://a.test/1")
    bench.visit(http_status=200, body=ALLOW)
    bench.now += bench.polite.robots_ttl_s + 1
    assert bench.fetch().url == "http://a.test/robots.txt"


def test_crawl_delay_is_obeyed_up_to_its_cap() -> None:
    bench = Bench(robots=b"User-agent: *\nCrawl-delay: 1000\n")
    bench.add("http://a.test/1", "http://a.test/2")
    bench.visit(http_status=200, body=bench.robots)
    assert bench.wait() == 300.0
    bench.now += 300
    bench.visit()
    assert bench.wait() == 300.0


@pytest.mark.parametrize("status", [500, 503, 429, 0])
def test_unreachable_robots_defer_the_pages(status: int) -> None:
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/1", "http://a.test/2")
    outcome = {0: Outcome.TIMEOUT, 500: Outcome.SERVER_ERROR}
    bench.visit(outcome.get(status, Outcome.THROTTLED), http_status=status, reason="why")
    bench.now += 1
    steps = [bench.next(), bench.next()]
    if status == 500:
        assert all(isinstance(step, Deferred) for step in steps)
        assert {(step.until_s, step.outcome) for step in steps} == {(T0 + 30, Outcome.ROBOTS_UNREACHABLE)}  # type: ignore[union-attr]
        assert bench.workbench.size == 0
    else:
        assert [step.seconds for step in steps] == [29.0, 29.0]  # type: ignore[union-attr]
        bench.now = T0 + 30
        assert bench.fetch().is_robots, "after its rest the host is asked again"


def test_unreachable_robots_defer_their_own_page_too() -> None:
    """Rules never forbid /robots.txt itself, but there are none."""
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/robots.txt")
    bench.visit(Outcome.SERVER_ERROR, http_status=500, reason="why")
    step = bench.next()
    assert isinstance(step, Deferred)
    assert step.outcome is Outcome.ROBOTS_UNREACHABLE


def test_decisions_of_one_moment() -> None:
    """Decisions of one moment share their time: queues that became ready in it have their turn in it, too."""
    bench = Bench()
    bench.add("http://a.test/1")
    assert bench.visit() == "http://a.test/1"
    bench.add("http://b.test/1", "http://c.test/1")
    assert {bench.visit(), bench.visit()} == {"http://b.test/1", "http://c.test/1"}
    bench.add("http://a.test/2")
    assert bench.wait() == 10.0


@pytest.mark.parametrize("outcome", [Outcome.NO_NAME, Outcome.REFUSED_ADDRESS])
def test_hosts_that_cannot_be_asked_fail_their_pages(outcome: Outcome) -> None:
    bench = Bench(robots=ALLOW)
    bench.add("http://a.test/1", "http://a.test/2")
    bench.visit(outcome, reason="no such name")
    for _ in range(2):
        step = bench.next()
        assert isinstance(step, Failed)
        assert (step.outcome, step.reason) == (outcome, "no such name")
    assert bench.workbench.size == 0


def test_robots_redirects_obey_the_host_they_lead_to() -> None:
    bench = Bench(robots=ALLOW)
    bench.know("http://b.test/")
    bench.add("http://b.test/1")
    bench.visit()
    bench.add("http://a.test/private/1", rank=1.0)
    bench.add("http://a.test/2")
    robots = bench.fetch()
    bench.done(robots, Outcome.MOVED, http_status=301, location="http://b.test/rules.txt")
    assert bench.wait() == 10.0
    bench.now += 10
    errand = bench.fetch()
    assert (errand.url, errand.host, errand.origin, errand.hops) == (
        "http://b.test/rules.txt", "b.test", "http://a.test", 1,
    )  # fmt: skip
    assert bench.workbench.size == 2
    bench.now += 100
    assert bench.wait() is None, "pages of a.test wait for their rules"
    assert len(bench.workbench.pages()) == 2
    bench.done(errand, http_status=200, body=ALLOW)
    assert isinstance(bench.next(), Denied)
    assert bench.fetch().url == "http://a.test/2"


def test_robots_redirects_end_after_five_hops() -> None:
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/private")
    for hop in range(6):
        request = bench.fetch()
        assert (request.is_robots, request.hops) == (True, hop)
        bench.done(request, Outcome.MOVED, http_status=301, location=f"http://a.test/r{hop}")
    assert bench.fetch().url == "http://a.test/private", "unavailable, so everything is allowed"


@pytest.mark.parametrize("reason", ["redirect to itself", "redirect without a target"])
def test_robots_redirects_that_lead_nowhere_allow_as_too_many_do(reason: str) -> None:
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/private")
    bench.visit(Outcome.BAD_REDIRECT, http_status=301, reason=reason)
    assert bench.fetch().url == "http://a.test/private"


def test_a_robots_redirect_to_an_endless_address_is_unreachable() -> None:
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/public")
    bench.visit(Outcome.MOVED, http_status=301, location="http://a.test/" + "x" * 9000)
    step = bench.next()
    assert isinstance(step, Deferred)
    assert step.outcome is Outcome.ROBOTS_UNREACHABLE


@pytest.mark.parametrize(
    ("coding", "body"),
    [(b"snappy", b"\xff\x06"), (b"gzip, rot13", ALLOW), (b"gzip", b"\x1f\x8b\x08\x00nonsense"),
     (b"gzip", gzip.compress(ALLOW, mtime=0)[:-12])],
)  # fmt: skip
def test_robots_that_cannot_be_decoded_are_unreachable(coding: bytes, body: bytes) -> None:
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/private")
    bench.visit(http_status=200, body=body, head=b"HTTP/1.1 200 OK\r\nContent-Encoding: " + coding + b"\r\n\r\n")
    step = bench.next()
    assert isinstance(step, Deferred)
    assert step.outcome is Outcome.ROBOTS_UNREACHABLE


@pytest.mark.parametrize(
    ("coding", "body"), [(b"gzip", gzip.compress(ALLOW, mtime=0)), (b"gzip", ALLOW), (b"none", ALLOW)]
)
def test_robots_that_can_be_decoded_rule(coding: bytes, body: bytes) -> None:
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/private")
    bench.visit(http_status=200, body=body, head=b"HTTP/1.1 200 OK\r\nContent-Encoding: " + coding + b"\r\n\r\n")
    assert isinstance(bench.next(), Denied)


def test_a_redirect_to_known_robots_is_not_fetched() -> None:
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.know("https://a.test/")
    bench.add("http://a.test/private", rank=1.0)
    bench.add("http://a.test/1")
    bench.visit(Outcome.MOVED, http_status=301, location="https://a.test/robots.txt")
    assert isinstance(bench.next(), Denied)
    assert bench.fetch().url == "http://a.test/1"


def test_robots_fetched_for_another_origin_serve_their_own() -> None:
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/1", rank=1.0)
    bench.add("https://a.test/1")
    bench.visit(Outcome.MOVED, http_status=301, location="https://a.test/robots.txt")
    assert bench.visit(http_status=200, body=ALLOW) == "https://a.test/robots.txt"
    assert {bench.visit(), bench.visit()} == {"http://a.test/1", "https://a.test/1"}


def test_a_lost_redirect_target_defers_but_does_not_condemn() -> None:
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/1")
    bench.visit(Outcome.MOVED, http_status=301, location="http://gone.test/robots.txt")
    bench.visit(Outcome.NO_NAME, reason="no such name")
    step = bench.next()
    assert isinstance(step, Deferred)
    assert "gone.test" in step.reason


@pytest.mark.parametrize(
    ("retry_after", "rest_s"),
    [(b"20", 20.0), (b"0", 30.0), (b"nonsense", 30.0), (b"Sun, 09 Sep 2001 01:47:10 GMT", 30.0),
     (b"Sun, 06 Nov 1994 08:49:37 GMT", 30.0), (b"5", 10.0)],
)  # fmt: skip
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after(status: int, retry_after: bytes, rest_s: float) -> None:
    bench = Bench()
    bench.add("http://a.test/1", "http://a.test/2")
    head = b"HTTP/1.1 %d x\r\nRetry-After: %s\r\n\r\n" % (status, retry_after)
    bench.visit(Outcome.THROTTLED, http_status=status, head=head)
    assert bench.wait() == rest_s


def test_a_long_retry_after_is_capped_and_frees_the_pages() -> None:
    bench = Bench()
    bench.add("http://a.test/1", "http://a.test/2", "http://a.test/3")
    head = b"HTTP/1.1 503 x\r\nRetry-After: 315360000\r\n\r\n"
    bench.visit(Outcome.THROTTLED, http_status=503, head=head)
    steps = [bench.next(), bench.next()]
    assert [(type(step), step.until_s) for step in steps] == [(Deferred, T0 + 3600)] * 2  # type: ignore[union-attr]
    bench.add("http://a.test/4")
    step = bench.next()
    assert isinstance(step, Deferred), "pages that come later do not wait either"
    assert bench.workbench.size == 0


def test_backoff_doubles_and_success_resets_it() -> None:
    bench = Bench()
    bench.add(*[f"http://a.test/{i}" for i in range(9)])
    bench.visit(Outcome.CONNECT_FAILED)
    assert bench.wait() == 30.0
    bench.now += 30
    bench.visit(Outcome.TIMEOUT)
    assert bench.wait() == 60.0
    bench.now += 60
    bench.visit()
    assert bench.wait() == 10.0
    bench.now += 10
    bench.visit(Outcome.BROKEN)
    assert bench.wait() == 30.0


def test_one_server_error_is_the_pages_but_two_are_the_hosts() -> None:
    bench = Bench()
    bench.add(*[f"http://a.test/{i}" for i in range(9)])
    bench.visit(Outcome.SERVER_ERROR, http_status=500)
    assert bench.wait() == 10.0
    bench.now += 10
    bench.visit(Outcome.SERVER_ERROR, http_status=500)
    assert bench.wait() == 30.0


def test_after_five_failures_the_pages_go_back() -> None:
    bench = Bench(backoff_s=1.0)
    bench.add(*[f"http://a.test/{i}" for i in range(8)])
    for i in range(5):
        bench.visit(Outcome.CONNECT_FAILED)
        bench.now += 2**i if 2**i > 10 else 10
    back = [bench.next() for _ in range(3)]
    assert all(isinstance(step, Deferred) and step.outcome is None for step in back)
    assert bench.workbench.size == 0
    assert bench.wait() is None


def test_names_that_do_not_exist_cost_no_delay() -> None:
    bench = Bench()
    bench.add("http://a.test/1", "http://a.test/2")
    bench.visit(Outcome.NO_NAME)
    bench.visit(Outcome.NO_NAME)


def test_bursts() -> None:
    bench = Bench(burst=3, burst_delay_s=1.0)
    bench.add(*[f"http://a.test/{i}" for i in range(5)])
    reuse = []
    for wait_s in (1.0, 1.0, 10.0, 1.0, None):
        step = bench.next()
        assert isinstance(step, Fetch)
        reuse.append(step.reuse_connection)
        bench.done(step.request, kept=step.reuse_connection)
        assert bench.wait() == wait_s
        bench.now += wait_s or 0
    assert reuse == [True, True, False, True, False], "also closed when nothing is left"


def test_a_server_that_closes_ends_the_burst() -> None:
    bench = Bench(burst=3)
    bench.add("http://a.test/1", "http://a.test/2")
    bench.visit(kept=False)
    assert bench.wait() == 10.0


def test_crawl_delay_holds_within_bursts() -> None:
    bench = Bench(robots=b"User-agent: *\nCrawl-delay: 3", burst=9, burst_delay_s=1.0)
    bench.know("http://a.test/")
    bench.add("http://a.test/1", "http://a.test/2")
    bench.visit(kept=True)
    assert bench.wait() == 3.0


def test_without_delay_connections_are_kept() -> None:
    bench = Bench(delay_s=0.0)
    bench.add("http://a.test/1")
    step = bench.next()
    assert isinstance(step, Fetch)
    assert step.reuse_connection


def test_snapshot_and_restore() -> None:
    bench = Bench()
    bench.add("http://a.test/1", "http://b.test/1", "http://c.test/1")
    for _ in range(3):
        request = bench.fetch()
        bench.done(request, Outcome.CONNECT_FAILED if request.host == "a.test" else Outcome.OK)
    assert bench.workbench.snapshot() == {"a.test": (T0 + 30, 1)}

    again = Bench()
    again.workbench.restore(bench.workbench.snapshot(), again.now, again.now + 15.0 - again.polite.delay_s)
    again.add("http://a.test/2", "http://b.test/2")
    assert again.wait() == 15.0
    again.now += 15
    assert again.visit() == "http://b.test/2"
    assert again.wait() == 15.0
    again.now += 15
    again.visit(Outcome.CONNECT_FAILED)
    assert again.workbench.snapshot()["a.test"] == (T0 + 90, 2)


def test_pages_room_and_stats() -> None:
    bench = Bench()
    urls = [f"http://{'ab'[i % 2]}.test/{i}" for i in range(10)]
    bench.add(*urls)
    bench.fetch()
    assert sorted(bench.workbench.pages()) == sorted(map(page_key, urls))
    assert bench.workbench.room(12) == 2
    stats = bench.workbench.stats()
    assert (stats.pages, stats.hosts, stats.busy, stats.backed_off) == (10, 2, 1, 0)


def test_a_host_is_due_when_its_turn_has_come_and_nobody_serves_it() -> None:
    bench = Bench()
    bench.add("http://a.test/1", "http://a.test/2", "http://b.test/1", "http://c.test/1")
    first = bench.fetch()
    assert bench.workbench.stats().due == 2
    bench.fetch()
    assert bench.workbench.stats().due == 1
    bench.done(first)
    assert bench.workbench.stats().due == 1, "its delay has not passed"
    bench.now += 60
    bench.fetch()
    bench.workbench.next(bench.now)
    assert bench.workbench.stats().due == 0


def test_a_host_learns_that_its_address_is_busy() -> None:
    bench = Bench(per_address=True)
    bench.add("http://a.test/1", "http://a.test/2", rank=2.0)
    bench.add("http://b.test/1", "http://b.test/2", rank=1.0)
    first, second = bench.fetch(), bench.fetch()
    assert bench.workbench.learn(first, "192.0.2.1", bench.now)
    assert not bench.workbench.learn(second, "192.0.2.1", bench.now)
    assert bench.wait() is None
    bench.done(first)
    assert bench.wait() == 10.0
    order = []
    for _ in range(3):
        bench.now += 10
        request = bench.fetch()
        order.append(request.host)
        assert bench.workbench.learn(request, "192.0.2.1", bench.now)
        assert bench.wait() is None
        bench.done(request)
    assert order == ["a.test", "b.test", "b.test"]
    assert bench.workbench.size == 0


def test_an_address_rests_though_its_hosts_ran_out_of_pages() -> None:
    bench = Bench(per_address=True)
    bench.add("http://a.test/1")
    request = bench.fetch()
    assert bench.workbench.learn(request, "192.0.2.1", bench.now)
    bench.done(request)
    bench.add("http://b.test/1")
    request = bench.fetch()
    assert not bench.workbench.learn(request, "192.0.2.1", bench.now)
    assert bench.wait() == 10.0
    bench.now += 10
    request = bench.fetch()
    assert bench.workbench.learn(request, "192.0.2.1", bench.now)


def test_another_address_has_its_own_turn() -> None:
    bench = Bench(per_address=True)
    bench.add("http://a.test/1", "http://b.test/1")
    first, second = bench.fetch(), bench.fetch()
    assert bench.workbench.learn(first, "192.0.2.1", bench.now)
    assert bench.workbench.learn(second, "192.0.2.2", bench.now)


def test_each_answer_carries_its_own_rules() -> None:
    """Of two robots.txt that came in one poll each is committed with its own visit, or its sitemaps could be lost."""
    bench = Bench(robots=ALLOW, delay_s=0.0)
    bench.add("http://a.test/1", "http://b.test/1")
    one, other = bench.fetch(), bench.fetch()
    first, second = (Response(request, Outcome.OK, "", 200, head=b"", body=ALLOW) for request in (one, other))
    bench.workbench.done(first, bench.now)
    bench.workbench.done(second, bench.now)
    assert [row["origin"] for row in first.robots] == [one.origin]
    assert [row["origin"] for row in second.robots] == [other.origin]

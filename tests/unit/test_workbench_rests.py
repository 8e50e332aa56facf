"""What the workbench must not forget: rests through restarts, failures beyond their pause, rules that were cut off."""

import pytest

from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.fetch.politeness import Deferred, Fetch, Wait
from gossamer.fetch.request import Request, Response
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.fetch.workbench import Workbench
from gossamer.web.url import host_of, page_key

T0 = 1_000_000_000.0
HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


def bench(**polite: float | bool) -> Workbench:
    config = Config().replace({f"polite.{name}": value for name, value in polite.items()}).polite
    return Workbench(config, RobotsCache(config, "Gossamer"))


def page(url: str, known: int = 1000) -> Request:
    return Request(page_key(url), url, host_of(url), known=known)


def fetch(workbench: Workbench, now: float) -> Request:
    step = workbench.next(now)
    assert isinstance(step, Fetch), step
    return step.request


def wait_s(workbench: Workbench, now: float) -> float | None:
    step = workbench.next(now)
    assert isinstance(step, Wait), step
    return step.seconds


@pytest.mark.parametrize(("truncated", "allowed"), [("disconnect", False), ("time", False), ("length", True)])
def test_rules_that_were_cut_off_do_not_count(truncated: str, allowed: bool) -> None:
    """The missing part may forbid the page; only what we cut ourselves is beyond the limit anyway."""
    workbench = bench(delay_s=0.0)
    workbench.add([page("http://a.test/1")])
    request = fetch(workbench, T0)
    assert request.is_robots
    answer = Response(request, Outcome.OK, http_status=200, head=HEAD, body=b"User-agent: *\nAllow: /\n")
    answer.truncated = truncated
    workbench.done(answer, T0)
    step = workbench.next(T0 + 1)
    assert isinstance(step, Fetch if allowed else Deferred)


def test_a_small_hosts_longer_delay_holds_through_a_restart() -> None:
    workbench = bench(delay_s=5.0, small_delay_s=15.0, robots=False)
    workbench.restore({}, T0, contact_s=T0)
    workbench.add([page("http://a.test/", known=1)])
    assert wait_s(workbench, T0) == 15.0


def test_a_long_crawl_delay_holds_through_a_restart() -> None:
    workbench = bench(delay_s=5.0)
    workbench.add([page("http://a.test/1")])
    rules = b"User-agent: *\nCrawl-delay: 200\n"
    workbench.done(Response(fetch(workbench, T0), Outcome.OK, http_status=200, head=HEAD, body=rules), T0)
    assert workbench.snapshot() == {"a.test": (T0 + 200, 0)}


def test_failures_are_remembered_longer_than_their_pause() -> None:
    """The host had no pages for a while: its next failure still doubles the pause."""
    workbench = bench(delay_s=5.0, backoff_s=30.0, robots=False)
    workbench.add([page("http://a.test/1")])
    workbench.done(Response(fetch(workbench, T0), Outcome.CONNECT_FAILED), T0)
    assert wait_s(workbench, T0 + 100) is None
    workbench.add([page("http://a.test/2"), page("http://a.test/3")])
    workbench.done(Response(fetch(workbench, T0 + 100), Outcome.CONNECT_FAILED), T0 + 100)
    assert wait_s(workbench, T0 + 100) == 60.0


def test_a_clock_that_was_set_back_does_not_rest_a_host_for_years() -> None:
    workbench = bench(delay_s=5.0, backoff_max_s=3600.0, robots=False)
    workbench.restore({"a.test": (T0 + 1e8, 2), "b.test": (T0 + 50.0, 1)}, T0, contact_s=T0)
    assert workbench.snapshot() == {"a.test": (T0 + 3600, 2), "b.test": (T0 + 50, 1)}


def test_when_all_hosts_rest_it_says_until_when() -> None:
    workbench = bench(delay_s=1.0, robots=False, backoff_s=30.0)
    workbench.add([page("http://a.test/1"), page("http://a.test/2"), page("http://b.test/1")])
    under_way = {request.host: request for request in (fetch(workbench, T0), fetch(workbench, T0))}
    workbench.done(Response(under_way["a.test"], Outcome.TIMEOUT), T0)
    assert workbench.stats().rest_until_s is None, "the other is under way"
    workbench.done(Response(under_way["b.test"], Outcome.OK, http_status=200, head=HEAD), T0)
    assert workbench.stats().rest_until_s == T0 + 30.0
    workbench.add([page("http://b.test/2")])
    assert workbench.stats().rest_until_s is None, "it waits for its delay only"

"""Hosts with rules of their own: the workbench keeps their delays and bursts, the caps their numbers of pages."""

import tomllib
from typing import Any

import numpy as np
import pytest

from gossamer.columns import Outcome
from gossamer.config import Config, Limits
from gossamer.config.host_overrides import of_host, pages_by_host, polite_by_host
from gossamer.fetch.politeness import Fetch, Wait
from gossamer.fetch.request import Request, Response
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.fetch.workbench import Workbench
from gossamer.frontier.caps import Homes, most_pages
from gossamer.web.url import host_of, page_key

T0 = 1_000_000_000.0
RULES = {"a.test": {"delay_s": 1.0}, "*.b.test": {"delay_s": 60.0}, "c.test": {"burst": 3, "burst_delay_s": 2.0}}


def workbench(**changes: Any) -> Workbench:
    values = {"polite.delay_s": 10.0, "polite.robots": False, **changes}
    config = Config().replace({**values, **{f"host.{name}": rules for name, rules in RULES.items()}})
    bench = Workbench(config.polite, RobotsCache(config.polite, "Gossamer"), polite_by_host(config))
    bench.restore({}, T0 - 1000.0, T0 - 1000.0)
    return bench


def add(bench: Workbench, host: str, pages: int = 4) -> None:
    urls = [f"http://{host}/{number}" for number in range(pages)]
    bench.add([Request(page_key(url), url, host_of(url), known=5) for url in urls])


def pauses(bench: Workbench, host: str, now: float = T0) -> list[float]:
    """How long it waits after each page, if each connection that may stay open does."""
    add(bench, host)
    found = []
    for _ in range(3):
        step = bench.next(now)
        assert isinstance(step, Fetch)
        bench.done(Response(step.request, Outcome.OK, kept=step.reuse_connection), now)
        wait = bench.next(now)
        assert isinstance(wait, Wait)
        assert wait.seconds is not None
        found.append(wait.seconds)
        now += wait.seconds
    return found


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("other.test", [10.0, 10.0, 10.0]),
        ("a.test", [1.0, 1.0, 1.0]),
        ("www.a.test", [10.0, 10.0, 10.0]),
        ("b.test", [10.0, 10.0, 10.0]),
        ("www.b.test", [60.0, 60.0, 60.0]),
        ("c.test", [2.0, 2.0, 10.0]),
    ],
)
def test_delays(host: str, expected: list[float]) -> None:
    assert pauses(workbench(), host) == expected


def test_a_host_with_rules_of_its_own() -> None:
    text = """
        [polite]
        delay_s = 7
        small_delay_s = 20
        [host."a.test"]
        delay_s = 1
        [host."*.a.test"]
        burst = 10
        pages = 5
        [host."www.a.test"]
        pages = 0
    """
    found = Config().replace({f"{s}.{k}": v for s, keys in tomllib.loads(text).items() for k, v in keys.items()})
    polite, pages = polite_by_host(found), pages_by_host(found)
    assert set(polite) == {"a.test", "*.a.test"}
    own = of_host(polite, "a.test")
    assert own is not None
    assert (own.delay_s, own.small_delay_s, own.burst) == (1.0, 0.0, 1)
    below = of_host(polite, "x.y.a.test")
    assert below is not None
    assert (below.delay_s, below.small_delay_s, below.burst) == (7.0, 20.0, 10)
    assert of_host(polite, "ba.test") is None
    assert [of_host(pages, host) for host in ("a.test", "b.a.test", "www.a.test")] == [None, 5, 0]


def test_its_own_delay_holds_however_small_a_host_is() -> None:
    small = {"polite.small_delay_s": 30.0}
    assert pauses(workbench(**small), "other.test") == [30.0] * 3
    assert pauses(workbench(**small), "a.test") == [1.0] * 3


def test_after_a_restart_a_host_waits_its_own_delay_and_the_others_do_not() -> None:
    bench = workbench()
    bench.restore({}, T0, T0)
    add(bench, "other.test")
    add(bench, "www.b.test")
    assert bench.next(T0) == Wait(10.0)
    step = bench.next(T0 + 10.0)
    assert isinstance(step, Fetch)
    assert step.request.host == "other.test"
    assert bench.next(T0 + 10.0) == Wait(50.0)
    later = bench.next(T0 + 60.0)
    assert isinstance(later, Fetch)
    assert later.request.host == "www.b.test"


def test_how_many_pages() -> None:
    urls = ["http://x.test/1", "http://y.test/1", "http://x.test/2", "http://www.z.test/"]
    nothing = np.zeros(3, np.uint32)
    homes = Homes(nothing, np.array([0, 1, 0, 2]), nothing == 0, nothing, nothing)
    most = most_pages(homes, urls, Limits(pages_per_host=9), {"y.test": 3, "*.z.test": 0})
    assert most.tolist() == [9, 3, np.iinfo(np.int64).max]
    assert most_pages(homes, (), Limits(pages_per_host=0), {}).min() == np.iinfo(np.int64).max

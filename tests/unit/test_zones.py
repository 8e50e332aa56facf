"""Zones: which host is in which, how they are written, and what the zones of earlier versions are today."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gossamer.archive.zones import ZONES_IN_ALL, as_ranges, in_ranges, named, of_earlier, owners, shares
from gossamer.cluster.plan import shared_out
from gossamer.errors import Unreadable
from gossamer.frontier.pages import is_in, zone_of_host, zone_of_key
from gossamer.placement.ring import Ring
from gossamer.web.url import page_keys

some_zones = st.sets(st.integers(0, ZONES_IN_ALL - 1))


def hosts(number: int) -> np.ndarray:
    return np.unique(page_keys([f"http://www.h{host}.test/" for host in range(number)]) >> np.uint64(40)).astype("u4")


def test_the_first_eight_bits_and_the_last_four() -> None:
    assert zone_of_host(np.array([0xAB_CDE_F, 0, 0xFF_FFF_F], np.uint32)).tolist() == [0xFAB, 0, 0xFFF]
    keys = page_keys(["http://a.test/", "http://a.test/b"])
    assert len({*zone_of_key(keys).tolist()}) == 1, "a host is in one zone"
    assert zone_of_key(keys).tolist() == zone_of_host((keys >> np.uint64(40)).astype(np.uint32)).tolist()


@given(some_zones)
@example(set())
@example({0})
@example({ZONES_IN_ALL - 1})
@example({*range(ZONES_IN_ALL)})
def test_ranges_are_read_as_they_were_written(zones: set[int]) -> None:
    text = as_ranges(zones)
    assert in_ranges(text) == tuple(sorted(zones))
    assert as_ranges(in_ranges(text)) == text
    assert np.flatnonzero(is_in(zones)).tolist() == sorted(zones)


def test_what_ranges_look_like() -> None:
    assert as_ranges([7, 3, 4, 5, 4095, 3]) == "3-5,7,4095"
    assert as_ranges(range(ZONES_IN_ALL)) == "0-4095"


@pytest.mark.parametrize("text", ["x", "4096", "3-", "-3", "5-3", "3,3", "3-5,4", "1,2", "1;2", " 1", "0-99999", "1,"])
def test_what_names_no_zones_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        in_ranges(text)


def test_an_earlier_zone_is_sixteen_of_today() -> None:
    """Those that have exactly its hosts: whoever owned it owns the same hosts."""
    assert of_earlier([]) == ()
    assert of_earlier(range(256)) == tuple(range(ZONES_IN_ALL))
    keys = hosts(5_000)
    for zone in (0, 7, 255):
        assert len(of_earlier([zone])) == 16
        assert (is_in(of_earlier([zone]))[zone_of_host(keys)] == (keys >> 16 == zone)).all()


@pytest.mark.parametrize("zones", [[256], [-1], [1.0], [True], ["1"], [3, 3], None, 5, {"1": 2}])
def test_messages_name_zones_of_today_or_earlier(zones: object) -> None:
    assert named("1-2") == (1, 2)
    assert named([1]) == of_earlier([1])
    with pytest.raises(Unreadable):
        named(zones)


@given(st.lists(st.sampled_from(["", "a0", "a1", "b"]), min_size=1), st.sampled_from([1, 3, 256]))
def test_shares_say_who_owns_what(names: list[str], wide: int) -> None:
    by_zone = tuple(names[zone // wide % len(names)] for zone in range(ZONES_IN_ALL))
    assert owners(shares(by_zone)) == by_zone


def test_shares_stay_short_while_agents_come_and_go() -> None:
    """Whatever the zones were before: 200 agents come by and by, and leave again."""
    by_zone, most = shared_out({}, ["a0"]), 0
    numbers = [*range(2, 201, 3), *range(200, 0, -3), 1]
    for number in numbers:
        names = [f"a{name}" for name in range(number)]
        by_zone = shared_out({name: in_ranges(text) for name, text in shares(by_zone).items()}, names)
        most = max(most, *map(len, shares(by_zone).values()))
    assert set(by_zone) == {"a0"}
    assert most < 4_000, "bytes, of one agent"


@pytest.mark.parametrize(
    ("sites", "weight", "agents", "most"),
    [(1, 1.0, 200, 1.06), (2, 1.0, 8, 1.03), (4, 1.0, 8, 1.04), (16, 1.0, 8, 1.1), (32, 4.0, 8, 1.07)],
)
def test_agents_of_one_site_are_filled_evenly(sites: int, weight: float, agents: int, most: float) -> None:
    """While a zone was the first bits of a key, as the place on the ring is, the fullest had 1.12 times the hosts of
    the mean with 2 sites of 8 agents, 1.28 with 16, and with 32 sites of that weight 1.19."""
    keys = np.unique(np.random.default_rng(1).integers(0, 1 << 24, 2_000_000)).astype(np.uint32)
    names = [f"s{number:02d}" for number in range(sites)]
    site = Ring(dict.fromkeys(names, weight)).of_keys(keys) if sites > 1 else np.zeros(len(keys), np.int64)
    by_zone = np.array([int(name) for name in shared_out({}, [str(agent) for agent in range(agents)])])
    counts = np.bincount(site * agents + by_zone[zone_of_host(keys)], minlength=sites * agents)
    assert counts.max() / counts.mean() < most

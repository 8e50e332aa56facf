"""Partitioners of a running crawl that go by distance: hosts go to the nearest site, unless links say otherwise."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gossamer.clocks import RealClock
from gossamer.cluster.federation_file import load
from gossamer.cluster.rebalance import _kilometres
from gossamer.config import Resolve
from gossamer.errors import ConfigError
from gossamer.placement.hostmap import HostMap
from gossamer.placement.locator import Locator
from gossamer.placement.network import RoundTrips, as_kilometres, block_of
from gossamer.placement.partitioners import distance_tolls, partitioner
from gossamer.placement.ring import Ring
from gossamer.sharing.placing import Placing
from gossamer.web.url import host_key

FREE = {"weight": 1.0, "countries": [], "egress_per_gb": 0.0, "cpu_per_hour": 0.0, "wait_per_hour": 0.0}
SITES = {
    "paris": {**FREE, "latitude": 48.9, "longitude": 2.4},
    "tokyo": {**FREE, "latitude": 35.7, "longitude": 139.7},
    "lima": {**FREE, "latitude": -12.0, "longitude": -77.0, "weight": 0.0},
}
WHERE = {"fr.test": "FR", "kr.test": "KR", "pe.test": "PE"}


def locate(hosts: Sequence[str]) -> list[str]:
    return [WHERE.get(host, "") for host in hosts]


def placed(
    name: str,
    hosts: list[str],
    links: list[list[float]] | None = None,
    sites: dict[str, Any] = SITES,
    round_trips: RoundTrips | None = None,
) -> list[int]:
    decide = partitioner(name, sites, locate, round_trips or RoundTrips(list(sites)))
    assert decide is not None
    keys = np.array([host_key(host) for host in hosts], np.uint32)
    table = np.array(links or [[0.0] * 3] * len(hosts))
    return decide(keys, [f"http://{host}/" for host in hosts], table, np.array([50_000.0, 50_000.0, 0.0])).tolist()


def test_the_nearest_site_that_takes_hosts() -> None:
    assert placed("distance", ["fr.test", "kr.test", "pe.test"]) == [0, 1, 0], "lima takes none"


def test_unknown_places_go_by_the_ring() -> None:
    ring = Ring({name: site["weight"] for name, site in SITES.items()})
    hosts = [f"h{number}.test" for number in range(50)]
    assert placed("distance", hosts) == ring.of_keys(np.array([host_key(host) for host in hosts])).tolist()


@pytest.mark.parametrize("rule", ["ldg", "fennel"])
def test_many_links_outweigh_the_way(rule: str) -> None:
    """Nine thousand kilometres are nine links; LDG makes light of those to sites that are nearly full."""
    assert placed(f"{rule}+distance", ["fr.test"], [[0.0, 4.0, 0.0]]) == [0]
    assert placed(f"{rule}+distance", ["fr.test"], [[0.0, 400.0, 0.0]]) == [1]
    assert placed(rule, ["fr.test"], [[0.0, 4.0, 0.0]]) == [1]


def test_names_are_looked_up() -> None:
    locator = Locator(
        Resolve(map={"fr.test": "194.199.1.1:80", "us.test": "8.8.8.8:80", "*": "127.0.0.1:80"}), RealClock()
    )
    assert locator(["fr.test", "us.test", "nowhere.test"]) == ["FR", "US", ""]
    assert locator.blocks(["fr.test", "us.test"]) == ["net 194.199.0.0/16", "net 8.8.0.0/16"]


def test_measured_round_trips_count_more_than_maps() -> None:
    """From Paris to Korea in 24 ms, from Tokyo in 90."""
    network = RoundTrips(list(SITES))
    network.measure("paris", ["KR", "KR", "KR", "FR"], [0.024, 0.02, 5.0, 0.0])
    assert placed("distance", ["kr.test", "fr.test"], round_trips=network) == [0, 0], "609 km, by the wire"
    network.receive("tokyo", {"KR": 0.02})
    assert placed("distance", ["kr.test"], round_trips=network) == [1]
    network.receive("tokyo", {"KR": 0.09})
    assert placed("distance", ["kr.test"], round_trips=network) == [0]
    assert placed("fennel+distance", ["kr.test"], [[0.0, 3.0, 0.0]], round_trips=network) == [0]
    assert placed("fennel+distance", ["kr.test"], [[0.0, 300.0, 0.0]], round_trips=network) == [1]


def test_a_rebalance_goes_by_the_round_trips_of_each_host() -> None:
    hosts = ["fast.test", "slow.test", "other.test", "unknown.test"]
    far = {"fast.test": ("KR", 0.02, None), "slow.test": ("KR", 0.3, None), "other.test": ("KR", 0.05, None)}
    found = _kilometres(SITES, hosts, np.array([0, 0, 1, 0]), far)
    by_wire = as_kilometres(np.array([0.02, 0.3, 0.16, 0.05]))
    assert found[:3, 0].tolist() == pytest.approx(by_wire[:3]), (
        "Paris' own, and for the third its median of the country"
    )
    assert found[:3, 1].tolist() == pytest.approx([by_wire[3]] * 3)
    assert 15_000 < found[0, 2] < 18_000, "nobody has measured it from Lima"
    assert np.isnan(found[3]).all()
    assert distance_tolls(found)[3].tolist() == [0.0, 0.0, 0.0]


def test_a_rebalance_goes_by_the_bandwidth_to_countries() -> None:
    """A megabyte from Korea takes Paris two seconds more than Tokyo, a page of 30,000 bytes 60 ms: two round trips of
    30 ms. A host's own slowness says nothing of a site."""
    hosts = ["one.test", "slow.test", "two.test"]
    far = {"one.test": ("KR", 0.02, 2.2), "slow.test": ("KR", 0.02, 9.0), "two.test": ("KR", 0.05, 0.2)}
    alike = {host: (country, seconds, 0.2) for host, (country, seconds, _) in far.items()}
    site = np.array([0, 0, 1])
    apart = _kilometres(SITES, hosts, site, far | {"slow.test": ("KR", 0.02, 2.2)}) - _kilometres(
        SITES, hosts, site, alike
    )
    assert apart[:, 0].tolist() == pytest.approx([0.03 / 0.0156e-3] * 3)
    assert apart[:, 1:].tolist() == [[0.0, 0.0]] * 3
    slow = _kilometres(SITES, hosts, site, far)
    assert slow[0, 0] == slow[1, 0], "both are crawled from Paris, in as long a round trip"


GERMANY = {
    "hamburg": {**FREE, "latitude": 53.55, "longitude": 9.99},
    "munster": {**FREE, "latitude": 51.96, "longitude": 7.63},
    "dresden": {**FREE, "latitude": 51.05, "longitude": 13.74},
}


def german(
    hosts: int, blocks: Sequence[str] = (), round_trips: RoundTrips | None = None, pages: Sequence[float] = (0, 0, 0)
) -> list[int]:
    """How many of so many hosts in Germany each of three sites there gets; host n is in block n, in turn."""
    names = [f"h{number}.test" for number in range(hosts)]

    def blocks_of(found: Sequence[str]) -> list[str]:
        return [blocks[int(name[1:-5]) % len(blocks)] for name in found]

    decide = partitioner(
        "distance", GERMANY, lambda found: ["DE"] * len(found), round_trips or RoundTrips(list(GERMANY)),
        blocks_of if blocks else None,
    )  # fmt: skip
    assert decide is not None
    keys = np.array([host_key(name) for name in names], np.uint32)
    found = decide(keys, [f"http://{name}/" for name in names], np.zeros((hosts, 3)), np.array(pages, np.float64))
    return np.bincount(found, minlength=3).tolist()


def test_three_sites_of_one_country_share_its_hosts() -> None:
    """The set-up of UniCrawl: by the middle of Germany all hosts were Munster's."""
    assert german(3000) == [1000, 1000, 1000]
    assert german(3000, pages=(1000, 0, 500)) == [500, 1500, 1000]


def test_cities_are_told_apart_by_the_round_trips_to_blocks_of_addresses() -> None:
    north, east, elsewhere = (block_of(address) for address in ("192.0.2.7", "2001:db8::5", "198.51.100.1"))
    assert (north, east) == ("net 192.0.0.0/16", "net 2001:db8::/32")
    trips = RoundTrips(list(GERMANY))
    for site, seconds in (("hamburg", [0.004, 0.02, 0.02]), ("dresden", [0.02, 0.004, 0.02])):
        trips.measure(site, [north, east, ""], seconds)
        trips.measure(site, ["DE", "DE", "DE"], seconds)
    trips.receive("munster", {"DE": 0.02})
    assert german(300, [north], trips) == [300, 0, 0]
    assert german(300, [north, east], trips) == [150, 0, 150]
    assert german(300, [elsewhere], trips) == [100, 100, 100]
    trips.measure("munster", [elsewhere], [0.001])
    assert german(300, [elsewhere], trips) == [100, 100, 100], "what one site alone has measured compares with nothing"


def test_the_nearest_site_takes_no_more_than_its_room() -> None:
    trips = RoundTrips(list(GERMANY))
    for site, seconds in (("hamburg", 0.004), ("munster", 0.01), ("dresden", 0.02)):
        trips.measure(site, ["DE"], [seconds])
    assert german(300, round_trips=trips) == [300, 0, 0], "before a thousand pages are known, balance does not matter"
    assert german(6000, round_trips=trips) == [3000, 3000, 0]


def test_blocks_are_bounded_and_countries_stay() -> None:
    trips = RoundTrips(["a", "b"])
    trips.measure("a", ["DE"], [0.01])
    for number in range(2000):
        trips.measure("a", [block_of(f"10.{number % 256}.0.1"), block_of(f"11.{number // 256}.0.1")], [0.01, 0.02])
        trips.measure("a", [f"net {number}"], [0.03])
    known = trips.as_dict()["a"]
    assert len(known) <= 513
    assert "DE" in known
    assert "net 1999" in known
    assert "net 0" not in known
    assert len(trips.news("a")) <= 513
    trips.measure_bandwidth("a", [block_of(f"12.{number}.0.1") for number in range(200)], [0.1] * 200)
    assert "net 1999" in trips.as_dict()["a"], "what is known of bandwidth displaces no round trips"
    trips.measure_bandwidth("a", [f"net {number}" for number in range(2000)], [0.1] * 2000)
    assert len(trips.as_dict()["a"]) <= 1025
    assert block_of("") == block_of("nowhere") == ""


def test_what_sites_tell_each_other_of_round_trips() -> None:
    here, there = RoundTrips(["a", "b"]), RoundTrips(["a", "b"])
    here.measure("a", ["DE", "DE", "", "FR"], [0.05, 0.07, 0.2, 0.0])
    news = here.news("a")
    assert news == {"DE": 0.06}
    there.receive("a", news)
    np.testing.assert_array_equal(there.of(["DE", "FR"]), [[0.06, np.nan], [np.nan, np.nan]])
    here.measure("a", ["DE"], [0.061])
    assert here.news("a") == {}, "as good as the same"
    here.measure("a", ["DE"], [0.2])
    assert here.news("a") == {"DE": pytest.approx(0.0882, abs=1e-4)}, "networks change"
    again = RoundTrips(["b", "a"])  # sites have come and gone
    again.recall({**there.as_dict(), "c": {"DE": 9.0}})
    np.testing.assert_array_equal(again.of(["DE"]), [[np.nan, 0.06]])


def test_sites_must_say_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "sites.toml"
    path.write_text('[federation]\npartitioner = "distance"\n[sites.paris]\naddress = "127.0.0.1:1"\nlatitude = 48.9\n')
    with pytest.raises(ConfigError, match="where paris is"):
        load(path)


def test_hosts_go_where_work_is_cheap_unless_links_are_dear() -> None:
    """Twelve bytes at 0.05 a gigabyte are 6e-10; a page's work at 0.05 an hour 1.1e-8: some 19 links."""
    dear = {name: {**site, "egress_per_gb": 0.05} for name, site in SITES.items()}
    dear["paris"]["cpu_per_hour"] = 0.05
    assert placed("fennel", ["h.test"], [[10.0, 0.0, 0.0]], dear) == [1]
    assert placed("fennel", ["h.test"], [[30.0, 0.0, 0.0]], dear) == [0]
    assert placed("fennel", ["h.test"], [[10.0, 0.0, 0.0]]) == [0]


@pytest.mark.parametrize("rule", ["ldg", "fennel"])
def test_round_trips_are_no_part_of_the_price_of_a_link(rule: str) -> None:
    """What a link costs is what its bytes cost; how far hosts are counts only where the partitioner's name says so."""
    sites = {name: {**site, "egress_per_gb": 0.1 * number} for number, (name, site) in enumerate(SITES.items(), 1)}
    trips = RoundTrips(list(sites))
    trips.measure("paris", ["FR", "KR"], [0.9, 0.9])
    trips.measure("tokyo", ["FR", "KR"], [0.001, 0.001])
    hosts, links = ["fr.test", "kr.test"], [[3.0, 2.0, 0.0], [3.0, 2.0, 0.0]]
    assert placed(rule, hosts, links, sites, trips) == placed(rule, hosts, links, sites) == [0, 0]
    assert placed(f"{rule}+distance", hosts, links, sites, trips) == [1, 1]


def test_a_site_with_less_bandwidth_to_a_host_is_further_away() -> None:
    """Both are as near by round trips; a page's 30,000 bytes take Paris 0.3 s longer, as ten thousand kilometres do."""
    trips = RoundTrips(list(SITES))
    for site in ("paris", "tokyo"):
        trips.measure(site, ["KR"], [0.02])
    trips.measure("paris", ["KR"], [0.015])
    assert placed("distance", ["kr.test"], round_trips=trips) == [0]
    trips.measure_bandwidth("paris", ["KR", "KR", ""], [10.1, 10.1, 99.0])
    np.testing.assert_allclose(trips.of(["KR"]), [[0.019, 0.02, np.nan]], atol=1e-12, err_msg="one alone")
    trips.receive("tokyo", {"mb KR": 0.1})
    np.testing.assert_allclose(trips.of(["KR"]), [[0.169, 0.02, np.nan]], atol=1e-12)
    assert placed("distance", ["kr.test"], round_trips=trips) == [1]
    assert placed("fennel+distance", ["kr.test"], [[9.0, 0.0, 0.0]], round_trips=trips) == [1]
    assert placed("fennel+distance", ["kr.test"], [[11.0, 0.0, 0.0]], round_trips=trips) == [0]
    assert trips.news("paris") == {"KR": 0.019, "mb KR": 10.1}
    again = RoundTrips(list(SITES))
    again.recall(trips.as_dict())
    np.testing.assert_array_equal(again.of(["KR"]), trips.of(["KR"]))


def test_waiting_has_a_price() -> None:
    """From Paris to Seoul a page is waited for 0.31 s, from Tokyo 0.065 s; a link between the two sites takes 0.166 s
    and costs as much an hour: the host is worth 1.5 links more at Tokyo."""
    sites = {name: {**site, "wait_per_hour": 0.01} for name, site in SITES.items()}
    assert placed("fennel", ["kr.test"], [[1.0, 0.0, 0.0]], sites) == [1]
    assert placed("fennel", ["kr.test"], [[2.0, 0.0, 0.0]], sites) == [0]
    assert placed("fennel", ["kr.test"], [[1.0, 0.0, 0.0]]) == [0], "without a price nobody waits"
    assert placed("fennel", ["h.test"], [[1.0, 0.0, 0.0]], sites) == [0], "nobody knows where it is"
    assert placed("fennel+distance", ["kr.test"], [[2.0, 0.0, 0.0]], sites) == [0], "its price, not a link for 1,000 km"
    dear = {**sites, "tokyo": {**sites["tokyo"], "wait_per_hour": 0.1}}
    assert placed("fennel", ["kr.test"], [[0.0, 0.0, 0.0]], dear) == [0], "0.065 s there cost more than 0.31 s in Paris"
    trips = RoundTrips(list(SITES))
    for site, mb_s in (("paris", 0.1), ("tokyo", 20.0)):
        trips.measure_bandwidth(site, ["KR"], [mb_s])
        trips.measure(site, ["KR"], [0.05])
    assert placed("fennel", ["kr.test"], [[0.0, 1.0, 0.0]], sites, trips) == [0], "0.6 s longer for the bytes of a page"


def test_sites_whose_waiting_has_a_price_must_say_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "sites.toml"
    path.write_text('[federation]\npartitioner = "fennel"\n[sites.paris]\naddress = "127.0.0.1:1"\nwait_per_hour = 1\n')
    with pytest.raises(ConfigError, match="wait_per_hour needs to know where paris is"):
        load(path)


def test_bandwidth_is_told_by_what_came_on_a_connection_that_was_there() -> None:
    trips, hosts = RoundTrips(["a", "b"]), HostMap(Ring({"a": 1.0, "b": 1.0}))
    placing = Placing(hosts, "a", lambda *_: np.zeros(0, np.int64), trips)
    visits = {
        "country": ["DE", "DE", "DE", "FR"],
        "address": ["192.0.2.7", "192.0.2.8", "192.0.2.9", ""],
        "connect_s": [0.0, 0.03, 0.0, 0.0],
        "elapsed_s": [0.12, 9.0, 9.0, 0.5],
        "response_s": [0.02, 0.02, 0.02, 0.5],
        "wire_bytes": [200_000, 200_000, 9_000, 0],
    }
    placing.saw(visits)
    assert trips.as_dict()["a"] == {"DE": 0.03, "net 192.0.0.0/16": 0.03, "mb DE": 0.5, "mb net 192.0.0.0/16": 0.5}

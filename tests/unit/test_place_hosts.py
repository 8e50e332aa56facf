"""Partitioners of a running crawl that go by distance: hosts go to the nearest site, unless links say otherwise."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gossamer.clocks import RealClock
from gossamer.config import Resolve
from gossamer.errors import ConfigError
from gossamer.federation.file import load
from gossamer.fetch.locating import Locator
from gossamer.place.hosts import partitioner
from gossamer.place.ring import Ring
from gossamer.web.url import host_key

FREE = {"weight": 1.0, "countries": [], "egress_per_gb": 0.0, "cpu_per_hour": 0.0}
SITES = {
    "paris": {**FREE, "latitude": 48.9, "longitude": 2.4},
    "tokyo": {**FREE, "latitude": 35.7, "longitude": 139.7},
    "lima": {**FREE, "latitude": -12.0, "longitude": -77.0, "weight": 0.0},
}
WHERE = {"fr.test": (46.0, 2.0), "kr.test": (37.5, 127.0), "pe.test": (-10.0, -76.0)}


def locate(hosts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    found = np.array([WHERE.get(host, (np.nan, np.nan)) for host in hosts])
    return found[:, 0], found[:, 1]


def placed(
    name: str, hosts: list[str], links: list[list[float]] | None = None, sites: dict[str, Any] = SITES
) -> list[int]:
    decide = partitioner(name, sites, locate)
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
    latitude, longitude = locator(["fr.test", "us.test", "nowhere.test"])
    assert 40 < latitude[0] < 52
    assert longitude[1] < -60
    assert np.isnan(latitude[2])


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

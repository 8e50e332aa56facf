"""Agents on a Ray cluster whose nodes are killed: the crawl ends as if in peace."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from site_support import Site, check_same, check_served, since
from test_site_faults import DELAY_S, OPTIONS, WIDTH, World
from test_site_faults import world as world

from gossamer.cluster.engine import LOST

cluster_utils = pytest.importorskip(
    "ray.cluster_utils", reason="Ray is not installed: pip install 'gossamer-crawler[ray]'"
)
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


@pytest.fixture
def cluster() -> Iterator[cluster_utils.Cluster]:
    found = cluster_utils.Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    yield found
    found.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_node_is_killed_with_its_agents(world: World, tmp_path: Path, cluster: cluster_utils.Cluster) -> None:
    options = [*OPTIONS, "--engine", "ray", "--ray-address", cluster.address, "--agents", "4", "--width", "6"]
    site, start_s = Site(world.web, tmp_path / "crawl", options), time.time()
    other = cluster.add_node(node_ip_address="127.0.0.2", **NODE)  # the supervisor is at the head's address
    with site.running() as process:
        site.wait_until(process, lambda: site.visits() >= world.visits // 4, "visits")
        cluster.remove_node(other, allow_graceful=False)
        site.end(process)
    lost = [event for event in site.log_events() if event.get("code") == LOST]
    assert 1 <= len(lost) <= 3, "some agents were on that node, and others were not"
    check_same(site.directory, world.undisturbed)
    deaths = len(lost)
    check_served(since(world.web.log(), start_s), world.web.truth, site.directory, DELAY_S, deaths * 2 * WIDTH)

"""Consistent hashing: shares follow weights, and only the share of a site that comes or goes moves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.errors import ConfigError
from gossamer.placement.ring import Ring
from gossamer.web.url import host_key, page_key

HOSTS = [f"www{number}.example" for number in range(4_000)]
KEYS = np.array([host_key(host) for host in HOSTS])

weights = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.sampled_from([0.25, 0.5, 1.0, 2.0]), min_size=2)


def owners(ring: Ring) -> np.ndarray:
    return np.array(ring.sites)[ring.of_keys(KEYS)]


@settings(max_examples=25, deadline=None)
@given(weights)
def test_only_the_share_of_a_site_that_leaves_moves(sites: dict[str, float]) -> None:
    gone = min(sites)
    before = owners(Ring(sites, 64))
    after = owners(Ring({name: weight for name, weight in sites.items() if name != gone}, 64))
    assert (after[before != gone] == before[before != gone]).all()
    assert (after != gone).all()


@settings(max_examples=25, deadline=None)
@given(weights)
def test_a_heavier_site_only_wins(sites: dict[str, float]) -> None:
    heavy = min(sites)
    before, after = owners(Ring(sites, 64)), owners(Ring(sites | {heavy: sites[heavy] * 2}, 64))
    assert set(after[after != before]) <= {heavy}


def test_shares_follow_weights() -> None:
    ring = Ring({"lisbon": 1.0, "dresden": 2.0, "stockholm": 1.0})
    assert ring.sites == ["lisbon", "dresden", "stockholm"]
    shares = np.bincount(ring.of_keys(np.arange(2**24)), minlength=3) / 2**24  # of all hashes
    assert shares.tolist() == pytest.approx([0.25, 0.5, 0.25], abs=0.02)
    found = np.bincount(ring.of_keys(KEYS), minlength=3) / len(KEYS)
    assert found.tolist() == pytest.approx(shares.tolist(), abs=0.03)


def test_names_and_keys_agree() -> None:
    ring = Ring({"a": 1.0, "b": 1.0, "c": 1.0})
    assert [ring.site(host) for host in HOSTS[:50]] == owners(ring)[:50].tolist()
    page = np.array([page_key(f"http://{HOSTS[7]}/some/page")], np.uint64)
    assert ring.sites[ring.of_keys(page >> np.uint64(40))[0]] == ring.site(HOSTS[7])


def test_a_site_of_weight_0_has_no_hosts() -> None:
    ring = Ring({"a": 1.0, "b": 0.0, "c": 1.0})
    assert set(ring.of_keys(KEYS).tolist()) == {0, 2}
    assert (owners(ring) == owners(Ring({"a": 1.0, "c": 1.0}))).all()


def test_order_of_sites_does_not_matter() -> None:
    sites = {"a": 1.0, "b": 2.0, "c": 1.0}
    assert (owners(Ring(sites)) == owners(Ring(dict(reversed(sites.items()))))).all()


@pytest.mark.parametrize("sites", [{}, {"a": 0.0}, {"a": -1.0}, {"a": float("inf")}])
def test_rings_without_room_are_refused(sites: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Ring(sites)

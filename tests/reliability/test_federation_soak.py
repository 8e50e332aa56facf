"""A few loops of the federation's soak, whose seeds are fixed; `make soak-sites MINUTES=N` goes on with others."""

from collections.abc import Iterator

import pytest
from federation_soak import FederationSoak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def soak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FederationSoak]:
    with FederationSoak.begin(tmp_path_factory.mktemp("soak")) as begun:
        yield begun


@pytest.mark.parametrize("seed", range(4))
def test_sites_that_come_and_go_and_die_crawl_as_one(soak: FederationSoak, seed: int) -> None:
    assert len(soak.loop(seed)) > 1, "something happened"

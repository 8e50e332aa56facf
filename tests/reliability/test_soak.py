"""A few loops of the soak, whose seeds are fixed; `make soak MINUTES=N` goes on with others."""

from collections.abc import Iterator

import pytest
from soak import Soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def soak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soak]:
    with Soak.begin(tmp_path_factory.mktemp("soak")) as begun:
        yield begun


@pytest.mark.parametrize("seed", range(8))
def test_killed_at_random_instants(soak: Soak, seed: int) -> None:
    assert soak.loop(seed) > 0

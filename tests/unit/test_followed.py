"""Whoever looks at the chains of a site twice a second reads only what is new."""

import random

from gossamer.archive.chain import Chain, snapshots
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Memory
from gossamer.cluster.followed import Followed
from gossamer.sharing.exchange import InProcess


class Counting(Memory):
    """Counts what is read."""

    reads = 0

    def get(self, name: str) -> bytes:
        self.reads += 1
        return super().get(name)


def commit(chain: Chain, store: Memory) -> None:
    name = f"tables/visits-{chain.label}.parquet"
    store.put(name, b"")
    chain.commit(
        Changes({"visits": [name]}), marks={}, outbox=[], exchange=InProcess(), applied=[], now_s=float(chain.number)
    )


def test_only_new_manifests_are_read_and_the_result_is_that_of_all() -> None:
    store, rng = Counting(), random.Random(1)
    chains = [Chain.open(store, name, InProcess()) for name in ("a0", "a1")]
    followed = Followed(store)
    assert followed.snapshots() == {}
    for turn in range(120):
        made = 0
        for chain in chains:
            for _ in range(rng.choice((0, 0, 1, 2))):
                commit(chain, store)
                made += 1
        is_known = len(followed._at) == 2
        before = store.reads
        found = followed.snapshots()
        if is_known:
            assert store.reads - before == made, turn
        assert found == snapshots(store)


def test_manifests_that_were_deleted_meanwhile_are_not_missed() -> None:
    store = Counting()
    chain = Chain.open(store, "a0", InProcess())
    commit(chain, store)
    followed = Followed(store)
    followed.snapshots()
    for _ in range(100):  # more than two full manifests: what we know of is gone
        commit(chain, store)
    assert followed.snapshots() == snapshots(store)
    chain = Chain.take_over(store, "a0", InProcess(), 1.0)
    assert followed.snapshots()["a0"].epoch == 2

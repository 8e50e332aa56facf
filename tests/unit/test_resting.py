"""Hosts that rest: a commit writes what changed of them, and reads back what was said."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Changes, Snapshot
from gossamer.archive.resting import Resting, Rests
from gossamer.archive.state import AgentState, replace
from gossamer.archive.store import Memory
from gossamer.sharing.exchange import InProcess


def commit(chain: Chain, changes: Changes) -> None:
    state = replace(chain.state, resting={})
    chain.commit(changes, state=state, marks={}, outbox=[], exchange=InProcess(), applied=[], now_s=1.0)


def opened(store: Memory) -> Chain:
    return Chain.open(store, "a0", InProcess())


def size(store: Memory, changes: Changes) -> int:
    return sum(len(store.get(name)) for names in changes.added.values() for name in names)


rests = st.dictionaries(
    st.integers(0, 30).map(lambda number: f"h{number}.test"),
    st.tuples(st.floats(1.0, 4e9), st.integers(0, 100)),
)


@settings(deadline=None, max_examples=50)
@given(rests, st.lists(st.tuples(rests, st.booleans()), max_size=12))
def test_what_is_read_is_what_was_written(in_state: Rests, rounds: list[tuple[Rests, bool]]) -> None:
    """Also by an agent that begins with a manifest of an earlier version, whose state had them all."""
    store = Memory()
    chain = opened(store)
    chain.commit(
        Changes(), state=AgentState(resting=in_state), marks={}, outbox=[], exchange=InProcess(), applied=[], now_s=1.0
    )
    resting = Resting(store, opened(store))
    assert resting.hosts == in_state
    resting = Resting(store, chain)
    for hosts, again in rounds:
        commit(chain, resting.write(dict(hosts)))
        assert resting.hosts == hosts
        reader = opened(store)
        assert Resting(store, reader).hosts == hosts
        if again:
            chain, resting = reader, Resting(store, reader)
    assert len(store.list("tables/resting-")) == len(chain.files.get("resting", []))


def test_bytes_are_in_proportion_to_what_changes() -> None:
    """Of 80,000 hosts a few change at a time: neither manifests nor tables have more than that to say."""
    store, chance = Memory(), random.Random(5)
    chain = opened(store)
    resting = Resting(store, chain)
    names = (f"{chance.getrandbits(64):016x}.example" for _ in range(80_000))  # as little alike as real ones
    hosts: Rests = {name: (1e9 + number, number % 7 + 1) for number, name in enumerate(names)}
    first = resting.write(dict(hosts))
    at_first = size(store, first)
    commit(chain, first)
    written = 0
    for round_ in range(200):
        for name in chance.sample(sorted(hosts), 5):
            hosts[name] = (2e9 + round_, 3)
        del hosts[chance.choice(sorted(hosts))]
        changes = resting.write(dict(hosts))
        written += size(store, changes)
        commit(chain, changes)
        # Names and checksums of a few files, and all zones: nothing that grows with the hosts.
        assert len(store.get(f"manifest/a0/{chain.number:08d}.json")) < 10_000
        assert len(chain.files["resting"]) < 15
    assert written < at_first, "200 rounds that change 6 hosts each write less than one that writes all"
    assert Resting(store, opened(store)).hosts == hosts


def test_when_nobody_rests_nothing_is_left() -> None:
    store = Memory()
    chain = opened(store)
    resting = Resting(store, chain)
    for hosts in ({f"h{number}": (5.0, 1) for number in range(100)}, {"h3": (5.0, 1)}, {}):
        commit(chain, resting.write(dict(hosts)))
    assert store.list("tables/") == []
    assert not resting.write({})


def test_a_snapshot_without_any() -> None:
    assert Resting(Memory(), Chain(Memory(), Snapshot("a0"), 0)).hosts == {}

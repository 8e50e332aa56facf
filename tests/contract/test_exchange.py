"""What every Exchange does with batches that come twice, too late or in the wrong order."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.archive.store import Memory
from gossamer.federation.exchange import (
    ANY,
    SEEDS,
    Batch,
    Contributions,
    Exchange,
    Inbox,
    InProcess,
    decode,
    encode,
    high_water,
)

MAKERS: list[Callable[[], Exchange]] = [InProcess, lambda: Inbox(Memory())]
every = pytest.mark.parametrize("make", MAKERS, ids=["in-process", "inbox"])


def batch(number: int, previous: int = 0, zone: int = 3, part: int = 0, parts: int = 1, sender: str = "a1") -> Batch:
    return Batch(sender, number, part, zone, f"{sender}-{zone}-{number}-{part}".encode(), parts, previous)


@every
def test_publish_is_idempotent(make: Callable[[], Exchange]) -> None:
    exchange = make()
    for _ in range(3):
        exchange.publish(batch(1))
    assert exchange.pending([3], {}) == [batch(1)]


@every
def test_only_for_my_zones(make: Callable[[], Exchange]) -> None:
    exchange = make()
    seeds = batch(1, zone=ANY, sender="s")
    for one in (batch(1), batch(1, zone=4), seeds):
        exchange.publish(one)
    assert exchange.pending([4], {}) == [batch(1, zone=4), seeds]


@every
def test_marks_and_acknowledgements(make: Callable[[], Exchange]) -> None:
    exchange = make()
    one, two = batch(1), batch(7, previous=1)
    exchange.publish(one)
    exchange.publish(two)
    assert exchange.pending([3], {"a1>3": 1}) == [two]
    exchange.acknowledge("a1>3", 1)
    assert exchange.pending([3], {"a1>3": 1}) == [two]
    exchange.acknowledge("a1>3", 7)
    exchange.publish(two)  # the sender crashed after publishing
    assert exchange.pending([3], {"a1>3": 7}) == []


@every
def test_a_number_is_delivered_with_all_its_parts(make: Callable[[], Exchange]) -> None:
    exchange = make()
    parts = [batch(1, part=i, parts=3) for i in range(3)]
    exchange.publish(parts[2])
    exchange.publish(parts[0])
    exchange.publish(batch(2, previous=1))
    assert exchange.pending([3], {}) == []
    exchange.publish(parts[1])
    assert exchange.pending([3], {}) == [*parts, batch(2, previous=1)]


@every
def test_a_batch_that_overtakes_waits(make: Callable[[], Exchange]) -> None:
    exchange = make()
    exchange.publish(batch(9, previous=5))
    assert exchange.pending([3], {}) == []
    exchange.publish(batch(5))
    assert exchange.pending([3], {}) == [batch(5), batch(9, previous=5)]


def _streams(counts: dict[tuple[str, int], list[int]]) -> list[Batch]:
    """Per (sender, zone) numbers with gaps, each with that many parts."""
    made = []
    for (sender, zone), parts in counts.items():
        previous = 0
        for step, count in enumerate(parts):
            number = previous + 1 + step % 3
            made += [batch(number, previous, zone, part, count, sender) for part in range(count)]
            previous = number
    return made


streams = st.dictionaries(
    st.tuples(st.sampled_from(["a1", "a-2", "b"]), st.sampled_from([ANY, 0, 17, 255])),
    st.lists(st.integers(1, 3), max_size=5),
    max_size=4,
)


@every
@settings(deadline=None, max_examples=60)
@given(streams, st.data())
def test_each_exactly_once_and_in_order(
    make: Callable[[], Exchange], counts: dict[tuple[str, int], list[int]], data: st.DataObject
) -> None:
    """Whatever order they are published in and however often, and with a receiver that crashes before its
    acknowledgements: each part is applied once, per stream in order."""
    exchange = make()
    batches = _streams(counts)
    again = data.draw(st.lists(st.sampled_from(batches), max_size=8)) if batches else []
    deliveries = data.draw(st.permutations(batches + again))
    marks: dict[str, int] = {}
    applied: list[Batch] = []
    for delivery in deliveries:
        exchange.publish(delivery)
        if data.draw(st.booleans()):
            ready = exchange.pending(range(256), marks)
            applied += ready
            news = high_water(ready)
            marks.update(news)
            if data.draw(st.booleans()):
                for stream, number in news.items():
                    exchange.acknowledge(stream, number)
    applied += exchange.pending(range(256), marks)
    by_stream = {b.stream: [a for a in applied if a.stream == b.stream] for b in batches}
    for stream, found in by_stream.items():
        assert found == [b for b in batches if b.stream == stream]
    assert len(applied) == len(batches)


def test_inbox_numbers_never_come_again() -> None:
    store = Memory()
    inbox = Inbox(store)
    marks: dict[str, int] = {}
    for i in range(1, 5):
        assert Inbox(store).add(b"%d" % i) == i
        ready = inbox.pending([], marks)
        assert [b.data for b in ready] == [b"%d" % i]
        marks |= high_water(ready)
        inbox.acknowledge(SEEDS, i)
        assert len(store.list("inbox/")) == 1
    assert store.list("inbox/") == ["inbox/seeds-000000000004.arrow"]


def test_inbox_of_several_adders_at_once() -> None:
    """One adder's view is stale: its number was taken, applied and forgotten meanwhile. Nothing is lost."""

    class Stale(Memory):
        once = True

        def list(self, prefix: str) -> list[str]:
            found = super().list(prefix)
            if self.once and prefix == "inbox/":
                self.once = False
                for data in (b"x", b"y"):
                    Inbox(self).add(data)
                Inbox(self).acknowledge(SEEDS, 2)
            return found

    store = Stale()
    Inbox(store).add(b"mine")
    assert b"mine" in [b.data for b in Inbox(store).pending([], {SEEDS: 2})]


def test_inbox_ignores_other_files() -> None:
    store = Memory()
    store.put("inbox/README", b"")
    assert Inbox(store).pending([], {}) == []
    assert Inbox(store).add(b"x") == 1


def _columns(urls: list[str]) -> Contributions:
    n = len(urls)
    rng = np.random.default_rng(1)
    return Contributions(
        key=rng.integers(0, 2**64, n, np.uint64),
        cash=rng.integers(-(2**62), 2**62, n),
        hits=rng.integers(0, 2**32, n, np.uint32),
        depth=rng.integers(0, 256, n, np.uint8),
        hops=rng.integers(0, 256, n, np.uint8),
        referrer=rng.integers(0, 2**64, n, np.uint64),
        url=urls,
    )


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=50), max_size=40), st.integers(1_200, 100_000))
def test_columns_come_back(urls: list[str], limit: int) -> None:
    columns = _columns(urls)
    decoded = [decode(part) for part in encode(columns, limit)]
    for name, values in columns._asdict().items():
        joined = [value for part in decoded for value in getattr(part, name)]
        assert joined == list(values)
        if name != "url":
            assert all(getattr(part, name).dtype == values.dtype for part in decoded)


def test_parts_are_small() -> None:
    rng = np.random.default_rng(2)
    urls = [f"http://{i}.test/{x:x}" for i, x in enumerate(rng.integers(0, 2**63, 150_000))]
    parts = encode(_columns(urls))
    assert len(parts) > 3
    assert max(map(len, parts)) < 1_000_000
    assert sum(len(decode(part).key) for part in parts) == len(urls)


def test_stream_names() -> None:
    assert batch(1).stream == "a1>3"
    assert replace(batch(1), zone=ANY).stream == "a1"

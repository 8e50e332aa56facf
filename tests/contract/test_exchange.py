"""What every Exchange does with messages that come twice, too late or in the wrong order."""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import nats_site
import numpy as np
import pytest
import store_site
from hypothesis import given, settings
from hypothesis import strategies as st
from nats_site import Network, eventually

from gossamer.archive.bundle import LONG_BYTES, bundled
from gossamer.archive.manifest import ANY, HOSTS, LINKS, NEWS, REMOTE_LINKS, SEEDS, ZONES, Message
from gossamer.archive.state import replace
from gossamer.archive.store import Directory, Memory
from gossamer.cluster.jetstream import MESSAGE_BYTES
from gossamer.columns import Contributions
from gossamer.crawl.inbox import PART_BYTES, Inbox, decode, encode, high_water
from gossamer.sharing.envelope import PIECE_BYTES
from gossamer.sharing.exchange import Exchange, InProcess, Joined

KINDS = (LINKS, REMOTE_LINKS, SEEDS, NEWS, ZONES, HOSTS)
site = pytest.fixture(nats_site.running, scope="module", name="site")
Make = Callable[[], AbstractContextManager[Exchange]]


@pytest.fixture(params=["in-process", "inbox", "joined", "nats", "store in memory", "store"], scope="module")
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    if request.param == "in-process":
        yield lambda: nullcontext(InProcess())
    elif request.param == "inbox":
        yield lambda: nullcontext(Inbox(Memory()))
    elif request.param == "joined":
        yield lambda: nullcontext(Joined(InProcess(), Inbox(Memory())))
    elif request.param == "store in memory":
        yield lambda: store_site.Network(Memory())
    elif request.param == "store":
        yield lambda: store_site.Network(Directory.prepare(tmp_path_factory.mktemp("store") / "crawl", 1.0))
    else:
        wire = nats_site.connected(request.getfixturevalue("site"))
        yield lambda: Network(wire)
        wire.close()


def message(
    number: int, previous: int = 0, to: str = "a3", part: int = 0, parts: int = 1, sender: str = "a1"
) -> Message:
    data = f"{sender}-{to}-{number}-{part}".encode()
    return Message(sender, number, part, to, data, parts=parts, previous=previous)


def test_publish_is_idempotent(make: Make) -> None:
    with make() as exchange:
        for _ in range(3):
            assert exchange.publish(message(1))
        assert exchange.pending("a3", {}) == [message(1)]


def test_all_of_a_batch_arrives(make: Make) -> None:
    with make() as exchange:
        full = Message("a-1", 2**40, 0, "a_3", bytes(range(256)) * 3906, kind=ZONES, parts=1, previous=0)
        assert len(full.data) > 999_000
        assert exchange.publish(full)
        assert exchange.pending("a_3", {}) == [full]


sizes = st.one_of(
    st.integers(0, 3_000),
    st.builds(
        lambda edge, off: max(0, edge + off),
        st.sampled_from([PART_BYTES, PIECE_BYTES, 2 * PIECE_BYTES, MESSAGE_BYTES, 2 * MESSAGE_BYTES]),
        st.integers(-1_500, 1_500),
    ),
)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.lists(sizes, min_size=1, max_size=3)), min_size=1, max_size=3))
def test_whatever_its_kind_and_size_it_arrives(make: Make, rounds: list[tuple[str, list[int]]]) -> None:
    """Whatever a commit names must be publishable: there is no second chance to make it smaller."""
    made = [
        Message("a1", number, part, "a3", random.Random(size).randbytes(size), kind, len(parts), number - 1)
        for number, (kind, parts) in enumerate(rounds, 1)
        for part, size in enumerate(parts)
    ]
    with make() as exchange:
        for one in made:
            assert exchange.publish(one)
        assert exchange.pending("a3", {}) == made


def test_only_for_me(make: Make) -> None:
    with make() as exchange:
        seeds = message(1, to=ANY, sender="s")
        for one in (message(1), message(1, to="a4"), seeds):
            exchange.publish(one)
        assert exchange.pending("a4", {}) == [message(1, to="a4"), seeds]


@pytest.fixture
def make_of_agents(make: Make, request: pytest.FixtureRequest) -> Make:
    if request.node.callspec.params["make"] in ("inbox", "joined"):
        pytest.skip("of seeds")
    return make


def test_of_a_bundle_each_gets_what_is_for_it(make_of_agents: Make) -> None:
    """It is acknowledged by stream, as if its messages had come one by one, and comes again until it is."""
    before = message(1, to="a4")
    parts = [message(2, 1 if to == "a4" else 0, to, part, 2) for to in ("a3", "a4", "a5") for part in (0, 1)]
    [bundle] = bundled(parts)
    with make_of_agents() as exchange:
        assert exchange.publish(bundle)
        assert exchange.pending("a3", {}) == parts[:2]
        assert exchange.pending("a4", {}) == [], "another one comes before it"
        assert exchange.publish(before)
        assert exchange.publish(bundle), "the sender has crashed"
        assert exchange.pending("a4", {}) == [before, *parts[2:4]]
        assert exchange.pending("a6", {}) == []
        exchange.pending("a3", {"a1>a3": 2})
        exchange.acknowledge("a1>a3", 2)
        eventually(lambda: exchange.confirmed("a1>a3") == 2)
        assert (exchange.confirmed("a1>a4"), exchange.confirmed("a1>a5")) == (0, 0)
        assert exchange.pending("a3", {"a1>a3": 2}) == []
        assert exchange.pending("a5", {}) == parts[4:]


def test_of_bundles_and_others_each_comes_once_and_in_order(make_of_agents: Make) -> None:
    """Some parts of a number are in one bundle, some in another, some are alone; and whatever is first comes last."""
    long = replace(message(3, 2, "a3", 2, 3), data=bytes(LONG_BYTES))
    third = [message(3, 2, "a3", 0, 3), message(3, 2, "a3", 1, 3), long, message(3, 2, "a4")]
    second = [message(2, 1, "a3"), message(2, 1, "a4")]
    first = [message(1, 0, "a3"), message(1, 0, "a4")]
    with make_of_agents() as exchange:
        for number in (third, second, first):
            assert exchange.pending("a3", {}) == []
            for each in bundled(number):
                exchange.publish(each)
        assert exchange.pending("a3", {}) == [first[0], second[0], *third[:3]]
        assert exchange.pending("a4", {"a1>a4": 1}) == [second[1], third[3]]


def test_marks_and_acknowledgements(make: Make) -> None:
    with make() as exchange:
        one, two = message(1), message(7, previous=1)
        exchange.publish(one)
        exchange.publish(two)
        assert exchange.pending("a3", {"a1>a3": 1}) == [two]
        exchange.acknowledge("a1>a3", 1)
        assert exchange.pending("a3", {"a1>a3": 1}) == [two]
        exchange.acknowledge("a1>a3", 7)
        exchange.publish(two)  # the sender crashed after publishing
        assert exchange.pending("a3", {"a1>a3": 7}) == []


def test_senders_learn_what_is_acknowledged(make: Make) -> None:
    with make() as exchange:
        assert exchange.confirmed("a1>a3") == 0
        for one in (message(1), message(7, previous=1), message(2, to="a4")):
            exchange.publish(one)
        exchange.pending("a3", {})
        exchange.acknowledge("a1>a3", 7)
        exchange.acknowledge("a1>a3", 1)  # one that comes late takes nothing back
        eventually(lambda: exchange.confirmed("a1>a3") == 7)
        assert exchange.confirmed("b>a3") == 0


def test_what_comes_again_is_confirmed_again(make: Make) -> None:
    """The receiver crashed between its commit and its acknowledgement; later rounds do not name it again."""
    with make() as exchange:
        for part in range(2):
            exchange.publish(message(4, part=part, parts=2))
        assert exchange.pending("a3", {"a1>a3": 4}) == []
        eventually(lambda: exchange.confirmed("a1>a3") == 4)


def test_a_number_is_delivered_with_all_its_parts(make: Make) -> None:
    with make() as exchange:
        parts = [message(1, part=i, parts=3) for i in range(3)]
        exchange.publish(parts[2])
        exchange.publish(parts[0])
        exchange.publish(message(2, previous=1))
        assert exchange.pending("a3", {}) == []
        exchange.publish(parts[1])
        assert exchange.pending("a3", {}) == [*parts, message(2, previous=1)]


def test_a_batch_that_overtakes_waits(make: Make) -> None:
    with make() as exchange:
        exchange.publish(message(9, previous=5))
        assert exchange.pending("a3", {}) == []
        exchange.publish(message(5))
        assert exchange.pending("a3", {}) == [message(5), message(9, previous=5)]


def _streams(counts: dict[str, list[int]], to: str) -> list[Message]:
    """Per sender numbers with gaps, each with that many parts; those of seeds are for anyone."""
    made = []
    for sender, parts in counts.items():
        previous = 0
        for step, count in enumerate(parts):
            number = previous + 1 + step % 3
            receiver = ANY if sender == "s" else to
            made += [message(number, previous, receiver, part, count, sender) for part in range(count)]
            previous = number
    return made


streams = st.dictionaries(st.sampled_from(["a1", "a-2", "b", "s"]), st.lists(st.integers(1, 3), max_size=5), max_size=4)


@settings(deadline=None, max_examples=60)
@given(counts=streams, data=st.data())
def test_each_exactly_once_and_in_order(make: Make, counts: dict[str, list[int]], data: st.DataObject) -> None:
    """Whatever order they are published in and however often, and with a receiver that crashes before its
    acknowledgements: each part is applied once, per stream in order; in the end every sender knows it."""
    messages = _streams(counts, "a3")
    again = data.draw(st.lists(st.sampled_from(messages), max_size=8)) if messages else []
    deliveries = data.draw(st.permutations(messages + again))
    marks: dict[str, int] = {}
    applied: list[Message] = []
    with make() as exchange:
        for delivery in deliveries:
            assert exchange.publish(delivery)
            if data.draw(st.booleans()):
                ready = exchange.pending("a3", marks)
                applied += ready
                news = high_water(ready)
                marks.update(news)
                if data.draw(st.booleans()):
                    for stream, number in news.items():
                        exchange.acknowledge(stream, number)
        ready = exchange.pending("a3", marks)
        applied += ready
        marks.update(high_water(ready))
        assert exchange.pending("a3", marks) == []
        for stream, number in marks.items():
            eventually(lambda stream=stream, number=number: exchange.confirmed(stream) == number)
    by_stream = {b.stream: [a for a in applied if a.stream == b.stream] for b in messages}
    for stream, found in by_stream.items():
        assert found == [b for b in messages if b.stream == stream]
    assert len(applied) == len(messages)


def test_joined_has_links_and_seeds() -> None:
    links, inbox = InProcess(), Inbox(Memory())
    both = Joined(links, inbox)
    inbox.add(b"seed")
    both.publish(message(1))
    found = both.pending("a3", {})
    assert [b.data for b in found] == [message(1).data, b"seed"]
    assert inbox.pending("a3", {}) == found[1:]
    inbox.add(b"more")
    for stream, number in high_water(both.pending("a3", {})).items():
        both.acknowledge(stream, number)
    assert (both.confirmed("a1>a3"), links.confirmed(SEEDS)) == (1, 0)
    assert [b.data for b in inbox.pending("a3", {SEEDS: 1})] == [b"more"]


def test_inbox_numbers_never_come_again() -> None:
    store = Memory()
    inbox = Inbox(store)
    marks: dict[str, int] = {}
    for i in range(1, 5):
        assert Inbox(store).add(b"%d" % i) == i
        ready = inbox.pending("a0", marks)
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
    assert b"mine" in [b.data for b in Inbox(store).pending("a0", {SEEDS: 2})]


def test_inbox_ignores_other_files() -> None:
    store = Memory()
    store.put("inbox/README", b"")
    assert Inbox(store).pending("a0", {}) == []
    assert Inbox(store).add(b"x") == 1


def _columns(urls: list[str]) -> Contributions:
    n = len(urls)
    rng = np.random.default_rng(1)
    return Contributions(
        key=rng.integers(0, 2**64, n, np.uint64),
        cash=rng.integers(-(2**62), 2**62, n),
        hits=rng.integers(-(2**31), 2**31, n, np.int32),
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
    assert message(1).stream == "a1>a3"
    assert replace(message(1), to=ANY).stream == "a1"

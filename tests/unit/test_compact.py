"""Links and host-map entries between sites: what arrives is what was sent, in few bytes."""

import base64

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.columns import HOST_BITS, Contributions
from gossamer.errors import Unreadable
from gossamer.placement.hostmap import ENTRY
from gossamer.sharing import compact, placing
from gossamer.sharing.sent_cache import SentCache
from gossamer.web.url import page_keys


def columns(urls: list[str], cash: list[int]) -> Contributions:
    count, rng = len(urls), np.random.default_rng(7)
    return Contributions(
        page_keys(urls),
        compact.rounded(np.array(cash, np.int64)),
        rng.integers(-(2**31), 2**31, count, np.int32),
        rng.integers(0, 256, count, np.uint8),
        rng.integers(0, 256, count, np.uint8),
        np.zeros(count, np.uint64),
        urls,
    )


def rows(found: Contributions) -> dict[int, tuple[int, ...]]:
    return {
        key: values for key, *values in zip(found.key.tolist(), found.cash.tolist(), found.hits.tolist(),
                                            found.depth.tolist(), found.hops.tolist(), strict=True)
    }  # fmt: skip


paths = st.text(st.characters(codec="ascii", min_codepoint=33), max_size=20)
many = st.lists(st.tuples(paths, st.integers(0, 2**62), st.booleans()), unique_by=lambda item: item[0], max_size=40)


@settings(deadline=None)
@given(many, st.integers(150, 10_000))
def test_what_arrives_is_what_was_sent(items: list[tuple[str, int, bool]], limit: int) -> None:
    urls = [f"http://h{len(path) % 5}.test/{path}" for path, _, _ in items]
    sent = columns(urls, [cash for _, cash, _ in items])
    is_known = np.array([known for *_, known in items], bool)
    parts = [compact.decode(part) for part in compact.encode(sent, is_known, limit)]
    found = Contributions.joined(parts) if parts else sent
    assert rows(found) == rows(sent)
    texts = dict(zip(found.key.tolist(), found.url, strict=True))
    for url, key, known in zip(urls, sent.key.tolist(), is_known.tolist(), strict=True):
        assert texts[key] == ("" if known and parts else url)


@given(st.lists(st.integers(0, 2**62), min_size=1))
def test_rounding_takes_less_than_a_five_hundredth(values: list[int]) -> None:
    cash = np.array(values, np.int64)
    rounded = compact.rounded(cash)
    assert (rounded <= cash).all()
    assert ((cash - rounded) * 512.0 <= cash).all()
    assert (rounded == compact.rounded(rounded)).all()
    assert (rounded[cash < 2048] == cash[cash < 2048]).all()


def test_few_bytes() -> None:
    rng = np.random.default_rng(3)
    urls = sorted({f"http://host{h}.test/section/{s}/page-{p}.html" for h, s, p in rng.integers(0, 400, (5000, 3))})
    sent = columns(urls, rng.integers(0, 2**40, len(urls)).tolist())
    sent = sent._replace(hits=np.ones(len(urls), np.int32), depth=sent.depth % 4, hops=sent.hops * 0)
    new = sum(map(len, compact.encode(sent, np.zeros(len(urls), bool)))) / len(urls)
    known = sum(map(len, compact.encode(sent, np.ones(len(urls), bool)))) / len(urls)
    assert new < 6
    assert known < 7.5
    few = np.arange(1)
    assert len(compact.encode(sent.take(few), few > 0)[0]) < len(urls[0]) + 25, "a letter of one URL is little more"


def test_the_cache_forgets_but_never_invents() -> None:
    cache, rng, told = SentCache(1000), np.random.default_rng(5), set[int]()
    for _ in range(50):
        keys = np.unique(rng.integers(1, 3000, 100).astype(np.uint64))
        known = cache.add("x", keys)
        assert {int(key) for key in keys[known]} <= told
        told |= set(keys.tolist())
    assert cache.hits
    assert cache.hits + cache.misses > 4000
    keys = np.array([5, 6], np.uint64)
    cache.add("x", keys)
    assert not cache.add("y", keys).any(), "each site for itself"
    cache.add("x", keys)
    cache.forget("x", keys[:1])
    assert cache.add("x", keys).tolist() == [False, True]


hosts = st.tuples(st.integers(0, (1 << HOST_BITS) - 1), st.integers(0, 255), st.integers(0, 65_535))


@given(st.lists(hosts, max_size=60))
def test_entries_arrive_as_they_were_sent(sent: list[tuple[int, int, int]]) -> None:
    entries = np.array(sent, ENTRY)
    assert sorted(placing.unpacked(placing.packed(entries)).tolist()) == sorted(sent)
    as_before = base64.b85encode(entries.tobytes()).decode()  # until version 3 of the protocol
    assert placing.unpacked(as_before).tolist() == sent


def test_a_decision_takes_less_than_half_of_what_it_took() -> None:
    rng = np.random.default_rng(3)
    entries = np.zeros(1_000, ENTRY)
    entries["host"] = rng.choice(1 << HOST_BITS, len(entries), replace=False)
    entries["site"] = rng.integers(0, 16, len(entries))
    assert len(placing.packed(entries)) < 0.4 * len(base64.b85encode(entries.tobytes()))


def one(host: int, site: int, turn: int, count: int) -> bytes:
    """An entry, and how many its run says that it has."""
    said = bytes([1, site, turn, count]) if max(site, turn) < 128 else bytes([1, 255, 255, 127, 0, count])
    low, middle, high = host.to_bytes(3, "little")
    return said + bytes([low, 3, middle, 3, high])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 20,
        one(7, 1, 0, 1)[:-1],
        one(7, 1, 0, 1) + b"x",
        one(7, 1, 0, 2),
        one(7, 1, 0, 0),
        one(7, 200, 0, 1),
    ],
)
def test_entries_that_are_none(data: bytes) -> None:
    assert compact.decode_entries(one(7, 1, 0, 1)).tolist() == [(7, 1, 0)]
    with pytest.raises((Unreadable, IndexError)):
        compact.decode_entries(data)


def test_entries_cannot_be_more_than_bytes() -> None:
    """A few bytes must not become millions of entries in memory, and on disk."""
    dense = np.zeros(5_000, ENTRY)
    dense["host"] = np.arange(len(dense))
    data = compact.encode_entries(dense)
    assert compact.decode_entries(data)["host"].tolist() == dense["host"].tolist()
    assert len(data) > len(dense)
    many = bytes([1, 0, 0, 255, 255, 3]) + data[4:]
    with pytest.raises(Unreadable, match="cut off"):
        compact.decode_entries(many)


def test_a_host_that_cannot_be() -> None:
    """It would be looked up in a table that ends before it."""
    beyond = np.array([(1 << HOST_BITS, 0, 0)], ENTRY)
    with pytest.raises(Unreadable, match="a host"):
        placing.unpacked(base64.b85encode(beyond.tobytes()).decode())
    steps = np.array([(1 << HOST_BITS) - 1, 5], "<u4").view(np.uint8).reshape(2, 4).T[:3]
    low, middle, high = (bytes(plane.tolist()) for plane in steps)
    data = bytes([1, 0, 0, 2]) + low + b"\x06" + middle + b"\x06" + high
    with pytest.raises(Unreadable, match="a host"):
        placing.unpacked(":" + base64.b85encode(data).decode())

"""Zones change hands: nothing is lost on the way, nothing is owned twice, wherever one of the two dies."""

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_archive_chain import Crash, Mortal

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import ZONES, Changes
from gossamer.archive.resting import Resting
from gossamer.archive.row_files import RowFiles
from gossamer.archive.state import AgentState, Counters, replace
from gossamer.archive.store import Memory
from gossamer.archive.zones import ZONES_IN_ALL, named, shares
from gossamer.columns import COOKIES, LATER, NO_TEXT, PAGE, REQUISITE, VISITED, Status
from gossamer.config import Config
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import Books
from gossamer.crawl.update import RoundColumns, seeds, update
from gossamer.errors import Deposed, Unreadable
from gossamer.frontier import table
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex, zone_of_host, zone_of_key
from gossamer.frontier.strategies import strategy
from gossamer.sharing import estate, transfer
from gossamer.sharing.checking import GOOD, verdict
from gossamer.sharing.control import Orders
from gossamer.sharing.exchange import InProcess
from gossamer.sharing.owners import Owners
from gossamer.sharing.transfer import Transfer, leaving, unowned
from gossamer.web.url import host_key, page_keys

CONFIG = Config()
HOSTS = [f"h{number}.test" for number in range(40)]
NAMES = ("a0", "a1")
EVEN = range(0, ZONES_IN_ALL, 2)
LEFT, SWAPPED, ALL_TO_ONE = (
    ("a0",) * (ZONES_IN_ALL // 2) + ("a1",) * (ZONES_IN_ALL // 2),
    ("a0", "a1") * (ZONES_IN_ALL // 2),
    ("a1",) * ZONES_IN_ALL,
)


def zone_of_name(host: str) -> int:
    return int(zone_of_host(np.array([host_key(host)], np.uint32))[0])


def books(store: Any, exchange: Any, name: str, is_new: bool = False) -> Books:
    """As an agent opens them: one that comes back takes its chain over."""
    zones = [zone for zone, owner in enumerate(LEFT) if owner == name]
    if is_new:
        chain = Chain.open(store, name, exchange, zones)
    else:
        chain = Chain.take_over(store, name, exchange, 1.0)
    index = PageIndex.open(store, chain.files, CONFIG.index)
    order = strategy("opic-virtual")
    frontier = Frontier(index, order, CONFIG.index)
    frontier.restore(store, chain.files)
    ledger = Ledger.of(chain.state.ledger)
    return Books(store, CONFIG, chain, index, frontier, ledger, order)


def filled(store: Memory, exchange: InProcess, name: str, v: int) -> None:
    """An agent with pages in its half of the zones, some of them visited, and with a virtual page of its own."""
    mine = books(store, exchange, name, is_new=True)
    urls = [f"http://{host}/{page}" for host in HOSTS for page in range(5)]
    keys = page_keys(urls)
    urls = [url for url, zone in zip(urls, zone_of_key(keys).tolist(), strict=True) if zone in mine.chain.zones]
    update(
        mine.index, mine.frontier, mine.ledger, RoundColumns(inbox=seeds(urls, mine.ledger)), limits=CONFIG.limits,
        strategy=mine.strategy, is_own=Owners("a0", mine.chain.zones, ["a0"] * ZONES_IN_ALL).is_own, now_s=1.0,
    )  # fmt: skip
    rows = np.concatenate(list(mine.index.pages.scan()))
    rows["cash"] += np.arange(len(rows)) * 1_000 - v
    rows["hits"], rows["depth"], rows["tries"] = np.arange(len(rows)), np.arange(len(rows)) % 9, 1
    mine.ledger.minted += int(np.arange(len(rows)).sum()) * 1_000 + 17
    mine.ledger.v, mine.ledger.pool = v, 17
    seen = rows["key"][::3]
    rows["status"][::3], rows["due_s"] = Status.FETCHED, np.arange(len(rows)) + 50
    mine.index.pages.write(rows, 0)
    visited = np.zeros(len(seen), mine.index.visited.dtype)
    visited["key"], visited["digest"], visited["visits"], visited["validators"] = seen, seen ^ np.uint64(5), 2, NO_TEXT
    texts = [b"etag %d" % key for key in seen[::2].tolist()]
    visited["history"] = seen >> np.uint64(3)
    visited["validators"][::2] = mine.index.heap.append(texts)
    mine.index.visited.write(visited)
    hosts, counts = np.unique((seen >> np.uint64(40)).astype(np.uint32), return_counts=True)
    mine.index.hosts.grow(hosts, np.zeros(len(hosts), np.uint32), np.zeros(len(hosts), np.int64), counts)
    resting = {host: (100.0 + n, n) for n, host in enumerate(HOSTS[::4]) if zone_of_name(host) in mine.chain.zones}
    changes = mine.index.flush(store, mine.chain.label) | mine.frontier.flush(store, mine.chain.label)
    cookies = {host: (f'[["a","{host}",".{host}",true,"/",false,null]]',) for host in HOSTS[::3]}
    changes |= mine.kept_cookies.write(
        {host: row for host, row in cookies.items() if zone_of_name(host) in mine.chain.zones}
    )
    if name == "a1":  # a0's manifest is of an earlier version, which had hosts that rest in its state
        changes |= mine.resting.write(resting)
        resting = {}
    state = AgentState(
        ledger=mine.ledger.state(), counters=Counters(visits=len(seen), known=len(rows)), resting=resting,
        committed_s=1.0, clean=False, quiet_until_s=7.0 * (name == "a0"), epochs=mine.chain.state.epochs,
    )  # fmt: skip
    mine.chain.commit(changes, state=state, marks={}, outbox=[], exchange=exchange, applied=[], now_s=1.0)
    mine.index.release(changes)


def world() -> tuple[Memory, InProcess]:
    store, exchange = Memory(), InProcess()
    filled(store, exchange, "a0", v=333)
    filled(store, exchange, "a1", v=77_777)
    return store, exchange


def settle(store: Any, exchange: Any, owners: tuple[str, ...]) -> None:
    """Both settle until nothing moves any more."""
    for _ in range(3):
        for name in NAMES:
            Transfer(books(store, exchange, name), exchange, Orders(shares(owners)), None, 2.0).settle()


def facts(store: Memory) -> dict[str, Any]:
    """All that the agents know, whoever knows it; each thing must be known to one of them only."""
    pages: dict[int, Any] = {}
    visited: dict[int, Any] = {}
    hosts: dict[int, Any] = {}
    resting: dict[str, Any] = {}
    cookies: dict[str, Any] = {}
    owned: list[int] = []
    lacking = 0
    for name in NAMES:
        at = Chain.read(store, name)
        index, ledger = PageIndex.open(store, at.files, CONFIG.index), Ledger.of(at.state.ledger)
        rows = np.concatenate([np.zeros(0, PAGE.numpy), *index.pages.scan()])
        assert set(zone_of_key(rows["key"]).tolist()) <= set(at.zones)
        assert set(zone_of_host(index.hosts.rows["host"]).tolist()) <= set(at.zones)
        assert index.count == ledger.known == at.state.counters.known == len(rows)
        for row, url in zip(rows.tolist(), index.urls(rows), strict=True):
            assert row[0] not in pages
            pages[row[0]] = (row[1] + ledger.v, url, *row[3:])
        seen = np.concatenate([np.zeros(0, index.visited.dtype), *index.visited.scan()])
        for row in seen:
            facts = dict(zip(row.dtype.names, row.tolist(), strict=True))
            at_text = np.array([facts["validators"]], np.uint64)
            facts["validators"] = None if at_text[0] == NO_TEXT else index.heap.read(at_text)[0]
            assert facts["key"] not in visited
            visited[facts["key"]] = facts
        for host, domain, *counts in index.hosts.rows.tolist():
            assert host not in hosts
            hosts[host] = (domain, counts)
        for host, rest in Resting(store, Chain(store, at, 0)).hosts.items():
            assert zone_of_name(host) in at.zones
            resting[host] = rest
        for domain, row in RowFiles(store, Chain(store, at, 0), COOKIES, ("",)).rows.items():
            assert zone_of_name(domain) in at.zones, "here each host has a domain of its own"
            cookies[domain] = row
        owned += at.zones
        lacking += ledger.missing(int(rows["cash"].sum()))
    assert sorted(owned) == list(range(ZONES_IN_ALL)), "a zone is lost or owned twice"
    assert lacking == 0, "cash was lost or made"
    return {"pages": pages, "visited": visited, "hosts": hosts, "resting": resting, "cookies": cookies}


@pytest.mark.parametrize("owners", [SWAPPED, ALL_TO_ONE, LEFT], ids=["swapped", "all to one", "nothing moves"])
def test_everything_moves(owners: tuple[str, ...]) -> None:
    store, exchange = world()
    before = facts(store)
    assert len(before["pages"]) == 200
    assert len(before["visited"]) >= 66
    assert len(before["resting"]) == 10
    assert len(before["cookies"]) == 14
    settle(store, exchange, owners)
    assert facts(store) == before
    for name in NAMES:
        at = Chain.read(store, name)
        assert at.zones == tuple(zone for zone, owner in enumerate(owners) if owner == name)
        assert not at.outbox
    assert store.list("handover/") == [], "files of hand-overs that were taken in are gone"


def in_file(part: estate.Part) -> bytes:
    """A table as files of hand-overs had it."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, estate.schema(part.table)) as writer:
        writer.write_batch(estate.to_arrow(part))
    return sink.getvalue()


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_hand_over_of_an_earlier_protocol_is_taken_in(protocol: int) -> None:
    """Whoever wrote it had tables in files, and at first all hosts that rest in the message itself; it may be in an
    outbox, and the sender gone."""
    store, exchange = world()
    before = facts(store)
    mine = books(store, exchange, "a0")
    Transfer(mine, exchange, Orders(shares(ALL_TO_ONE)), None, 2.0).settle()
    first, *others = exchange.pending("a1", {})
    said = json.loads(first.data)
    parts = {table: estate.Part(table, np.zeros(0, dtype), []) for table, dtype in estate.DTYPES.items()}
    for part in (estate.decoded(message.data) for message in others):
        assert not len(parts[part.table].rows), "in one piece"
        parts[part.table] = part
    del parts["cookies"]  # which stayed where they were
    gone = set(named(said["zones"]))
    resting = {host: list(rest) for host, rest in before["resting"].items() if zone_of_name(host) in gone}
    assert resting
    if protocol == 1:
        del parts["resting"]
        said["resting"] = resting
    said["files"] = [f"handover/a0-{first.number:08d}-{table}.arrow" for table in parts]
    for name, part in zip(said["files"], parts.values(), strict=True):
        store.put(name, in_file(part))
    his = books(store, exchange, "a1")
    old = replace(first, data=json.dumps(said).encode(), parts=1, protocol=protocol)
    assert verdict(old, store, ())[:2] == GOOD[:2]
    Transfer(his, exchange, Orders(shares(ALL_TO_ONE)), None, 3.0).take([old])
    assert facts(store) | {"cookies": ()} == before | {"cookies": ()}


def test_rows_without_the_columns_of_later_versions_are_taken_in() -> None:
    before = [(name, VISITED.numpy[name]) for name in VISITED.names if name not in LATER]
    rows = np.zeros(3, before)
    rows["key"], rows["visits"], rows["counters3"] = [1, 2, 3], [4, 5, 6], [7, 8, 9]
    fields = [("row", pa.binary(rows.dtype.itemsize)), ("text", pa.binary())]
    batch = pa.record_batch(
        [pa.array([row.tobytes() for row in rows], fields[0][1]), [b"", b"x", b""]], pa.schema(fields)
    )
    part = estate.from_arrow(VISITED.name, batch)
    assert part.rows.dtype == VISITED.numpy
    assert part.rows[["key", "visits", "counters3", "history"]].tolist() == [(1, 4, 7, 0), (2, 5, 8, 0), (3, 6, 9, 0)]
    with pytest.raises(Unreadable):
        estate.from_arrow(PAGE.name, batch)


def test_there_and_back_again() -> None:
    store, exchange = world()
    before = facts(store)
    for owners in (SWAPPED, ALL_TO_ONE, ("a0",) * ZONES_IN_ALL, SWAPPED, LEFT):
        settle(store, exchange, owners)
        assert facts(store) == before


def test_cookies_of_a_website_are_with_all_who_have_hosts_of_it() -> None:
    """Of one that both agents know, the new owner keeps its own."""
    store, exchange = Memory(), InProcess()
    hosts = [f"h{number}.one.test" for number in range(8)]
    given = {
        "a0": [["a", "0", ".one.test", True, "/", False, None], ["b", "0", "h0.one.test", False, "/", False, None]]
    }
    given["a1"] = [["a", "1", ".one.test", True, "/", False, None]]
    for name, cookies in given.items():
        mine = books(store, exchange, name, is_new=True)
        urls = [f"http://{host}/" for host in hosts if zone_of_name(host) in mine.chain.zones]
        assert urls
        update(
            mine.index, mine.frontier, mine.ledger, RoundColumns(inbox=seeds(urls, mine.ledger)), limits=CONFIG.limits,
            strategy=mine.strategy, is_own=Owners(name, mine.chain.zones, ["a0"] * ZONES_IN_ALL).is_own, now_s=1.0,
        )  # fmt: skip
        changes = mine.index.flush(store, mine.chain.label) | mine.frontier.flush(store, mine.chain.label)
        changes |= mine.kept_cookies.write({"one.test": (json.dumps(cookies),)})
        mine.chain.commit(changes, marks={}, outbox=[], exchange=exchange, applied=[], now_s=1.0)

    def of(name: str) -> dict[str, list[Any]]:
        kept = RowFiles(store, Chain(store, Chain.read(store, name), 0), COOKIES, ("",)).rows
        return {domain: sorted(json.loads(text)) for domain, (text,) in kept.items()}

    settle(store, exchange, ALL_TO_ONE)
    assert of("a0") == {}, "it has no host of the website any more"
    assert of("a1") == {"one.test": [given["a1"][0], given["a0"][1]]}
    settle(store, exchange, LEFT)
    assert of("a0") == of("a1") == {"one.test": [given["a1"][0], given["a0"][1]]}


def test_what_pages_of_other_hosts_need_moves_too() -> None:
    """A host that only has requisites has no row of its own."""
    store, exchange = world()
    mine = books(store, exchange, "a0")
    host = next(name for number in range(99) if zone_of_name(name := f"cdn{number}.test") in mine.chain.zones)
    keys, url = page_keys([f"http://{host}/logo.png"]), f"http://{host}/logo.png"
    row = np.zeros(1, PAGE.numpy)
    row["key"], row["hops"], row["text"] = keys, REQUISITE, mine.index.heap.append([url.encode()])
    mine.index.pages.write(row, 1)
    changes = mine.index.flush(store, mine.chain.label)
    mine.chain.commit(changes, marks={}, outbox=[], exchange=exchange, applied=[], now_s=1.0)
    settle(store, exchange, ALL_TO_ONE)
    for name, is_there in (("a0", False), ("a1", True)):
        index = PageIndex.open(store, Chain.read(store, name).files, CONFIG.index)
        found, rows = index.pages.look_up(keys)
        assert found[0] == is_there
        assert not is_there or index.urls(rows) == [url]


def test_order_of_discovery_is_kept() -> None:
    """Breadth-first ranks by it."""
    store, exchange = world()

    def order(name: str) -> list[str]:
        index = PageIndex.open(store, Chain.read(store, name).files, CONFIG.index)
        rows = np.concatenate([np.zeros(0, PAGE.numpy), *index.pages.scan()])
        return index.urls(rows[np.argsort(rows["text"])])

    urls, of_one = order("a0"), order("a1")
    settle(store, exchange, ALL_TO_ONE)
    assert order("a1") == of_one + urls


def test_quiet_time_goes_with_the_zones() -> None:
    """Who hosts were contacted by, and may still be: nobody contacts them before that is over."""
    store, exchange = world()
    settle(store, exchange, SWAPPED)
    assert Chain.read(store, "a1").state.quiet_until_s == 7.0
    assert Chain.read(store, "a1").state.clean, "nothing is being fetched"
    assert Chain.read(store, "a1").state.committed_s == 2.0


def test_a_new_owner_visits_what_has_come() -> None:
    store, exchange = world()
    settle(store, exchange, ALL_TO_ONE)
    taker, giver = books(store, exchange, "a1"), books(store, exchange, "a0")
    assert len(taker.frontier.take(1_000, 10_000.0, 100)) == 200
    assert len(giver.frontier.take(1_000, 10_000.0, 100)) == 0


def test_many_pages_go_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new owner must hold what comes at a time in memory."""
    monkeypatch.setattr(transfer, "PAGES_AT_ONCE", 20)
    store, exchange = world()
    before, number = facts(store), Chain.read(store, "a0").number
    mine = books(store, exchange, "a0")
    Transfer(mine, exchange, Orders(shares(ALL_TO_ONE)), None, 2.0).settle()
    messages = [message for message in exchange.pending("a1", {}) if message.kind == ZONES and message.part == 0]
    assert len(messages) > 3
    assert all(json.loads(message.data)["pages"] <= 20 for message in messages)
    assert mine.chain.number >= number + len(messages)
    for _ in messages:
        settle(store, exchange, ALL_TO_ONE)
    assert facts(store) == before


def test_links_for_a_zone_on_its_way_wait_for_it() -> None:
    """Letters behind the hand-over are applied after it, by the new owner."""
    store, exchange = world()
    mine = books(store, exchange, "a0")
    Transfer(mine, exchange, Orders(shares(ALL_TO_ONE)), None, 2.0).settle()
    assert {message.kind for message in exchange.pending("a1", {})} == {ZONES}
    his = books(store, exchange, "a1")
    Transfer(his, exchange, Orders(shares(ALL_TO_ONE)), None, 2.0).settle()
    assert exchange.pending("a1", his.chain.marks) == []
    assert len(his.chain.zones) == ZONES_IN_ALL


def test_leaving() -> None:
    owners = ("a0", "a1", "", "a2", "a0", "a1")
    assert leaving([0, 1, 2, 3], owners, "a0") == {"a1": [1], "a2": [3]}
    assert leaving([0, 4], owners, "a0") == {}


def operations() -> list[str]:
    store, exchange = world()
    alive = Mortal(store, exchange, 10_000, True)
    settle(alive, alive, SWAPPED)
    return alive.done


@pytest.mark.parametrize("k", range(1, len(operations()) + 1))
def test_death_at_every_operation(k: int) -> None:
    store, exchange = world()
    at_first = facts(store)
    dying = Mortal(store, exchange, k, before=True)  # after it is before the next one
    with pytest.raises(Crash):
        settle(dying, dying, SWAPPED)
    settle(store, exchange, SWAPPED)
    assert facts(store) == at_first
    assert store.list("handover/") == []


def test_the_exchange_may_forget_everything() -> None:
    """What was on its way is still in the old owner's outbox."""
    store, exchange = world()
    before = facts(store)
    for name in NAMES:
        Transfer(books(store, exchange, name), exchange, Orders(shares(SWAPPED)), None, 2.0).settle()
    settle(store, InProcess(), SWAPPED)
    assert facts(store) == before


def test_nothing_to_hand_over() -> None:
    """Zones without pages move too."""
    store, exchange = Memory(), InProcess()
    for name in NAMES:
        mine = books(store, exchange, name, is_new=True)
        state = replace(mine.chain.state, ledger=mine.ledger.state(), committed_s=1.0)
        mine.chain.commit(
            mine.index.flush(store, mine.chain.label), state=state, marks={}, outbox=[], exchange=exchange, applied=[],
            now_s=1.0,
        )  # fmt: skip
    settle(store, exchange, SWAPPED)
    assert Chain.read(store, "a0").zones == tuple(EVEN)
    assert facts(store)["pages"] == {}


# What the index forgets


def check_retained(index: PageIndex, store: Memory, files: dict[str, list[str]], kept: dict[int, int]) -> None:
    for found in (index, PageIndex.open(store, files, CONFIG.index)):
        rows = np.concatenate([np.zeros(0, PAGE.numpy), *found.pages.scan()])
        assert dict(zip(rows["key"].tolist(), rows["hits"].tolist(), strict=True)) == kept
        assert found.count == len(kept)
        hosts = {key >> 40 for key in kept}
        assert {*found.hosts.rows["host"].tolist()} == hosts
        assert int(found.hosts.rows["known"].sum()) == len(kept)
        pages, _ = found.hosts.domain_counts(np.array([7], np.uint32))
        assert pages.tolist() == [len(kept)]


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=40), min_size=1, max_size=6),
    st.sets(st.integers(0, 9)),
    st.sampled_from([1, 40]),
)
def test_retain_keeps_what_it_shall(rounds: list[list[tuple[int, int]]], zones: set[int], deltas: int) -> None:
    """Whatever mixture of base, runs and deltas there was; and it goes on afterwards."""
    store, files, kept, number = Memory(), dict[str, list[str]](), dict[int, int](), 0
    index = PageIndex.open(store, files, CONFIG.index)

    def commit(changes: Changes) -> None:
        nonlocal number
        number += 1
        for kind in {**changes.added, **changes.removed}:
            names = [*files.get(kind, []), *changes.added.get(kind, [])]
            files[kind] = [name for name in names if name not in changes.removed.get(kind, [])]
        index.release(changes)

    def write(pages: list[tuple[int, int]]) -> None:
        keys = np.array(sorted({zone << 56 | (page % 3) << 40 | page for zone, page in pages}), np.uint64)
        rows = np.zeros(len(keys), PAGE.numpy)
        rows["key"], rows["hits"] = keys, number + 1
        new = np.array([key not in kept for key in keys.tolist()], bool)
        index.pages.write(rows)
        hosts, counts = np.unique((keys[new] >> np.uint64(40)).astype(np.uint32), return_counts=True)
        index.hosts.grow(hosts, np.full(len(hosts), 7, np.uint32), counts, np.zeros(len(hosts), np.int64))
        kept.update(dict.fromkeys(keys.tolist(), number + 1))
        commit(index.flush(store, f"a0-{number + 1:08d}"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "MAX_DELTAS", deltas)
        for pages in rounds:
            write(pages)
        commit(index.retain(store, f"a0-{number + 1:08d}", lambda hosts: np.isin(hosts >> 16, list(zones))))
        kept = {key: hits for key, hits in kept.items() if key >> 56 in zones}
        check_retained(index, store, files, kept)
        write(rounds[0])
        check_retained(index, store, files, kept)


# Who begins


def test_zones_of_nobody() -> None:
    """The first agent gets them all, also if others were quicker to begin; whatever somebody has is left alone."""
    store, exchange = Memory(), InProcess()
    Chain.take_over(store, "a1", exchange, 1.0)
    assert unowned(store) == list(range(ZONES_IN_ALL))
    Chain.take_over(store, "a0", exchange, 1.0, zones=unowned(store))
    assert len(Chain.read(store, "a0").zones) == ZONES_IN_ALL
    assert unowned(store) == []
    store, exchange = world()
    Transfer(books(store, exchange, "a0"), exchange, Orders(shares(ALL_TO_ONE)), None, 2.0).settle()
    assert len(Chain.read(store, "a0").zones) == 0
    assert unowned(store) == [], "on their way"


def test_of_two_who_begin_a_chain_one_is_deposed() -> None:
    """Else a process that hung at its start would write over what its successor has committed under the same names."""
    store, exchange = Memory(), InProcess()
    first = Chain.take_over(store, "a1", exchange, 1.0)
    second = Chain.take_over(store, "a1", exchange, 1.0)
    assert first.label != second.label
    with pytest.raises(Deposed):
        first.commit(Changes(), marks={}, outbox=[], exchange=exchange, applied=[], now_s=1.0)

"""What reaches an agent besides its pages: seeds of other agents' zones, news, messages that must wait."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import LINKS, NEWS, ZONES, Changes, Message
from gossamer.archive.state import AgentState
from gossamer.archive.store import Memory
from gossamer.archive.zones import ZONES_IN_ALL, shares
from gossamer.columns import Contributions
from gossamer.config import Config
from gossamer.crawl.inbox import Inbox, decode, encode, high_water
from gossamer.crawl.ledger import SEED_CASH, Ledger
from gossamer.crawl.opening import mentioned
from gossamer.crawl.scope import Naming
from gossamer.crawl.update import RoundColumns, update
from gossamer.frontier.pages import PageIndex, zone_of_key
from gossamer.frontier.strategies import strategy
from gossamer.sharing.control import Orders
from gossamer.sharing.exchange import InProcess, Joined
from gossamer.sharing.incoming import Incoming, numbered_parts
from gossamer.sharing.transfer import arrivals
from gossamer.web.url import page_keys

OWNERS = ("a0", "a1") * (ZONES_IN_ALL // 2)
URLS = [f"http://h{number}.test/" for number in range(40)]


class Desk:
    """One agent's chain, index and ledger, without the crawling."""

    def __init__(self, name: str, scope: str = "host", urls: Any = (), files: Any = (), **shared: Any) -> None:
        self.store = shared.get("store") or Memory()
        self.exchange = shared.get("exchange") or InProcess()
        zones = [zone for zone, owner in enumerate(OWNERS) if owner == name]
        self.name, self.scope = name, scope
        self.chain = Chain.open(self.store, name, self.exchange, zones)
        self.index = PageIndex.open(self.store, {}, Config().index)
        self.ledger = Ledger()
        self.others = {"a0": 0, "a1": 0, "a2": 0}
        del self.others[name]
        self.owners = OWNERS
        self.incoming = Incoming(self.store, self.chain, self.exchange, scope)
        self.incoming.seeds += urls
        self.incoming.files.add(files)

    def commit(self, more: list[Message] | None = None) -> Contributions:
        messages = self.incoming.messages()
        orders = Orders(shares(self.owners), others=self.others)
        arrived = self.incoming.arrived(messages, [], [], self.index, self.ledger, orders)
        self.chain.commit(
            arrived.changes, state=AgentState(seed_files=self.incoming.files.state()), marks=high_water(messages),
            outbox=numbered_parts(arrived.outbox + (more or [])), exchange=self.exchange,
            applied=[(message.stream, message.number) for message in messages], now_s=1.0,
        )  # fmt: skip
        return arrived.rows

    def message(self, to: str, kind: str, data: bytes) -> Message:
        return Message(self.name, self.chain.round, 0, to, data, kind)


def pair(**options: Any) -> tuple[Desk, Desk]:
    exchange, store = InProcess(), Memory()
    one = Desk("a0", exchange=exchange, store=store, **options)
    return one, Desk("a1", exchange=exchange, store=store, scope=one.scope)


def of(name: str, urls: list[str] = URLS) -> set[str]:
    zones = zone_of_key(page_keys(urls)).tolist()
    return {url for url, zone in zip(urls, zones, strict=True) if OWNERS[zone] == name}


def test_seeds_reach_the_owners_of_their_zones() -> None:
    one, other = pair(urls=URLS)
    rows = one.commit()
    assert set(rows.url) == of("a0")
    rows = other.commit()
    assert set(rows.url) == of("a1")
    assert of("a0")
    assert of("a1")
    assert one.ledger.minted == len(of("a0")) * SEED_CASH, "whoever knows the page mints its cash"
    assert other.ledger.minted == int(rows.cash.sum()) == len(of("a1")) * SEED_CASH


def test_seeds_of_a_file_and_of_the_inbox_too(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("".join(f"{url}\n" for url in URLS[:20]))
    store = Memory()
    inner = InProcess()
    exchange = Joined(inner, Inbox(store))
    one = Desk("a0", files=[file], exchange=exchange, store=store)
    other = Desk("a1", exchange=inner, store=store)
    Inbox(store).add(encode(mentioned(URLS[20:]))[0])
    one.incoming.read(one.incoming.messages(), 1.0)
    assert set(one.commit().url) == of("a0")
    assert set(other.commit().url) == of("a1")
    assert one.commit().url == []
    assert one.chain.state.seed_files == {str(file): file.stat().st_size}


@pytest.mark.parametrize("name", [b"seeds.txt", b"not UTF-8: \xff\xe9.txt"])
def test_seeds_are_read_once_however_often_the_agent_opens(tmp_path: Path, name: bytes) -> None:
    file = tmp_path / os.fsdecode(name)
    file.write_text(f"{URLS[0]}\n")
    one = Desk("a0", files=[file])
    one.incoming.read(one.incoming.messages(), 1.0)
    one.commit()
    again = Incoming(one.store, one.chain, one.exchange, "host")
    again.read(again.messages(), 1.0)
    assert again.seeds == []
    with file.open("a") as more:
        more.write(f"{URLS[1]}\n")
    again.read(again.messages(), 1.0)
    assert again.seeds == [URLS[1]], "and files that were given once are followed"


def test_a_seed_that_is_known_brings_no_cash() -> None:
    one = Desk("a0", urls=sorted(of("a0")))
    rows = one.commit()
    table = np.zeros(len(rows.key), one.index.pages.dtype)
    table["key"] = np.sort(rows.key)
    one.index.pages.write(table)
    one.incoming.seeds = sorted(of("a0"))
    again = one.commit()
    assert (again.cash.sum(), again.hits.sum()) == (0, 0)
    assert one.ledger.minted == len(of("a0")) * SEED_CASH


def test_everybody_hears_of_new_hosts() -> None:
    one, other = pair(urls=URLS)
    assert not other.incoming.scope.admits("http://h3.test/deep")
    one.commit()
    assert one.incoming.scope.admits("http://h3.test/deep")
    assert [message.kind for message in one.exchange.pending("a2", {})] == [NEWS]
    other.commit()
    assert all(other.incoming.scope.admits(url) for url in URLS)
    late = Incoming(one.store, Chain.open(one.store, "a3", InProcess(), ()), InProcess(), "host")
    assert all(late.scope.admits(url) for url in URLS), "who begins later reads it in the archive"


def test_a_share_of_the_pool() -> None:
    one, other = pair()
    one.commit([one.message("a1", NEWS, json.dumps({"pool": 25}).encode())])
    other.commit()
    assert other.ledger.pool == 25
    other.commit()
    assert other.ledger.pool == 25, "once"


def links(urls: list[str]) -> bytes:
    return encode(mentioned(urls))[0]


def test_links_behind_a_zone_wait_for_it() -> None:
    one, other = pair()
    urls = sorted(of("a1"))
    one.commit([one.message("a1", LINKS, links(urls[:1]))])
    one.commit([one.message("a1", ZONES, b"{}")])
    one.commit([one.message("a1", LINKS, links(urls[1:2]))])
    assert [decode(message.data).url for message in other.incoming.messages()] == [urls[:1]]
    assert not arrivals(one.exchange, other.chain, (), None), "first what is before it"
    assert other.commit().url == urls[:1]
    assert other.incoming.messages() == []
    (message,) = arrivals(one.exchange, other.chain, (), None)
    marks = high_water(message)
    other.chain.commit(Changes(), marks=marks, outbox=[], exchange=one.exchange, applied=list(marks.items()), now_s=1.0)
    assert not arrivals(one.exchange, other.chain, (), None)
    assert other.commit().url == urls[1:2]


def test_a_zone_bars_only_its_own_stream() -> None:
    one, other = pair()
    third = Desk("a2", exchange=one.exchange, store=one.store)
    urls = sorted(of("a1"))
    one.commit([one.message("a1", ZONES, b"{}")])
    third.commit([third.message("a1", LINKS, links(urls[:1]))])
    assert other.commit().url == urls[:1]


@pytest.fixture
def expecting() -> Desk:
    """It was told that all zones will be its own, and has seeds of one that has not come."""
    one = Desk("a0", urls=sorted(of("a1")))
    one.owners = ("a0",) * ZONES_IN_ALL
    assert one.commit().url == []
    return one


def test_what_we_sent_ourselves_waits_until_we_open_anew(expecting: Desk) -> None:
    for _ in range(3):
        assert expecting.commit().url == []
    sent = expecting.chain.snapshot.sent["a0>a0"]
    assert sent == 1, "it does not go round and round"
    everything = Chain.take_over(expecting.store, "a0", expecting.exchange, 1.0)
    everything.commit(
        Changes(), marks={}, outbox=[], exchange=expecting.exchange, applied=[], now_s=1.0, zones=range(ZONES_IN_ALL)
    )
    expecting.chain = everything
    expecting.incoming = Incoming(expecting.store, everything, expecting.exchange, "host")
    assert set(expecting.commit().url) == of("a1")


def test_what_we_sent_ourselves_goes_on_when_the_zone_goes_elsewhere(expecting: Desk) -> None:
    """Else it would wait for ever, and the crawl with it."""
    expecting.owners = OWNERS
    expecting.incoming.owners_changed()
    assert expecting.commit().url == []
    other = Desk("a1", exchange=expecting.exchange, store=expecting.store)
    assert set(other.commit().url) == of("a1")
    assert expecting.exchange.pending("a0", expecting.chain.marks) == []


def test_parts_are_numbered_per_receiver() -> None:
    to = ["a1", "a2", "a1", "a1"]
    messages = numbered_parts(Message("a0", 7, 0, name, b"%d" % place) for place, name in enumerate(to))
    assert [(message.to, message.part, message.data) for message in messages] == [
        ("a1", 0, b"0"), ("a2", 0, b"1"), ("a1", 1, b"2"), ("a1", 2, b"3"),
    ]  # fmt: skip


def test_a_known_page_that_becomes_a_seed_is_no_longer_deep() -> None:
    one = Desk("a0", urls=sorted(of("a0")))
    update(one.index, None, one.ledger, RoundColumns(inbox=one.commit()), limits=Config().limits,
           strategy=strategy("opic"), now_s=1.0)  # fmt: skip
    one.incoming.seeds = sorted(of("a0"))
    again = one.commit()
    assert set(again.url) == of("a0")
    assert (again.cash.sum(), again.hits.sum(), again.depth.max()) == (0, 0, 0)


def test_sitemaps_elsewhere_are_told_to_the_other_agents() -> None:
    one, other = pair()
    messages = one.incoming.messages()
    orders = Orders(shares(one.owners), others=one.others)
    naming = Naming("a.test", "http://cdn.test/s.xml")
    arrived = one.incoming.arrived(messages, [], [naming], one.index, one.ledger, orders)
    one.chain.commit(
        arrived.changes, marks={}, outbox=numbered_parts(arrived.outbox), exchange=one.exchange,
        applied=[], now_s=1.0,
    )  # fmt: skip
    assert one.incoming.named.hosts(naming.sitemap) == {"a.test"}
    other.commit()
    assert other.incoming.named.hosts(naming.sitemap) == {"a.test"}
    again = Incoming(other.store, other.chain, other.exchange, "host")
    assert again.named.hosts(naming.sitemap) == {"a.test"}, "it is in the archive"

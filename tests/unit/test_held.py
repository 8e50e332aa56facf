"""Links for other agents are held back while they are few: none is lost by it, and none is sent twice."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from experiments.scale_world import Shape, World
from gossamer.archive.chain import Chain
from gossamer.archive.manifest import HELD, LINKS, NEWS, SEEDS, Message, Snapshot
from gossamer.archive.store import Memory
from gossamer.archive.zones import ZONES_IN_ALL, as_ranges
from gossamer.cluster.plan import is_shared, shared_out
from gossamer.columns import PAGE, Contributions
from gossamer.crawl.inbox import decode, encode
from gossamer.frontier.pages import zone_of_key
from gossamer.frontier.targets import added_up
from gossamer.sharing import held
from gossamer.sharing.exchange import InProcess
from gossamer.sharing.held import Held
from gossamer.sharing.owners import Owners
from gossamer.web.url import page_keys

NAMES = ["a0", "a1", "a2", "a3"]
OWNERS = shared_out({}, NAMES)


def links(rng: random.Random, most: int) -> Contributions:
    """Links to pages of others than a0, some of them the same as in other rounds."""
    urls = sorted({f"http://h{rng.randrange(200)}.test/{rng.randrange(50)}" for _ in range(rng.randrange(most))})
    keys = page_keys(urls)
    others = np.flatnonzero(np.array([OWNERS[zone] != "a0" for zone in zone_of_key(keys).tolist()], np.bool_))
    count = len(others)
    cash = np.array([rng.randrange(1, 1000) for _ in range(count)], np.int64)
    zero = np.zeros(count, np.uint8)
    return Contributions(
        keys[others], cash, np.ones(count, np.int32), zero, zero, keys[others], [urls[at] for at in others.tolist()]
    )


@dataclass
class Sender:
    """a0, which may be killed between two commits, and what it has sent."""

    store: Memory = field(default_factory=Memory)
    sent: list[Contributions] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        zones = [zone for zone, owner in enumerate(OWNERS) if owner == "a0"]
        self.chain = Chain.open(self.store, "a0", InProcess(), zones)
        self.held = Held(self.store, self.chain)

    def round(self, found: Contributions, is_full: bool, is_killed: bool = False, has_time: bool = False) -> None:
        rows, owners = added_up([self.held.of_before, found]), Owners("a0", self.chain.zones, OWNERS)
        out, changes = self.held.divided(rows, owners, len(NAMES) - 1, is_full, has_time)
        if is_killed:
            self.begin()
            return
        self.chain.commit(changes, marks={}, outbox=[], exchange=InProcess(), applied=[], now_s=1.0)
        self.sent.append(out)

    @property
    def is_empty(self) -> bool:
        return not self.held and not self.chain.files.get(HELD) and not self.store.list(f"outbox/{HELD}")


def sums(parts: list[Contributions]) -> dict[str, tuple[int, int]]:
    rows = added_up(parts)
    return {url: each for url, *each in zip(rows.url, rows.cash.tolist(), rows.hits.tolist(), strict=True)}  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_all_links_are_sent_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "ENOUGH", 40)
    rng, sender, made = random.Random(seed), Sender(), list[Contributions]()
    for _ in range(40):
        found, is_killed = links(rng, 60), rng.random() < 0.2
        found = depths(found) if rng.random() < 0.3 else found
        sender.round(found, rng.random() < 0.7, is_killed, has_time=rng.random() < 0.5)
        made += [] if is_killed else [found]  # a round that was killed is fetched again
        if rng.random() < 0.1:
            sender.begin()
    sender.round(Contributions.none(), is_full=False)
    assert sender.is_empty
    assert sums(sender.sent) == sums(made)
    assert any(not len(each.key) for each in sender.sent)


def depths(found: Contributions) -> Contributions:
    """The same links, which say only that the pages are less deep than was known."""
    return found._replace(cash=0 * found.cash, hits=0 * found.hits)


def test_depths_wait_once_while_others_work() -> None:
    rng, sender = random.Random(4), Sender()
    first, second = depths(links(rng, 60)), depths(links(rng, 60))
    sender.round(first, is_full=False, has_time=True)
    assert not len(sender.sent[-1].key)
    assert sender.held
    assert sender.held.has_time
    sender.round(second, is_full=False, has_time=True)
    assert sender.is_empty
    assert {*sender.sent[-1].key.tolist()} == {*first.key.tolist(), *second.key.tolist()}
    sender.round(first, is_full=False, has_time=False)
    assert sender.is_empty, "nobody works: the end of the crawl waits for these"


def test_whatever_brings_more_than_depths_goes_at_once() -> None:
    rng, sender = random.Random(5), Sender()
    found = links(rng, 60)
    sender.round(found, is_full=False, has_time=True)
    assert sums(sender.sent) == sums([found])
    assert sender.is_empty
    sender.round(found, is_full=True, has_time=True)
    assert not sender.held.has_time, "a full round's links have no time once the agent has nothing to do"
    sender.begin()
    assert not sender.held.has_time, "nor have those of a run before"


def test_a_round_that_is_not_full_sends_all() -> None:
    rng, sender = random.Random(1), Sender()
    sender.round(links(rng, 60), is_full=True)
    assert not len(sender.sent[-1].key)
    assert not sender.is_empty
    sender.round(links(rng, 60), is_full=False)
    assert len(sender.sent[-1].key) > 10
    assert sender.is_empty


def test_nothing_is_held_for_more_rounds_than_that() -> None:
    rng, sender = random.Random(2), Sender()
    for _ in range(held.ROUNDS * (len(NAMES) - 1)):
        sender.round(links(rng, 20), is_full=True)
        assert not len(sender.sent[-1].key)
    sender.round(links(rng, 20), is_full=True)
    assert sender.is_empty
    assert sum(len(each.key) > 0 for each in sender.sent) == 1


def test_what_is_much_goes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "ENOUGH", 50)
    found = links(random.Random(3), 2_000)
    of_a1 = found.take(np.flatnonzero([OWNERS[zone] == "a1" for zone in zone_of_key(found.key).tolist()])[:60])
    of_a2 = found.take(np.flatnonzero([OWNERS[zone] == "a2" for zone in zone_of_key(found.key).tolist()])[:10])
    sender = Sender()
    sender.round(Contributions.joined([of_a1, of_a2]), is_full=True)
    assert sums(sender.sent) == sums([of_a1])
    sender.round(Contributions.none(), is_full=False)
    assert sums(sender.sent) == sums([of_a1, of_a2])


def test_whoever_holds_links_is_not_alone() -> None:
    """Nor is its crawl over: an agent that was killed goes on, though its zones are with others by now."""
    everything = as_ranges(range(ZONES_IN_ALL))
    at = Snapshot("a0", ranges=everything)
    holding = Snapshot("a0", ranges=everything, files={HELD: ["outbox/held/a0-00000001-0000.arrow"]})
    assert not is_shared({"a0": at}, "a0", 1)
    assert is_shared({"a0": holding}, "a0", 1)


def test_with_full_rounds_messages_grow_with_neither_rounds_nor_agents() -> None:
    """A message per round and agent, more or less, where there were twice as many as other agents."""
    sent = []
    for agents in (2, 8):
        world = World(Shape(agents=agents, hosts=600, links=60_000, visits=20, onward=3, is_full=True))
        world.rounds(2 * held.ROUNDS * agents)
        assert world.missing() == 0
        sent.append(world.wires.sent["within_messages"] / world.wires.sent["commits"])
        for _ in range(3 * agents):
            world.turn(is_idle=True)
        assert not any(agent.peers.is_holding for agent in world.agents)
        assert world.missing() == 0
    assert sent[1] < 1.3 * sent[0] < 1


def test_links_that_are_ours_by_now_are_taken_in_at_once() -> None:
    """The host was undecided when they were found. They go out to ourselves; such a message waits for zones that are on
    their way to us, and there are none: it would wait for ever, and all sites with it."""
    world = World(Shape(agents=2, hosts=50, links=500))
    agent = world.sites[0].home
    chain, urls = agent.books.chain, [f"http://h{at}.test/" for at in range(50)]
    own = [url for url, is_own in zip(urls, agent.peers.is_own(page_keys(urls)), strict=True) if is_own]
    found = decode(message(own[:2], 1).data)
    agent.peers._held._parts.append(found._replace(cash=np.zeros(2, np.int64)))
    for _ in range(4):
        world.turn(is_idle=True)
    stream = f"{chain.agent}>{chain.agent}"
    assert chain.snapshot.sent[stream] > 0
    assert chain.marks.get(stream) == chain.snapshot.sent[stream]
    assert not agent.peers.is_holding


# Messages with nothing but cash


def message(urls: list[str], number: int, kind: str = LINKS) -> Message:
    keys, count = page_keys(urls), len(urls)
    zero = np.zeros(count, np.uint8)
    rows = Contributions(keys, np.ones(count, np.int64), np.ones(count, np.int32), zero, zero, keys, urls)
    return Message("a1", number, 0, "a0", encode(rows)[0], kind)


@pytest.mark.parametrize("agents", [2, 20])
def test_while_others_work_they_wait_for_longer(agents: int) -> None:
    world = World(Shape(agents=agents, hosts=50, links=500))
    agent = world.sites[0].home
    urls = [f"http://h{at}.test/" for at in range(500)]
    own = [url for url, is_own in zip(urls, agent.peers.is_own(page_keys(urls)), strict=True) if is_own]
    rows = np.zeros(1, PAGE.numpy)
    rows["key"] = page_keys(own[:1])
    agent.books.index.pages.write(rows, 1)
    before = agent.peers.may_wait([message(own[:1], 1)])
    world.sites[0].others_work = True
    agent._look()  # orders come
    assert agent.peers.may_wait([message(own[:1], 1)]) > before
    assert agent.peers.may_wait([message(own[:2], 2)]) == 0, "a page that is to be visited"
    agent.peers._held._parts.append(links(random.Random(6), 60))
    assert agent.peers.may_wait([]) == 0, "cash that others wait for is held back"


@pytest.mark.parametrize("agents", [2, 20])
def test_messages_with_nothing_but_cash_wait_for_more(agents: int) -> None:
    world = World(Shape(agents=agents, hosts=50, links=500))
    agent = world.sites[0].home
    urls = [f"http://h{at}.test/" for at in range(500)]
    is_own = agent.peers.is_own(page_keys(urls))
    *known, new = [url for url, own in zip(urls, is_own, strict=True) if own][:4]
    other = next(url for url, own in zip(urls, is_own, strict=True) if not own)
    rows = np.zeros(3, PAGE.numpy)
    rows["key"] = np.sort(page_keys(known))
    agent.books.index.pages.write(rows, 3)
    may_wait = agent.peers.may_wait
    assert may_wait([message(known[:2], 1), message(known[2:], 2)]) == min(2.0, 0.125 * (agents - 1))
    assert may_wait([message(known[:2], 1), message([known[0], new], 3)]) == 0, "a page that is to be visited"
    assert may_wait([message([known[0], other], 4)]) == 0, "its owner waits for it"
    assert may_wait([message(known, 5), Message("a1", 6, 0, "a0", b"{}", NEWS)]) == 0
    assert may_wait([message(known, 7, SEEDS)]) == 0
    assert may_wait([message(known, 8)]) > 0

"""The commit protocol, above all what a crash at each of its steps leaves."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from earlier_archives import rewritten

from gossamer.archive.chain import FULL_EVERY, Chain
from gossamer.archive.manifest import ANY, BUNDLE, LINKS, NEWS, PROTOCOL, SEEDS, ZONES, Changes, Message
from gossamer.archive.state import AgentState, Counters, replace
from gossamer.archive.store import Directory, Memory, Store
from gossamer.crawl.inbox import Inbox, high_water
from gossamer.errors import ArchiveError, Deposed
from gossamer.sharing.exchange import InProcess


class Crash(BaseException):
    """The process dies: nobody may catch it."""


class Wide(InProcess):
    """With the agent a3, which commits what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[Message] = []

    def take(self) -> list[bytes]:
        """Whatever a3 has ever got."""
        ready = self.pending("a3", high_water(self.received))
        self.received += ready
        for stream, number in high_water(ready).items():
            self.acknowledge(stream, number)
        return [message.data for message in self.received]


class Mortal:
    """A store and an exchange that die at operation `limit`, before it or after it has had its effect."""

    def __init__(self, store: Store, exchange: Wide, limit: int, before: bool) -> None:
        self._inner: tuple[Store, Wide] = (store, exchange)
        self._left, self._before = limit, before
        self.done: list[str] = []

    def __getattr__(self, name: str) -> Any:
        store, exchange = self._inner
        method = getattr(exchange if hasattr(exchange, name) else store, name)
        if name not in ("put", "create", "delete", "publish", "acknowledge"):
            return method
        return lambda *args: self._act(name, method, args)

    def _act(self, name: str, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        self._left -= 1
        if self._left < 0 or (self._left == 0 and self._before):
            raise Crash
        result = method(*args)
        self.done.append(name)
        if self._left == 0:
            raise Crash
        return result

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        return self._inner[1].pending(to, marks)


def commit(chain: Chain, exchange: Any, changes: Changes | None = None, **given: Any) -> None:
    values: dict[str, Any] = {"marks": {}, "outbox": [], "applied": [], "now_s": 1.0}
    chain.commit(changes or Changes(), exchange=exchange, **(values | given))


def counted(visits: int) -> AgentState:
    return AgentState(counters=Counters(visits=visits))


def crawl(store: Any, exchange: Any, rounds: int) -> None:
    """An agent whose rounds apply what comes in, tell a3 of it, and replace one file by another."""
    chain = Chain.open(store, "a0", exchange, zones=[1])
    while chain.number < rounds:
        ready = exchange.pending("a0", chain.marks)
        marks = high_water(ready)
        name = f"warc/a0-{chain.round:08d}-0.warc.gz"
        store.put(name, b"%d" % chain.round)
        total = chain.state.counters.visits + sum(int(b.data) for b in ready)
        send = [Message("a0", chain.round, part, "a3", b"%d/%d" % (chain.round, part)) for part in range(2)]
        changes = Changes({"warc": [name]}, {"warc": chain.files.get("warc", [])[:-1]})
        state = counted(total)
        commit(chain, exchange, changes, state=state, marks=marks, outbox=send, applied=list(marks.items()))
        exchange.take()


def told(rounds: int) -> list[bytes]:
    return [b"%d/%d" % (n, p) for n in range(1, rounds + 1) for p in range(2)]


def seeded() -> tuple[Memory, Wide]:
    exchange = Wide()
    for number in range(1, 4):
        exchange.publish(Message("b", number, 0, "a0", b"%d" % 10**number, previous=number - 1))
    return Memory(), exchange


def operations() -> list[str]:
    store, exchange = seeded()
    alive = Mortal(store, exchange, 10_000, True)
    crawl(alive, alive, 3)
    return alive.done


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("k", range(1, len(operations()) + 1))
def test_crash_at_every_operation(k: int, before: bool) -> None:
    store, exchange = seeded()
    dying = Mortal(store, exchange, k, before)
    with pytest.raises(Crash):
        crawl(dying, dying, 3)
    step, made = operations()[k - 1], Chain.read(store, "a0").number

    chain = Chain.open(store, "a0", exchange)
    # Steps 1 and 2: the round is there wholly or not at all.
    assert chain.number == made == dying.done.count("create")
    assert {name for prefix in ("warc/", "outbox/", "tmp/") for name in store.list(prefix)} == (
        Chain.read(store, "a0").names()
    ), "unnamed files are swept, named ones are there"
    # Step 3: whatever the manifests name is published.
    assert exchange.take() == told(made), step
    # Step 4: what was applied does not come again.
    assert all(b.number > chain.marks.get(b.stream, 0) for b in exchange.pending("a0", chain.marks))

    crawl(store, exchange, 3)
    end = Chain.read(store, "a0")
    assert end.state == counted(1110)
    assert exchange.pending("a0", end.marks) == []
    assert exchange.take() == told(3)
    assert {message.message.number for message in end.outbox} == {3}, "what is confirmed is no longer named"
    assert len(store.list("outbox/")) == 1, "both travel together"
    assert store.get("warc/a0-00000003-0.warc.gz") == b"3"


def test_the_simulation_has_every_step() -> None:
    assert set(operations()) == {"put", "create", "publish", "acknowledge", "delete"}
    first = operations()[: operations().index("create") + 1]
    assert first == ["put", "put", "create"], "all files of a round are durable before the manifest"


def test_crash_while_recovering() -> None:
    """Recovery itself may be interrupted as often as it likes."""
    store, exchange = seeded()
    with pytest.raises(Crash):
        crawl(*[Mortal(store, exchange, 4, False)] * 2, 3)
    for k in range(1, 4):
        store.put("warc/a0-00000002-0.warc.gz", b"left over")
        dying = Mortal(store, exchange, k, True)
        with pytest.raises(Crash):
            Chain.open(dying, "a0", dying)
    crawl(store, exchange, 3)
    assert Chain.read(store, "a0").state == counted(1110)


def test_new_chain() -> None:
    chain = Chain.open(Memory(), "a0", InProcess(), zones=range(4))
    assert (chain.number, chain.round, chain.epoch, chain.zones, chain.files) == (0, 1, 1, (0, 1, 2, 3), {})


def test_state_comes_back_as_it_will_be_read() -> None:
    store, exchange = Memory(), InProcess()
    chain = Chain.open(store, "a0", exchange)
    offsets = {"seeds.txt": np.int64(3)}
    state = AgentState(seed_files=offsets, epochs={1: 2}, resting={"a.test": (np.float64(2.5), 1)})
    commit(chain, exchange, state=state, marks={"seeds": 4})
    offsets["seeds.txt"] = np.int64(5)
    commit(chain, exchange, state=replace(chain.state, busy_s=4.0))
    commit(chain, exchange)
    expected = AgentState(seed_files={"seeds.txt": 3}, epochs={1: 2}, resting={"a.test": (2.5, 1)}, busy_s=4.0)
    assert chain.state == expected
    again = Chain.open(store, "a0", exchange)
    assert (again.state, again.marks, again.number) == (expected, {"seeds": 4}, 3)
    with pytest.raises(TypeError, match="object"):
        commit(chain, exchange, state=AgentState(order=object()))  # type: ignore[arg-type]
    with pytest.raises(msgspec.ValidationError, match=r"Expected `str`, got `int` - at `\$.order`"):
        commit(chain, exchange, state=AgentState(order=4))  # type: ignore[arg-type]
    assert (Chain.read(store, "a0").number, chain.number) == (3, 3)


def test_deltas_full_ones_and_forgetting() -> None:
    store, exchange = Memory(), InProcess()
    chain = Chain.open(store, "a0", exchange, zones=[7])
    for number in range(1, 3 * FULL_EVERY + 5):
        name = f"warc/{number}"
        store.put(name, b"")
        removed = {"warc": [f"warc/{number - 2}"]} if number > 2 else {}
        commit(chain, exchange, Changes({"warc": [name]}, removed), state=counted(number), now_s=float(number))
        read = Chain.read(store, "a0")
        assert (read.number, read.zones, read.time_s) == (number, (7,), number)
        assert read.files == chain.files == {"warc": [f"warc/{n}" for n in (number - 1, number) if n > 0]}
        if number % 10 == 0:
            chain = Chain.open(store, "a0", exchange)
    kept = [int(name[-13:-5]) for name in store.list("manifest/")]
    assert kept == list(range(2 * FULL_EVERY + 1, 3 * FULL_EVERY + 5))
    assert store.list("warc/") == sorted(chain.files["warc"])


def test_two_owners() -> None:
    store, exchange = Memory(), InProcess()
    old = Chain.open(store, "a0", exchange, zones=[1, 2])
    commit(old, exchange, state=counted(1), marks={"seeds": 1})
    store.put(f"warc/a0-{old.round:08d}-0.warc.gz", b"old")
    new = Chain.take_over(store, "a0", exchange, 2.0)
    assert (new.number, new.epoch, new.zones, new.state, new.marks) == (
        2,
        2,
        (1, 2),
        replace(counted(1), epochs={2: 2}),
        {"seeds": 1},
    )
    assert new.round > old.round, "their files have different names"
    assert store.list("warc/") == []
    with pytest.raises(Deposed, match="taken this crawl over"):
        commit(old, exchange, state=counted(99))
    commit(new, exchange)
    assert Chain.read(store, "a0").state.counters.visits == 1
    assert Chain.read(store, "a0").epoch == 2


def test_sweeping_spares_other_agents_the_inbox_and_strangers() -> None:
    store, exchange = Memory(), InProcess()
    other = Chain.open(store, "a00", exchange)
    store.put("index/named", b"")
    commit(other, exchange, Changes({"index.x": ["index/named"]}))
    mine = [
        "warc/a0-00000001-0.warc.gz",
        "tables/visits-a0-00000001.parquet",
        "tmp/warc+a0-00000001-0.warc.gz",
    ]
    spared = ["warc/a00-00000002-0.warc.gz", "index/named", "index/page-1", "inbox/seeds-000000000001.arrow"]
    for name in (*mine, *spared, "logs/today"):
        store.put(name, b"")
    Chain.open(store, "a0", exchange)
    everything = [name for name in store.list("") if not name.startswith("manifest/")]
    assert everything == sorted([*spared, "logs/today"])


def crawled(rounds: int, path: Path | None = None) -> tuple[Store, Wide]:
    exchange = Wide()
    store: Store = Directory.prepare(path, 1.0) if path else Memory()
    crawl(store, exchange, rounds)
    return store, exchange


def everything(store: Store) -> dict[str, bytes]:
    return {name: store.get(name) for name in store.list("")}


@pytest.mark.parametrize("lost", [range(1, 9), range(5, 9), range(7, 9)], ids=["all", "newest four", "newest two"])
def test_nothing_is_deleted_when_manifests_are_missing(lost: range) -> None:
    """Files of rounds that no manifest speaks of are no rubbish: whoever finds them stops, and says so."""
    store, exchange = crawled(8)
    store.put("warc/a0-00000005-0.warc.gz", b"all that the round brought")
    for number in lost:
        store.delete(f"manifest/a0/{number:08d}.json")
    before = everything(store)
    with pytest.raises(ArchiveError, match=r"Nothing was .*`gossamer repair DIR --dry-run`"):
        Chain.open(store, "a0", exchange)
    assert everything(store) == before


def test_what_is_there_is_told() -> None:
    store, exchange = Memory(), InProcess()
    for name in ("warc/a0-00000003-0.warc.gz", "tables/visits-a0-00000002-00000007-00000009.parquet"):
        store.put(name, b"")
    with pytest.raises(
        ArchiveError, match=r"2 files .*\(1 visits, 1 warc; rounds 2 to 9\), and there is no manifest of a0"
    ):
        Chain.open(store, "a0", exchange)


def test_files_of_an_agent_without_manifests_stop_the_others() -> None:
    store, exchange = crawled(2)
    store.put("warc/a1-00000007-0.warc.gz", b"")
    with pytest.raises(ArchiveError, match="manifests are probably missing"):
        Chain.open(store, "a0", exchange)
    assert store.get("warc/a1-00000007-0.warc.gz") == b""


def test_a_full_manifest_says_what_its_commit_removed() -> None:
    """A crash before the deletion must not look as if manifests were missing; nor a power cut that undoes it."""
    store, exchange = Memory(), InProcess()
    chain = Chain.open(store, "a0", exchange)
    for number in range(1, FULL_EVERY + 2):
        name = f"warc/a0-{number:08d}-0.warc.gz"
        store.put(name, b"")
        removed = {"warc": list(chain.files.get("warc", []))}
        commit(chain, exchange, Changes({"warc": [name]}, removed))
    assert '"files"' in store.get(f"manifest/a0/{chain.number:08d}.json").decode()
    for number in range(FULL_EVERY - 3, FULL_EVERY + 1):
        store.put(f"warc/a0-{number:08d}-0.warc.gz", b"undead")
    Chain.open(store, "a0", exchange)
    assert store.list("warc/") == chain.files["warc"]


def test_strangers_stay_and_do_not_stop_anybody() -> None:
    store, exchange = crawled(2)
    for name in ("warc/README.txt", "index/page-1", "tables/my-notes.parquet"):
        store.put(name, b"mine")
    Chain.open(store, "a0", exchange)
    assert store.get("warc/README.txt") == store.get("index/page-1") == store.get("tables/my-notes.parquet") == b"mine"


@pytest.mark.parametrize("data", [None, b"", b"3 ", b"4"], ids=["missing", "empty", "longer", "flipped"])
@pytest.mark.parametrize("kind", ["index.page.run", "warc"])
def test_damaged_files_stop_a_crawl_before_it_does_anything(kind: str, data: bytes | None) -> None:
    store, exchange = crawled(2)
    chain = Chain.open(store, "a0", exchange)
    name = "index/page-run-a0-00000003.run" if kind.startswith("index") else "warc/a0-00000003-0.warc.gz"
    store.put(name, b"3")
    commit(chain, exchange, Changes({kind: [name]}))
    store.put("warc/a0-00000004-0.warc.gz", b"rubbish")
    if data is None:
        store.delete(name)
    else:
        store.put(name, data)
    if (kind, data) == ("warc", b"4"):
        Chain.open(store, "a0", exchange)  # as long as it was: only `gossamer verify` reads the whole archive
        return
    with pytest.raises(ArchiveError, match=rf"{name} is (missing|damaged).*`gossamer repair DIR --dry-run`"):
        Chain.open(store, "a0", exchange)
    assert store.get("warc/a0-00000004-0.warc.gz") == b"rubbish"


@pytest.mark.parametrize("place", range(0, 700, 7))
def test_any_flipped_bit_of_a_manifest_is_found(place: int) -> None:
    store, _ = crawled(3)
    name = "manifest/a0/00000003.json"
    data = bytearray(store.get(name))
    data[place % len(data)] ^= 1
    store.put(name, bytes(data))
    with pytest.raises(ArchiveError, match=f"{name} is damaged; restore"):
        Chain.read(store, "a0")


def test_manifests_of_earlier_versions_open() -> None:
    """They have no checksums, neither of files nor of themselves."""
    store, exchange = crawled(3)
    rewritten(store, "a0", drop=("sums", "gone"))
    chain = Chain.open(store, "a0", exchange)
    assert (chain.number, chain.snapshot.sums, chain.state) == (3, {}, counted(0))
    commit(chain, exchange, outbox=[chain.message("a5", b"hello", "links")])
    assert list(Chain.read(store, "a0").sums) == ["outbox/=0/a0-000000000004-0000.bundle"]


class Down(InProcess):
    """A link that takes so many messages more."""

    left = 0

    def publish(self, message: Message) -> bool:
        self.left -= 1
        return self.left >= 0 and super().publish(message)


def test_what_could_not_be_published_is_kept() -> None:
    store, exchange = Memory(), Down()
    chain = Chain.open(store, "a0", exchange)
    for number in (1, 2):
        commit(chain, exchange, outbox=[Message("a0", number, 0, "a5", b"%d" % number)])
        assert exchange.pending("a5", {}) == []
    exchange.left = 2
    commit(chain, exchange, outbox=[Message("a0", 3, 0, "a5", b"3")])
    assert [b.data for b in exchange.pending("a5", {})] == [b"1", b"2"], "in order; the third must wait"
    exchange.left = 1
    chain.publish(exchange)
    assert [b.data for b in exchange.pending("a5", {})] == [b"1", b"2", b"3"], "and no other was sent twice"


def test_the_outbox_is_named_until_it_is_confirmed() -> None:
    store, exchange = Memory(), Down()
    exchange.left = 100
    chain = Chain.open(store, "a0", exchange)
    for number in (1, 2, 3):
        outbox = [Message("a0", number, part, "a5", b"12345", ZONES) for part in range(number)]
        commit(chain, exchange, outbox=[*outbox, Message("a0", number, 0, "a6", b"1", ZONES)])
    assert chain.backlog(exchange) == 6 * 5 + 3
    exchange.acknowledge("a0>a5", 2)
    assert chain.backlog(exchange) == 3 * 5 + 3
    assert len(store.list("outbox/")) == 9, "nothing changes but by a commit"
    commit(chain, exchange)
    names = [f"outbox/a5/a0-000000000003-{part:04d}.zones" for part in range(3)]
    names += [f"outbox/a6/a0-{number:012d}-0000.zones" for number in (1, 2, 3)]
    assert store.list("outbox/") == sorted(names) == sorted(chain.snapshot.names())

    lost = InProcess()  # the server has lost everything; senders start again
    again = Chain.open(store, "a0", lost)
    assert again.snapshot == chain.snapshot
    assert [b.number for b in lost.pending("a6", {})] == [1, 2, 3]
    assert lost.pending("a5", {}) == [], "it must know what came before"
    assert [(b.number, b.part, b.data) for b in lost.pending("a5", {"a0>a5": 2})] == [
        (3, part, b"12345") for part in range(3)
    ]
    lost.acknowledge("a0>a5", 3)
    lost.acknowledge("a0>a6", 3)
    commit(again, lost)
    assert store.list("outbox/") == []


def test_a_bundle_is_named_until_all_its_receivers_have_it() -> None:
    store, exchange = Memory(), InProcess()
    chain = Chain.open(store, "a0", exchange)
    for number in (1, 2):
        to_all = [Message("a0", number, part, to, to.encode(), NEWS) for to in ("a5", "a6", "a17") for part in (0, 1)]
        commit(chain, exchange, outbox=to_all)
    of_all = [f"outbox/={group}/a0-{number:012d}-0000.bundle" for group in (0, 1) for number in (1, 2)]
    assert store.list("outbox/") == of_all, "one for each sixteen agents"
    assert [(b.number, b.part, b.data) for b in exchange.pending("a6", {})] == [
        (number, part, b"a6") for number in (1, 2) for part in (0, 1)
    ]
    whole = chain.backlog(exchange)
    exchange.acknowledge("a0>a5", 2)
    exchange.acknowledge("a0>a6", 1)
    assert 0 < chain.backlog(exchange) < whole
    commit(chain, exchange)
    assert store.list("outbox/") == of_all[1:], "a6 has not confirmed the second one"

    lost = InProcess()  # the server has lost everything; the sender starts again
    Chain.open(store, "a0", lost)
    assert [b.number for b in lost.pending("a6", {"a0>a6": 1})] == [2, 2]
    exchange.acknowledge("a0>a6", 2)
    exchange.acknowledge("a0>a17", 2)
    commit(chain, exchange)
    assert store.list("outbox/") == []


def test_what_was_on_its_way_before_there_were_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is published as it was written, and what is new comes behind it, in a bundle."""
    store = Memory()
    names = ("a5", "a6")
    with monkeypatch.context() as before:
        before.setattr("gossamer.archive.chain.bundled", list)
        commit(
            Chain.open(store, "a0", InProcess()),
            InProcess(),
            outbox=[replace(Message("a0", 1, 0, to, b"old"), protocol=4) for to in names],
        )
    exchange = InProcess()
    chain = Chain.open(store, "a0", exchange)
    commit(chain, exchange, outbox=[Message("a0", 2, 0, to, b"new") for to in names])
    assert [entry.message.kind for entry in chain.snapshot.outbox] == [LINKS, LINKS, BUNDLE]
    for to in names:
        assert [(b.data, b.protocol) for b in exchange.pending(to, {})] == [(b"old", 4), (b"new", PROTOCOL)]
        exchange.acknowledge(f"a0>{to}", 2)
    commit(chain, exchange)
    assert store.list("outbox/") == []


def test_numbers_of_a_stream_rise() -> None:
    store, exchange = Memory(), InProcess()
    chain = Chain.open(store, "a0", exchange)
    commit(chain, exchange, outbox=[Message("a0", 4, 0, "a5", b"")])
    with pytest.raises(ArchiveError, match="numbers must rise"):
        commit(chain, exchange, outbox=[Message("a0", 4, 1, "a5", b"")])
    commit(chain, exchange, outbox=[Message("a0", 4, 0, "a6", b""), Message("a0", 9, 0, "a5", b"")])
    assert [(b.number, b.previous) for b in exchange.pending("a5", {})] == [(4, 0), (9, 4)]


def test_seeds_from_another_process_while_crawling(tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path / "crawl", 1.0)
    inbox = Inbox(store)
    chain = Chain.open(store, "a0", inbox)
    found: list[bytes] = []
    for i in range(6):
        Inbox(Directory(store.path)).add(b"%d" % i)
        if i % 2:
            ready = inbox.pending("a0", chain.marks)
            assert all(b.to == ANY for b in ready)
            found += [b.data for b in ready]
            marks = high_water(ready)
            commit(chain, inbox, marks=marks, applied=list(marks.items()))
            chain = Chain.open(store, "a0", inbox)
    assert found == [b"%d" % i for i in range(6)]
    assert chain.marks == {SEEDS: 6}


@pytest.mark.parametrize(
    "changes",
    [
        Changes({"x": ["a"]}),
        Changes({}, {"x": ["b"]}),
        Changes({"x": ["c", "c"]}),
        Changes({"x": ["a"]}, {"x": ["a"]}),
    ],
)
def test_changes_that_make_no_sense(changes: Changes) -> None:
    store, exchange = Memory(), InProcess()
    chain = Chain.open(store, "a0", exchange)
    store.put("a", b"")
    commit(chain, exchange, Changes({"x": ["a"]}))
    with pytest.raises(ArchiveError, match="twice"):
        commit(chain, exchange, changes)
    assert chain.number == 1


def test_added_and_removed_in_one_commit() -> None:
    store, exchange = Memory(), InProcess()
    chain = Chain.open(store, "a0", exchange)
    for name in ("index/delta", "index/run"):
        store.put(name, b"")
    both = Changes({"x": ["index/delta"]}) | Changes({"y": ["index/run"]}, {"x": ["index/delta"]})
    commit(chain, exchange, both)
    assert chain.files == {"x": [], "y": ["index/run"]}
    assert store.list("index/") == ["index/run"]


def test_changes_join() -> None:
    joined = Changes({"a": ["1"]}, {"b": ["2"]}) | Changes({"a": ["3"], "c": ["4"]})
    assert joined == Changes({"a": ["1", "3"], "c": ["4"]}, {"b": ["2"]})
    assert joined
    assert not Changes({"a": []})


def test_manifests_vanish_while_reading() -> None:
    exchange = InProcess()

    class Busy(Memory):
        """The owner commits a whole generation between our listing and our reading."""

        chain: Chain | None = None

        def get(self, name: str) -> bytes:
            chain, self.chain = self.chain, None
            for _ in range(3 * FULL_EVERY if chain else 0):
                assert chain is not None
                commit(chain, exchange)
            return super().get(name)

    store = Busy()
    chain = Chain.open(store, "a0", exchange)
    for _ in range(5):
        commit(chain, exchange)
    store.chain = chain
    assert Chain.read(store, "a0").number == 5 + 3 * FULL_EVERY


def test_damaged_chains_are_told() -> None:
    store, exchange = Memory(), InProcess()
    chain = Chain.open(store, "a0", exchange)
    for _ in range(4):
        commit(chain, exchange)
    store.delete("manifest/a0/00000003.json")
    with pytest.raises(ArchiveError, match="manifest 3 of a0 is missing"):
        Chain.read(store, "a0")
    for number in (1, 2):
        store.delete(f"manifest/a0/{number:08d}.json")
    with pytest.raises(ArchiveError, match="no full manifest"):
        Chain.read(store, "a0")


@pytest.mark.parametrize(
    "data", [b"", b'{"number": 4, "add', b"[]", b"null", b'{"a": 1}', b'{"number": 3, "added": {}}']
)
def test_a_damaged_manifest_is_named(tmp_path: Path, data: bytes) -> None:
    store, exchange = Directory.prepare(tmp_path, 1.0), InProcess()
    chain = Chain.open(store, "a0", exchange)
    for _ in range(4):
        commit(chain, exchange)
    (tmp_path / "manifest/a0/00000004.json").write_bytes(data)
    with pytest.raises(ArchiveError, match=r"manifest/a0/00000004.json is damaged; restore"):
        Chain.read(store, "a0")


def test_what_lies_beside_the_manifests_does_not_count(tmp_path: Path) -> None:
    store, exchange = Directory.prepare(tmp_path, 1.0), InProcess()
    chain = Chain.open(store, "a0", exchange)
    commit(chain, exchange)
    for name in ("notes.txt", "00000001.json~", "zz.json"):
        (tmp_path / "manifest/a0" / name).write_text("not ours")
    for _ in range(2 * FULL_EVERY):
        commit(chain, exchange)
    assert Chain.read(store, "a0").number == 1 + 2 * FULL_EVERY
    assert (tmp_path / "manifest/a0/notes.txt").exists()

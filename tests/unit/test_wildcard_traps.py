"""Names without end use up their own room, not that of a domain's real hosts."""

from collections.abc import Iterable

import numpy as np

from gossamer import config
from gossamer.archive.store import Memory
from gossamer.columns import Status
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.update import VISIT, Admission, CashUse, Links, RoundColumns, seeds, update
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.frontier.strategies import strategy
from gossamer.web.url import host_key, host_of, page_key, page_keys

MOST = 100
LIMITS = config.Limits(hosts_per_domain=MOST)
WWW = "http://www.d.test/"


class World:
    """Pages that say where they lead to; each is visited once."""

    def __init__(self, *starts: str) -> None:
        self.store, self.ledger, self.round = Memory(), Ledger(), 0
        self.index = PageIndex.open(self.store, {}, config.Index(memory_mb=16))
        self.files: dict[str, list[str]] = {}
        self._update(RoundColumns(inbox=seeds(list(starts), self.ledger)))

    def _update(self, columns: RoundColumns) -> list[str]:
        result = update(self.index, None, self.ledger, columns, limits=LIMITS, strategy=strategy("opic"), now_s=1.0)
        assert set(result.verdicts.tolist()) <= {Admission.FOLLOWED, Admission.CAP_HOSTS}
        return result.new.url

    def visit(
        self, url: str, links: Iterable[str], policy: CashUse = CashUse.SPEND, is_stale: bool = False
    ) -> list[str]:
        """Returns the pages that are new."""
        urls = list(links)
        visits = np.array([(page_key(url), Status.FETCHED, 0, 0, policy)], VISIT.numpy)
        keys = page_keys(urls)
        columns = Links(np.zeros(len(urls), np.int32), keys, np.ones(len(urls), np.bool_))
        self.index.traps.saw(host_of_key(visits["key"]), np.array([is_stale]))
        return self._update(RoundColumns(visits, columns, dict(zip(keys.tolist(), urls, strict=True))))

    def reopen(self) -> None:
        self.round += 1
        changes = self.index.flush(self.store, f"a0-{self.round:08d}")
        for kind, names in changes.added.items():
            self.files.setdefault(kind, []).extend(names)
        for kind, names in changes.removed.items():
            self.files[kind] = [name for name in self.files[kind] if name not in names]
        self.index = PageIndex.open(self.store, self.files, config.Index(memory_mb=16))

    @property
    def hosts(self) -> int:
        return len(self.index.hosts)


def names(prefix: str, count: int) -> list[str]:
    return [f"http://{prefix}{number}.d.test/" for number in range(count)]


def fall_into(world: World, rounds: int, is_stale: bool = False) -> int:
    """A trap: every host leads to twenty more. Returns how many links it offered."""
    queue, offered = world.visit(WWW, ["http://trap.d.test/"]), 0
    for number in range(rounds):
        if not queue:
            break
        links = names(f"t{number}x", 20)
        offered += len(links)
        queue += world.visit(queue.pop(0), links, is_stale=is_stale)
        if number % 7 == 0:
            world.reopen()
    return offered


def test_real_hosts_enter_after_thousands_of_a_trap() -> None:
    world = World(WWW)
    offered = fall_into(world, 200)
    assert offered >= 900
    assert world.hosts <= MOST // 2 + 1, "it has its half"
    real = names("real", 30)
    assert world.visit(WWW, real) == real


def test_real_hosts_and_thousands_of_a_trap_in_one_round() -> None:
    world = World(WWW)
    (trap,) = world.visit(WWW, ["http://trap.d.test/"])
    (deeper,) = world.visit(trap, ["http://deeper.d.test/"])
    real = names("real", 30)
    urls = names("t", 3_000) + real
    keys = page_keys(urls)
    visits = np.array([(page_key(url), Status.FETCHED, 0, 0, CashUse.SPEND) for url in (deeper, WWW)], VISIT.numpy)
    source = np.repeat(np.array([0, 1], np.int32), [3_000, 30])
    links = Links(source, keys, np.ones(len(keys), np.bool_))
    entered = world._update(RoundColumns(visits, links, dict(zip(keys.tolist(), urls, strict=True))))
    assert set(real) <= set(entered)
    assert world.hosts <= MOST // 2 + 30


def test_a_link_from_outside_vouches_for_a_host_that_the_trap_names_too() -> None:
    world = World(WWW, "http://other.test/")
    fall_into(world, 200)
    wanted = "http://both.d.test/"
    assert world.visit(world.visit(WWW, ["http://a.d.test/"])[0], [wanted]) == []
    assert world.visit("http://other.test/", [wanted]) == [wanted]


def test_a_host_with_nothing_of_its_own_leads_nowhere_in_its_domain() -> None:
    world = World(WWW)
    fall_into(world, 200, is_stale=True)
    assert world.hosts == 2, "the first of it, and no more"
    (copy,) = world.visit(WWW, ["http://copy.d.test/"])
    assert world.visit(copy, ["http://x.d.test/", "http://x.other.test/", WWW + "1"], is_stale=True) == [
        "http://x.other.test/", WWW + "1",
    ]  # fmt: skip


def test_copies_give_back_the_room_that_they_took() -> None:
    world = World(WWW)
    listed = world.visit(WWW, names("copy", 3 * MOST))
    assert len(listed) == MOST - 1
    assert world.visit(WWW, names("real", 5)) == []
    for url in listed:
        world.visit(url, [], is_stale=True)
    world.reopen()
    assert world.visit(WWW, names("real", 5)) == names("real", 5)
    more = world.visit(WWW, names("copy", 9 * MOST))
    for url in more:
        world.visit(url, [], is_stale=True)
    assert len(world.visit(WWW, names("copy", 9 * MOST))) < 10
    assert world.hosts < 2 * MOST + 10


def test_what_a_host_redirects_to_takes_its_place() -> None:
    world = World("http://d.test/")
    world.visit("http://d.test/", [WWW], policy=CashUse.PASS)
    generation, _ = world.index.traps.standing(np.array([host_key(host_of(WWW))], np.uint32))
    assert generation.tolist() == [0]
    assert len(world.visit(WWW, names("real", MOST))) == MOST - 2

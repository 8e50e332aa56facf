import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer import config
from gossamer.archive.store import Memory
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.columns import MOST_HOPS, NEVER, REQUISITE, Status
from gossamer.crawl.commit import postpone
from gossamer.crawl.ledger import MAX_MINTED, SEED_CASH, Ledger
from gossamer.crawl.update import (
    VISIT,
    Admission,
    CashUse,
    Contributions,
    Links,
    RoundColumns,
    seeds,
    update,
)
from gossamer.crawl.visit_history import vanished_links
from gossamer.errors import ArchiveError
from gossamer.frontier.caps import domain_key, domain_text
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex, zone_of_key
from gossamer.frontier.strategies import ORDERS
from gossamer.sharing.owners import Owners
from gossamer.web.url import domain_of, host_of, page_key

SETTINGS = config.Index(memory_mb=16)
LIMITS = config.Limits()
ALL = range(ZONES_IN_ALL)
URLS = [f"http://{host}/{page}" for host in ("a.example", "b.example", "c.other", "d.third") for page in range(6)]
KEYS = [page_key(url) for url in URLS]


def round_of(visits=(), links=(), inbox=None, stayed=(), gone=(), prioritised=False):
    """visits: (page, status, due, tries, cash_use); links: (visit, page, followed); pages are numbers of URLS.
    `stayed` are places of links that were there before, `gone` pages that are no longer linked to."""
    rows = np.array([(KEYS[v[0]], *v[1:]) for v in visits], VISIT.numpy)
    source, target, followed = zip(*links, strict=True) if links else ((), (), ())
    relevance = np.arange(len(source)) % 5 / 4
    columns = Links(
        np.array(source, np.int32), np.array([KEYS[t] for t in target], np.uint64), np.array(followed, bool), relevance,
        ~np.isin(np.arange(len(source)), stayed), np.arange(len(source)) % 7 == 3,
        np.arange(len(source)) % 3 + 0.5 if prioritised else None,
    )  # fmt: skip
    urls = {KEYS[t]: URLS[t] for t in target}
    lost = vanished_links(np.array([KEYS[page] for page in gone], np.uint64))
    return RoundColumns(rows, columns, urls, Contributions.joined([inbox or Contributions.none(), lost]))


def all_rows(index):
    chunks = list(index.pages.scan())
    return np.concatenate(chunks) if chunks else np.zeros(0, index.pages.dtype)


class Agent:
    def __init__(self, order="opic", zones=ALL, limits=LIMITS, best=0, with_frontier=True, quota=None):
        self.store = Memory()
        self.index = PageIndex.open(self.store, {}, SETTINGS)
        self.ledger = Ledger()
        self.strategy = ORDERS[order]
        self.zones = zones
        self.limits = limits
        self.best, self.quota = best, quota
        self.frontier = Frontier(self.index, self.strategy, SETTINGS) if with_frontier else None

    def update(self, columns):
        return update(
            self.index, self.frontier, self.ledger, columns, limits=self.limits, strategy=self.strategy,
            is_own=Owners("a0", self.zones, ["a0"] * ZONES_IN_ALL).is_own, now_s=1000.0, best=self.best,
            quota=self.quota,
        )  # fmt: skip

    def seed(self, pages):
        return self.update(RoundColumns(inbox=seeds([URLS[page] for page in pages], self.ledger)))

    def row(self, page):
        found, rows = self.index.pages.look_up(np.array([KEYS[page]], np.uint64))
        return rows[0] if found[0] else None

    def missing(self, outboxes=0):
        return self.ledger.missing(int(all_rows(self.index)["cash"].sum()), outboxes)


class Model:
    """The same with dicts, one link at a time."""

    def __init__(self, order, limits, best):
        self.pages = {}
        self.ledger = Ledger()
        self.strategy = ORDERS[order]
        self.limits = limits
        self.best = best
        self.texts = 0
        self.verdicts = {}

    def update(self, columns):
        received = {}
        urls = dict(columns.urls)
        pool = 0
        inbox = columns.inbox
        for i, key in enumerate(inbox.key.tolist()):
            urls.setdefault(key, inbox.url[i])
            gift = (int(inbox.cash[i]), int(inbox.hits[i]), int(inbox.depth[i]), int(inbox.hops[i]))
            received.setdefault(key, []).append((*gift, int(inbox.referrer[i])))
        visits = columns.visits.tolist()
        priority = columns.links.priority
        unit = 1 if priority is None else 1000
        priorities = [1.0] * len(columns.links.source) if priority is None else priority.tolist()
        links = list(zip(*(part.tolist() for part in columns.links[:6]), priorities, strict=True))
        for number, (key, _, _, _, cash_use) in enumerate(visits):
            page = self.pages[key]
            mine = [link for link in links if link[0] == number]
            cash = 0 if cash_use == CashUse.KEEP else page["cash"]
            page["cash"] -= cash
            weights = [round(self.weight(key, link[1], link[3]) * link[6] * unit) for link in mine]
            parts = sum(weights) + unit * (self.strategy.virtual and cash_use == CashUse.SPEND)
            damping = self.strategy.damping if cash_use == CashUse.SPEND else 1
            budget = cash // damping.denominator * damping.numerator
            share = budget // parts if mine and cash_use in (CashUse.SPEND, CashUse.PASS) else 0
            for weight, (_, target, followed, _, is_new, is_level, _) in zip(weights, mine, strict=True):
                if followed:
                    redirect = cash_use == CashUse.PASS
                    depth, hops = page["depth"] + (not (redirect or is_level)), (page["hops"] + 1) * redirect
                    received.setdefault(target, []).append((share * weight, is_new, depth, hops, key))
                    cash -= share * weight
            pool += cash
        for key, status, due_s, tries, _ in visits:
            self.pages[key].update(status=int(status), due_s=due_s, tries=tries)
        pool += self.receive(received, urls)
        self.ledger.pool += pool
        if self.strategy.virtual and self.pages:
            each, self.ledger.pool = divmod(self.ledger.pool, len(self.pages))
            self.ledger.v += each
            for page in self.pages.values():
                page["cash"] += each

    def weight(self, source, target, relevance):
        if self.strategy.name == "opic-foreign":
            return 10 if source >> 40 != target >> 40 else 1
        return 1 + int(999 * relevance**2) if self.strategy.name == "relevance" else 1

    def receive(self, received, urls):
        refused = 0
        new = {}
        for order, (key, gifts) in enumerate(received.items()):
            cash, hits = sum(g[0] for g in gifts), sum(g[1] for g in gifts)
            depth, hops = min(g[2] for g in gifts), min(g[3] for g in gifts)
            if key in self.pages:
                page = self.pages[key]
                page["cash"] += cash
                page["hits"] = max(0, page["hits"] + hits)
                page["depth"], page["hops"] = min(page["depth"], depth), min(page["hops"], hops)
            elif cash or hits > 0:
                new[key] = {
                    "cash": cash, "hits": max(0, hits), "depth": depth, "hops": hops, "status": 0, "due_s": 0,
                    "tries": 0, "order": order, "url": urls[key], "referrer": gifts[0][4],
                }  # fmt: skip
        self.verdicts = dict.fromkeys(received, Admission.FOLLOWED)
        rank = {"cash": lambda p: -p["cash"], "hits": lambda p: -p["hits"], "text": lambda p: p["order"]}
        by = {"backlink-count": "hits", "breadth-first": "text"}
        entered = 0
        for key in sorted(new, key=lambda k: (rank[by.get(self.strategy.name, "cash")](new[k]), k)):
            if self.best and entered >= self.best:
                self.verdicts[key] = Admission.BEST
            elif not self.fits(new[key]["url"]):
                self.verdicts[key] = Admission.CAP
            else:
                entered += 1
                self.pages[key] = new[key]
                continue
            refused += new[key]["cash"]
        return refused

    def fits(self, url):
        urls = [page["url"] for page in self.pages.values()]
        host, domain = host_of(url), domain_of(host_of(url))
        hosts = {host_of(other) for other in urls if domain_of(host_of(other)) == domain}
        return (
            sum(host_of(other) == host for other in urls) < self.limits.pages_per_host
            and sum(domain_of(host_of(other)) == domain for other in urls) < self.limits.pages_per_domain
            and (host in hosts or len(hosts) < self.limits.hosts_per_domain)
        )

    def check(self, agent):
        rows = all_rows(agent.index)
        assert rows["key"].tolist() == sorted(self.pages)
        for row in rows:
            page = self.pages[int(row["key"])]
            for name in ("hits", "depth", "hops", "status", "due_s", "tries"):
                assert row[name] == page[name], name
            assert row["cash"] + agent.ledger.v == page["cash"]
            assert agent.index.urls(rows[rows["key"] == row["key"]]) == [page["url"]]
        assert (agent.ledger.v, agent.ledger.pool) == (self.ledger.v, self.ledger.pool)
        assert agent.ledger.known == agent.index.count == len(self.pages)
        self.check_hosts(agent)

    def check_hosts(self, agent):
        known, visited = {}, {}
        for key, page in self.pages.items():
            known[key >> 40] = known.get(key >> 40, 0) + 1
            final = page["status"] not in (Status.NEW, Status.FAILED)
            visited[key >> 40] = visited.get(key >> 40, 0) + final
        rows = agent.index.hosts.rows
        assert dict(zip(rows["host"].tolist(), rows["known"].tolist(), strict=True)) == known
        assert dict(zip(rows["host"].tolist(), rows["visited"].tolist(), strict=True)) == visited


MODELLED = ["opic", "opic-virtual", "opic-foreign", "relevance", "backlink-count", "breadth-first"]
PAGE_NUMBER = st.integers(0, len(URLS) - 1)
CAPPED = config.Limits(pages_per_host=3, pages_per_domain=5, hosts_per_domain=1)
LOOSE = config.Limits(pages_per_host=5, pages_per_domain=8, hosts_per_domain=2)


@st.composite
def rounds(draw, known):
    """A round that visits some of the known pages."""
    visits, links = [], []
    for page in draw(st.lists(st.sampled_from(known), unique=True, max_size=5)):
        cash_use = draw(st.sampled_from(CashUse))
        status = draw(st.sampled_from([Status.FETCHED, Status.FAILED, Status.GONE, Status.MOVED]))
        visits.append((page, status, draw(st.sampled_from([0, 99, NEVER])), draw(st.integers(0, 3)), cash_use))
        most = 1 if cash_use == CashUse.PASS else 8
        targets = draw(st.lists(PAGE_NUMBER, unique=True, max_size=most))
        links += [(len(visits) - 1, target, draw(st.booleans())) for target in targets]
    stayed = draw(st.lists(st.sampled_from(range(len(links))))) if links else []
    # A link that was there before leads to a page that is known, somewhere.
    stayed = [place for place in stayed if links[place][1] in known]
    return visits, links, stayed, draw(st.lists(PAGE_NUMBER, max_size=3))


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_update_is_what_the_model_says(data):
    order = data.draw(st.sampled_from(MODELLED))
    limits, best = data.draw(st.sampled_from([LIMITS, LOOSE, CAPPED])), data.draw(st.sampled_from([0, 0, 2]))
    agent, model = Agent(order, limits=limits, best=best), Model(order, limits, best)
    for _ in range(data.draw(st.integers(1, 6))):
        known = [page for page in range(len(URLS)) if KEYS[page] in model.pages]
        visits, links, stayed, gone = data.draw(rounds(known)) if known else ([], [], [], [])
        some = [] if known and data.draw(st.booleans()) else data.draw(st.lists(PAGE_NUMBER, max_size=4))
        inbox = seeds([URLS[page] for page in some], agent.ledger)
        columns = round_of(visits, links, inbox, stayed, gone, data.draw(st.booleans()))
        old = {key: page["cash"] for key, page in model.pages.items()}
        result = agent.update(columns)
        model.update(columns)
        model.check(agent)
        assert agent.missing() == 0
        assert result.passed.tolist() == [0 if v[4] == CashUse.KEEP else old[KEYS[v[0]]] for v in visits]
        for place, (_, target, followed) in enumerate(links):
            assert result.verdicts[place] == (model.verdicts[KEYS[target]] if followed else 0)
        new = [key for key in model.pages if key not in old]
        assert sorted(result.new.key.tolist()) == sorted(new)
        for place, key in enumerate(result.new.key.tolist()):
            page = model.pages[key]
            assert result.new.url[place] == page["url"]
            assert result.new.domain[place] == domain_of(result.new.host[place]) == domain_of(host_of(page["url"]))
            assert (result.new.referrer[place], result.new.depth[place]) == (page["referrer"], page["depth"])
        orders = [model.pages[key]["order"] for key in result.new.key.tolist()]
        assert orders == sorted(orders)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_cash_is_conserved_between_zones(data):
    """Two agents, each with half of the zones; batches arrive whenever they like, in any order."""
    order = data.draw(st.sampled_from([*MODELLED, "rankmass", "random", "shallow-first", "larger-sites-opic"]))
    zones = sorted(set(zone_of_key(np.array(KEYS, np.uint64)).tolist()))
    mine = set(zones[: len(zones) // 2])
    limits = data.draw(st.sampled_from([LIMITS, LOOSE, CAPPED]))
    agents = [Agent(order, mine, limits), Agent(order, set(ALL) - mine, limits, best=2)]
    travelling = [[], []]
    for agent in agents:
        batch = agent.seed(data.draw(st.lists(PAGE_NUMBER, min_size=1, max_size=4))).outbox
        travelling[agents.index(agent) ^ 1].append(batch)
    for _ in range(data.draw(st.integers(1, 8))):
        turn = data.draw(st.integers(0, 1))
        agent = agents[turn]
        known = [page for page in range(len(URLS)) if agent.row(page) is not None]
        visits, links, stayed, gone = data.draw(rounds(known)) if known else ([], [], [], [])
        inbox = Contributions.none()
        if travelling[turn] and data.draw(st.booleans()):
            inbox = travelling[turn].pop(data.draw(st.integers(0, len(travelling[turn]) - 1)))
        outbox = agent.update(round_of(visits, links, inbox, stayed, gone)).outbox
        assert outbox.key.tolist() == sorted(set(outbox.key.tolist()))
        assert not set(zone_of_key(outbox.key).tolist()) & set(agent.zones)
        named = [page_key(url) if url else key for url, key in zip(outbox.url, outbox.key.tolist(), strict=True)]
        assert named == outbox.key.tolist()
        assert all(outbox.url[place] for place in np.flatnonzero((outbox.hits > 0) | (outbox.cash > 0)).tolist())
        travelling[turn ^ 1].append(outbox)
        waiting = sum(int(batch.cash.sum()) for batches in travelling for batch in batches)
        assert sum(agent.missing() for agent in agents) == waiting
        assert all((all_rows(agent.index)["cash"] + agent.ledger.v >= 0).all() for agent in agents)


def test_a_page_splits_its_cash():
    agent = Agent()
    agent.seed([0])
    result = agent.update(round_of([(0, Status.FETCHED, NEVER, 0, CashUse.SPEND)],
                                   [(0, 1, True), (0, 2, True), (0, 3, False)]))  # fmt: skip
    assert agent.row(1)["cash"] == agent.row(2)["cash"] == SEED_CASH // 3
    assert agent.row(0)["cash"] == 0
    assert agent.ledger.pool == SEED_CASH - 2 * (SEED_CASH // 3)
    assert result.passed.tolist() == [SEED_CASH]
    assert agent.row(1)["depth"] == 1
    assert len(result.new) == 2


def test_the_virtual_page_gives_to_all():
    agent = Agent("opic-virtual")
    agent.seed([0])
    agent.update(round_of([(0, Status.FETCHED, NEVER, 0, CashUse.SPEND)], [(0, 1, True)]))
    half = SEED_CASH // 2
    assert agent.ledger.v == half // 2
    assert agent.row(0)["cash"] + agent.ledger.v == half // 2
    assert agent.row(1)["cash"] + agent.ledger.v == half + half // 2
    assert agent.missing() == 0


def test_a_redirect_hands_everything_on_at_the_same_depth():
    agent = Agent("opic-virtual")
    agent.seed([0])
    agent.update(round_of([(0, Status.MOVED, NEVER, 0, CashUse.PASS)], [(0, 1, True)]))
    row = agent.row(1)
    assert (row["cash"], row["depth"], row["hops"]) == (SEED_CASH, 0, 1)
    agent.update(round_of([(0, Status.FETCHED, NEVER, 0, CashUse.KEEP)], [(0, 1, True)]))
    assert agent.row(1)["hops"] == 0  # a plain link leads there too


@pytest.mark.parametrize("cash_use", CashUse)
def test_what_a_visit_without_links_does(cash_use):
    agent = Agent()
    agent.seed([0, 1])
    agent.update(round_of([(0, Status.FAILED, 1234, 2, cash_use)]))
    row = agent.row(0)
    assert (row["status"], row["due_s"], row["tries"]) == (Status.FAILED, 1234, 2)
    assert row["cash"] == (SEED_CASH if cash_use == CashUse.KEEP else 0)
    assert agent.missing() == 0


def test_a_link_to_itself_comes_back():
    agent = Agent()
    agent.seed([0])
    agent.update(round_of([(0, Status.FETCHED, NEVER, 0, CashUse.SPEND)], [(0, 0, True)]))
    row = agent.row(0)
    assert (row["cash"], row["hits"], row["depth"]) == (SEED_CASH, 1, 0)


def test_a_target_without_text_cannot_enter():
    agent = Agent()
    agent.seed([0])
    columns = round_of([(0, Status.FETCHED, NEVER, 0, CashUse.SPEND)], [(0, 1, True), (0, 7, True)])
    columns = RoundColumns(columns.visits, columns.links, {KEYS[7]: URLS[7]})
    result = agent.update(columns)
    assert result.verdicts.tolist() == [Admission.LENGTH, Admission.FOLLOWED]
    assert agent.row(1) is None
    assert agent.missing() == 0


def test_a_domain_is_found_by_its_key():
    for host in ("a.b.example.co.uk", "example.org", "localhost", "10.0.0.1", "[::1]", "x.github.io"):
        assert domain_text(host, domain_key(domain_of(host))) == domain_of(host)
    assert domain_text("www.example.org", 12345) == "example.org"


def test_an_unknown_visit_is_an_error():
    agent = Agent()
    with pytest.raises(ArchiveError, match="not in the index"):
        agent.update(round_of([(0, Status.FETCHED, NEVER, 0, CashUse.SPEND)]))


def test_depth_stops_at_255_and_hops_where_requisites_begin():
    agent = Agent()
    inbox = seeds([URLS[0]], agent.ledger)
    agent.update(RoundColumns(inbox=inbox._replace(depth=inbox.depth + 255, hops=inbox.hops + MOST_HOPS)))
    agent.update(round_of([(0, Status.FETCHED, NEVER, 0, CashUse.SPEND)], [(0, 1, True)]))
    assert agent.row(1)["depth"] == 255
    agent.update(round_of([(0, Status.MOVED, NEVER, 0, CashUse.PASS)], [(0, 2, True)]))
    assert agent.row(2)["hops"] == MOST_HOPS


def test_minting_stops_before_sums_overflow():
    ledger = Ledger()
    assert ledger.mint(3) == SEED_CASH
    ledger.minted = MAX_MINTED - 10
    assert ledger.mint(4) == 2
    assert ledger.mint(100) == 0
    assert ledger.mint(0) >= 0
    assert ledger.minted <= MAX_MINTED
    assert Ledger.of(ledger.state()) == ledger


def test_postponed_pages_wait():
    agent = Agent()
    agent.seed([0, 1])
    taken = agent.frontier.take(5, 1000.0, 5)
    assert len(taken) == 2
    postpone(agent.index, agent.frontier, taken["key"], np.array([5000, 2000], np.uint32))
    assert len(agent.frontier.taken) == 0
    assert len(agent.frontier.take(5, 1500.0, 5)) == 0
    assert agent.frontier.next_due_s() == 2000
    assert len(agent.frontier.take(5, 2000.0, 5)) == 1
    assert agent.missing() == 0


def test_an_index_reopens_as_it_was():
    agent = Agent()
    agent.seed(range(4))
    files = {kind: list(names) for kind, names in agent.index.flush(agent.store, "a0-00000001").added.items()}
    agent.update(round_of([(0, Status.FETCHED, NEVER, 0, CashUse.SPEND)], [(0, p, True) for p in range(9)]))
    changes = agent.index.flush(agent.store, "a0-00000002")
    for kind, names in changes.removed.items():
        files[kind] = [name for name in files[kind] if name not in names]
    for kind, names in changes.added.items():
        files.setdefault(kind, []).extend(names)
    agent.index.release(changes)
    again = PageIndex.open(agent.store, files, SETTINGS)
    assert again.count == agent.index.count == 9
    assert np.array_equal(all_rows(again), all_rows(agent.index))
    assert again.urls(all_rows(again)) == agent.index.urls(all_rows(agent.index))
    assert np.array_equal(again.hosts.rows, agent.index.hosts.rows)
    assert again.memory_bytes > 0


def needed(page, by, agent, level=0):
    """What a page needs: no link, no cash."""
    key, zero = np.array([KEYS[page]], np.uint64), np.zeros(1, np.uint8)
    hops, by = np.array([REQUISITE + level], np.uint8), np.array([KEYS[by]], np.uint64)
    return Contributions(key, np.zeros(1, np.int64), np.zeros(1, np.int32), zero + 1, hops, by, [URLS[page]])


@pytest.mark.parametrize("order", ["opic", "opic-virtual", "breadth-first"])
def test_requisites_have_no_cash_and_no_place_in_counts(order):
    agent = Agent(order)
    agent.seed([0, 1])
    result = agent.update(round_of([(0, Status.FETCHED, NEVER, 0, CashUse.SPEND)], [(0, 6, True)], needed(2, 0, agent)))
    assert result.new.is_requisite.tolist() == [url == URLS[2] for url in result.new.url]
    assert agent.ledger.known == 3
    assert agent.row(2)["cash"] == 0
    agent.update(round_of([(2, Status.FETCHED, NEVER, 0, CashUse.SPEND)]))
    assert agent.row(2)["cash"] == 0
    hosts = agent.index.hosts.rows
    assert (int(hosts["known"].sum()), int(hosts["visited"].sum())) == (3, 1)
    assert agent.ledger.missing(int(all_rows(agent.index)["cash"].sum())) == 0
    # A link makes it a page, with all that was said of it.
    result = agent.update(round_of([(1, Status.FETCHED, NEVER, 0, CashUse.SPEND)], [(0, 2, True)]))
    assert result.promoted.tolist() == [KEYS[2]]
    assert (agent.ledger.known, agent.row(2)["hops"], agent.row(2)["hits"]) == (4, 0, 1)
    hosts = agent.index.hosts.rows
    assert (int(hosts["known"].sum()), int(hosts["visited"].sum())) == (4, 3)
    assert agent.ledger.missing(int(all_rows(agent.index)["cash"].sum())) == 0


def test_no_cap_is_in_the_way_of_requisites():
    agent = Agent(limits=config.Limits(pages_per_host=1, hosts_per_domain=1))
    agent.seed([0])
    inbox = Contributions.joined([needed(1, 0, agent), needed(6, 0, agent), needed(12, 0, agent)])
    assert len(agent.update(round_of(inbox=inbox)).new) == 3

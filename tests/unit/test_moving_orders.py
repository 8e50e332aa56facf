"""Sites come and go while messages are late: whatever overtakes whatever, no page is visited by two sites."""

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import permutations

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, given, settings
from model_sites import OneSite, Post

from gossamer.archive.state import replace
from gossamer.cluster.site_list import Members, is_holding
from gossamer.frontier.pages import host_of_key
from gossamer.web.url import page_keys

BEFORE = {"north": 1.0, "east": 1.0, "south": 1.0}
AFTER = {"north": 1.0, "east": 1.0, "south": 0.0, "west": 1.0}
FIRST, SECOND = Members(1, BEFORE, "fennel"), Members(2, AFTER, "fennel", [BEFORE])
HOSTS, PAGES = 14, 4
LINKS = list(permutations(AFTER, 2))


def url(host: int, page: int) -> str:
    return f"http://h{host % HOSTS}.test/{page % PAGES}"


# Each page links to the next of its host, and to pages of two other hosts.
WEB = {
    url(host, page): [url(host, page + 1), url(host + 1 + page, page), url(host * 3 + 1, page + 2)]
    for host in range(HOSTS)
    for page in range(PAGES)
}


class World:
    """Three sites crawl, until some of the web is visited."""

    def __init__(self, visits: int) -> None:
        self.visited: Counter[str] = Counter()
        self.post = Post()
        self.gone: tuple[str, ...] = ()
        self.sites = {name: OneSite(name, self.post, WEB, self.visited) for name in AFTER}
        for name in BEFORE:
            self.sites[name].begin(FIRST, [url(0, 0)] if name == "north" else [])
        for _ in range(visits):
            if len(self.visited) < visits:
                self.round()

    @property
    def running(self) -> list[str]:
        return [name for name, site in self.sites.items() if hasattr(site, "members")]

    def read_file(self, name: str) -> None:
        self.sites[name].begin(SECOND if name in BEFORE else Members(2, AFTER, "fennel", None))

    def lose(self, name: str) -> None:
        """A site is gone with its archive: the pages that only it knew may be visited again."""
        del self.sites[name]
        self.gone = (*self.gone, name)
        self.visited.clear()
        self.visited.update({page for each in self.running for page in self.sites[each].remembered(self.gone)})

    def read_file_without_lost(self, name: str) -> None:
        """Reads the list that says who is gone, as `to_carry_out` does."""
        weights = {each: weight * (each not in self.gone) for each, weight in AFTER.items()}
        site, new = self.sites[name], Members(2 + len(self.gone), weights, "fennel")
        if name in self.running:
            old = site.members
            before = [old.weights]
            if is_holding(old.version, self.sites.keys() - {name}, site.clean):
                before = None if old.before is None else [*old.before, old.weights]
            new = old if old.version == new.version else replace(new, before=before)
        site.begin(new, gone=self.gone)

    def deliver(self, sender: str, to: str) -> None:
        """Sites fetch from those that they know of."""
        if sender in self.running and to in self.running and sender in self.sites[to].members.weights:
            self.post.deliver(self.sites[sender], to)

    def round(self, visits: int = 2) -> None:
        for name in self.running:
            self.sites[name].step(visits)
        for sender, to in permutations(self.running, 2):
            self.deliver(sender, to)

    def finish(self) -> None:
        """All links are up; in the end each page is at one site, and was visited."""
        for name in self.sites:
            if name not in self.running or self.sites[name].members.version == 1:
                self.read_file(name)
        for _ in range(40):
            self.round(5)
            if len(self.visited) == len(WEB) and not any(site.is_holding for site in self.sites.values()):
                break
        for _ in range(6):
            self.round()
        assert set(self.visited) == set(WEB)
        known = Counter(page for site in self.sites.values() for page in site.pages())
        assert known == Counter(WEB.keys())
        assert not self.sites["south"].pages()
        hits = {page: count for site in self.sites.values() for page, count in site.hits().items()}
        assert hits == Counter(page for links in WEB.values() for page in links), "a link was lost or counted twice"

    def finish_without_lost(self) -> None:
        """In the end those that are left agree, nothing is on its way, and all that they know is visited."""
        for name in self.sites:
            if name not in self.running or self.sites[name].members.version < 2 + len(self.gone):
                self.read_file_without_lost(name)
        calm, sent = 0, list[Mapping[str, int]]()
        for _ in range(60):
            self.round(5)
            before, sent = sent, [site.chain.snapshot.sent for site in self.sites.values()]
            at_work = sent != before or any(site.is_holding or site.left() for site in self.sites.values())
            calm = 0 if at_work else calm + 1
            if calm == 3:
                break
        assert calm, "links go round, or a site waits for ever"
        hosts = np.unique(host_of_key(page_keys(list(WEB))))
        views = [site.place.sites for site in self.sites.values()]
        assert len({tuple(view.of_keys(hosts).tolist()) for view in views}) == 1
        assert len({tuple(view.is_settled(hosts).tolist()) for view in views}) == 1
        waiting = [entry.message for site in self.sites.values() for entry in site.chain.snapshot.outbox]
        assert not [message for message in waiting if message.sender == message.to], "nobody waits for what never comes"
        known = Counter(page for site in self.sites.values() for page in site.pages())
        assert set(known.values()) <= {1}


def test_a_site_that_has_missed_news_is_told_again() -> None:
    """Otherwise links to its own hosts would go to and fro between it and their homes, for ever."""
    world = World(visits=1)
    for _ in range(6):
        world.round()
        world.post.spoil("east")
    for _ in range(30):
        world.round(5)
    assert set(world.visited) == set(WEB)
    sent = [site.chain.snapshot.sent for name, site in world.sites.items() if name in BEFORE]
    world.round()
    assert sent == [site.chain.snapshot.sent for name, site in world.sites.items() if name in BEFORE]


def test_news_of_a_host_overtake_the_host() -> None:
    """South gives its hosts to all others, and says so to west, which is new. West passes the news on; the hosts
    themselves wait, as the links from south to north and east are down."""
    world = World(visits=24)
    assert world.sites["south"].pages(), "it has something to give"
    for name in AFTER:
        world.read_file(name)
    for _ in range(6):
        for name in world.running:
            world.sites[name].step()
        for sender, to in LINKS:
            if sender != "south" or to == "west":
                world.deliver(sender, to)
    world.finish()


def test_news_of_a_site_overtake_the_list_of_sites() -> None:
    """East reads the new list last. North passes on to it that west, which east does not know, has hosts now."""
    world = World(visits=24)
    for name in ("north", "south", "west"):
        world.read_file(name)
    for _ in range(6):
        world.round()
    west = world.sites["west"]
    assert len(west.books.index.hosts.rows), "it has got hosts"
    east = world.sites["east"]
    assert east.members.version == 1
    assert set(dict(east.owners().by_name(page_keys(list(WEB))))) <= {"east_a0", "north", "south"}
    world.finish()


def test_a_site_is_lost_that_has_told_its_decisions_to_one_and_not_to_the_other() -> None:
    """South has hosts by them. East would decide about the same hosts anew, and otherwise."""
    world = World(visits=2)
    for _ in range(4):
        for name in world.running:
            world.sites[name].step()
        for sender, to in LINKS:
            if (sender, to) != ("north", "east"):
                world.deliver(sender, to)
    world.lose("north")
    world.finish_without_lost()


def test_a_site_that_has_given_its_hosts_away_is_lost_before_they_came() -> None:
    """Nobody but west was told, which is new: the hosts are decided about again, and found by the links to them."""
    world = World(visits=24)
    lost = {page.rpartition("/")[0] for page in world.sites["south"].pages()}
    for name in AFTER:
        world.read_file(name)
    for _ in range(6):
        for name in world.running:
            world.sites[name].step()
        for sender, to in LINKS:
            if sender != "south" or to == "west":
                world.deliver(sender, to)
    came = {page.rpartition("/")[0] for page in world.sites["west"].pages()}
    del world.sites["south"]
    for page in [page for page in world.visited if page.rpartition("/")[0] in lost - came]:
        del world.visited[page]  # its archive is gone
    for name, site in world.sites.items():
        before = None if name == "west" else [BEFORE, AFTER]
        site.begin(Members(3, AFTER, "fennel", before), gone=("south",))
    for _ in range(12):
        world.round()
    waiting = [message.message for site in world.sites.values() for message in site.chain.snapshot.outbox]
    assert not [message for message in waiting if message.sender == message.to], "nobody waits for what will not come"
    assert not any(site.is_holding for site in world.sites.values())


READS = st.fixed_dictionaries({name: st.sets(st.integers(0, 9), min_size=1, max_size=2) for name in AFTER})
DOWN = st.sets(st.sampled_from(LINKS))
few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def ten_rounds(world: World, reads: dict[str, set[int]], down: Collection[tuple[str, str]]) -> None:
    """Each site reads the latest list in a round of its own, or is started in one; some links are down, each for one
    direction."""
    read = world.read_file_without_lost if world.gone else world.read_file
    for number in range(10):
        for name in world.sites:
            if number in reads[name]:
                read(name)
        for name in world.running:
            world.sites[name].step()
        for sender, to in LINKS:
            if (sender, to) not in down:
                world.deliver(sender, to)


@few
@given(visits=st.integers(6, 30), reads=READS, down=DOWN)
def test_whichever_links_are_down(visits: int, reads: dict[str, set[int]], down: set[tuple[str, str]]) -> None:
    world = World(visits)
    ten_rounds(world, reads, down)
    world.finish()


@few
@given(
    visits=st.integers(6, 40),
    begins=st.tuples(READS, DOWN),
    losses=st.lists(
        st.tuples(st.sampled_from(list(AFTER)), READS, DOWN), min_size=1, max_size=2, unique_by=lambda each: each[0]
    ),
)
def test_whoever_is_lost_whichever_links_are_down(
    visits: int,
    begins: tuple[dict[str, set[int]], set[tuple[str, str]]],
    losses: list[tuple[str, dict[str, set[int]], set[tuple[str, str]]]],
) -> None:
    """Sites are lost after they have told some of the others, and not all, what they decided."""
    world = World(visits)
    ten_rounds(world, *begins)
    for lost, reads, down in losses:
        world.lose(lost)
        ten_rounds(world, reads, down)
    world.finish_without_lost()

"""What comes late while hosts go from site to site: URLs behind their keys, hosts at a site that takes none."""

from collections import Counter
from itertools import permutations

import numpy as np
from model_sites import OneSite, Post

from gossamer.cluster.site_list import Members
from gossamer.web.url import page_keys

NAMES = ("north", "east", "south")
FIRST, ONE, OTHER, KNOWN, PAGE = (f"http://{url}" for url in ("a.test/", "a.test/1", "a.test/2", "h.test/", "h.test/1"))
WEB = {FIRST: [ONE, OTHER, KNOWN], ONE: [PAGE], OTHER: [PAGE], KNOWN: [], PAGE: []}


class Sites(dict[str, OneSite]):
    def __init__(self) -> None:
        self.post, visited = Post(), Counter[str]()
        super().__init__({name: OneSite(name, self.post, WEB, visited) for name in NAMES})
        members = Members(1, dict.fromkeys(NAMES, 1.0), "fennel")
        for name, site in self.items():
            site.begin(members, [FIRST] if name == "north" else [])

    def calm(self) -> None:
        for _ in range(5):
            for site in self.values():
                site.step(0)
            for sender, to in permutations(NAMES, 2):
                self.post.deliver(self[sender], to)

    def give(self, name: str, host: str, to: str) -> None:
        """What a rebalance does."""
        self[name]._membership.moves[host] = to
        self[name].step(0)
        self[name]._open()

    def brought(self, host: str, to: str) -> None:
        self.calm()
        (name,) = (name for name, site in self.items() if any(f"//{host}/" in page for page in site.pages()))
        if name != to:
            self.give(name, host, to)
            self.calm()

    def pass_on(self, sender: str, to: str) -> None:
        self.post.deliver(self[sender], to)
        for _ in range(2):  # a host that stands behind news in its stream is taken in later
            self[to].step(0)

    def hits(self) -> dict[str, int]:
        return {page: count for site in self.values() for page, count in site.hits().items()}


def overtaken() -> Sites:
    """North finds PAGE twice, and tells south, which has given its host to east, which has given it to north. South
    sends the first link to east, and the second one to north, which gets it first."""
    sites = Sites()
    sites.brought("a.test", "north")
    sites["north"].step(1)
    sites.brought("h.test", "south")
    sites["north"].step(1)
    sites.give("south", "h.test", "east")
    sites.pass_on("south", "east")
    sites.pass_on("north", "south")  # the first link goes on to east
    sites["north"].step(1)
    sites.give("east", "h.test", "north")
    sites.pass_on("east", "north")
    sites.pass_on("north", "south")
    sites.pass_on("south", "north")
    return sites


def test_a_link_that_overtakes_its_url_counts_once_the_url_is_here() -> None:
    sites = overtaken()
    assert PAGE not in sites.hits()
    sites["north"]._open()
    sites.calm()
    assert sites.hits()[PAGE] == 2
    sites.calm()
    assert sites.hits()[PAGE] == 2, "once"
    assert not sites["north"].chain.state.early


def test_hosts_that_come_to_a_site_that_takes_none_go_on_in_the_same_run() -> None:
    """Whoever decided had not read the list yet."""
    sites = Sites()
    sites.brought("a.test", "north")
    members = Members(2, {**dict.fromkeys(NAMES, 1.0), "south": 0.0}, "fennel", [dict.fromkeys(NAMES, 1.0)])
    sites["south"].begin(members)
    for site in sites.values():
        assert site.place.placing is not None
        site.place.placing._partitioner = lambda hosts, *_: np.full(len(hosts), NAMES.index("south"))
    sites["north"].step(1)
    sites.calm()
    for name in ("north", "east"):
        sites[name].begin(members)
    sites.calm()
    assert not sites["south"].pages()
    assert KNOWN in sites.hits()


def test_nobody_is_told_where_links_go_that_it_sent_itself() -> None:
    """Such news would wait for a host on its way to us that has come already, and all sites would wait for us."""
    sites = Sites()
    sites.brought("a.test", "north")
    north = sites["north"]
    keys = page_keys([ONE])
    assert [name for name, _ in north.owners().by_name(keys)] == [north.agent]
    assert not north._incoming._reminders(north.owners(), [(north.agent, keys)])

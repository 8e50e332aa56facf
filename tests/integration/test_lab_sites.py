"""The database of all links, computed from what real sites crawled: whose hosts they were, and in our own encoding."""

from pathlib import Path

import numpy as np

from experiments import link_triples
from experiments.sites_replicas import Lags, Pair
from experiments.sites_runs import Setting, crawl
from gossamer.archive.query import ask
from gossamer.cluster.location import locate
from gossamer.placement.ring import Ring
from gossamer.sharing import compact
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.web.url import host_key


def test_all_links_cross_between_the_sites_that_crawled_their_pages(tmp_path: Path) -> None:
    """With ldg the ring does not say whose a host is: the archives do."""
    spec = WebSpec.plain(seed=3, pages=300, hosts=20, links=8.0, local=0.6, page_bytes=1_000.0)
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("".join(f"http://h{number}.test/\n" for number in range(spec.hosts)))
    with RunningWeb(spec) as web:
        done = crawl(Setting(2, "ldg", width=40, connections=8), tmp_path / "run", seeds, web.address)
    crawled = {
        row["key"]: (site, row["host"])
        for site, directory in enumerate(done.directories)
        for row in ask(directory, "SELECT key, host FROM pages WHERE visits > 0")
    }
    names = list(done.setting.names)
    ring = Ring(dict.fromkeys(names, 1.0))
    by_ring = ring.of_keys(np.array([host_key(host) for _, host in crawled.values()]))
    assert by_ring.tolist() != [site for site, _ in crawled.values()], "here the ring would do"

    found = list(link_triples.crossing(done.federation))
    pairs = {
        (referrer, target, links.from_site, links.to_site)
        for links in found
        for referrer, target in zip(links.referrer.tolist(), links.target.tolist(), strict=True)
    }
    rows = ask(locate(done.federation.path), "SELECT source, target FROM links WHERE verdict = 'followed'")
    ends = {(row["source"], row["target"], crawled[row["source"]][0], crawled[row["target"]][0]) for row in rows}
    assert pairs == {(source, target, one, other) for source, target, one, other in ends if one != other}

    costs = link_triples.costs(done.federation, tmp_path)
    assert costs.links == len(pairs)
    assert sum(int((links.score > 0).sum()) for links in found) > len(pairs) / 2
    assert 0 < costs.apart < 1 / 256, "scores by triples are those by sums, but for rounding"
    assert costs.kept.sent == costs.cleaned.sent == link_triples.sent_by_triples(done.federation) > costs.sums.sent > 0
    assert costs.kept.stored > costs.cleaned.stored > costs.sums.stored > 0
    assert all(way.sending_s > 0 and way.keeping_s > 0 for way in (costs.sums, costs.kept, costs.cleaned))


def test_letters_of_all_links_say_who_gives_what_to_whom() -> None:
    urls = ["http://b.test/2", "http://a.test/1", "http://b.test/2", "http://c.test/3"]
    keys = compact.page_keys(urls)
    score = np.array([5, 5, 8, 8])
    links = link_triples.Crossing(4, 0, 1, np.array([7, 7, 9, 9], np.uint64), keys, score, urls)
    targets = np.unique(keys)
    for is_known in (np.zeros(3, np.bool_), np.array([True, False, True])):
        found = link_triples.decoded(link_triples.encoded(links, is_known))
        triples = sorted(zip(*(column.tolist() for column in found), strict=True))
        assert triples == sorted(zip(keys.tolist(), [7, 7, 9, 9], score.tolist(), strict=True))
        (part,) = link_triples.summed(links, is_known)
        read = compact.decode(part)
        sums = {int(key): int(score[keys == key].sum()) for key in targets}
        assert dict(zip(read.key.tolist(), read.cash.tolist(), strict=True)) == sums


def test_the_database_reads_back_all_that_came(tmp_path: Path) -> None:
    random, kept = np.random.default_rng(1), link_triples.Kept(tmp_path / "links")
    sums = link_triples.Scores()
    for size in (1, 400, 30):
        target, referrer = (random.integers(0, 1 << 64, size, np.uint64, endpoint=False) for _ in range(2))
        target[: size // 2] = target[0]
        score = random.integers(0, 1 << 40, size)
        sums.add(target, score)
        found = kept.take(link_triples.Triples(target, referrer, score))
        assert found.keys.tolist() == sums.keys.tolist()
        assert found.values.tolist() == sums.values.tolist()
    assert kept.stored == sum(file.stat().st_size for file in (tmp_path / "links").iterdir())


def test_how_far_replicas_are_behind(tmp_path: Path) -> None:
    """A commit that the replica left out came with the next one; what never came is not counted."""
    pair = Pair(tmp_path / "own", tmp_path / "replica")
    lags = Lags([pair])
    lags.look(0.0)
    for now_s, folder, number in ((1.0, "own", 1), (2.0, "own", 2), (4.0, "replica", 2), (5.0, "own", 3)):
        path = tmp_path / folder / f"{number:08d}.json"
        path.parent.mkdir(exist_ok=True)
        path.touch()
        lags.look(now_s)
    assert lags.seconds() == [3.0, 2.0]

"""The database of all links, computed from what real sites crawled: whose hosts they were, and in our own encoding."""

from pathlib import Path

import numpy as np

from experiments import sites_baselines as baselines
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

    found = list(baselines.crossing(done.federation))
    pairs = {
        (referrer, target, links.from_site, links.to_site)
        for links in found
        for referrer, target in zip(links.referrer.tolist(), links.target.tolist(), strict=True)
    }
    rows = ask(locate(done.federation.path), "SELECT source, target FROM links WHERE verdict = 'followed'")
    ends = {(row["source"], row["target"], crawled[row["source"]][0], crawled[row["target"]][0]) for row in rows}
    assert pairs == {(source, target, one, other) for source, target, one, other in ends if one != other}

    assert baselines.link_database(done.federation) > baselines.SCORE_BYTES * len(pairs)


def test_letters_of_all_links_are_read_by_our_own_decoder() -> None:
    urls = ["http://b.test/2", "http://a.test/1", "http://b.test/2"]
    keys = compact.page_keys(urls)
    links = baselines.Crossing(0, 1, np.array([7, 7, 9], np.uint64), keys, urls)
    targets, first = np.unique(keys, return_index=True)
    (part,) = baselines.target_parts(links, targets, first, np.zeros(2, np.bool_))
    read = compact.decode(part)
    assert dict(zip(read.url, read.hits.tolist(), strict=True)) == {"http://b.test/2": 2, "http://a.test/1": 1}
    known, numbers = baselines.referrer_parts(links)
    read = compact.decode(known)
    assert dict(zip(read.key.tolist(), read.hits.tolist(), strict=True)) == {7: 2, 9: 1}
    of_each = np.frombuffer(numbers, "<u2")
    order = np.argsort(keys, kind="stable")
    assert read.key[of_each].tolist() == links.referrer[order].tolist()

"""Graphs from files of all kinds, host rules, measures, snapshots."""

import gzip
from pathlib import Path

import case_files
import numpy as np
import pytest

from experiments.graphs import earlier
from gossamer.errors import ConfigError
from gossamer.frontier.pagerank import authorities, pagerank
from gossamer.sim import measures
from gossamer.sim.graphs import Graph, linked, load
from gossamer.sim.hosts import RULES, host_rule
from gossamer.web.url import page_key

LINKS = [(0, 1), (0, 2), (1, 2), (3, 0), (3, 3)]


def chain(pages: int) -> Graph:
    source = np.arange(pages - 1)
    links = linked(source, source + 1, pages)
    return Graph("chain", *links, np.zeros(pages, np.int32), ["a.test"], np.ones(pages), "")


@pytest.mark.parametrize("between", ["\t", ",", " "])
@pytest.mark.parametrize("packed", [False, True])
def test_lists_of_links(tmp_path: Path, between: str, packed: bool) -> None:
    text = "# a remark\n# another\n" + "".join(f"{a}{between}{b}\n" for a, b in [*LINKS, LINKS[0]])
    path = tmp_path / ("links.txt.gz" if packed else "links.txt")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    graph = load(path, "even:2")
    assert graph.name == "links"
    assert (graph.pages, graph.links) == (4, 5)  # links are distinct
    assert list(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True)) == LINKS
    assert graph.host.tolist() == [0, 0, 1, 1]
    assert not graph.has_hosts
    assert graph.urls[3] == "http://g1.test/3.html"
    assert int(graph.keys[3]) == page_key(graph.urls[3])


def test_lists_of_urls_have_their_hosts(tmp_path: Path) -> None:
    path = tmp_path / "urls.tsv"
    path.write_text("http://b.example/x\thttp://A.example\nhttp://A.example\thttp://b.example/y\n")
    graph = load(path)
    assert graph.has_hosts
    assert graph.host_names == ["a.example", "b.example"]
    assert sorted(graph.urls) == ["http://a.example/", "http://b.example/x", "http://b.example/y"]


def test_lists_of_hosts_are_one_page_each(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text("a.example,b.example\nb.example,c.example\n")
    assert load(path).urls == ["http://a.example/", "http://b.example/", "http://c.example/"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.txt", None, "does not exist"),
        ("empty.txt", b"", "no list of links"),
        ("words.txt", b"only\nwords\n", "no list of links"),
        ("bytes.txt", b"\xff\xfe\x00", "no list of links"),
        ("bad.txt.gz", b"not packed", "no list of links"),
        ("bad.npz", b"PK\x03\x04 nothing", "no link graph"),
        ("urls.tsv", b"mailto:x@y.example\thttp://a.example/\n", "no URL"),
    ],
)
def test_what_is_no_graph(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load(tmp_path / name)


@pytest.mark.parametrize("indptr", [[0, 1], [0, 3, 1, 3], [1, 3, 3]])
def test_a_matrix_must_fit_together(tmp_path: Path, indptr: list[int]) -> None:
    np.savez(tmp_path / "g.npz", indptr=np.array(indptr), indices=np.array([7, 0, 0][: indptr[-1]]))
    with pytest.raises(ConfigError, match="do not fit together"):
        load(tmp_path / "g.npz")


@pytest.mark.parametrize("rule", ["even:7", "power:7", "cuts:7", "power"])
def test_host_rules_give_each_host_a_range(rule: str) -> None:
    graph = chain(200)
    host, words = host_rule(rule, graph.indptr, graph.indices)
    expected = min(int(rule.partition(":")[2] or 1_000), 200)
    assert len(host) == 200
    assert np.unique(host).tolist() == list(range(expected))
    assert (np.diff(host) >= 0).all()
    assert rule.partition(":")[0] in words
    assert np.array_equal(host, host_rule(rule, graph.indptr, graph.indices)[0])


def test_cuts_fall_where_no_link_crosses() -> None:
    inside = [
        (a, b) for start in (0, 5, 12) for a in range(start, start + 5) for b in range(start, start + 5) if a != b
    ]
    source, target = (np.array(ends) for ends in zip(*inside, strict=True))
    graph = Graph("cliques", *linked(source, target, 17), np.zeros(17, np.int32), [], np.ones(17), "")
    host, _ = host_rule("cuts:3", graph.indptr, graph.indices)
    assert host[:5].tolist() == [0] * 5
    assert len(set(host[5:10].tolist())) == 1
    assert len(set(host[12:].tolist())) == 1


@pytest.mark.parametrize("rule", ["odd:3", "even:x", "even:0", "power:-1"])
def test_unknown_host_rules(rule: str) -> None:
    graph = chain(5)
    with pytest.raises(ConfigError, match="no host rule"):
        graph.with_hosts(rule)


def test_default_rules_are_rules() -> None:
    for rule in RULES:
        assert len(chain(2_000).with_hosts(rule).host_names) == 1_000


def test_pagerank_by_hand() -> None:
    # 0 and 1 link to each other and 2 to 0: r2 = .15/3, r0 = .05 + .85 (r1 + r2), r1 = .05 + .85 r0
    rank = pagerank(np.array([0, 1, 2]), np.array([1, 0, 0]), 3)
    r0 = (0.05 + 0.85 * (0.05 + 0.05)) / (1 - 0.85**2)
    assert rank == pytest.approx([r0, 0.05 + 0.85 * r0, 0.05], abs=1e-8)


def test_pagerank_of_dangling_pages_goes_everywhere() -> None:
    rank = pagerank(np.array([0]), np.array([1]), 3)
    assert rank.sum() == pytest.approx(1)
    assert rank[0] == pytest.approx(rank[2])
    assert rank[1] == pytest.approx(rank[0] * 1.85, rel=1e-6)
    assert pagerank(np.zeros(0, np.int64), np.zeros(0, np.int64), 0).tolist() == []


def test_authorities_are_what_good_hubs_link_to() -> None:
    authority = authorities(np.array([0, 0, 1]), np.array([2, 3, 2]), 4)
    assert authority[2] > authority[3] > authority[0] == 0
    assert authority.sum() == pytest.approx(1)
    assert authorities(np.zeros(0, np.int64), np.zeros(0, np.int64), 2).tolist() == [0, 0]


def test_measures_by_hand() -> None:
    rank = np.array([0.5, 0.3, 0.2])
    curve = measures.cumulative(np.array([1, 0]), rank)
    assert curve.tolist() == pytest.approx([0.3, 0.8])
    assert measures.average(curve) == pytest.approx(0.55)
    assert measures.at(curve, 1) == pytest.approx(0.3)
    assert measures.at(curve, 3) == pytest.approx(0.8)
    assert measures.ideal(rank).tolist() == pytest.approx([0.5, 0.8, 1.0])
    assert measures.tau(np.array([0, 1, 2]), rank) == pytest.approx(1)
    assert measures.tau(np.array([2, 1, 0]), rank) == pytest.approx(-1)


def test_an_earlier_snapshot_has_the_seeds_share() -> None:
    random = np.random.default_rng(1)
    rank = random.pareto(1.2, 5_000)
    rank /= rank.sum()
    history = earlier(chain(5_000), rank, seed=3)
    old = ~np.isnan(history)
    assert old.mean() == pytest.approx(0.55, abs=0.001)
    assert 0.70 < rank[old].sum() < 0.75
    assert np.nansum(history) == pytest.approx(1)
    assert np.array_equal(history, earlier(chain(5_000), rank, seed=3), equal_nan=True)


def test_reference_graphs_load() -> None:
    graph = load(case_files.graph("debian-docs"))
    assert (graph.pages, graph.links, len(graph.host_names)) == (23_814, 1_723_910, 26)
    assert graph.has_hosts
    assert graph.page_bytes.max() > 100_000
    assert load(case_files.graph("cs-stanford")).rule == "hosts of its URLs"


def test_a_few_names_that_are_none_get_names_of_their_own(tmp_path: Path) -> None:
    pages = 2_000
    path = tmp_path / "old.npz"
    np.savez(path, indptr=np.arange(pages + 1), indices=np.roll(np.arange(pages), 1))
    urls = [f"http://h{number}.example/" for number in range(pages)]
    urls[7] = "http://www.iko. unit.no/"
    with gzip.open(tmp_path / "old.urls.gz", "wt") as lines:
        lines.write("\n".join(urls))
    found = load(path)
    assert found.urls[7] == "http://n7.test/"
    assert "1 that are none" in found.rule
    with gzip.open(tmp_path / "old.urls.gz", "wt") as lines:
        lines.write("\n".join(urls[:-3] + ["http:// /"] * 3))
    with pytest.raises(ConfigError, match="no URL that can be crawled"):
        load(path)

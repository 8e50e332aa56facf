"""`gossamer simulate` compares orders and connections on a graph; `gossamer lab` runs only in a clone."""

import argparse
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from experiments import graphs, pages
from gossamer.cli import app as cli
from gossamer.cli import simulate
from gossamer.config import Config
from gossamer.frontier.strategies import ORDERS
from gossamer.sim.comparison import Way, compare, importance, start_pages
from gossamer.sim.graphs import load
from gossamer.sim.simulator import Conditions, Knowledge


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "small.npz"
    graphs.make(path, 600, 30, seed=1)
    return path


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_row_for_every_order_and_number_of_connections(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["simulate", str(graph), "--order", "opic", "--order", "breadth-first"]
    assert cli.main([*asked, "--connections", "1", "--connections", "16", "--json"]) == 0
    found = {(row["order"], row["connections"]): row for row in rows(capsys)}
    assert set(found) == {(order, count) for order in ("opic", "breadth-first") for count in (1, 16)}
    for row in found.values():
        assert row["pages"] == found["opic", 1]["pages"]
        assert 0 < row["at_10_percent"] < row["average"] < 1
        assert 0 < row["half_hours"] < row["hours"]
        assert 0 < row["busy"] <= row["connections"]
    assert found["opic", 16]["hours"] < found["opic", 1]["hours"]
    assert found["opic", 1]["average"] > found["breadth-first", 1]["average"]


def test_a_table_and_a_figure_for_people(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "curves.svg"
    assert cli.main(["simulate", str(graph), "--pages", "100", "--figure", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "small: 600 pages" in said
    assert "start pages: 50" in said
    assert all(name in said for name in simulate.ORDERS)
    assert f"{Config().polite.connections:,} connections" in picture.read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["curves.svg"]


def test_rounds_as_a_crawl_makes_them_and_plain_batches(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["simulate", str(graph), "--order", "opic", "--connections", "8", "--json", "--width", "50"]
    for more in ((), ("--early", "0.5"), ("--advance", "0.5")):
        assert cli.main([*asked, *more]) == 0
    in_rounds, early, in_advance = rows(capsys)
    assert in_rounds["pages"] == early["pages"] == in_advance["pages"]
    assert len({(row["hours"], row["average"]) for row in (in_rounds, early, in_advance)}) == 3


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--order", "opik"), "did you mean opic"),
        (("--early", "0.5"), "give --width"),
        (("--figure", "curves.pdf"), "name a .png or an .svg file"),
        (("--topic", "weaving", "--order", "relevance"), "give the directory of a crawl"),
        (("--order", "relevance"), "relevance needs the relevance of each link to a topic"),
        (("--order", "historical-pagerank-zero"), "needs the PageRank of an earlier crawl"),
    ],
)
def test_mistakes_are_explained(
    graph: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], reason: str
) -> None:
    assert cli.main(["simulate", str(graph), *more]) == 2
    assert reason in capsys.readouterr().err


def test_a_graph_of_a_crawl_begins_where_the_crawl_began(graph: Path) -> None:
    loaded = load(graph)
    assert len(start_pages(loaded, 0, seed=0)) == 50
    begun = np.array([3, 5], np.int32)
    crawled = loaded.__class__(**{**loaded.__dict__, "starts": begun})
    assert start_pages(crawled, 0, seed=0).tolist() == [3, 5]
    assert len(start_pages(crawled, 7, seed=0)) == 7


def test_what_is_compared_knows_the_true_importance(graph: Path) -> None:
    """An oracle's order is better than any that must find out."""
    loaded = load(graph)
    starts, knowledge = start_pages(loaded, 0, seed=0), Knowledge(importance(loaded))
    ways = [Way(ORDERS[name], Conditions()) for name in ("omniscient", "opic", "random")]
    best, opic, random = compare(loaded, ways, starts, knowledge)
    assert best.average > opic.average > random.average
    assert opic.curve[-1] == pytest.approx(knowledge.oracle.sum() if knowledge.oracle is not None else 0, abs=0.2)


def test_the_lab_is_only_in_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulate, "__file__", str(tmp_path / "site-packages" / "gossamer" / "cli" / "simulate.py"))
    assert cli.main(["lab", "order"]) == 2
    assert capsys.readouterr().err == f"gossamer: {simulate.NO_CLONE}\n"


def test_directories_of_html_become_a_graph(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "sub").mkdir(parents=True)
    two.mkdir()
    (one / "index.html").write_text('<a href="a.html">a</a><a href="sub/">sub</a><a href="gone.html">gone</a>')
    (one / "a.html").write_text(
        '<a href="index.html">up</a><a href="http://two.example/">two</a><a href="a.html">me</a>'
    )
    (one / "sub" / "index.html").write_text("<p>nothing leads away")
    (two / "index.html").write_text('<a href="http://one.example/a.html">a</a>')
    graphs.of_directories(tmp_path / "web.npz", {"one.example": one, "two.example": two})
    found = load(tmp_path / "web.npz")
    links = {
        (found.urls[source], found.urls[target]) for source, target in zip(found.sources(), found.indices, strict=True)
    }
    at = "http://one.example/"
    assert links == {
        (f"{at}index.html", f"{at}a.html"),
        (f"{at}index.html", f"{at}sub/index.html"),
        (f"{at}a.html", f"{at}index.html"),
        (f"{at}a.html", f"{at}a.html"),
        (f"{at}a.html", "http://two.example/index.html"),
        ("http://two.example/index.html", f"{at}a.html"),
    }
    assert found.rule == "hosts of its URLs"
    assert found.page_bytes.tolist() == [file.stat().st_size for file in sorted(one.rglob("*.html"))] + [
        (two / "index.html").stat().st_size
    ]


def test_a_bare_clone_has_graphs_for_every_experiment(tmp_path: Path) -> None:
    """Those that are there are not made again, and every command is understood."""
    from experiments.harness import parser

    for name in set(pages.MADE):
        graphs.make(tmp_path / f"{name}.npz", 50, 5)
    assert pages.make_graphs(tmp_path) == pages.MADE
    commands = pages.experiments(tmp_path, pages.MADE)
    assert [command[0] for command in commands].count("order") == 2
    for command in commands:
        asked = parser().parse_args(command)
        assert getattr(asked, "graph", None) is None or asked.graph.is_file()


def test_commands_on_the_page_are_understood() -> None:
    found = re.findall(r"^gossamer (simulate .*)$", (pages.DOCS / "lab.md").read_text(), re.MULTILINE)
    assert len(found) >= 3
    parser = argparse.ArgumentParser()
    simulate.simulate_arguments(parser)
    for line in found:
        parser.parse_args(shlex.split(line, comments=True)[1:])

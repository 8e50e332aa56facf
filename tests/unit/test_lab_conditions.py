"""Castillo's conditions, Table 2 of LEADS and slices of CPU: the arithmetic, and small runs from the command line."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from experiments import castillo, cpu_slices, leads_table
from experiments.harness import main
from gossamer.sim.graphs import load


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A hundred and twenty pages on sixty hosts; the second page of a host is cited most."""
    random = np.random.default_rng(0)
    rows = [np.unique([*(2 * random.integers(0, 60, 3) + 1), *random.integers(0, 120, 2)]) for _ in range(120)]
    path = tmp_path / "small.npz"
    np.savez(
        path, indptr=np.cumsum([0, *map(len, rows)]), indices=np.concatenate(rows).astype(np.int32),
        host=np.repeat(np.arange(60), 2).astype(np.int32), host_names=np.array([f"h{n}" for n in range(60)], "S"),
    )  # fmt: skip
    return path


def test_homes_are_the_pages_of_all_hosts_that_most_links_lead_to(small: Path) -> None:
    graph = load(small)
    found = castillo.homes(graph)
    assert graph.host[found].tolist() == list(range(60))
    links = np.bincount(graph.indices, minlength=120)
    assert links[found].tolist() == np.maximum(links[0::2], links[1::2]).tolist()
    assert castillo.connections(graph) == 1


@pytest.mark.slow
def test_orders_under_castillo_s_conditions_from_the_command_line(small: Path, tmp_path: Path) -> None:
    assert main(["castillo", "--held", str(small), "--repeat", "3", "--starts", "5", "--out", str(tmp_path)]) == 0
    facts = json.loads((tmp_path / "castillo.json").read_text())
    rows = facts["tables"][facts["title"]]["rows"]
    assert len(rows) == 2 * 2 * len(castillo.ORDERS)
    assert {row["kind"] for row in rows} == {"held out"}
    assert all(row["low"] <= row["difference"] <= row["high"] for row in rows)
    assert all(row["difference"] == row["saved"] == 0 for row in rows if row["order"] == "opic")
    assert len(facts["tables"]["Statements of Castillo 2004"]["rows"]) == 2 * 2 * 4


def test_a_statement_is_open_where_the_interval_has_nothing() -> None:
    row = {"graph": "g", "starts": "all home pages", "wait": "15 s", "order": "larger-sites-first", "p": "1e-01"}
    row |= {"at_50": 0.9, "at_80": 0.94}  # type: ignore[dict-item]
    said = {
        each["statement"].partition(" (")[0]: each["here"]
        for each in castillo.statements(
            [{**row, "difference": 0.1, "low": -0.1, "high": 0.3, "saved": 0.2, "saved_low": 0.1, "saved_high": 0.3}]
        )
    }
    assert said == {
        "larger-sites-first is better than opic": "is open",
        "larger-sites-first has 80 % of the pages sooner than opic": "holds",
        "80 % of PageRank with 50 % of the pages, 95 % with 80 %": "does not hold",
    }


def test_a_sample_has_the_size_that_is_asked_for_and_only_edges_of_the_graph(small: Path) -> None:
    graph = load(small)
    found = leads_table.sample(graph, 100, 80, np.random.default_rng(1))
    assert (found.vertices, found.edges) == (100, 80)
    every = leads_table.sample(graph, 100, 10_000, np.random.default_rng(1))
    assert every.edges > 80
    pairs = {frozenset(pair) for pair in zip(graph.sources().tolist(), graph.indices.tolist(), strict=True)}
    assert every.edges < len([pair for pair in pairs if len(pair) == 2])


def test_table_2_counts_its_verdicts_by_kind_of_graph(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leads_table, "SIZES", {"G1": (110, 200), "G4": (5_000, 9_000)})
    monkeypatch.setattr(leads_table, "PARTS", (2, 4))
    options = ["leads-table", "--graph", str(small), "--runs", "3", "--out", str(tmp_path)]
    assert main(options) == 0
    tables = json.loads((tmp_path / "leads-table.json").read_text())["tables"]
    rows = tables["Table 2 of LEADS D1.4, on graphs of its sizes"]["rows"]
    assert [(row["size"], row["k"]) for row in rows] == [("G1", 2), ("G1", 4)], "a graph that is too small has no G4"
    assert all(0 < row["low"] <= row["ratio"] <= row["high"] for row in rows)
    assert [row["metis_paper"] for row in rows] == [0.36, 0.54]
    counted = tables["Verdicts"]["rows"]
    assert [row["cases"] for row in counted] == [2, 2]
    assert all(row["holds"] + row["is open"] + row["does not hold"] == 2 for row in counted)


def test_a_group_is_stopped_when_its_slice_is_used_up_and_goes_on_afterwards() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def state() -> str:
        return Path(f"/proc/{busy.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def wait_for(words: str) -> None:
        end_s = time.monotonic() + 60
        while state() not in words:
            assert time.monotonic() < end_s
            time.sleep(0.002)

    try:
        slices = cpu_slices.Slices(0.05, lambda: {"busy": [busy.pid]})
        with slices.limiting():
            wait_for("T")
            wait_for("RS")
        wait_for("RS")
        assert slices.used_s["busy"] > 0
        assert slices.part_used() > 0
    finally:
        busy.kill()
        busy.wait()


def test_a_crawl_s_processes_are_its_agents_and_the_first_one_s_company() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()', *sys.argv[1:]])"
    main_ = subprocess.Popen([sys.executable, "-c", script, "gossamer.cluster.agent_process"], stdin=subprocess.PIPE)
    try:
        end_s = time.monotonic() + 60
        while len(cpu_slices.family(main_.pid)) < 2:
            assert time.monotonic() < end_s
            time.sleep(0.01)
        assert list(cpu_slices.agents(main_.pid)) == ["0", "1"], "the script has the word, too"
    finally:
        main_.communicate()


def test_the_server_that_agents_are_forked_from_is_none_of_them() -> None:
    script = "import os; os.fork() and os.fork(); input()"
    main_ = subprocess.Popen([sys.executable, "-c", script, "gossamer.cluster.agent_process"], stdin=subprocess.PIPE)
    try:
        end_s = time.monotonic() + 60
        while len(cpu_slices.family(main_.pid)) < 3:
            assert time.monotonic() < end_s
            time.sleep(0.01)
        first, second = cpu_slices.agents(main_.pid).values()
        assert main_.pid in first
        assert len(first) == 2
        assert len(second) == 1
    finally:
        main_.communicate()


def test_pages_count_when_they_are_committed() -> None:
    """Fetching is not all that a page costs, and the beginning and the end of a crawl are something else."""
    steady = [(10.0 + number, 10) for number in range(10)]
    assert cpu_slices.rate(steady) == pytest.approx(10.0)
    assert cpu_slices.rate([(0.0, 10), *steady[1:9], (99.0, 10)]) == pytest.approx(70 / 17)


def test_verdicts_of_slices_go_by_their_intervals() -> None:
    found = [
        cpu_slices.Measured("agents", nodes, rate * nodes, 1.0, 3.0) for nodes in (1, 2, 3, 4) for rate in (100, 101)
    ]
    (row,) = cpu_slices._statements({("agents", n): np.array([100.0 * n, 101.0 * n]) for n in (1, 4)})
    assert row["here"] == "holds"
    assert row["figures"].startswith("4.00 [3.9")
    assert [each.nodes for each in found] == [1, 1, 2, 2, 3, 3, 4, 4]

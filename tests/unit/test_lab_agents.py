"""The arithmetic behind `gossamer lab agents`: from what was logged and timed to what is shown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments import agents_latency, agents_modes, agents_scaling
from experiments.harness import parser
from experiments.processes import cpu_s, family


def test_a_point_joins_what_senders_and_receivers_timed() -> None:
    heard = [
        {"sent": [[["a0>a1", 1], 10.0, 10.002], [["a0>a1", 2], 11.0, 11.004]], "got": [], "look_up": [0.001]},
        {"sent": [], "got": [[["a0>a1", 1], 10.01, 10.02, 10.05]], "look_up": [0.003]},
    ]
    point = agents_latency.joined(2, 5.0, 0.5, heard)
    assert (point.links, point.lost, point.per_s) == (2, 1, 4.0)
    means = {kind: point.mean(kind) for kind in ("publish", "arrive", "commit", "known", "look_up")}
    assert means == pytest.approx({"publish": 3.0, "arrive": 10.0, "commit": 30.0, "known": 50.0, "look_up": 2.0})
    assert point.worst("publish") == pytest.approx(3.9)


def test_a_point_without_links_says_so() -> None:
    point = agents_latency.joined(1, 5.0, 1.0, [{"sent": [], "got": [], "look_up": []}])
    assert point.links == 0
    assert np.isnan(point.mean("known"))


def test_injected_is_when_all_agents_together_know_all() -> None:
    commits = [
        {"agent": "a0", "known": 10, "s": 1.0},
        {"agent": "a0", "known": 40, "s": 2.0},
        {"agent": "a1", "known": 59, "s": 3.0},
        {"agent": "a1", "known": 60, "s": 4.0},
    ]
    assert agents_scaling.known_at_s(commits, 100) == 4.0
    assert agents_scaling.known_at_s(commits, 40) == 2.0
    assert agents_scaling.known_at_s(commits, 101) == float("inf")


def test_events_are_those_of_all_agents_in_order(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for name, seconds in (("a1.jsonl", (3, 5)), ("a0.jsonl", (4,)), ("a0.jsonl.1", (1,))):
        lines = [json.dumps({"time": f"2026-01-01T00:00:0{s}.500Z", "event": "commit"}) for s in seconds]
        (tmp_path / "log" / name).write_text("".join(f"{line}\n" for line in lines))
    found = agents_scaling.events(tmp_path)
    assert [event["agent"] for event in found] == ["a0", "a1", "a0", "a1"]
    assert np.diff([event["s"] for event in found]).tolist() == [2.0, 1.0, 1.0]


def test_measures_of_cho_and_garcia_molina() -> None:
    one = agents_modes.Crawled.of("cross-over", 2, np.array([5, 6, 5, 7, 7, 5], np.uint64), 4, 0, 3, 90)
    assert (one.visits, one.pages, one.coverage, one.overlap) == (6, 3, 0.75, 1.0)
    assert one.coverage_at.tolist() == [0.25, 0.5, 0.5, 0.75, 0.75, 0.75]
    assert one.overlap_at.tolist() == [0.0, 0.0, 0.5, 1 / 3, 2 / 3, 1.0]
    assert one.overlap_when(0.5) == 0.0
    assert one.overlap_when(0.7) == pytest.approx(1 / 3)
    assert one.overlap_when(0.9) is None


def test_the_width_is_that_of_all_agents() -> None:
    shape = agents_scaling.Shape(width=4_000)
    assert [shape.config(agents, "127.0.0.1:1").crawl.width for agents in (1, 3, 4)] == [4_000, 1_333, 1_000]


def test_a_family_is_a_process_and_its_descendants() -> None:
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        mine = family()
        assert mine[0] == os.getpid()
        assert {child.pid, *family(child.pid)} <= {*mine}
        assert len(family(child.pid)) == 2
        child.stdin.close()
    assert cpu_s([os.getpid()]) > 0
    assert cpu_s([child.pid]) == 0


@pytest.mark.parametrize("wrong", [["--agents", "0"], ["--agents", "1,x"], ["--part", "none"], ["--rates", "-1"]])
def test_numbers_that_make_no_sense_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["agents", *wrong])

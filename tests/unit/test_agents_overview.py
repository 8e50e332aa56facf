"""What `--agents` means, what agents report of themselves, and what `gossamer agents` makes of it."""

import argparse
from typing import Any

import msgspec
import pytest
from rich.console import Console

from gossamer.cli import options
from gossamer.cluster.protocol import Heartbeat, decode, encode
from gossamer.cluster.scaling import Advice
from gossamer.config import UNLIMITED, Config
from gossamer.crawl.report import CpuMeter
from gossamer.crawl.stats import Report, Stats
from gossamer.errors import ConfigError
from gossamer.watch.agents import AgentRow, Overview, _advice, render, words


def agents(text: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    options.add_configuration(parser)
    site = options.configuration(parser.parse_args(["--agents", text])).site
    return {"agents": site.agents, "least": site.min_agents, "most": site.max_agents}


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("4", {"agents": 4, "least": 1, "most": 0}),
        ("1..4", {"agents": 1, "least": 1, "most": 4}),
        ("3..3", {"agents": 3, "least": 3, "most": 3}),
        ("2..", {"agents": 2, "least": 2, "most": UNLIMITED}),
        ("2..unlimited", {"agents": 2, "least": 2, "most": UNLIMITED}),
    ],
)
def test_a_number_or_two(text: str, meaning: dict[str, Any]) -> None:
    assert agents(text) == meaning


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("4..2", "site.max_agents must be at least site.min_agents (4), not 2"),
        ("0..2", "site.min_agents must be at least 1, not 0"),
        ("1..500", f"site.max_agents must be at most {UNLIMITED}, not 500"),
        ("a..b", "--agents: site.min_agents must be a whole number, not 'a'"),
        ("1...3", "--agents: site.max_agents must be a whole number, not '.3'"),
    ],
)
def test_numbers_that_mean_nothing(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        agents(text)
    assert str(error.value) == complaint


def test_one_number_ends_what_the_last_run_did_on_demand() -> None:
    parser = argparse.ArgumentParser()
    options.add_configuration(parser)
    last = Config().replace({"site.max_agents": 8, "site.min_agents": 2})
    site = last.replace(options.given(parser.parse_args(["--agents", "4"]))).site
    assert (site.agents, site.max_agents) == (4, 0)


def test_cpu_is_that_of_the_last_seconds() -> None:
    meter = CpuMeter()
    assert meter.share(0.0, 5.0) == 0.0
    assert meter.share(2.0, 6.0) == pytest.approx(0.5)
    for second in range(3, 40):
        share = meter.share(float(second), 6.0 + second / 10)
    assert share == pytest.approx(0.1), "what was before is forgotten"


def beat(busy: int, due: int, **more: Any) -> Heartbeat:
    stats = Stats(0.0, 4.0, 20, 20, 999, connections=busy, frontier=7, known=30, memory_bytes=5_000_000)
    report = Report(
        number=3, epoch=1, zones="1-2", sent={}, marks={}, pages=None, rounds=2, idle="", next_due_s=None,
        backlog_bytes=10, committed_s=50.0, cpu_s=2.0, stats=stats, due_hosts=due, **more,
    )  # fmt: skip
    return decode(Heartbeat, encode(Heartbeat(incarnation="x", life=1, pid=9, alive_s=8.0, report=report)))


def test_reports_survive_the_way_and_older_ones_are_read() -> None:
    sent = beat(4, 7, cpu_share=0.25, received_bytes=100, sent_bytes=20, cores=2).report
    assert sent is not None
    assert (sent.cpu_share, sent.received_bytes, sent.sent_bytes, sent.due_hosts, sent.cores) == (0.25, 100, 20, 7, 2)
    older = msgspec.to_builtins(sent)
    for name in ("cpu_share", "received_bytes", "sent_bytes", "due_hosts", "cores"):
        del older[name]
    assert msgspec.convert(older, Report).due_hosts == 0


def test_advice_is_given_whether_or_not_the_number_is_fixed() -> None:
    alive = {"a0": beat(10, 30, cores=4)}
    fixed = Config().replace({"polite.connections": 10})
    assert _advice(alive, fixed).agents == 4
    assert _advice(alive, fixed.replace({"site.max_agents": 3})).agents == 3
    assert _advice(alive, fixed.replace({"site.max_agents": "unlimited"})).agents == 4
    busy = {"a0": beat(10, 30, cores=1, cpu_share=0.95)}
    assert _advice(busy, fixed).agents == 1, "its machine has no core left"
    assert _advice(busy, fixed.replace({"site.engine": "pull"})).agents == 4, "there may be other machines"
    begins = {**alive, "a1": Heartbeat(incarnation="y", life=1, pid=10, alive_s=0.0)}
    assert _advice(begins, fixed).agents is None
    assert _advice({}, fixed).why == "no agent is running"


def shown(found: Overview) -> str:
    console = Console(width=80, record=True, file=None, quiet=True)
    with console.capture() as capture:
        console.quiet = False
        console.print(render(found))
    return capture.get()


def test_it_fits_a_narrow_terminal() -> None:
    row = AgentRow(
        agent="north_a12", state="committing", zones=128, visits=1_234_567, known=9_999_999,
        frontier=8_765_432, pages_per_s=120.0, connections=256, due_hosts=12_345, memory_bytes=987_654_321, cpu=1.05,
        cpu_s=2_000.0, received_bytes=98_765_432_101, sent_bytes=1_234_567_890, backlog_bytes=123_456_789,
        committed_s=1e9, process=4_000_000,
    )  # fmt: skip
    text = shown(Overview([row], Advice(4, "3 hosts wait")))
    assert "…" not in text
    assert "4 agents would be enough now: 3 hosts wait." in text
    assert max(map(len, text.splitlines())) <= 80


def test_nobody_advises_a_crawl_that_has_ended() -> None:
    assert "would be enough" not in shown(Overview([AgentRow(agent="a0")], Advice(None, "no agent is running")))


def test_advice_in_words() -> None:
    assert words(Advice(1, "x")) == "1 agent would be enough now: x."
    assert words(Advice(2, "x", 2)) == "2 agents would be enough now: x."
    assert words(Advice(2, "x", 16)) == "16 agents would be enough now (2 are allowed): x."
    assert words(Advice(None, "x")) == "How many agents would be enough is not known: x."

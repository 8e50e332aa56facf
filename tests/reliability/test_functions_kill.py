"""Items are part of their round: a crawl with functions that dies anywhere has each item of each visit exactly once."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from dying import Death
from support import Command, check_index, check_no_leftovers, check_visited_once, differing, statuses

from gossamer.archive.query import ask
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

WIDTH = 8
SPEC = WebSpec(
    seed=5, hosts=12, pages=150, links=15.0, page_bytes=2_000.0, changing=0.0, errors=0.0, crawl_delays=0.0,
    robots_broken=0.0, gzip=0.3, chunked=0.3,
)  # fmt: skip
FUNCTIONS = """
import os

def seen(page):
    if page.url.endswith("1.html"):
        raise ValueError("not this one")
    if page.url.endswith("3.html"):
        os._exit(1)
    yield {"url": page.url, "title": page.title}
    yield {"links": [link.url for link in page.links]}
    yield page.file("title.txt", page.title)
    if page.depth == 0:
        yield page.follow("/?of=functions", priority=3)
"""
MOST = 600  # operations up to the end of a round


def command(web: RunningWeb, directory: Path, *more: str) -> Command:
    functions = directory.with_name("seen.py")
    functions.write_text(FUNCTIONS)
    options = [
        "--width", str(WIDTH), "--delay", "0", "--scope", "any", "--connections", "4", "--depth", "250",
        "--set", "limits.depth_dynamic=250", "--set", "archive.merge_files=2", "--extract", f"{functions}:seen",
    ]  # fmt: skip
    return Command(web, directory, [*options, *more])


def made(directory: Path) -> tuple[Counter[tuple[str, ...]], ...]:
    """Everything that functions made, by page."""
    return tuple(
        Counter(tuple(map(str, row.values())) for row in ask(directory, f"SELECT url, {columns} FROM {table}"))
        for table, columns in (("items", "number, item"), ("files", "name, data"), ("function_errors", "kind, error"))
    )


def check(one: Path, other: Path) -> None:
    assert differing(statuses(one), statuses(other)) == {}
    assert made(one) == made(other)
    assert all(made(one))
    (twice,) = ask(one, "SELECT count(*) - count(DISTINCT (key, round, function, number)) AS n FROM items")
    assert twice == {"n": 0}
    (lost,) = ask(one, "SELECT count(*) AS n FROM items i ANTI JOIN visits v USING (key, round, time)")
    assert lost == {"n": 0}
    check_visited_once(one, 0)
    check_index(one)
    check_no_leftovers(one)


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_killed_at_random_instants(tmp_path: Path, kills: int) -> None:
    chance = random.Random(kills)
    with RunningWeb(SPEC, log_path=tmp_path / "requests") as web:
        command(web, tmp_path / "plain").finish(120)
        disturbed = command(web, tmp_path / "killed")
        for number in range(kills):
            begins, commits = disturbed.events("begin"), disturbed.events("commit")
            with disturbed.forked() as fork:
                disturbed.wait_for(fork, "begin", begins + 1)
                if number % (kills // 4) == 0:  # some runs must get on
                    disturbed.wait_for(fork, "commit", commits + 2)
                time.sleep(chance.uniform(0.0, 0.5))
        disturbed.finish(120)
    check(tmp_path / "killed", tmp_path / "plain")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_die_one_operation_later_each_time(tmp_path: Path) -> None:
    """Each run gets one operation on files further, until one commits a round before it dies."""
    with RunningWeb(SPEC, log_path=tmp_path / "requests") as web:
        command(web, tmp_path / "plain").finish(120)
        dying, last, deaths = command(web, tmp_path / "dying"), "", 0
        while last != "committed":
            deaths += 1
            assert deaths < MOST
            report = tmp_path / "report"
            report.unlink(missing_ok=True)
            with dying.forked(Death(deaths, dying.directory, report)) as process:
                process.join(120)
                assert process.exitcode in (0, -9), dying.said()
            last = report.read_text().splitlines()[-1]
        dying.finish(120)
    check(tmp_path / "dying", tmp_path / "plain")

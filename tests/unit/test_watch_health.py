from typing import Any

from gossamer.columns import Outcome
from gossamer.crawl.stats import CALM
from gossamer.watch.advice import advice
from gossamer.watch.health import Facts, problems

NOW_S = 1_000_000.0
AGENT: dict[str, Any] = {
    "agent": "a0", "state": "crawling", "process": 7, "frontier": 10, "committed_s": NOW_S - 10
}  # fmt: skip


def facts(**given: Any) -> Facts:
    return Facts(**{"now_s": NOW_S, "agents": [AGENT], **given})


def test_a_crawl_that_works_has_no_problem() -> None:
    assert problems(facts()) == []


def test_every_outcome_that_is_trouble_has_advice() -> None:
    assert [o.name for o in Outcome if o.name.lower() not in CALM and not advice(o.name.lower())] == []


def test_an_agent_that_was_killed_is_a_failure_that_says_what_to_do() -> None:
    (problem,) = problems(facts(agents=[{**AGENT, "state": "stopped", "process": None}]))
    assert problem.is_failure
    assert problem.what.startswith("a0 ended")
    assert "again" in problem.do


def test_an_agent_of_another_machine_may_run_there() -> None:
    (problem,) = problems(facts(agents=[{**AGENT, "state": "stopped", "process": None}], is_near=False))
    assert not problem.is_failure


def test_a_crawl_that_commits_nothing_is_a_failure_unless_it_waits() -> None:
    silent = [{**AGENT, "committed_s": NOW_S - 3600}]
    assert [problem.is_failure for problem in problems(facts(agents=silent))] == [True]
    assert problems(facts(agents=silent, waits_until_s=NOW_S + 60)) == []
    assert problems(facts(agents=[{**silent[0], "frontier": 0}])) == []


def test_a_disk_that_fills_up_is_noticed_before_it_is_full() -> None:
    assert [problem.is_failure for problem in problems(facts(free_bytes=500_000_000))] == [False]
    assert [problem.is_failure for problem in problems(facts(free_bytes=1_000))] == [True]
    assert problems(facts(free_bytes=10**12)) == []


def test_failures_come_first() -> None:
    found = problems(facts(messages=3, failure="manifest 7 is damaged", visits=1000, trouble={"timeout": 900}))
    assert [problem.is_failure for problem in found] == [True, False, False]
    assert "90%" in found[2].what
    assert "fetch.timeout_s" in found[2].do

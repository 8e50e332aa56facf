"""Hosts whose names have the same 24 bits: what they share, and what not."""

from itertools import count

import pytest
from test_update import Agent, all_rows
from test_workbench import Bench

from gossamer.config import Limits
from gossamer.crawl.update import RoundColumns, seeds
from gossamer.frontier import namesakes
from gossamer.frontier.caps import Quota
from gossamer.frontier.namesakes import Namesakes
from gossamer.web.url import domain_of, host_key, host_of


def with_one_key() -> tuple[str, str]:
    """The first two names that have one; each is a domain of its own."""
    names: dict[int, str] = {}
    for number in count():
        name = f"h{number}.test"
        if (found := names.setdefault(host_key(name), name)) != name:
            return found, name
    raise AssertionError


ONE, OTHER = with_one_key()
LIMITS = Limits(pages_per_host=10)


def pages(host: str, number: int, first: int = 0) -> list[str]:
    return [f"http://{host}/{page}" for page in range(first, first + number)]


def mention(agent: Agent, *urls: str) -> None:
    agent.update(RoundColumns(inbox=seeds(urls, agent.ledger)))


def known(agent: Agent) -> dict[str, int]:
    hosts = [host_of(url) for url in agent.index.urls(all_rows(agent.index))]
    return {name: hosts.count(name) for name in sorted({*hosts})}


def test_they_have_one_key() -> None:
    assert host_key(ONE) == host_key(OTHER)
    assert domain_of(ONE) != domain_of(OTHER)


@pytest.mark.parametrize("together", [False, True])
def test_each_has_the_limit_of_pages_to_itself(together: bool) -> None:
    """One is full before the other is known, or both come in one round; and each of them is full at last."""
    agent = Agent(limits=LIMITS)
    if together:
        mention(agent, *pages(ONE, 12), *pages(OTHER, 12))
    else:
        mention(agent, *pages(ONE, 12))
        assert known(agent) == {ONE: 10}
        mention(agent, *pages(OTHER, 7))
        assert known(agent) == {ONE: 10, OTHER: 7}
        mention(agent, *pages(OTHER, 5, first=7), *pages(ONE, 5, first=20))
    assert known(agent) == {ONE: 10, OTHER: 10}
    mention(agent, *pages(OTHER, 5, first=30), *pages(ONE, 5, first=30))
    assert known(agent) == {ONE: 10, OTHER: 10}


def test_a_run_that_begins_counts_them_anew() -> None:
    agent = Agent(limits=LIMITS)
    mention(agent, *pages(ONE, 6), *pages(OTHER, 9))
    agent.index.namesakes = Namesakes(agent.index.pages, agent.index.heap)
    mention(agent, *pages(ONE, 9, first=20), *pages(OTHER, 9, first=20))
    assert known(agent) == {ONE: 10, OTHER: 10}


def test_a_host_alone_is_as_full_as_ever() -> None:
    agent = Agent(limits=LIMITS)
    for first in range(0, 30, 3):
        mention(agent, *pages("alone.test", 3, first))
    assert known(agent) == {"alone.test": 10}


def test_only_so_many_hosts_are_counted_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namesakes, "_MOST", 3)
    agent, others = Agent(limits=LIMITS), [f"full{number}.test" for number in range(20)]
    for _ in range(2):
        mention(agent, *(page for host in (ONE, *others, OTHER) for page in pages(host, 12)))
        assert known(agent) == dict.fromkeys((ONE, OTHER, *others), 10)
        assert len(agent.index.namesakes._known) <= 3


def test_each_has_a_queue_and_a_delay_of_its_own() -> None:
    """Politeness goes by name."""
    bench = Bench(delay_s=10.0)
    urls = [f"http://{ONE}/1", f"http://{ONE}/2", f"http://{OTHER}/1"]
    bench.know(*urls)
    bench.add(*urls)
    assert {bench.fetch().host, bench.fetch().host} == {ONE, OTHER}
    assert bench.wait() is None, "the second page of the first waits for its first"


def test_each_website_has_the_pages_of_its_seed_to_itself() -> None:
    quotas = {ONE: Quota(4, (ONE,)), OTHER: Quota(6, (OTHER,))}
    agent = Agent(limits=LIMITS, quota=quotas.get)
    mention(agent, *pages(ONE, 3), *pages(OTHER, 9))
    mention(agent, *pages(ONE, 9, first=20), *pages(OTHER, 9, first=20))
    assert known(agent) == {ONE: 4, OTHER: 6}


def test_the_limit_of_a_domain_is_none_for_hosts_of_others() -> None:
    agent = Agent(limits=Limits(pages_per_host=10, pages_per_domain=8))
    mention(agent, *pages(ONE, 10))
    mention(agent, *pages(OTHER, 12))
    assert known(agent) == {ONE: 8, OTHER: 10}


def test_of_domains_the_first_one_counts_the_pages() -> None:
    """This is what they share: the pages of both count for the limit of the domain that was there first. By default
    that is a tenth of such a limit at most: 25,000 pages of 250,000."""
    agent = Agent(limits=Limits(pages_per_host=10, pages_per_domain=15))
    mention(agent, *pages(ONE, 3))
    mention(agent, *pages(OTHER, 10))
    mention(agent, *pages(f"www.{ONE}", 9))
    assert known(agent) == {ONE: 3, OTHER: 10, f"www.{ONE}": 2}

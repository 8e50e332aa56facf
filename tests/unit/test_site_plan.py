"""Decisions of a site: who owns which zone, who may visit how many pages, for whom there is a letter."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.cluster.plan import Budget, shared_out, undelivered

NAMES = ["a0", "a1", "a2", "a3", "a4", "a5"]
owners = st.builds(
    lambda names, wide: [names[zone // wide % len(names)] for zone in range(ZONES_IN_ALL)],
    st.lists(st.sampled_from(["", *NAMES]), min_size=1, max_size=60),
    st.sampled_from([1, 3, 16, 256]),
)
staying = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)


def owned(by_zone: list[str]) -> dict[str, list[int]]:
    return {name: [zone for zone, owner in enumerate(by_zone) if owner == name] for name in NAMES}


@given(owners, staying)
def test_shares_are_equal_and_moves_few(before: list[str], names: list[str]) -> None:
    after = shared_out(owned(before), names)
    counts = [after.count(name) for name in names]
    assert sum(counts) == ZONES_IN_ALL
    assert max(counts) - min(counts) <= 1
    # Whoever has too much gives the surplus away; nobody else moves anything.
    share, odd = divmod(ZONES_IN_ALL, len(names))
    held = sorted((before.count(name) for name in names), reverse=True)
    least = ZONES_IN_ALL - sum(min(count, share + (place < odd)) for place, count in enumerate(held))
    assert sum(one != other for one, other in zip(before, after, strict=True)) == least


@given(owners, staying)
def test_shares_are_settled(before: list[str], names: list[str]) -> None:
    after = shared_out(owned(before), names)
    assert shared_out(owned(list(after)), names) == after
    assert shared_out(dict(reversed(owned(before).items())), names) == after


@dataclass
class Worker:
    """An agent that works under the grant that it has received last, and reports only now and then."""

    sent: list[int] = field(default_factory=lambda: [0])
    received: int = 0  # place in `sent`
    visits: int = 0
    work: int = 0  # pages it could visit
    reported: tuple[int, int, bool] = (0, 0, False)  # visits, grant, idle

    def receive(self, orders: int) -> None:
        self.received = min(len(self.sent) - 1, self.received + orders)

    def visit(self, pages: int) -> None:
        made = max(0, min(pages, self.work, self.sent[self.received] - self.visits))
        self.visits += made
        self.work -= made

    def report(self) -> None:
        self.reported = (self.visits, self.sent[self.received], not self.work)


def divide(budget: Budget, workers: list[Worker]) -> None:
    names = [f"a{number}" for number in range(len(workers))]
    reported = dict(zip(names, (worker.reported for worker in workers), strict=True))
    grants = budget.divide(
        {name: visits for name, (visits, _, _) in reported.items()},
        {name: received for name, (_, received, _) in reported.items()},
        {name for name, (_, _, is_idle) in reported.items() if is_idle},
    )
    for name, worker in zip(names, workers, strict=True):
        if grants[name] != worker.sent[-1]:
            worker.sent.append(grants[name])


steps = st.lists(
    st.tuples(st.sampled_from(["divide", "hear", "visit", "report", "find"]), st.integers(0, 3), st.integers(1, 60)),
    max_size=120,
)


@settings(max_examples=300)
@given(st.integers(1, 200), st.integers(1, 4), steps)
def test_a_budget_is_never_exceeded_and_used_up_in_the_end(
    limit: int, count: int, script: list[tuple[str, int, int]]
) -> None:
    budget, workers = Budget(limit), [Worker() for _ in range(count)]
    for act, number, amount in script:
        worker = workers[number % count]
        if act == "divide":
            divide(budget, workers)
        elif act == "hear":
            worker.receive(1 + amount % 2)
        elif act == "visit":
            worker.visit(amount)
        elif act == "find":
            worker.work += amount
        else:
            worker.report()
        assert sum(worker.visits for worker in workers) <= limit
    # From now on everybody receives them, and one of them has more to visit than there may be.
    workers[-1].work += limit
    for _ in range(100):
        divide(budget, workers)
        for worker in workers:
            worker.receive(len(worker.sent))
            worker.visit(limit)
            worker.report()
        assert sum(worker.visits for worker in workers) <= limit
    assert sum(worker.visits for worker in workers) == limit


def test_a_budget_counts_what_earlier_runs_visited() -> None:
    budget = Budget(100)
    assert budget.divide({"a0": 70, "a1": 30}, {}, set()) == {"a0": 70, "a1": 30}
    assert sum(Budget(120).divide({"a0": 70, "a1": 30}, {}, set()).values()) == 120


def test_an_agent_that_works_again_does_not_lose_what_is_on_its_way_to_it() -> None:
    """It was sent 50, then 116; it has reported that it received 50: the rest is still its own."""
    budget = Budget(130, {"a0": 116, "a1": 0})
    grants = budget.divide({"a0": 50, "a1": 0}, {"a0": 50, "a1": 0}, {"a0"})
    assert grants["a1"] + 116 <= 130


def test_undelivered() -> None:
    sent = {"a0": {"a0>a1": 5, "a0>a2": 3}, "a1": {"a1>a0": 2, "a1>a1": 4}}
    assert undelivered(sent, {"a0": {"a1>a0": 2}, "a1": {"a0>a1": 4, "a1>a1": 4}}) == {"a1", "a2"}
    assert undelivered(sent, {"a0": {"a1>a0": 9}, "a1": {"a0>a1": 5, "a1>a1": 4}, "a2": {"a0>a2": 3}}) == set()
    assert undelivered({}, {}) == set()


def test_an_allowance_that_is_not_needed_goes_to_those_with_work() -> None:
    """One agent has a few pages that wait for their hosts, another has hundreds: the limit is reached all the same."""
    budget, visits, received = Budget(1000), {"a": 0, "b": 0}, {"a": 0, "b": 0}
    for _ in range(200):
        need = {"a": 40 - visits["a"], "b": 5000}
        grants = budget.divide(visits, received, [], need)
        assert sum(max(grants[name], received[name]) for name in grants) <= 1000
        received = dict(grants)
        visits = {"a": min(35, grants["a"]), "b": grants["b"]}  # the last five of a never come
    assert visits["b"] >= 1000 - 35 - 5 - 16


def test_how_many_agents_zones_are_fine_enough_for() -> None:
    """The page on scale says so: with more, the fullest may have more than a tenth above the mean."""

    def fullest(agents: int) -> float:
        owners = shared_out({}, [f"a{number}" for number in range(agents)])
        return max(Counter(owners).values()) / (ZONES_IN_ALL / agents)

    assert max(fullest(agents) for agents in range(1, 451)) <= 1.1 < fullest(451)
    assert round(fullest(200), 2) == 1.03

"""How many agents a site needs: each rule of the decision, with the time as an argument."""

from math import inf

import pytest

from gossamer.cluster.scaling import NONE, Change, Limits, Load, Scaler, Situation, advice, enough

LIMITS = Limits(connections=10, most=8)
EVERY_S, STEADY_S = 300.0, 60.0
FULL, CALM = Load(10, 30, 0.1), Load(1, 0, 0.02)


def looked(
    scaler: Scaler, situation: Situation, seconds: float = STEADY_S, start_s: float = 1e6, **limits: int
) -> Change:
    """The first change within so many seconds of looking, once in two."""
    for second in range(0, int(seconds) + 1, 2):
        change = scaler.decide(start_s + second, situation, LIMITS._replace(**limits))
        if change is not NONE:
            return change
    return NONE


def loads(*each: Load | None) -> dict[str, Load | None]:
    return {f"a{number}": load for number, load in enumerate(each)}


# How many are enough


@pytest.mark.parametrize(
    ("each", "agents"),
    [
        ([Load(10, 30)], 4),
        ([Load(10, 0)], 1),
        ([Load(10, 1)], 1),
        ([Load(10, 2)], 2),
        ([Load(10, 10), Load(0, 0)], 2),
        ([Load(10, 25), Load(10, 0)], 5),
        ([Load(3, 0), Load(2, 0)], 1),
        ([Load(3, 0), Load(3, 0)], 2),  # one would be more than half full, and soon there would be two again
        ([Load(0, 0)] * 4, 1),
        ([Load(4, 0)] * 4, 4),
        ([Load(2, 0)] * 4, 2),
        ([Load(500, 0)] * 2, 8),
    ],
)
def test_as_many_as_it_takes_to_serve_the_hosts_that_are_due(each: list[Load], agents: int) -> None:
    assert enough(each, LIMITS).agents == agents


def test_cpu_alone_brings_nobody() -> None:
    assert enough([Load(2, 0, 1.0)], LIMITS).agents == 1
    assert enough([Load(9, 0, 1.2)] * 2, LIMITS).agents == 2


def test_hosts_that_wait_for_a_full_core_bring_more() -> None:
    found = enough([Load(4, 4, 0.95)], LIMITS)
    assert found.agents == 2
    assert "95% of a core" in found.why
    assert enough([Load(4, 4, 0.2)], LIMITS).agents == 1, "it is about to serve them"


def test_nobody_leaves_whose_cpu_the_others_do_not_have() -> None:
    assert enough([Load(1, 0, 0.6), Load(1, 0, 0.6)], LIMITS).agents == 2
    assert enough([Load(1, 0, 0.2), Load(1, 0, 0.2)], LIMITS).agents == 1


def test_cores_that_are_busy_are_not_shared_by_more() -> None:
    found = enough([FULL._replace(cpu=0.95)] * 2, LIMITS._replace(cores=2))
    assert found.agents == 2
    assert "2 cores are busy" in found.why
    assert enough([FULL._replace(cpu=0.5)] * 2, LIMITS._replace(cores=2)).agents == 8


def test_never_fewer_than_the_least_nor_more_than_the_most() -> None:
    assert enough([CALM] * 4, LIMITS._replace(least=3)).agents == 3
    found = enough([FULL] * 3, LIMITS._replace(most=4))
    assert found.agents == 4
    assert found.enough == 12


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (Load(10, 30), "30 hosts wait for a connection beside 10 being served, and one can serve 10 hosts at a time"),
        (Load(1, 0), "1 host is being served and none waits, and one can serve 10 hosts at a time"),
        (Load(10, 1), "1 host waits for a connection beside 10 being served, and one can serve 10 hosts at a time"),
    ],
)
def test_the_reason_is_a_plain_sentence(load: Load, words: str) -> None:
    assert enough([load], LIMITS).why == words


def test_nothing_is_advised_while_somebody_has_not_reported() -> None:
    found = advice(Situation(loads(FULL, None)), LIMITS)
    assert found.agents is None
    assert found.why == "nothing is known of a1 yet"
    assert advice(Situation({}), LIMITS).agents is None


# When there is a change


def test_a_need_must_last_before_somebody_comes() -> None:
    scaler = Scaler(EVERY_S)
    assert looked(scaler, Situation(loads(FULL)), STEADY_S - 2) is NONE
    change = scaler.decide(1e6 + STEADY_S, Situation(loads(FULL)), LIMITS)
    assert (change.add, change.retire) == (1, ())
    assert "wait for a connection" in change.why


def test_a_short_peak_brings_nobody() -> None:
    scaler = Scaler(EVERY_S)
    assert looked(scaler, Situation(loads(CALM)), 200) is NONE
    assert looked(scaler, Situation(loads(FULL._replace(due=10))), 4, 1e6 + 202) is NONE
    assert looked(scaler, Situation(loads(CALM)), 200, 1e6 + 208) is NONE


def test_a_gap_in_a_lasting_need_does_no_harm() -> None:
    """The mean counts: at a single look all hosts may just have been served."""
    scaler = Scaler(EVERY_S)
    for second in range(0, 60, 2):
        load = CALM if second == 30 else FULL
        assert scaler.decide(1e6 + second, Situation(loads(load)), LIMITS) is NONE
    assert scaler.decide(1e6 + 60, Situation(loads(FULL)), LIMITS).add == 1


def test_one_change_in_so_much_time() -> None:
    scaler = Scaler(EVERY_S, changed_s=1e6)
    assert looked(scaler, Situation(loads(FULL)), EVERY_S - 2) is NONE
    assert scaler.decide(1e6 + EVERY_S, Situation(loads(FULL)), LIMITS).add == 1
    assert looked(Scaler(EVERY_S, changed_s=1e6), Situation(loads(CALM, CALM)), EVERY_S - 2) is NONE


def test_a_last_change_that_seems_to_be_in_the_future_counts_as_now() -> None:
    assert looked(Scaler(EVERY_S, changed_s=2e6), Situation(loads(FULL)), 4 * EVERY_S) is NONE


@pytest.mark.parametrize(("now", "add"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_one_change_at_most_doubles_them(now: int, add: int) -> None:
    assert looked(Scaler(EVERY_S), Situation(loads(*[Load(10, 90)] * now))).add == add


@pytest.mark.parametrize(("now", "left"), [(2, 1), (3, 2), (4, 2), (8, 4)])
def test_one_change_at_most_halves_them(now: int, left: int) -> None:
    change = looked(Scaler(EVERY_S), Situation(loads(*[Load(0, 0)] * now), fixed=("a0",)))
    assert len(change.retire) == left
    assert "a0" not in change.retire


def test_those_with_least_to_do_leave_the_newest_first() -> None:
    names = {"a0": Load(0), "a1": Load(1), "a2": Load(0), "a9": Load(0), "a10": Load(0), "a3": Load(2)}
    assert looked(Scaler(EVERY_S), Situation(names, fixed=("a0",))).retire == ("a10", "a9", "a2")


def test_the_least_number_stays() -> None:
    assert looked(Scaler(EVERY_S), Situation(loads(CALM, CALM)), least=2) is NONE
    assert len(looked(Scaler(EVERY_S), Situation(loads(*[CALM] * 8)), least=6).retire) == 2


def test_too_many_for_the_most_leave() -> None:
    assert len(looked(Scaler(EVERY_S), Situation(loads(*[FULL] * 4)), most=3).retire) == 1


def test_no_change_while_zones_or_hosts_change_hands() -> None:
    """A federation whose list of sites is being carried out is such a case, too."""
    scaler = Scaler(EVERY_S)
    assert looked(scaler, Situation(loads(FULL), is_settled=False), 400) is NONE
    assert looked(scaler, Situation(loads(FULL)), STEADY_S - 2, 2e6) is NONE, "the time begins anew"


@pytest.mark.parametrize("load", [FULL, CALM])
def test_no_change_while_somebody_begins_or_is_replaced(load: Load) -> None:
    scaler = Scaler(EVERY_S)
    assert looked(scaler, Situation(loads(load, load)), STEADY_S - 4) is NONE
    assert looked(scaler, Situation(loads(load, None)), 400, 2e6) is NONE
    assert looked(scaler, Situation(loads(load, load)), STEADY_S - 4, 3e6) is NONE, "the time begins anew"


def test_the_time_begins_anew_with_other_agents() -> None:
    scaler = Scaler(EVERY_S)
    assert looked(scaler, Situation(loads(FULL)), STEADY_S - 4) is NONE
    assert looked(scaler, Situation(loads(FULL, FULL)), STEADY_S - 4, 1e6 + STEADY_S - 2) is NONE


def test_nobody_comes_for_pages_that_may_not_be_visited() -> None:
    assert looked(Scaler(EVERY_S), Situation(loads(FULL), pages_left=0)) is NONE
    assert looked(Scaler(EVERY_S), Situation(loads(FULL), pages_left=30)) is NONE
    assert looked(Scaler(EVERY_S), Situation(loads(FULL), pages_left=3000)).add == 1


def test_nobody_comes_without_a_machine() -> None:
    assert looked(Scaler(EVERY_S), Situation(loads(FULL, FULL), room=0)) is NONE
    assert looked(Scaler(EVERY_S), Situation(loads(FULL, FULL), room=1)).add == 1
    assert looked(Scaler(EVERY_S), Situation(loads(FULL, FULL), room=inf)).add == 2


def test_nobody_to_look_at_is_no_reason() -> None:
    assert looked(Scaler(EVERY_S), Situation({}), 400) is NONE

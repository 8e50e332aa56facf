import pytest

from gossamer.columns import NEVER, Outcome, Status
from gossamer.config import Config
from gossamer.crawl.states import TRANSITIONS, after
from gossamer.crawl.update import CashUse

NOW_S = 1_700_000_000.0


def test_every_outcome_has_a_transition() -> None:
    assert set(TRANSITIONS) == set(Outcome)


PASSING = [o for o in Outcome if TRANSITIONS[o].status is Status.FAILED]


@pytest.mark.parametrize("outcome", PASSING)
def test_passing_failures_are_tried_again_with_growing_pauses_then_gone(outcome: Outcome) -> None:
    config = Config().replace({"fetch.retries": 2, "fetch.retry_s": 10.0})
    first, second, last = (after(outcome, tries, NOW_S, config) for tries in (0, 1, 2))
    assert (first.status, first.cash_use, first.tries) == (Status.FAILED, CashUse.KEEP, 1)
    assert NOW_S + 10 <= first.due_s < second.due_s < NOW_S + 25
    assert (last.status, last.cash_use, last.due_s) == (Status.GONE, CashUse.DROP, NEVER)


def test_what_a_server_forbids_is_tried_again_later_than_a_failure_and_never_gone() -> None:
    config = Config().replace({"fetch.retries": 2, "fetch.retry_s": 10.0, "fetch.forbidden_s": 1000.0})
    first, second, last = (after(Outcome.FORBIDDEN, tries, NOW_S, config) for tries in (0, 1, 2))
    assert {found.status for found in (first, second, last)} == {Status.FORBIDDEN}
    assert {found.cash_use for found in (first, second, last)} == {CashUse.KEEP}
    assert NOW_S + 1000 <= first.due_s < NOW_S + 2000 <= second.due_s < NEVER
    assert last.due_s == NEVER, "or a crawl that goes on would never end with it"
    assert first.due_s > after(Outcome.SERVER_ERROR, 0, NOW_S, config).due_s


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNCHANGED])
def test_success_resets_failures_and_spends_the_cash(outcome: Outcome) -> None:
    found = after(outcome, 2, NOW_S, Config())
    assert (found.status, found.cash_use, found.due_s, found.tries) == (Status.FETCHED, CashUse.SPEND, NEVER, 0)


def test_gone_pages_do_not_come_back() -> None:
    for outcome in (Outcome.GONE, Outcome.REJECTED, Outcome.BAD_REDIRECT, Outcome.DENIED, Outcome.REFUSED_ADDRESS,
                    Outcome.REFUSED_TYPE):  # fmt: skip
        found = after(outcome, 0, NOW_S, Config())
        assert (found.due_s, found.cash_use) == (NEVER, CashUse.DROP)

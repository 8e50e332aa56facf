"""This module is the one table of transitions: the state that an outcome leads to.

    outcome              page becomes   its cash                       again?
    ok                   fetched        split over its links           by the refresh policy
    unchanged            fetched        split over the links it had    by the refresh policy
    moved                moved          all to the target              no
    gone, rejected       gone           to the virtual page            no
    bad redirect, other  gone           to the virtual page            no
    server error, throttled, names,
    connections, TLS, time-outs         failed         kept            after a pause that doubles;
                                                                       after `fetch.retries` gone
    forbidden            forbidden      kept                           after `fetch.forbidden_s`, which doubles;
                                                                       after `fetch.retries` no more
    denied by robots     denied         to the virtual page            no
    refused address,
    content type, use    refused        to the virtual page            no

A page that is forbidden (401, 402, 403, 407, 451) is not gone: if it had content, that and its links still count.
When a fetched page is visited again, `refresh/refresher.py` decides; its row says never.
A deferral (the host is backed off, robots.txt unreachable) is not a visit: only the due time changes.
"""

from msgspec import Struct

from gossamer.columns import NEVER, Outcome, Status
from gossamer.config import Config
from gossamer.config.host_overrides import polite_by_host
from gossamer.crawl.update import CashUse
from gossamer.fetch.politeness import longest_robots_s
from gossamer.fetch.politeness import longest_s as longest_rest_s


class Transition(Struct, frozen=True):
    status: Status
    cash_use: CashUse
    again: bool = False  # it may pass: try again


_DAY_S = 86_400.0
_FINAL = Transition(Status.GONE, CashUse.DROP)
_FORBIDDEN = Transition(Status.FORBIDDEN, CashUse.KEEP, again=True)
_PASSING = Transition(Status.FAILED, CashUse.KEEP, again=True)

TRANSITIONS: dict[Outcome, Transition] = {
    Outcome.OK: Transition(Status.FETCHED, CashUse.SPEND),
    Outcome.UNCHANGED: Transition(Status.FETCHED, CashUse.SPEND),
    Outcome.MOVED: Transition(Status.MOVED, CashUse.PASS),
    Outcome.GONE: _FINAL,
    Outcome.REJECTED: _FINAL,
    Outcome.BAD_REDIRECT: _FINAL,
    Outcome.OTHER: _FINAL,
    Outcome.SERVER_ERROR: _PASSING,
    Outcome.THROTTLED: _PASSING,
    Outcome.ROBOTS_UNREACHABLE: _PASSING,
    Outcome.NO_NAME: _PASSING,
    Outcome.DNS_FAILED: _PASSING,
    Outcome.CONNECT_FAILED: _PASSING,
    Outcome.TLS_FAILED: _PASSING,
    Outcome.TIMEOUT: _PASSING,
    Outcome.BROKEN: _PASSING,
    Outcome.FORBIDDEN: _FORBIDDEN,
    Outcome.DENIED: Transition(Status.DENIED, CashUse.DROP),
    Outcome.REFUSED_ADDRESS: Transition(Status.REFUSED, CashUse.DROP),
    Outcome.REFUSED_TYPE: Transition(Status.REFUSED, CashUse.DROP),
    Outcome.REFUSED_USE: Transition(Status.REFUSED, CashUse.DROP),
}


class Next(Struct, frozen=True, gc=False):
    """`Next` is what a visit changes in its page's row."""

    status: Status
    cash_use: CashUse
    due_s: int
    tries: int


def longest_s(config: Config) -> float:
    """Returns the longest wait of a page: after a failure, because its host rests, because its robots.txt is unknown,
    or because a day's budget is spent. (A page that a server forbids may wait longer.)"""
    rests_s = (longest_rest_s(polite) for polite in (config.polite, *polite_by_host(config).values()))
    budget_s = _DAY_S if config.carbon.g_per_day or config.carbon.contracts else 0.0
    return max(config.fetch.retry_s, longest_robots_s(config.polite), budget_s, *rests_s) + 1  # times are rounded up


def longest_forbidden_s(config: Config) -> float:
    """Returns the longest wait of a forbidden page until it is requested again."""
    return config.fetch.forbidden_s * 2.0**config.fetch.retries + 1


def after(outcome: Outcome, tries: int, now_s: float, config: Config) -> Next:
    """Returns the page's next state, given its failures in a row before this visit."""
    transition, is_last = TRANSITIONS[outcome], tries >= config.fetch.retries
    if not transition.again:
        return Next(transition.status, transition.cash_use, NEVER, 0)
    if is_last and transition is _PASSING:
        transition = _FINAL
    fetch = config.fetch
    if transition is _FORBIDDEN:
        pause_s = fetch.forbidden_s * 2**tries
    else:
        pause_s = min(fetch.retry_s * 2**tries, max(fetch.retry_s, config.polite.backoff_max_s))
    due_s = NEVER if is_last else min(int(now_s + pause_s) + 1, NEVER)
    return Next(transition.status, transition.cash_use, due_s, min(tries + 1, 255))

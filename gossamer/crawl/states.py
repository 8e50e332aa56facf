"""What an outcome makes of a page: the one table of transitions.

    outcome              page becomes   its cash                       again?
    ok                   fetched        split over its links           by the refresh policy
    unchanged            fetched        split over the links it had    by the refresh policy
    moved                moved          all to the target              no
    gone, rejected       gone           to the virtual page            no
    bad redirect, other  gone           to the virtual page            no
    server error, throttled, names,
    connections, TLS, time-outs         failed         kept            after a pause that doubles;
                                                                       after `fetch.retries` gone
    denied by robots     denied         to the virtual page            no
    refused address,
    content type         refused        to the virtual page            no

When a fetched page is visited again, `crawl/refreshing.py` decides; its row says never.
A deferral (the host is backed off, robots.txt unreachable) is not a visit: only the due time changes.
"""

from dataclasses import dataclass

from gossamer.columns import NEVER, Outcome, Status
from gossamer.config import Config
from gossamer.crawl.update import Policy


@dataclass(frozen=True, slots=True)
class Transition:
    status: Status
    policy: Policy
    again: bool = False  # a passing failure: try again


_FINAL = Transition(Status.GONE, Policy.DROP)
_PASSING = Transition(Status.FAILED, Policy.KEEP, again=True)

TRANSITIONS: dict[Outcome, Transition] = {
    Outcome.OK: Transition(Status.FETCHED, Policy.SPEND),
    Outcome.UNCHANGED: Transition(Status.FETCHED, Policy.SPEND),
    Outcome.MOVED: Transition(Status.MOVED, Policy.PASS),
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
    Outcome.DENIED: Transition(Status.DENIED, Policy.DROP),
    Outcome.REFUSED_ADDRESS: Transition(Status.REFUSED, Policy.DROP),
    Outcome.REFUSED_TYPE: Transition(Status.REFUSED, Policy.DROP),
}


@dataclass(frozen=True, slots=True)
class Next:
    """What a visit makes of its page's row."""

    status: Status
    policy: Policy
    due_s: int
    tries: int


def after(outcome: Outcome, tries: int, now_s: float, config: Config) -> Next:
    """The page's next state, given its failures in a row before this visit."""
    transition = TRANSITIONS[outcome]
    if transition.again:
        if tries >= config.fetch.retries:
            return Next(Status.GONE, Policy.DROP, NEVER, min(tries + 1, 255))
        pause_s = config.fetch.retry_s * 2**tries
        return Next(Status.FAILED, Policy.KEEP, int(now_s + pause_s) + 1, tries + 1)
    return Next(transition.status, transition.policy, NEVER, 0)

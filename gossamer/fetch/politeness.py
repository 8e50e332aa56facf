"""This module is the politeness policy: the decisions that the workbench can take, and how long a host rests."""

from dataclasses import dataclass

from gossamer.columns import Outcome
from gossamer.config import Polite
from gossamer.fetch.request import Request, Response
from gossamer.web.http import Headers, retry_after_s


@dataclass(slots=True)
class Fetch:
    """The request starts now; its host is busy until it is `done`."""

    request: Request
    reuse_connection: bool  # it stays open afterwards; the next request to this host goes through it


@dataclass(slots=True)
class Denied:
    """robots.txt forbids the page; `line` is the line that does."""

    request: Request
    line: str


@dataclass(slots=True)
class Deferred:
    """The page goes back to the frontier and may come again at `until_s`.

    With an outcome (ROBOTS_UNREACHABLE) the page's own origin is the reason, without one only its host's
    back-off: nothing was found out about the page then.
    """

    request: Request
    until_s: float
    outcome: Outcome | None = None
    reason: str = ""


@dataclass(slots=True)
class Failed:
    """The host cannot be asked for its robots.txt, because it does not exist or must not be contacted: no
    more can the page."""

    request: Request
    outcome: Outcome
    reason: str


@dataclass(slots=True)
class Wait:
    """Nothing may start now. In so many seconds something may; None: only when a request ends or pages come."""

    seconds: float | None


Step = Fetch | Denied | Deferred | Failed | Wait

# Nobody was contacted, so nobody needs a rest.
UNCONTACTED = frozenset((Outcome.NO_NAME, Outcome.REFUSED_ADDRESS))
_ROBOTS_S = 3600.0
_FAILURES = frozenset((Outcome.DNS_FAILED, Outcome.CONNECT_FAILED, Outcome.TLS_FAILED, Outcome.TIMEOUT, Outcome.BROKEN))
TROUBLE = UNCONTACTED | _FAILURES | {Outcome.THROTTLED, Outcome.SERVER_ERROR}


def longest_s(polite: Polite) -> float:
    """Returns the longest rest of a host: after a failure, for its crawl-delay, or between two connections."""
    return max(polite.backoff_max_s, polite.crawl_delay_max_s, polite.delay_s, polite.small_delay_s)


def longest_robots_s(polite: Polite) -> float:
    """Returns how long at most an unreachable robots.txt forbids everything before it is requested again."""
    return min(polite.robots_ttl_s, max(polite.backoff_max_s, _ROBOTS_S))


def delay_s(polite: Polite, known: int) -> float:
    """Returns the delay between two connections to a host of so many known pages; its robots.txt may ask for more."""
    if polite.small_delay_s and known < polite.small_pages:
        return polite.small_delay_s
    return polite.delay_s


def capped_s(polite: Polite, crawl_delay_s: float | None) -> float:
    """Returns the part of a crawl-delay that we obey."""
    return min(crawl_delay_s, polite.crawl_delay_max_s) if crawl_delay_s else 0.0


def backoff_s(polite: Polite, response: Response, failures: int, now: float) -> tuple[float, int]:
    """Returns how long a host rests because of trouble, and its failures in a row; given those before it."""
    outcome = response.outcome
    if outcome in UNCONTACTED:
        return 0.0, failures
    if outcome is Outcome.THROTTLED:
        asked_s = retry_after_s(Headers(response.head).get("retry-after"), now)
        if asked_s:
            return min(asked_s, polite.backoff_max_s), failures + 1
        return _doubling_s(polite, failures), failures + 1
    if outcome is Outcome.SERVER_ERROR:
        # One error is the page's, several in a row are the host's.
        return (_doubling_s(polite, failures - 1) if failures else 0.0), failures + 1
    return _doubling_s(polite, failures), failures + 1


def _doubling_s(polite: Polite, failures: int) -> float:
    return min(polite.backoff_s * 2.0 ** min(failures, 32), polite.backoff_max_s)

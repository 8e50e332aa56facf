"""This module decides what an answer to the request for robots.txt means (RFC 9309 section 2.3.1).

answer                                                       means
2xx that can be read                                         its rules hold
4xx but 429                                                  unavailable: everything is allowed
redirects that lead to no file: to the same address, in      unavailable, as section 2.3.1.2 has it for those
circles, more than five in a row, to no web address          after the fifth
5xx, 429, no answer, one that was cut off, one whose         unreachable: nothing is allowed, for now
Content-Encoding is unknown or broken, a redirect to an
address that is too long for us
"""

from typing import NamedTuple

from gossamer.columns import Outcome
from gossamer.fetch.request import Response
from gossamer.web.http import Headers, decode_body
from gossamer.web.robots import LIMIT_BYTES

_HOPS = 5  # RFC 9309 section 2.3.1.2
_LONGEST_URL = 8000  # RFC 9110 section 4.1: servers are asked to take so much
_UNAVAILABLE = 404
_CUT = ("disconnect", "time")  # the rule that concerns us may be in the part that is missing
_UNREADABLE = {
    "coding": "robots.txt has a Content-Encoding that we do not know",
    "corrupt": "robots.txt has a broken Content-Encoding",
    "disconnect": "robots.txt was cut off",
}


class RobotsAnswer(NamedTuple):
    """The status as it counts, the decoded text, and why the file is unreachable although a server answered."""

    http_status: int
    body: bytes = b""
    failure: tuple[Outcome, str] | None = None


def next_hop(response: Response) -> str:
    """Returns where the file is instead; empty if we do not go there, or need not."""
    moved = response.outcome is Outcome.MOVED and response.request.hops < _HOPS
    return response.location if moved and len(response.location) <= _LONGEST_URL else ""


def read_robots(response: Response) -> RobotsAnswer:
    """Returns what the last answer of a chain of redirects means."""
    if not response.http_status:
        return RobotsAnswer(0, failure=(response.outcome, response.reason))
    if len(response.location) > _LONGEST_URL:
        return RobotsAnswer(0, failure=(Outcome.BAD_REDIRECT, "its redirect leads to an endless address"))
    if response.outcome in (Outcome.MOVED, Outcome.BAD_REDIRECT):
        return RobotsAnswer(_UNAVAILABLE)
    if response.truncated in _CUT:
        return RobotsAnswer(0, failure=(Outcome.BROKEN, _UNREADABLE["disconnect"]))
    body, problem = decode_body(response.body, Headers(response.head), LIMIT_BYTES)
    if problem in _UNREADABLE and 200 <= response.http_status < 300:
        return RobotsAnswer(0, failure=(Outcome.BROKEN, _UNREADABLE[problem]))
    return RobotsAnswer(response.http_status, body)

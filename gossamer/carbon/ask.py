"""One question to a feed over HTTP: JSON back within a time, or no answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import pycurl

_MOST_BYTES = 1 << 20


class NoAnswer(Exception):
    """A feed did not answer, or not with what it should; never leaves this package."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


def ask(url: str, query: Mapping[str, str], headers: Sequence[str], time_out_s: float) -> Any:
    """No redirect is followed, so that a token goes nowhere else."""
    body: list[bytes] = []

    def take(part: bytes) -> int:
        body.append(part)
        return -1 if sum(map(len, body)) > _MOST_BYTES else len(part)

    curl = pycurl.Curl()
    try:
        curl.setopt(pycurl.URL, url + ("?" + urlencode(query) if query else ""))
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTPHEADER, ["Accept: application/json", *headers])
        curl.setopt(pycurl.TIMEOUT_MS, max(1, int(time_out_s * 1000)))
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.WRITEFUNCTION, take)
        curl.perform()
        status = int(curl.getinfo(pycurl.RESPONSE_CODE))
    except pycurl.error as error:
        raise NoAnswer(str(error.args[-1])) from error
    finally:
        curl.close()
    if status != 200:
        raise NoAnswer(f"HTTP {status}", status)
    try:
        return json.loads(b"".join(body))
    except ValueError as error:
        raise NoAnswer("no JSON", status) from error

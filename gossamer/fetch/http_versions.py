"""`HttpVersions` remembers which servers are asked with HTTP/2, since they refuse HTTP/1.1.

WARC stores HTTP/1.1. So an answer in HTTP/2 is stored in its form (a status line, fields, an empty line), as other
archives do, and its record says `WARC-Protocol: h2`.
"""

from collections import OrderedDict

import pycurl

from gossamer.fetch.outcome import is_http2
from gossamer.web.http import Headers
from gossamer.web.url import origin_of

AUTO = "auto"
H2 = "h2"  # the name of HTTP/2 over TLS, in ALPN and in WARC-Protocol
_MOST = 10_000  # servers that are remembered
_START = b"HTTP/2 "
_REFUSES = (b"426", b"505")  # Upgrade Required, HTTP Version Not Supported
_CLOSED = (pycurl.E_GOT_NOTHING, pycurl.E_RECV_ERROR, pycurl.E_SEND_ERROR)
_PASSING = (pycurl.E_COULDNT_CONNECT, pycurl.E_OPERATION_TIMEDOUT)


class HttpVersions:
    """`HttpVersions` decides with which version of HTTP a server is asked. A server is a scheme, a host and a port."""

    def __init__(self, choice: str) -> None:
        self._is_auto = choice == AUTO
        self.servers: OrderedDict[str, bool] = OrderedDict()  # those that were asked with HTTP/2: whether they answer

    def is_http2(self, url: str) -> bool:
        """Returns whether a URL is asked for with HTTP/2."""
        return bool(self.servers) and self.servers.get(origin_of(url), False)

    def tries_http2(self, url: str, code: int, message: str, head: bytes, start: bytes, may_repeat: bool) -> bool:
        """Returns whether an exchange in HTTP/1.1 that ended so is repeated with HTTP/2: once for each server.

        `may_repeat`: also if the server has closed without a word, and may have read the request.
        """
        if not (self._is_auto and url.startswith("https:")) or origin_of(url) in self.servers:
            return False
        if head:
            is_refused = head[9:12] == b"505" or (head[9:12] == b"426" and _names_http2(head))
        else:
            is_refused = is_http2(message, start) or (may_repeat and code in _CLOSED)
        if is_refused:
            self._note(url, False)
        return is_refused

    def learn(self, url: str, handle: pycurl.Curl, code: int) -> str:
        """Notes how a server that was asked with HTTP/2 has answered; returns the protocol's name, empty for HTTP/1."""
        version = handle.getinfo(pycurl.INFO_HTTP_VERSION)
        if version == pycurl.CURL_HTTP_VERSION_2_0:
            self._note(url, True)
            return H2
        if version:
            self._note(url, False)
        elif code in _PASSING and not self.is_http2(url):
            self.servers.pop(origin_of(url), None)  # nothing is known: it may be tried another time
        return ""

    def _note(self, url: str, answers: bool) -> None:
        self.servers[origin_of(url)] = answers
        if len(self.servers) > _MOST:
            self.servers.popitem(last=False)


def _names_http2(head: bytes) -> bool:
    wanted = (Headers(head).get("upgrade") or "").lower()
    return H2 in wanted or "http/2" in wanted


def may_refuse(head: bytes) -> bool:
    """Returns whether an answer may mean that a server wants another version of HTTP."""
    return head[9:12] in _REFUSES


def as_http1(line: bytes) -> bytes:
    """Returns a header line as HTTP/1.1 has it: HTTP/2 has no status line, and libcurl writes one of its own."""
    if not line.startswith(_START):
        return line
    from http import HTTPStatus  # for those who meet such a server

    status = line[len(_START) :].strip()
    try:
        phrase = HTTPStatus(int(status)).phrase
    except ValueError:
        phrase = ""
    return b"HTTP/1.1 %s %s\r\n" % (status, phrase.encode())

"""`Client` is the HTTP client: libcurl, many transfers at a time, each pinned to an address that passed the guard."""

import os
import select
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pycurl

from gossamer.clocks import Clock
from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.fetch.fields import Fields
from gossamer.fetch.http_versions import HttpVersions, may_refuse
from gossamer.fetch.lenient_http import LenientExchange, is_refusal
from gossamer.fetch.outcome import (
    classify,
    final_head,
    framing,
    is_http2,
    outcome_of_error,
    reason_of_error,
    without_excess,
)
from gossamer.fetch.proxies import Proxies
from gossamer.fetch.request import Request, Response, port_of
from gossamer.fetch.resolver import Answer, Resolver
from gossamer.fetch.transfer import PLAIN, Transfer, Way
from gossamer.web.http import status_code

if TYPE_CHECKING:  # http.cookiejar: whoever needs no cookies need not wait for it
    from gossamer.fetch.cookies import Cookies

__all__ = ["Client", "Request", "Response"]

Admits = Callable[[Request, str], bool]  # whether a request may go to an address, once that is known

_EVENTS = 256  # sockets served per poll: the caller has other things to do
_LENIENT_HOSTS = 10_000  # remembered
_PROXY_REFUSES = 407
_HTTP2_STREAM = 92  # a stream that the server ended; pycurl has no name for it
_EPOLL = {
    pycurl.POLL_IN: select.EPOLLIN,
    pycurl.POLL_OUT: select.EPOLLOUT,
    pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
}
# Errors after the header block that only cut the body: what came before them is kept.
_CUTS = {
    pycurl.E_WRITE_ERROR: "length",
    pycurl.E_OPERATION_TIMEDOUT: "time",
    pycurl.E_PARTIAL_FILE: "disconnect",
    pycurl.E_RECV_ERROR: "disconnect",
    pycurl.E_SEND_ERROR: "disconnect",
    pycurl.E_GOT_NOTHING: "disconnect",
    pycurl.E_HTTP2: "disconnect",
    _HTTP2_STREAM: "disconnect",
}


class Client:
    """The client starts requests and returns responses. It knows nothing of politeness: the workbench does."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        resolver: Resolver,
        cookies: "Cookies | None" = None,
        folder: Path | None = None,
    ) -> None:
        """`folder` is where large bodies wait for the archive; None: where the system has its temporary files."""
        self._config = config
        self._clock = clock
        self._resolver = resolver
        self._cookies = cookies
        self._folder = folder
        self._fields = Fields(config, cookies, clock)
        self._finished: list[Response] = []
        self._looking = 0
        self._header_bytes = config.fetch.header_bytes
        self._proxies = Proxies(config)
        self._versions = HttpVersions(config.fetch.http)
        self._idle: defaultdict[Way, list[Transfer]] = defaultdict(list)
        self._running: dict[Any, Transfer] = {}
        self._lenient: OrderedDict[str, None] = OrderedDict()  # hosts whose answers libcurl does not understand
        self._spoken: dict[int, LenientExchange] = {}  # with them, by socket
        self._timer_s = inf  # when libcurl wants to go on; 0: at once
        self._sockets: dict[int, int] = {}
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(resolver.fileno(), select.EPOLLIN)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, config.polite.connections)

    @property
    def active(self) -> int:
        """The number of requests started and not yet returned."""
        return len(self._running) + self._looking + len(self._finished)

    def start(self, request: Request, reuse: bool, admits: Admits | None = None) -> None:
        """Looks the host up, then connects, if its address is admitted. `reuse`: the connection stays open then."""
        if self._proxies.are_any and self._proxies.of(request.host):
            self.connect(request, reuse, self._resolver.by_proxy(request.host, port_of(request)))
            return
        answer = self._resolver.known(request.host, port_of(request))
        if answer is None:
            self._look_up(request, reuse, admits)
        elif admits is None or answer.outcome is not None or admits(request, answer.address):
            self.connect(request, reuse, answer)

    def _look_up(self, request: Request, reuse: bool, admits: Admits | None) -> None:
        self._looking += 1
        start_s = self._clock.monotonic()

        def found(answer: Answer) -> None:
            self._looking -= 1
            if admits is None or answer.outcome is not None or admits(request, answer.address):
                self.connect(request, reuse, answer, start_s)

        self._resolver.look_up(request.host, port_of(request), found)

    def connect(self, request: Request, reuse: bool, answer: Answer, start_s: float | None = None) -> None:
        """Connects to a host that was looked up already."""
        now_s, started_s = self._clock.monotonic(), self._clock.now()
        start_s = now_s if start_s is None else start_s
        lookup_s = now_s - start_s
        started_s -= lookup_s
        if answer.outcome is not None:
            self._finished.append(Response(request, answer.outcome, answer.reason, 0, started_s, lookup_s))
            return
        way, is_lenient = PLAIN, False
        if self._proxies.are_any or self._versions.servers or self._lenient:
            way = Way(self._proxies.of(request.host), self._versions.is_http2(request.url))
            is_lenient = way == PLAIN and request.host in self._lenient
            reuse = reuse and not is_lenient
        transfer = self._transfer(way, is_lenient)
        transfer.start_s, transfer.started_s, transfer.lookup_s = start_s, started_s, lookup_s
        # HTTP/2 has no field Connection.
        transfer.prepare(request, reuse, self._fields.of(request, reuse or way.is_http2), answer)
        self._launch(transfer, now_s)

    def _transfer(self, way: Way, is_lenient: bool) -> Transfer:
        idle = self._idle[way]
        if idle and not is_lenient:
            return idle.pop()
        return Transfer(self._config, self._clock.monotonic, self._folder, is_lenient, way)

    def poll(self, timeout_s: float) -> list[Response]:
        """Waits at most so long for something to happen; returns what finished."""
        action = self._multi.socket_action
        if self._keep_time():  # what was started sends its request before we wait
            self._collect()
        for fd, events in self._epoll.poll(0.0 if self._finished else self._patience(timeout_s), _EVENTS):
            if fd in self._sockets:
                # libcurl finds out by itself what an error or a hang-up is: it reads.
                bits = pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0
                action(fd, bits | pycurl.CSELECT_IN if events & ~select.EPOLLOUT else bits)
            elif fd in self._spoken:
                self._speak(self._spoken[fd])
            elif fd == self._wake:
                os.eventfd_read(fd)
        if self._resolver.waiting:
            self._resolver.process()
        self._keep_time()
        self._collect()
        if self._spoken:
            self._end_late()
        finished, self._finished = self._finished, []
        return finished

    def wake(self) -> None:
        """Ends a `poll` that waits. The only method that another thread may call."""
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Drops what is under way, and closes the resolver, whose sockets were polled here."""
        if self._epoll.closed:
            return
        for transfer in self._running.values():
            self._multi.remove_handle(transfer.handle)
            transfer.handle.close()
        for transfer in chain.from_iterable(self._idle.values()):
            transfer.handle.close()
        self._running, self._spoken = {}, {}
        self._idle.clear()
        self._multi.close()
        self._resolver.close()
        self._epoll.close()
        os.close(self._wake)

    def _launch(self, transfer: Transfer, now_s: float) -> None:
        transfer.aim(now_s)
        self._running[transfer.handle] = transfer
        self._multi.add_handle(transfer.handle)

    def _patience(self, timeout_s: float) -> float:
        if self._timer_s < inf:
            timeout_s = min(timeout_s, self._timer_s - self._clock.monotonic())
        if self._spoken:
            until_s = min(exchange.until_s for exchange in self._spoken.values())
            timeout_s = min(timeout_s, until_s - self._clock.monotonic())
        if self._resolver.waiting and (names_s := self._resolver.timeout_s()) is not None:
            timeout_s = min(timeout_s, names_s)
        return max(timeout_s, 0.0)

    def _keep_time(self) -> bool:
        """Lets libcurl do what it wanted to do by now; returns whether there was anything."""
        if self._timer_s == inf or (self._timer_s and self._timer_s > self._clock.monotonic()):
            return False
        self._timer_s = inf
        self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        return True

    def _set_timer(self, timeout_ms: int) -> None:
        if timeout_ms > 0:
            self._timer_s = self._clock.monotonic() + timeout_ms / 1000
        else:
            self._timer_s = inf if timeout_ms else 0.0

    def _watch(self, what: int, fd: int, _multi: Any, _data: Any) -> None:
        if what == pycurl.POLL_REMOVE:
            if self._sockets.pop(fd, None) is not None:
                self._epoll.unregister(fd)
            return
        events = _EPOLL.get(what, 0)
        before = self._sockets.get(fd)
        if before is None:
            self._epoll.register(fd, events)
        elif before != events:
            self._epoll.modify(fd, events)
        self._sockets[fd] = events

    def _collect(self) -> None:
        while True:
            more, succeeded, failed = self._multi.info_read()
            for handle in succeeded:
                if self._lenient and self._running[handle].is_lenient:
                    self._begin_lenient(self._running[handle])
                else:
                    self._end(handle, 0, "")
            for handle, code, message in failed:
                self._end(handle, code, message)
            if not more:
                return

    # Servers whose answers libcurl refuses: it connects, and fetch/lenient_http.py does the rest.

    def _begin_lenient(self, transfer: Transfer) -> None:
        until_s = transfer.start_s + self._config.fetch.timeout_s
        exchange = LenientExchange(transfer, self._config.fetch.header_bytes, until_s)
        self._spoken[exchange.fd] = exchange
        self._epoll.register(exchange.fd, select.EPOLLIN)
        self._speak(exchange)

    def _speak(self, exchange: LenientExchange) -> None:
        code = exchange.go_on()
        if code is not None:
            self._end_lenient(exchange, code, "the connection ended within the answer" if code else "")

    def _end_late(self) -> None:
        now_s = self._clock.monotonic()
        for exchange in [exchange for exchange in self._spoken.values() if exchange.until_s <= now_s]:
            self._end_lenient(exchange, pycurl.E_OPERATION_TIMEDOUT, "the answer took too long")

    def _end_lenient(self, exchange: LenientExchange, code: int, message: str) -> None:
        del self._spoken[exchange.fd]
        self._epoll.unregister(exchange.fd)
        self._end(exchange.transfer.handle, code, message)

    def _remember_lenient(self, host: str) -> None:
        self._lenient[host] = None
        if len(self._lenient) > _LENIENT_HOSTS:
            self._lenient.popitem(last=False)

    def _end(self, handle: Any, code: int, message: str) -> None:
        self._multi.remove_handle(handle)
        transfer = self._running.pop(handle)
        if transfer.proxy:
            message = message.replace(transfer.proxy, "(not stored)")  # it may have a password
        if transfer.failure is not None:
            raise transfer.failure
        now_s = self._clock.monotonic()
        if code and self._try_next(transfer, code, now_s):
            return
        request, head = transfer.request, final_head(transfer.lines)
        if (code or may_refuse(head)) and self._try_http2(transfer, code, message, head, now_s):
            return
        response = Response(request, Outcome.BROKEN, message, 0, transfer.started_s, now_s - transfer.start_s)
        response.address = transfer.address
        transfer.tell_times(response)
        if transfer.is_http2:
            response.protocol = self._versions.learn(request.url, handle, code)
        too_long = len(b"".join(transfer.lines)) > self._header_bytes
        if head and not (code or too_long or transfer.proxy):  # as nearly all do
            self._answered(response, transfer, head, 0)
        elif transfer.asks_proxy and status_code(head) == _PROXY_REFUSES:
            response.outcome = Outcome.CONNECT_FAILED  # the website has not answered: nobody asked it
            response.reason = "by proxy: response 407, it wants a login, or another one than fetch.proxy has"
        elif head and not too_long and (not code or code in _CUTS):
            self._answered(response, transfer, head, code)
        elif code:
            response.reason = reason_of_error(message, b"" if transfer.lines else b"".join(transfer.chunks))
            response.outcome = outcome_of_error(
                code, transfer.is_connected(), transfer.is_secured(), request.url.startswith("https:")
            )
            if transfer.is_http2 and is_http2(message, b""):
                response.reason = "the server agrees on neither HTTP/1.1 nor HTTP/2"
            if transfer.proxy:
                response.reason = f"by proxy: {response.reason}"
                if "CONNECT tunnel failed" in message:
                    response.outcome = Outcome.CONNECT_FAILED
        else:
            response.reason = "headers too long" if too_long else "the connection ended within the headers"
        if code and is_refusal(code, message):
            self._remember_lenient(request.host)
        if response.outcome is Outcome.CONNECT_FAILED:
            self._resolver.forget(request.host)
        elif response.outcome is Outcome.REFUSED_ADDRESS:
            response.address = ""
        elif response.outcome is not Outcome.TLS_FAILED:
            response.request_head, response.request_body = transfer.stored_head(), transfer.body
        self._lay_aside(transfer)
        self._finished.append(response)

    def _lay_aside(self, transfer: Transfer) -> None:
        transfer.lines.clear()
        transfer.chunks.clear()
        transfer.spool = None
        if transfer.is_lenient:
            transfer.handle.close()
        else:
            self._idle[transfer.way].append(transfer)

    def _answered(self, response: Response, transfer: Transfer, head: bytes, code: int) -> None:
        try:
            response.reason = ""
            response.http_status = transfer.handle.getinfo(pycurl.RESPONSE_CODE) or status_code(head) or 0
            response.head = head
            chunks = transfer.chunks
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            frame = framing(head)
            if code:
                response.truncated = transfer.truncated or _CUTS[code]
            elif frame.is_chunked:
                body = without_excess(body)
            elif frame.is_endless:
                response.truncated = "disconnect"
            if transfer.spool is not None:
                transfer.spill()
                response.large, body = transfer.spool, b""
            response.body = body
            response.kept = not code and transfer.reuse and frame.stays_open
            classify(response)
            if response.http_status == 401 and not response.reason:
                response.reason = self._fields.remark(response.request)
            if self._cookies:
                response.head = self._cookies.take(response.request, head)
        except Exception as error:  # whatever a server sends, it is this answer's problem and no other's
            response.outcome, response.reason = Outcome.BROKEN, f"not understood: {error!r}"[:200]

    def _try_next(self, transfer: Transfer, code: int, now_s: float) -> bool:
        """Tries another address of the host, if this one cannot be reached and there is time for it."""
        if code not in (pycurl.E_COULDNT_CONNECT, pycurl.E_OPERATION_TIMEDOUT):
            return False
        late = now_s - transfer.start_s >= self._config.fetch.connect_timeout_s
        if late or not transfer.has_more_addresses() or transfer.is_connected():
            return False
        transfer.attempt += 1
        transfer.lines.clear()
        transfer.chunks.clear()
        self._launch(transfer, now_s)
        return True

    def _try_http2(self, transfer: Transfer, code: int, message: str, head: bytes, now_s: float) -> bool:
        """Asks a server again that refuses HTTP/1.1, if there is time for it."""
        late = now_s - transfer.start_s >= self._config.fetch.timeout_s
        if late or transfer.is_lenient or transfer.is_http2 or transfer.asks_proxy:
            return False
        request, start = transfer.request, b"" if transfer.lines else b"".join(transfer.chunks)
        may_repeat = transfer.is_secured() and not request.post  # nobody knows what a POST has done before the end
        if not self._versions.tries_http2(request.url, code, message, head, start, may_repeat):
            return False
        again = self._transfer(Way(transfer.proxy, True), False)
        again.start_s, again.started_s, again.lookup_s = transfer.start_s, transfer.started_s, transfer.lookup_s
        again.prepare(request, transfer.reuse, self._fields.of(request, True), transfer.answer)
        again.attempt = transfer.attempt
        self._lay_aside(transfer)
        self._launch(again, now_s)
        return True

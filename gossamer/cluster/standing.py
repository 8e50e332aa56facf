"""The standing of a site is its summary, for the others: in its own server, where anybody may look, and told to whoever
follows it when something changes that matters to them. Between two sites that have nothing to say, a question is asked
about once a minute.
"""

import asyncio
import contextlib
import threading

import msgspec
import nats.errors
from nats.aio.msg import Msg
from xxhash import xxh3_64_hexdigest

from gossamer.cluster.jetstream import NO_STREAM, Link, bucket
from gossamer.cluster.nats_connection import Unreachable, Wire
from gossamer.cluster.protocol import Summary, decode_or_none, encode
from gossamer.cluster.site_service import STANDING

# In memory: what a site sent in an earlier run, such as good-bye, must not be received in this one.
_BUCKET = bucket("standing", in_memory=True)
_WAIT_S = 50.0  # for something to change; the server forgets who asked after two minutes
_SLACK_S = 10.0
_PAUSE_S = 0.3  # between two answers of a site, at least, whatever it does
_AWAY_S = 3.0  # between two questions to one that does not answer, at most


def publish(wire: Wire, site: str, mine: Summary) -> None:
    """Publishes a site's summary in a server. If that is gone, the next summary will be received."""
    with contextlib.suppress(Unreachable):
        wire.call(lambda link: link.put(_BUCKET, site, encode(mine)))


def read_summary(wire: Wire, site: str) -> Summary | None:
    """Returns a site's summary; None if it cannot be reached, or has sent none yet."""

    async def ask(link: Link) -> list[Msg]:
        try:
            return await link.newest("KV_standing", f"$KV.standing.{site}")
        except NO_STREAM:
            return []

    try:
        found = wire.call(ask)
    except Unreachable:
        return None
    return decode_or_none(Summary, found[-1].data) if found else None


class Teller:
    """`Teller` tells other sites our standing: at once if it is not the one that they know, else when it changes."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._mine: Summary | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event = asyncio.Event()
        self._latest: dict[str, object] = {}  # by asker: one question at a time

    def set(self, mine: Summary) -> None:
        """Notes our summary. What changes all the time, and decides nothing elsewhere, is left out: what was sent and
        received matters when all have finished, and then they look into our server."""
        mine = msgspec.structs.replace(
            mine, stats=None, crossed={}, agents=0, serial=0, refused="", sent={}, marks={}, numbers={}
        )
        with self._guard:
            is_new, self._mine = mine != self._mine, mine
            loop = self._loop
        if is_new and loop is not None:
            with contextlib.suppress(RuntimeError):  # closed
                loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def serve(self, link: Link) -> None:
        self._loop, self._changed = asyncio.get_running_loop(), asyncio.Event()
        await link.answer(STANDING, self._answer, at_once=True)

    async def _answer(self, asker: str, known: bytes) -> bytes:
        """Returns the digest of our standing, and the standing; nothing, if it stays what the asker knows."""
        mine = self._latest[asker] = object()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WAIT_S):
                while self._latest[asker] is mine:
                    changed, told = self._changed, self._told(asker)
                    digest = xxh3_64_hexdigest(told).encode()
                    if told and digest != known:
                        return digest + b" " + told
                    await changed.wait()
        return b""

    def _told(self, asker: str) -> bytes:
        """Returns what matters to one asker: where it is by our list, and whether we know that it knows the end. What
        all others are told besides would be sent to everybody, by everybody."""
        with self._guard:
            mine = self._mine
        if mine is None:
            return b""
        addresses = {name: address for name, address in mine.addresses.items() if name == asker}
        over = [name for name in mine.over if name == asker]
        return encode(msgspec.structs.replace(mine, addresses=addresses, over=over))


class Follower:
    """`Follower` keeps the standing of one other site. `latest` is None before the first answer, in each connection,
    and while the site does not answer: then one can only look into its server."""

    def __init__(self, wire: Wire, me: str) -> None:
        self._wire, self._me, self._at = wire, me, 0
        self._summary: Summary | None = None
        self._pause_s = _PAUSE_S
        wire.keep(self._follow)

    @property
    def latest(self) -> Summary | None:
        return self._summary if self._wire.is_up and self._at == self._wire.connections else None

    async def _follow(self, link: Link) -> None:
        known, self._summary, self._at = b"", None, self._wire.connections
        try:
            while True:
                answer = await link.ask(f"{STANDING}.{self._me}", known, _WAIT_S + _SLACK_S)
                self._pause_s = _PAUSE_S
                if answer:
                    digest, _, data = answer.partition(b" ")
                    self._summary, known = decode_or_none(Summary, data), digest[:64]
                await asyncio.sleep(_PAUSE_S)
        except (nats.errors.Error, TimeoutError):  # it does not run now, or does not let us follow it
            self._summary = None
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _AWAY_S)

"""The standing of a site is its summary, for the others: in its own server, where anybody may look, and told to whoever
follows it when something changes that matters to them. Between two sites that have nothing to say, a question is asked
about once a minute.
"""

import asyncio
import contextlib
import threading
import zlib
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from functools import partial

import msgspec
import nats.errors
from nats.aio.msg import Msg
from xxhash import xxh3_64_hexdigest

from gossamer.cluster.jetstream import NO_STREAM, Link, bucket
from gossamer.cluster.nats_connection import CALL_S, Unreachable, Wire
from gossamer.cluster.protocol import Summary, decode_or_none, encode
from gossamer.cluster.site_service import STANDING

# In memory: what a site sent in an earlier run, such as good-bye, must not be received in this one.
_BUCKET = bucket("standing", in_memory=True)
_WAIT_S = 50.0  # for something to change; the server forgets who asked after two minutes
_SLACK_S = 10.0
_LOOK_S = 2.0  # for an answer to a question whose answer is there
_NOW = b"now"  # instead of what the asker knows
_MOST = 1 << 20  # bytes of a summary, unpacked
# What summaries have in common. Whoever changes this cannot talk to sites that have it as it was.
_WORDS = (
    b'_a0>_a0","left":true,"members":{"version":1,"weights":{":1.0,":1.0},"partitioner":"ring"},"refused":"","left":'
    b'false,"addresses":{"":"127.0.0.1:"}}{"protocol":1,"finished":false,"sent":{},"marks":{},"numbers":{"_a0":},'
    b'"crossed":{},"agents":0,"stats":null,"serial":0,"done":true,"over":[],"members":{"version":'
)
_PAUSE_S = 0.3  # between two answers of a site, at least, whatever it does
# Looks at which a site must be finished until it says so, as most have work again by the next message; each time that
# it was wrong, twice as many.
_CALM, _MOST_CALM = 4, 16
_AWAY_S = 3.0  # between two questions to one that does not answer, at most


def publish(wire: Wire, site: str, mine: Summary) -> None:
    """Publishes a site's summary in a server. If that is gone, the next summary will be received."""
    with contextlib.suppress(Unreachable):
        wire.call(lambda link: link.put(_BUCKET, site, packed(mine)))


def packed(mine: Summary) -> bytes:
    packer = zlib.compressobj(9, wbits=-15, zdict=_WORDS)
    return packer.compress(encode(mine)) + packer.flush()


def unpacked(data: bytes) -> Summary | None:
    unpacker = zlib.decompressobj(-15, zdict=_WORDS)
    try:
        whole = unpacker.decompress(data, _MOST)
    except zlib.error:
        return None
    return decode_or_none(Summary, whole) if unpacker.eof else None


async def _published(site: str, link: Link) -> Summary | None:
    found: list[Msg] = []
    with contextlib.suppress(NO_STREAM):
        found = await link.newest("KV_standing", f"$KV.standing.{site}")
    return unpacked(found[-1].data) if found else None


async def _as_it_is(site: str, me: str, link: Link) -> Summary | None:
    """Asks the site itself; if it does not run, or does not answer us, its server."""
    with contextlib.suppress(nats.errors.Error, TimeoutError):
        _, _, data = (await link.ask(f"{STANDING}.{me}", _NOW, _LOOK_S)).partition(b" ")
        if found := unpacked(data):
            return found
    return await _published(site, link)


def read_summary(wire: Wire, site: str) -> Summary | None:
    """Returns a site's summary; None if it cannot be reached, or has sent none yet."""
    try:
        return wire.call(partial(_published, site))
    except Unreachable:
        return None


def read_all(wires: Mapping[str, Wire], me: str) -> dict[str, Summary | None]:
    """Returns what sites say of themselves at this moment; None: not to be reached. All of them are asked at once: one
    that is slow keeps nobody waiting but us."""
    asked, found = dict[str, Future[Summary | None]](), dict[str, Summary | None]()
    for name, wire in wires.items():
        with contextlib.suppress(Unreachable):
            asked[name] = wire.begin(partial(_as_it_is, name, me))
    for name in wires:
        found[name] = None
        with contextlib.suppress(Unreachable, CancelledError, TimeoutError, KeyError):
            found[name] = asked[name].result(2 * CALL_S)
    return found


class Teller:
    """`Teller` tells other sites our standing: at once if it is not the one that they know, else when it changes."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._mine: Summary | None = None  # what followers are told
        self._whole: Summary | None = None
        self._looks, self._calm = 0, _CALM  # one after the other at which all was finished here; how many it takes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event = asyncio.Event()
        self._latest: dict[str, object] = {}  # by asker: one question at a time

    def set(self, mine: Summary) -> None:
        """Notes our summary. What changes all the time, and decides nothing elsewhere, is left out: what was sent and
        received matters when all have finished, and then they ask how it is now."""
        whole = msgspec.structs.replace(mine, stats=None, crossed={})
        mine = msgspec.structs.replace(whole, agents=0, serial=0, refused="", sent={}, marks={}, numbers={})
        if not mine.finished and self._looks >= self._calm:  # what was said is taken back
            self._calm = min(2 * self._calm, _MOST_CALM)
        self._looks = self._looks + 1 if mine.finished else 0
        if self._looks < self._calm and not (mine.done or mine.left):
            mine = msgspec.structs.replace(mine, finished=False)
        with self._guard:
            is_new, self._mine, self._whole = mine != self._mine, mine, whole
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
        if known == _NOW:
            return b" " + self._told(asker, self._whole)
        mine = self._latest[asker] = object()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WAIT_S):
                while self._latest[asker] is mine:
                    changed, told = self._changed, self._told(asker, self._mine)
                    digest = xxh3_64_hexdigest(told).encode()
                    if told and digest != known:
                        return digest + b" " + told
                    await changed.wait()
        return b""

    def _told(self, asker: str, mine: Summary | None) -> bytes:
        """Returns what matters to one asker: where it is by our list, and whether we know that it knows the end. What
        all others are told besides would be sent to everybody, by everybody."""
        if mine is None:
            return b""
        addresses = {name: address for name, address in mine.addresses.items() if name == asker}
        over = [name for name in mine.over if name == asker]
        return packed(msgspec.structs.replace(mine, addresses=addresses, over=over))


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
                    self._summary, known = unpacked(data), digest[:64]
                await asyncio.sleep(_PAUSE_S)
        except (nats.errors.Error, TimeoutError):  # it does not run now, or does not let us follow it
            self._summary = None
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _AWAY_S)

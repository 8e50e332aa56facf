"""This module undoes content codings, with a limit on what comes out, so that no bomb fills the memory."""

from collections.abc import Callable
from typing import Any, Protocol

import brotli
import zstandard
from isal import isal_zlib

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after its first byte, RFC 8878 section 3.1.2
_STEP = 64 << 10  # input fed at a time
_ZSTD_PIECE = 1 << 20
_ZSTD_WINDOW = 8 << 20  # RFC 9659: the most that a client must accept
_BROTLI_PIECE = 4 << 20
_MEMBERS = 10_000  # gzip members in a row; a stream of empty ones would cost minutes
_ERRORS: tuple[Any, ...] = (isal_zlib.error, brotli.error, EOFError, ValueError)

# What decode() reports about its result.
FINE = ""
LENGTH = "length"  # cut at the limit
DISCONNECT = "disconnect"  # the stream ends too early; what it had is there
CORRUPT = "corrupt"  # the stream breaks; what came before is there


class _Stream(Protocol):
    eof: bool  # the end of a member was seen
    rest: int  # bytes of the last feed that lie behind it

    def feed(self, data: memoryview, room: int) -> bytes:
        """Returns what these bytes become, up to about `room`; when that is reached nothing more is fed."""


class _Inflate:
    def __init__(self, wbits: int) -> None:
        self._stream = isal_zlib.decompressobj(wbits)
        self.eof = False
        self.rest = 0

    def feed(self, data: memoryview, room: int) -> bytes:
        piece: bytes = self._stream.decompress(data, room)
        if self._stream.eof:
            self.eof, self.rest = True, len(self._stream.unused_data)
        return piece


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self.eof = False
        self.rest = 0

    def feed(self, data: memoryview, room: int) -> bytes:
        limit = min(room, _BROTLI_PIECE)
        pieces = [self._stream.process(bytes(data), output_buffer_limit=limit)]
        got = len(pieces[0])
        while got < room and not self._stream.can_accept_more_data() and not self._stream.is_finished():
            pieces.append(self._stream.process(b"", output_buffer_limit=limit))
            got += len(pieces[-1])
        self.eof = self._stream.is_finished()
        return b"".join(pieces)


def decode(data: bytes, coding: str, limit: int) -> tuple[bytes, str]:
    """Returns the content, at most `limit` bytes, and what is wrong with it; data that is not so coded stays as is.

    Codings: "gzip", "deflate" (with or without the zlib frame), "br", "zstd".
    """
    if not data:
        return b"", FINE
    return _DECODERS[coding](data, limit)


def is_gzip(data: bytes) -> bool:
    return data.startswith(_GZIP)


def _gzip(data: bytes, limit: int) -> tuple[bytes, str]:
    if not data.startswith(_GZIP):
        return _as_is(data, limit)
    return _unpack(lambda: _Inflate(31), data, limit, _GZIP)


def _deflate(data: bytes, limit: int) -> tuple[bytes, str]:
    framed = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0  # RFC 1950 section 2.2
    for wbits in (15, -15) if framed else (-15,):
        body, reason = _unpack(lambda wbits=wbits: _Inflate(wbits), data, limit)  # type: ignore[misc]
        if body or reason != CORRUPT:
            break
    return _unless_text(data, limit, body, reason)


def _br(data: bytes, limit: int) -> tuple[bytes, str]:
    return _unless_text(data, limit, *_unpack(_Brotli, data, limit))


def _zstd(data: bytes, limit: int) -> tuple[bytes, str]:
    if not data.startswith(_ZSTD) and data[1:4] != _ZSTD_SKIPPABLE:
        return _as_is(data, limit)
    body, reason = _read_zstd(data, limit, all_frames=True)
    if reason == CORRUPT:
        first, _ = _read_zstd(data, limit, all_frames=False)  # what follows it may be no frame
        body = max(body, first, key=len)
    return (body[:limit], LENGTH) if len(body) > limit else (body, reason)


def _read_zstd(data: bytes, limit: int, all_frames: bool) -> tuple[bytes, str]:
    stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    reader = stream.stream_reader(data, read_across_frames=all_frames)
    pieces: list[bytes] = []
    room = limit + 1
    try:
        while room > 0 and (piece := reader.read(min(room, _ZSTD_PIECE))):
            pieces.append(piece)
            room -= len(piece)
        declared = zstandard.frame_content_size(data)  # -1: it does not say
    except zstandard.ZstdError:
        return b"".join(pieces), CORRUPT
    # The reader does not tell an early end from a good one.
    early = room > 0 and limit + 1 - room < (1 if declared < 0 else declared)
    return b"".join(pieces), DISCONNECT if early else FINE


_DECODERS: dict[str, Callable[[bytes, int], tuple[bytes, str]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _br,
    "zstd": _zstd,
}
KNOWN = frozenset(_DECODERS)


def _unpack(start: Callable[[], _Stream], data: bytes, limit: int, magic: bytes = b"") -> tuple[bytes, str]:
    body, reason = _run(start, data, limit, _STEP, magic)
    if reason == CORRUPT:
        # A decoder that fails gives nothing of what it was fed last: feed it little.
        body, reason = _run(start, data, limit, 1 if len(data) <= _STEP else 32, magic)
    return body, reason


def _run(start: Callable[[], _Stream], data: bytes, limit: int, step: int, magic: bytes) -> tuple[bytes, str]:
    view, size = memoryview(data), len(data)
    pieces: list[bytes] = []
    room = limit + 1  # one more than allowed tells a cut from an end
    at, members, reason = 0, 0, DISCONNECT
    stream = start()
    while at < size:
        window = view[at : at + step]
        try:
            piece = stream.feed(window, room)
        except _ERRORS:
            reason = CORRUPT
            break
        at += len(window)
        pieces.append(piece)
        room -= len(piece)
        if room <= 0:
            reason = LENGTH
            break
        if stream.eof:
            at -= stream.rest
            members += 1
            if not magic or members == _MEMBERS or not data.startswith(magic, at):
                reason = FINE  # whatever follows is not ours
                break
            stream = start()
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return (body[:limit] if reason == LENGTH else body), reason


def _as_is(data: bytes, limit: int) -> tuple[bytes, str]:
    return (data, FINE) if len(data) <= limit else (data[:limit], LENGTH)


def _unless_text(data: bytes, limit: int, body: bytes, reason: str) -> tuple[bytes, str]:
    """Returns data as it is if it was never coded: it does not decode and begins like a page. These codings
    have no magic number."""
    text = data[:64].lstrip()[:1] in (b"<", b"{")
    if (reason == CORRUPT and not body) or (reason in (CORRUPT, DISCONNECT) and text):
        return _as_is(data, limit)
    return body, reason

"""This module reads single records of WARC files, whoever wrote them: small ones whole, large ones piece by piece."""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib
from isal.igzip_lib import IsalError
from xxhash import xxh3_64

from gossamer.archive.warc import GZIP, RENDERED_AS

_READ = 64 << 10  # of a file at a time
_FED = 16 << 10  # of these to the inflater at a time: at most a thousand times as much comes out
_HEAD_BYTES = 1 << 20  # a header that is longer is none
_HELD_BYTES = 16 << 20  # of a body; those that are larger stay where they are
_END = b"\r\n\r\n"  # of a record
_HEADER_END = re.compile(re.escape(_END))
_EMPTY_LINE = re.compile(rb"\r?\n\r?\n")
_RESPONSE = b"WARC/1.1\r\nWARC-Type: response\r\n"
_HTTP_RESPONSE = b"\r\nContent-Type: application/http;msgtype=response\r\n"
_LAST_FIELD = b"\r\nContent-Length: "
_FIELDS = (
    "Content-Length", "Content-Type", "WARC-Type", "WARC-Target-URI", "WARC-Date", "WARC-Payload-Digest",
    "WARC-IP-Address", "WARC-Truncated", "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date",
)  # fmt: skip
_NAMES = {name.lower(): name for name in _FIELDS}
# What the bytes at a place raise that are no record.
UNREADABLE: tuple[type[Exception], ...] = (EOFError, ValueError, KeyError, IsalError)  # type: ignore[assignment]


class Record(NamedTuple):
    headers: dict[str, str]  # of the WARC record
    head: bytes  # of the HTTP message, with the empty line
    body: bytes  # as on the wire; empty if it is too large to be held
    rendered: bytes | None = None  # the page as a browser made it, if one did
    large: "LargeBody | None" = None


class Inflated:
    """`Inflated` is the text of one gzip member, a piece at a time. After the last one, `length` is how long it is in
    the file. What is no member raises isal's error; one that is cut, EOFError."""

    def __init__(self, descriptor: int, offset: int) -> None:
        self._descriptor, self._offset = descriptor, offset
        self.length = 0

    def __iter__(self) -> Iterator[bytes]:
        inflater = isal_zlib.decompressobj(wbits=GZIP)
        place = self._offset
        while data := os.pread(self._descriptor, _READ, place):
            for start in range(0, len(data), _FED):
                fed = data[start : start + _FED]
                piece = inflater.decompress(fed)
                place += len(fed)
                if inflater.eof:
                    self.length = place - len(inflater.unused_data) - self._offset
                if piece:
                    yield piece
                if inflater.eof:
                    return
        raise EOFError(f"no record at offset {self._offset}")


@dataclass(frozen=True)
class LargeBody:
    """`LargeBody` is a body in a WARC file that is too large for memory. Its digests are those of its bytes on the
    wire."""

    path: Path
    offset: int  # of its member in the file
    skipped: int  # bytes of the member's text before it
    size: int
    sha1: bytes
    xxh3: int

    def pieces(self) -> Iterator[bytes]:
        """Reads it again."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            before, left = self.skipped, self.size
            for piece in Inflated(descriptor, self.offset):
                part = piece[before : before + left]
                before, left = max(0, before - len(piece)), left - len(part)
                yield part
                if not left:
                    return
        finally:
            os.close(descriptor)

    def start(self, size: int) -> bytes:
        """Returns the first bytes."""
        found = BytesIO()
        for piece in self.pieces():
            found.write(piece[: size - found.tell()])
            if found.tell() == size:
                break
        return found.getvalue()


class _Opened:
    """`_Opened` is a record whose header was read; its body comes as pieces."""

    def __init__(self, text: Iterator[bytes]) -> None:
        self._text = text
        lines, self._first = self._until(_HEADER_END, b"", _HEAD_BYTES)
        if not lines.startswith(b"WARC/"):
            raise ValueError("it does not begin like a record")
        self.headers, self.head = parsed_fields(lines), b""
        size = int(self.headers["Content-Length"])
        if size < 0:
            raise ValueError("its length is negative")
        if self.headers.get("Content-Type", "").lower().startswith("application/http"):
            self.head, self._first = self._until(_EMPTY_LINE, self._first, size)
        self.skipped = len(lines) + len(self.head)
        self.size = size - len(self.head)  # of the body

    def _until(self, end: re.Pattern[bytes], text: bytes, most: int) -> tuple[bytes, bytes]:
        """Returns what is there up to an empty line, or so many bytes if there is none, and what came behind it."""
        while not (match := end.search(text, 0, most)) and len(text) < most:
            if len(text) > _HEAD_BYTES:
                raise ValueError("its header is too long")
            if not (piece := next(self._text, b"")):
                raise EOFError("it ends in its header")
            text += piece
        split = match.end() if match else most
        return text[:split], text[split:]

    def pieces(self) -> Iterator[bytes]:
        """Yields the body. If it ends too early, or is followed by anything but the end of a record, that is an
        error."""
        left, behind, piece = self.size, b"", self._first
        while True:
            part = piece[:left]
            left -= len(part)
            if part:
                yield part
            behind += piece[len(part) :]
            if len(behind) > len(_END):
                break
            following = next(self._text, None)
            if following is None:
                break
            piece = following
        if left or behind != _END:
            raise ValueError("its length is not what it says")


def read_member(path: Path, descriptor: int, offset: int) -> tuple[Record, int]:
    """Returns the record that is a whole gzip member of a file, checked to its end, and the member's length. A body of
    more than 16 MB is read, but not held."""
    inflated = Inflated(descriptor, offset)
    opened = _Opened(iter(inflated))
    held, digests = BytesIO(), None if opened.size <= _HELD_BYTES else (hashlib.sha1(usedforsecurity=False), xxh3_64())
    for piece in opened.pieces():
        if digests is None:
            held.write(piece)
        else:
            for digest in digests:
                digest.update(piece)
    large = None
    if digests is not None:
        large = LargeBody(path, offset, opened.skipped, opened.size, digests[0].digest(), digests[1].intdigest())
    return Record(opened.headers, opened.head, held.getvalue(), large=large), inflated.length


def read_record(path: Path, offset: int, length: int = 0, most: int = 0) -> Record:
    """Returns one record by its place; without a length it is found by decompressing. With `most`, the body ends after
    so many bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a file object would take longer than to read the record
    try:
        inflated = Inflated(descriptor, offset)
        whole = [isal_zlib.decompress(os.pread(descriptor, length, offset), wbits=GZIP)] if length else inflated
        record = _read(_Opened(iter(whole)), most)
        if RENDERED_AS in record.headers:
            behind = Inflated(descriptor, offset + (length or inflated.length))
            return record._replace(rendered=_read(_Opened(iter(behind)), most).body)
        return record
    finally:
        os.close(descriptor)


def _read(opened: _Opened, most: int) -> Record:
    """Returns the record. If no other belongs to it, it is not read further than needed."""
    body = BytesIO()
    for piece in opened.pieces():
        body.write(piece[: most - body.tell()] if most else piece)
        if most and body.tell() == most and RENDERED_AS not in opened.headers:
            break
    return Record(opened.headers, opened.head, body.getvalue())


def read_response(descriptor: int, offset: int, length: int) -> tuple[bytes, bytes] | None:
    """Returns head and body of a response record that we wrote, of which the length is known; None for any other. It
    is for those who read many: no other field of the record is looked at."""
    if not length:
        return None
    data = isal_zlib.decompress(os.pread(descriptor, length, offset), wbits=GZIP)
    start = data.find(b"\r\n\r\n") + 4
    size = data.rfind(_LAST_FIELD, 0, start)
    if not data.startswith(_RESPONSE) or data.find(RENDERED_AS.encode(), 0, start) >= 0:
        return None
    if size < 0 or data.find(_HTTP_RESPONSE, 0, start) < 0:
        return None
    end = start + int(data[size + len(_LAST_FIELD) : start])
    head = _EMPTY_LINE.search(data, start, end)
    split = head.end() if head else end
    return data[start:split], data[split:end]


def parsed_fields(lines: bytes) -> dict[str, str]:
    """Returns the fields of a record, by the names that we give them: others may write them in any case."""
    text = lines.decode("utf-8", "replace").replace("\r\n", "\n")
    fields = (line.partition(":") for line in text.split("\n")[1:])
    return {_NAMES.get(name.lower(), name): value.strip() for name, _, value in fields if name}

"""This module reads a WARC file that may be damaged, record by record; it indexes it, and replaces damaged records."""

import contextlib
import os
import re
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from gossamer.archive.cdxj import REVISIT, Capture, line
from gossamer.archive.digests import letters
from gossamer.archive.warc import Location, payload_digest, warc_date
from gossamer.archive.warc_reader import UNREADABLE, Record, read_member
from gossamer.errors import disk_full_guard
from gossamer.web.http import Headers, content_type

_MEMBER = re.compile(rb"\x1f\x8b\x08(?=[\x00-\x1f])")  # RFC 1952: a gzip member begins so, and few other bytes do
_START_BYTES = 4  # of that
_PIECE = 1 << 20
_HTTP_STATUS = re.compile(rb"HTTP/\S+ (\d{3})")
_INDEXED = ("response", "revisit")
_NOTE = b"The record that was here was damaged.\r\n"


class Member(NamedTuple):
    """A member is a stretch of a WARC file: a record, or bytes that are none."""

    offset: int
    length: int
    record: Record | None


def members(path: Path) -> Iterator[Member]:
    """Yields all of a file, from its beginning to its end. After damage it goes on with the next readable record."""
    with path.open("rb") as file:
        descriptor, offset = file.fileno(), 0
        size = os.fstat(descriptor).st_size
        while offset < size:
            length, record = _read(path, descriptor, offset)
            if record is None:
                length = _next(path, descriptor, offset) - offset
            yield Member(offset, length, record)
            offset += length


def _next(path: Path, descriptor: int, offset: int) -> int:
    """Returns where the next readable record begins; the end if there is none."""
    for found in places(descriptor, _MEMBER, _START_BYTES, offset + 1):
        if _read(path, descriptor, found)[1] is not None:
            return found
    return os.fstat(descriptor).st_size


def places(descriptor: int, pattern: re.Pattern[bytes], length: int, start: int = 0) -> Iterator[int]:
    """Yields where a pattern of this length is in a file. Nothing is mapped: that would count as our memory."""
    while len(data := os.pread(descriptor, _PIECE, start)) >= length:
        yield from (start + match.start() for match in pattern.finditer(data))
        start += len(data) - length + 1


def _read(path: Path, descriptor: int, offset: int) -> tuple[int, Record | None]:
    """Returns a member's length and record. Its gzip checksum covers all of it."""
    try:
        record, length = read_member(path, descriptor, offset)
    except UNREADABLE:
        return 0, None
    return length, record


def captures(path: Path, name: str) -> Iterator[str]:
    """Yields the CDXJ lines of a WARC file, unsorted. Records without a URL or a date have none."""
    for offset, length, record in members(path):
        if record is not None and record.headers.get("WARC-Type") in _INDEXED:
            with contextlib.suppress(KeyError, ValueError, OverflowError):
                yield line(_capture(record, Location(name, offset, length)))


def _capture(record: Record, location: Location) -> Capture:
    fields, status = record.headers, _HTTP_STATUS.match(record.head)
    is_revisit = fields["WARC-Type"] == "revisit"
    digest = fields.get("WARC-Payload-Digest", "").removeprefix("sha1:")
    if record.large is not None:
        digest = digest or letters(record.large.sha1)
    elif record.body and not (digest or is_revisit):
        digest = payload_digest(record.head, record.body)
    return Capture(
        fields["WARC-Target-URI"].strip("<>"),  # as some programs write it
        datetime.fromisoformat(fields["WARC-Date"]).timestamp(),
        REVISIT if is_revisit else content_type(Headers(record.head))[0],
        int(status[1]) if status else 0,
        digest,
        location,
    )


def mend(path: Path, target: Path, known: Iterable[int]) -> int:
    """Writes a copy in which notes of the same length stand for what is damaged, one for each record that is `known` to
    begin there. All other records stay where they were. Returns how many notes there are."""
    starts, notes = sorted(known), 0
    with disk_full_guard(target), path.open("rb") as source, target.open("wb") as file:
        for offset, length, record in members(path):
            if record is None:
                cuts = [offset, *(start for start in starts if offset < start < offset + length), offset + length]
                file.writelines(piece for before, after in pairwise(cuts) for piece in _note(after - before))
                notes += len(cuts) - 1
                continue
            source.seek(offset)
            while length:
                piece = source.read(min(length, _PIECE))
                file.write(piece)
                length -= len(piece)
    return notes


def _note(length: int) -> Iterator[bytes]:
    """Yields the pieces of a gzip member of exactly this length (RFC 1952: a comment fills it up) that holds a WARC
    record; where a record does not fit, one that holds nothing."""
    head = (
        f"WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Record-ID: <{uuid.uuid4().urn}>\r\n"
        f"WARC-Date: {warc_date(time.time())}\r\nContent-Type: text/plain\r\nContent-Length: {len(_NOTE)}\r\n\r\n"
    ).encode()
    for content in (head + _NOTE + b"\r\n\r\n", b""):
        deflater = zlib.compressobj(9, wbits=-15)
        body = deflater.compress(content) + deflater.flush()
        ending = zlib.crc32(content).to_bytes(4, "little") + len(content).to_bytes(4, "little")
        fill = length - 10 - 1 - len(body) - len(ending)
        if fill >= 0:
            yield b"\x1f\x8b\x08\x10\0\0\0\0\x02\xff"
            yield from _repeated(b" ", fill)
            yield b"\0" + body + ending
            return
    yield from _repeated(b"\0", length)  # zeros between members, or after the last, are padding


def _repeated(byte: bytes, count: int) -> Iterator[bytes]:
    piece = byte * min(count, _PIECE)
    for start in range(0, count, _PIECE):
        yield piece[: count - start]

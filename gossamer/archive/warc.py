"""This module writes exchanges as WARC/1.1 records, and reads single records.

The bytes of the wire are stored as they came, chunks included (section 'response' of the specification). The payload
that `digest` names is the body without transfer coding, but with its content coding. `warcio check` digests the stored
bytes instead. So that both are content, a chunked response carries a WARC-Block-Digest and leaves the
optional WARC-Payload-Digest out; CDXJ, the visits table and revisit records have it all the same. (Replay of
revisits by digest needs our CDXJ therefore: pywb's indexer would digest the chunks.)
"""

import hashlib
import os
import re
import time
import uuid
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from isal import isal_zlib

from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.config import Config
from gossamer.errors import disk_full_guard
from gossamer.version import __version__
from gossamer.web.http import dechunk

_PROFILE = "http://netpreserve.org/warc/1.1/revisit/"
IDENTICAL = _PROFILE + "identical-payload-digest"
NOT_MODIFIED = _PROFILE + "server-not-modified"

_LEVEL = 1  # of isal: as small as zlib's fastest, at a fraction of its time
_SMALL_LEVEL = 0  # of records that are short: a code of their own would take more time than their text
_GZIP = 31  # the window bits that mean a gzip member
_BUFFER = 1 << 20
_CHUNKED = re.compile(rb"^transfer-encoding:[^\r\n]*chunked", re.IGNORECASE | re.MULTILINE)
_EMPTY_LINE = re.compile(rb"\r?\n\r?\n")
_HTTP = "application/http;msgtype="
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [one + other for one in _LETTERS for other in _LETTERS]


class Request(Protocol):
    @property
    def url(self) -> str: ...


class Response(Protocol):
    """An answer must have these to be stored; `fetch.request.Response` does."""

    @property
    def request(self) -> Request: ...

    reason: str
    started_s: float
    elapsed_s: float
    address: str
    request_head: bytes
    request_body: bytes
    head: bytes
    body: bytes
    truncated: str


class Location(NamedTuple):
    """The place of a record: the file's name in the archive, offset and compressed length in bytes."""

    file: str
    offset: int
    length: int


class Record(NamedTuple):
    headers: dict[str, str]  # of the WARC record
    head: bytes  # of the HTTP message, with the empty line
    body: bytes  # as on the wire


class WarcWriter:
    """`WarcWriter` makes the WARC files of one round in scratch files; `close` puts them into the store."""

    def __init__(self, store: Store, number: int, config: Config) -> None:
        self._store = store
        self._config = config
        self._stem = f"warc/{config.crawl.agent}-{number:08d}"
        self._names: list[str] = []
        self._file: BinaryIO | None = None
        self._waiting: list[bytes] = []  # members not written yet
        self._offset = self._written = 0
        self._ids = _Identifiers()

    def write_exchange(
        self, response: Response, digest: str, refers_to: tuple[str, float] | None = None, profile: str = ""
    ) -> Location:
        """Stores an answer and its request. Returns where the response (or revisit) record is.

        `digest` is what `payload_digest` returns. With a `profile` a revisit record without the body is written;
        `refers_to` is then the URL and time (started_s) of the visit that has the content, and for a 304
        `digest` is that visit's ("" if no longer known).
        """
        if self._file is None or self._offset >= self._config.archive.warc_bytes:
            self._roll(response.started_s)
        date = warc_date(response.started_s)
        record_id = self._ids.next()
        location = self._append(_response(response, digest, refers_to, profile, date, record_id))
        beside = f"WARC-Concurrent-To: <{record_id}>\r\n{_common(response, date)}"
        if self._config.archive.requests and response.request_head:
            block, body = _terminated(response.request_head), response.request_body
            self._append(_record("request", self._ids.next(), f"{_HTTP}request", beside, block, body), _SMALL_LEVEL)
        if response.truncated:
            fields = f"fetchTimeMs: {response.elapsed_s * 1000:.0f}\r\n"
            if response.reason:
                fields += f"reason: {' '.join(response.reason.split())}\r\n"
            self._append(_record("metadata", self._ids.next(), "application/warc-fields", beside, fields.encode()))
        return location

    def close(self) -> Changes:
        """Makes the round's files durable. Nothing can be written afterwards."""
        self._finish()
        for name in self._names:
            self._store.put(name, self._store.scratch(name))
        return Changes({"warc": self._names} if self._names else {})

    def _append(self, record: bytes, level: int = _LEVEL) -> Location:
        member = isal_zlib.compress(record, level, _GZIP)
        location = Location(self._names[-1], self._offset, len(member))
        self._waiting.append(member)
        self._offset += len(member)
        if self._offset - self._written >= _BUFFER:
            self._flush()
        return location

    def _flush(self) -> None:
        if self._file is not None:
            with disk_full_guard(self._store.scratch(self._names[-1])):
                self._file.write(b"".join(self._waiting))
        self._waiting.clear()
        self._written = self._offset

    def _roll(self, started_s: float) -> None:
        self._finish()
        self._names.append(f"{self._stem}-{len(self._names)}.warc.gz")
        path = self._store.scratch(self._names[-1])
        with disk_full_guard(path):
            self._file = path.open("wb")
        self._offset = self._written = 0
        # No WARC-Filename: files are concatenated later (merge.py), and the name would then be wrong.
        fields = f"WARC-Date: {warc_date(started_s)}\r\n"
        block = _info(self._config).encode()
        self._append(_record("warcinfo", self._ids.next(), "application/warc-fields", fields, block))

    def _finish(self) -> None:
        if self._file is not None:
            self._flush()
            with disk_full_guard(self._store.scratch(self._names[-1])):
                self._file.close()
            self._file = None


def payload_digest(head: bytes, body: bytes) -> str:
    """Returns SHA-1 in base 32 of the body without transfer coding: the same however the content was chunked."""
    if _CHUNKED.search(head):
        content, complete = dechunk(body)
        if content or complete:  # else it was only declared to be chunked
            return _sha1(content)
    return _sha1(body)


def warc_date(seconds: float) -> str:
    """Returns milliseconds, as the visits table has them. Cut, not rounded: CDXJ's seconds must be a prefix."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{milliseconds:03d}Z"


@lru_cache(16)  # of a hundred records most are of the same second
def _second(whole: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))


def read_record(path: Path, offset: int, length: int = 0) -> Record:
    """Returns one record by its place; without a length it is found by decompressing."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a file object would take longer than to read the record
    try:
        data = isal_zlib.decompress(os.pread(descriptor, length, offset), wbits=_GZIP) if length else b""
        return parsed(data or _member(descriptor, offset))
    finally:
        os.close(descriptor)


def parsed(data: bytes) -> Record:
    """Parses the text of a record."""
    lines, _, block = data.partition(b"\r\n\r\n")
    fields = (line.partition(": ") for line in lines.decode("utf-8", "replace").split("\r\n")[1:])
    headers = {name: value for name, _, value in fields}
    block = block[: int(headers["Content-Length"])]
    if not headers.get("Content-Type", "").startswith("application/http"):
        return Record(headers, b"", block)
    end = _end_of_head(block)
    return Record(headers, block[:end], block[end:])


class _Identifiers:
    """Identifiers are UUIDs, random once and then counted: randomness each time costs more than a header."""

    def __init__(self) -> None:
        first = str(uuid.uuid4())
        self._prefix, self._count = f"urn:uuid:{first[:24]}", int(first[24:], 16)

    def next(self) -> str:
        self._count = (self._count + 1) & 0xFFFFFFFFFFFF
        return f"{self._prefix}{self._count:012x}"


def _response(
    response: Response,
    digest: str,
    refers_to: tuple[str, float] | None,
    profile: str,
    date: str,
    record_id: str,
) -> bytes:
    fields = _common(response, date)
    head = _terminated(response.head)
    if profile:
        if digest:
            fields += f"WARC-Payload-Digest: sha1:{digest}\r\n"
        fields += f"WARC-Profile: {profile}\r\n"
        if refers_to is not None:
            url, started_s = refers_to
            fields += f"WARC-Refers-To-Target-URI: {url}\r\nWARC-Refers-To-Date: {warc_date(started_s)}\r\n"
        if response.body:
            fields += "WARC-Truncated: length\r\n"
        return _record("revisit", record_id, f"{_HTTP}response", fields, head)
    if _CHUNKED.search(head):
        fields += f"WARC-Block-Digest: sha1:{_sha1(head, response.body)}\r\n"
    elif digest:
        fields += f"WARC-Payload-Digest: sha1:{digest}\r\n"
    if response.truncated:
        fields += f"WARC-Truncated: {response.truncated}\r\n"
    return _record("response", record_id, f"{_HTTP}response", fields, head, response.body)


def _common(response: Response, date: str) -> str:
    address = f"WARC-IP-Address: {response.address}\r\n" if response.address else ""
    return f"WARC-Target-URI: {response.request.url}\r\nWARC-Date: {date}\r\n{address}"


def _record(kind: str, record_id: str, content_type: str, fields: str, block: bytes, rest: bytes = b"") -> bytes:
    """Returns a record. `rest` is the end of the block: a body is copied once."""
    header = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <{record_id}>\r\n{fields}"
        f"Content-Type: {content_type}\r\nContent-Length: {len(block) + len(rest)}\r\n\r\n"
    )
    return b"".join((header.encode(), block, rest, b"\r\n\r\n"))


def _info(config: Config) -> str:
    robots = "RFC 9309" if config.polite.robots else "ignored"
    return (
        f"software: Gossamer/{__version__}\r\nformat: WARC File Format 1.1\r\n"
        "conformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
        f"robots: {robots}\r\nhttp-header-user-agent: {config.user_agent}\r\n"
    )


def _sha1(data: bytes, rest: bytes = b"") -> str:
    # Two letters at a time; base64.b32encode takes a third of the time of the hash itself.
    digest = hashlib.sha1(data, usedforsecurity=False)
    if rest:
        digest.update(rest)
    number = int.from_bytes(digest.digest())
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(150, -1, -10)])


def _terminated(head: bytes) -> bytes:
    """Returns a head with the empty line that ends it, which clients may or may not hand over."""
    if head.endswith((b"\r\n\r\n", b"\n\n")):
        return head
    return head.rstrip(b"\r\n") + b"\r\n\r\n"


def _end_of_head(block: bytes) -> int:
    match = _EMPTY_LINE.search(block)
    return match.end() if match else len(block)


def _member(descriptor: int, offset: int) -> bytes:
    inflater = isal_zlib.decompressobj(wbits=_GZIP)
    parts = []
    while not inflater.eof:
        data = os.pread(descriptor, 1 << 16, offset)
        if not data:
            raise EOFError(f"no record at offset {offset}")
        parts.append(inflater.decompress(data))
        offset += len(data)
    return b"".join(parts)

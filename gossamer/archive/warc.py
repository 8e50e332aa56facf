"""This module writes exchanges as WARC/1.1 records; `warc_reader` reads them.

The bytes of the wire are stored as they came, chunks included (section 'response' of the specification). There are
two digests of a body, which differ if it is chunked. `payload_digest` is without transfer coding: by it content is
recognised, and the visits table has it. `stored_digest` is of the body as it is stored, as warcio, fastwarc and pywb
compute it: WARC and CDXJ have it. A revisit record has that of the record it refers to, so that it is found
whoever made the index. What came in HTTP/2 is stored in the form of HTTP/1.1, with a field WARC-Protocol
(iipc/warc-specifications#42).
"""

import hashlib
import re
import struct
import time
import uuid
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import BinaryIO, NamedTuple, Protocol

from isal import isal_zlib

from gossamer.archive.digests import letters, octets
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.config import Config
from gossamer.errors import disk_full_guard
from gossamer.version import __version__
from gossamer.web.http import RENDERED_TYPE, dechunk

_PROFILE = "http://netpreserve.org/warc/1.1/revisit/"
IDENTICAL = _PROFILE + "identical-payload-digest"
NOT_MODIFIED = _PROFILE + "server-not-modified"

_LEVEL = 1  # of isal: as small as zlib's fastest, at a fraction of its time
_SMALL_LEVEL = 0  # of records that are short: a code of their own would take more time than their text
GZIP = 31  # the window bits that mean a gzip member
_BUFFER = 1 << 20
_END = b"\r\n\r\n"  # of a record
_CHUNKED = re.compile(rb"^transfer-encoding:[^\r\n]*chunked", re.IGNORECASE | re.MULTILINE)
_HTTP = "application/http;msgtype="
_FIELDS = "application/warc-fields"  # what indexers leave out
_PACKED = struct.Struct("<QB")  # milliseconds, number of digests
_SHA1 = 20  # bytes of a digest
_EMPTY = "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"  # the digest of no bytes
RENDERED_AS = "Gossamer-Rendered-As"  # a field of response records: the next one has the page as a browser made it


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

    @property
    def large(self) -> "Large | None": ...

    protocol: str


class Large(Protocol):
    """A body must have these to be stored piece by piece."""

    @property
    def size(self) -> int: ...

    def pieces(self) -> Iterator[bytes]: ...


class Location(NamedTuple):
    """The place of a record: the file's name in the archive, offset and compressed length in bytes."""

    file: str
    offset: int
    length: int


class Stored(NamedTuple):
    """`Stored` names the record that has a content: revisit records refer to it by its URL and time."""

    url: str
    time_ms: int  # since 1970
    digest: str  # of the payload
    stored_digest: str  # WARC-Payload-Digest

    def packed(self, url: str) -> bytes:
        """Returns it as few bytes, as the index keeps it for the page with this URL."""
        digests = octets(self.digest) + (b"" if self.digest == self.stored_digest else octets(self.stored_digest))
        head = _PACKED.pack(self.time_ms, len(digests) // _SHA1) + digests
        return head if self.url == url else head + self.url.encode()

    @classmethod
    def unpacked(cls, data: bytes, url: str) -> "Stored | None":
        """Returns the same again; None if nothing is known."""
        if not data:
            return None
        time_ms, count = _PACKED.unpack_from(data)
        end = _PACKED.size + _SHA1 * count
        digests = [letters(data[at : at + _SHA1]) for at in range(_PACKED.size, end, _SHA1)]
        return cls(data[end:].decode() or url, time_ms, digests[0], digests[-1])


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
        self,
        response: Response,
        digest: str,
        refers_to: Stored | None = None,
        profile: str = "",
        rendered: bytes = b"",
    ) -> Location:
        """Stores an answer and its request. Returns where the response (or revisit) record is.

        `digest` is what `stored_digest` returns. With a `profile` a revisit record without the body is written, which
        refers to the record that has the content and has its digest. What a browser made of the page is a conversion
        record right behind it.
        """
        if self._file is None or self._offset >= self._config.archive.warc_bytes:
            self._roll(response.started_s)
        date = warc_date(response.started_s)
        common = _common(response, date)
        record_id = self._ids.next()
        rendered_id = self._ids.next() if rendered else ""
        record = _response(response, digest, refers_to, profile, common, record_id, rendered_id)
        large = None if profile else response.large
        location = self._append(record) if large is None else self._append_large(record, large)
        if rendered:
            fields = (
                f"WARC-Target-URI: {response.request.url}\r\nWARC-Date: {date}\r\nWARC-Refers-To: <{record_id}>\r\n"
            )
            self._append(_record("conversion", rendered_id, RENDERED_TYPE, fields, rendered))
        beside = f"WARC-Concurrent-To: <{record_id}>\r\n{common}"
        if self._config.archive.requests and response.request_head:
            block, body = _terminated(response.request_head), response.request_body
            self._append(_record("request", self._ids.next(), f"{_HTTP}request", beside, block, body), _SMALL_LEVEL)
        if profile == NOT_MODIFIED:
            block = b"http-status-line: " + response.head.rstrip(b"\r\n") + b"\r\n"
            self._append(_record("metadata", self._ids.next(), _FIELDS, beside, block), _SMALL_LEVEL)
        if response.truncated:
            fields = f"fetchTimeMs: {response.elapsed_s * 1000:.0f}\r\n"
            if response.reason:
                fields += f"reason: {' '.join(response.reason.split())}\r\n"
            self._append(_record("metadata", self._ids.next(), _FIELDS, beside, fields.encode()))
        return location

    def close(self) -> Changes:
        """Makes the round's files durable. Nothing can be written afterwards."""
        self._finish()
        for name in self._names:
            self._store.put(name, self._store.scratch(name))
        return Changes({"warc": self._names} if self._names else {})

    def _append(self, record: bytes, level: int = _LEVEL) -> Location:
        member = isal_zlib.compress(record, level, GZIP)
        location = Location(self._names[-1], self._offset, len(member))
        self._waiting.append(member)
        self._offset += len(member)
        if self._offset - self._written >= _BUFFER:
            self._flush()
        return location

    def _append_large(self, record: bytes, body: "Large") -> Location:
        """Appends a record whose body comes piece by piece, behind the rest of it."""
        self._flush()
        assert self._file is not None
        packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, GZIP)
        length = 0
        with disk_full_guard(self._store.scratch(self._names[-1])):
            for piece in chain([record], body.pieces(), [_END]):
                length += self._file.write(packer.compress(piece))
            length += self._file.write(packer.flush())
        location = Location(self._names[-1], self._offset, length)
        self._offset = self._written = self._offset + length
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
        self._append(_record("warcinfo", self._ids.next(), _FIELDS, fields, block))

    def _finish(self) -> None:
        if self._file is not None:
            self._flush()
            with disk_full_guard(self._store.scratch(self._names[-1])):
                self._file.close()
            self._file = None


def payload_digest(head: bytes, body: bytes) -> str:
    """Returns SHA-1 in base 32 of the body without transfer coding: the same however the content was chunked."""
    if _is_chunked(head):
        content, complete = dechunk(body)
        if content or complete:  # else it was only declared to be chunked
            return _sha1(content)
    return _sha1(body)


def stored_digest(head: bytes, body: bytes, digest: str) -> str:
    """Returns the digest of a body as it is stored, by its payload's: chunks included."""
    return _sha1(body) if _is_chunked(head) else digest


def _is_chunked(head: bytes) -> bool:
    # Most heads have the word nowhere, and to see that takes a tenth of what the expression does.
    return b"chunked" in head.lower() and _CHUNKED.search(head) is not None


def stored_as(url: str, started_s: float, digest: str, stored: str) -> Stored:
    return Stored(url, int(started_s * 1000), digest or _EMPTY, stored or _EMPTY)


def warc_date(seconds: float) -> str:
    """Returns milliseconds, as the visits table has them. Cut, not rounded: CDXJ's seconds must be a prefix."""
    return _date(int(seconds * 1000))


def _date(time_ms: int) -> str:
    whole, milliseconds = divmod(time_ms, 1000)
    return f"{_second(whole)}.{milliseconds:03d}Z"


@lru_cache(16)  # of a hundred records most are of the same second
def _second(whole: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))


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
    refers_to: Stored | None,
    profile: str,
    fields: str,
    record_id: str,
    rendered_id: str = "",
) -> bytes:
    if rendered_id:
        fields += f"{RENDERED_AS}: <{rendered_id}>\r\n"
    head = _terminated(response.head)
    if profile:
        fields += f"WARC-Profile: {profile}\r\n"
        if refers_to is not None:
            fields += (
                f"WARC-Payload-Digest: sha1:{refers_to.stored_digest}\r\n"
                f"WARC-Refers-To-Target-URI: {refers_to.url}\r\nWARC-Refers-To-Date: {_date(refers_to.time_ms)}\r\n"
            )
        if response.body or response.large is not None:
            fields += "WARC-Truncated: length\r\n"
        if profile == NOT_MODIFIED:
            # Whoever replays it shows the head that is here with the body that is there: a 304 is in a record beside.
            head = b""
        return _record("revisit", record_id, f"{_HTTP}response", fields, head)
    if digest:
        fields += f"WARC-Payload-Digest: sha1:{digest}\r\n"
    if response.truncated:
        fields += f"WARC-Truncated: {response.truncated}\r\n"
    if response.large is not None:
        record = _record("response", record_id, f"{_HTTP}response", fields, head, more=response.large.size)
        return record.removesuffix(_END)
    return _record("response", record_id, f"{_HTTP}response", fields, head, response.body)


def _common(response: Response, date: str) -> str:
    address = f"WARC-IP-Address: {response.address}\r\n" if response.address else ""
    protocol = f"WARC-Protocol: {response.protocol}\r\n" if response.protocol else ""
    return f"WARC-Target-URI: {response.request.url}\r\nWARC-Date: {date}\r\n{address}{protocol}"


def _record(
    kind: str, record_id: str, content_type: str, fields: str, block: bytes, rest: bytes = b"", more: int = 0
) -> bytes:
    """Returns a record. `rest` is the end of the block: a body is copied once; `more` bytes of it come later."""
    header = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <{record_id}>\r\n{fields}"
        f"Content-Type: {content_type}\r\nContent-Length: {len(block) + len(rest) + more}\r\n\r\n"
    )
    return b"".join((header.encode(), block, rest, _END))


def _info(config: Config) -> str:
    robots, archive = "RFC 9309" if config.polite.robots else "ignored", config.archive
    about = {"operator": archive.operator, "isPartOf": archive.collection, "description": archive.description}
    given = "".join(f"{name}: {' '.join(text.split())}\r\n" for name, text in about.items() if text)
    return (
        f"software: Gossamer/{__version__}\r\nformat: WARC File Format 1.1\r\n"
        "conformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
        f"robots: {robots}\r\nhttp-header-user-agent: {config.user_agent}\r\n{given}"
    )


def _sha1(data: bytes) -> str:
    return letters(hashlib.sha1(data, usedforsecurity=False).digest())


def _terminated(head: bytes) -> bytes:
    """Returns a head with the empty line that ends it, which clients may or may not hand over."""
    if head.endswith((b"\r\n\r\n", b"\n\n")):
        return head
    return head.rstrip(b"\r\n") + b"\r\n\r\n"

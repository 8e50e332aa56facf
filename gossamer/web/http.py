"""This module reads HTTP headers and bodies as leniently as browsers do, whatever a server may have sent."""

import re
from collections.abc import Iterator
from datetime import UTC
from functools import lru_cache

from gossamer.web import coding

try:
    from gossamer.web._head import PlainHeaders
except ImportError:  # not built on this machine
    PlainHeaders = None

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110 section 5.6.2
_NAME = re.compile(_TOKEN).fullmatch
_ESSENCE = re.compile(rf"{_TOKEN}/{_TOKEN}").fullmatch
_STATUS = re.compile(rb"HTTP/[0-9]\.[0-9] ([0-9]{1,3})(?: [^\n]*)?\r?(?:\n|$)")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\n]*)?\r?\n").match
_SECONDS = re.compile(r"[0-9]{1,64}(?:\.[0-9]{1,9})?").fullmatch
_HIGH = re.compile(r"[^\x00-\x7f]")
_STRING = re.compile(r'^"((?:[^"\\]|\\.)*+)', re.S)
_ESCAPED = re.compile(r"\\(.)", re.S)
_SPACE = " \t\r"
_LONGEST_DATE = 64
_LONGEST_TYPE = 4096
_MOST_BYTES = (1 << 63) - 1
_MOST_LAYERS = 4  # of codings: nobody needs more, and each may unpack up to the limit
_MOST_CHUNKS = 1 << 18  # a body in chunks of one byte would cost seconds

# Not codings, yet some servers write them where codings belong; they mean nothing.
_MEANINGLESS = frozenset(("", "identity", "none", "utf-8", "utf8", "iso-8859-1", "binary", "8bit", "7bit"))
# What is wrong with a body, worst first.
_WORST = (coding.LENGTH, coding.CORRUPT, coding.DISCONNECT, coding.FINE)

RENDERED_TYPE = "text/html; charset=utf-8"  # of a page as a browser made it
_REPLACED = frozenset(("content-type", "content-length", "content-encoding", "transfer-encoding"))  # by rendering


class Headers:
    """The fields of a header block as received: names in lower case, values as octets in text.

    Lenient, yet nothing is smuggled into another field: only LF ends a line, folded lines are joined, lines
    that are no field (no colon, an impossible name, a NUL) are passed over, and so is a status line.
    """

    __slots__ = ("_fields",)

    def __init__(self, raw: bytes) -> None:
        fields: list[tuple[str, str]] = []
        ours = False  # does a folded line continue a field that we took?
        for line in raw.decode("latin-1").split("\n"):
            if line[:1] in (" ", "\t"):
                if ours and "\0" not in line and line.strip(_SPACE):
                    name, value = fields[-1]  # obs-fold, RFC 9112 section 5.2
                    fields[-1] = (name, f"{value} {line.strip(_SPACE)}".strip(_SPACE).replace("\r", " "))
                continue
            name, colon, value = line.partition(":")
            name = _field_name(name)
            ours = colon == ":" and name != "" and "\0" not in value
            if ours:
                fields.append((name, value.strip(_SPACE).replace("\r", " ")))
        self._fields = fields

    def get(self, name: str, default: str = "") -> str:
        """Returns the first field of that name (in lower case)."""
        for known, value in self._fields:
            if known == name:
                return value
        return default

    def get_all(self, name: str) -> list[str]:
        return [value for known, value in self._fields if known == name]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


def headers_of(head: bytes) -> Headers:
    """Returns the fields of a header block: most are plain, and read by compiled code."""
    plain = PlainHeaders(head) if PlainHeaders is not None else None
    return plain if plain is not None and plain.is_plain else Headers(head)


def status_code(head: bytes) -> int | None:
    """Returns the status in the first line of a head, or None if that is not a status line of HTTP/1."""
    match = _STATUS.match(head)
    return int(match[1]) if match else None


def content_type(headers: Headers) -> tuple[str, str]:
    """Returns the MIME type without and with its parameters, ("", "") if there is none (Fetch's rule)."""
    return _extract(", ".join(headers.get_all("content-type"))[:_LONGEST_TYPE])


def rendered_head(head: bytes) -> bytes:
    """Returns the head of an answer as it would be if the server had sent what a browser made of the page."""
    status, _, _ = head.partition(b"\n")
    fields = [(name, value) for name, value in Headers(head) if name not in _REPLACED]
    lines = [f"{name}: {value}" for name, value in [*fields, ("content-type", RENDERED_TYPE)]]
    return status.rstrip(b"\r") + b"\r\n" + "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"


def content_length(headers: Headers) -> tuple[int | None, bool]:
    """Returns the declared length if there is a usable one, and whether the declarations agree.

    Fetch's "extract a length": who contradicts himself is not to be read; other nonsense counts as absent.
    """
    values = headers.get_all("content-length")
    if not values:
        return None, True
    first, *others = [value.strip(_SPACE) for value in ",".join(values).split(",")]
    if any(value != first for value in others):
        return None, False
    if not (first.isascii() and first.isdigit()):
        return None, True
    return (int(first) if len(first) <= 18 else _MOST_BYTES), True


def location(headers: Headers) -> str | None:
    """Returns the target of a redirect, as written but in ASCII; None if there is none, or several."""
    values = set(headers.get_all("location"))
    if len(values) != 1:
        return None
    # Octets beyond ASCII are percent-encoded one by one: right for UTF-8, Latin-1 and anything else.
    return _HIGH.sub(lambda octet: f"%{ord(octet[0]):02X}", values.pop()) or None


def retry_after_s(value: str, now: float) -> float | None:
    """Returns how long a Retry-After asks us to wait, from `now` (seconds since 1970); None if it is not readable."""
    value = value.strip(_SPACE)
    if _SECONDS(value):
        return float(value)
    if not value or len(value) > _LONGEST_DATE:
        return None
    from email.utils import parsedate_to_datetime  # whoever meets no date need not wait for it

    try:
        moment = parsedate_to_datetime(value)
        # RFC 9110 section 5.6.7: dates are in GMT, also in the form of asctime, which has no zone.
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(moment.timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def dechunk(data: bytes) -> tuple[bytes, bool]:
    """Returns the content of a chunked body (RFC 9112 section 7.1), and whether its end was there."""
    pieces: list[bytes] = []
    at, end = 0, len(data)
    for _ in range(_MOST_CHUNKS):
        match = _CHUNK_SIZE(data, at)
        if match is None:
            break
        size = int(match[1], 16)
        if size == 0:
            return b"".join(pieces), True
        at = match.end()
        pieces.append(data[at : at + size])
        at += size
        if at >= end:
            break
        at += 2 if data.startswith(b"\r\n", at) else 1 if data.startswith(b"\n", at) else end
    return b"".join(pieces), False


def decode_body(wire_body: bytes, headers: Headers, limit: int) -> tuple[bytes, str]:
    """Returns the content of a body as sent, at most `limit` bytes, and what is wrong with it.

    "" nothing; "length" cut at the limit; "disconnect" chunks or a coding end too early; "corrupt" a coding
    breaks (what could be read is there in these cases); "coding" one that we do not know: no content.
    """
    names = [*_codings(headers, "content-encoding"), *_codings(headers, "transfer-encoding")]
    body, reason = wire_body, coding.FINE
    if len(names) > _MOST_LAYERS:
        return b"", "coding"
    for name in reversed(names):
        problem = coding.FINE
        if name == "chunked":
            if _CHUNK_SIZE(body):  # else only the header claims that it is chunked
                body, complete = dechunk(body)
                problem = coding.FINE if complete else coding.DISCONNECT
        elif name in coding.KNOWN:
            body, problem = coding.decode(body, name, limit)
        else:
            return b"", "coding"
        reason = min(reason, problem, key=_WORST.index)
    return (body[:limit], coding.LENGTH) if len(body) > limit else (body, reason)


def _codings(headers: Headers, field: str) -> list[str]:
    values = headers.get_all(field)
    if not values:
        return values
    names = [name.strip(_SPACE).lower() for name in ",".join(values).split(",")]
    return [name for name in names if name not in _MEANINGLESS]


@lru_cache(maxsize=1024)
def _field_name(text: str) -> str:
    """Returns the name in lower case; "" if it cannot be one. RFC 9112 section 5.1: white space before the colon
    goes."""
    name = text.rstrip(_SPACE)
    return name.lower() if _NAME(name) else ""


@lru_cache(maxsize=1024)
def _extract(value: str) -> tuple[str, str]:
    """Returns the last valid type, with the charset of an earlier equal one if it has none itself."""
    essence, charset, parameters = "", "", dict[str, str]()
    for part in _outside_quotes(value, ","):
        pieces = _outside_quotes(part, ";")
        name = pieces[0].strip(" \t\r\n").lower()
        if not _ESSENCE(name) or name == "*/*":
            continue
        parameters = _parameters(pieces[1:])
        if name != essence:
            essence, charset = name, ""
        charset = parameters.setdefault("charset", charset)
    rest = "".join(f";{name}={_quoted(text)}" for name, text in parameters.items() if text)
    return essence, essence + rest


def _outside_quotes(text: str, mark: str) -> list[str]:
    """Splits at marks that are not inside a quoted string."""
    if '"' not in text:
        return text.split(mark)
    parts, start, quoted, at = [], 0, False, 0
    while at < len(text):
        char = text[at]
        if char == '"':
            quoted = not quoted
        elif char == "\\" and quoted:
            at += 1
        elif char == mark and not quoted:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]


def _parameters(pieces: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for piece in pieces:
        name, equals, value = piece.partition("=")
        name = name.strip(" \t\r\n").lower()
        if value.startswith('"'):
            value = _ESCAPED.sub(r"\1", _STRING.findall(value)[0])
        else:
            value = value.rstrip(" \t\r\n")
        if equals and value and _NAME(name) and name not in found:
            found[name] = value
    return found


def _quoted(value: str) -> str:
    if _NAME(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

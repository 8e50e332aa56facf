"""This module writes CDXJ lines, the index by which pywb and others find records in WARC files."""

import contextlib
import json
import re
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.archive.warc import Location

REVISIT = "warc/revisit"
_PLACE = ', "offset": "'  # where the part of a line begins that depends on the file


class Capture(NamedTuple):
    """A capture is the entry of one record in the index."""

    url: str
    started_s: float
    mime: str  # without parameters; REVISIT for revisit records
    http_status: int
    digest: str
    location: Location


def write_cdxj(store: Store, agent: str, number: int, captures: Iterable[Capture]) -> Changes:
    """Writes the sorted lines of a round."""
    lines = sorted(map(line, captures))  # ASCII only, so that the order is that of the bytes
    if not lines:
        return Changes()
    name = f"cdxj/{agent}-{number:08d}.cdxj"
    store.put(name, "".join(lines).encode("ascii"))
    return Changes({"cdxj": [name]})


def line(capture: Capture) -> str:
    """Returns a line as pywb's own indexer writes it: revisits have no status, the file is named without its
    directory."""
    url, started_s, mime, http_status, digest, (file, offset, length) = capture
    status = "" if mime == REVISIT else f', "status": "{http_status}"'
    of_content = f', "digest": "{digest}"' if digest else ""
    return (
        f'{surt(url)} {_second(int(started_s * 1000) // 1000)} {{"url": {_quoted(url)}, "mime": {_mime(mime or "unk")}'
        f'{status}{of_content}, "length": "{length}"{_tail(offset, _file(file))}'
    )


def _quoted(text: str) -> str:
    """Returns a JSON string. Most texts need no escapes, and json.dumps takes several times as long."""
    return f'"{text}"' if _PLAIN(text) else json.dumps(text)


_mime = lru_cache(64)(_quoted)  # a round has few kinds of content


@lru_cache(16)
def _second(whole: int) -> str:
    return time.strftime("%Y%m%d%H%M%S", time.gmtime(whole))


def moved(lines: Iterable[str], places: dict[str, tuple[str, int]]) -> Iterator[str]:
    """Yields the lines after files were concatenated: `places` has the new file, and where the old one is in it."""
    by_file = {_file(old): (_file(new), shift) for old, (new, shift) in places.items()}
    for text in lines:
        head, _, tail = text.rpartition(_PLACE)
        offset, _, rest = tail.partition('"')
        old = rest[len(', "filename": "') : -len('"}\n')]
        if old in by_file:
            new, shift = by_file[old]
            yield head + _tail(int(offset) + shift, new)
        else:
            yield text


def offsets(paths: Iterable[Path], warc: str) -> list[int]:
    """Returns where records of a WARC file begin, as far as these indices can be read."""
    found = []
    ending = f'", "filename": "{_file(warc)}"}}'
    for path in paths:
        with contextlib.suppress(FileNotFoundError), path.open(encoding="ascii", errors="replace") as file:
            tails = (text.rstrip("\n").rpartition(_PLACE)[2] for text in file)
            numbers = (tail.removesuffix(ending) for tail in tails if tail.endswith(ending))
            found += [int(number) for number in numbers if number.isdecimal()]
    return found


def surt(url: str) -> str:
    """Returns the sort key of a normalised URL: host reversed, then path and query made comparable.

    These are the rules by which pywb makes a key of the URL that a reader asks for: lower case, no leading www,
    escapes undone and made anew, no session ids, sorted query, no slash at the end.
    """
    if simple := _SIMPLE(url):
        host, port, path = simple.groups("")
        query = ""
    else:
        rest = url.partition("//")[2]
        authority, slash, rest = rest.partition("/")
        path, _, query = (slash + rest).partition("?")
        host, port = _host_and_port(authority, url.startswith("https:"))
        path = _path(path)
        query = _query(query) if query else ""
    path = path.lower()
    if path.endswith("/") and len(path) > 1:
        path = path[:-1]
    return f"{_reversed(host)}{port}){path or '/'}{'?' if query else ''}{query}"


@lru_cache(1024)
def _reversed(host: str) -> str:
    return ",".join(reversed(_WWW.sub("", host, 1).split(".")))


# Most URLs: no query, no escapes, no empty or dotted segments, nothing that may be a session id.
_SIMPLE = re.compile(
    r"https?://([a-z0-9-]+(?:\.[a-z0-9-]+)*)(:\d+)?((?:/[\w~,@+=:!-][\w.~,@+=:!-]*)*/?)", re.ASCII
).fullmatch
_PLAIN = re.compile(r"[ !#-\[\]-~]*").fullmatch  # printable ASCII without quote and backslash
_PASSES = 3
_HEX = re.compile(rb"[0-9A-Fa-f]{2}").match
_WWW = re.compile(r"^www\d*\.")
_SAFE = "".join(chr(code) for code in range(33, 127) if chr(code) not in "#%")
_PATH_SESSIONS = (
    re.compile(r"(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)", re.I),
    re.compile(r"(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)", re.I),
)
_QUERY_SESSIONS = tuple(
    re.compile(rf"(.*){session}(?:&(.*))?", re.I)
    for session in (
        "jsessionid=[0-9a-z]{32}",
        "phpsessid=[0-9a-z]{32}",
        "sid=[0-9a-z]{32}",
        "aspsessionid[a-z]{8}=[a-z]{24}",
        "cfid=(?:(?!cfid=[^&])[^&])+&cftoken=[^&]+",  # from the last cfid on: no other is looked through twice
    )
)


def _host_and_port(authority: str, secure: bool) -> tuple[str, str]:
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = authority.partition(":")
    default = "443" if secure else "80"
    return host.lower().replace("..", ".").strip("."), f":{port}" if port not in ("", default) else ""


def _path(path: str) -> str:
    kept: list[str] = []
    segments = _unescaped(path).decode("latin-1").split("/")[1:]
    for segment in segments:
        if segment == "..":
            if kept:
                kept.pop()
            else:
                kept.append(segment)
        elif segment != ".":
            kept.append(segment)
    joined = "/".join([segment for segment in kept[:-1] if segment] + kept[-1:])
    clean = _escaped(f"/{joined}".encode("latin-1")).lower()
    for session in _PATH_SESSIONS:
        match = session.fullmatch(clean)
        clean = match[1] + match[2] if match else clean
    return clean


def _query(query: str) -> str:
    clean = _escaped(_unescaped(query))
    for session in _QUERY_SESSIONS:
        match = session.fullmatch(clean)
        clean = match[1] + (match[2] or "") if match else clean
    pairs = sorted(tuple(pair.split("=", 1)) for pair in clean.lower().split("&"))
    return "&".join("=".join(pair) for pair in pairs)


def _unescaped(text: str) -> bytes:
    """Undoes escapes until none is left."""
    data = text.encode()
    for _ in range(_PASSES):
        less = unquote_to_bytes(data)
        if less == data:
            return data
        data = less
    # "%252525..." has as many layers as one likes: undone from the left, as soon as each is whole, in one pass.
    done = bytearray()
    for byte in data:
        done.append(byte)
        while done[-3:-2] == b"%" and _HEX(done, len(done) - 2):
            done[-3:] = bytes.fromhex(done[-2:].decode("ascii"))
    return bytes(done)


def _escaped(data: bytes) -> str:
    return quote_from_bytes(data, safe=_SAFE)


def _tail(offset: int, file: str) -> str:
    return f'{_PLACE}{offset}", "filename": "{file}"}}\n'


def _file(name: str) -> str:
    return name.rpartition("/")[2]

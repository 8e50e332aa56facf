"""`Checked` judges every message from others: only what can be read goes on to those who apply it.

| what came | what becomes of it |
|---|---|
| links, seeds or news that cannot be read | set aside; acknowledged, as if it were empty |
| zones or hosts that cannot be read | refused: whoever gave them away still has all of it in its outbox |
| a kind that we do not know, news of a site that we do not know yet | refused, until we do |
| more than fits into memory, from another site | refused |
| what only agents of one site send each other, from another site | set aside |

What is refused is not acknowledged, and what comes behind it in its stream waits. Another site may be broken, or want
to harm us: what it sends is measured before it is unpacked, and a commit takes a bounded amount of it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from math import isfinite
from struct import unpack_from
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from gossamer.archive.manifest import (
    HOSTS,
    LINKS,
    MOVES,
    NEWS,
    REMOTE_LINKS,
    SEED_FILES,
    SEED_RULES,
    SEEDS,
    ZONES,
    Message,
    site_of,
)
from gossamer.archive.store import Store
from gossamer.archive.zones import named
from gossamer.columns import COOKIES
from gossamer.crawl.inbox import Aside, blank, decode
from gossamer.crawl.scope import WebsiteRules
from gossamer.crawl.seeds import check_rules, check_urls, files_in, rules_in
from gossamer.errors import Unreadable
from gossamer.sharing import compact, estate, placing
from gossamer.sharing.exchange import Exchange

_LARGEST = 1 << 62
PART_BYTES = 8 << 20  # of a part from another site: all that can be divided is far shorter
MESSAGE_BYTES = 1 << 30  # of all parts of a number from another site, unpacked
COMMIT_BYTES = 1 << 28  # of what a commit takes from another site, unpacked, if that is more than one number
_ROW_BYTES = 150  # of a link in memory, besides its text
_AS_JSON = 20  # bytes in memory for each byte of JSON, at most
_BETWEEN_SITES = (REMOTE_LINKS, NEWS, HOSTS, SEEDS)
_WITHIN_A_SITE = ("pool", "moves")  # news that other sites have no business to send


class Finding(NamedTuple):
    """`Finding` is what is wrong with a message, if anything is; whether to wait until that changes; and how many bytes
    it takes in memory."""

    wrong: str = ""
    waits: bool = False
    size: int = 0


GOOD = Finding()


class Checked:
    """`Checked` is an Exchange around another. `sites` are those that an agent knows, in order; empty with one site."""

    def __init__(self, exchange: Exchange, aside: Aside, store: Store, sites: Collection[str] = ()) -> None:
        self._exchange, self._aside, self._store, self._sites = exchange, aside, store, sites
        self._verdicts: dict[tuple[str, int, int], Finding] = {}
        self._looked: tuple[list[Message], list[Message]] = [], []  # what there was at the last look, and what was good

    def publish(self, message: Message) -> bool:
        return self._exchange.publish(message)

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        found = self._exchange.pending(to, marks)
        if found == self._looked[0]:  # mostly: it is asked several times a second, and they are the same objects
            return [*self._looked[1]]
        known = {(message.stream, message.number, message.part) for message in found}
        self._verdicts = {key: finding for key, finding in self._verdicts.items() if key in known}
        good: list[Message] = []
        barred, taken = set(), dict[str, int]()  # streams; bytes, by stream from another site
        for (stream, _), group in groupby(found, lambda message: (message.stream, message.number)):
            parts = _whole_letter(list(group))
            is_remote = parts[0].to in self._sites
            if is_remote and taken.get(stream, 0) > COMMIT_BYTES:
                continue  # the next commit takes it; nothing is unpacked before
            verdicts = self._judged(parts, is_remote)
            if any(finding.waits for finding in verdicts):
                barred.add(stream)
            if stream not in barred:
                taken[stream] = taken.get(stream, 0) + sum(finding.size for finding in verdicts)
                good += [blank(part) if finding.wrong else part for part, finding in zip(parts, verdicts, strict=False)]
        self._looked = found, good
        return [*good]

    def acknowledge(self, stream: str, number: int) -> None:
        self._exchange.acknowledge(stream, number)

    def confirmed(self, stream: str) -> int:
        return self._exchange.confirmed(stream)

    def lost(self) -> bool:
        return self._exchange.lost()

    def _judged(self, parts: Sequence[Message], is_remote: bool) -> list[Finding]:
        """Returns the findings of the parts of one number; those behind one that is refused are not looked at."""
        found: list[Finding] = []
        for part in parts:
            key = (part.stream, part.number, part.part)
            if key not in self._verdicts:
                self._verdicts[key] = self._noted(part, verdict(part, self._store, self._sites))
            found.append(self._verdicts[key])
            if is_remote and sum(finding.size for finding in found) > MESSAGE_BYTES:
                wrong = f"it takes more than {MESSAGE_BYTES >> 20} MB: end the site that sends it, and look what it is"
                found[-1] = self._verdicts[key] = self._noted(part, Finding(wrong, True))
            if found[-1].waits:
                break
        return found

    def _noted(self, message: Message, finding: Finding) -> Finding:
        facts = {"stream": message.stream, "number": message.number, "part": message.part, "kind": message.kind}
        if finding.waits:
            self._aside.refuse(finding.wrong, **facts)
        elif finding.wrong:  # before anybody can commit, and acknowledge, that it was seen
            self._aside.put(message.data, finding.wrong, **facts)
        return finding


def _whole_letter(parts: list[Message]) -> list[Message]:
    """Drops all else from a number that has hosts. In version 1 of the protocol it could begin with news of other
    hosts; an agent that lacks these sends links to where those hosts were, from where they are sent on."""
    return [message for message in parts if message.kind == HOSTS] or parts


def verdict(message: Message, store: Store, sites: Collection[str]) -> Finding:
    """Returns why a message cannot be applied, if so."""
    try:
        if message.to in sites:
            _check_remote(message, sites)
        if message.sender == MOVES:
            _check_names(json.loads(message.data))
        elif message.sender == SEED_FILES:
            files_in(message.data)
        elif message.sender == SEED_RULES:
            rules_in(message.data)
        elif message.kind in (LINKS, REMOTE_LINKS, SEEDS) or message.sender == SEEDS:
            found = compact.decode(message.data) if message.kind == REMOTE_LINKS else decode(message.data)
            is_seed = SEEDS in (message.kind, message.sender)
            check_urls(url for url in found.url if url or is_seed)  # others know the page by its key
            return Finding(size=sum(map(len, found.url)) + _ROW_BYTES * len(found.url))
        elif message.kind == NEWS:
            return _of_news(json.loads(message.data), sites)._replace(size=_size(message))
        elif message.kind in (ZONES, HOSTS):
            _check_transfer(message, store, sites)
            return Finding(size=_size(message))
        else:
            return Finding(
                f"nobody here knows what {message.kind!r} is: is there a later version of gossamer at the sender?",
                True,
            )
    except Exception as error:  # any error of a decoder, for data that came from outside
        return Finding(f"{type(error).__name__}: {error}"[:300], message.kind in (ZONES, HOSTS))
    return GOOD


# What another site may send


def _check_remote(message: Message, sites: Collection[str]) -> None:
    """Checks a message of another site before anything else reads it."""
    site = site_of(message.sender)
    if site not in sites:
        raise Unreadable(f"it comes from {message.sender!r}, which speaks for no site")
    if len(message.data) > PART_BYTES:
        raise Unreadable(f"it has {len(message.data):,} bytes")
    if message.kind in (LINKS, ZONES):
        raise Unreadable(f"{message.kind} are for agents of one site")
    if message.kind == NEWS:
        news = json.loads(message.data)
        if found := [name for name in _WITHIN_A_SITE if name in news]:
            raise Unreadable(f"{found[0]} is for agents of one site")
        if news.get("site", site) != site:
            raise Unreadable(f"{site} speaks in the name of another site")
    elif message.kind in _BETWEEN_SITES and _size(message) > compact.MOST_BYTES:
        raise Unreadable("it becomes longer than it can be")


def _size(message: Message) -> int:
    """Returns how many bytes a message takes in memory, as far as that can be seen before it is unpacked."""
    if message.data[:1] == b"{":
        return _AS_JSON * len(message.data)
    if message.kind == REMOTE_LINKS:  # `compact` bounds it
        return len(message.data)
    return arrow_bytes(message.data.partition(b"\n")[2] if message.kind in (ZONES, HOSTS) else message.data)


def arrow_bytes(stream: bytes) -> int:
    """Returns how long the buffers of an Arrow stream are when they are unpacked. Each that is compressed begins with
    that; where it is, says the metadata, a flatbuffer of a few tables."""
    total = len(stream)
    for message in pa.ipc.MessageReader.open_stream(stream):
        if message.type == "schema":
            continue
        if message.type != "record batch":
            raise Unreadable(f"a {message.type} is in it")
        metadata, body = memoryview(message.metadata), memoryview(message.body or b"")
        batch = _followed(metadata, _field(metadata, _followed(metadata, 0), 2))
        if not _field(metadata, batch, 3):
            continue  # nothing is compressed
        buffers = _followed(metadata, _field(metadata, batch, 2))
        for number in range(unpack_from("<I", metadata, buffers)[0]):
            offset, length = unpack_from("<qq", metadata, buffers + 4 + 16 * number)
            total += max(unpack_from("<q", body, offset)[0], 0) if length else 0
    return total


def _followed(metadata: memoryview, at: int) -> int:
    return at + int(unpack_from("<I", metadata, at)[0])


def _field(metadata: memoryview, table: int, number: int) -> int:
    """Returns where a field of a flatbuffer's table is; 0 if it has none."""
    names = table - unpack_from("<i", metadata, table)[0]
    if 4 + 2 * number >= unpack_from("<H", metadata, names)[0]:
        return 0
    offset = int(unpack_from("<H", metadata, names + 4 + 2 * number)[0])
    return table + offset if offset else 0


# What each kind must have


def _of_news(news: Any, sites: Collection[str]) -> Finding:
    for host in _typed(news, "scope", list, ()):
        _check_name(host)
    check_rules(msgspec.convert(_typed(news, "rules", list, []), list[WebsiteRules]))
    for host, url in _typed(news, "sitemaps", list, ()):
        _check_name(host)
        check_urls([url])
    _whole(news.get("pool", 0), -_LARGEST)
    for key in _typed(news, "unknown", list, ()):
        _whole(key, 0, 1 << 64)
    for word in ("released", "clean"):
        _whole(news.get(word, 0))
    _check_names(news.get("moves", {}))
    if "hosts" not in news:
        return GOOD
    entries = placing.unpacked(_typed(news, "hosts", str))
    site = _typed(news, "site", str)
    _whole(news["pages"])
    for country, seconds in _typed(news, "round_trips", dict, {}).items():
        _check_name(country)
        _number(seconds)
    if sites and (site not in sites or (len(entries) and int(entries["site"].max()) >= len(sites))):
        return Finding("it speaks of a site that is not in our list of sites yet", True)
    return GOOD


def _check_transfer(message: Message, store: Store, sites: Collection[str]) -> None:
    is_first = message.part == 0 or (message.protocol == 1 and message.data[:1] == b"{")
    if not is_first:  # the first part has what holds for all of them, the others have tables
        part = estate.decoded(message.data)
        if part.table == COOKIES.name:
            if message.kind == HOSTS:
                raise Unreadable("cookies are for agents of one site")
            estate.take_cookies({}, part.texts)
        return
    header = json.loads(message.data)
    _check_rests(_typed(header, "resting", dict, {}))
    named(header.get("zones"))
    if message.kind == ZONES:
        _number(header["quiet_until_s"])
        _check_files(_typed(header, "files", list, ()), store)
        return
    if _typed(header, "site", str) not in sites:
        raise Unreadable("it is for a site that is not in our list of sites")
    _whole(header["version"])
    entries = placing.unpacked(_typed(header, "hosts", str))
    if len(entries) and int(entries["site"].max()) >= len(sites):
        raise Unreadable("it speaks of a site that is not in our list of sites")


def _check_files(files: Sequence[Any], store: Store) -> None:
    """Checks the files in which zones went until version 2 of the protocol."""
    if files and (len(files) < 3 or not all(isinstance(name, str) and name.startswith("handover/") for name in files)):
        raise Unreadable("it does not name the files of a hand-over")
    for name in files:
        if not store.local(name).exists():
            raise Unreadable(f"{name} is missing; restore it from a copy")


def _check_rests(rests: Mapping[Any, Any]) -> None:
    for host, (until_s, failures) in rests.items():
        _check_name(host)
        _number(until_s)
        _whole(failures, 0, 1 << 32)


# Values


def _typed(header: Any, name: str, kind: type, *default: Any) -> Any:
    if not isinstance(header, dict):
        raise Unreadable("it is no JSON object")
    value = header.get(name, *default)
    if not isinstance(value, kind | tuple) or (isinstance(value, tuple) and not default):
        raise Unreadable(f"{name} is no {kind.__name__}")
    return value


def _whole(value: Any, least: int = 0, limit: int = _LARGEST) -> int:
    if type(value) is not int or not least <= value < limit:
        raise Unreadable("a number is none, or out of range")
    return value


def _number(value: Any) -> None:
    if type(value) not in (int, float) or not isfinite(value):
        raise Unreadable("a number is none, or infinite")


def _check_names(names: Any) -> None:
    if not isinstance(names, dict):
        raise Unreadable("it is no JSON object")
    for name, other in names.items():
        _check_name(name)
        _check_name(other)


def _check_name(name: Any) -> None:
    """Checks a name. Names are written to files, one in a line."""
    if not (isinstance(name, str) and name.isascii() and name.isprintable()):
        raise Unreadable("a name is none")

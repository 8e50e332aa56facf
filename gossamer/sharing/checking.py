"""`Checked` judges every message from others: only what can be read goes on to those who apply it.

| what came | what becomes of it |
|---|---|
| links, seeds or news that cannot be read | set aside; acknowledged, as if it were empty |
| zones or hosts that cannot be read | refused: whoever gave them away still has all of it in its outbox |
| a kind that we do not know, news of a site that we do not know yet | refused, until we do |

What is refused is not acknowledged, and what comes behind it in its stream waits.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from math import isfinite
from typing import Any

import msgspec

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
    ZONES_IN_ALL,
    Message,
)
from gossamer.archive.store import Store
from gossamer.crawl.inbox import Aside, blank, decode
from gossamer.crawl.scope import WebsiteRules
from gossamer.crawl.seeds import check_rules, check_urls, files_in, rules_in
from gossamer.errors import Unreadable
from gossamer.sharing import compact, estate, placing
from gossamer.sharing.exchange import Exchange

_LARGEST = 1 << 62
Finding = tuple[str, bool]  # what is wrong with a message, if anything is, and whether to wait until that changes

GOOD: Finding = ("", False)


class Checked:
    """`Checked` is an Exchange around another. `sites` are those that an agent knows, in order; empty with one site."""

    def __init__(self, exchange: Exchange, aside: Aside, store: Store, sites: Collection[str] = ()) -> None:
        self._exchange, self._aside, self._store, self._sites = exchange, aside, store, sites
        self._verdicts: dict[tuple[str, int, int], Finding] = {}

    def publish(self, message: Message) -> bool:
        return self._exchange.publish(message)

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        found = self._exchange.pending(to, marks)
        before, self._verdicts = self._verdicts, {}
        for message in found:
            key = (message.stream, message.number, message.part)
            self._verdicts[key] = before[key] if key in before else self._judged(message)
        good: list[Message] = []
        barred = set()
        for (stream, number), group in groupby(found, lambda message: (message.stream, message.number)):
            parts = _whole_letter(list(group))
            verdicts = [self._verdicts[stream, number, message.part] for message in parts]
            if any(waits for _, waits in verdicts):
                barred.add(stream)
            if stream not in barred:
                good += [blank(part) if wrong else part for part, (wrong, _) in zip(parts, verdicts, strict=True)]
        return good

    def acknowledge(self, stream: str, number: int) -> None:
        self._exchange.acknowledge(stream, number)

    def confirmed(self, stream: str) -> int:
        return self._exchange.confirmed(stream)

    def lost(self) -> bool:
        return self._exchange.lost()

    def _judged(self, message: Message) -> Finding:
        wrong, waits = verdict(message, self._store, self._sites)
        facts = {"stream": message.stream, "number": message.number, "part": message.part, "kind": message.kind}
        if waits:
            self._aside.refuse(wrong, **facts)
        elif wrong:  # before anybody can commit, and acknowledge, that it was seen
            self._aside.put(message.data, wrong, **facts)
        return wrong, waits


def _whole_letter(parts: list[Message]) -> list[Message]:
    """Drops all else from a number that has hosts. In version 1 of the protocol it could begin with news of other
    hosts; an agent that lacks these sends links to where those hosts were, from where they are sent on."""
    return [message for message in parts if message.kind == HOSTS] or parts


def verdict(message: Message, store: Store, sites: Collection[str]) -> Finding:
    """Returns why a message cannot be applied, if so."""
    try:
        if message.sender == MOVES:
            _check_names(json.loads(message.data))
        elif message.sender == SEED_FILES:
            files_in(message.data)
        elif message.sender == SEED_RULES:
            rules_in(message.data)
        elif SEEDS in (message.kind, message.sender):
            check_urls(decode(message.data).url)
        elif message.kind in (LINKS, REMOTE_LINKS):
            found = decode(message.data) if message.kind == LINKS else compact.decode(message.data)
            check_urls(url for url in found.url if url)  # others know the page by its key
        elif message.kind == NEWS:
            return _of_news(json.loads(message.data), sites)
        elif message.kind in (ZONES, HOSTS):
            _check_transfer(message, store, sites)
        else:
            return (
                f"nobody here knows what {message.kind!r} is: is there a later version of gossamer at the sender?",
                True,
            )
    except Exception as error:  # any error of a decoder, for data that came from outside
        return f"{type(error).__name__}: {error}"[:300], message.kind in (ZONES, HOSTS)
    return GOOD


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
        return "it speaks of a site that is not in our list of sites yet", True
    return GOOD


def _check_transfer(message: Message, store: Store, sites: Collection[str]) -> None:
    is_first = message.part == 0 or (message.protocol == 1 and message.data[:1] == b"{")
    if not is_first:  # the first part has what holds for all of them, the others have tables
        estate.decoded(message.data)
        return
    header = json.loads(message.data)
    zones = [_whole(zone, 0, ZONES_IN_ALL) for zone in _typed(header, "zones", list)]
    _check_rests(_typed(header, "resting", dict, {}))
    if message.kind == ZONES:
        if len(set(zones)) < len(zones):
            raise Unreadable("it names a zone twice")
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

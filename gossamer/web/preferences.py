"""This module reads what publishers ask about the use of their pages, in every dialect, by one table of rules.

docs/preferences.md says where each dialect is defined. A statement that is unclear is none; where several speak, the
most restrictive counts, but for TDMRep, whose meta element counts before its header, and that before its file.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from gossamer.config import PURPOSES
from gossamer.web.http import Headers
from gossamer.web.robots import LIMIT_BYTES, Rules

TDMREP, AI_TXT = "/.well-known/tdmrep.json", "/ai.txt"  # files of an origin that speak for its pages

_AI = ("ai-train", "ai-input")
_MINING = ("ai-train", "ai-input", "research")


class Rule(NamedTuple):
    """`Rule` is a row of the table: what a dialect says, and which purposes that refuses."""

    dialect: str
    says: str
    refuses: tuple[str, ...]
    is_for_images: bool = False
    is_for_exports: bool = False  # the page may be fetched and stored: its links are wanted


RULES = (
    Rule("Content-Signal", "search=no", ("search",)),
    Rule("Content-Signal", "ai-input=no", ("ai-input",)),
    Rule("Content-Signal", "ai-train=no", ("ai-train",)),
    Rule("Content-Usage", "search=n", ("search",)),
    Rule("Content-Usage", "train-ai=n", ("ai-train",)),
    Rule("Content-Usage", "ai-use=n", ("ai-input",)),
    # Labels of earlier drafts:
    Rule("Content-Usage", "ai=n", ("ai-train",)),
    Rule("Content-Usage", "genai=n", ("ai-train",)),
    Rule("Content-Usage", "inference=n", ("ai-input",)),
    Rule("Content-Usage", "tdm=n", _MINING),
    Rule("robots", "noai", _AI),
    Rule("robots", "noimageai", _AI, is_for_images=True),
    Rule("robots", "noarchive", ("archive", *_AI)),
    Rule("robots", "nocache", _AI),
    Rule("robots", "noindex", ("search",), is_for_exports=True),
    Rule("robots", "none", ("search",), is_for_exports=True),
    Rule("TDMRep", "tdm-reservation=1", _MINING),
    Rule("ai.txt", "Disallow", ("ai-train",)),
)
_RULES = {(rule.dialect, rule.says): rule for rule in RULES}
_WORDS = frozenset(rule.says for rule in RULES if rule.dialect == "robots")

_LONGEST = 500  # characters of a line that is kept: every page of a website may have it
_LINES = 8  # of a page that are kept
_READ = 4096  # characters of a field that are read, and
_MOST_FIELDS = 32
_LOCATIONS = 1_000  # of a tdmrep.json: each is compared with each page
_MEMO = 1024
_FIELDS = {
    "content-signal": "Content-Signal",
    "content-usage": "Content-Usage",
    "x-robots-tag": "X-Robots-Tag",
    "tdm-reservation": "TDM-Reservation",
}
_HAS_FIELD = re.compile(rb"\n(?:content-(?:signal|usage)|x-robots-tag|tdm-reservation)[ \t]*+:", re.IGNORECASE).search
_RESERVED = '"tdm-reservation": 1'
_TOO_LARGE = f"{{{_RESERVED}}} for all others, as it is too large"
_BETWEEN = re.compile(r"[\s,]*+")  # items of a list
_PATH = re.compile(r"[/*]\S*+\s++")
_DIRECTIVE = re.compile(r"[a-z_-]+")
# Directives with a value, which is none itself: max-image-preview:none forbids no more than a picture. What is left of
# a date is no directive either.
_VALUED = re.compile(r"(?:unavailable_after|max-[a-z]++(?:-[a-z]++)*+)\s*+:\s*+[^\s,;]*+")
_ADDRESSED = re.compile(r"\s*([a-z*][^\s:]*)\s*:").match  # a robot's name; no part of a date begins like that


class Asked(NamedTuple):
    """`Asked` is what a page's publisher asks: the lines with their sources, and the purposes that they refuse."""

    lines: str = ""
    not_for: str = ""  # in the order of PURPOSES, with spaces between
    refusals: tuple[tuple[str, str], ...] = ()  # purposes that the page is not even stored for, and the line

    def refusal(self, purpose: str) -> str:
        """Returns why a crawl for this purpose does not store the page; empty: it may."""
        return next((f"not for {purpose}: {line}" for refused, line in self.refusals if refused == purpose), "")


class Said(NamedTuple):
    """`Said` is what the answer itself says: fields of its header, and meta elements of its page."""

    fields: tuple[tuple[str, str], ...] = ()  # name in lower case, value
    metas: tuple[str, ...] = ()  # contents of meta elements for robots
    reservation: str = ""  # content of the meta element tdm-reservation


def said_in(head: bytes, headers: Headers) -> tuple[tuple[str, str], ...]:
    """Returns the fields of a header block that state preferences: mostly none, which one search tells."""
    if not _HAS_FIELD(head):
        return ()
    return tuple((name, value[:_READ]) for name, value in headers if name in _FIELDS)[:_MOST_FIELDS]


@lru_cache(_MEMO)
def directives(content: str) -> frozenset[str]:
    """Returns the words of a robots meta element."""
    return frozenset(_DIRECTIVE.findall(_VALUED.sub("", content.lower())))


@lru_cache(_MEMO)
def header_directives(value: str, agent: str) -> frozenset[str]:
    """Returns the words of an X-Robots-Tag that are for everybody or for us."""
    words: set[str] = set()
    addressed = ""
    for part in _VALUED.sub("", value.lower()).split(","):
        if robot := _ADDRESSED(part):
            addressed, part = robot[1], part[robot.end() :]
        if addressed in ("", "*", agent):
            words.update(_DIRECTIVE.findall(part))
    return frozenset(words)


@lru_cache(_MEMO)
def asked(before: str, said: Said, agent: str, is_image: bool = False) -> Asked:
    """Returns what all statements about a page ask. `before` has the lines that were known before it was fetched, each
    with its source: of robots.txt (`Rules.asks`), and of a file of its origin (`line_of_file`)."""
    found: list[tuple[str, tuple[Rule, ...]]] = []
    reservations: list[tuple[str, str]] = []  # of which the last counts
    for line in before.splitlines():
        source, _, text = line.partition(": ")
        if source == "tdmrep.json":
            reservations.append((line, "1" if _RESERVED in text else "0"))
        else:
            name, _, value = text.partition(":")
            found.append((line, _stated(name.strip().lower(), value)))
    for name, value in said.fields:
        line = f"header: {_FIELDS[name]}: {value}"
        if name == "tdm-reservation":
            reservations.append((line, value.strip()))
        elif name == "x-robots-tag":
            found.append((line, _directed(header_directives(value, agent))))
        else:
            found.append((line, _stated(name, value)))
    found += [(f"meta: robots: {content}", _directed(directives(content))) for content in said.metas]
    if said.reservation.strip():
        reservations.append((f"meta: tdm-reservation: {said.reservation}", said.reservation.strip()))
    if reservations:
        line, value = reservations[-1]
        found.append((line, (_RULES["TDMRep", "tdm-reservation=1"],) if value == "1" else ()))
    lines = [(" ".join(line.split())[:_LONGEST], rules) for line, rules in found if rules or _is_explicit(line)]
    return _summed(lines, is_image)


def _summed(found: Sequence[tuple[str, tuple[Rule, ...]]], is_image: bool) -> Asked:
    if not found:
        return Asked()
    refused: dict[str, str] = {}
    marked: set[str] = set()
    for line, rules in found:
        for rule in rules:
            if is_image or not rule.is_for_images:
                marked.update(rule.refuses)
                if not rule.is_for_exports:
                    refused.update({purpose: line for purpose in rule.refuses if purpose not in refused})
    lines = "\n".join(dict.fromkeys(line for line, _ in found[:_LINES]))
    return Asked(lines, " ".join(purpose for purpose in PURPOSES if purpose in marked), tuple(refused.items()))


def _is_explicit(line: str) -> bool:
    """Returns whether a line that refuses nothing is a statement all the same: it may allow something."""
    return ": robots: " not in line and ": X-Robots-Tag: " not in line


def _stated(name: str, value: str) -> tuple[Rule, ...]:
    """Returns the rules of a line of robots.txt or ai.txt, or of a field of a header."""
    if name == "disallow":
        return (_RULES["ai.txt", "Disallow"],)
    if name not in ("content-signal", "content-usage"):
        return ()
    value = value.strip()
    if path := _PATH.match(value):
        value = value[path.end() :]
    members = dict(_member(text) for text in value.partition("#")[0].lower().split(","))
    no = "no" if name == "content-signal" else "n"
    rules = (_RULES.get((_FIELDS[name], f"{label}={no}")) for label, said in members.items() if said in ("n", "no"))
    return tuple(rule for rule in rules if rule)


def _member(text: str) -> tuple[str, str]:
    """Reads a member of a dictionary (RFC 9651 section 3.2) without its parameters."""
    label, _, value = text.partition(";")[0].partition("=")
    return label.strip(), value.strip()


def _directed(words: frozenset[str]) -> tuple[Rule, ...]:
    return tuple(_RULES["robots", word] for word in sorted(words & _WORDS))


def has_rules(words: Iterable[str]) -> bool:
    """Returns whether a page's robots directives state a preference."""
    return not _WORDS.isdisjoint(words)


class Reservations:
    """The rules of a tdmrep.json. The first one that matches a path decides."""

    __slots__ = ("_rules", "size_bytes")

    def __init__(self, rules: Sequence[tuple[Rules, str]] = ()) -> None:
        self._rules = rules
        self.size_bytes = 100 + sum(rule.size_bytes + len(line) for rule, line in rules)

    @classmethod
    def parse(cls, body: bytes) -> "Reservations":
        """Any bytes are accepted; what is no list of rules has none. Of a file that is longer than what is read of it,
        the rules that were read count, as the first that matches decides; it reserves everything else: nobody knows
        what the others are."""
        try:
            given = json.loads(body)
            is_cut = False
        except (ValueError, RecursionError):
            is_cut = len(body) >= LIMIT_BYTES
            given = _whole_items(body) if is_cut else None
        if not isinstance(given, list):
            return cls()
        found = [each for each in map(_reservation, given[:_LOCATIONS]) if each]
        if is_cut or len(given) > _LOCATIONS:
            found.append((Rules.deny("/"), _TOO_LARGE))
        return cls(found)

    def decide(self, path: str) -> tuple[bool, str]:
        """Returns whether the path may be mined, and the rule that says so ("" if none does)."""
        for rule, line in self._rules:
            if not rule.allows(path):
                return _RESERVED not in line, line
        return True, ""


def _whole_items(body: bytes) -> list[Any] | None:
    """Returns the items of a list in JSON that has no end; None if it is none."""
    text = body.decode("utf-8-sig", "replace").lstrip()
    if not text.startswith("["):
        return None
    found: list[Any] = []
    place, decoder = 1, json.JSONDecoder()
    with contextlib.suppress(ValueError, RecursionError):  # what was cut
        while len(found) <= _LOCATIONS:
            item, place = decoder.raw_decode(text, _BETWEEN.match(text, place).end())  # type: ignore[union-attr]
            found.append(item)
    return found


def _reservation(given: Any) -> tuple[Rules, str] | None:
    if not isinstance(given, dict):
        return None
    location, value = given.get("location"), given.get("tdm-reservation")
    if not (isinstance(location, str) and location and str(value) in ("0", "1")):
        return None
    line = json.dumps({"location": location[:_LONGEST], "tdm-reservation": int(str(value))})
    return Rules.deny(location), line


def rules_of_file(path: str, body: bytes, agent: str) -> "Reservations | Rules":
    """Returns the rules of a file of an origin that speaks for its pages."""
    return Reservations.parse(body) if path == TDMREP else Rules.parse(body, agent)


def line_of_file(path: str, line: str) -> str:
    """Returns the line of such a file with its source, for `asked`."""
    return f"{path.rpartition('/')[2]}: {line}" if line else ""

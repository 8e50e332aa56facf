"""This module parses robots.txt (RFC 9309): what it allows us, and which of its lines decides."""

import re
from typing import NamedTuple

from gossamer.web.url import resolve

LIMIT_BYTES = 500 << 10  # RFC 9309 section 2.5: at least so much must be read; we read no more

_ALLOW, _DISALLOW, _AGENT, _DELAY, _SITEMAP, _SIGNAL, _USAGE = range(7)
# The names of RFC 9309, two that everybody writes, and the misspellings that are common enough for
# their authors to expect obedience. The usual spellings spare a call of lower().
_NAMES = {
    "user-agent": _AGENT, "User-agent": _AGENT, "User-Agent": _AGENT, "useragent": _AGENT,
    "user agent": _AGENT,
    "allow": _ALLOW, "Allow": _ALLOW,
    "disallow": _DISALLOW, "Disallow": _DISALLOW, "dissallow": _DISALLOW, "dissalow": _DISALLOW,
    "disalow": _DISALLOW, "diasllow": _DISALLOW, "disallaw": _DISALLOW, "desallow": _DISALLOW,
    "crawl-delay": _DELAY, "crawldelay": _DELAY,
    "sitemap": _SITEMAP, "Sitemap": _SITEMAP, "site-map": _SITEMAP,
    "content-signal": _SIGNAL, "Content-Signal": _SIGNAL, "content-usage": _USAGE, "Content-Usage": _USAGE,
}  # fmt: skip
_SPACE = " \t\v\f"  # str.strip() would also take octets of UTF-8, such as the A0 of à
# White space that RFC 9309 does not know, and what nobody sees: people paste them.
_ODD_SPACE = " \t\v\f\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b\u200e\u200f"
_ODD_SPACE += "\u2028\u2029\u202f\u205f\u2060\u3000\ufeff\ufffd"  # the last: a no-break space of Latin-1
# The same at the beginning of a value, as octets. No path or name begins so.
_ODD_BEGIN = re.compile(f"(?:\xa0|{'|'.join(char.encode().decode('latin-1') for char in _ODD_SPACE)})++").match
_TWO_WORDS = re.compile(r"[ \t\v\f]*+([^ \t\v\f]++)[ \t\v\f]++([^ \t\v\f]++)[ \t\v\f]*+").fullmatch
_TOKEN = re.compile(r"[a-z0-9_\-.!]+")
_NUMBER = re.compile(r"(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(?=$|[\s<])")
_PLAIN = re.compile(r"[A-Za-z0-9\-._~/?#\[\]@!&'()+,;=:]*").fullmatch
_STARRED = re.compile(r"[A-Za-z0-9\-._~/?#\[\]@!&'()+,;=:*]*").fullmatch
_NORMAL = re.compile(r"[A-Za-z0-9\-._~/?#\[\]@!&'()+,;=:*$]*").fullmatch
_ODD = re.compile(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9\-._~/?#\[\]@!&'()+,;=:*$%]")
# The unreserved characters, and those that a rule can only write percent-encoded when it means them verbatim.
_LITERAL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~*$")
_FEW = 64  # so many prefixes are tried faster all at once than by length
_USAGE_PATH = re.compile(
    r"[/*][^ \t]*"
).match  # Content-Usage has a path before what it says, Content-Signal may have one
_TOGETHER = 4  # so many of them for one path
_SHOWN = 500  # characters of a line that decides: whoever is denied keeps a copy
_RULE_BYTES = 250  # of Python objects around one rule's text

_Line = tuple[bool, str, str]  # allow?, pattern, the line as in the file


class _Wild(NamedTuple):
    """A `_Wild` is a rule with `*` or `$`."""

    rank: int
    needle: str  # its longest part: most paths are out by one search for it
    head: str  # what the path must begin with
    pieces: tuple[str, ...]  # what must follow in this order, with anything between
    anchored: bool  # the last part must end the path
    line: str

    def matches(self, path: str) -> bool:
        """Matches without backtracking: the leftmost place is as good as any for the part after a `*`."""
        if not path.startswith(self.head):
            return False
        at, end, pieces = len(self.head), len(path), self.pieces
        if self.anchored:
            if not pieces:
                return at == end
            if not path.endswith(pieces[-1]):
                return False
            end -= len(pieces[-1])
            pieces = pieces[:-1]
        for piece in pieces:
            at = path.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return at <= end


class Rules:
    """The rules of one robots.txt that apply to one agent."""

    __slots__ = (
        "_few", "_lengths", "_plain", "_wild", "crawl_delay_s", "group", "sitemaps", "size_bytes", "usage",
    )  # fmt: skip

    def __init__(
        self,
        lines: list[_Line],
        group: str = "",
        crawl_delay_s: float | None = None,
        sitemaps: tuple[str, ...] = (),
        usage: "tuple[Rules, ...]" = (),
    ) -> None:
        self.group = group  # the user-agent token whose group applies: ours, "*", or "" if there is none
        self.crawl_delay_s = crawl_delay_s
        self.sitemaps = list(sitemaps)  # as written; `sitemap_urls` makes addresses of them
        self.usage = usage  # what its lines say about the use of pages, by dialect: Content-Signal, Content-Usage
        # Rank: twice the pattern's length, plus one to allow. The highest that matches decides, so the most
        # specific rule wins, and allow among equals (section 2.2.2).
        plain: dict[str, tuple[int, str]] = {}
        wild: dict[str, _Wild] = {}
        for allow, pattern, line in lines:
            if _PLAIN(pattern):
                rank = 2 * len(pattern) + allow
                if pattern not in plain or plain[pattern][0] < rank:
                    plain[pattern] = (rank, line)
            elif allow or pattern not in wild:
                rule = _wild(allow, pattern, line)
                if rule.pieces or rule.anchored:
                    wild[pattern] = rule
                elif rule.head not in plain or plain[rule.head][0] < rule.rank:
                    plain[rule.head] = (rule.rank, line)  # `/fish*` is `/fish`, one octet longer
        self._plain = plain
        self._few = tuple(plain) if len(plain) <= _FEW else ("",)
        self._lengths = _by_length(plain)
        self._wild = sorted(wild.values(), key=lambda rule: rule.rank, reverse=True)
        text = sum(len(line) for _, _, line in lines)
        self.size_bytes = 500 + 2 * text + _RULE_BYTES * len(lines) + sum(len(s) + 60 for s in sitemaps)
        self.size_bytes += sum(rules.size_bytes for rules in usage)

    @classmethod
    def parse(cls, body: bytes, agent: str) -> "Rules":
        """Returns the rules of the file for a product token; any bytes are accepted."""
        return _parse(body, _token(agent))

    @classmethod
    def allow_all(cls) -> "Rules":
        return cls([])

    @classmethod
    def deny_all(cls) -> "Rules":
        return cls([(False, "/", "")])

    @classmethod
    def deny(cls, pattern: str) -> "Rules":
        return cls([(False, pattern if pattern.isascii() else _octets(pattern), "")])

    def asks(self, path: str) -> str:
        """Returns the lines about the use of a path, each with its source (web/preferences.py reads them). The most
        specific path decides, of each dialect."""
        lines = [line for rules in self.usage for line in rules.decide(path)[1].split("\n") if line]
        return "\n".join(f"robots.txt: {line}" for line in lines)

    def allows(self, path: str) -> bool:
        """Returns whether this path (with its query) may be fetched."""
        return self._deciding(path)[0] & 1 == 1

    def decide(self, path: str) -> tuple[bool, str]:
        """Returns the same, with the line of the file that decides ("" if none does)."""
        rank, line = self._deciding(path)
        return rank & 1 == 1, _text(line[:_SHOWN])

    def sitemap_urls(self, url: str) -> list[str]:
        """Returns the sitemaps as normal forms; what is relative is relative to `url`, the address of the
        robots.txt."""
        found = (resolve(text, url) for text in self.sitemaps)
        return list(dict.fromkeys(target for target in found if target is not None))

    def _deciding(self, path: str) -> tuple[int, str]:
        if not _NORMAL(path):
            path = _normal(path if path.isascii() else _octets(path))
        rank, line = 1, ""  # allowed, as long as nothing speaks against it
        if path.startswith(self._few):
            plain = self._plain
            for length, highest in self._lengths:
                if highest <= rank:
                    break
                found = plain.get(path[:length])
                if found is not None and found[0] > rank:
                    rank, line = found
        for rule in self._wild:
            if rule[0] <= rank:
                break
            if rule[1] in path and rule.matches(path):
                rank, line = rule.rank, rule.line
                break
        # Section 2.2.2: /robots.txt itself is implicitly allowed.
        return (1, "") if path == "/robots.txt" else (rank, line)


def verdict_of_status(http_status: int) -> str:
    """Returns what the status of an answer for robots.txt means: "rules", "allow_all" or "deny_all".

    Section 2.3.1: 4xx is "unavailable", anything may be fetched; 5xx and no answer are "unreachable", nothing
    may. 429 is a server that asks for less, so it counts as unreachable.
    """
    if 200 <= http_status < 300:
        return "rules"
    return "allow_all" if 400 <= http_status < 500 and http_status != 429 else "deny_all"


def _parse(body: bytes, agent: str) -> Rules:
    ours: list[_Line] = []  # of the groups that name our agent
    anyone: list[_Line] = []  # of the groups for "*"
    delays: list[float] = []
    delays_anyone: list[float] = []
    sitemaps: dict[str, None] = {}
    usage: list[tuple[int, str, str]] = []
    usage_anyone: list[tuple[int, str, str]] = []
    named = starred = False
    # A group begins with user-agent lines and goes on until one follows a rule. Other lines do not end it
    # (section 2.2.4); a crawl-delay, which is not in the RFC, is meant for the agents right above it, and so is a line
    # about use. One above all groups is for everybody.
    for_us = for_all = delay_us = delay_all = False
    after_rule = after_delay = for_someone = False
    for line in _lines(body):
        name, colon, value = line.partition(":")
        kind = _NAMES.get(name) if colon else None  # a name alone is no line of a group
        if kind is None:
            kind, value = _unusual(line)
            if kind is None:
                continue
        if "#" in value:
            value = value[: value.index("#")]
        value = value.strip(_SPACE)
        if value[:1] > "\x7f":
            begin = _ODD_BEGIN(value)
            value = value[begin.end() :] if begin else value
        if kind <= _DISALLOW:
            after_rule = after_delay = True
            if value:
                if for_us:
                    ours.append((kind == _ALLOW, value, line))
                if for_all:
                    anyone.append((kind == _ALLOW, value, line))
        elif kind == _AGENT:
            if after_rule:
                for_us = for_all = after_rule = False
            if after_delay:
                delay_us = delay_all = after_delay = False
            token, for_someone = _token(value), True
            if token == "*":
                for_all = delay_all = starred = True
            elif token == agent and agent:
                for_us = delay_us = named = True
        elif kind == _DELAY:
            after_delay = True
            number = _NUMBER.match(value)
            if number and delay_us:
                delays.append(float(number[1]))
            if number and delay_all:
                delays_anyone.append(float(number[1]))
        elif kind >= _SIGNAL:
            after_delay = True
            is_first = not (named or starred or for_someone)
            if delay_us or is_first:
                usage.append((kind, value, line))
            if delay_all or is_first:
                usage_anyone.append((kind, value, line))
        elif text := _text(value).strip(_ODD_SPACE):
            sitemaps[text] = None
    if named:
        return Rules(_indexes(ours), agent, max(delays, default=None), tuple(sitemaps), _usage(usage))
    longest_s = max(delays_anyone, default=None)
    return Rules(_indexes(anyone), "*" if starred else "", longest_s, tuple(sitemaps), _usage(usage_anyone))


def _usage(lines: list[tuple[int, str, str]]) -> tuple[Rules, ...]:
    """Returns the lines about use as rules that a path decides between: one set for each dialect. Lines of the same
    path apply together."""
    found: dict[int, dict[str, list[str]]] = {}
    for kind, value, line in lines:
        path = _USAGE_PATH(value)
        found.setdefault(kind, {}).setdefault(path[0] if path else "/", []).append(line.partition("#")[0].strip(_SPACE))
    return tuple(
        Rules([(True, path, "\n".join(_refusals_first(lines)[:_TOGETHER])) for path, lines in by_path.items()])
        for by_path in found.values()
    )


def _refusals_first(lines: list[str]) -> list[str]:
    """Returns different lines, those first that say no: however many there are, none of them is lost to one that
    allows."""
    return sorted(dict.fromkeys(lines), key=lambda line: "=n" not in line.lower().replace(" ", ""))


def _lines(body: bytes) -> list[str]:
    """Returns lines as text whose characters are the file's octets; LF, CR or both end them."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        body = body[:LIMIT_BYTES].decode("utf-16", "replace").encode()
    elif body.startswith(b"\xef\xbb\xbf"):
        body = body[3:]
    if len(body) > LIMIT_BYTES:
        # What the limit cuts in two would mean something else: drop it.
        body = body[: max(body.rfind(b"\n", 0, LIMIT_BYTES + 1), body.rfind(b"\r", 0, LIMIT_BYTES + 1), 0)]
    if b"\0" in body:
        body = body.replace(b"\0", b"")  # which also reads UTF-16 without a byte order mark
    if b"\r" in body:
        body = body.replace(b"\r", b"\n")
    return body.decode("latin-1").split("\n")


def _unusual(line: str) -> tuple[int | None, str]:
    """Reads names in unusual spelling or with space around them, and two words without a colon (as Google does)."""
    line = line.partition("#")[0]
    name, colon, value = line.partition(":")
    if colon:
        kind = _NAMES.get(_text(name).strip(_ODD_SPACE).lower())
        if kind is not None:
            return kind, value
    words = _TWO_WORDS(line)
    return (_NAMES.get(words[1].lower()), words[2]) if words else (None, "")


def _token(value: str) -> str:
    """Returns the product token (section 2.2.1) in lower case, without version and comment."""
    value = value.strip(_SPACE).lower()
    if value.startswith("*"):
        return "*" if len(value) == 1 or value[1] in _SPACE else ""
    match = _TOKEN.match(value)
    return match[0] if match else ""


def _indexes(lines: list[_Line]) -> list[_Line]:
    """Adds rules, as every big parser does: who allows a directory's index allows the directory."""
    found = [
        (True, pattern[: pattern.rindex("/") + 1] + "$", line)
        for allow, pattern, line in lines
        if allow and pattern.endswith(("/index.html", "/index.htm"))
    ]
    return lines + found if found else lines


def _by_length(plain: dict[str, tuple[int, str]]) -> list[tuple[int, int]]:
    """Returns the lengths of prefixes, longest first, each with the highest rank of its length and shorter ones.

    The longest prefix need not rank highest: `/*` is the prefix `/`, yet as long as `/x`.
    """
    highest: dict[int, int] = {}
    for prefix, (rank, _) in plain.items():
        highest[len(prefix)] = max(highest.get(len(prefix), 0), rank)
    found, so_far = [], 0
    for length in sorted(highest):
        so_far = max(so_far, highest[length])
        found.append((length, so_far))
    return found[::-1]


def _wild(allow: bool, pattern: str, line: str) -> _Wild:
    anchored = pattern.endswith("$")
    text = pattern[:-1] if anchored else pattern
    head, *pieces = text.split("*") if _STARRED(text) else [_normal(piece) for piece in text.split("*")]
    length = len(head) + sum(map(len, pieces)) + len(pieces) + anchored
    if pieces and not pieces[-1]:
        anchored = False  # `*$` ends anywhere
    pieces = [piece for piece in pieces if piece]
    needle = max([head, *pieces], key=len)
    return _Wild(2 * length + allow, needle, head, tuple(pieces), anchored, line)


def _normal(text: str) -> str:
    """Returns octets as section 2.2.2 compares them: unreserved ones plain, others that need it percent-encoded."""
    return _ODD.sub(_octet, text)


def _octet(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) == 1:
        return f"%{ord(text):02X}"
    char = chr(int(text[1:], 16))
    return char if char in _LITERAL else text.upper()


def _octets(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _text(octets: str) -> str:
    return octets.strip(_SPACE).encode("latin-1").decode("utf-8", "replace")

"""This module extracts from an HTML page what a crawler needs: its links, and its directives for robots.

What counts as a link: where a reader may go from here. That is the href of `a` and `area` (and xlink:href
of an `a` in an image), the src of `frame` and `iframe`, and `link` elements that name a page: alternate (but
no style sheet), canonical, next, prev. Not images, style sheets, scripts or media; never forms. Links in
`noscript` count, as we run no scripts, but a base or refresh there does not. Comments and templates hold no
links, but for templates that are shadow trees (`shadowrootmode`): what is in these is on the page. The document
in the srcdoc of an `iframe` has a base, refresh and robots directives of its own. "#section" is no link.

rel=nofollow, ugc and sponsored mark single links; robots directives for everyone or for us, in meta elements
and X-Robots-Tag headers, mark all of them. Where several speak, the most restrictive wins. The canonical link
is a hint and one link among others: it hides nothing.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from msgspec import Struct

from gossamer.web.charset import declared_charset, decode, encode
from gossamer.web.charset import table as charset_table
from gossamer.web.links import Links, Listed
from gossamer.web.preferences import directives, has_rules, header_directives
from gossamer.web.text import text_of
from gossamer.web.tokens import FOLLOW, Hrefs, Tokens
from gossamer.web.url import resolve, resolve_all, whatwg

try:
    from gossamer.web._scan import scan
except ImportError:  # not built on this machine: the tree gives the same, only slower
    scan = None

__all__ = ["Document", "parse_html", "scan", "text_of", "tokenise"]


def _scanned(body: bytes, charset: str, agent: str, max_links: int) -> Tokens:
    table = charset_table(charset)
    if not table and charset != "utf-8":
        body = decode(body, charset).encode()
    tokens: Tokens = scan(body, table, agent, max_links)
    return tokens


def _by_tree(body: bytes, charset: str, agent: str, max_links: int, anchors: bool = False) -> Tokens:
    from gossamer.web import tree  # selectolax: whoever has the scanner, and no topic, need not wait for it

    return tree.tokenise(body, charset, agent, max_links, anchors)


# The tokens of a page, unresolved: (body, charset, our product token in lower case, most links) -> Tokens.
tokenise: Callable[[bytes, str, str, int], Tokens] = _by_tree if scan is None else _scanned

_MEMO_CHARACTERS = 65_536  # of one encoding
REFRESH_S = 100.0  # a page that moves on later than this is meant to be read

# https://html.spec.whatwg.org/#shared-declarative-refresh-steps, with fractions of a second kept. Nothing is tried
# twice: a page may have a million digits there.
_LONGEST_BASE = 4096  # one that every link would repeat
_DEEPEST_FRAME = 4  # of documents in srcdoc attributes of documents in srcdoc attributes
_REFRESH = re.compile(
    r"""[\t\n\f\r ]*+([0-9]++(?:\.[0-9]*+)?|\.[0-9]*+)[0-9.]*+(?:[\t\n\f\r ]*+[;,]|[\t\n\f\r ])[\t\n\f\r ]*+"""
    r"""(?:url[\t\n\f\r ]*+=[\t\n\f\r ]*+)?(?:"([^"]*)|'([^']*)|(.*))""",
    re.IGNORECASE | re.DOTALL,
)
_SENT_AS_UTF8 = frozenset(["utf-8", "utf-16be", "utf-16le", "replacement", "x-user-defined"])
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_DIRECTIVES_CHARS = 4096  # of a robots directive that are read
_METAS = 8  # of a page that are kept
_NOINDEX, _NOFOLLOW = frozenset(["noindex", "none"]), frozenset(["nofollow", "none"])
_NO_WORDS: frozenset[str] = frozenset()


class Document(Struct, gc=False):
    """The links, metadata and directives of a page."""

    charset: str
    title: str
    language: str
    canonical: str  # absolute and normalised; "" if none
    noindex: bool
    nofollow: bool
    targets: Links  # distinct, in document order; first those that are not only there with rel=nofollow or the like
    refresh: tuple[float, str] | None  # seconds, target
    base: str  # what references are relative to
    anchors: dict[str, str]  # by link, what a reader clicks on; only if asked for
    robots: tuple[str, ...] = ()  # contents of meta elements for robots, if they say how the page may be used
    reservation: str = ""  # content of the meta element tdm-reservation

    @property
    def followed(self) -> int:
        """Returns how many of the targets come first that may be followed."""
        return 0 if self.nofollow else self.targets.followed

    @property
    def links(self) -> list[str]:
        """Returns the links that may be followed."""
        return list(self.targets)[: self.followed]

    @property
    def nofollow_links(self) -> list[str]:
        return list(self.targets)[self.followed :]


def parse_html(
    body: bytes,
    url: str,
    content_type: str = "",
    robots_tags: Sequence[str] = (),
    agent: str = "gossamer",
    max_links: int = 10_000,
    refresh: str = "",
    anchors: bool = False,
) -> Document:
    """Reads the page at `url`. `robots_tags` are X-Robots-Tag headers, `refresh` is the Refresh header.

    `anchors`: with the texts of the links, which takes a tree and several times as long.
    """
    charset = declared_charset(body, content_type)
    agent = agent.lower()
    read = partial(_by_tree, anchors=True) if anchors else tokenise
    tokens = read(body, charset, agent, max_links)
    base = _base(tokens.base, url, charset) or url
    words = _directives(tokens.robots, robots_tags, agent)
    moves = _refresh(refresh or tokens.refresh, base, charset)
    texts = _anchors(tokens.anchors, base, charset)
    first = moves[1] if moves and moves[0] <= REFRESH_S and moves[1] != url else None
    if tokens.frames or isinstance(tokens.hrefs, dict):
        follow, avoid = _split(tokens.hrefs, base, url, charset)
        if first is not None:
            follow.insert(0, first)
        frames = _Frames(read, agent, url, max_links - len(tokens.hrefs), follow, avoid, texts)
        frames.add(tokens.frames, base)
        targets: Links = Listed(list(dict.fromkeys([*follow, *avoid])), len(set(follow)))
    else:
        targets = tokens.hrefs.resolved(base, base == url, partial(_resolved, base, charset), first)
    return Document(
        charset=charset,
        title=tokens.title,
        language=tokens.language,
        canonical="" if tokens.canonical is None else resolve(_in_charset(tokens.canonical, charset), base) or "",
        noindex=not _NOINDEX.isdisjoint(words),
        nofollow=not _NOFOLLOW.isdisjoint(words),
        targets=targets,
        refresh=moves,
        base=base,
        anchors=texts,
        robots=tuple(text[:_DIRECTIVES_CHARS] for text in tokens.robots[:_METAS])
        if tokens.robots and has_rules(words)
        else (),
        reservation=tokens.reservation,
    )


class _Frames(Struct):
    """Adds the links of documents in srcdoc attributes to those of their page."""

    read: Callable[[bytes, str, str, int], Tokens]
    agent: str
    url: str  # of the page
    room: int  # links that may still be added
    follow: list[str]
    avoid: list[str]
    texts: dict[str, str]

    def add(self, documents: list[str], fallback: str, depth: int = 1) -> None:
        """`fallback`: the base of the document around them, which a base element of theirs is relative to."""
        for document in documents:
            if self.room <= 0:
                return
            tokens = self.read(document.encode("utf-8", "replace"), "utf-8", self.agent, self.room)
            base = _base(tokens.base, fallback, "utf-8") or fallback
            follow, avoid = _split(tokens.hrefs, base, self.url, "utf-8")
            moves = _refresh(tokens.refresh, base, "utf-8")
            if moves and moves[0] <= REFRESH_S and moves[1] != self.url and len(tokens.hrefs) < self.room:
                follow.append(moves[1])
            self.room -= len(follow) + len(avoid)
            words = _directives(tokens.robots, (), self.agent)
            (self.follow if _NOFOLLOW.isdisjoint(words) else self.avoid).extend(follow)
            self.avoid.extend(avoid)
            for link, text in _anchors(tokens.anchors, base, "utf-8").items():
                self.texts.setdefault(link, text)
            if depth < _DEEPEST_FRAME:
                self.add(tokens.frames, base, depth + 1)


def _base(href: str | None, url: str, charset: str) -> str | None:
    """Returns the base URL of a base element, if it may be used."""
    base = whatwg(_in_charset(href, charset), url) if href else None
    if base is None or base.startswith(("data:", "javascript:")) or len(base) > _LONGEST_BASE:
        return None
    return base


def _split(hrefs: Hrefs, base: str, url: str, charset: str) -> tuple[list[str], list[str]]:
    """Returns the links to follow, and those that are marked."""
    is_own = base == url  # then "#section" leads nowhere else
    pairs = [(_in_charset(href, charset), flags) for href, flags in hrefs.items() if href or not is_own]
    followed = [href for href, flags in pairs if flags & FOLLOW]
    marked = [href for href, flags in pairs if not flags & FOLLOW]
    return resolve_all(followed, base), resolve_all(marked, base)


def _resolved(base: str, charset: str, href: str) -> str | None:
    return resolve(_in_charset(href, charset), base)


def _anchors(texts: dict[str, str], base: str, charset: str) -> dict[str, str]:
    """Returns texts by link; where several references mean the same page, the longest counts."""
    found: dict[str, str] = {}
    for href, text in texts.items():
        link = resolve(_in_charset(href, charset), base)
        if link and len(text) > len(found.get(link, "")):
            found[link] = text
    return found


def _in_charset(href: str, charset: str) -> str:
    """Queries are sent in the page's encoding, everything else in UTF-8 (the URL standard's query state)."""
    path, mark, query = href.partition("?")
    if query.isascii() or charset in _SENT_AS_UTF8:
        return href
    if charset == "iso-2022-jp":
        return path + mark + _NOT_ASCII.sub(lambda run: _run(run[0], charset), query)
    return path + mark + query.translate(_escapes(charset))


class _Escapes(dict[int, str]):
    """How each character is sent is computed once: pages of megabytes may consist of nothing else."""

    def __init__(self, charset: str) -> None:
        self._charset = charset

    def __missing__(self, code: int) -> str:
        if len(self) >= _MEMO_CHARACTERS:
            self.clear()
        self[code] = found = chr(code) if code < 0x80 else _percent(chr(code), self._charset)
        return found


_escapes = lru_cache(maxsize=8)(_Escapes)


def _run(text: str, charset: str) -> str:
    """Encodes characters that share escape sequences, or else each for itself."""
    return _percent(text, charset) if encode(text, charset) else "".join(_percent(char, charset) for char in text)


def _percent(text: str, charset: str) -> str:
    sent = encode(text, charset)
    return f"%26%23{ord(text)}%3B" if sent is None else "".join(f"%{byte:02X}" for byte in sent)


def _directives(metas: Sequence[str], headers: Sequence[str], agent: str) -> frozenset[str]:
    """Returns the words of all robots directives of a page."""
    if not metas and not headers:
        return _NO_WORDS
    found = [directives(content[:_DIRECTIVES_CHARS]) for content in metas]
    found += [header_directives(value[:_DIRECTIVES_CHARS], agent) for value in headers]
    return found[0] if len(found) == 1 else frozenset().union(*found)


def _refresh(content: str | None, base: str, charset: str) -> tuple[float, str] | None:
    found = _REFRESH.match(content) if content else None
    if not found:
        return None
    target = found[2] or found[3] or found[4]
    resolved = resolve(_in_charset(target, charset), base) if target else None
    seconds = float(found[1]) if found[1] != "." else 0.0
    return (seconds, resolved) if resolved else None

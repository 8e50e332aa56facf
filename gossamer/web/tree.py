"""This module reads a page through a DOM tree: for anchor texts, and for links where the scanner is not built."""

import re
from dataclasses import dataclass
from functools import partial

from selectolax.lexbor import LexborHTMLParser, LexborNode

from gossamer.web.charset import decode
from gossamer.web.text import MARKUP
from gossamer.web.tokens import (
    FOLLOW,
    LANGUAGE_CHARS,
    NOFOLLOW,
    REFERENCE_CHARS,
    RESERVATION_CHARS,
    Tokens,
    reference,
    title,
)

_WANTED = "a,area,base,frame,iframe,link,meta,template[shadowrootmode]"
_SHADOW_MODES = ("open", "closed")
_DEEPEST_SHADOW = 8  # each is read through a tree of its own
_LINK_RELATIONS = frozenset(["alternate", "canonical", "next", "prev"])
_NOFOLLOW = frozenset(["nofollow", "sponsored", "ugc"])

_TITLES = 20  # of which all but the last may belong to images
ANCHOR_CHARS = 500  # of all links of a page to the same place

# The library takes time that grows with the square of the depth of a tree, and of the attributes of a tag.
_TAG = re.compile(r"<(/?)([a-z][^\s/>]*)", re.IGNORECASE)
_NEEDED = frozenset((
    "a", "area", "base", "body", "frame", "frameset", "head", "html", "iframe", "link", "math", "meta", "noembed",
    "noframes", "noscript", "plaintext", "script", "style", "svg", "template", "textarea", "title", "xmp",
))  # fmt: skip
_NOT_NESTED = frozenset((
    "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta", "option", "p",
    "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr",
))  # fmt: skip
_FEW_TAGS = 1_000
_DEEP = 64
_INNERMOST = 8  # elements that one end tag may end
_WRONG = 1_000  # end tags that do not end the innermost element
_LONG_TAG = REFERENCE_CHARS + 4_000


def tokenise(body: bytes, charset: str, agent: str, max_links: int, anchors: bool = False) -> Tokens:
    """Reads a page through a tree. `agent` is our product token in lower case."""
    markup = bounded(decode(body, charset))
    parser = LexborHTMLParser(markup)
    hrefs: dict[str, int] = {}
    tokens = Tokens(hrefs=hrefs)
    # Hostile links nest, and each has the text of all inside it.
    collector = _Collector(tokens, hrefs, agent, max_links, len(markup) if anchors else 0)
    collector.collect(parser)
    if (tokens.base is not None or tokens.refresh is not None) and b"<noscript" in body.lower():
        _outside_noscript(tokens, markup, agent)
    tokens.title = _title(parser)
    root = parser.root
    attributes = root.attributes if root else {}
    tokens.language = (attributes.get("lang") or attributes.get("xml:lang") or "")[:LANGUAGE_CHARS]
    return tokens


@dataclass(slots=True)
class _Collector:
    """Fills the Tokens of a page from its tree and the shadow trees in it."""

    tokens: Tokens
    hrefs: dict[str, int]  # of the tokens
    agent: str
    max_links: int
    room: int  # characters of markup that may still be read for texts of links

    def collect(self, parser: LexborHTMLParser, shadows: int = 0) -> None:
        tokens = self.tokens
        for node in parser.css(_WANTED):
            tag, attributes = node.tag, node.attributes
            if tag == "meta":
                _meta(tokens, attributes, self.agent, is_own=not shadows)
            elif tag == "base":
                if not shadows and tokens.base is None and "href" in attributes:
                    tokens.base = attributes["href"] or ""
            elif tag == "template":
                if shadows < _DEEPEST_SHADOW and (attributes["shadowrootmode"] or "").lower() in _SHADOW_MODES:
                    self.collect(LexborHTMLParser(content_of(node)), shadows + 1)
            else:
                self._reference(node, str(tag), attributes)

    def _reference(self, node: LexborNode, tag: str, attributes: dict[str, str | None]) -> None:
        if tag == "iframe" and attributes.get("srcdoc") and len(self.tokens.frames) < self.max_links:
            self.tokens.frames.append(attributes["srcdoc"] or "")
        if len(self.hrefs) < self.max_links:
            href = _link(self.tokens, self.hrefs, tag, attributes)
            if href is not None and self.room > 0:
                self.room -= _anchor(self.tokens, href, node)


def content_of(template: LexborNode) -> str:
    """Returns the markup in a template, which the tree keeps apart from the page's."""
    markup = template.html or ""
    start = MARKUP.match(markup)
    return markup[start.end() : -len("</template>")] if start else ""


class Nesting:
    """`Nesting` finds out whether elements may be nested too deep for a tree. An end tag counts if it ends one of the
    innermost elements; many that do not are suspicious, too: a parser ignores them."""

    __slots__ = ("_deepest", "_open", "_wrong")

    def __init__(self, deepest: int) -> None:
        self._deepest, self._open, self._wrong = deepest, list[str](), 0

    def add(self, is_end: bool, name: str) -> None:
        if not is_end:
            self._open.append(name)
        elif self._open and self._open[-1] == name:
            self._open.pop()
        else:
            self._wrong += 1
            inner = self._open[-_INNERMOST:]
            if name in inner:
                del self._open[len(self._open) - len(inner) + inner.index(name) :]

    @property
    def is_deep(self) -> bool:
        return len(self._open) > self._deepest or self._wrong > _WRONG


def bounded(markup: str, more: frozenset[str] = frozenset()) -> str:
    """Returns the page, or if it is suspiciously deep or long only what matters for links, and tags of these names:
    that takes linear time."""
    if len(markup) < _LONG_TAG and markup.count("<") < _FEW_TAGS:
        return markup
    needed, nesting, last = partial(_needed, _NEEDED | more), Nesting(_DEEP), 0
    for tag in _TAG.finditer(markup):
        if tag[2].lower() not in _NOT_NESTED:
            nesting.add(bool(tag[1]), tag[2].lower())
        if nesting.is_deep or tag.start() - last > _LONG_TAG:
            return MARKUP.sub(needed, markup)
        last = tag.start()
    return MARKUP.sub(needed, markup) if len(markup) - last > _LONG_TAG else markup


def _needed(names: frozenset[str], tag: re.Match[str]) -> str:
    name = (tag[1] or "").lower().removeprefix("/")
    return tag[0] if name in names and tag.end() - tag.start() < _LONG_TAG else ""


def _link(tokens: Tokens, hrefs: dict[str, int], tag: str, attributes: dict[str, str | None]) -> str | None:
    """Returns the reference, if it is a link."""
    if tag in ("frame", "iframe"):
        if "src" not in attributes:
            return None
        value = attributes["src"]
    elif "href" in attributes:
        value = attributes["href"]
    elif "xlink:href" in attributes and tag == "a":
        value = attributes["xlink:href"]
    else:
        return None
    relations = (attributes.get("rel") or "").lower().split()
    if tag == "link" and ("stylesheet" in relations or _LINK_RELATIONS.isdisjoint(relations)):
        return None
    href = reference(value or "")
    if href is None:
        return None
    if tag == "link" and tokens.canonical is None and "canonical" in relations:
        tokens.canonical = href
    flag = FOLLOW if _NOFOLLOW.isdisjoint(relations) else NOFOLLOW
    hrefs[href] = hrefs.get(href, 0) | flag
    return href


def _anchor(tokens: Tokens, href: str, node: LexborNode) -> int:
    """Keeps what a reader sees of a link: text, or what stands for an image. Returns how much markup was read."""
    own, images = node.attributes, node.css("img")
    shown = [own.get("title"), own.get("alt"), *(image.attributes.get("alt") for image in images)]
    parts = (tokens.anchors.get(href), node.text(deep=True, separator=" "), *shown)
    found = " ".join(" ".join(filter(None, parts)).split())
    if found:
        tokens.anchors[href] = found[:ANCHOR_CHARS]
    return len(node.html or "") + 1


def _meta(tokens: Tokens, attributes: dict[str, str | None], agent: str, is_own: bool = True) -> None:
    """Takes a meta element. `is_own`: it is of the document itself, not of a shadow tree in it."""
    content = attributes.get("content")
    if not content:
        return
    name = (attributes.get("name") or "").strip().lower()
    if name in ("robots", agent):
        tokens.robots.append(content)
    elif name == "tdm-reservation":
        tokens.reservation = tokens.reservation or content[:RESERVATION_CHARS]
    if is_own and tokens.refresh is None and (attributes.get("http-equiv") or "").lower() == "refresh":
        tokens.refresh = content


def _outside_noscript(tokens: Tokens, markup: str, agent: str) -> None:
    """Ignores a base or refresh in noscript: links there are ours to follow, but these lead us astray."""
    tokens.base = tokens.refresh = None
    seen = Tokens()
    for node in LexborHTMLParser(markup, scripting=True).css("base,meta"):
        if node.tag == "meta":
            _meta(seen, node.attributes, agent)
        elif tokens.base is None and "href" in node.attributes:
            tokens.base = node.attributes["href"] or ""
    tokens.refresh = seen.refresh


def _title(parser: LexborHTMLParser) -> str:
    for node in parser.css("title")[:_TITLES]:
        if not _is_drawn(node):
            return title(node.text())
    return ""


def _is_drawn(node: LexborNode) -> bool:
    """Returns whether a title is in an image, where titles are tooltips, or in a formula."""
    parent = node.parent
    while parent is not None and parent.tag not in ("svg", "math"):
        parent = parent.parent
    return parent is not None

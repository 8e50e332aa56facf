"""This module finds requisites: what a page, or a style sheet, needs to be shown, and what each of them is.

On a page these are images (`img` with srcset, `picture`, `input`, poster, background, images in SVG), style sheets
(`link`, and what `style` elements and style attributes refer to), scripts, fonts, audio, video, tracks, `object`,
`embed`, icons and the manifest, also in `noscript` and in shadow trees. A style sheet needs what its @import and url()
refer to. Links to other pages, frames included, are not requisites: `web/html.py` has them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from mimetypes import guess_type

from selectolax.lexbor import LexborHTMLParser, LexborNode

from gossamer.web import tree
from gossamer.web.charset import decode
from gossamer.web.links import KINDS
from gossamer.web.tokens import reference
from gossamer.web.url import resolve

CODE = {name: code for code, name in enumerate(KINDS)}

_WANTED = (
    "img,source,link,script[src],style,video,audio,track,object,embed,input,image,use,template[shadowrootmode],"
    "[style],[background]"
)
_NEEDED = frozenset((
    "img", "source", "picture", "link", "script", "style", "video", "audio", "track", "object", "embed", "input",
    "image", "use",
))  # fmt: skip
_RELATIONS = {"stylesheet": "style", "icon": "icon", "manifest": "manifest", "modulepreload": "script"}
_ICONS = ("apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon")
_PRELOADED = {"image": "image", "style": "style", "script": "script", "font": "font", "track": "track"}
# Elements that name what they show in one attribute: which, and what it is.
_SHOWN = {
    "img": ("src", "image"),
    "script": ("src", "script"),
    "video": ("src", "video"),
    "audio": ("src", "audio"),
    "track": ("src", "track"),
    "object": ("data", "object"),
    "embed": ("src", "object"),
}
_SOURCES = {"video": "video", "audio": "audio", "picture": "image"}
_DEEPEST_SHADOW = 8
_CANDIDATE = re.compile(r"[\s,]*+(\S++)")

_STRING = r""""((?:[^"\\\n]|\\.)*+)"?|'((?:[^'\\\n]|\\.)*+)'?"""
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_REFERENCE = re.compile(
    rf"(@font-face\s*+\{{)|(\}})|(?:(@import)\s++)?url\(\s*+(?:{_STRING}|((?:[^)\s\"'\\]|\\[0-9a-fA-F]{{1,6}}\s?|\\.)*+))|@import\s*+(?:{_STRING})",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_FONTS = (".woff2", ".woff", ".ttf", ".otf", ".eot")


def of_page(body: bytes, charset: str, base: str, most: int) -> dict[str, int]:
    """Returns the requisites of a page, at most so many: URL in normal form, and the code of its kind."""
    found = _Found(base, most)
    _collect(LexborHTMLParser(tree.bounded(decode(body, charset), _NEEDED)), found)
    return found.kinds


def of_style_sheet(body: bytes, charset: str, base: str, most: int) -> dict[str, int]:
    """Returns the requisites of a style sheet, as `of_page` does."""
    found = _Found(base, most)
    found.add_css(decode(body, charset))
    return found.kinds


def is_of_type(url: str, kind: int, types: Sequence[str]) -> bool:
    """Returns whether what a page embeds is of one of these types, by the name of its file, or by its element."""
    mime = guess_type(url.partition("?")[0])[0] or f"{KINDS[kind]}/*"
    return mime in types or f"{mime.partition('/')[0]}/*" in types


@dataclass(slots=True)
class _Found:
    """Gathers references: each URL once, with the first kind that it had."""

    base: str
    most: int
    kinds: dict[str, int] = field(default_factory=dict)

    def add(self, value: str | None, kind: str) -> None:
        href = reference(value) if value and len(self.kinds) < self.most else None
        url = resolve(href, self.base) if href else None
        if url:
            self.kinds.setdefault(url, CODE[kind])

    def add_css(self, text: str) -> None:
        for value, kind in _of_css(text):
            self.add(value, kind)

    def add_srcset(self, value: str | None) -> None:
        for url in _of_srcset(value or ""):
            self.add(url, "image")


def _collect(parser: LexborHTMLParser, found: _Found, shadows: int = 0) -> None:
    for node in parser.css(_WANTED):
        tag, attributes = node.tag, node.attributes
        if tag == "template":
            if shadows < _DEEPEST_SHADOW:
                _collect(LexborHTMLParser(tree.content_of(node)), found, shadows + 1)
            continue
        if attributes.get("style"):
            found.add_css(attributes["style"] or "")
        found.add(attributes.get("background"), "image")
        _element(node, str(tag), attributes, found)


def _element(node: LexborNode, tag: str, attributes: dict[str, str | None], found: _Found) -> None:
    if tag in _SHOWN:
        name, kind = _SHOWN[tag]
        found.add(attributes.get(name), kind)
    if tag in ("img", "source"):
        if tag == "source":
            parent = node.parent.tag if node.parent else ""
            found.add(attributes.get("src"), _SOURCES.get(str(parent), "video"))
        found.add_srcset(attributes.get("srcset"))
    elif tag == "link":
        _link(attributes, found)
    elif tag == "style":
        found.add_css(node.text(deep=True))
    elif tag in ("video", "audio"):
        found.add(attributes.get("poster"), "image")
    elif tag == "input" and (attributes.get("type") or "").lower() == "image":
        found.add(attributes.get("src"), "image")
    elif tag in ("image", "use"):
        found.add(attributes.get("href") or attributes.get("xlink:href"), "image")


def _link(attributes: dict[str, str | None], found: _Found) -> None:
    href = attributes.get("href")
    relations = (attributes.get("rel") or "").lower().split()
    for relation in relations:
        if relation in _RELATIONS:
            found.add(href, _RELATIONS[relation])
        elif relation in _ICONS:
            found.add(href, "icon")
        elif relation == "preload":
            kind = _PRELOADED.get((attributes.get("as") or "").lower())
            if kind:
                found.add(href, kind)
                found.add_srcset(attributes.get("imagesrcset"))


def _of_srcset(value: str) -> Iterator[str]:
    """Yields the URLs of a srcset attribute: each ends at white space, and what describes it at a comma."""
    at = 0
    while candidate := _CANDIDATE.match(value, at):
        url, at = candidate[1], candidate.end()
        if not url.endswith(","):
            comma = value.find(",", at)
            at = comma if comma >= 0 else len(value)
        yield url.rstrip(",")


def _of_css(text: str) -> Iterator[tuple[str, str]]:
    """Yields references and their kinds. What looks like one in a string counts too: that is rare, and harmless."""
    in_font = False
    for match in _REFERENCE.finditer(_COMMENT.sub(" ", text)):
        if match[1] or match[2]:
            in_font = bool(match[1])
            continue
        value = next((part for part in match.group(4, 5, 6, 7, 8) if part), "")
        is_style = bool(match[3]) or match[0][:7].lower() == "@import"
        value = _ESCAPE.sub(_unescaped, value) if "\\" in value else value
        is_font = in_font or value.partition("?")[0].lower().endswith(_FONTS)
        yield value, "style" if is_style else "font" if is_font else "image"


def _unescaped(match: re.Match[str]) -> str:
    if not match[1]:
        return match[2] if match[2] != "\n" else ""
    code = int(match[1], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "�"

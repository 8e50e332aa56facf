"""The only module that turns a page into readable text.

One pass of regular expressions that never go back: building a tree takes quadratic time on deeply nested
markup, and pages that are read for their text are no friendlier than others.
"""

import re

from gossamer.web.charset import declared_charset, decode
from gossamer.web.tokens import unescape_text

# A tag, comment or declaration, or what is left of one at the end of the page: so each byte is read once.
MARKUP = re.compile(
    r"""<(?:!--(?:-?>|.*?(?:--!?>|\Z))"""
    r"""|(/?[a-zA-Z][^\s/>]*)(?>[^>"']+|(?<==)"[^"]*(?:"|\Z)|(?<==)'[^']*(?:'|\Z)|["'])*(?:>|\Z)"""
    r"""|[!/?][^>]*(?:>|\Z))""",
    re.DOTALL,
)
_SPACE = re.compile(r"\s+")
_UNREAD = {
    tag: re.compile(rf"</{tag}(?=[\s/>])|\Z", re.IGNORECASE)
    for tag in ("iframe", "noembed", "noframes", "script", "style", "template", "textarea", "title")
}
_CELLS = frozenset(["td", "th"])
_BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "br", "button", "caption", "center", "dd", "details",
    "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frameset",
    "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "legend", "li", "main",
    "menu", "nav", "ol", "optgroup", "option", "p", "pre", "search", "section", "select", "summary", "table",
    "tbody", "tfoot", "thead", "tr", "ul", *_UNREAD,
))  # fmt: skip


def text_of(body: bytes, content_type: str = "") -> str:
    """One line per block, white space folded, without scripts, styles and title; "" for what is not text."""
    mime = content_type.partition(";")[0].strip().lower()
    is_markup = mime == "" or "html" in mime or mime.endswith("xml")
    if not is_markup and not mime.startswith("text/"):
        return ""
    text = decode(body, declared_charset(body, content_type))
    if not is_markup:
        return text.strip()
    lines = (" ".join(line.split()) for line in "".join(_pieces(text)).split("\n"))
    return "\n".join(line for line in lines if line)


def _pieces(markup: str) -> list[str]:
    """The texts between tags, with line ends at the borders of blocks."""
    pieces: list[str] = []
    at = 0
    while found := MARKUP.search(markup, at):
        if found.start() > at:
            pieces.append(_SPACE.sub(" ", unescape_text(markup[at : found.start()])))
        at = found.end()
        tag = (found[1] or "").lower()
        name = tag.removeprefix("/")
        pieces.append("\n" if name in _BLOCKS else " " if name in _CELLS else "")
        if tag in _UNREAD:
            end = _UNREAD[tag].search(markup, at)
            at = end.start() if end else len(markup)
    pieces.append(_SPACE.sub(" ", unescape_text(markup[at:])))
    return pieces

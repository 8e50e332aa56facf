"""This module turns a page into readable text.

It is one pass of regular expressions that never go back: building a tree takes quadratic time on deeply nested
markup, and pages that are read for their text are no friendlier than others.
"""

import re
from collections.abc import Iterator

from gossamer.web.charset import declared_charset, decode
from gossamer.web.sniff import UNKNOWN
from gossamer.web.tokens import unescape_text

_UNREAD = ("iframe", "noembed", "noframes", "script", "style", "template", "textarea", "title")
_CELLS = ("td", "th")
_BLOCKS = (
    "address", "article", "aside", "blockquote", "body", "br", "button", "caption", "center", "dd", "details",
    "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frameset",
    "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "legend", "li", "listing", "main",
    "menu", "nav", "ol", "optgroup", "option", "p", "plaintext", "pre", "search", "section", "select", "summary",
    "table", "tbody", "tfoot", "thead", "tr", "ul", "xmp", *_UNREAD,
)  # fmt: skip
_OTHERS = ("a", "b", "code", "em", "i", "img", "input", "label", "link", "meta", "small", "span", "strong", "sup", "tt")

_AS_WRITTEN = ("listing", "plaintext", "pre", "xmp")  # here line ends and indentation count
_HAS_SUCH = re.compile(rf"<(?:{'|'.join(_AS_WRITTEN)})[\s/>]", re.IGNORECASE)
# Noncharacters, which no text may contain: one begins a line that stays as it is, one ends it where the text itself
# has a line end. What ends at the border of a block is no line if it is empty.
_VERBATIM, _ENDED = "\ufdd0", "\ufdd1"
_LINE_END, _BORDER = f"{_ENDED}\n{_VERBATIM}", f"\n{_VERBATIM}"

# The rest of a tag. Most have no quotes: then the loop is not begun.
_REST = r"""[^>"']*+(?:>|(?:(?:(?<==)(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))|["'])[^>"']*+)*+(?:>|\Z))"""
_OTHER = r"""|!--(?:-?>|.*?(?:--!?>|\Z))|[!/?][^>]*+(?:>|\Z)"""
# A tag, comment or declaration, or what is left of one at the end of the page: so each byte is read once.
MARKUP = re.compile(rf"<(?:(/?[a-zA-Z][^\s/>]*+){_REST}{_OTHER})", re.DOTALL)
# A template that is a shadow tree is on the page.
_NAMES = "|".join(_UNREAD).replace("template", r"template(?=[\s/>])(?![^>]*?\sshadowrootmode\s*=)")
# The same, and with its tag whatever is in an element that nobody reads.
_SKIPPED = re.compile(
    rf"<(?:((?=[instINST])((?ai:{_NAMES}))(?=[\s/>]|\Z)|/?[a-zA-Z][^\s/>]*+){_REST}"
    rf"(?(2)(?>[^<]+|<(?!/(?i:\2)[\s/>]))*){_OTHER})",
    re.DOTALL,
)


# Elements that an end tag closes, and what hides them. A value in quotes may have any word.
_CLOSED = frozenset(
    re.findall(
        r"\w+",
        "a article aside b button center details dialog div dl em fieldset figure footer form h1 h2 h3 h4 h5 h6 header"
        " i label main menu nav ol pre search section small span strong table ul",
    )
)
_MAY_HIDE = re.compile(r"\shidden[\s=/>]|display\s{0,9}:\s{0,9}none", re.IGNORECASE)
_STYLED = re.compile(r"""\sstyle\s*+=\s*+["'][^"']*?display\s*+:\s*+none""", re.IGNORECASE)
_HIDDEN = re.compile(r"\shidden(?=[\s=/>])", re.IGNORECASE)
_QUOTED = re.compile(r"\"[^\"]*+\"|'[^']*+'")


class _Breaks(dict[str | None, str]):
    """The text that stands for a tag. Usual spellings are keys; other spellings are looked up in lower case."""

    def __missing__(self, tag: str) -> str:
        return self.get(tag.lower(), "")


_BREAKS = _Breaks({None: ""})
for _names, _break in ((_BLOCKS, "\n"), (_CELLS, " "), (_OTHERS, "")):
    _BREAKS.update((f"{slash}{name}", _break) for name in _names for slash in ("", "/"))


def text_of(body: bytes, content_type: str = "") -> str:
    """Returns one line per block, white space folded, without scripts, styles and title; "" for what is not text.

    What is in a `pre` keeps its line ends and indentation.
    """
    mime = content_type.partition(";")[0].strip().lower()
    is_markup = mime in UNKNOWN or "html" in mime or mime.endswith("xml")
    if not is_markup and not mime.startswith("text/"):
        return ""
    text = decode(body, declared_charset(body, content_type))
    if not is_markup:
        return text.strip()
    if _MAY_HIDE.search(text):
        text = _shown(text)
    if _HAS_SUCH.search(text):
        return _with_verbatim(text)
    lines = "".join(_pieces(text.replace("\n", " "))).split("\n")
    return "\n".join([" ".join(words) for line in lines if (words := line.split())])


def _shown(markup: str) -> str:
    """Returns the markup without elements that are hidden by an attribute; one that is never closed stays."""
    kept, place, name, depth, start = list[str](), 0, "", 0, 0
    for match in _SKIPPED.finditer(markup):
        tag = (match[1] or "").lower()
        if name:
            depth += (tag == name) - (tag == f"/{name}")
            if not depth:
                kept.append(markup[place:start])
                place, name = match.end(), ""
        elif tag in _CLOSED and _is_hidden(match[0]):
            name, depth, start = tag, 1, match.start()
    return "".join([*kept, markup[place:]]) if kept else markup


def _is_hidden(tag: str) -> bool:
    return bool(_STYLED.search(tag) or _HIDDEN.search(_QUOTED.sub('""', tag)))


def _pieces(markup: str) -> list[str]:
    """Returns the texts between tags, with line ends at the borders of blocks: text, break, text, ..., text."""
    pieces = _split(markup)
    pieces[1::2] = [_BREAKS[tag] for tag in pieces[1::2]]
    if "&" in markup:
        pieces[::2] = [unescape_text(text).replace("\n", " ") if "&" in text else text for text in pieces[::2]]
    return pieces


def _split(markup: str) -> list[str]:
    """Returns text, tag, text, tag, ..., text. It is a list, because a page has thousands of tags."""
    pieces = _SKIPPED.split(markup)
    del pieces[2::3]  # the name of an unread element once more
    return pieces


def _with_verbatim(markup: str) -> str:
    """The text of a page with elements in which line ends and indentation count."""
    markup = markup.replace("\r\n", "\n").replace("\r", "\n").replace(_VERBATIM, "").replace(_ENDED, "")
    first, *rest = _split(markup)
    pieces = [unescape_text(first).replace("\n", " ")]
    depth = 0
    for tag, text in zip(rest[::2], rest[1::2], strict=True):
        tag = (tag or "").lower()
        if tag in _AS_WRITTEN:
            depth += 1
            text = text.removeprefix("\n")  # the standard: a line end right after the start tag is none
        elif tag[1:] in _AS_WRITTEN and tag[0] == "/":
            depth = max(depth - 1, 0)
        if depth:
            pieces.append(_LINE_END if tag == "br" else _BREAKS[tag].replace("\n", _BORDER))
            pieces.append(unescape_text(text).replace("\n", _LINE_END))
        else:
            pieces.append(_BREAKS[tag])
            pieces.append(unescape_text(text).replace("\n", " "))
    return "\n".join(_lines("".join(pieces)))


def _lines(text: str) -> Iterator[str]:
    """Yields lines with folded white space, and those that stay as they are; only among the latter are empty ones."""
    empty = 0
    for line in text.split("\n"):
        if not line.startswith(_VERBATIM):
            empty = 0
            if words := line.split():
                yield " ".join(words)
        elif kept := line.strip(_VERBATIM + _ENDED).rstrip():
            yield from [""] * empty
            empty = 0
            yield kept
        else:
            empty += line.endswith(_ENDED)

"""The only module that turns a page into readable text.

One pass of regular expressions that never go back: building a tree takes quadratic time on deeply nested
markup, and pages that are read for their text are no friendlier than others.
"""

import re

from gossamer.web.charset import declared_charset, decode
from gossamer.web.tokens import unescape_text

_UNREAD = ("iframe", "noembed", "noframes", "script", "style", "template", "textarea", "title")
_CELLS = ("td", "th")
_BLOCKS = (
    "address", "article", "aside", "blockquote", "body", "br", "button", "caption", "center", "dd", "details",
    "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frameset",
    "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "legend", "li", "main",
    "menu", "nav", "ol", "optgroup", "option", "p", "pre", "search", "section", "select", "summary", "table",
    "tbody", "tfoot", "thead", "tr", "ul", *_UNREAD,
)  # fmt: skip
_OTHERS = ("a", "b", "code", "em", "i", "img", "input", "label", "link", "meta", "small", "span", "strong", "sup", "tt")

# The rest of a tag. Most have no quotes: then the loop is not begun.
_REST = r"""[^>"']*+(?:>|(?:(?:(?<==)(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))|["'])[^>"']*+)*+(?:>|\Z))"""
_OTHER = r"""|!--(?:-?>|.*?(?:--!?>|\Z))|[!/?][^>]*+(?:>|\Z)"""
# A tag, comment or declaration, or what is left of one at the end of the page: so each byte is read once.
MARKUP = re.compile(rf"<(?:(/?[a-zA-Z][^\s/>]*+){_REST}{_OTHER})", re.DOTALL)
# The same, and with its tag whatever is in an element that nobody reads.
_SKIPPED = re.compile(
    rf"<(?:((?=[instINST])((?ai:{'|'.join(_UNREAD)}))(?=[\s/>]|\Z)|/?[a-zA-Z][^\s/>]*+){_REST}"
    rf"(?(2)(?>[^<]+|<(?!/(?i:\2)[\s/>]))*){_OTHER})",
    re.DOTALL,
)


class _Breaks(dict[str | None, str]):
    """What stands for a tag in the text. As spelled by most pages it is there; other spellings are looked up."""

    def __missing__(self, tag: str) -> str:
        return self.get(tag.lower(), "")


_BREAKS = _Breaks({None: ""})
for _names, _break in ((_BLOCKS, "\n"), (_CELLS, " "), (_OTHERS, "")):
    _BREAKS.update((f"{slash}{name}", _break) for name in _names for slash in ("", "/"))


def text_of(body: bytes, content_type: str = "") -> str:
    """One line per block, white space folded, without scripts, styles and title; "" for what is not text."""
    mime = content_type.partition(";")[0].strip().lower()
    is_markup = mime == "" or "html" in mime or mime.endswith("xml")
    if not is_markup and not mime.startswith("text/"):
        return ""
    text = decode(body, declared_charset(body, content_type))
    if not is_markup:
        return text.strip()
    lines = "".join(_pieces(text)).split("\n")
    return "\n".join([" ".join(words) for line in lines if (words := line.split())])


def _pieces(markup: str) -> list[str]:
    """The texts between tags, with line ends at the borders of blocks, and nowhere else."""
    # As lists, because a page has thousands of tags: text, tag, unread tag, text, tag, unread tag, ..., text.
    pieces = _SKIPPED.split(markup.replace("\n", " "))
    del pieces[2::3]
    pieces[1::2] = [_BREAKS[tag] for tag in pieces[1::2]]
    if "&" in markup:
        pieces[::2] = [unescape_text(text).replace("\n", " ") if "&" in text else text for text in pieces[::2]]
    return pieces

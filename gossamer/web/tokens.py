"""`Tokens` are what both tokenisers find in a page's markup, before anything is resolved."""

import html
import re
from collections.abc import Callable, ItemsView
from html.entities import html5
from typing import Any, Protocol

from msgspec import Struct, field

FOLLOW, NOFOLLOW = 1, 2
REFERENCE_CHARS = 16_384  # no server takes a longer URL; data: URIs are often that long
TITLE_CHARS = 2_000
LANGUAGE_CHARS = 64
RESERVATION_CHARS = 64

_C0_OR_SPACE = "".join(map(chr, range(0x21)))
_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_ENDLESS = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{8,});?")
_ENTITY = re.compile(r"&(?:(#[0-9]+;?|#[xX][0-9a-fA-F]+;?)|([a-zA-Z][a-zA-Z0-9]*)(;?)(=?))")


class References(Protocol):
    """`References` are what the compiled scanner finds (`_links.References`): like a dictionary, but in one buffer."""

    def __len__(self) -> int: ...

    def items(self) -> ItemsView[str, int]: ...

    def resolved(self, base: str, is_own: bool, slow: Callable[[str], str | None], first: str | None, /) -> Any:
        """Returns the Links that they mean."""


Hrefs = dict[str, int] | References


class Tokens(Struct, gc=False):
    """`html.parse_html` makes a Document of these."""

    title: str = ""
    language: str = ""
    base: str | None = None  # of the first base element with href
    canonical: str | None = None
    robots: list[str] = field(default_factory=list)  # contents of meta elements for all robots, or for us
    refresh: str | None = None  # content of the first such meta element
    reservation: str = ""  # content of the first meta element tdm-reservation (TDMRep)
    hrefs: Hrefs = field(default_factory=dict)  # reference without fragment: FOLLOW | NOFOLLOW
    frames: list[str] = field(default_factory=list)  # documents in srcdoc attributes
    anchors: dict[str, str] = field(default_factory=dict)  # by reference, what a reader clicks on; only if asked for


def reference(value: str) -> str | None:
    """Returns a reference without surrounding space and fragment; None if it has another scheme or is too long."""
    value = value.strip(_C0_OR_SPACE).partition("#")[0]
    if len(value) > REFERENCE_CHARS or _OTHER_SCHEME.match(value):
        return None
    return value


def title(raw: str) -> str:
    return " ".join(raw.split())[:TITLE_CHARS]


def unescape_text(text: str) -> str:
    """Undoes character references. Python does not read numbers of thousands of digits; none is a character."""
    try:
        return html.unescape(text)
    except ValueError:
        return html.unescape(_ENDLESS.sub("\ufffd", text))


def unescape(value: str) -> str:
    """Undoes character references in an attribute: unlike in text, "?a=1&copy=2" has none."""
    ampersands = value.count("&")
    if ampersands == value.count("&amp;"):
        return value.replace("&amp;", "&") if ampersands else value
    return _ENTITY.sub(_character, value)


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return unescape_text(match[0])
    name, semicolon, equals = match[2], match[3], match[4]
    if semicolon:
        # Old names are known without semicolon too, but only as a whole: in attributes no prefix counts.
        return html5[name + ";"] + equals if name + ";" in html5 else match[0]
    return match[0] if equals else html5.get(name, match[0])

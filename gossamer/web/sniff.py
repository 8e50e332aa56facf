"""This module sniffs content types: whether a body is a page, by its declared type and its first bytes."""

import re

HTML = ("text/html", "application/xhtml+xml")
# Types that mean as little as none at all (MIME Sniffing, section 7), and one more that servers use so.
UNKNOWN = frozenset(("", "unknown/unknown", "application/unknown", "*/*", "application/x-unknown-content-type"))
# Types that pages have by mistake: these pages must look like one more clearly.
_MISTAKEN = frozenset(("text/plain", "application/octet-stream", "application/xml", "text/xml"))

_HEADER_BYTES = 1445  # what the standard reads of a resource
_CLEAR_BYTES = 512
# The standard's table of tags for unknown types (section 7.1); a space or ">" must follow.
_TAG = re.compile(
    rb"[\t\n\f\r ]*+<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|!--)[ >]",
    re.IGNORECASE,
)
_CLEAR = (b"<!doctype html", b"<html", b"<head", b"<body", b"<title", b"<meta", b"<a ")


def is_html(body: bytes, mime: str) -> bool:
    """Returns whether a body is a page. `mime` is the declared type without parameters. "nosniff" guards readers
    against scripts; we run none."""
    if mime in HTML:
        return True
    if mime in UNKNOWN:
        if _TAG.match(body[:_HEADER_BYTES]):
            return True
    elif mime not in _MISTAKEN:
        return False
    start = body[:_CLEAR_BYTES].lstrip().lower()
    return start.startswith(_CLEAR) or b"<html" in start

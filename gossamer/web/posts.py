"""This module writes a POST as the name of a page: its URL and, where others have a fragment, the body.

`https://example.org/search#POST:application/json:{"q":1}` is a page of its own: its key contains a digest of the body,
and whatever keeps or sends the names of pages keeps and sends the body with it. Normal forms have no fragment, so no
link, redirect or sitemap can make a crawl post anything.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlencode

from gossamer.config.sections import json_text

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MOST_BYTES = 50_000  # of a name: the index has room for 65,535
_MARK = "#POST:"
_SAFE = "".join(map(chr, range(0x21, 0x7F))).translate(str.maketrans("", "", "%#?"))  # without ?, which means a query


def post_of_json(value: Any) -> str:
    """Returns the end of a page's name for a JSON body: a value, or JSON text."""
    if isinstance(value, str):
        json.loads(value)  # raises ValueError
    return _post(JSON, json_text(value).encode())


def post_of_data(value: Any) -> str:
    """Returns the end of a page's name for a form: its fields, or its text."""
    if isinstance(value, bytes):
        return _post(FORM, value)
    return _post(FORM, (urlencode(value, doseq=True) if isinstance(value, Mapping) else str(value)).encode())


def _post(kind: str, body: bytes) -> str:
    found = f"{_MARK}{kind}:{quote_from_bytes(body, safe=_SAFE)}"
    if len(found) > MOST_BYTES:
        raise ValueError(f"a body of {len(body):,} bytes is too long: its text may have {MOST_BYTES:,} characters")
    return found


def url_of(name: str) -> str:
    """Returns the URL of a page, without a body."""
    return name.partition("#")[0]


def split_name(name: str) -> tuple[str, str]:
    """Returns the URL of a page, and the end of its name; that is empty unless it is a POST."""
    place = name.find("#")
    return (name[:place], name[place:]) if place >= 0 else (name, "")


def body_of(post: str) -> tuple[str, bytes]:
    """Returns content type and body of a POST, by the end of its name."""
    kind, _, text = post.removeprefix(_MARK).partition(":")
    return kind, unquote_to_bytes(text)

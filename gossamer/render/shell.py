"""This module tells which pages are empty shells: without their scripts they say nothing and lead nowhere."""

import re

from gossamer.web.html import text_of
from gossamer.web.http import RENDERED_TYPE

_SCRIPT = re.compile(rb"<script[\s>]", re.IGNORECASE)
_HIDDEN = re.compile(rb"<noscript.*?(?:</noscript\s*>|$)", re.IGNORECASE | re.DOTALL)  # "enable JavaScript"
_TEXT = 200  # characters: a shell has a title, perhaps "Loading..."
_LINKS = 2
_LOOKED_AT = 1 << 20


def is_shell(markup: bytes, links: int) -> bool:
    """Returns whether a page has scripts, but hardly any text and links."""
    markup = markup[:_LOOKED_AT]
    if links > _LINKS or not _SCRIPT.search(markup):
        return False
    return len("".join(text_of(_HIDDEN.sub(b"", markup), RENDERED_TYPE).split())) < _TEXT

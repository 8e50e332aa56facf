"""This module judges whether somebody could be reached at a contact: the people whose servers we visit may try."""

import ipaddress
import re
from urllib.parse import urlsplit

_LABEL = re.compile(r"[^\W_](?:[^\W_]|-){0,62}")  # of any script
_RESERVED = frozenset(["test", "example", "invalid", "localhost", "local", "internal", "lan", "home", "corp"])
_EXAMPLES = tuple(("example", top) for top in ("com", "net", "org"))


def unreachable(contact: str) -> str:
    """Returns why nobody can be reached at a URL or e-mail address; empty: it could exist."""
    try:
        name = urlsplit(contact).hostname or contact.rpartition("@")[2].lower()
    except ValueError:
        return "it is no URL"
    name = name.rstrip(".")
    if address := _address(name.strip("[]")):
        return "" if address.is_global else f"{name} is an address of one network only"
    labels = name.split(".")
    if len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels) or labels[-1].isdigit():
        return f"{name} is no name that all the internet knows"
    if labels[-1] in _RESERVED or tuple(labels[-2:]) in _EXAMPLES:
        return f"{name} is for examples, tests (RFC 2606) or one network only"
    return ""


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None

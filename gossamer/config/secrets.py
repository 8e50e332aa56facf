"""This module reads secrets where the configuration says that they are: `env:NAME` is a variable of the environment,
`file:PATH` a file. The configuration itself never has a secret in it, so it can be stored, sent and shown.

No message of this module quotes a value: somebody may have written a secret where its name belongs.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gossamer.errors import ConfigError

REFERENCE = re.compile(r"env:[A-Za-z_]\w*|file:.+")
_WRITE = "write env:NAME for a variable of the environment, or file:PATH"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_AUTH = re.compile(rf"(basic|bearer) ({REFERENCE.pattern})")
PROXY = re.compile(r"(http|socks5h)://([^\s/@?#]*@)?([^\s/@?#:\[\]]+|\[[0-9A-Fa-f:.]+\]):\d+/?")
NO_PROXY = "none"
_OURS = {
    "user-agent": "fetch.agent_name and fetch.contact are for that",
    "cookie": "--cookies FILE and fetch.cookies are for that",
    "proxy-authorization": "fetch.proxy is for that",
    **dict.fromkeys(("signature", "signature-input", "signature-agent"), "fetch.identity is for that"),
    **dict.fromkeys(
        (
            "host", "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
            "content-length", "content-type", "expect", "range", "if-match", "if-none-match", "if-modified-since",
            "if-unmodified-since", "if-range",
        ),
        "Gossamer sets it itself, where it is needed",
    ),
}  # fmt: skip


def is_reference(value: str) -> bool:
    """Returns whether a value says where a secret is."""
    return bool(REFERENCE.fullmatch(value))


def check_headers(name: str, headers: Mapping[str, str], may_refer: bool) -> None:
    """Raises an error for header fields that cannot be sent; `may_refer`: their values may be secrets elsewhere."""
    for field, value in headers.items():
        if not _TOKEN.fullmatch(field):
            raise ConfigError(f"{name}: {field!r} is no name of a header field, like X-Client")
        if why := _OURS.get(field.lower()):
            raise ConfigError(f"{name}: {field} cannot be given here: {why}")
        if is_reference(value):
            if not may_refer:
                raise ConfigError(
                    f"{name} go to all hosts, and {field} would be a secret: write it under "
                    f'[host."example.org"], as headers = {{ {field} = "{value}" }}'
                )
        elif field.lower() == "authorization":
            raise ConfigError(f"{name}: Authorization is a secret: {_WRITE}, or use auth")
        elif not value.strip() or not value.isprintable():
            raise ConfigError(f"{name}: {field} must be one line of text")


def check_auth(name: str, value: str) -> None:
    """Raises an error if a value does not say how to authenticate, and where the secret is."""
    if not _AUTH.fullmatch(value):
        raise ConfigError(f'{name} must be like "bearer env:API_TOKEN" or "basic file:login.txt" (user:password)')


def check_reference(name: str, value: str) -> None:
    """Raises an error if a value does not say where a secret is."""
    if value and not is_reference(value):
        raise ConfigError(f"{name} must be a reference, not the secret itself: {_WRITE}")


def check_proxy(name: str, value: str) -> None:
    """Raises an error if a value is no proxy; credentials belong elsewhere."""
    if not value or value == NO_PROXY or is_reference(value):
        return
    if value.startswith(("socks:", "socks4:", "socks4a:", "socks5:")):
        raise ConfigError(f"{name}: write socks5h://, with an h: the proxy looks names up")
    if not PROXY.fullmatch(value):
        raise ConfigError(f"{name} must be like http://proxy.example.org:3128 or socks5h://127.0.0.1:1080, with a port")
    if "@" in value:
        raise ConfigError(f'{name} has credentials: write "env:NAME", and put all of it into that variable')


def auth_of(value: str) -> tuple[str, str]:
    """Returns the scheme and the reference of what `check_auth` has accepted."""
    scheme, _, reference = value.partition(" ")
    return scheme, reference


def read_secret(name: str, reference: str) -> str:
    """Returns the secret that the key `name` refers to."""
    kind, _, place = reference.partition(":")
    if kind == "env":
        value = os.environ.get(place, "")
        where = f"the environment variable {place}"
    else:
        value, where = _in_file(name, place), place
    if not value:
        raise ConfigError(f"{name} is {reference}, but {where} is empty or not set: set it for this command")
    if not value.isprintable():
        raise ConfigError(f"{name} is {reference}, but {where} is more than one line of text")
    return value


def _in_file(name: str, place: str) -> str:
    try:
        return Path(place).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigError(f"{name} is file:{place}, which cannot be read: {why}") from None

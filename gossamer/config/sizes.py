"""This module reads sizes in bytes, as a person writes them: "2GB", "100 MB", 65536."""

import re
from collections.abc import Mapping
from typing import Any

from gossamer.errors import ConfigError

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]i?B)?", re.IGNORECASE)
_TYPE = re.compile(r"[^\s/;]+/[^\s/;]+")
MOST = 4 * 10**9  # the tables have 32 bits for the length of a record


def sizes(name: str, given: Mapping[str, Any]) -> dict[str, str | int]:
    """Returns bytes by type, checked."""
    for kind in given:
        if not _TYPE.fullmatch(kind):
            raise ConfigError(f"{name}: {kind!r} is no content type; write it like 'video/*'")
    return {kind.lower(): _bytes(f"{name}.{kind}", size) for kind, size in given.items()}


def _bytes(name: str, size: Any) -> int:
    match = _SIZE.fullmatch(str(size).strip())
    if match is None:
        raise ConfigError(f"{name} must be a size like '2GB', '100MB' or 65536, not {size!r}")
    found = int(float(match[1]) * _UNITS[(match[2] or "").upper()])
    if not 1024 <= found <= MOST:
        raise ConfigError(f"{name} must be from 1024 bytes to 4GB, not {size!r}")
    return found

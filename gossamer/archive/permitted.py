"""This module selects the pages whose publishers do not refuse a purpose (docs/preferences.md)."""

from gossamer.config import PURPOSES
from gossamer.errors import ConfigError


def permitted(purpose: str) -> str:
    """Returns the SQL condition on `pages`; empty purpose: all of them."""
    if not purpose:
        return "true"
    if purpose not in PURPOSES:
        raise ConfigError(f"a purpose is one of {', '.join(PURPOSES)}, not {purpose!r}")
    return f"NOT list_contains(string_split(coalesce(not_for, ''), ' '), '{purpose}')"

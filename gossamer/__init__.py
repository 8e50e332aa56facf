"""Gossamer is a fast, polite, crash-proof web crawler."""

from typing import TYPE_CHECKING, Any

from gossamer.version import __version__

if TYPE_CHECKING:
    from gossamer.api import Crawl, Page
    from gossamer.config import Config

__all__ = ["Config", "Crawl", "Page", "__version__"]


def __getattr__(name: str) -> Any:
    """Loads everything when it is asked for: `gossamer --help` should cost nothing."""
    if name == "Config":
        from gossamer import config

        return config.Config
    if name in ("Crawl", "Page"):
        from gossamer import api

        return getattr(api, name)
    raise AttributeError(f"module 'gossamer' has no attribute {name!r}")

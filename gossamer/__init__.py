"""Gossamer is a fast, polite, crash-proof web crawler."""

from typing import TYPE_CHECKING, Any

from gossamer.version import __version__

if TYPE_CHECKING:
    from gossamer.api import Crawl, Page
    from gossamer.config import Config, Seed

__all__ = ["Config", "Crawl", "Page", "Seed", "__version__"]


def __getattr__(name: str) -> Any:
    """Loads everything when it is asked for: `gossamer --help` should cost nothing."""
    if name in ("Config", "Seed"):
        from gossamer import config

        return getattr(config, name)
    if name in ("Crawl", "Page"):
        from gossamer import api

        return getattr(api, name)
    raise AttributeError(f"module 'gossamer' has no attribute {name!r}")

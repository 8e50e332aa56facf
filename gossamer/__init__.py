"""Gossamer: a fast, polite, crash-proof web crawler."""

from typing import TYPE_CHECKING, Any

from gossamer.config import Config

if TYPE_CHECKING:
    from gossamer.api import Crawl, Page

__all__ = ["Config", "Crawl", "Page", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The crawler itself is loaded when it is asked for: the configuration alone should cost nothing."""
    if name in ("Crawl", "Page"):
        from gossamer import api

        return getattr(api, name)
    raise AttributeError(f"module 'gossamer' has no attribute {name!r}")

"""What a scan does unless it is told otherwise, where that is not what a crawl does."""

from gossamer.config import Config

# Breadth first, because then a page's depth is its distance from the start whatever the order of arrival; no sitemaps,
# because they know no depth.
_VALUES = {"limits.depth": 3, "crawl.scope": "host", "crawl.sitemaps": False, "crawl.order": "breadth-first"}


def defaults() -> Config:
    return Config().replace(_VALUES)

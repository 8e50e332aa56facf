"""These are the modes of a scan, and its defaults where they differ from those of a crawl."""

from gossamer.config import Config

MODES = ("batch", "round-robin", "dynamic")  # how clients share websites (scan/dispatch.py)

# Breadth first, because then a page's depth is its distance from the start whatever the order of arrival; no sitemaps,
# because they know no depth. What fails is tried again sooner, and not waited for as long: all of a scan waits for the
# last website, and what could not be read is read by the next scan.
_VALUES = {
    "limits.depth": 3,
    "crawl.scope": "host",
    "crawl.sitemaps": False,
    "crawl.order": "breadth-first",
    "crawl.patience_s": 60.0,
    "fetch.retry_s": 10.0,
    "polite.backoff_s": 10.0,
}


def defaults() -> Config:
    return Config().replace(_VALUES)

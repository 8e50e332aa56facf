"""What the crawl tests share: a crawl through the public API, and questions to its archive."""

from collections.abc import Mapping
from math import inf
from typing import Any

from gossamer import Config, Crawl
from gossamer.archive.zones import shares
from gossamer.config.folders import Place
from gossamer.sharing.control import Orders
from gossamer.testweb.running import RunningWeb

QUICK: dict[str, Any] = {
    "crawl.scope": "any",
    "crawl.patience_s": 3.0,
    "polite.delay_s": 0.0,
    "polite.backoff_s": 0.2,
    "polite.connections": 32,
    "fetch.retry_s": 0.2,
    "fetch.timeout_s": 10.0,
}


def crawl(
    web: RunningWeb, directory: Place, values: Mapping[str, Any] | None = None, seeds: list[str] | None = None
) -> Crawl:
    config = Config().replace({**QUICK, "resolve.map": {"*": web.address}, **(values or {})})
    found = Crawl(directory, seeds if seeds is not None else web.start_urls, config)
    found.run()
    return found


def statuses(found: Crawl) -> dict[str, str]:
    return {row["url"]: row["status"] for row in found.query("SELECT url, status FROM pages")}


def visited(found: Crawl) -> list[str]:
    """URLs in order of their visits, robots.txt left out: rows are written in that order, and SQL keeps it."""
    sql = "SELECT url FROM visits WHERE NOT is_robots"
    return [row["url"] for row in found.query(sql)]


class Fixed:
    """The post of agents that share a crawl and whose zones never move: nobody tells them anything."""

    is_site = False
    lease_until_s = inf

    def __init__(self, owners: tuple[str, ...]) -> None:
        self._orders = Orders(shares(owners))

    def report(self, facts: Mapping[str, Any]) -> None:
        pass

    def orders(self) -> Orders:
        return self._orders

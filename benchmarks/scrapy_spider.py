"""The peer of the crawl benchmark: an ordinary Scrapy spider that follows links and stores bodies.

It runs in an environment of its own. Where a choice is ours it is the cheap one, so that the peer is not held back: no
log, no cookies, no consoles, bodies appended to one file as they are.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import CachingThreadedResolver
from twisted.internet import defer


class LoopbackResolver(CachingThreadedResolver):
    """Every name is on this machine, as with Gossamer's resolver map; the port is part of the URL."""

    def getHostByName(self, name: str, timeout: Any = ()) -> "defer.Deferred[str]":  # noqa: N802, ARG002
        return defer.succeed("127.0.0.1")


def settings(concurrency: int) -> dict[str, Any]:
    return {
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
        "DOWNLOAD_DELAY": 0,
        "AUTOTHROTTLE_ENABLED": False,
        "COOKIES_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "LOG_ENABLED": False,
        "LOG_LEVEL": "ERROR",
        "TWISTED_DNS_RESOLVER": "benchmarks.scrapy_spider.LoopbackResolver",
    }


class Docs(Spider):
    name = "docs"

    def __init__(self, starts: list[str], domain: str, out: Path, **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = starts
        self.allowed_domains = [domain]
        self.extractor = LinkExtractor()
        self.bodies = (out / "bodies").open("wb")
        self.visits = (out / "visits.tsv").open("w")

    def parse(self, response: Response, **_: Any) -> Iterator[Request]:
        self.bodies.write(response.body)
        is_html = isinstance(response, HtmlResponse)
        self.visits.write(f"{response.status}\t{'html' if is_html else 'other'}\t{response.url}\n")
        if is_html:
            # Links to fragments of one page become one request here, which spares Scrapy a sixth of its CPU. Those with
            # nofollow are left alone, as by Gossamer's default.
            links = self.extractor.extract_links(response)
            for url in dict.fromkeys(link.url.partition("#")[0] for link in links if not link.nofollow):
                yield Request(url)

    def closed(self, reason: str) -> None:  # noqa: ARG002
        self.bodies.close()
        self.visits.close()


def main(spider: type[Spider] = Docs, more: dict[str, Any] | None = None) -> int:
    """Crawls with a spider and Scrapy's settings, `more` added."""
    parser = argparse.ArgumentParser(description="Crawl with Scrapy.")
    parser.add_argument("starts", nargs="+")
    parser.add_argument("--domain", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    arguments = parser.parse_args()
    chosen = settings(arguments.concurrency) | (more or {})
    process = CrawlerProcess(chosen)
    crawler = process.create_crawler(spider)
    process.crawl(crawler, starts=arguments.starts, domain=arguments.domain, out=arguments.out)
    process.start()
    stats = crawler.stats.get_stats() if crawler.stats else {}
    print(json.dumps({"settings": chosen, "stats": stats}, default=str))
    return 0 if stats.get("finish_reason") == "finished" else 1


if __name__ == "__main__":
    sys.exit(main())

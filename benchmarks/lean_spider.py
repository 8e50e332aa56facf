"""The lean peer of the crawl benchmark: Scrapy with everything taken out that this crawl can do without.

Links are found by selectolax and joined by the URL library that Gossamer uses, too; duplicates are dropped before they
become requests; of Scrapy's middlewares robots.txt, retries, redirects and decompression stay.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from selectolax.lexbor import LexborHTMLParser
from url import URL, URLError

from benchmarks import scrapy_spider

NAMESPACE = "scrapy.downloadermiddlewares"
LEAN = {
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",  # the spider knows what it has seen
    "SPIDER_MIDDLEWARES_BASE": {},
    "DOWNLOADER_MIDDLEWARES_BASE": {
        f"{NAMESPACE}.robotstxt.RobotsTxtMiddleware": 100,
        f"{NAMESPACE}.defaultheaders.DefaultHeadersMiddleware": 400,
        f"{NAMESPACE}.useragent.UserAgentMiddleware": 500,
        f"{NAMESPACE}.retry.RetryMiddleware": 550,
        f"{NAMESPACE}.httpcompression.HttpCompressionMiddleware": 590,
        f"{NAMESPACE}.redirect.RedirectMiddleware": 600,
    },
    "EXTENSIONS_BASE": {"scrapy.extensions.corestats.CoreStats": 0},
    "STATS_DUMP": False,
}


class LeanDocs(Spider):
    name = "lean"

    def __init__(self, starts: list[str], domain: str, out: Path, **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = starts
        self.domain = domain
        self.bodies = (out / "bodies").open("wb")
        self.visits = (out / "visits.tsv").open("w")
        self.seen: set[str] = set(starts)

    def parse(self, response: Response, **_: Any) -> Iterator[Request]:
        self.bodies.write(response.body)
        is_html = b"html" in (response.headers.get("Content-Type") or b"")
        self.visits.write(f"{response.status}\t{'html' if is_html else 'other'}\t{response.url}\n")
        for url in self.links(response) if is_html else ():
            yield Request(url)

    def links(self, response: Response) -> Iterator[str]:
        """Yields the URLs that no page had before."""
        base, hrefs = URL.parse(response.url), set()
        for node in LexborHTMLParser(response.body).css("a[href], area[href]"):
            attributes = node.attributes
            if "nofollow" not in (attributes.get("rel") or ""):
                hrefs.add((attributes["href"] or "").partition("#")[0])
        for href in hrefs:
            try:
                found = base.join(href)
            except (URLError, UnicodeEncodeError):
                continue
            url = str(found)
            if url not in self.seen and found.scheme == "http" and (found.host_str or "").endswith(self.domain):
                self.seen.add(url)
                yield url

    def closed(self, reason: str) -> None:  # noqa: ARG002
        self.bodies.close()
        self.visits.close()


if __name__ == "__main__":
    raise SystemExit(scrapy_spider.main(LeanDocs, LEAN))

"""The peer from Crawlee: its Parsel crawler, with robots.txt, its queue in memory, bodies in one file."""

import argparse
import asyncio
import json
import logging
from datetime import timedelta
from pathlib import Path

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient


async def crawl(starts: list[str], out: Path, concurrency: int) -> int:
    """Crawls and returns how many requests were made."""
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(
            min_concurrency=concurrency, max_concurrency=concurrency, desired_concurrency=concurrency
        ),
        respect_robots_txt_file=True,
        storage_client=MemoryStorageClient(),
        configure_logging=False,
        request_handler_timeout=timedelta(minutes=5),
        use_session_pool=False,
    )
    logging.disable()
    with (out / "bodies").open("wb") as bodies, (out / "visits.tsv").open("w") as visits:

        @crawler.router.default_handler
        async def _(context: ParselCrawlingContext) -> None:
            bodies.write(await context.http_response.read())
            kind = "html" if "html" in (context.http_response.headers.get("content-type") or "") else "other"
            visits.write(f"{context.http_response.status_code}\t{kind}\t{context.request.loaded_url}\n")
            await context.enqueue_links(strategy="same-domain")

        stats = await crawler.run(starts)
    return stats.requests_total


def main() -> int:
    parser = argparse.ArgumentParser(description="Crawl with Crawlee.")
    parser.add_argument("starts", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    arguments = parser.parse_args()
    requests = asyncio.run(crawl(arguments.starts, arguments.out, arguments.concurrency))
    print(json.dumps({"requests": requests}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

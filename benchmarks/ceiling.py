"""The pure fetch ceiling: Gossamer's HTTP client alone on the crawl's own URLs, no robots, no parsing, no storage."""

import argparse
import json
import sys
import time
from itertools import cycle, islice
from pathlib import Path

from gossamer.clocks import RealClock
from gossamer.config import Config
from gossamer.fetch.client import Client, Request
from gossamer.fetch.resolver import Resolver
from gossamer.web.url import host_of, page_key


def fetch_all(urls: list[str], address: str, connections: int, fetches: int) -> dict[str, float]:
    """Fetches the URLs over and over, `fetches` in all, as many at a time as there are connections."""
    config = Config().replace({"resolve.map": {"*": address}, "polite.connections": connections})
    clock = RealClock()
    client = Client(config, clock, Resolver(config.resolve, clock))
    # What a crawl does per page before the client is asked belongs to the crawl: requests exist beforehand.
    requests = [Request(key=page_key(url), url=url, host=host_of(url)) for url in urls]
    waiting = islice(cycle(requests), fetches)
    answers, body_bytes, failed = 0, 0, 0
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    while answers < fetches:
        for request in islice(waiting, connections - client.active):
            client.start(request, reuse=True)
        for response in client.poll(1.0):
            answers += 1
            body_bytes += len(response.body)
            failed += response.http_status != 200
    wall_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    client.close()
    return {"fetches": fetches, "failed": failed, "bytes": body_bytes, "wall_s": wall_s, "cpu_s": cpu_s}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", type=Path, help="file with one URL per line")
    parser.add_argument("--address", required=True, metavar="ADDRESS:PORT", help="where every name is served")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--fetches", type=int, default=30_000, help="fetches in all, repeating the list")
    arguments = parser.parse_args()
    urls = arguments.urls.read_text().split()
    print(json.dumps(fetch_all(urls, arguments.address, arguments.connections, arguments.fetches)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The limits of a crawl: what compiled libraries take for its own pages, with as little as possible around them.

libcurl fetches the URLs over and over and hands the bytes to a list; the scanner finds the links of each page, ISA-L
packs it, OpenSSL takes its SHA-1, one after the other while the page is still in the caches, as in a crawl. No robots,
politeness, verdicts, index, tables, files. Beside it the same fetches by Gossamer's client.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha1
from itertools import cycle, islice
from pathlib import Path

import pycurl
from isal import isal_zlib

from gossamer.archive.warc import GZIP
from gossamer.clocks import RealClock
from gossamer.config import Config
from gossamer.fetch.client import Client, Request
from gossamer.fetch.resolver import Resolver
from gossamer.web.html import tokenise
from gossamer.web.url import host_of, page_key

LIBRARIES: dict[str, Callable[[bytes], object]] = {
    "scanner": lambda body: tokenise(body, "utf-8", "gossamer", 10_000),
    "gzip": lambda body: isal_zlib.compress(body, 1, GZIP),
    "SHA-1": lambda body: sha1(body, usedforsecurity=False).digest(),
}


class Bare:
    """libcurl as it comes: handles are used again, and only the URL is set."""

    def __init__(self, address: str, connections: int) -> None:
        self._multi = pycurl.CurlMulti()
        self._chunks: dict[pycurl.Curl, list[bytes]] = {}
        for _ in range(connections):
            handle, chunks = pycurl.Curl(), list[bytes]()
            handle.setopt(pycurl.CONNECT_TO, [f"::{address}"])
            handle.setopt(pycurl.BUFFERSIZE, 64 << 10)
            handle.setopt(pycurl.WRITEFUNCTION, chunks.append)
            handle.setopt(pycurl.NOSIGNAL, 1)
            self._chunks[handle] = chunks

    def bodies(self, urls: Iterator[str]) -> Iterator[tuple[int, bytes]]:
        """Yields statuses and bodies of all URLs."""
        under_way = sum(self._begin(handle, urls) for handle in self._chunks)
        while under_way:
            self._multi.perform()
            more = 1
            while more:
                more, succeeded, failed = self._multi.info_read()
                if failed:
                    raise RuntimeError(f"libcurl cannot fetch: {failed[0][2]}")
                for handle in succeeded:
                    self._multi.remove_handle(handle)
                    body = b"".join(self._chunks[handle])
                    self._chunks[handle].clear()
                    status = handle.getinfo(pycurl.RESPONSE_CODE)
                    under_way += self._begin(handle, urls) - 1
                    yield status, body
            self._multi.select(0.1)

    def _begin(self, handle: pycurl.Curl, urls: Iterator[str]) -> bool:
        for url in islice(urls, 1):
            handle.setopt(pycurl.URL, url)
            self._multi.add_handle(handle)
            return True
        return False


def bare(urls: Iterable[str], address: str, connections: int, fetches: int) -> dict[str, float]:
    """Returns microseconds of CPU a page: of fetching by libcurl, and of each library."""
    waiting, spent_s = islice(cycle(urls), fetches), Counter[str]()
    failed, before_s = 0, time.process_time()
    for status, body in Bare(address, connections).bodies(waiting):
        failed += status != 200
        now_s = time.process_time()
        spent_s["libcurl"] += now_s - before_s
        for name, library in LIBRARIES.items():
            library(body)
            before_s, now_s = now_s, time.process_time()
            spent_s[name] += now_s - before_s
        before_s = now_s
    return {"failed": failed} | {name: seconds / fetches * 1e6 for name, seconds in spent_s.items()}


def by_client(urls: Iterable[str], address: str, connections: int, fetches: int) -> dict[str, float]:
    """Returns microseconds of CPU for each fetch by Gossamer's client."""
    config = Config().replace({"resolve.map": {"*": address}, "polite.connections": connections})
    clock = RealClock()
    client = Client(config, clock, Resolver(config.resolve, clock))
    # What a crawl does per page before the client is asked belongs to the crawl: requests exist beforehand.
    requests = [Request(key=page_key(url), url=url, host=host_of(url)) for url in urls]
    waiting, answers, failed = islice(cycle(requests), fetches), 0, 0
    start_s = time.process_time()
    while answers < fetches:
        for request in islice(waiting, connections - client.active):
            client.start(request, reuse=True)
        for response in client.poll(1.0):
            answers += 1
            failed += response.http_status != 200
    spent_s = time.process_time() - start_s
    client.close()
    return {"failed": failed, "client": spent_s / fetches * 1e6}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", type=Path, help="file with one URL per line")
    parser.add_argument("--address", required=True, metavar="ADDRESS:PORT", help="where every name is served")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--fetches", type=int, default=20_000, help="fetches in all, repeating the list")
    arguments = parser.parse_args()
    urls = arguments.urls.read_text().split()
    given = urls, arguments.address, arguments.connections, arguments.fetches
    found, ours = bare(*given), by_client(*given)
    print(json.dumps(found | ours | {"failed": found["failed"] + ours["failed"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

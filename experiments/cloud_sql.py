"""This module times one query by many agents at once: a page by its host and the hash of its URL.

This is Figure 6 of Bahrami et al., who asked a cloud's table service and an SQL database. Every agent asks again as
soon as it is answered. Started as a process, this module is some of the agents (see `serve`).
"""

import hashlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments import servers
from experiments.agents_latency import PROCESSES, Worker
from experiments.cloud_latency import StorePeer, check_clients, connection
from experiments.servers import Missing
from gossamer.archive.chain import Chain
from gossamer.archive.store import Directory
from gossamer.config import Config
from gossamer.frontier.pages import PageIndex
from gossamer.web.url import page_keys

TABLES = ("index", "table", "sql", "sql-plain")
_ON_HOST = 100  # pages: a batch of Azure's table service has at most so many rows, all of one host
_SCHEMA = "CREATE TABLE pages (host text, row text, url text, visit boolean, hit integer{})"
_QUERY = "SELECT url, visit, hit FROM pages WHERE host = %s AND row = %s"

Ask = Callable[[str], None]


@dataclass(frozen=True)
class Shape:
    rows: int = 20_000
    seconds: float = 3.0
    seed: int = 0


class Asked(NamedTuple):
    agents: int
    per_s: float
    times_ms: "np.ndarray[tuple[int], np.dtype[np.float64]]"


def measure(kind: str, shape: Shape, counts: Sequence[int], runs: int) -> Iterator[Asked]:
    """Yields a measurement for each run of each number of agents."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, ExitStack() as stack:
        job = {"kind": kind, "rows": shape.rows, "seed": shape.seed, "seconds": shape.seconds}
        job |= _filled(stack, kind, shape, Path(scratch))
        groups = [[*range(at, max(counts), PROCESSES)] for at in range(PROCESSES)]
        workers = [stack.enter_context(Worker({**job, "mine": group}, __name__)) for group in groups if group]
        for agents in counts:
            for _ in range(runs):
                for worker in workers:
                    worker.tell(agents)
                times_ms = 1000 * np.concatenate([np.array(worker.answer()) for worker in workers])
                yield Asked(agents, len(times_ms) / shape.seconds, times_ms)


def url_of(number: int) -> str:
    return f"http://h{number // _ON_HOST}.test/{number % _ON_HOST}"


def key_of(url: str) -> tuple[str, str]:
    return url.split("/")[2], hashlib.blake2b(url.encode(), digest_size=16).hexdigest()


# Filling


def _filled(stack: ExitStack, kind: str, shape: Shape, scratch: Path) -> dict[str, Any]:
    """Starts the database with all rows in it, and returns how to reach it."""
    urls = [url_of(number) for number in range(shape.rows)]
    if kind == "index":
        return {"directory": _fill_index(scratch / "crawl", urls)}
    if kind == "table":
        check_clients()
        place = connection(stack.enter_context(servers.azurite(scratch / "azurite")))
        _fill_table(place, urls)
        return {"connection": place}
    check_sql_client()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
    place = stack.enter_context(servers.postgresql(folder))
    _fill_sql(place, urls, "" if kind == "sql-plain" else ", PRIMARY KEY (host, row)")
    return {"connection": place}


def _fill_index(folder: Path, urls: Sequence[str]) -> str:
    Directory.prepare(folder, time.time())
    peer = StorePeer({"directory": str(folder), "names": ["a0"], "seed": 0, "urls": urls}, "a0")
    peer.close()
    return str(folder)


def _fill_table(place: str, urls: Sequence[str]) -> None:
    from azure.data.tables import TableServiceClient

    table = TableServiceClient.from_connection_string(place).create_table_if_not_exists("pages")
    for at in range(0, len(urls), _ON_HOST):
        keys = [(url, *key_of(url)) for url in urls[at : at + _ON_HOST]]
        rows = [{"PartitionKey": host, "RowKey": row, "URL": url, "Visit": False, "Hit": 1} for url, host, row in keys]
        table.submit_transaction([("create", row) for row in rows])
    table.close()


def _fill_sql(place: str, urls: Sequence[str], keys: str) -> None:
    import psycopg

    with psycopg.connect(place) as session:
        session.execute(_SCHEMA.format(keys))  # type: ignore[arg-type, unused-ignore]
        with session.cursor().copy("COPY pages FROM STDIN") as copy:
            for url in urls:
                copy.write_row((*key_of(url), url, False, 1))
    with psycopg.connect(place, autocommit=True) as session:
        session.execute("VACUUM ANALYZE pages")


def check_sql_client() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise Missing("needs a client of PostgreSQL: pip install 'psycopg[binary]'") from None


# Asking


def asking(job: Mapping[str, Any]) -> Ask:
    """Returns one agent's way to ask for a page; it has a connection of its own."""
    if job["kind"] == "index":
        store = Directory(job["directory"])
        index = PageIndex.open(store, Chain.read(store, "a0").files, Config().index)

        def look_up(url: str) -> None:
            found, _ = index.pages.look_up(page_keys([url]))
            assert found[0]

        return look_up
    if job["kind"] == "table":
        from azure.data.tables import TableServiceClient

        table = TableServiceClient.from_connection_string(job["connection"]).get_table_client("pages")

        def retrieve(url: str) -> None:
            assert table.get_entity(*key_of(url))["URL"] == url

        return retrieve
    import psycopg

    session = psycopg.connect(job["connection"], autocommit=True)

    def select(url: str) -> None:
        assert session.execute(_QUERY, key_of(url)).fetchone() == (url, False, 1)

    return select


def _repeated(ask: Ask, number: int, job: Mapping[str, Any]) -> list[float]:
    """Asks for random pages, one after the other, and returns how long each took."""
    chance, times = random.Random(f"{job['seed']} {number}"), []
    end_s = time.monotonic() + job["seconds"]
    while (start_s := time.monotonic()) < end_s:
        ask(url_of(chance.randrange(job["rows"])))
        times.append(time.monotonic() - start_s)
    return times


def serve() -> None:
    """A job on standard input; then numbers of agents, one per line: the times of all queries of those that are here
    go to standard output. The others wait."""
    job = json.loads(sys.stdin.readline())
    mine = job["mine"]
    with ThreadPoolExecutor(len(mine)) as threads:
        asks = [asking(job) for _ in mine]
        print("{}", flush=True)
        for line in sys.stdin:
            active = [number for number in mine if number < json.loads(line)]
            found = threads.map(_repeated, asks, active, repeat(job))
            print(json.dumps([taken_s for times in found for taken_s in times]), flush=True)


if __name__ == "__main__":
    serve()

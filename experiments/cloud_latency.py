"""This module times the way of a link through a queue and a table of several kinds, as `agents_latency` does with NATS.

Each agent puts links into the queues of others at random moments, takes those of its own, and writes them to a table:

| service | queue | table |
|---|---|---|
| nats | our exchange over nats-server | the agent's index; a commit to its directory |
| directory | our exchange over a directory | the agent's index; a commit to that directory |
| seaweedfs | the same over a bucket of SeaweedFS | the agent's index; a commit to that bucket |
| azurite | Azure's queue service, Microsoft's client | Azure's table service, Microsoft's client |

Azurite's agents do what Bahrami's do: receive a link, look whether the table has its page, insert it or add one to its
hits, delete the message. Started as a process, this module is some of the agents.
"""

import hashlib
import json
import os
import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from experiments import servers
from experiments.agents_latency import Notes, Peer, Point, Shape, points, serve
from experiments.servers import Missing
from gossamer.archive.manifest import LINKS, Message
from gossamer.archive.object_store import ObjectStore
from gossamer.archive.store import Directory, Store
from gossamer.cluster.nats_server import Server
from gossamer.cluster.store_exchange import LEAST_S, MOST_S, SILENCE, StoreExchange
from gossamer.config.folders import Address
from gossamer.crawl.inbox import encode
from gossamer.crawl.opening import mentioned
from gossamer.sharing.exchange import Exchange

SERVICES = ("nats", "directory", "seaweedfs", "azurite")
BUCKET = "lab"
_AT_ONCE = 32  # messages that one request receives: the most that Azure gives
_TABLE = "pages"


def measure(service: str, shape: Shape, agents: int, rates: Sequence[float]) -> Iterator[Point]:
    """Yields what the agents time at each rate; everything is new, and gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, ExitStack() as stack:
        job = {"service": service, **_started(stack, service, Path(scratch))}
        yield from points(stack, shape, job, agents, rates, "experiments.cloud_latency")


def _started(stack: ExitStack, service: str, scratch: Path) -> dict[str, Any]:
    """Starts the service and returns how to reach it."""
    if service == "nats":
        server = Server(scratch / "site")
        server.start()
        stack.callback(server.stop)
        return {"address": dict(server.address), "directory": str(scratch)}
    if service == "azurite":
        check_clients()
        ports = stack.enter_context(servers.azurite(scratch / "azurite"))
        return {"connection": connection(ports)}
    if service == "directory":
        Directory.prepare(scratch / "crawl", time.time())
        return {"directory": str(scratch / "crawl")}
    port = stack.enter_context(servers.seaweedfs(scratch / "weed", BUCKET))
    settings = {**servers.s3_settings(port), "GOSSAMER_CACHE": str(scratch / "cache")}
    os.environ.update(settings)
    ObjectStore.prepare(Address(f"s3://{BUCKET}/crawl"), time.time())
    return {"bucket": f"s3://{BUCKET}/crawl", "settings": settings}


class StorePeer(Peer):
    """An agent whose manifests are its queue: links that it is given go out with its next commit."""

    drain_s = 2.0

    def __init__(self, job: Mapping[str, Any], name: str) -> None:
        self._guard = threading.Lock()
        self._leaving: list[tuple[str, str, float]] = []  # to whom, the link, since when
        super().__init__(job, name)

    def _connect(self, job: Mapping[str, Any]) -> tuple[Store, Exchange]:
        store: Store
        if "bucket" in job:
            os.environ.update(job["settings"])
            store = ObjectStore.open(Address(job["bucket"]))
        else:
            store = Directory(job["directory"])
        exchange = StoreExchange(store, self._name, lambda: job["names"]).follow()
        self._closing.callback(exchange.close)
        return store, exchange

    def _publish(self, _: Notes) -> None:
        """Its time is noted when it is committed."""
        to = self._random.choice(self._others)
        number = self._numbers[to] = self._numbers.get(to, 0) + 1
        with self._guard:
            self._leaving.append((to, f"http://h{number % 997}.{to}.test/from/{self._name}/{number}", time.monotonic()))
        self._news.set()

    def _settle(self, notes: Notes, seen: Mapping[tuple[str, int], float], outbox: Sequence[Message] = ()) -> bool:
        with self._guard:
            leaving, self._leaving = self._leaving, []
        links = defaultdict[str, list[str]](list)
        for to, url, _ in leaving:
            links[to].append(url)
        outbox = [
            Message(self._name, self._chain.round, part, to, data, LINKS)
            for to, urls in links.items()
            for part, data in enumerate(encode(mentioned(urls)))
        ]
        number = self._chain.round
        if not super()._settle(notes, seen, outbox):
            return False
        now_s = time.monotonic()
        notes.sent += [((f"{self._name}>{to}", number), start_s, now_s) for to, _, start_s in leaving]
        return True


# Azure's services, through Microsoft's clients


def check_clients() -> None:
    try:
        import azure.data.tables
        import azure.storage.queue  # noqa: F401
    except ImportError:
        raise Missing("needs Microsoft's clients: pip install azure-storage-queue azure-data-tables") from None


def connection(ports: Mapping[str, int]) -> str:
    """Returns what the clients call a connection string."""
    account = f"AccountName={servers.AZURE_ACCOUNT};AccountKey={servers.AZURE_KEY}"
    places = [
        f"{kind.title()}Endpoint=http://127.0.0.1:{ports[kind]}/{servers.AZURE_ACCOUNT}" for kind in ("queue", "table")
    ]
    return ";".join(["DefaultEndpointsProtocol=http", account, *places])


class AzurePeer:
    """An agent of Bahrami's crawler, as far as queue and table are concerned."""

    drain_s = 2.0

    def __init__(self, job: Mapping[str, Any], name: str) -> None:
        from azure.core.exceptions import ResourceExistsError
        from azure.data.tables import TableServiceClient
        from azure.storage.queue import QueueServiceClient

        self._name, self._others = name, [other for other in job["names"] if other != name] or [name]
        self._random = random.Random(f"{job['seed']} {name}")
        self._queues = QueueServiceClient.from_connection_string(job["connection"])
        self._own = self._queues.get_queue_client(name.rjust(3, "q"))
        self._numbers: dict[str, int] = {}
        tables = TableServiceClient.from_connection_string(job["connection"])
        for queue in (other.rjust(3, "q") for other in {name, *self._others}):
            with suppress(ResourceExistsError):
                self._queues.create_queue(queue)
        self._table = tables.create_table_if_not_exists(_TABLE)

    def run(self, rate: float, until_s: float) -> Notes:
        notes = Notes()
        writing = threading.Thread(target=self._write, args=(rate, until_s, notes))
        writing.start()
        received_s = time.monotonic()
        end_s = until_s + self.drain_s
        while time.monotonic() < end_s:
            if self._take(notes):
                received_s = time.monotonic()
                end_s = max(end_s, received_s + self.drain_s)
            else:  # as our own exchange does: the longer nothing came, the later it asks again
                time.sleep(min(MOST_S, max(LEAST_S, SILENCE * (time.monotonic() - received_s))))
        writing.join()
        return notes

    def close(self) -> None:
        self._queues.close()
        self._table.close()

    def _write(self, rate: float, until_s: float, notes: Notes) -> None:
        next_s = time.monotonic() + self._random.expovariate(rate)
        while next_s < until_s:
            time.sleep(max(0.0, next_s - time.monotonic()))
            to = self._random.choice(self._others)
            number = self._numbers[to] = self._numbers.get(to, 0) + 1
            url = f"http://h{number % 997}.{to}.test/from/{self._name}/{number}"
            text = json.dumps({"stream": f"{self._name}>{to}", "number": number, "url": url})
            start_s = time.monotonic()
            self._queues.get_queue_client(to.rjust(3, "q")).send_message(text)
            notes.sent.append(((f"{self._name}>{to}", number), start_s, time.monotonic()))
            next_s += self._random.expovariate(rate)

    def _take(self, notes: Notes) -> bool:
        """Receives once, and writes what came to the table."""
        found = list(self._own.receive_messages(messages_per_page=_AT_ONCE, max_messages=_AT_ONCE))
        seen_s = time.monotonic()
        for message in found:
            link = json.loads(message.content)
            begun_s = time.monotonic()
            self._store(link["url"], notes)
            notes.got.append(((link["stream"], link["number"]), seen_s, begun_s, time.monotonic()))
            self._own.delete_message(message)
        return bool(found)

    def _store(self, url: str, notes: Notes) -> None:
        """Adds one to the page's hits, or inserts the page: the fields are those of Bahrami's Table 1."""
        from azure.core.exceptions import ResourceNotFoundError
        from azure.data.tables import UpdateMode

        host, row = url.split("/")[2], hashlib.blake2b(url.encode(), digest_size=16).hexdigest()
        start_s = time.monotonic()
        try:
            hits = int(self._table.get_entity(host, row, select=["Hit"])["Hit"])
        except ResourceNotFoundError:
            hits = 0
        notes.look_up.append(time.monotonic() - start_s)
        page = {"PartitionKey": host, "RowKey": row, "URL": url, "Visit": False, "Hit": hits + 1}
        self._table.upsert_entity(page, mode=UpdateMode.REPLACE)


def peer(job: Mapping[str, Any], name: str) -> Peer | AzurePeer:
    kinds: dict[str, type[Peer | AzurePeer]] = {"nats": Peer, "azurite": AzurePeer}
    return kinds.get(job["service"], StorePeer)(job, name)


if __name__ == "__main__":
    serve(peer)

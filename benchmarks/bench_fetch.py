"""What a request costs: CPU per request of the client process alone, against a server on loopback.

    python benchmarks/bench_fetch.py [REQUESTS]

Kept-alive and new connections; through the bare client, and through the fetcher with its polite workbench.
"""

import json
import multiprocessing
import select
import selectors
import socket
import sys
import time
from multiprocessing.connection import Connection

from gossamer.clocks import RealClock
from gossamer.config import Config
from gossamer.fetch.client import Client, Request
from gossamer.fetch.fetcher import Fetcher
from gossamer.fetch.resolver import Resolver
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.fetch.workbench import Workbench

HOSTS = 64
BODY = b"<html>" + b"x" * 1000
HEAD = "HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/html\r\nDate: now\r\nContent-Length: %d\r\n\r\n"
ANSWER = (HEAD % len(BODY)).encode() + BODY


def serve(ready: Connection) -> None:
    """As little as possible: every block of bytes that ends a header block is answered."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    ready.send(listener.getsockname()[1])
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(connection, selectors.EVENT_READ)
                continue
            connection = key.fileobj
            try:
                if connection.recv(65536):
                    connection.send(ANSWER)
                    continue
            except ConnectionError:
                pass
            selector.unregister(connection)
            connection.close()


def requests(count: int) -> list[Request]:
    return [
        Request(i + 1, f"http://h{i % HOSTS}.test/page/{i}", f"h{i % HOSTS}.test", rank=float(-i)) for i in range(count)
    ]


def bench_client(config: Config, count: int, reuse: bool) -> float:
    client = Client(config, RealClock(), Resolver(config.resolve, RealClock()))
    queues = {f"h{i}.test": [] for i in range(HOSTS)}
    for request in requests(count):
        queues[request.host].append(request)
    before = time.process_time()
    for queue in queues.values():
        client.start(queue.pop(), reuse)
    while client.active:
        for response in client.poll(1.0):
            queue = queues[response.request.host]
            if queue:
                client.start(queue.pop(), reuse)
    spent = time.process_time() - before
    client.close()
    return spent / count * 1e6


def bench_sockets(port: int, count: int) -> float:
    """The limit: non-blocking sockets, a constant request, an answer that is counted but not read."""
    request = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
    epoll = select.epoll()
    sockets = {}
    for _ in range(HOSTS):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setblocking(False)
        sockets[connection.fileno()] = connection
        epoll.register(connection.fileno(), select.EPOLLIN)
    before = time.process_time()
    for connection in sockets.values():
        connection.send(request)
    done = 0
    while done < count:
        for fd, _ in epoll.poll():
            sockets[fd].recv(65536)
            sockets[fd].send(request)
            done += 1
    spent = time.process_time() - before
    for connection in sockets.values():
        connection.close()
    epoll.close()
    return spent / count * 1e6


def bench_fetcher(config: Config, count: int) -> float:
    clock = RealClock()
    resolver = Resolver(config.resolve, clock)
    client = Client(config, clock, resolver)
    workbench = Workbench(config.polite, RobotsCache(config.polite, "bench"))
    done: list[int] = []
    back: list[object] = []
    fetcher = Fetcher(config, clock, client, workbench, lambda r: done.append(r.http_status), back.append)
    before = time.process_time()
    workbench.add(requests(count))
    while workbench.size:
        fetcher.step(1.0)
    spent = time.process_time() - before
    fetcher.stop()
    return spent / count * 1e6


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    parent, child = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(child,), daemon=True)
    server.start()
    port = parent.recv()
    config = Config().replace(
        {"polite.delay_s": 0.0, "polite.connections": HOSTS, "resolve.map": {"*": f"127.0.0.1:{port}"}}
    )
    results = {}
    for name, measure in (
        ("sockets_us", lambda: bench_sockets(port, count)),
        ("client_kept_us", lambda: bench_client(config, count, True)),
        ("client_new_us", lambda: bench_client(config, count // 4, False)),
        ("fetcher_kept_us", lambda: bench_fetcher(config, count)),
    ):
        measure()
        results[name] = round(min(measure() for _ in range(3)), 1)
        print(f"{name:16} {results[name]:8.1f} µs of CPU per request")
    server.terminate()
    server.join()
    results["client_ratio"] = round(results["client_kept_us"] / results["sockets_us"], 2)
    print(json.dumps(results))


if __name__ == "__main__":
    main()

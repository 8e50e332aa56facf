"""How many pages the test web serves: per second, and per second of its own CPU.

Three runs over the pages of one synthetic web: every page once (each is rendered), a few pages again and again (they
come from memory), and every page on a connection of its own. The client shares the machine, so the figure per
CPU-second of the server is the one to compare. The last line is JSON.
"""

import argparse
import json
import os
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from gossamer.testweb.plan import Kind
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

_TARGET = 8_000


class Client:
    """One connection that asks for the next page as soon as it has the last one; as little Python as possible."""

    def __init__(self, address: tuple[str, int], requests: Iterator[bytes], keep: bool) -> None:
        self._address, self._requests, self._keep = address, requests, keep
        self._buffer = memoryview(bytearray(1 << 20))
        self.bytes = self.pages = 0
        self.socket: socket.socket | None = None

    def begin(self) -> bool:
        request = next(self._requests, None)
        if request is None:
            return False
        if self.socket is None:
            self.socket = socket.create_connection(self._address)
        self.socket.sendall(request)
        self._left = -1
        return True

    def read(self) -> bool:
        """True when the answer is complete."""
        assert self.socket is not None
        size = self.socket.recv_into(self._buffer)
        if size == 0:
            raise ConnectionError("the server closed the connection early")
        self.bytes += size
        if self._left < 0:
            head = bytes(self._buffer[: min(size, 1_000)])
            end = head.index(b"\r\n\r\n") + 4
            length = head.lower().index(b"content-length:") + 15
            self._left = int(head[length : head.index(b"\r", length)]) + end
        self._left -= size
        if self._left:
            return False
        self.pages += 1
        if not self._keep:
            self.socket.close()
            self.socket = None
        return True


def crawl(address: str, requests: list[bytes], connections: int, keep: bool) -> tuple[float, float]:
    """Seconds and mean bytes of an answer."""
    host, _, port = address.rpartition(":")
    queue = iter(requests)
    epoll = select.epoll()
    began = time.perf_counter()
    clients: dict[int, Client] = {}

    def start(client: Client) -> None:
        if client.begin():
            assert client.socket is not None
            fd = client.socket.fileno()
            if fd not in clients or not keep:
                epoll.register(fd, select.EPOLLIN)
            clients[fd] = client
        elif client.socket is not None:
            clients.pop(client.socket.fileno()).socket = None

    everyone = [Client((host, int(port)), queue, keep) for _ in range(connections)]
    for client in everyone:
        start(client)
    while clients:
        for fd, _ in epoll.poll():
            if clients[fd].read():
                client = clients[fd] if keep else clients.pop(fd)
                start(client)
    epoll.close()
    return time.perf_counter() - began, sum(client.bytes for client in everyone) / len(requests)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=64)
    given = parser.parse_args()
    spec = WebSpec(pages=given.pages, chunked=0.0)
    figures: dict[str, float] = {}
    with RunningWeb(spec, log_path=Path(os.devnull), options=["--warm"]) as web:
        truth = web.truth
        pages = [page for page in truth.pages() if truth.kind(page) is Kind.OK]
        pages.sort(key=lambda page: page * 2_654_435_761 % 2**32)  # not host by host
        for name, chosen, keep in (
            ("each page once", pages, True),
            ("500 pages again and again", (pages[:500] * 40)[: len(pages)], True),
            ("a connection for each page", pages, False),
        ):
            end = "Connection: close\r\n\r\n" if not keep else "\r\n"
            requests = [
                f"GET {truth.plan.path(page)} HTTP/1.1\r\nHost: {truth.host(page).name}\r\n"
                f"User-Agent: bench\r\n{end}".encode()
                for page in chosen
            ]
            before = cpu_s(web.pid)
            seconds, size = crawl(web.address, requests, given.connections, keep)
            used = cpu_s(web.pid) - before
            rate, per_cpu = len(requests) / seconds, len(requests) / used
            print(f"{name:28} {rate:8,.0f} pages/s  {per_cpu:8,.0f} per CPU-second  {size / 1000:5.1f} KB a page")
            figures[name] = per_cpu
    worst = figures["each page once"]
    print(json.dumps({"pages_per_cpu_s": round(worst), "target": _TARGET, "ratio": round(worst / _TARGET, 2)}))


if __name__ == "__main__":
    main()

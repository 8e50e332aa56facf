"""A `GraphWeb` is a test web made from a link graph: page i has exactly the links of node i, in their order.

    web = GraphWeb(load(Path("graphs/cs-stanford.npz")))

Pages are small: a title and their links. The graph is the truth about its web; `sim/graphs.py` defines what it can be
made of, and which hosts it has.
"""

from collections.abc import Mapping
from html import escape
from urllib.parse import unquote, urlsplit

import numpy as np

from gossamer.arrays import I32
from gossamer.sim.graphs import Graph
from gossamer.testweb.answer import NO_HOST, NOT_FOUND, Answer, is_current

_ENOUGH = 0.9  # part of the pages that the start pages reach ...
_STARTS = 100  # ... if so many can


class GraphWeb:
    def __init__(self, graph: Graph, latency_ms: float = 0.0) -> None:
        self._graph = graph
        self._urls = graph.urls
        self._latency_s = latency_ms / 1000
        self._pages: dict[str, int] = {}
        self._hosts = set(graph.host_names)
        for page, url in enumerate(self._urls):
            host, place = _place(url)
            self._pages.setdefault(host + place, page)
            # Clients may quote differently than the list does.
            self._pages.setdefault(host + unquote(place), page)

    def knows(self, host: str) -> bool:
        return host in self._hosts

    def latency_s(self, host: str) -> float:
        return self._latency_s if host in self._hosts else 0.0

    def response(self, host: str, path: str, t_s: float, asked: Mapping[str, str]) -> Answer:  # noqa: ARG002
        """Returns the same answer at all times: time stands still here."""
        page = self._pages.get(host + path, -1)
        if page < 0:
            page = self._pages.get(host + unquote(path), -1)
        if page < 0:
            return NOT_FOUND if host in self._hosts else NO_HOST
        etag = f'"{page:x}"'
        head = f"Content-Type: text/html; charset=utf-8\r\nETag: {etag}\r\n".encode()
        if "if-none-match" in asked and is_current(asked, etag, 0.0):
            return Answer(304, head, b"")
        urls = self._urls
        links = "\n".join([f'<a href="{escape(urls[n])}">{n}</a>' for n in self._row(page).tolist()])
        body = f'<!DOCTYPE html>\n<html lang="en"><title>Page {page}</title>\n<body>\n{links}\n</body></html>\n'
        return Answer(200, head, body.encode())

    def start_urls(self) -> list[str]:
        """Returns pages with many links, until nine in ten pages can be reached or there are a hundred of them."""
        found = np.zeros(len(self._urls), dtype=np.bool_)
        starts: list[int] = []
        for page in np.argsort(-self._graph.degree, kind="stable"):
            if len(starts) == _STARTS or found.mean() >= _ENOUGH:
                break
            if not found[page]:
                starts.append(int(page))
                found |= self._graph.reachable([int(page)])
        return [self._urls[page] for page in starts]

    def _row(self, page: int) -> I32:
        return self._graph.indices[self._graph.indptr[page] : self._graph.indptr[page + 1]]


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

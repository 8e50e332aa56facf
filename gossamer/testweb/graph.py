"""A test web made from a link graph: page i has exactly the links of node i.

    web = GraphWeb(Path("graphs/cs-stanford.npz"))

The file holds `indptr` (n+1) and `indices`, the rows of a sparse matrix. A page's URL is line i of NAME.urls.gz beside
NAME.npz; else http://HOST.SUFFIX/i.html with the file's own `host` and `host_names`; else neighbours in the file's
order share one of `hosts` hosts g0.SUFFIX, g1.SUFFIX, ... Pages are small: a title and their links.
"""

import gzip
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from gossamer.errors import ConfigError
from gossamer.testweb.answer import NO_HOST, NOT_FOUND, Answer, is_current
from gossamer.testweb.mix import I64

_ENOUGH = 0.9  # part of the pages that the start pages reach ...
_STARTS = 100  # ... if so many can


class GraphWeb:
    def __init__(self, path: Path, hosts: int = 100, suffix: str = "test", latency_ms: float = 0.0) -> None:
        try:
            with np.load(path, allow_pickle=False) as file:
                self._indptr: I64 = file["indptr"].astype(np.int64)
                self._indices: npt.NDArray[np.int32] = file["indices"]
                names = (file["host"], file["host_names"]) if "host_names" in file else None
        except (OSError, KeyError, ValueError, BadZipFile) as error:
            raise ConfigError(f"{path} is no link graph (npz with indptr and indices): {error}") from None
        self._latency_s = latency_ms / 1000
        listed = path.with_name(path.name.removesuffix(".npz") + ".urls.gz")
        if listed.exists():
            with gzip.open(listed, "rt", encoding="utf-8") as lines:
                self._urls = [line.rstrip("\n") for line in lines]
        else:
            self._urls = _numbered(len(self._indptr) - 1, names, hosts, suffix)
        if len(self._urls) != len(self._indptr) - 1:
            raise ConfigError(f"{listed} has {len(self._urls)} lines for {len(self._indptr) - 1} nodes")
        self._pages: dict[str, int] = {}
        self._hosts: set[str] = set()
        for page, url in enumerate(self._urls):
            host, place = _place(url)
            self._hosts.add(host)
            self._pages.setdefault(host + place, page)
            # Clients may quote differently than the list does.
            self._pages.setdefault(host + unquote(place), page)

    # --- what a server asks

    def knows(self, host: str) -> bool:
        return host in self._hosts

    def latency_s(self, host: str) -> float:
        return self._latency_s if host in self._hosts else 0.0

    def response(self, host: str, path: str, t_s: float, asked: Mapping[str, str]) -> Answer:  # noqa: ARG002
        """Time stands still here."""
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
        """Pages with many links, until nine in ten pages can be reached or there are a hundred of them."""
        found = np.zeros(len(self._urls), dtype=np.bool_)
        starts: list[int] = []
        for page in np.argsort(-np.diff(self._indptr), kind="stable"):
            if len(starts) == _STARTS or found.mean() >= _ENOUGH:
                break
            if not found[page]:
                starts.append(int(page))
                self._spread(np.array([page]), found)
        return [self._urls[page] for page in starts]

    # --- the truth

    def pages(self) -> range:
        return range(len(self._urls))

    def url(self, page: int) -> str:
        return self._urls[page]

    def page(self, url: str) -> int:
        return self._pages.get("".join(_place(url)), -1)

    def links(self, page: int) -> list[int]:
        return list(map(int, self._row(page)))

    def reachable(self, seeds: Iterable[int | str]) -> I64:
        """The pages that links lead to from these pages or URLs, sorted."""
        start = [self.page(seed) if isinstance(seed, str) else seed for seed in seeds]
        found = np.zeros(len(self._urls), dtype=np.bool_)
        self._spread(np.array([page for page in start if page >= 0], dtype=np.int64), found)
        return np.flatnonzero(found)

    def _row(self, page: int) -> npt.NDArray[np.int32]:
        return self._indices[self._indptr[page] : self._indptr[page + 1]]

    def _spread(self, front: I64, found: npt.NDArray[np.bool_]) -> None:
        """Mark what can be reached from `front`, breadth first."""
        while len(front):
            found[front] = True
            first, counts = self._indptr[front], self._indptr[front + 1] - self._indptr[front]
            skipped = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
            targets = np.unique(self._indices[skipped + np.arange(counts.sum())])
            front = targets[~found[targets]].astype(np.int64)


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _numbered(
    count: int, names: tuple[npt.NDArray[np.int16], npt.NDArray[np.bytes_]] | None, hosts: int, suffix: str
) -> list[str]:
    if names is not None:
        labels = [name.decode().lower() for name in names[1].tolist()]
        return [f"http://{labels[host]}.{suffix}/{page}.html" for page, host in enumerate(names[0].tolist())]
    hosts = max(1, min(hosts, count))
    return [f"http://g{page * hosts // count}.{suffix}/{page}.html" for page in range(count)]

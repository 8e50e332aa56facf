"""A `SyntheticWeb` is a web as a pure function of (random seed, host, path, time), and knows the truth about itself.

web = SyntheticWeb(WebSpec(seed=1, hosts=300, pages=20_000))
status, head, body, chunked = web.response("h0.test", "/", t_s=0.0, asked={})
web.pages()                      numbers of all pages: 0 to n-1, host by host
web.url(page), web.page(url)     a page's URL; the page at a URL (-1: none)
web.kind(page), web.target(page) what it is; where it redirects to or whom it repeats
web.links(page, t_s)             the pages that it links to at a time, in order
web.reachable(seeds)             what a crawl from there must find, robots obeyed or not
web.allowed(page)                the verdict of robots.txt
web.version(page, t_s)           how often it has changed by then; web.changed_at(page, number) says when
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import numpy as np
from isal import igzip

from gossamer.arrays import I32, I64
from gossamer.testweb import changes
from gossamer.testweb.answer import NO_HOST, Answer, http_date, is_current, moved, text
from gossamer.testweb.extras import extra
from gossamer.testweb.hosts import Host
from gossamer.testweb.mix import draw, unit
from gossamer.testweb.plan import Kind, Plan
from gossamer.testweb.reach import Reach
from gossamer.testweb.render import Renderer
from gossamer.testweb.spec import EPOCH_S, WebSpec

# Plain numbers: comparing an enum costs microseconds, and this runs for every request.
_OK, _REDIRECT, _ERROR, _NEAR_DUPLICATE = (
    int(kind) for kind in (Kind.OK, Kind.REDIRECT, Kind.ERROR, Kind.NEAR_DUPLICATE)
)
_HTML = "Content-Type: text/html\r\n"
_BLOCK = 64  # links are drawn for so many neighbours at once: one alone costs twenty times as much a page
_BLOCKS = 16_384  # so many are kept: those of a million pages, 0.4 GB
_DAYS = 3 * 365  # how long before t = 0 pages were last touched, at most; whole days, so that dates repeat


class SyntheticWeb:
    def __init__(self, spec: WebSpec, cache_bytes: int = 64 << 20) -> None:
        self.spec = spec
        self.plan = Plan(spec)
        self._reach = Reach(self.plan)
        self._renderer = Renderer(self.plan)
        self._blocks: dict[int, list[I32]] = {}
        self._room = cache_bytes
        self._asked_before = bytearray(spec.pages)
        self._rendered: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    # --- what a server asks

    def knows(self, host: str) -> bool:
        return self.plan.hosts.number(host) >= 0

    def latency_s(self, host: str) -> float:
        number = self.plan.hosts.number(host)
        return self.plan.hosts[number].latency_s if number >= 0 else 0.0

    def start_urls(self) -> list[str]:
        return [self.url(0)]

    def response(self, host: str, path: str, t_s: float, asked: Mapping[str, str]) -> Answer:
        number = self.plan.hosts.number(host)
        if number < 0:
            return NO_HOST
        page = self.plan.page(number, path)
        home = self.plan.hosts[number]
        if page < 0:
            return extra(self.plan, home, path)
        kind = self.plan.kind_at[page]
        if kind == _REDIRECT:
            return self._redirect(page, number)
        if kind == _ERROR:
            return self._error(int(self.plan.status[page]))
        return self._content(home, page, kind, t_s, asked)

    def _redirect(self, page: int, host: int) -> Answer:
        target = self.plan.target_at[page]
        local = self.plan.host[target] == host and unit(draw(self.plan.bits_at[page], 70)) < 0.5
        return moved(int(self.plan.status[page]), self.plan.path(target) if local else self.url(target))

    def _error(self, status: int) -> Answer:
        more = f"Retry-After: {self.spec.retry_after_s}\r\n".encode() if status == 503 else b""
        return text(status, f"<!DOCTYPE html>\n<title>{status}</title>\n", "text/html; charset=utf-8", more)

    def _content(self, home: Host, page: int, kind: int, t_s: float, asked: Mapping[str, str]) -> Answer:
        source = page if kind == _OK else self.plan.target_at[page]  # whose text and changes it has
        shown = page if kind == _NEAR_DUPLICATE else source
        number = self.version(source, t_s)
        modified_s = self._modified_s(source, number)
        head = f"Content-Type: text/html; charset={home.charset}\r\n" if home.declares else _HTML
        if home.validators:
            etag = f'"{source:x}-{shown:x}-{number:x}"'
            head += f"ETag: {etag}\r\nLast-Modified: {http_date(modified_s)}\r\n"
            if asked and is_current(asked, etag, modified_s):
                return Answer(304, head.encode(), b"")
        body = self._body(shown, source, number, modified_s)
        if home.gzip:
            head += "Vary: Accept-Encoding\r\n"
            if "gzip" in asked.get("accept-encoding", ""):
                return Answer(200, f"{head}Content-Encoding: gzip\r\n".encode(), _gzip(body), home.chunked)
        return Answer(200, head.encode(), body, home.chunked)

    def _body(self, page: int, source: int, version: int, modified_s: float) -> bytes:
        key = (page, version)
        body = self._rendered.get(key)
        if body is None:
            twin = -1 if page == source else source
            targets = self._targets(source, version)
            body = self._renderer.page(page, version, http_date(modified_s), targets, twin)
            if self._asked_before[page]:
                self._remember(key, body)
            self._asked_before[page] = 1
        return body

    def _remember(self, key: tuple[int, int], body: bytes) -> None:
        """Keeps what is asked for again, the oldest leaving first.

        A crawl asks once for most pages: to keep those would only have each new page written to cold memory.
        """
        self._room -= len(body)
        while self._room < 0 and self._rendered:
            self._room += len(self._rendered.popitem(last=False)[1])
        self._rendered[key] = body

    def _targets(self, page: int, version: int) -> list[int]:
        """Returns targets of links in order; those on other hosts as ~page, for the renderer."""
        if version:
            return _plain(self._rows(np.array([page]), version)[0])
        number, nth = divmod(page, _BLOCK)
        block = self._blocks.get(number)
        if block is None:
            if len(self._blocks) >= _BLOCKS:
                self._blocks.clear()
            first = number * _BLOCK
            pages = np.arange(first, min(first + _BLOCK, self.spec.pages))
            block = self._blocks[number] = self._rows(pages, 0)
        return _plain(block[nth])

    def _rows(self, pages: I64, version: int) -> list[I32]:
        matrix = self.plan.link_matrix(pages, np.full(len(pages), version))
        local = self.plan.host[matrix] == self.plan.host[pages][:, None]
        counts = self.plan.links[pages]
        flat = np.where(local, matrix, ~matrix)[np.arange(matrix.shape[1]) < counts[:, None]]
        return np.split(flat.astype(np.int32), np.cumsum(counts)[:-1])

    def warm(self) -> None:
        """Prepares what pages are made of, and as many pages as there is room for, so that a benchmark's first pages
        cost what its last ones do."""
        self._renderer.warm()
        for page in self.pages():
            if page % _BLOCK == 0 and page < _BLOCK * _BLOCKS:
                self._targets(page, 0)
            if self.kind(page) is Kind.OK and self._room > 8 * self.spec.page_bytes:
                self._asked_before[page] = 1
                self._body(page, page, 0, self._modified_s(page, 0))

    # --- the truth

    def pages(self) -> range:
        return range(self.spec.pages)

    def url(self, page: int) -> str:
        return f"http://{self.host(page).name}{self.plan.path(page)}"

    def urls(self, pages: Iterable[int]) -> list[str]:
        return [self.url(int(page)) for page in pages]

    def page(self, url: str) -> int:
        parts = urlsplit(url)
        host = self.plan.hosts.number(parts.hostname or "")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return self.plan.page(host, path) if host >= 0 and parts.scheme == "http" else -1

    def host(self, page: int) -> Host:
        return self.plan.hosts[self.plan.host_at[page]]

    def kind(self, page: int) -> Kind:
        return Kind(self.plan.kind_at[page])

    def status(self, page: int) -> int:
        return int(self.plan.status[page])

    def target(self, page: int) -> int:
        return self.plan.target_at[page]

    def links(self, page: int, t_s: float = 0.0) -> list[int]:
        """Returns distinct targets in document order; none of redirects and errors (see `target` for redirects)."""
        kind = self.kind(page)
        if kind in (Kind.REDIRECT, Kind.ERROR):
            return []
        source = page if kind is Kind.OK else self.target(page)
        canonical = [source] if kind is Kind.NEAR_DUPLICATE else []
        targets = self._targets(source, self.version(source, t_s))
        return list(dict.fromkeys(canonical + [target if target >= 0 else ~target for target in targets]))

    def version(self, page: int, t_s: float) -> int:
        rate = self.plan.rate_at[page]
        return changes.version(self.plan.bits_at[page], rate, t_s) if rate else 0

    def changed_at(self, page: int, number: int) -> float:
        """Returns when the number-th change of a page happens; infinity if never."""
        return changes.changed_at(self.plan.bits_at[page], self.plan.rate_at[page], number)

    def allowed(self, page: int, agent: str = "gossamer") -> bool:
        return bool(self._reach.allowed(np.array([page]), agent)[0])

    def reachable(
        self,
        seeds: Iterable[int | str] = (0,),
        obey_robots: bool = True,
        sitemaps: bool = True,
        agent: str = "gossamer",
    ) -> I64:
        """Returns the pages that a complete crawl from these pages or URLs requests at t = 0, sorted.

        Redirects are followed and pages that fail are included; pages that robots.txt forbids are not.
        """
        start = [self.page(seed) if isinstance(seed, str) else seed for seed in seeds]
        return self._reach.closure(np.array(start, dtype=np.int64), obey_robots, sitemaps, agent)

    def _modified_s(self, page: int, version: int) -> float:
        if version:
            return EPOCH_S + self.changed_at(page, version)
        return EPOCH_S - draw(self.plan.bits_at[page], 71) % _DAYS * 86_400


def _plain(row: I32) -> list[int]:
    numbers: list[int] = row.tolist()
    return numbers


def _gzip(body: bytes) -> bytes:
    return igzip.compress(body, compresslevel=1, mtime=0)

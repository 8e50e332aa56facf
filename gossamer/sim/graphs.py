"""A `Graph` is a link graph as columns: who links to whom, on which host, how large, how fast. `load` reads one.

Three kinds of file can be read: .npz with the rows of a sparse matrix (`indptr`, `indices`; optionally `host`,
`host_names`, `page_bytes`, and URLs line by line in NAME.urls.gz beside NAME.npz), lists of links (two columns of
numbers, names or URLs, plain or gzipped), and a crawl's directory. Graphs that do not know their hosts get them by a
rule, and say so.
"""

import gzip
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from gossamer.arrays import F64, I32, I64, U64, Bools, Generic
from gossamer.errors import ConfigError
from gossamer.sim.hosts import host_rule
from gossamer.web.url import host_of, normalise, page_keys

PAGE_BYTES = 12_000.0  # of pages whose size nobody knows
_FEW = 1_000  # one in so many URLs may be none


@dataclass(frozen=True)
class Graph:
    name: str
    indptr: I64
    indices: I32
    host: I32  # of each page
    host_names: list[str]
    page_bytes: F64
    rule: str  # how pages came to their hosts, in words
    has_hosts: bool = True  # false: they come from a rule
    listed: list[str] | None = None  # URLs in normal form, if it has its own
    latency_s: F64 | None = None  # of hosts, as measured
    speed: F64 | None = None  # of hosts, bytes per second, as measured
    starts: I32 | None = None  # where the crawl that it comes from began

    @property
    def pages(self) -> int:
        return len(self.indptr) - 1

    @property
    def links(self) -> int:
        return len(self.indices)

    @cached_property
    def degree(self) -> I64:
        return np.diff(self.indptr)

    @cached_property
    def urls(self) -> list[str]:
        if self.listed is not None:
            return self.listed
        names = self.host_names
        return [f"http://{names[host]}/{page}.html" for page, host in enumerate(self.host.tolist())]

    @cached_property
    def keys(self) -> U64:
        """As the index has them."""
        return page_keys(self.urls)

    def sources(self) -> I32:
        """The source of each link."""
        return np.repeat(np.arange(self.pages, dtype=np.int32), self.degree)

    def reachable(self, starts: Iterable[int]) -> Bools:
        """Which pages links lead to from these."""
        found = np.zeros(self.pages, np.bool_)
        front = np.unique(np.fromiter(starts, np.int64))
        while len(front):
            found[front] = True
            first, counts = self.indptr[front], self.degree[front]
            skipped = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
            targets = np.unique(self.indices[skipped + np.arange(counts.sum())])
            front = targets[~found[targets]].astype(np.int64)
        return found

    def with_hosts(self, rule: str, suffix: str = "test") -> "Graph":
        """The same links on other hosts; `rule` as in `sim/hosts.py`."""
        host, words = host_rule(rule, self.indptr, self.indices)
        names = [f"g{number}.{suffix}" for number in range(int(host.max(initial=0)) + 1)]
        return replace(
            self, host=host, host_names=names, rule=words, has_hosts=False, listed=None, latency_s=None, speed=None
        )


def load(path: Path, hosts: str = "", suffix: str = "test") -> Graph:
    """A graph from whatever `path` is. `hosts`: a rule to use instead of the hosts that it has."""
    if path.is_dir():
        from gossamer.sim.crawled import crawled  # DuckDB: only who needs it waits for it

        graph = crawled(path)
    elif path.suffix == ".npz":
        graph = _matrix(path, suffix)
    else:
        graph = _edges(path, suffix)
    return graph.with_hosts(hosts, suffix) if hosts else graph


def linked(source: I64, target: I64, pages: int) -> tuple[I64, I32]:
    """Returns the rows of distinct links, in the order in which each page has them: `indptr` and `indices`."""
    order = np.argsort(source, kind="stable")
    source, target = source[order], target[order]
    pairs = source * pages + target
    distinct = np.zeros(len(pairs), np.bool_)
    distinct[np.unique(pairs, return_index=True)[1]] = True
    counts = np.bincount(source[distinct], minlength=pages)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))), target[distinct].astype(np.int32)


def _matrix(path: Path, suffix: str) -> Graph:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            indptr, indices = file["indptr"].astype(np.int64), file["indices"].astype(np.int32)
            more = {name: file[name] for name in ("host", "host_names", "page_bytes") if name in file}
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; give an .npz file, a list of links or a crawl's directory") from None
    except (OSError, KeyError, ValueError, BadZipFile) as error:
        raise ConfigError(f"{path} is no link graph (npz with indptr and indices): {error}") from None
    pages = len(indptr) - 1
    is_sound = pages >= 1 and indptr[0] == 0 and (np.diff(indptr) >= 0).all() and indptr[-1] == len(indices)
    if not is_sound or (len(indices) and not 0 <= indices.min() <= indices.max() < pages):
        raise ConfigError(f"{path} is no link graph: indptr and indices do not fit together")
    name = path.name.removesuffix(".npz")
    sizes = more["page_bytes"].astype(np.float64) if "page_bytes" in more else np.full(pages, PAGE_BYTES)
    listed = path.with_name(f"{name}.urls.gz")
    if listed.exists():
        with gzip.open(listed, "rt", encoding="utf-8") as lines:
            urls = [line.rstrip("\n") for line in lines]
        if len(urls) != pages:
            raise ConfigError(f"{listed} has {len(urls)} lines for {pages} pages")
        return _named(name, indptr, indices, urls, sizes)
    if "host" in more:
        names = [f"{label.decode().lower()}.{suffix}" for label in more["host_names"].tolist()]
        return Graph(name, indptr, indices, more["host"].astype(np.int32), names, sizes, "its own hosts")
    return Graph(name, indptr, indices, np.zeros(pages, np.int32), [], sizes, "").with_hosts("power", suffix)


def _named(name: str, indptr: I64, indices: I32, urls: list[str], sizes: F64) -> Graph:
    """Hosts are those of the URLs. A few that are none (old lists of real hosts have such) get names of their own."""
    normal = [normalise(url if ":" in url else f"http://{url}/") or "" for url in urls]
    bad = [number for number, url in enumerate(normal) if not url]
    if len(bad) * _FEW > len(urls):
        raise ConfigError(f"{name}: {urls[bad[0]]!r} is no URL that can be crawled, and {len(bad) - 1:,} more are none")
    for number in bad:
        normal[number] = f"http://n{number}.test/"
    rule = "hosts of its URLs" + (f", but for {len(bad):,} that are none" if bad else "")
    names = sorted({host_of(url) for url in normal})
    numbers = {host: number for number, host in enumerate(names)}
    host = np.fromiter((numbers[host_of(url)] for url in normal), np.int32, len(normal))
    return Graph(name, indptr, indices, host, names, sizes, rule, listed=normal)


def _edges(path: Path, suffix: str) -> Graph:
    """Two columns, separated by whatever the first line has between them; lines with # are remarks."""
    columns = _columns(path)
    name = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    labels, numbers = np.unique(np.concatenate(columns), return_inverse=True)
    if labels.dtype.kind == "i" and labels[0] < 0:
        raise ConfigError(f"{path}: page {labels[0]} is negative; pages are numbered from 0")
    count = len(columns[0])
    source, target = numbers[:count].astype(np.int64), numbers[count:].astype(np.int64)
    sizes = np.full(len(labels), PAGE_BYTES)
    links = linked(source, target, len(labels))
    if labels.dtype.kind != "i" and "." in str(labels[0]):
        return _named(name, *links, [str(label) for label in labels.tolist()], sizes)
    return Graph(name, *links, np.zeros(len(labels), np.int32), [], sizes, "").with_hosts("power", suffix)


def _columns(path: Path) -> list[Generic]:
    import pyarrow as pa
    from pyarrow import csv

    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            skipped, first = 0, next(lines, "")
            while first.startswith("#"):
                skipped, first = skipped + 1, next(lines, "")
        between = next((mark for mark in "\t, " if mark in first.strip()), "\t")
        table = csv.read_csv(
            path,
            csv.ReadOptions(column_names=["source", "target"], skip_rows=skipped),
            csv.ParseOptions(delimiter=between),
        )
        if not len(table):
            raise ConfigError(f"{path} has no links")
        kind = pa.int64() if all(pa.types.is_integer(column.type) for column in table.columns) else pa.string()
        return [column.cast(kind).to_numpy() for column in table.columns]
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; give an .npz file, a list of links or a crawl's directory") from None
    except (OSError, UnicodeDecodeError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"{path} is no list of links: two columns, with one tab, comma or space between; "
            f"lines that begin with # are remarks ({reason})"
        ) from None

"""How update, generate and flush grow with the number of known URLs: 1 M, 10 M and 50 M.

An index is bulk-built with power-law hosts, a run of a tenth of its pages on top of the base, so that whole
merges happen while we measure. Then come rounds of a million link contributions from 10,000 visited pages (most
of them to popular pages, by a power law), a flush with synced files, and a generate of 10,000 pages with
their URLs. Half-way everything is closed and opened again, as after a restart: what the frontier needs to go on counts
as part of that round's generate. The last line is JSON.
"""

import argparse
import gc
import json
import os
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import machine, write_section
from gossamer import config
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Directory
from gossamer.arrays import I64, Keys, Rows
from gossamer.columns import HOST, NEVER, PAGE, Status
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.update import VISIT, CashUse, Links, RoundColumns, update
from gossamer.frontier.caps import domain_key
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.frontier_file import KIND
from gossamer.frontier.index_files import file_name
from gossamer.frontier.index_pack import opened
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.frontier.run_file import Run, write_run
from gossamer.frontier.sorted_runs import CHUNK_ROWS, Bounds
from gossamer.frontier.strategies import strategy

MILLION = 1_000_000
BUSY = 1.5  # load average at which something else runs besides
WIDTH = 10_000
LINKS = 100  # per visited page
NEW_SHARE = 0.08  # of the contributions: 10-20 % of the distinct targets
PER_HOST = 100
PAGES_PER_HOST = 50  # on average
TEXT_BYTES = 48
NOW_S = 1_700_000_000
LIMITS = config.Limits(pages_per_host=0, pages_per_domain=0, hosts_per_domain=0)
SETTINGS = config.Index()


class Resident:
    """Peak of our own memory while inside: clean pages of mapped files can be dropped at any time."""

    peak_mb = 0.0

    def __enter__(self) -> "Resident":
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.01):
            self.peak_mb = max(self.peak_mb, self.now_mb())

    @staticmethod
    def now_mb() -> float:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) / 1024
        raise OSError("no RssAnon in /proc/self/status: run this on Linux")


def host_sizes(known: int, rng: np.random.Generator) -> tuple[Keys, I64]:
    """Power-law hosts, none above the usual cap of 25,000 pages."""
    hosts = np.unique(rng.integers(1, 2**24, max(known // PAGES_PER_HOST, 10), dtype=np.uint64))
    weights = 1.0 / np.arange(1, len(hosts) + 1) ** 0.8
    sizes = np.clip(weights / weights.sum() * known, 1, 25_000).astype(np.int64)
    sizes += -(-(known - int(sizes.sum())) // len(hosts))
    return hosts, rng.permutation(sizes)


def page_rows(keys: Keys, order: Keys, rng: np.random.Generator) -> Rows:
    """Rows as a crawl leaves them: one page in seven visited, cash and hits by power laws."""
    rows = np.zeros(len(keys), PAGE.numpy)
    rows["key"], rows["text"] = keys, order * np.uint64(TEXT_BYTES)
    rows["cash"] = (2.0**28 / (1.0 - rng.random(len(keys)))).clip(0, 2**44)
    rows["hits"] = (1.0 / (1.0 - rng.random(len(keys)))).clip(1, 2**22)
    rows["depth"] = rng.integers(1, 15, len(keys))
    visited = rng.random(len(keys)) < 0.15
    rows["status"][visited], rows["due_s"][visited] = Status.FETCHED, NEVER
    rows["tries"], rows["hops"] = rng.random(len(keys)) < 0.01, rng.random(len(keys)) < 0.02
    return rows


def bounds_of(count: int) -> Bounds:
    return {
        "key": (0, 2**64 - 1), "cash": (0, 2**44), "text": (0, count * TEXT_BYTES), "hits": (0, 2**22),
        "due_s": (0, NEVER), "status": (0, 6), "depth": (0, 15), "hops": (0, 1), "tries": (0, 1),
    }  # fmt: skip


def url_of(key: int) -> str:
    return f"http://h{key >> 40:06x}.example/p/{key & 0xFFFFFFFFFF:010x}".ljust(TEXT_BYTES - 2, "-")


def write_heap(path: Path, keys: Keys) -> None:
    """The texts of `url_of`, in order of discovery, made by columns."""
    head = (TEXT_BYTES - 2).to_bytes(2, "little") + url_of(0).encode()
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    places = [(10 + i, 60 - 4 * i) for i in range(6)] + [(27 + i, 36 - 4 * i) for i in range(10)]
    with path.open("wb") as file:
        for at in range(0, len(keys), CHUNK_ROWS):
            part = keys[at : at + CHUNK_ROWS]
            text = np.tile(np.frombuffer(head, np.uint8), (len(part), 1))
            for place, shift in places:
                text[:, place] = digits[(part >> np.uint64(shift) & np.uint64(15)).astype(np.intp)]
            file.write(text.tobytes())


@dataclass
class Built:
    """An index on disk, the way a long crawl would have left it."""

    store: Directory
    hosts: Keys
    rng: np.random.Generator
    files: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, known: int) -> "Built":
        rng = np.random.default_rng(known)
        hosts, sizes = host_sizes(known, rng)
        low = rng.integers(0, 2**40, int(sizes.sum()), dtype=np.uint64)
        keys = np.sort(np.repeat(hosts, sizes) << np.uint64(40) | low)
        keys = keys[np.diff(keys, prepend=np.uint64(0)) > 0]
        built = cls(Directory.prepare(folder, NOW_S), hosts, rng)
        order = rng.permutation(len(keys)).astype(np.uint64)
        built._table("index.page.base", 1, keys, order, len(keys))
        some = rng.random(len(keys)) < 0.1
        built._table("index.page.run", 2, keys[some], order[some], len(keys))
        built._hosts(keys)
        by_order = np.empty_like(keys)
        by_order[order] = keys
        path = built.store.scratch("heap")
        write_heap(path, by_order)
        built._put("index.heap", 1, path, "0")
        return built

    def _put(self, kind: str, number: int, path: Path, extra: str = "") -> None:
        name = file_name(kind, number, extra)
        self.store.put(name, path)
        self.files.setdefault(kind, []).append(name)

    def _table(self, kind: str, number: int, keys: Keys, order: Keys, total: int) -> None:
        steps = range(0, len(keys), CHUNK_ROWS)
        rows = (page_rows(keys[at : at + CHUNK_ROWS], order[at : at + CHUNK_ROWS], self.rng) for at in steps)
        path = self.store.scratch(kind)
        write_run(path, PAGE, rows, len(keys), bounds_of(total), total)
        self._put(kind, number, path)

    def _hosts(self, keys: Keys) -> None:
        rows = np.zeros(len(self.hosts), HOST.numpy)
        rows["host"], rows["known"] = np.unique(host_of_key(keys), return_counts=True)
        names = (url_of(host << 40).split("/")[2] for host in rows["host"].tolist())
        rows["domain"] = np.fromiter(map(domain_key, names), np.uint32, len(rows))  # each host is its own domain
        rows["visited"] = rows["known"] * 0.15
        path = self.store.scratch("host")
        write_run(path, HOST, [rows], len(rows), dict.fromkeys(HOST.names, (0, 2**32 - 1)), len(rows))
        self._put("index.host.base", 1, path)

    def apply(self, changes: Changes) -> None:
        """What a commit does with a flush."""
        for kind, names in changes.removed.items():
            for name in names:
                self.files[kind].remove(name)
        for kind, names in changes.added.items():
            self.files.setdefault(kind, []).extend(names)
        named = {name for names in self.files.values() for name in names}  # several kinds may name a pack
        self.store.delete(*{name for names in changes.removed.values() for name in names} - named)

    def bytes_besides_text(self) -> int:
        names = [(kind, name) for kind, names in self.files.items() if "heap" not in kind for name in names]
        return sum(len(opened(self.store.local(name), kind)[0]) for kind, name in names)


def links_of(taken: Rows, known: Keys, built: Built) -> RoundColumns:
    """Visits of what was generated, and their links: distinct per page, shuffled over the whole index."""
    rng, draws = built.rng, LINKS * 9 // 8  # some pages are drawn twice
    count = len(taken) * draws
    visits = np.zeros(len(taken), VISIT.numpy)
    visits["key"], visits["status"], visits["due_s"] = taken["key"], Status.FETCHED, NEVER
    visits["cash_use"] = CashUse.SPEND
    where = rng.random(count)
    popular = rng.random(count) < 0.7
    where[popular] **= 6
    # The popular pages are spread over all keys by a multiplication.
    places = (where * len(known)).astype(np.uint64) * np.uint64(0x9E3779B1) % np.uint64(len(known))
    target = known[places]
    fresh = np.flatnonzero(rng.random(count) < NEW_SHARE)
    source = np.repeat(np.arange(len(taken), dtype=np.int32), draws)
    # Most new pages are on the host of the page that links to them.
    near = rng.random(len(fresh)) < 0.75
    hosts = np.where(near, host_of_key(taken["key"])[source[fresh]], rng.choice(built.hosts, len(fresh)))
    made = hosts.astype(np.uint64) << np.uint64(40) | rng.integers(0, 2**40, len(fresh), dtype=np.uint64)
    target[fresh] = made
    order = np.lexsort((target, source))
    source, target = source[order], target[order]
    distinct = (np.diff(target, prepend=np.uint64(0)) != 0) | (np.diff(source, prepend=-1) != 0)
    source, target = source[distinct], target[distinct]
    urls = {key: url_of(key) for key in made.tolist()}
    return RoundColumns(visits, Links(source, target, np.ones(len(source), np.bool_)), urls)


@dataclass
class Measured:
    known: int
    update_s: list[float] = field(default_factory=list)
    flush_s: list[float] = field(default_factory=list)
    update_cpu_s: list[float] = field(default_factory=list)
    flush_cpu_s: list[float] = field(default_factory=list)
    generate_s: list[float] = field(default_factory=list)
    links: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    keep_s: list[float] = field(default_factory=list)  # of the flush: rounds that wrote the frontier's file
    kept_bytes: int = 0
    restart_s: float = 0.0  # of generate, half-way: restoring the frontier, and the first take
    scan_s: float = 0.0  # the same without the file
    open_s: float = 0.0
    bytes_per_url: float = 0.0
    peak_mb: float = 0.0
    rescans: int = 0
    scanned: bool = False  # the restart had to scan: there was no file, because the index is small

    @property
    def round_s(self) -> float:
        """Update and flush: what a round costs, merges included."""
        return float(np.mean(self.update_s) + np.mean(self.flush_s))

    @property
    def round_cpu_s(self) -> float:
        return float(np.mean(self.update_cpu_s) + np.mean(self.flush_cpu_s))

    def row(self) -> str:
        means = [float(np.mean(values)) for values in (self.update_s, self.flush_s, self.generate_s)]
        cpu = f"{np.mean(self.update_cpu_s):6.3f} {np.mean(self.flush_cpu_s):6.3f} {max(self.flush_cpu_s):7.3f}"
        return (
            f"{self.known / MILLION:7.1f} {means[0]:9.3f} {means[1]:9.3f} {max(self.flush_s):9.3f} {cpu}"
            f" {means[2]:9.3f} {self.restart_s:10.2f} {self.scan_s:7.2f} {self.open_s:7.2f} {self.bytes_per_url:9.1f}"
            f" {self.peak_mb:8.0f}"
        )


HEAD = (
    "known M  update s   flush s   (worst)    CPU  flush (worst) generate s"
    " (restart s) scan s  open s  byte/URL  peak MB"
)


class Crawl:
    """The parts of a crawl that are measured, on an index that was built before."""

    def __init__(self, built: Built, known: int) -> None:
        self.result = Measured(known)
        self._built = built
        self._order = strategy("opic")
        self._sample = Run("sample", built.store.local(built.files["index.page.base"][0]), PAGE).keys
        self._open()
        self._ledger = Ledger(known=self._index.count, minted=2**61, pool=2**50)
        start = time.perf_counter()
        self._taken = self._frontier.take(WIDTH, NOW_S, PER_HOST)  # reads the whole index
        self.result.scan_s = time.perf_counter() - start
        self._scans_before = 1

    def _open(self) -> float:
        """Returns the seconds that the frontier took."""
        start = time.perf_counter()
        self._index = PageIndex.open(self._built.store, self._built.files, SETTINGS)
        self.result.open_s = time.perf_counter() - start
        start = time.perf_counter()
        self._frontier = Frontier(self._index, self._order, SETTINGS)
        self._frontier.restore(self._built.store, self._built.files)
        return time.perf_counter() - start

    def restart(self) -> float:
        """Returns the seconds that belong to the next generate."""
        self.result.rescans += self._frontier.scans - self._scans_before
        self._scans_before = 0
        del self._index, self._frontier
        gc.collect()
        return self._open()

    def update_and_flush(self, number: int) -> None:
        result, index, clock = self.result, self._index, time.perf_counter
        columns = links_of(self._taken, self._sample, self._built)
        start, cpu_start = clock(), time.process_time()
        done = update(
            index, self._frontier, self._ledger, columns, limits=LIMITS, strategy=self._order,
            now_s=NOW_S,
        )  # fmt: skip
        updated, cpu_updated = clock(), time.process_time()
        changes = index.flush(self._built.store, f"a0-{number:08d}")
        flushed = clock()
        kept = self._frontier.flush(self._built.store, f"a0-{number:08d}")
        if kept.added:
            result.keep_s.append(clock() - flushed)
            result.kept_bytes = self._built.store.local(kept.added[KIND][0]).stat().st_size
        result.flush_s.append(clock() - updated)
        result.update_cpu_s.append(cpu_updated - cpu_start)
        result.flush_cpu_s.append(time.process_time() - cpu_updated)
        self._built.apply(changes | kept)
        index.release(changes)
        result.update_s.append(updated - start)
        result.links.append(len(columns.links.target))
        result.new.append(len(done.new))

    def generate(self, restart_s: float | None) -> None:
        start = time.perf_counter()
        self._taken = self._frontier.take(WIDTH, NOW_S, PER_HOST)
        urls = self._index.urls(self._taken)
        taken_s = time.perf_counter() - start
        assert len(urls) == WIDTH
        if restart_s is not None:
            taken_s += restart_s
            self.result.restart_s = taken_s
            self.result.scanned = self._frontier.scans > 0
        self.result.generate_s.append(taken_s)

    def end(self) -> Measured:
        self.result.rescans += self._frontier.scans - self._scans_before - self.result.scanned
        self.result.bytes_per_url = self._built.bytes_besides_text() / self._index.count
        return self.result


def measure(folder: Path, known: int, rounds: int) -> Measured:
    built = Built.of(folder, known)
    gc.collect()
    with Resident() as resident:
        crawl = Crawl(built, known)
        for number in range(rounds):
            crawl.update_and_flush(10 + number)
            crawl.generate(crawl.restart() if number == rounds // 2 else None)
        result = crawl.end()
    result.peak_mb = resident.peak_mb
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1,10,50", help="millions of known URLs, comma separated")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--dir", default=None, help="where to put the temporary files")
    parser.add_argument("--verbose", action="store_true", help="every round's seconds")
    options = parser.parse_args()
    results = []
    print(f"{options.rounds} rounds, {WIDTH} pages and about {WIDTH * LINKS} links each; index.memory_mb = "
          f"{SETTINGS.memory_mb}\n{HEAD}", flush=True)  # fmt: skip
    for size in [float(size) for size in options.sizes.split(",")]:
        folder = Path(tempfile.mkdtemp(prefix="gossamer-bench-", dir=options.dir))
        try:
            results.append(measure(folder / "index", int(size * MILLION), options.rounds))
        finally:
            shutil.rmtree(folder)
        print(results[-1].row(), flush=True)
        if options.verbose:
            for name in ("update_s", "flush_s", "update_cpu_s", "flush_cpu_s", "generate_s"):
                print(f"    {name}", *(f"{value:.2f}" for value in getattr(results[-1], name)))
    found = summary(results)
    if options.sizes == parser.get_default("sizes"):
        write_section("index", report([HEAD, *(result.row() for result in results)], found))
    print(json.dumps(found))


def report(lines: list[str], found: dict[str, float]) -> str:
    rows, load = "\n".join(lines), os.getloadavg()[0]
    doubt = " **The machine was busy with other work: only CPU says something.**" if load > BUSY else ""
    return f"""`make bench-index` on {machine()}; load {load:.1f} at the end.{doubt}

```
{rows}
```

- One round of update and flush at 50 M known pages takes {found["update_ratio_50m_1m"]} times that at 1 M by the clock
  (update alone {found["update_only_ratio_50m_1m"]} times), {found["update_cpu_ratio_50m_1m"]} times by CPU, generate
  {found["generate_ratio_50m_1m"]} times; means over 20 rounds, merges and one restart included.
- After that restart, restoring the frontier and the first take of {WIDTH} pages take {found["restart_s"]} s at 50 M;
  reading the whole index instead takes {found["scan_s"]} s. The frontier's file has {found["kept_mb"]} MB;
  writing it takes {found["keep_s"]} s in one flush of {found["keep_every"]}, included above.
- {found["bytes_per_url"]} bytes per URL besides its text; {found["rss_mb"]} MB of memory within {found["bound_mb"]}.
"""


def summary(results: list[Measured]) -> dict[str, float]:
    first, last = results[0], results[-1]
    label = f"{last.known // MILLION}m_{first.known // MILLION}m"
    generate = np.mean(last.generate_s) / np.mean(first.generate_s)
    return {
        f"update_ratio_{label}": round(last.round_s / first.round_s, 2),
        f"update_only_ratio_{label}": round(float(np.mean(last.update_s) / np.mean(first.update_s)), 2),
        f"update_cpu_ratio_{label}": round(last.round_cpu_s / first.round_cpu_s, 2),
        f"generate_ratio_{label}": round(float(generate), 2),
        "update_s": round(last.round_s, 3),
        "generate_s": round(float(np.mean(last.generate_s)), 3),
        "restart_s": round(last.restart_s, 3),
        "scan_s": round(last.scan_s, 2),
        "keep_s": round(float(np.mean(last.keep_s or [0.0])), 3),
        "keep_every": round(len(last.flush_s) / max(len(last.keep_s), 1), 1),
        "kept_mb": round(last.kept_bytes / 2**20, 1),
        "rescans": sum(result.rescans for result in results),
        "links_per_round": round(float(np.mean(last.links))),
        "new_per_round": round(float(np.mean(last.new))),
        "bytes_per_url": round(last.bytes_per_url, 1),
        "rss_mb": round(max(result.peak_mb for result in results)),
        "bound_mb": SETTINGS.memory_mb,
    }


if __name__ == "__main__":
    main()

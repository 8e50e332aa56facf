"""What a crawl finds in its directory when it begins, and what it asks its index about single pages."""

import resource
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.chain import Chain, chains, snapshots
from gossamer.archive.manifest import Files
from gossamer.archive.store import Store
from gossamer.columns import Contributions
from gossamer.errors import ArchiveError
from gossamer.frontier.pages import ZONE_SHIFT, PageIndex
from gossamer.web.url import page_key, page_keys

_FEW = 64  # rows at a time: each may have half a megabyte


class Known:
    """What the index says about single pages."""

    def __init__(self, index: PageIndex) -> None:
        self._index = index

    def url(self, key: int) -> str:
        found, rows = self._index.pages.look_up(np.array([key], np.uint64))
        return self._index.urls(rows)[0] if found[0] else ""

    def stored_s(self, key: int) -> float:
        found, rows = self._index.visited.look_up(np.array([key], np.uint64))
        return float(rows["changed_s"][0]) if found[0] else 0.0


def mentioned(urls: list[str]) -> Contributions:
    """Pages that were named, but by no page: they have no cash until links bring them some."""
    count = len(urls)
    zero = np.zeros(count, np.uint8)
    hits = np.ones(count, np.int32)
    return Contributions(page_keys(urls), np.zeros(count, np.int64), hits, zero, zero, np.zeros(count, np.uint64), urls)


def scope_hosts(store: Store) -> list[str]:
    """Hosts of all seeds so far, whichever agent took them in."""
    names = [name for at in snapshots(store).values() for name in at.files.get("scope", [])]
    return [line for name in names for line in store.get(name).decode().splitlines()]


def hostmap_files(store: Store) -> list[str]:
    """Decisions about hosts, by whichever agent they were taken or heard."""
    return [name for at in snapshots(store).values() for name in at.files.get("hostmap", [])]


def robots_rows(store: Store, chain: Chain, now_s: float) -> Iterator[dict[str, Any]]:
    """Rows of the ROBOTS table that are still good, oldest first; also those that others fetched for our zones."""
    zones = set(chain.zones)
    for agent in sorted(chains(store) - {chain.agent}):
        try:
            for row in _robots(store, Chain.read(store, agent).files, now_s):
                if page_key(row["origin"] + "/") >> int(ZONE_SHIFT) in zones:
                    yield row
        except ArchiveError:  # merged meanwhile: then robots.txt is fetched again
            continue
    yield from _robots(store, chain.files, now_s)


def _robots(store: Store, files: Files, now_s: float) -> Iterator[dict[str, Any]]:
    now = datetime.fromtimestamp(now_s, UTC)
    for name in files.get("robots", []):
        try:
            with pq.ParquetFile(store.local(name)) as file:
                for rows in file.iter_batches(_FEW):
                    yield from (row for row in rows.to_pylist() if row["expires"] > now and not _is_of_later(row, now))
        except (OSError, pa.ArrowInvalid) as error:
            raise ArchiveError(f"{name} is missing or damaged: {error}; restore it from a copy") from None


def _is_of_later(row: dict[str, Any], now: datetime) -> bool:
    """That it was out of reach was noted while the clock was ahead: until when it is so, nobody knows."""
    return bool(row["verdict"] == "deny_all" and row["time"] > now)


def resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

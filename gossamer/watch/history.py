"""`History` sums up visits as they are committed, in bounded memory: over time, by host, by reason, by place."""

import heapq
from collections import Counter, deque
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gossamer.crawl.stats import CALM
from gossamer.watch import thumbnails
from gossamer.watch.figures import printable

COLUMNS = [
    "url", "host", "round", "time", "outcome", "http_status", "reason", "title", "wire_bytes", "elapsed_s", "is_robots",
    "country", "energy_j", "carbon_g", "kind", *thumbnails.COLUMNS,
]  # fmt: skip
_WIDTHS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800, 2592000)
_POINTS = 600  # of a series
_RECENT_S, _RECENT_POINTS = 2, 450  # the last quarter of an hour
_HOSTS = 50_000  # above that, the half with the fewest visits is forgotten
_REASONS = 200  # the same for the reasons of an outcome
_PAGES = 40
_HOURS = 24 * 14
_PLACES = 8  # places of carbon that have a colour; the others are one
_TEXT = 300  # characters of a title, an address, or a reason
_TOP = 8


class Series:
    """`Series` counts pages, trouble and bytes in spans of time. They become wider if there are too many."""

    def __init__(self, width_s: int = 1, points: int = _POINTS, is_recent: bool = False) -> None:
        self.width_s, self._points, self._is_recent = width_s, points, is_recent
        self._slots: dict[int, list[int]] = {}

    def add(self, times_s: np.ndarray, *columns: np.ndarray) -> None:
        """Adds visits: when, how many pages each is, how many in trouble, and its bytes."""
        slots, where = np.unique(times_s // self.width_s, return_inverse=True)
        for slot, *figures in zip(
            slots.tolist(), *(np.rint(np.bincount(where, each)).astype(int).tolist() for each in columns), strict=True
        ):
            self._slots[slot] = [a + b for a, b in zip(self._slots.get(slot, (0, 0, 0)), figures, strict=True)]
        self._bound()

    def _bound(self) -> None:
        if not self._slots:
            return
        if self._is_recent:
            first = max(self._slots) - self._points
            self._slots = {slot: row for slot, row in self._slots.items() if slot > first}
            return
        while max(self._slots) - min(self._slots) >= self._points and self.width_s < _WIDTHS_S[-1]:
            self._widen(next(width for width in _WIDTHS_S if width > self.width_s))

    def _widen(self, width_s: int) -> None:
        before, self._slots = self._slots, {}
        for slot, row in before.items():
            new = slot * self.width_s // width_s
            self._slots[new] = [a + b for a, b in zip(self._slots.get(new, (0, 0, 0)), row, strict=True)]
        self.width_s = width_s

    def since(self, first_s: float) -> int:
        """Returns how many pages were visited from then on."""
        return sum(row[0] for slot, row in self._slots.items() if slot * self.width_s >= first_s)

    def as_dict(self, tail: int = 0) -> dict[str, Any]:
        """Returns columns: times, then rates per second. With `tail`, only the last so many."""
        if not self._slots:
            return {"width_s": self.width_s, "t": [], "pages": [], "trouble": [], "bytes": []}
        last = max(self._slots)
        slots = range(max(min(self._slots), last - tail + 1) if tail else min(self._slots), last + 1)
        rows = [self._slots.get(slot, (0, 0, 0)) for slot in slots]
        names = {"pages": 0, "trouble": 1, "bytes": 2}
        rates = {name: [round(row[at] / self.width_s, 3) for row in rows] for name, at in names.items()}
        return {"width_s": self.width_s, "t": [slot * self.width_s for slot in slots], **rates}


class History:
    """`History` knows the visits that were added to it, summed up."""

    def __init__(self) -> None:
        self.whole, self.recent = Series(), Series(_RECENT_S, _RECENT_POINTS, is_recent=True)
        self.is_partial = False  # older visits were left out
        self.forgotten_hosts = 0
        self._hosts: dict[str, list[float]] = {}  # visits, trouble, bytes, seconds, and how many of them have seconds
        self._reasons: dict[str, Counter[str]] = {}
        self._examples: dict[tuple[str, str], str] = {}
        self._pages: deque[dict[str, Any]] = deque(maxlen=_PAGES)
        self._carbon: dict[int, Counter[str]] = {}  # by hour and place: grams

    def add(self, rows: pa.Table) -> None:
        """Adds rows of the visits. Requisites count as bytes and seconds, not as pages; robots.txt only as carbon."""
        self._add_carbon(rows)
        rows = rows.filter(pc.invert(rows["is_robots"]))
        if not rows.num_rows:
            return
        times_s = _seconds(rows)
        is_page = pc.not_equal(pc.fill_null(rows["kind"].cast(pa.string()), "page"), "requisite")
        is_trouble = pc.and_(is_page, pc.invert(pc.is_in(rows["outcome"].cast(pa.string()), pa.array(CALM))))
        pages, trouble = is_page.cast(pa.int64()), is_trouble.cast(pa.int64())
        sizes = rows["wire_bytes"].cast(pa.float64()).to_numpy()
        for series in (self.whole, self.recent):
            series.add(times_s, pages.to_numpy(), trouble.to_numpy(), sizes)
        self._add_hosts(rows.append_column("pages", pages).append_column("trouble", trouble))
        self._add_reasons(rows.filter(is_trouble))
        self._add_pages(rows.filter(is_page))

    def hosts(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the hosts that sent most, and those that answered slowest."""
        timed = (item for item in self._hosts.items() if item[1][4] >= 3)
        biggest = heapq.nlargest(_TOP, self._hosts.items(), key=lambda item: item[1][2])
        slowest = heapq.nlargest(_TOP, timed, key=lambda item: item[1][3] / item[1][4])
        return {"biggest": [_host(*item) for item in biggest], "slowest": [_host(*item) for item in slowest]}

    def reasons(self, outcome: str) -> list[dict[str, Any]]:
        """Returns why visits had this outcome, the most frequent first, each with a page as an example."""
        return [
            {"reason": reason, "times": times, "url": self._examples.get((outcome, reason), "")}
            for reason, times in self._reasons.get(outcome, Counter()).most_common(3)
        ]

    def pages(self) -> list[dict[str, Any]]:
        """Returns the last pages, the newest first."""
        return list(reversed(self._pages))

    def carbon(self) -> dict[str, Any]:
        """Returns grams by hour, for the places that have most; the others are one."""
        total: Counter[str] = sum(self._carbon.values(), Counter())
        places = [place for place, _ in total.most_common(_PLACES)]
        hours = sorted(self._carbon)
        rows = {place: [round(self._carbon[hour][place], 9) for hour in hours] for place in places}
        if len(total) > len(places):
            rest = [
                sum(self._carbon[hour].values()) - sum(self._carbon[hour][place] for place in places) for hour in hours
            ]
            rows["others"] = [round(grams, 9) for grams in rest]
        return {"hours": [hour * 3600 for hour in hours], "places": rows}

    def _add_hosts(self, rows: pa.Table) -> None:
        summed = rows.group_by("host").aggregate(
            [
                ("pages", "sum"),
                ("trouble", "sum"),
                ("wire_bytes", "sum"),
                ("elapsed_s", "sum"),
                ("elapsed_s", "count"),
            ]
        )
        names = ("pages_sum", "trouble_sum", "wire_bytes_sum", "elapsed_s_sum", "elapsed_s_count")
        figures = zip(*(summed[name].to_pylist() for name in names), strict=True)
        for host, row in zip(summed["host"].to_pylist(), figures, strict=True):
            known = self._hosts.get(host)
            self._hosts[host] = [a + (b or 0) for a, b in zip(known or (0.0,) * 5, row, strict=True)]
        if len(self._hosts) > _HOSTS:
            kept = heapq.nlargest(_HOSTS // 2, self._hosts.items(), key=lambda item: item[1][0])
            self.forgotten_hosts += len(self._hosts) - len(kept)
            self._hosts = dict(kept)

    def _add_reasons(self, rows: pa.Table) -> None:
        columns = (rows[name].to_pylist() for name in ("outcome", "reason", "http_status", "url"))
        for outcome, why, status, url in zip(*columns, strict=True):
            reason = _cut(why) or (f"HTTP {status}" if status else "")
            found = self._reasons.setdefault(outcome, Counter())
            found[reason] += 1
            self._examples[outcome, reason] = _cut(url)
            if len(found) > _REASONS:
                self._reasons[outcome] = Counter(dict(found.most_common(_REASONS // 2)))
                self._examples = {
                    pair: url for pair, url in self._examples.items() if pair[1] in self._reasons[pair[0]]
                }

    def _add_pages(self, rows: pa.Table) -> None:
        last = rows.sort_by("time").slice(max(0, rows.num_rows - _PAGES))
        for row in last.to_pylist():
            self._pages.append(
                {
                    "key": row["key"],
                    "time_s": row["time"].timestamp(),
                    "url": _cut(row["url"]),
                    "title": _cut(row["title"]),
                    "outcome": row["outcome"],
                    "http_status": row["http_status"],
                    "bytes": row["wire_bytes"],
                    "elapsed_s": row["elapsed_s"],
                }
            )

    def _add_carbon(self, rows: pa.Table) -> None:
        spent = rows.filter(pc.greater(rows["carbon_g"], 0))
        if not spent.num_rows:
            return
        hours = pa.array(_seconds(spent) // 3600)
        places = spent["country"].cast(pa.string())
        summed = pa.table({"hour": hours, "place": places, "grams": spent["carbon_g"]}).group_by(["hour", "place"])
        for row in summed.aggregate([("grams", "sum")]).to_pylist():
            self._carbon.setdefault(row["hour"], Counter())[row["place"] or "unknown"] += row["grams_sum"]
        for hour in sorted(self._carbon)[:-_HOURS]:
            del self._carbon[hour]


def _seconds(rows: pa.Table) -> np.ndarray:
    times: np.ndarray = rows["time"].cast(pa.int64()).to_numpy() // 1000
    return times


def _host(name: str, row: list[float]) -> dict[str, Any]:
    visits, trouble, size, elapsed_s, timed = row
    mean_s = elapsed_s / timed if timed else None
    return {"host": _cut(name), "visits": int(visits), "trouble": int(trouble), "bytes": int(size), "mean_s": mean_s}


def _cut(text: str | None) -> str:
    found = printable(text or "")
    return found if len(found) <= _TEXT else found[: _TEXT - 1] + "…"

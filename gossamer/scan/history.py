"""This module learns from earlier scans about the next: measured columns, forecasts, and the task for the planners."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from gossamer.arrays import F64, I64
from gossamer.scan.forecast import forecast, medians
from gossamer.scan.model import Model, Parameters, Scanned, learn, parameters, polite_s
from gossamer.scan.records import Record, Scans
from gossamer.scan.results import read_sites
from gossamer.scan.task import Task, task

_UNKNOWN_SPREAD = 1.0


@dataclass(frozen=True)
class Outlook:
    """`Outlook` describes the next scan as far as it can be foreseen: rows are websites, columns clients."""

    websites: list[str]
    clients: list[str]
    times_s: F64
    spread: F64  # of each website's time: one standard deviation, as a part of it
    requests: F64
    result_bytes: F64
    floor_s: F64  # politeness: the delays between its pages, by website and client
    waits_s: F64  # for what will fail, by website; in times_s
    known: I64  # websites that have been scanned before
    model: Model
    parameters: dict[str, Parameters]

    def task(self, slots: int | Sequence[int] = 1) -> tuple[Task, I64]:
        """Returns the task for the planners, and the client of each column: a client with several slots has several."""
        each = [slots] * len(self.clients) if isinstance(slots, int) else list(slots)
        column = np.repeat(np.arange(len(self.clients)), each)
        return task(self.times_s[:, column], speed=1 / self.model.factor[column], pages=self.requests), column


def outlook(
    scans: Scans,
    websites: Sequence[str],
    clients: Mapping[str, float],
    reference_s: Mapping[str, float] = MappingProxyType({}),
) -> Outlook:
    """Returns the outlook. `clients` have the delay that each keeps between two requests, in seconds. A website without
    an ended scan is expected to be as the typical one is. `reference_s` are times for the reference site, newer than
    the scans'."""
    records = scans.ended()
    rows = [row | {"scan": place} for place, r in enumerate(records) for row in read_sites(scans, r.number).to_pylist()]
    site = {name: i for i, name in enumerate(websites)}
    client = {name: j for j, name in enumerate(clients)}
    rows = [row for row in rows if row["site"] in site]
    answered = {row["site"] for row in rows if row["status"] == "ok"}
    # What never answered takes its time too.
    rows = [row for row in rows if row["status"] == "ok" or row["site"] not in answered]
    everyone = {**client}  # clients that took part once, and teach about websites
    for row in rows:
        everyone.setdefault(row["client"], len(everyone))
    scanned = _scanned(rows, site, everyone)
    model = learn(scanned, len(site), len(everyone), _reference_s(records, everyone, reference_s))
    found = {column: _series(rows, site, column, len(records)) for column in ("requests", "wire_bytes", "result_bytes")}
    requests, sent, results = (forecast(series) for series in found.values())
    strays = forecast(_series(rows, site, "scan_s", len(records), least=1e-3)).spread
    asked_s = np.zeros(len(site))
    asked_s[scanned.website] = [row["asked_s"] for row in rows]
    delays = np.maximum(asked_s[:, None], np.array(list(clients.values()))[None, :])
    values = [_filled(each.value) for each in (requests, sent, results)]
    seen = {name: own for name, j in client.items() if (own := parameters(scanned, j)) is not None}
    factor = model.factor[: len(clients)]
    waits_s = _waits_s(rows, site, len(records))
    here = Model(model.site_s, model.page_s, model.byte_s, factor, model.correction)
    return Outlook(
        list(websites),
        list(clients),
        here.times_s(values[0], values[1], delays) + waits_s[:, None],
        np.where(np.isnan(requests.value), _UNKNOWN_SPREAD, np.maximum(requests.spread, strays)),
        values[0],
        values[2],
        polite_s(values[0][:, None], delays),
        waits_s,
        np.flatnonzero(~np.isnan(requests.value)),
        here,
        seen,
    )


def _scanned(rows: Sequence[dict[str, Any]], site: dict[str, int], client: dict[str, int]) -> Scanned:
    def column(name: str) -> F64:
        return np.array([row[name] for row in rows], np.float64)

    measured = "requests", "wire_bytes", "scan_s", "delay_s", "lookup_s", "connect_s", "response_s", "byte_s"
    rows = [row | {"waited_s": row.get("waited_s") or 0.0} for row in rows]  # earlier versions did not measure it
    return Scanned(
        np.array([site[row["site"]] for row in rows], np.int64),
        np.array([client[row["client"]] for row in rows], np.int64),
        *(column(name) for name in (*measured, "waited_s")),
    )


def _waits_s(rows: Sequence[dict[str, Any]], site: dict[str, int], scans: int) -> F64:
    """Returns how long the next scan of each website will wait for what fails. What failed once and was read later in
    the same scan is not expected to fail again; what failed to the end is."""
    found = np.full((len(site), scans), np.nan)
    for row in rows:
        has_lasted = row["errors"] > 0 or row["status"] != "ok"
        found[site[row["site"]], row["scan"]] = (row.get("waited_s") or 0.0) if has_lasted else 0.0
    return np.nan_to_num(medians(found))


def _series(rows: Sequence[dict[str, Any]], site: dict[str, int], name: str, scans: int, least: float = 1.0) -> F64:
    found = np.full((len(site), scans), np.nan)
    for row in rows:
        found[site[row["site"]], row["scan"]] = max(least, row[name])
    return found


def _filled(values: F64) -> F64:
    known = values[~np.isnan(values)]
    return np.where(np.isnan(values), np.median(known) if len(known) else 1.0, values)


def _reference_s(records: Sequence[Record], client: dict[str, int], newer: Mapping[str, float]) -> F64:
    """Returns the newest reference time of each client."""
    found = np.full(len(client), np.nan)
    for record in records:
        for name, measured in record.clients.items():
            if name in client and measured.get("reference_s"):
                found[client[name]] = measured["reference_s"]
    for name, seconds in newer.items():
        if name in client:
            found[client[name]] = seconds
    return found

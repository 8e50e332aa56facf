"""This module checks what scans recorded of the reference site against the requirements (Pechnikov et al.)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.scan.records import Record, Scans
from gossamer.scan.reference import Shape, Verdict, check
from gossamer.scan.results import read_sites


def verdicts(scans: Scans, records: Sequence[Record]) -> list[Verdict]:
    """Returns the verdicts; none if no client has scanned a reference site."""
    times = [had for record in records for had in record.clients.values() if "reference_pages" in had]
    if not times:
        return []
    rows = [row for row in read_sites(scans, records[-1].number).to_pylist() if row["status"] == "ok"]
    reference = Shape(
        _column(times, "reference_pages"),
        _column(times, "reference_bytes") / np.maximum(_column(times, "reference_pages"), 1),
        _column(times, "reference_depth"),
    )
    websites = Shape(
        _column(rows, "pages"),
        _column(rows, "wire_bytes") / np.maximum(_column(rows, "pages"), 1),
        _column(rows, "mean_depth"),
    )
    own = {had["reference_address"] for had in times if had.get("reference_address")}
    theirs = {row["address"] for row in rows if row["address"]}
    regions = {country for row in rows if (country := _country(row["site"]))}
    return check(reference, websites, (own, theirs), (_country(times[-1]["reference_site"]), regions))


def warnings(scans: Scans, records: Sequence[Record]) -> list[str]:
    found = [each for each in verdicts(scans, records) if each.holds is False]
    return [f"the reference site should be: {each.requirement}; {each.why}" for each in found]


def _column(rows: Sequence[dict[str, Any]], name: str) -> Any:
    return np.array([row.get(name, np.nan) for row in rows], np.float64)


def _country(site: str) -> str:
    """Returns the two letters that end its name; other endings tell nothing about the place."""
    ending = site.partition(":")[0].rpartition(".")[2]
    return ending if len(ending) == 2 and ending.isalpha() else ""

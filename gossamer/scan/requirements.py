"""This module checks what scans recorded of the reference site, by which clients are compared, against the six
requirements (Pechnikov et al.)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.arrays import F64
from gossamer.scan.records import Record, Scans
from gossamer.scan.results import read_sites

_NEAR = 4.0  # times larger or smaller than the websites' typical value is no longer like them


@dataclass(frozen=True)
class Shape:
    """`Shape` holds what can be seen of a website: columns, or one figure each for the reference site."""

    pages: F64
    bytes_per_page: F64
    depth: F64  # of its pages, on average: how it is built


@dataclass(frozen=True)
class Judgement:
    requirement: str
    holds: bool | None  # None: cannot be seen from here
    why: str


def check(
    reference: Shape, websites: Shape, addresses: tuple[set[str], set[str]], regions: tuple[str, set[str]]
) -> list[Judgement]:
    """Checks all. `reference` has a row per scan of it. Addresses and regions: the reference's, then the websites'."""
    own, theirs = addresses
    region, others = regions
    shared = own & theirs
    pages = reference.pages
    return [
        Judgement(
            "on a server of its own",
            None if not own else not shared,
            f"shares {', '.join(sorted(shared))} with websites of the list" if shared else
            "no website of the list has its address; other load cannot be seen from here",
        ),
        Judgement(
            "in the same region",
            None if not region or not others else region in others,
            f"its country is {region or 'unknown'}, the websites' {', '.join(sorted(others)) or 'unknown'}"
            " (by their names)",
        ),
        Judgement(
            "a constant number of pages",
            None if len(pages) < 2 else bool(pages.max() == pages.min()),
            f"{pages.min():,.0f} to {pages.max():,.0f} in {len(pages)} scans" if len(pages) else "not scanned yet",
        ),
        _like("built like the websites", reference.depth, websites.depth, "mean depth"),
        _like("about as many pages as the websites", pages, websites.pages, "pages", mean=True),
        _like("content like the websites'", reference.bytes_per_page, websites.bytes_per_page, "bytes a page"),
    ]  # fmt: skip


def _like(requirement: str, own: F64, theirs: F64, what: str, mean: bool = False) -> Judgement:
    """Compares one figure: Pechnikov et al. ask for close to the *average* size; in the rest, typical is enough."""
    own, theirs = own[np.isfinite(own)], theirs[np.isfinite(theirs)]
    if not len(own) or not len(theirs):
        return Judgement(requirement, None, f"{what}: not known yet")
    value, typical = float(own[-1]), float(theirs.mean() if mean else np.median(theirs))
    near = max(value, 1e-9) / max(typical, 1e-9)
    return Judgement(
        requirement, 1 / _NEAR <= near <= _NEAR, f"{what}: {value:,.1f} against {typical:,.1f} of the websites"
    )


def judged(scans: Scans, records: Sequence[Record]) -> list[Judgement]:
    """Returns the judgements; none if no client has scanned a reference site."""
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
    found = [each for each in judged(scans, records) if each.holds is False]
    return [f"the reference site should be: {each.requirement}; {each.why}" for each in found]


def _column(rows: Sequence[dict[str, Any]], name: str) -> Any:
    return np.array([row.get(name, np.nan) for row in rows], np.float64)


def _country(site: str) -> str:
    """Returns the two letters that end its name; other endings tell nothing about the place."""
    ending = site.partition(":")[0].rpartition(".")[2]
    return ending if len(ending) == 2 and ending.isalpha() else ""

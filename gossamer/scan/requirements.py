"""This module warns of a reference site, by which clients are compared, that scans have seen to break one of the six
requirements (Pechnikov et al.)."""

from collections.abc import Callable, Iterator, Sequence
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


def broken(
    reference: Shape, websites: Shape, addresses: tuple[set[str], set[str]], regions: tuple[str, set[str]]
) -> Iterator[tuple[str, str]]:
    """Yields each requirement that is not met, as far as that can be seen from here, and why. `reference` has a row per
    scan of it. Addresses and regions: the reference's, then the websites'."""
    if shared := addresses[0] & addresses[1]:
        yield "on a server of its own", f"shares {', '.join(sorted(shared))} with websites of the list"
    region, others = regions
    if region and others and region not in others:
        yield (
            "in the same region",
            f"its country is {region}, the websites' {', '.join(sorted(others))} (by their names)",
        )
    pages = reference.pages
    if len(pages) > 1 and pages.min() < pages.max():
        yield "a constant number of pages", f"{pages.min():,.0f} to {pages.max():,.0f} in {len(pages)} scans"
    # Pechnikov et al. ask for close to the *average* number of pages; in the rest, typical is enough.
    if why := _unlike(reference.depth, websites.depth, "mean depth", np.median):
        yield "built like the websites", why
    if why := _unlike(pages, websites.pages, "pages", np.mean):
        yield "about as many pages as the websites", why
    if why := _unlike(reference.bytes_per_page, websites.bytes_per_page, "bytes a page", np.median):
        yield "content like the websites'", why


def _unlike(own: F64, theirs: F64, what: str, middle: Callable[[F64], Any]) -> str:
    """Returns how far one figure is from that of the websites; empty if it is near, or not known yet."""
    own, theirs = own[np.isfinite(own)], theirs[np.isfinite(theirs)]
    if not len(own) or not len(theirs):
        return ""
    value, typical = float(own[-1]), float(middle(theirs))
    is_near = 1 / _NEAR <= max(value, 1e-9) / max(typical, 1e-9) <= _NEAR
    return "" if is_near else f"{what}: {value:,.1f} against {typical:,.1f} of the websites"


def warnings(scans: Scans, records: Sequence[Record]) -> list[str]:
    """Returns what is wrong with the reference site; nothing if no client has scanned one."""
    times = [had for record in records for had in record.clients.values() if "reference_pages" in had]
    if not times:
        return []
    rows = [row for row in read_sites(scans, records[-1].number).to_pylist() if row["status"] == "ok"]
    reference = _shape(times, "reference_pages", "reference_bytes", "reference_depth")
    websites = _shape(rows, "pages", "wire_bytes", "mean_depth")
    own = {had["reference_address"] for had in times if had.get("reference_address")}
    theirs = {row["address"] for row in rows if row["address"]}
    regions = {country for row in rows if (country := _country(row["site"]))}
    found = broken(reference, websites, (own, theirs), (_country(times[-1]["reference_site"]), regions))
    return [f"the reference site should be: {requirement}; {why}" for requirement, why in found]


def _shape(rows: Sequence[dict[str, Any]], pages: str, size: str, depth: str) -> Shape:
    columns = {name: np.array([row.get(name, np.nan) for row in rows], np.float64) for name in (pages, size, depth)}
    return Shape(columns[pages], columns[size] / np.maximum(columns[pages], 1), columns[depth])


def _country(site: str) -> str:
    """Returns the two letters that end its name; other endings tell nothing about the place."""
    ending = site.partition(":")[0].rpartition(".")[2]
    return ending if len(ending) == 2 and ending.isalpha() else ""

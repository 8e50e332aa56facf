"""This module checks the six requirements (Pechnikov et al.) for a reference site by which clients are compared."""

from dataclasses import dataclass

import numpy as np

from gossamer.arrays import F64

_NEAR = 4.0  # times larger or smaller than the websites' typical value is no longer like them


@dataclass(frozen=True)
class Shape:
    """`Shape` holds what can be seen of a website: columns, or one figure each for the reference site."""

    pages: F64
    bytes_per_page: F64
    depth: F64  # of its pages, on average: how it is built


@dataclass(frozen=True)
class Verdict:
    requirement: str
    holds: bool | None  # None: cannot be seen from here
    why: str


def check(
    reference: Shape, websites: Shape, addresses: tuple[set[str], set[str]], regions: tuple[str, set[str]]
) -> list[Verdict]:
    """Checks all. `reference` has a row per scan of it. Addresses and regions: the reference's, then the websites'."""
    own, theirs = addresses
    region, others = regions
    shared = own & theirs
    pages = reference.pages
    return [
        Verdict(
            "on a server of its own",
            None if not own else not shared,
            f"shares {', '.join(sorted(shared))} with websites of the list" if shared else
            "no website of the list has its address; other load cannot be seen from here",
        ),
        Verdict(
            "in the same region",
            None if not region or not others else region in others,
            f"its country is {region or 'unknown'}, the websites' {', '.join(sorted(others)) or 'unknown'}"
            " (by their names)",
        ),
        Verdict(
            "a constant number of pages",
            None if len(pages) < 2 else bool(pages.max() == pages.min()),
            f"{pages.min():,.0f} to {pages.max():,.0f} in {len(pages)} scans" if len(pages) else "not scanned yet",
        ),
        _like("built like the websites", reference.depth, websites.depth, "mean depth"),
        _like("about as many pages as the websites", pages, websites.pages, "pages", mean=True),
        _like("content like the websites'", reference.bytes_per_page, websites.bytes_per_page, "bytes a page"),
    ]  # fmt: skip


def _like(requirement: str, own: F64, theirs: F64, what: str, mean: bool = False) -> Verdict:
    """Compares one figure: Pechnikov et al. ask for close to the *average* size; in the rest, typical is enough."""
    own, theirs = own[np.isfinite(own)], theirs[np.isfinite(theirs)]
    if not len(own) or not len(theirs):
        return Verdict(requirement, None, f"{what}: not known yet")
    value, typical = float(own[-1]), float(theirs.mean() if mean else np.median(theirs))
    near = max(value, 1e-9) / max(typical, 1e-9)
    return Verdict(
        requirement, 1 / _NEAR <= near <= _NEAR, f"{what}: {value:,.1f} against {typical:,.1f} of the websites"
    )

"""This module sets what the literature says of partitioners beside what was just measured."""

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.harness import STATEMENTS_SHOWN, Block, columns, statement
from experiments.partition_methods import PARTITIONERS
from gossamer.arrays import F64

Cuts = Mapping[tuple[int, str, str], F64]  # by k, order of the stream, method

# LEADS D1.4, Table 2: METIS, LDG and FENNEL for k = 2, 4, 8 and 16; random order, nu = 1.1
PAPER = {
    "LEADS G1 (968 / 7,680)": ((0.36, 0.49, 0.38), (0.54, 0.74, 0.50), (0.65, 0.86, 0.70), (0.72, 0.93, 0.75)),
    "LEADS G2 (7,721 / 23,154)": ((0.24, 0.50, 0.31), (0.38, 0.75, 0.48), (0.47, 0.87, 0.58), (0.53, 0.92, 0.64)),
    "LEADS G3 (39,763 / 198,790)": ((0.30, 0.50, 0.35), (0.46, 0.75, 0.54), (0.57, 0.87, 0.65), (0.64, 0.92, 0.72)),
    "LEADS G4 (71,005 / 709,950)": ((0.37, 0.49, 0.39), (0.56, 0.74, 0.60), (0.67, 0.87, 0.72), (0.74, 0.93, 0.78)),
}

# Measured before with other implementations, nu = 1.1, one run each. Their LDG is `ldg-tight`.
METHODS = (
    ("ldg-tight", "natural"), ("ldg-tight", "random"), ("ldg-tight", "bfs"), ("fennel", "natural"),
    ("fennel", "random"), ("fennel", "bfs"), ("reldg", "random"), ("refennel", "random"),
    ("metis", "any"), ("kahip", "any"),
)  # fmt: skip
REFERENCE: dict[tuple[str, int], tuple[float | None, ...]] = {
    ("cnr-2000-nat", 4): (0.192, 0.115, 0.309, 0.066, 0.115, 0.132, 0.041, 0.041, 0.0017, 0.0008),
    ("cnr-2000-nat", 16): (0.479, 0.164, 0.270, 0.421, 0.148, 0.260, 0.063, 0.049, 0.0028, 0.0056),
    ("cnr-2000-nat", 32): (0.497, 0.392, 0.454, 0.467, 0.347, 0.380, 0.257, 0.217, 0.136, 0.136),
    ("cs-stanford", 4): (None, None, None, 0.1352, None, None, None, None, None, None),
    ("cs-stanford", 16): (0.262, 0.340, 0.340, 0.236, 0.331, 0.225, 0.152, 0.131, 0.078, 0.075),
}

TABLE_SHOWN = columns(
    "graph | k | hash | metis: METIS | ldg: LDG | ldg-first: LDG, ties to the first | fennel: FENNEL | "
    "fennel-leads: constant of LEADS D1.4 | points: FENNEL - METIS, points | relative: in % of METIS"
)
REFERENCE_SHOWN = columns(
    "k | order | method | reference | cut: here | low: lowest | high: highest | agrees: in the range"
)
ROUNDED = 0.001  # reference figures have three digits


def blocks(graph: str, cuts: Cuts) -> list[Block]:
    return [
        Block("Table 2 of LEADS D1.4", list(_table(graph, cuts)), TABLE_SHOWN),
        Block("Reference cuts", list(_reference(graph, cuts)), REFERENCE_SHOWN),
        Block("Statements", list(_statements(cuts)), STATEMENTS_SHOWN),
    ]


def _table(graph: str, cuts: Cuts) -> Iterator[dict[str, Any]]:
    """Ours in random order, then LEADS D1.4's; nothing, if that order was not run."""
    for k in sorted({k for k, order, _ in cuts if order == "random"}):
        means = {name: _mean(cuts, k, name) for name in ("hash", "metis", "ldg", "ldg-first", "fennel", "fennel-leads")}
        yield {"graph": graph, "k": k, **means, **_distance(means["fennel"], means["metis"])}
    if any(order == "random" for _, order, _ in cuts):
        for name, figures in PAPER.items():
            for k, (metis, ldg, fennel) in zip((2, 4, 8, 16), figures, strict=True):
                yield {"graph": name, "k": k, "metis": metis, "ldg": ldg, "fennel": fennel, **_distance(fennel, metis)}


def _distance(fennel: float | None, metis: float | None) -> dict[str, float | None]:
    if fennel is None or not metis:
        return {"points": None, "relative": None}
    return {"points": round(100 * (fennel - metis), 2), "relative": round(100 * (fennel / metis - 1), 1)}


def _mean(cuts: Cuts, k: int, method: str, order: str = "random") -> float | None:
    found = cuts.get((k, order, method), cuts.get((k, "any", method)))
    return None if found is None else float(found.mean())


def _reference(graph: str, cuts: Cuts) -> Iterator[dict[str, Any]]:
    for (name, k), figures in REFERENCE.items():
        for (method, order), figure in zip(METHODS, figures, strict=True):
            ours = cuts.get((k, order, method))
            if name == graph and ours is not None and figure is not None:
                low, high = float(ours.min()), float(ours.max())
                yield {
                    "k": k,
                    "order": order,
                    "method": method,
                    "reference": figure,
                    "cut": float(ours.mean()),
                    "low": low,
                    "high": high,
                    "agrees": low - ROUNDED <= figure <= high + ROUNDED,
                }


def _statements(cuts: Cuts) -> Iterator[dict[str, Any]]:
    for k, order in sorted({(k, order) for k, order, _ in cuts if order != "any"}):
        fennel = _mean(cuts, k, "fennel", order)
        if fennel is not None:
            if order == "random":  # as in LEADS D1.4
                yield from _of_seed(cuts, k, f"k = {k}: ", fennel)
            yield from _best(cuts, k, order, f"k = {k}, {order}: ", fennel)


def _of_seed(cuts: Cuts, k: int, where: str, fennel: float) -> Iterator[dict[str, Any]]:
    metis, ldg, by_hash = _mean(cuts, k, "metis"), _mean(cuts, k, "ldg"), _mean(cuts, k, "hash")
    first, sample = _mean(cuts, k, "ldg-first"), _mean(cuts, k, "sample-fennel")
    if metis is not None:
        distance = _distance(fennel, metis)
        figures = f"{where}{fennel:.1%} against {metis:.1%}: {distance['points']} points, {distance['relative']} %"
        yield statement("FENNEL is within 10 % of METIS", fennel <= 1.1 * metis, figures)
    if ldg is not None and by_hash is not None:
        ties = f"; with ties to the first part {first:.1%}" if first is not None else ""
        figures = f"{where}{ldg:.1%} against {by_hash:.1%}{ties}"
        yield statement("LDG is hardly better than hashing", ldg > 0.9 * by_hash, figures)
    if sample is not None:
        figures = f"{where}{sample:.1%} instead of {fennel:.1%}: {1 - sample / max(fennel, 1e-9):.0%} less"
        yield statement("to partition a sample first is not worth it", sample > 0.9 * fennel, figures)


def _best(cuts: Cuts, k: int, order: str, where: str, fennel: float) -> Iterator[dict[str, Any]]:
    for words, passes in (("one pass", {1}), ("a few passes", {5, 10}), ("the whole graph", {0})):
        means = {
            name: mean
            for name, each in PARTITIONERS.items()
            if each.passes in passes
            and name not in ("metis", "kahip", "ldg-first")
            and (mean := _mean(cuts, k, name, order)) is not None
        }
        if means and (best := min(means, key=lambda name: means[name])) != "fennel":
            less = 1 - means[best] / max(fennel, 1e-9)
            figures = f"{where}{best} {means[best]:.1%} instead of {fennel:.1%}: {less:.0%} less"
            yield statement(f"with {words}, a third less than FENNEL", less >= 1 / 3, figures)

"""This experiment repeats Table 2 of LEADS D1.4 on graphs of its sizes, for 2 to 64 parts.

LEADS D1.4 (2015, section 4) partitioned four crawls of its own, which nobody else has. Here a graph of each size is
what a breadth-first crawl of a larger one finds first, with as many of its edges. Each run has another crawl and
another random order of its vertices.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.harness import STATEMENTS_SHOWN, Block, Results, Row, columns, publish, statement
from experiments.paired import LEVEL, RESAMPLES
from experiments.partition_methods import PARTITIONERS
from experiments.partition_statements import PAPER
from experiments.partitioning import breadth_first, compiled
from gossamer.arrays import F64
from gossamer.placement.incidence import Incidence, incidence
from gossamer.placement.partition import Goal, cut, task
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.graphs import Graph, load
from gossamer.sim.numbers import positive

SIZES = {"G1": (968, 7_680), "G2": (7_721, 23_154), "G3": (39_763, 198_790), "G4": (71_005, 709_950)}
PAPER_PARTS = (2, 4, 8, 16)
PARTS = (*PAPER_PARTS, 32, 64)
METHODS = ("hash", "metis", "ldg", "ldg-first", "fennel", "fennel-leads")
KINDS = {"given": "given", "held": "held out"}
LEAST = 0.75  # of the edges
MOST = 1.1  # "typically within 10 %"
ALIKE = 0.9  # "not significantly better than random": at least so much of hashing's cut
SHOWN = columns(
    "kind | graph | size | vertices | edges | k | hash | metis: METIS | ldg: LDG | ldg-first: LDG, ties to the first | "
    "fennel: FENNEL | fennel-leads: constant of LEADS | ratio: FENNEL / METIS | low: from | high: to | "
    "metis_paper: LEADS: METIS | ldg_paper: LDG | fennel_paper: FENNEL"
)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graph", type=Path, action="append", required=True, help="constants were chosen on it")
    parser.add_argument("--held", type=Path, action="append", default=[], help="no constant was chosen on it")
    parser.add_argument("--runs", type=positive, default=10, metavar="N", help="crawls and orders (default: 10)")


def run(arguments: argparse.Namespace) -> int:
    rows: list[Row] = []
    for path in (*arguments.graph, *arguments.held):
        graph, kind = load(path), "held" if path in arguments.held else "given"
        for size in SIZES:
            samples = [sample(graph, *SIZES[size], np.random.default_rng((arguments.seed, n))) for n in
                       range(arguments.runs)]  # fmt: skip
            if all(_is_like(each, *SIZES[size]) for each in samples):  # else the graph is too small, or too sparse
                rows += _rows(graph.name, KINDS[kind], size, samples, arguments.seed)
    publish(_results(rows, arguments), arguments.out, arguments.json)
    return 0


def sample(graph: Graph, vertices: int, edges: int, random: np.random.Generator) -> Incidence:
    """What a breadth-first crawl from random pages finds first, and as many edges between that, if there are."""
    found = breadth_first(graph.indptr, graph.indices, random.permutation(graph.pages).astype(np.int32)[:50])[:vertices]
    number = np.full(graph.pages, -1, np.int64)
    number[found] = np.arange(len(found))
    source, target = number[graph.sources()], number[graph.indices]
    inside = (source >= 0) & (target >= 0) & (source != target)
    low, high = np.minimum(source, target)[inside], np.maximum(source, target)[inside]
    pairs = np.unique(low * len(found) + high)
    kept = random.choice(pairs, min(edges, len(pairs)), replace=False)
    return incidence(kept // len(found), kept % len(found), len(found))


def _is_like(found: Incidence, vertices: int, edges: int) -> bool:
    return found.vertices == vertices and found.edges >= LEAST * edges


@dataclass(frozen=True)
class Case:
    k: int
    method: str
    number: int  # of the sample


def _rows(graph: str, kind: str, size: str, samples: Sequence[Incidence], seed: int) -> Iterator[Row]:
    def measured(case: Case) -> float:
        linked = samples[case.number]
        random = np.random.default_rng((seed, case.number, case.k))
        order = random.permutation(linked.vertices).astype(np.int32)
        return cut(linked, PARTITIONERS[case.method].place(compiled(task(linked, Goal(case.k))), order, random))

    cases = [Case(k, method, number) for k in PARTS for method in METHODS for number in range(len(samples))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # compiled loops run outside Python's lock
        cuts = dict(zip(cases, pool.map(measured, cases), strict=True))
    facts = {
        "kind": kind, "graph": graph, "size": size, "vertices": samples[0].vertices,
        "edges": int(np.mean([each.edges for each in samples])),
    }  # fmt: skip
    for k in PARTS:
        by_method = {name: np.array([cuts[Case(k, name, n)] for n in range(len(samples))]) for name in METHODS}
        means = {name: float(values.mean()) for name, values in by_method.items()}
        bounds = dict(zip(("ratio", "low", "high"), _ratio(by_method["fennel"], by_method["metis"]), strict=True))
        yield {**facts, "k": k, **means, **bounds, **_paper(size, k)}


def _ratio(above: F64, below: F64) -> tuple[float | None, float | None, float | None]:
    """Returns the ratio of two means of the same runs, and its bootstrap interval; none where the lower are zero."""
    random = np.random.default_rng(0)
    drawn = random.integers(0, len(above), (RESAMPLES, len(above)))
    with np.errstate(divide="ignore", invalid="ignore"):
        means = above[drawn].mean(axis=1) / below[drawn].mean(axis=1)
        low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        found = above.mean() / below.mean(), low, high
    return found if np.isfinite(found).all() else (None, None, None)


def _paper(size: str, k: int) -> dict[str, float | None]:
    figures = next(figures for name, figures in PAPER.items() if f" {size} " in name)
    theirs = figures[PAPER_PARTS.index(k)] if k in PAPER_PARTS else (None, None, None)
    return dict(zip(("metis_paper", "ldg_paper", "fennel_paper"), theirs, strict=True))


def _statements(rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        where = f"{row['graph']}, {row['size']}, k = {row['k']}: "
        if row["ratio"] is None:  # METIS cuts nothing in a run, and FENNEL something
            figures = f"{where}{row['fennel']:.1%} against {row['metis']:.2%}"
            within = row["fennel"] <= MOST * row["metis"]
        else:
            within = True if row["high"] <= MOST else False if row["low"] > MOST else None
            figures = f"{where}{row['ratio']:.2f} times [{row['low']:.2f}, {row['high']:.2f}]"
        yield statement("FENNEL is within 10 % of METIS", within, figures)
        figures = (
            f"{where}{row['ldg']:.1%} against {row['hash']:.1%}; with ties to the first part {row['ldg-first']:.1%}"
        )
        yield statement("LDG is hardly better than hashing", row["ldg"] > ALIKE * row["hash"], figures)


def verdicts(rows: Sequence[Row]) -> Iterator[Row]:
    """On how many of the cases each statement holds, by kind of graph."""
    for kind in KINDS.values():
        said = list(_statements([row for row in rows if row["kind"] == kind]))
        for text in dict.fromkeys(row["statement"] for row in said):
            here = [row["here"] for row in said if row["statement"] == text]
            yield {"kind": kind, "statement": text, **{word: here.count(word) for word in _WORDS}, "cases": len(here)}


_WORDS = ("holds", "is open", "does not hold")


def _results(rows: Sequence[Row], arguments: argparse.Namespace) -> Results:
    notes = [
        f"means of {arguments.runs} runs; from, to: 95 % bootstrap interval of FENNEL's mean cut over METIS's; "
        f"nu = 1.1; edges: fewer than LEADS's where the graph has fewer; no ratio where METIS cuts nothing",
        "LDG, ties to the first: equal parts go to the first one; our guess at what LEADS D1.4 did",
    ]
    counted = {"kind": "kind", "statement": "statement", **{word: word for word in _WORDS}, "cases": "cases"}
    return Results(
        "leads-table",
        "Table 2 of LEADS D1.4, on graphs of its sizes",
        rows,
        SHOWN,
        notes,
        [figure(rows)],
        [
            Block("Verdicts", list(verdicts(rows)), counted),
            Block("Statements of LEADS D1.4", list(_statements(rows)), STATEMENTS_SHOWN),
        ],
    )


def figure(rows: Sequence[Row]) -> Figure:
    """FENNEL's cut over METIS's, by parts; LEADS's dashed."""
    curves = []
    for graph, size in dict.fromkeys((row["graph"], row["size"]) for row in rows):
        ours = [row for row in rows if (row["graph"], row["size"]) == (graph, size) and row["ratio"]]
        x, y = (np.array([row[key] for row in ours], np.float64) for key in ("k", "ratio"))
        curves.append(Curve(f"{graph}, {size}", x, y))
    for name, figures in PAPER.items():
        y = np.array([fennel / metis for metis, _, fennel in figures])
        curves.append(Curve(name.partition(" (")[0], np.array(PAPER_PARTS, np.float64), y, dashed=True))
    title = "Edges that FENNEL cuts, METIS = 1"
    return Figure("leads-table", title, "parts", "times as many", curves, log_y=True, markers=True)

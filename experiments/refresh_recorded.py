"""This module runs refresh policies on the changes that a crawl has seen: what would another one have kept fresh?"""

from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness import Results, columns
from experiments.refresh_simulation import Recorded, Run, simulate
from gossamer.api import Crawl
from gossamer.errors import ArchiveError

PARTS = (0.1, 0.3, 1.0)
RUNS = (("index", False), ("index", True), ("azar", True), ("harmonic", True), ("stalest", False), ("fixed", False))
SHOWN = columns(
    "budget: of the visits recorded | policy | freshness | visits: visits counted | starved: pages never visited"
)
# Visits that compared a page with what we had; redirects and errors tell nothing of its content.
_SQL = """
    select key, epoch_ms("time") / 1000 as seconds, digest, outcome
    from visits where outcome in ('ok', 'unchanged') and not is_robots order by key, "time"
"""


def results(directory: Path, seed: int) -> Results:
    world, visits = recorded(directory, np.random.default_rng(seed))
    pages = len(world.weight)
    rows: list[dict[str, Any]] = []
    for part in PARTS:
        budget_per_s = part * visits / world.length_s
        for name, learns in (*RUNS, ("adaptive", False)):
            run = Run(name, budget_per_s, learns)
            outcome = simulate(world, run, np.random.default_rng(seed), world.length_s)
            facts = {"freshness": outcome.freshness, "visits": outcome.visits, "starved": outcome.starved}
            rows.append({"part": "recorded", "budget": part, "policy": run.label, **facts})
    return Results(
        "refresh-recorded",
        f"Freshness on the record of {directory}: {pages:,} pages, {visits:,} visits",
        rows,
        SHOWN,
        notes=(
            "between two visits that found different content, one change at a random time; what changed and changed "
            "back was not seen by anybody",
            "index: knows each page's number of changes in the whole record, which no crawler can",
            "all pages weigh the same; the first half of the record is not counted",
        ),
    )


def recorded(directory: Path, random: np.random.Generator) -> tuple[Recorded, int]:
    """Pages visited at least three times, and how often they were in all."""
    rows = Crawl(directory).query(_SQL)
    changes: list[list[float]] = []
    visits, first_s, last_s = 0, np.inf, 0.0
    at = 0
    while at < len(rows):
        end = at
        while end < len(rows) and rows[end]["key"] == rows[at]["key"]:
            end += 1
        if end - at >= 3:
            changes.append(_changes(rows[at:end], random))
            visits += end - at
            first_s, last_s = min(first_s, rows[at]["seconds"]), max(last_s, rows[end - 1]["seconds"])
        at = end
    if not changes or last_s <= first_s:
        raise ArchiveError(f"{directory} has no page with three visits; crawl with refresh.policy first")
    begin = np.concatenate(([0], np.cumsum([len(each) for each in changes]))).astype(np.intp)
    times_s = np.array([moment for each in changes for moment in each]) - first_s
    return Recorded(begin, times_s, np.ones(len(changes)), last_s - first_s), visits


def _changes(rows: list[dict[str, Any]], random: np.random.Generator) -> list[float]:
    times = []
    digest, last_s = rows[0]["digest"], rows[0]["seconds"]
    for row in rows[1:]:
        if row["outcome"] == "ok" and row["digest"] != digest:
            times.append(float(random.uniform(last_s, row["seconds"])))
            digest = row["digest"]
        last_s = row["seconds"]
    return times

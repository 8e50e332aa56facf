"""Statements "A is better than B" of the literature, tested on what was just measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gossamer.arrays import F64


@dataclass(frozen=True)
class Claim:
    better: str
    worse: str


SHOWN = {"statement": "statement", "here": "here", "sets": "in sets", "difference": "difference", "seed": "seed's"}


def check(claims: Sequence[Claim], averages: Mapping[str, F64], seed: Mapping[str, float]) -> list[dict[str, Any]]:
    """A row for each claim whose strategies were run; the same starts are compared with each other."""
    return [
        _row(claim, averages[claim.better] - averages[claim.worse], seed)
        for claim in claims
        if claim.better in averages and claim.worse in averages
    ]


def _row(claim: Claim, differences: F64, seed: Mapping[str, float]) -> dict[str, Any]:
    wins, count = int((differences > 0).sum()), len(differences)
    theirs = seed[claim.better] - seed[claim.worse] if claim.better in seed and claim.worse in seed else None
    return {
        "statement": f"{claim.better} is better than {claim.worse}",
        "here": _verdict(differences),
        "sets": f"{wins} of {count}",
        "difference": float(differences.mean()),
        "seed": theirs,
    }


def _verdict(differences: F64) -> str:
    if not differences.any():
        return "no difference"
    return "holds" if (differences > 0).all() else "does not hold" if (differences <= 0).all() else "is open"

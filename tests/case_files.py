"""This module reads the conformance cases: ours in `tests/cases`, and further suites that may lie beside the clone.

Ours are written from the standards, and each names its section. The further ones are facts from public test suites;
they are not part of the repository. A run says how many of them it did not have.
"""

import base64
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = ROOT / "tests" / "cases"
BESIDE = Path(os.environ.get("GOSSAMER_SHARED") or ROOT.parent / "shared")
EXTRA = BESIDE / "cases"
GRAPHS = BESIDE / "data" / "graphs"

# How many cases each file of the further suites has, and the graphs that tests compare figures on.
EXTRA_CASES = {
    "base_url": 45,
    "charset_declared": 82,
    "http_content_length": 35,
    "http_raw_responses": 128,
    "link_extraction": 80,
    "meta_refresh": 33,
    "meta_robots": 33,
    "robots_allow": 588,
    "robots_directives": 73,
    "robots_fetch_status": 22,
    "sitemaps": 66,
    "url_resolve": 500,
}
EXTRA_GRAPHS = ("cnr-2000-nat", "cs-stanford", "debian-docs")
_FILES = {"url_resolve": "url_resolve_wpt"}  # of the further suites, where the name differs


@dataclass(frozen=True)
class Suite:
    """The cases of one topic: ours, or the further ones."""

    cases: list[dict[str, Any]]
    meta: dict[str, Any]
    is_ours: bool

    def file(self, case: dict[str, Any]) -> bytes:
        """The body that a case gives by itself, or the file that it names."""
        return (EXTRA / case["file"]).read_bytes() if "file" in case else body_of(case, "body")


def suite(name: str, is_ours: bool = True) -> Suite:
    path = (OURS / name if is_ours else EXTRA / _FILES.get(name, name)).with_suffix(".json")
    loaded = json.loads(path.read_text(encoding="utf-8"))
    found = Suite(loaded["cases"], loaded["meta"], is_ours)
    expected = loaded["count"] if is_ours else EXTRA_CASES[name]
    assert len(found.cases) == expected > 0, f"{path} has {len(found.cases)} cases, not {expected}"
    return found


def suites(name: str) -> list[Any]:
    """For `parametrize`: our suite of a topic, and the further one if it is there."""
    found = [pytest.param(suite(name), id="ours")]
    return [*found, extra(name)] if EXTRA.is_dir() else found


def extra(name: str) -> Any:
    """For `parametrize`: the further suite alone; for what only its cases ask."""
    if EXTRA.is_dir():
        return pytest.param(suite(name, is_ours=False), id="extra")
    return pytest.param(None, id="extra", marks=pytest.mark.skip(reason=f"{EXTRA} is not there"))


def each(name: str) -> list[Any]:
    """For `parametrize`: the single cases of a topic, ours first."""
    found: Iterable[Suite] = [suite(name), suite(name, is_ours=False)] if EXTRA.is_dir() else [suite(name)]
    return [pytest.param(case, id=case["id"]) for part in found for case in part.cases]


def graph(name: str) -> Path:
    """The file of a public graph; the test is skipped where it is not."""
    path = GRAPHS / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path} is not there: docs/lab.md says where it comes from")
    return path


def missing() -> str:
    """What a run did without; "" if nothing."""
    cases = 0 if EXTRA.is_dir() else sum(EXTRA_CASES.values())
    graphs = [name for name in EXTRA_GRAPHS if not (GRAPHS / f"{name}.npz").is_file()]
    found = [f"{cases:,} further conformance cases (no {EXTRA})"] if cases else []
    found += [f"{len(graphs)} public graphs ({', '.join(graphs)})"] if graphs else []
    return " and ".join(found)


def body_of(case: dict[str, Any], field: str) -> bytes:
    """A field given as text, or as `<field>_b64`."""
    if f"{field}_b64" in case:
        return base64.b64decode(case[f"{field}_b64"])
    return str(case[field]).encode()

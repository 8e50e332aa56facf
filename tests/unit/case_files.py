"""Reads the conformance cases, which lie beside the repository; tests that need them are skipped where they do not."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"


def load(name: str) -> dict[str, Any]:
    path = CASES / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there: the conformance cases belong beside the repository")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def read(file: str) -> bytes:
    return (CASES / file).read_bytes()


def body_of(case: dict[str, Any], field: str) -> bytes:
    """A field given as text, or as `<field>_b64`."""
    if f"{field}_b64" in case:
        return base64.b64decode(case[f"{field}_b64"])
    return str(case[field]).encode()

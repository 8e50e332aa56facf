"""This module stores the frontier between two runs: facts and arrays, valid only for an owner with the same facts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gossamer.errors import disk_full_guard

KIND = "index.frontier"
MAGIC = b"GOSSFRO1"

Arrays = Sequence[npt.NDArray[Any]]
Facts = dict[str, Any]  # as JSON has them


def write_frontier(path: Path, whose: Facts, facts: Facts, arrays: Arrays) -> None:
    shape = [(array.dtype.str, len(array)) for array in arrays]
    head = json.dumps({"whose": whose, "facts": facts, "arrays": shape}).encode()
    with disk_full_guard(path), path.open("wb") as file:
        file.write(MAGIC + len(head).to_bytes(4, "little") + head)
        for array in arrays:
            file.write(np.ascontiguousarray(array).view(np.uint8).data)


def read_frontier(path: Path, whose: Facts) -> tuple[Facts, list[npt.NDArray[Any]]] | None:
    """Returns what was written; None if it is missing, somebody else's, of another version or not whole."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return None
            head = json.loads(file.read(int.from_bytes(file.read(4), "little")))
            if head["whose"] != whose:
                return None
            arrays = [np.fromfile(file, dtype, count) for dtype, count in head["arrays"]]
            is_whole = not file.read(1) and all(len(a) == n for a, (_, n) in zip(arrays, head["arrays"], strict=True))
    except (FileNotFoundError, ValueError, KeyError, TypeError, MemoryError):
        return None
    return (head["facts"], arrays) if is_whole else None

"""This module brings changed options to a crawl that is running: a file in its folder, which the crawl takes away."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gossamer.errors import ConfigError, disk_full_guard

FILE = "reload.json"

# What was written, or is shared with others, by these options stays as it is until the crawl ends.
_FIXED = ("archive.", "site.", "index.", "carbon.", "log.", "crawl.agent", "crawl.seeds", "crawl.seed", "crawl.history")


def check_reload(names: Iterable[str]) -> None:
    fixed = [name for name in names if f"{name}.".startswith(_FIXED)]
    if fixed:
        raise ConfigError(
            f"{', '.join(fixed)} cannot change while a crawl is running: stop it, and start it with the new value; "
            "`gossamer add` adds seeds"
        )


def offer(folder: Path, values: Mapping[str, Any]) -> Path:
    """Writes changes for the crawl in this folder, whole or not at all. They may name hosts and header fields: nobody
    else may read them."""
    path = folder / FILE
    part = path.with_name(f".{FILE}.part")
    with disk_full_guard(path):
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(values, file)
        os.replace(part, path)
    return path


def take(folder: Path, keep: Callable[[dict[str, Any]], None] = lambda _: None) -> dict[str, Any]:
    """Takes the changes that wait in a folder; there are none most of the time. `keep` is called before they go."""
    path = folder / FILE
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:  # somebody else wrote it
        found = {}
    if found:
        keep(found)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return dict(found)

"""`Aside` is the folder `aside`, where repairs put what they take out of an archive. Nothing is deleted."""

import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from gossamer.archive.store import sync
from gossamer.errors import disk_full_guard

FOLDER = "aside"


class Aside:
    """A repair has one such folder in the crawl's directory, and in each of its copies."""

    def __init__(self, directories: Sequence[Path], now_s: float) -> None:
        self._directories = directories
        self.folder = f"{FOLDER}/{datetime.fromtimestamp(now_s, UTC):%Y-%m-%dT%H%M%S}"

    def keep(self, name: str) -> None:
        """Links or copies a file: it is in both places from now on."""
        for directory in self._directories:
            target = directory / self.folder / name
            if (directory / name).is_file() and not target.exists():
                with disk_full_guard(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    try:
                        os.link(directory / name, target)
                    except OSError:  # a file system without links
                        shutil.copyfile(directory / name, target)
                        sync(target)
                    sync(target.parent)

    def move(self, name: str) -> None:
        self.keep(name)
        for directory in self._directories:
            (directory / name).unlink(missing_ok=True)

"""`Aside` is the folder `aside`, where repairs put what they take out of an archive. Nothing is deleted."""

import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime

from gossamer.archive.copies import has
from gossamer.archive.store import Store
from gossamer.errors import disk_full_guard

FOLDER = "aside"


class Aside:
    """A repair has one such folder in the crawl's directory, and in each of its copies."""

    def __init__(self, stores: Sequence[Store], now_s: float) -> None:
        self._stores = stores
        self.folder = f"{FOLDER}/{datetime.fromtimestamp(now_s, UTC):%Y-%m-%dT%H%M%S}"

    def keep(self, name: str) -> None:
        """Links or copies a file: it is in both places from now on."""
        target = f"{self.folder}/{name}"
        for store in self._stores:
            if has(store, name) and not has(store, target):
                scratch = store.scratch(target)
                scratch.unlink(missing_ok=True)  # an interrupted repair may have left it
                with disk_full_guard(scratch):
                    try:
                        os.link(store.local(name), scratch)
                    except OSError:  # a file system without links
                        shutil.copyfile(store.local(name), scratch)
                store.put(target, scratch)
                store.settle()

    def move(self, name: str) -> None:
        self.keep(name)
        for store in self._stores:
            store.delete(name)

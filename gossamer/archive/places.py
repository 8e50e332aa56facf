"""This module opens a crawl's archive where it is, in a directory or in a bucket, with the options of its last run."""

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.archive.mark import MARK, Mark, check_mark, decode_mark, judged
from gossamer.archive.state import encoded
from gossamer.archive.store import Directory, Store, Unchecked
from gossamer.config import Config, last_run
from gossamer.config.folders import Address, Place, cache_folder, folder_of

if TYPE_CHECKING:
    from gossamer.archive.object_store import ObjectStore


def prepare(crawl: Place, config: Config, now_s: float) -> "Directory | ObjectStore":
    """Opens an archive to crawl into it, or begins one."""
    if isinstance(crawl, Path):
        return Directory.prepare(crawl, now_s)
    return _object_store().prepare(crawl, now_s, cache_bytes=config.archive.cache_mb << 20)


def opened(crawl: Place, config: Config | None = None) -> "Directory | ObjectStore":
    """Opens an archive that exists; with a configuration, to write to it as that says."""
    if isinstance(crawl, Path):
        return Directory(crawl)
    bound: dict[str, Any] = {"cache_bytes": config.archive.cache_mb << 20} if config else {}
    return _object_store().open(crawl, **bound)


def unmarked(crawl: Place) -> "Directory | ObjectStore":
    """Opens a place where there need not be an archive yet, or only part of one."""
    return Unchecked(crawl) if isinstance(crawl, Path) else _object_store()(crawl)


def fresh(crawl: Place) -> "Directory | ObjectStore":
    """Opens a place so that all is read from there: what this machine's cache has of it says nothing about it."""
    if isinstance(crawl, Path):
        return Unchecked(crawl)
    cache_folder().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="fresh-", dir=cache_folder()))
    store = _object_store()(crawl, folder=folder)
    weakref.finalize(store, shutil.rmtree, folder, True)
    return store


def _object_store() -> "type[ObjectStore]":
    """Loads obstore, which whoever crawls into a directory need not have."""
    from gossamer.archive.object_store import ObjectStore

    return ObjectStore


def check_marked(store: "Directory | ObjectStore", read_only: bool = False) -> None:
    """Raises an error unless the mark is there, whole, and of a layout that can be used."""
    if isinstance(store, Directory):
        check_mark(store.path, read_only)
    else:
        found = store.mark_bytes()
        judged(None if found is None else decode_mark(found), store.path, read_only)


def put_mark(store: "Directory | ObjectStore", mark: Mark) -> None:
    """Replaces the mark, after all that was put before it is durable."""
    store.settle()
    store.put(MARK, encoded(mark))
    store.settle()


def apart(store: Store) -> Store:
    """Returns the same archive, opened once more: small files then do not wait for the uploads of large ones."""
    address = getattr(store, "path", None)
    return _object_store()(address) if isinstance(address, Address) else store


def exists(crawl: Place) -> bool:
    return (crawl / MARK).exists() if isinstance(crawl, Path) else _object_store()(crawl).mark_bytes() is not None


def remember(store: "Directory | ObjectStore", config: Config) -> None:
    """Keeps the options of this run for the next one, which may be on another machine."""
    if isinstance(store, Directory):
        last_run.remember(store.path, config)
        return
    last_run.remember(store.folder, config)
    store.put(last_run.FILE, (store.folder / last_run.FILE).read_bytes())
    store.settle()


def remembered(crawl: Place) -> Config | None:
    """Returns the options of the last run, None if there was none."""
    if isinstance(crawl, Path):
        return last_run.recall(crawl)
    store = _object_store()(crawl)
    store.mark_bytes()  # this is the first request: if the store cannot be reached, the user learns it soon
    try:
        found = store.get(last_run.FILE)
    except FileNotFoundError:
        return None
    path = folder_of(crawl) / last_run.FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(found)
    return last_run.recall(path.parent)

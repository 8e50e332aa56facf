"""This module has the one tree of exceptions. They mean broken machinery or a user's mistake, never a page's failure.

GossamerError                 everything we raise on purpose; str(error) says what to do next
├── ConfigError               a key, a value or an argument is wrong
├── SeedError                 nothing to crawl, or a seed is not a web address
├── ArchiveError              the crawl directory is not what it should be
│   ├── ArchiveBusy           another process crawls in this directory
│   ├── ArchiveVersion        written by another version of the layout
│   ├── StoreError            the object store that holds the crawl refuses, is overloaded or does not answer
│   └── Deposed               the next number of our manifest chain is taken: we no longer own it
├── SiteError                 nats-server, which carries messages between agents, is missing or does not start
├── Unreadable                a message that came is not what a message should be
│   └── TooNew                it was written by a later version of the protocol
├── FunctionError             the user's page functions fail again and again, or can no longer be run
├── OutOfSpace                the disk is full; what was committed is safe
└── QueryError                the SQL is wrong
"""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)


class GossamerError(Exception):
    """`GossamerError` is the base of every error that Gossamer raises on purpose."""


class ConfigError(GossamerError):
    pass


class SeedError(GossamerError):
    pass


class ArchiveError(GossamerError):
    pass


class ArchiveBusy(ArchiveError):
    pass


class ArchiveVersion(ArchiveError):
    pass


class StoreError(ArchiveError):
    pass


class Deposed(ArchiveError):
    pass


class SiteError(GossamerError):
    pass


class RemoteLimit(SiteError):
    pass


class Unreadable(GossamerError):
    pass


class TooNew(Unreadable):
    pass


class FunctionError(GossamerError):
    pass


class OutOfSpace(GossamerError):
    pass


class QueryError(GossamerError):
    pass


@contextlib.contextmanager
def disk_full_guard(path: Path) -> Iterator[None]:
    """Turns a full disk into an error that says what to do; whoever writes files does it inside this guard."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL or "No space left" in str(error):
            raise OutOfSpace(
                f"no space left for {path}: free some, then run the same command again; "
                "everything committed so far is safe"
            ) from error
        raise

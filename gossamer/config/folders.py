"""This module reads the name of a crawl: a directory of this machine, or the address of an archive in an object store.

Whatever a crawl at an address keeps beside its archive (cached files, scratch files, locks, the event log) is in a
folder of this machine's cache: `folder_of`.
"""

import os
import re
from pathlib import Path

from xxhash import xxh3_64_hexdigest

from gossamer.errors import ConfigError

SCHEMES = {"s3": "Amazon S3 and what speaks like it", "az": "Azure Blob Storage", "gs": "Google Cloud Storage"}
CACHE = "GOSSAMER_CACHE"  # the environment variable that moves the cache

# A scheme of two letters or more, as C:/ is none. A Path has lost one of the two slashes.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FOLDER = re.compile(r"[A-Za-z0-9!_.()' =+,@~-]+")


class Address(str):
    """`Address` is where an archive is in an object store, such as s3://bucket/folder; it never has a secret in it."""

    __slots__ = ()

    @property
    def scheme(self) -> str:
        return self.partition(":")[0]

    @property
    def bucket(self) -> str:
        return self.split("/")[2]

    @property
    def prefix(self) -> str:
        return "/".join(self.split("/")[3:])


Place = Path | Address


def as_place(name: str | Path) -> Place:
    """Returns what a name of a crawl means."""
    if isinstance(name, Address):
        return name
    found = _ADDRESS.fullmatch(str(name))
    return _address(found[1].lower(), found[2]) if found else Path(name)


def absolute(name: str) -> Place:
    """Returns what a name of a crawl means, wherever one is."""
    place = as_place(name)
    return place if isinstance(place, Address) else place.expanduser().absolute()


def _address(scheme: str, rest: str) -> Address:
    """Returns the address; messages do not quote what may be a secret."""
    if any(mark in rest for mark in "@?#"):
        raise ConfigError(
            f"{scheme}://...: an address has neither credentials nor options in it, as it is stored and shown: write "
            f"{scheme}://BUCKET/FOLDER, and give credentials in the environment or in a profile (docs/cloud.md)"
        )
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}:// ({meaning})" for name, meaning in SCHEMES.items())
        raise ConfigError(f"{scheme}://{rest}: an archive is in a directory of this machine, or at {known}")
    bucket, *folders = rest.rstrip("/").split("/")
    if not _BUCKET.fullmatch(bucket) or any(f in (".", "..") or not _FOLDER.fullmatch(f) for f in folders):
        raise ConfigError(f"{scheme}://{rest} is no address of an archive: write it like {scheme}://BUCKET/FOLDER")
    return Address("/".join((f"{scheme}:/", bucket, *folders)))


def check_folder(name: str | Path) -> str:
    """Returns the name of a directory as it was given; an address is refused."""
    if isinstance(found := as_place(name), Address):
        raise ConfigError(
            f"{found} is an address, and this must be a directory of this machine: "
            "name one, such as crawl or /data/crawl; of an archive in a bucket make a copy there first (docs/cloud.md)"
        )
    return str(name)


def cache_folder() -> Path:
    """Returns where this machine keeps what it has of archives elsewhere."""
    if moved := os.environ.get(CACHE):
        return Path(moved).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gossamer"


def folder_of(crawl: Place) -> Path:
    """Returns the folder of this machine for what a crawl keeps beside its archive: of a directory, the directory."""
    if isinstance(crawl, Path):
        return crawl
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", crawl.removeprefix(f"{crawl.scheme}://"))[:60]
    return cache_folder() / f"{crawl.scheme}-{readable}-{xxh3_64_hexdigest(crawl.encode())[:8]}"

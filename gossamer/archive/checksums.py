"""A checksum tells a file from a damaged one: its size and 64 bits of xxh3, in the manifest that names it."""

from hashlib import file_digest
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_64, xxh3_64_hexdigest


class Checksum(NamedTuple):
    size: int
    xxh3: str  # 16 hexadecimal digits


def of_bytes(data: bytes) -> Checksum:
    return Checksum(len(data), xxh3_64_hexdigest(data))


def of_file(path: Path) -> Checksum:
    """Returns the checksum of a file. A new file is still in memory, and hashed at gigabytes a second: no need to hash
    while writing."""
    with path.open("rb") as file:
        digest = file_digest(file, xxh3_64)
        return Checksum(file.tell(), digest.hexdigest())

"""A checksum tells a file from a damaged one: its size and 64 bits of xxh3, in the manifest that names it."""

import mmap
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_64, xxh3_64_hexdigest

_PIECE = 16 << 20


class Checksum(NamedTuple):
    size: int
    xxh3: str  # 16 hexadecimal digits


def of_bytes(data: bytes) -> Checksum:
    return Checksum(len(data), xxh3_64_hexdigest(data))


def of_file(path: Path) -> Checksum:
    """Returns the checksum of a file. A new file is still in memory, and hashed at gigabytes a second: no need to hash
    while writing."""
    digest = xxh3_64()
    with path.open("rb") as file:
        size = file.seek(0, 2)
        for start in range(0, size, _PIECE):  # one at a time, or a large file would count as our memory
            length = min(_PIECE, size - start)
            with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ, offset=start) as data:
                digest.update(data)
    return Checksum(size, digest.hexdigest())

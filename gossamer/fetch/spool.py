"""`Spool` holds a body on disk that is too large for memory, until it is in the archive."""

import os
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path
from tempfile import TemporaryFile
from weakref import finalize

from xxhash import xxh3_64

from gossamer.errors import disk_full_guard

_PIECE = 1 << 20


class Spool:
    """A spool is a file without a name: whatever becomes of the process, nothing stays of it. Its digests are those of
    the bytes on the wire."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        with disk_full_guard(folder or Path("/tmp")), TemporaryFile(dir=folder) as file:
            self._file = os.dup(file.fileno())
        finalize(self, os.close, self._file)
        self._sha1, self._xxh3 = sha1(usedforsecurity=False), xxh3_64()
        self.size = 0

    def write(self, data: bytes) -> None:
        with disk_full_guard(self._folder or Path("/tmp")):
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
        self._sha1.update(data)
        self._xxh3.update(data)
        self.size += len(data)

    def start(self, size: int) -> bytes:
        """Returns the first bytes."""
        return os.pread(self._file, size, 0)

    def pieces(self) -> Iterator[bytes]:
        for at in range(0, self.size, _PIECE):
            yield os.pread(self._file, min(_PIECE, self.size - at), at)

    @property
    def sha1(self) -> bytes:
        return self._sha1.digest()

    @property
    def xxh3(self) -> int:
        return self._xxh3.intdigest()

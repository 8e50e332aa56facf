"""`OtherCrawls` finds content that other crawls have stored, so that this one need not (`archive.dedupe`).

The digests of their records are read once, into files without a name: sorted, mapped, and 32 bytes a record. Which URL
and date a record has is read from the record itself, when its content is found again.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import pyarrow as pa

from gossamer.archive.contents import Contents, milliseconds
from gossamer.archive.digests import octets
from gossamer.archive.query import open_reading, streamed
from gossamer.archive.reading import Reading, location_of, reading
from gossamer.archive.warc import Stored, stored_digest
from gossamer.archive.warc_reader import UNREADABLE, read_record
from gossamer.arrays import U8, U64
from gossamer.config import Config
from gossamer.config.folders import as_place
from gossamer.errors import ArchiveError, ConfigError, disk_full_guard

_MEMORY = "SET memory_limit = '256MB'"  # of DuckDB while it sorts; it goes on on disk
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_IN_ORDER = "0123456789abcdefghijklmnopqrstuv"  # the same digits of base 32, which sort like the numbers
# Records with a content: the oldest of each.
_SQL = f"""SELECT digest, warc, warc_offset FROM visits
    WHERE outcome = 'ok' AND NOT is_revisit AND warc <> '' AND coalesce(truncated, '') = '' AND length(digest) = 32
    ORDER BY translate(digest, '{_LETTERS}', '{_IN_ORDER}'), time"""
_REST = np.dtype([("digest", "u1", 12), ("file", "u4"), ("offset", "u8")])  # behind the first 64 bits of a digest
_FIELD = re.compile(r"sha1:([A-Z2-7]{32})").fullmatch
_VALUES = np.zeros(256, np.uint8)
_VALUES[np.frombuffer(_LETTERS.encode(), np.uint8)] = np.arange(32)
_SHIFTS = np.arange(4, -1, -1, dtype=np.uint8)


def check_dedupe(config: Config) -> None:
    """Raises an error unless there is a crawl at each place."""
    for name in config.archive.dedupe:
        try:
            location_of(as_place(name)).read()
        except ArchiveError as error:
            raise ConfigError(f"archive.dedupe names {name}: {str(error).partition(';')[0]}") from None


class OtherCrawls:
    """`OtherCrawls` looks digests up in several crawls, as they were when this one began. A record that is gone since
    then, since its file was merged, is not found."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        """`folder` is where the digests are, on disk."""
        self._crawls = [_Other(name, folder) for name in names]

    def find(self, digest: str) -> Stored | None:
        """Returns the record that has the content with this digest of its payload."""
        return next((found for crawl in self._crawls if (found := crawl.find(digest))), None)


class _Other:
    def __init__(self, name: str, folder: Path) -> None:
        self._names: dict[str, int] = {}  # of WARC files
        self._firsts: U64 = np.zeros(0, np.uint64)
        with disk_full_guard(folder), TemporaryFile(dir=folder) as firsts, TemporaryFile(dir=folder) as rests:

            def read(at: Reading) -> None:
                self._names.clear()
                for file in (firsts, rests):
                    file.seek(0)
                    file.truncate()
                for first, rest in self._parts(at):
                    firsts.write(first.tobytes())
                    rests.write(rest.tobytes())
                self._contents = Contents(at)

            reading(location_of(as_place(name)), read)
            firsts.flush()
            rests.flush()
            if firsts.tell():
                self._firsts = np.memmap(firsts, np.uint64, "r")
                self._rests = np.memmap(rests, _REST, "r")
        self._files = list(self._names)

    def _parts(self, at: Reading) -> Iterator[tuple[U64, np.ndarray]]:
        """Yields the columns of both files; each digest once."""
        last = ""
        with closing(open_reading(at, [_MEMORY])) as database, streamed(database, _SQL) as rows:
            for batch in rows:
                digests = batch.column(0).to_pylist()
                is_first = np.array([one != other for one, other in zip(digests, [last, *digests], strict=False)])
                last = digests[-1] if digests else last
                batch = batch.filter(pa.array(is_first, pa.bool_()))
                if not batch.num_rows:
                    continue
                whole = _octets(batch.column(0).to_pylist())
                rest = np.zeros(batch.num_rows, _REST)
                rest["digest"] = whole[:, 8:]
                files = batch.column(1).to_pylist()
                rest["file"] = [self._names.setdefault(file, len(self._names)) for file in files]
                rest["offset"] = batch.column(2).to_numpy(zero_copy_only=False)
                yield np.ascontiguousarray(whole[:, :8]).view(">u8").ravel().astype(np.uint64), rest

    def find(self, digest: str) -> Stored | None:
        whole = octets(digest)
        first = np.uint64(int.from_bytes(whole[:8]))
        place = int(np.searchsorted(self._firsts, first))
        while place < len(self._firsts) and self._firsts[place] == first:
            if self._rests[place]["digest"].tobytes() == whole[8:]:
                return self._stored(self._rests[place], digest)
            place += 1
        return None

    def _stored(self, rest: np.void, digest: str) -> Stored | None:
        """Returns what the record says of itself; None if it cannot be read, or does not say enough."""
        try:
            path = self._contents.path(self._files[int(rest["file"])])
            assert path is not None
            record = read_record(path, int(rest["offset"]), most=1)
        except (OSError, ArchiveError):
            return None
        except UNREADABLE:
            return None
        fields = record.headers
        url, time_ms = fields.get("WARC-Target-URI", "").strip("<>"), milliseconds(fields.get("WARC-Date", ""))
        if fields.get("WARC-Type") != "response" or not url or time_ms < 0:
            return None
        if named := _FIELD(fields.get("WARC-Payload-Digest", "")):
            return Stored(url, time_ms, digest, named[1])
        # Others may leave it out, or have another kind: it is known if there are no chunks.
        return Stored(url, time_ms, digest, digest) if stored_digest(record.head, b"", digest) == digest else None


def _octets(digests: list[str]) -> U8:
    """Returns the 20 bytes of each digest."""
    values = _VALUES[np.frombuffer("".join(digests).encode("ascii"), np.uint8)].reshape(-1, 32, 1)
    return np.packbits((values >> _SHIFTS & 1).reshape(len(digests), -1), axis=1)

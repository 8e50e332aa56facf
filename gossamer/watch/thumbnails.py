"""`Thumbnails` finds images that the crawl stored for its last pages, and reads them back from the archive.

The bytes are a stranger's. So only images are given out that were offered by `offered` before; what they are is decided
by their own first bytes, never by what a server declared; and only raster images pass: SVG and HTML are markup.
"""

from collections.abc import Container, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gossamer.archive.warc_reader import UNREADABLE, read_record
from gossamer.web.answer import Answer
from gossamer.web.images import size

COLUMNS = ["key", "width", "height", "body_bytes", "warc", "warc_offset", "warc_bytes", "is_revisit"]
REFERRERS = ["key", "referrer", "round", "kind"]  # of the table `pages`
_SIDE = 24  # pixels; what is smaller is a bullet, or counts readers
_PIXELS = 4_000_000  # that a browser has to unpack; a few bytes may claim any number
_BYTES = 256 << 10
_IMAGES = 4_000  # that are remembered
_KEPT = 32  # that are kept in memory as they are
_TYPES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"GIF8", "image/gif"), (b"\xff\xd8\xff", "image/jpeg"))


class Image(NamedTuple):
    """`Image` is where an image is stored."""

    path: Path
    offset: int
    length: int
    pixels: int

    @property
    def name(self) -> str:
        """Returns what it is called in an address: another record has another name."""
        return sha256(f"{self.path}:{self.offset}".encode()).hexdigest()[:24]


class Thumbnails:
    """`Thumbnails` remembers a bounded number of images, by page. Those of archives in buckets are left out: a whole
    WARC file would have to be fetched for each."""

    def __init__(self) -> None:
        self._images: dict[int, Image] = {}  # by key, the newest last
        self._referrers: dict[int, int] = {}  # by key of an image: the page on which it was found first
        self._offered: dict[str, Image] = {}
        self._kept: dict[str, tuple[str, bytes]] = {}

    def add(self, folder: Path, warcs: Container[str], rows: pa.Table) -> bool:
        """Adds the images among these visits. Returns whether there are any. `warcs`: the files that may be read."""
        fits = pc.and_(pc.greater_equal(rows["width"], _SIDE), pc.greater_equal(rows["height"], _SIDE))
        small = pc.and_(pc.less_equal(rows["body_bytes"], _BYTES), pc.equal(rows["outcome"].cast(pa.string()), "ok"))
        rows = rows.filter(pc.and_(pc.and_(fits, small), pc.invert(rows["is_revisit"])))
        for row in rows.slice(max(0, rows.num_rows - _IMAGES)).select(COLUMNS).to_pylist():
            pixels = row["width"] * row["height"]
            if row["warc"] in warcs and row["warc_bytes"] <= 2 * _BYTES and pixels <= _PIXELS:
                self._images[row["key"]] = Image(folder / row["warc"], row["warc_offset"], row["warc_bytes"], pixels)
        _bound(self._images, _IMAGES)
        return bool(rows.num_rows)

    def add_referrers(self, rows: pa.Table) -> None:
        """Adds which pages need what, by rows of the table `pages`."""
        rows = rows.filter(pc.equal(rows["kind"].cast(pa.string()), "requisite"))
        rows = rows.slice(max(0, rows.num_rows - 4 * _IMAGES))
        self._referrers |= zip(rows["key"].to_pylist(), rows["referrer"].to_pylist(), strict=True)
        _bound(self._referrers, 4 * _IMAGES)

    def offered(self, pages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the same pages, each with the name of its image: itself if it is one, or else the largest on it."""
        best: dict[int, Image] = {}
        for key, image in self._images.items():
            page = self._referrers.get(key)
            if page is not None and (page not in best or image.pixels > best[page].pixels):
                best[page] = image
        found = [(row, self._images.get(row["key"]) or best.get(row["key"])) for row in pages]
        self._offered = {image.name: image for _, image in found if image}
        without_key = ({name: value for name, value in row.items() if name != "key"} for row, _ in found)
        return [
            row | {"image": image.name if image else ""} for row, (_, image) in zip(without_key, found, strict=True)
        ]

    def read(self, name: str) -> tuple[str, bytes] | None:
        """Returns type and bytes of an image that was offered; None if there is none, or if it is something else."""
        image = self._offered.get(name)
        if image is None:
            return None
        if name not in self._kept:
            try:
                record = read_record(image.path, image.offset, image.length)
                found = raster(Answer(record.head, record.body).body)
            except OSError:  # it is gone
                return None
            except UNREADABLE:
                return None
            if found is None:
                return None
            self._kept[name] = found
            _bound(self._kept, _KEPT)
        return self._kept.get(name)


def raster(data: bytes) -> tuple[str, bytes] | None:
    """Returns type and bytes of a raster image, by its own first bytes; None for everything else."""
    kind = next((kind for start, kind in _TYPES if data.startswith(start)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    found = size(data)
    if not kind or found is None or len(data) > _BYTES or not 0 < found[0] * found[1] <= _PIXELS:
        return None
    return kind, data


def _bound(found: dict[Any, Any], most: int) -> None:
    """Forgets the oldest entries."""
    for key in list(found)[: max(0, len(found) - most)]:
        del found[key]

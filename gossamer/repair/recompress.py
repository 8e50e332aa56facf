"""This module makes a WARC file that is compressed record by record of one that is not: plain text, one gzip stream, or
Zstandard."""

import gzip
import io
import re
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple

import zstandard
from isal import isal_zlib

from gossamer.archive.warc import GZIP
from gossamer.archive.warc_reader import parsed_fields
from gossamer.errors import disk_full_guard

ZSTD = b"\x28\xb5\x2f\xfd"
_FIRST_LINE = re.compile(rb"WARC/\d+\.\d+[ \t]*\r?\n\Z")
_LINE_BYTES = 64 << 10
_HEADER_BYTES = 1 << 20
_PIECE = 1 << 20
_LEVEL = 1
_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)


class Recompressed(NamedTuple):
    """`Recompressed` counts what was found."""

    records: int
    damaged: int  # stretches that are no records


def begins_with_record(path: Path) -> bool:
    """Returns whether the text of a file begins like a WARC file."""
    with ExitStack() as stack:
        try:
            return _FIRST_LINE.match(_opened(path, stack).readline(_LINE_BYTES)) is not None
        except _BROKEN:
            return False


def recompress(path: Path, target: Path) -> Recompressed:
    """Writes the records of a file, each compressed for itself. What is no record is left out: one that is longer or
    shorter than it says, or has no length. What follows a compressed stream's damage cannot be read."""
    records = damaged = written = 0
    is_astray = False
    with ExitStack() as stack:
        stack.enter_context(disk_full_guard(target))
        source, file = _opened(path, stack), stack.enter_context(target.open("wb"))
        try:
            while line := source.readline(_LINE_BYTES):
                first = _FIRST_LINE.search(line)
                if first is None or first.start():  # the line may have noise, and behind it a record
                    damaged += bool(line.strip()) and not is_astray
                    is_astray |= bool(line.strip())
                if first is None:
                    continue
                after = source.tell() if isinstance(source, _Plain) else -1
                if _copy(first[0], source, file):
                    records, written, is_astray = records + 1, file.tell(), False
                    continue
                damaged += not is_astray
                is_astray = True
                file.seek(written)
                if after >= 0:
                    source.seek(after)  # its length is wrong: others may be within it
        except _BROKEN:
            damaged += 1
        file.truncate(written)
    return Recompressed(records, damaged)


class _Plain(io.BufferedReader):
    """`_Plain` is a file without compression, where one can go back."""


def _opened(path: Path, stack: ExitStack) -> BinaryIO:
    """Opens the text of a file."""
    file = stack.enter_context(path.open("rb"))
    start = file.read(4)
    file.seek(0)
    if start[:2] == b"\x1f\x8b":
        return stack.enter_context(gzip.GzipFile(fileobj=file))  # type: ignore[return-value]
    if start == ZSTD:
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return stack.enter_context(io.BufferedReader(reader, _PIECE))
    return stack.enter_context(_Plain(io.FileIO(path)))


def _copy(first: bytes, source: BinaryIO, file: BinaryIO) -> bool:
    """Writes one record; returns False if it is none."""
    lines, size = [first], len(first)
    while (line := source.readline(_LINE_BYTES)).strip():
        lines.append(line)
        size += len(line)
        if size > _HEADER_BYTES or not line.endswith(b"\n"):
            return False
    header = b"".join(line.rstrip(b"\r\n") + b"\r\n" for line in lines) + b"\r\n"
    length = parsed_fields(header).get("Content-Length", "")
    if not (length.isascii() and length.isdigit()):
        return False
    packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, GZIP)
    file.write(packer.compress(header))
    left = int(length)
    while left:
        piece = source.read(min(left, _PIECE))
        if not piece:
            return False
        file.write(packer.compress(piece))
        left -= len(piece)
    if source.readline(_LINE_BYTES).strip():
        return False
    file.write(packer.compress(b"\r\n\r\n"))
    file.write(packer.flush())
    return True

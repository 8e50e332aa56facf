"""Files of web addresses as editors write them: how they are encoded, which lines count, and what is no such file."""

import codecs
from collections.abc import Iterator
from pathlib import Path

from gossamer.errors import SeedError
from gossamer.web.url import normalise

_MARK = "\ufeff"  # the byte-order mark, once it is decoded
# The longer marks first: that of UTF-32 begins like that of UTF-16. Without a mark a file is UTF-8.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MARK_BYTES = 4  # of a file's beginning, that say how it is encoded
_HEAD = 1 << 16  # bytes of a file's beginning that must be text
_LINE = 1 << 16  # characters; longer lines are looked at in pieces
_SHOWN = 60  # characters of a line that a message quotes
REMEDY = "write one web address per line, like https://example.org/"


def encoding_of(head: bytes) -> str:
    """How a file is encoded that begins like this."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")


def whole_lines(data: bytes, encoding: str) -> int:
    """How many of these bytes are lines with an end."""
    newline = "\n".encode(encoding)
    end = data.rfind(newline)
    while end > 0 and end % len(newline):  # half of one character and half of the next
        end = data.rfind(newline, 0, end + len(newline) - 1)
    return end + len(newline) if end >= 0 else 0


def lines(data: bytes, encoding: str) -> Iterator[str]:
    """The lines that count: neither blank nor a comment. They end in LF, CRLF or CR."""
    for line in data.decode(encoding, "replace").replace("\r", "\n").split("\n"):
        if said := _said(line):
            yield said


def _said(line: str) -> str:
    text = line.strip().strip(_MARK).strip()
    return "" if text.startswith("#") else text


def check_text(path: Path) -> str:
    """The encoding of a file, which must be text."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    encoding = encoding_of(head)
    if encoding == "utf-8" and b"\0" in head:
        raise SeedError(
            f"{path} is not a text file, or is UTF-16 without a byte-order mark; if it is compressed, unpack it first, "
            f"else save it as UTF-8; {REMEDY}"
        )
    return encoding


def check_file(path: Path) -> None:
    """A file without any web address is a mistake, and nobody should have to find that out from an empty crawl. One
    that is empty may be about to grow: that is the caller's to judge."""
    if not path.stat().st_size:
        return
    first = ""
    with path.open(encoding=check_text(path), errors="replace") as text:
        for line in iter(lambda: text.readline(_LINE), ""):
            if said := _said(line):
                if normalise(said) is not None:
                    return
                first = first or said[:_SHOWN]
    found = f": its first line is {first!r}" if first else ""
    raise SeedError(f"there is no web address in {path}{found}; {REMEDY}")

"""This module writes files for a user, outside the archive: whole or not at all, and over no other file unasked."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from gossamer.archive.reading import irrevocable
from gossamer.errors import ConfigError, disk_full_guard

STDOUT = "-"


def is_stdout(out: str | Path) -> bool:
    return str(out) == STDOUT


def check_free(path: Path, force: bool) -> None:
    if path.is_dir():
        raise ConfigError(f"{path} is a directory; name a file")
    if path.exists() and not force:
        raise ConfigError(f"{path} exists; choose another name, or overwrite it with --force")


@contextlib.contextmanager
def replaced(path: Path, force: bool) -> Iterator[Path]:
    """Yields a path to write to; what is there at the end becomes `path`, unless there was an error."""
    check_free(path, force)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with disk_full_guard(path):
            yield part
            os.replace(part, path)
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise ConfigError(f"{path.parent} does not exist; make it first") from None
        raise
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def opened(out: str | Path, force: bool) -> Iterator[BinaryIO]:
    """Yields standard output for "-", otherwise a file that appears when it is whole."""
    if is_stdout(out):
        with irrevocable():
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    with replaced(Path(out), force) as part, part.open("wb") as file:
        yield file


def json_line(value: Mapping[str, Any]) -> bytes:
    """Returns a line of JSON in UTF-8. Characters that are none, as a page may have them, become question marks."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=moment)
    return text.encode("utf-8", "replace") + b"\n"


def moment(time: datetime) -> str:
    """Returns a time of the tables as exports write it. It is UTC, whether it says so or not."""
    return f"{time.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"

"""This module writes exports of one file or several, and keeps beside several with what options they were made."""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from gossamer.archive.outputs import check_free, opened
from gossamer.errors import ConfigError

Part = TypeVar("Part", bound=Sized, contravariant=True)


class Sink(Protocol[Part]):
    """`Sink` writes parts of an export, which have rows, to one file."""

    def write(self, part: Part) -> int:
        """Returns about how many bytes that were."""

    def close(self) -> None: ...


def write_shards(
    parts: Iterator[Part],
    sink: Callable[[BinaryIO], Sink[Part]],
    names: Iterator[str | Path],
    force: bool,
    shard_bytes: int,
) -> int:
    """Writes all parts to one file, or each so many bytes to one; returns how many rows there were."""
    written, following = 0, next(parts, None)
    while True:
        with opened(next(names), force) as file:
            to, room = sink(file), shard_bytes
            while following is not None and (room > 0 or not shard_bytes):
                room -= to.write(following)
                written += len(following)
                following = next(parts, None)
            to.close()
        if following is None:
            return written


def shard_names(out: str | Path, shard_bytes: int, first: int = 1) -> Iterator[str | Path]:
    """Returns the names of an export's files: one, or as many as it takes, from a number on."""
    if not shard_bytes:
        return iter([out])
    path = Path(out)
    return (path.with_name(f"{path.stem}-{number:05d}{path.suffix}") for number in itertools.count(first))


def shards(out: str | Path) -> list[Path]:
    """Returns the shards that are there, in order; some before the last may be missing."""
    path = Path(out)
    pattern = re.compile(rf"{re.escape(path.stem)}-(\d{{5,}}){re.escape(path.suffix)}")
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    found = [(int(match[1]), each) for each in beside if (match := pattern.fullmatch(each.name))]
    return [each for _, each in sorted(found)]


def new_shards(out: str | Path, options: Mapping[str, Any], resume: bool, force: bool) -> Iterator[str | Path]:
    """Yields the names of shards to write. Before the first, the options are kept beside them, and what another export
    left under such names is removed, if that is allowed: shards of two exports are never mixed."""
    there = shards(out)
    if not resume:
        for path in there:
            check_free(path, force)
            path.unlink()
    _keep(_options_file(out), options, force)
    last = there[-1].stem.rpartition("-")[2] if resume and there else 0
    yield from shard_names(out, 1, int(last) + 1)


def check_options(out: str | Path, options: Mapping[str, Any]) -> None:
    """Raises an error if the shards that are there were made with other options."""
    there, path = shards(out), _options_file(out)
    if not there:
        return
    try:
        before = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        before = {}
    others = [name for name in options if name not in before or before[name] != options[name]]
    if others:
        raise ConfigError(
            f"{there[0]} was made with other options ({', '.join(others)}: see {path}); choose another name, or write "
            "all shards anew with --force instead of --resume"
        )


def _keep(path: Path, options: Mapping[str, Any], force: bool) -> None:
    data = (json.dumps(options, indent=2) + "\n").encode()
    if path.is_file() and path.read_bytes() == data:
        return
    with opened(path, force) as file:
        file.write(data)


def _options_file(out: str | Path) -> Path:
    return Path(out).with_name(f"{Path(out).stem}-options.json")


def remove_others(names: Iterator[str | Path]) -> None:
    """Removes what a larger export left behind under the names that would follow."""
    for name in names:
        if not Path(name).exists():
            break
        Path(name).unlink()

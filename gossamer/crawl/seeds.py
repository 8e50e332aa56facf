"""Where seeds come from: arguments, and files that are read on as they grow."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gossamer.archive.state import name_as_text, name_of_text
from gossamer.crawl.opening import mentioned
from gossamer.crawl.seed_lines import MARK_BYTES, REMEDY, check_file, encoding_of, lines, whole_lines
from gossamer.errors import SeedError
from gossamer.sharing.exchange import SEED_FILES, Inbox, encode
from gossamer.web.url import normalise

NO_SEEDS = "nothing to crawl: give at least one URL, or a file of URLs"
_CHUNK = 1 << 22
_SETTLED_S = 2.0  # a file not written for so long is not in the middle of a line


def parse_seeds(arguments: Iterable[str]) -> tuple[list[str], list[Path]]:
    """Normalised URLs, and the files among the arguments."""
    urls: dict[str, None] = {}
    files: list[Path] = []
    for argument in arguments:
        if Path(argument).is_file():
            check_file(Path(argument))
            files.append(Path(argument).resolve())
            continue
        url = normalise(argument)
        if url is None:
            raise SeedError(f"{argument!r} is neither a file nor a web address; write it like https://example.org/")
        urls[url] = None
    if files and not urls and not any(path.stat().st_size for path in files):
        raise SeedError(f"{files[0]} is empty; {REMEDY}")
    return list(urls), files


def hand_in(inbox: Inbox, urls: Sequence[str], files: Sequence[Path]) -> None:
    """Seeds are durable when this returns; an agent takes them up with its next commit, whenever that is."""
    for data in encode(mentioned(list(urls))):
        inbox.add(data)
    if files:
        inbox.add(json.dumps([str(path.resolve()) for path in files]).encode(), SEED_FILES)


def files_in(data: bytes) -> list[Path]:
    """The files that `hand_in` named; a ValueError if it was not `hand_in` who wrote this."""
    names = json.loads(data)
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("it is no list of files")
    return [Path(name) for name in names]


class SeedFiles:
    """Files of URLs, one per line; blank lines and lines that start with # do not count.

    `offsets` says how far each has been read; it is part of the agent's committed state, so that a restart reads
    on from there and a crash reads again what was not committed.
    """

    def __init__(self, files: Iterable[Path], offsets: Mapping[str, int]) -> None:
        self.offsets = {name_of_text(text): offset for text, offset in offsets.items()}
        self.add(files)
        self.refused = 0  # lines that are no web address

    def add(self, files: Iterable[Path]) -> None:
        for path in files:
            self.offsets.setdefault(str(path), 0)

    def state(self) -> dict[str, int]:
        return {name_as_text(name): offset for name, offset in self.offsets.items()}

    def unread(self) -> bool:
        """Whether there is more to read, now or once it has settled."""
        paths = ((Path(name), offset) for name, offset in self.offsets.items())
        return any(path.is_file() and path.stat().st_size > offset for path, offset in paths)

    def read(self, now_s: float) -> list[str]:
        """New URLs, at most a few megabytes per file and call; a last line without an end once it has settled."""
        urls: dict[str, None] = {}
        for name, offset in self.offsets.items():
            path = Path(name)
            if not path.is_file() or path.stat().st_size <= offset:
                continue
            settled = now_s - path.stat().st_mtime > _SETTLED_S
            with path.open("rb") as file:
                encoding = encoding_of(file.read(MARK_BYTES))
                file.seek(offset)
                data = file.read(_CHUNK)
            end = len(data) if settled and len(data) < _CHUNK else whole_lines(data, encoding)
            if not end and len(data) == _CHUNK:  # no address is that long: go on behind it, or we never would
                self.offsets[name] = offset + _CHUNK
                self.refused += 1
                continue
            self.offsets[name] = offset + end
            self._collect(lines(data[:end], encoding), urls)
        return list(urls)

    def _collect(self, lines: Iterable[str], urls: dict[str, None]) -> None:
        for line in lines:
            url = normalise(line)
            if url is None:
                self.refused += 1
            else:
                urls[url] = None

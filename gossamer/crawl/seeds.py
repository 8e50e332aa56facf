"""Where seeds come from: arguments, and files that are read on as they grow."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from gossamer.errors import SeedError
from gossamer.web.url import normalise

_CHUNK = 1 << 22
_SETTLED_S = 2.0  # a file not written for so long is not in the middle of a line


def parse_seeds(arguments: Iterable[str]) -> tuple[list[str], list[Path]]:
    """Normalised URLs, and the files among the arguments."""
    urls: dict[str, None] = {}
    files: list[Path] = []
    for argument in arguments:
        if Path(argument).is_file():
            files.append(Path(argument).resolve())
            continue
        url = normalise(argument)
        if url is None:
            raise SeedError(f"{argument!r} is neither a file nor a web address; write it like https://example.org/")
        urls[url] = None
    return list(urls), files


class SeedFiles:
    """Files of URLs, one per line; blank lines and lines that start with # do not count.

    `offsets` says how far each has been read; it is part of the agent's committed state, so that a restart reads
    on from there and a crash reads again what was not committed.
    """

    def __init__(self, files: Iterable[Path], offsets: Mapping[str, int]) -> None:
        self.offsets = {str(path): offsets.get(str(path), 0) for path in files} | dict(offsets)
        self.refused = 0  # lines that are no web address

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
                file.seek(offset)
                data = file.read(_CHUNK)
            end = len(data) if settled and len(data) < _CHUNK else data.rfind(b"\n") + 1
            if not end and len(data) == _CHUNK:  # no address is that long: go on behind it, or we never would
                self.offsets[name] = offset + _CHUNK
                self.refused += 1
                continue
            self.offsets[name] = offset + end
            self._collect(data[:end], urls)
        return list(urls)

    def _collect(self, data: bytes, urls: dict[str, None]) -> None:
        for line in data.decode("utf-8", "replace").split("\n"):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            url = normalise(line)
            if url is None:
                self.refused += 1
            else:
                urls[url] = None

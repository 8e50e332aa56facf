"""`Replay` serves real HTML directories as hosts of a test web.

    web = Replay({"docs.example": Path("/usr/share/doc/python3/html")})

A directory is its index.html; queries are ignored; ETag and Last-Modified come from the file. Files are kept in memory
up to a bound, and read again when they change.
"""

import mimetypes
import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

import xxhash

from gossamer.errors import ConfigError
from gossamer.testweb.answer import NO_HOST, NOT_FOUND, Answer, http_date, is_current, moved


@dataclass(frozen=True, slots=True)
class _File:
    path: bytes
    stamp: tuple[int, int]  # mtime_ns and size: what must stay for the copy to be good
    etag: str
    answer: Answer


class Replay:
    def __init__(self, roots: Mapping[str, Path], latency_ms: float = 0.0, cache_bytes: int = 512 << 20) -> None:
        for name, root in roots.items():
            if not root.is_dir():
                raise ConfigError(f"--root {name}={root}: there is no such directory")
        self._roots = {name.lower(): os.fsencode(root.resolve()) for name, root in roots.items()}
        self._latency_s = latency_ms / 1000
        self._room = cache_bytes
        self._largest = cache_bytes // 4  # larger files are not kept
        self._files: OrderedDict[tuple[str, str], _File] = OrderedDict()

    def knows(self, host: str) -> bool:
        return host in self._roots

    def latency_s(self, host: str) -> float:
        return self._latency_s if host in self._roots else 0.0

    def start_urls(self) -> list[str]:
        return [f"http://{name}/" for name in self._roots]

    def response(self, host: str, path: str, t_s: float, asked: Mapping[str, str]) -> Answer:  # noqa: ARG002
        """Returns the answer; time stands still here: files change when a person or program changes them."""
        file = self._files.get((host, path))
        if file is None or _stamp(file.path) != file.stamp:
            root = self._roots.get(host)
            if root is None:
                return NO_HOST
            found = self._find(root, path)
            if isinstance(found, Answer):
                return found
            file = self._load(host, path, found)
            if file is None:
                return NOT_FOUND
        if asked and is_current(asked, file.etag, file.stamp[0] / 1e9):
            return Answer(304, file.answer.head, b"")
        return file.answer

    def _find(self, root: bytes, path: str) -> bytes | Answer:
        """Returns the file that a path means, or an answer without one."""
        name, question, query = path.partition("?")
        asked = unquote_to_bytes(name)
        segments = asked.split(b"/")
        if b".." in segments or b"\0" in asked:
            return NOT_FOUND
        file = os.path.join(root, *filter(None, segments))
        if os.path.isdir(file):
            if not asked.endswith(b"/"):
                return moved(301, f"{name}/{question}{query}")
            return os.path.join(file, b"index.html")
        return NOT_FOUND if asked.endswith(b"/") else file

    def _load(self, host: str, path: str, name: bytes) -> _File | None:
        stamp = _stamp(name)
        if stamp is None:
            return None
        try:
            with open(name, "rb") as source:
                body = source.read()
        except OSError:
            return None
        etag = f'"{xxhash.xxh3_64_hexdigest(body)}"'
        kind = _content_type(os.fsdecode(name))
        head = f"Content-Type: {kind}\r\nETag: {etag}\r\nLast-Modified: {http_date(stamp[0] / 1e9)}\r\n"
        file = _File(name, stamp, etag, Answer(200, head.encode("latin-1"), body))
        self._keep((host, path), file)
        return file

    def _keep(self, key: tuple[str, str], file: _File) -> None:
        """Keeps a file in memory, up to the bound; the oldest leave first."""
        old = self._files.pop(key, None)
        self._room += len(old.answer.body) if old else 0
        if len(file.answer.body) > self._largest:
            return
        self._room -= len(file.answer.body)
        while self._room < 0:
            self._room += len(self._files.popitem(last=False)[1].answer.body)
        self._files[key] = file


def _stamp(path: bytes) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def _content_type(name: str) -> str:
    """Returns the type by the file's ending, without a charset: pages name theirs themselves, or leave it to be found
    out."""
    kind, coding = mimetypes.guess_type(name)
    if coding:  # a compressed file is sent as what it is
        return "application/gzip" if coding == "gzip" else "application/octet-stream"
    return kind or "application/octet-stream"

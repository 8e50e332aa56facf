"""This module reads seeds, the URLs to start from: arguments, files that may still grow, and seeds handed in later.

Only `Intake` decides what an agent takes in besides the pages that it fetches: seeds, the hosts that they let into the
scope, and the sitemaps that a robots.txt names.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from gossamer.archive.chain import Chain, snapshots
from gossamer.archive.manifest import NEWS, SEED_FILES, SEEDS, Changes, Message
from gossamer.archive.state import name_as_text, name_of_text
from gossamer.archive.store import Store
from gossamer.columns import Contributions
from gossamer.crawl.inbox import Aside, Inbox, blank, decode, encode
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import mentioned
from gossamer.crawl.scope import NamedSitemaps, Naming, Scope, document
from gossamer.crawl.update import seeds as new_seeds
from gossamer.errors import SeedError, Unreadable
from gossamer.frontier.pages import PageIndex
from gossamer.web.url import normalise, page_keys

NO_SEEDS = "nothing to crawl: give at least one URL, or a file of URLs"
_CHUNK = 1 << 22
_URL = re.compile(r"https?://[!-.0-~]+/[!-~]*")  # all that `normalise` can return: host names have odd characters, too
_SETTLED_S = 2.0  # a file not written for so long is not in the middle of a line
_MARK = "\ufeff"  # the byte-order mark, once it is decoded
# The longer marks first: that of UTF-32 begins like that of UTF-16. Without a mark a file is UTF-8.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MARK_BYTES = 4  # of a file's beginning, enough to know its encoding
_HEAD = 1 << 16  # bytes of a file's beginning that must be text
_LINE = 1 << 16  # characters; longer lines are looked at in pieces
_SHOWN = 60  # characters of a line that a message quotes
REMEDY = "write one web address per line, like https://example.org/"


def parse_seeds(arguments: Iterable[str]) -> tuple[list[str], list[Path]]:
    """Returns normalised URLs, and the files among the arguments."""
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
    """Hands seeds in. They are durable on return; an agent takes them up with its next commit, whenever that is."""
    for data in encode(mentioned(list(urls))):
        inbox.add(data)
    if files:
        inbox.add(json.dumps([str(path.resolve()) for path in files]).encode(), SEED_FILES)


def files_in(data: bytes) -> list[Path]:
    """Returns the files that `hand_in` named; raises ValueError if `hand_in` did not write this."""
    names = json.loads(data)
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("it is no list of files")
    return [Path(name) for name in names]


def check_urls(urls: Iterable[str]) -> None:
    """Raises an error for URLs that `normalise` would not return."""
    if not all(map(_URL.fullmatch, urls)):
        raise Unreadable("something in it is no normalised URL")


def readable(message: Message, aside: Aside) -> Message:
    """Returns the same message if its seeds can be read; else sets it aside and returns a blank."""
    try:
        if message.sender == SEED_FILES:
            files_in(message.data)
        else:
            check_urls(decode(message.data).url)
    except Exception as error:  # any error of a decoder, for data that came from outside
        facts = {"stream": message.stream, "number": message.number, "part": message.part, "kind": message.kind}
        aside.put(message.data, f"{type(error).__name__}: {error}"[:300], **facts)
        return blank(message)
    return message


class SeedFiles:
    """`SeedFiles` reads files of URLs, one per line; blank lines and lines that start with # do not count.

    `offsets` says how far each has been read; it is part of the agent's committed state, so that a restart reads
    on from there and a crash reads again what was not committed.
    """

    def __init__(self, files: Iterable[Path], offsets: Mapping[str, int]) -> None:
        self.offsets = {name_of_text(text): offset for text, offset in offsets.items()}
        self.add(files)
        self.refused = 0  # lines that are no web address

    def state(self) -> dict[str, int]:
        return {name_as_text(name): offset for name, offset in self.offsets.items()}

    def add(self, files: Iterable[Path]) -> None:
        for path in files:
            self.offsets.setdefault(str(path), 0)

    def unread(self) -> bool:
        """Returns whether there is more to read, now or once it has settled."""
        paths = ((Path(name), offset) for name, offset in self.offsets.items())
        return any(path.is_file() and path.stat().st_size > offset for path, offset in paths)

    def read(self, now_s: float) -> list[str]:
        """Returns new URLs, at most a few megabytes per file and call; a last line without an end once it settled."""
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
            if not end and len(data) == _CHUNK:  # no URL is that long: go on behind it, or we never would
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


class Intake:
    """`Intake` is what one agent takes in. `seeds` have been read and wait for the next commit."""

    def __init__(self, store: Store, chain: Chain, scope_kind: str) -> None:
        self._store, self._chain = store, chain
        self.scope = Scope(scope_kind, _scope_hosts(store))
        self.named = NamedSitemaps.read(store)
        self.seeds: list[str] = []
        self.files = SeedFiles((), chain.state.seed_files)

    def read(self, messages: Iterable[Message], now_s: float) -> None:
        """Reads new lines of seed files, also of files that have just been handed in."""
        for message in messages:
            self._add_files(message)
        self.seeds += self.files.read(now_s)

    @property
    def has_seeds(self) -> bool:
        return bool(self.seeds or self.files.offsets)

    def take(self, messages: Iterable[Message]) -> list[str]:
        """Returns the seeds that the next commit applies, each once: those that were read, and those in messages."""
        seeds, self.seeds = dict.fromkeys(self.seeds), []
        for message in messages:
            if SEEDS in (message.kind, message.sender) and message.kind != NEWS:
                seeds.update(dict.fromkeys(decode(message.data).url))
            self._add_files(message)
        return list(seeds)

    def _add_files(self, message: Message) -> None:
        if message.sender == SEED_FILES and message.kind != NEWS:  # not a `blank` in the place of one
            self.files.add(files_in(message.data))

    def write(self, hosts: Sequence[str], namings: Sequence[Naming]) -> Changes:
        """Writes hosts that are new in the scope, and sitemaps that were named, for the next run."""
        changes = Changes()
        for kind, what, data in (
            ("scope", hosts, "".join(f"{host}\n" for host in hosts).encode()),
            ("named", namings, document(namings)),
        ):
            if what:
                name = f"tables/{kind}-{self._chain.label}.txt"
                self._store.put(name, data)
                changes |= Changes({kind: [name]})
        return changes


def _scope_hosts(store: Store) -> list[str]:
    """Returns the hosts of all seeds so far, whichever agent took them in."""
    names = [name for at in snapshots(store).values() for name in at.files.get("scope", [])]
    return [line for name in names for line in store.get(name).decode().splitlines()]


def minted(urls: list[str], index: PageIndex, ledger: Ledger) -> Contributions:
    """Returns what seeds contribute: new ones bring cash; of known ones at most the fact that they are seeds is new."""
    keys = page_keys(urls)
    order = np.argsort(keys)
    known = np.zeros(len(urls), bool)
    known[order] = index.pages.look_up(keys[order])[0]
    new, old = ([urls[place] for place in np.flatnonzero(which).tolist()] for which in (~known, known))
    again = mentioned(old)
    return Contributions.joined([new_seeds(new, ledger), again._replace(hits=np.zeros_like(again.hits))])


def encoding_of(head: bytes) -> str:
    """Returns the encoding of a file that begins with these bytes."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")


def whole_lines(data: bytes, encoding: str) -> int:
    """Returns how many of these bytes are lines with an end."""
    newline = "\n".encode(encoding)
    end = data.rfind(newline)
    while end > 0 and end % len(newline):  # half of one character and half of the next
        end = data.rfind(newline, 0, end + len(newline) - 1)
    return end + len(newline) if end >= 0 else 0


def lines(data: bytes, encoding: str) -> Iterator[str]:
    """Iterates over the lines that count: neither blank nor a comment. They end in LF, CRLF or CR."""
    for line in data.decode(encoding, "replace").replace("\r", "\n").split("\n"):
        if said := _said(line):
            yield said


def _said(line: str) -> str:
    text = line.strip().strip(_MARK).strip()
    return "" if text.startswith("#") else text


def check_text(path: Path) -> str:
    """Returns the encoding of a file, which must be text."""
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
    """Refuses a file without any URL: it is a mistake, and nobody should have to find that out from an empty crawl. A
    file that is empty may be about to grow: the caller decides about it."""
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

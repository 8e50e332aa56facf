"""This module reads seeds, the URLs to start from: arguments, files that may still grow, and seeds handed in later.

A seed is a line: a URL, or a URL and options like `depth=2`. The options are rules for its website (crawl/scope.py);
they are handed in before the URL, so that no page is visited without them.

Only `Intake` decides what an agent takes in besides the pages that it fetches: seeds, the hosts that they let into the
scope, and the sitemaps that a robots.txt names.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import NEWS, SEED_FILES, SEED_RULES, SEEDS, Changes, Message
from gossamer.archive.state import name_as_text, name_of_text
from gossamer.archive.store import Store
from gossamer.columns import NEVER, Contributions, Outcome
from gossamer.config.sections import BODIES, SEED_OPTIONS, Seed, seed
from gossamer.crawl.inbox import Aside, Inbox, blank, decode, encode
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import mentioned
from gossamer.crawl.reader import Visit
from gossamer.crawl.scope import NamedSitemaps, Naming, Scope, WebsiteRules, bare
from gossamer.crawl.update import seeds as new_seeds
from gossamer.errors import ConfigError, SeedError, Unreadable
from gossamer.fetch.client import Request
from gossamer.fetch.politeness import Deferred
from gossamer.frontier.pages import PageIndex
from gossamer.web.posts import post_of_data, post_of_json
from gossamer.web.url import host_of, normalise, page_keys

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
_SPACED = re.compile(r"\S[ \t]+[A-Za-z_]+=")  # in a line that may have options
_OPTION = re.compile(r"([A-Za-z_]+)=(.*)", re.DOTALL)
_BODY = tuple(f"{name}=" for name in BODIES)
_WITH_BODY = re.compile(rf"\s*(\S.*?)\s+({'|'.join(BODIES)})=(.*?)\s*", re.DOTALL)
_NUMBERS = ("depth", "pages")
_LISTS = ("include", "exclude")
_NOTES = 20  # more are not shown
_AWAITED = 1_000  # seeds whose first visit is watched


def parse_seeds(arguments: Iterable[str | Seed]) -> tuple[list[str], list[Path]]:
    """Returns lines with normalised URLs, and the files among the arguments. An option may be an argument of its own,
    behind the URL."""
    urls: dict[str, None] = {}
    files: list[Path] = []
    for argument in _joined(each if isinstance(each, str) else each.line for each in arguments):
        if _is_file(argument):
            check_file(Path(argument))
            files.append(Path(argument).resolve())
            continue
        line = parse_line(argument)
        if line is None:
            raise SeedError(f"{argument!r} is neither a file nor a web address; write it like https://example.org/")
        urls[line] = None
    if files and not urls and not any(path.stat().st_size for path in files):
        raise SeedError(f"{files[0]} is empty; {REMEDY}")
    return list(urls), files


def _joined(arguments: Iterable[str]) -> list[str]:
    """Returns arguments, each with the options that follow it."""
    found: list[list[str]] = []
    for argument in arguments:
        if found and _OPTION.fullmatch(argument) and not _is_file(argument):
            found[-1].append(argument)
        else:
            found.append([argument])
    # A body comes last, as it is the rest of a line.
    return [" ".join([first, *sorted(options, key=lambda each: each.startswith(_BODY))]) for first, *options in found]


def _is_file(argument: str) -> bool:
    try:
        return Path(argument).is_file()
    except OSError:  # a name too long for a file
        return False


def parse_line(line: str) -> str | None:
    """Returns a seed's line in its normal form; None if it is no web address. Options that are wrong are an error."""
    body: dict[str, str] = {}
    if found := _WITH_BODY.fullmatch(line):  # it is a POST
        line, body = found[1], {found[2]: found[3]}
    words = line.split()
    count = len(words)
    while count > 1 and _OPTION.fullmatch(words[count - 1]):
        count -= 1
    if count >= len(words) and not body:
        return normalise(line)
    url = normalise(" ".join(words[:count]))
    if url is None:
        return None
    try:
        return _named(seed({"url": url, **_options(words[count:]), **body})).line
    except (ConfigError, ValueError) as error:
        raise SeedError(f"{line!r}: {str(error).replace('seeds.', '')}") from None


def _named(found: Seed) -> Seed:
    """Returns a seed with the body of a POST in the name of its page."""
    post = post_of_json(found.json) if found.json is not None else ""
    post += post_of_data(found.data) if found.data is not None else ""
    return msgspec.structs.replace(found, url=found.url + post, json=None, data=None)


def _options(words: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in SEED_OPTIONS:
            known = ", ".join((*SEED_OPTIONS, *BODIES))
            raise ConfigError(f"{name} is no option of a seed; there are {known} (a space in a URL is written as %20)")
        if name in _LISTS:
            found.setdefault(name, []).extend([value] if value else [])
        elif name in found:
            raise ConfigError(f"{name} is given twice")
        else:
            found[name] = int(value) if name in _NUMBERS and value.isascii() and value.isdigit() else value
    return found


def split_line(line: str, now_s: float) -> tuple[str, WebsiteRules | None]:
    """Returns the URL of a line in normal form, and the rules that it brings."""
    url, *words = line.split(" ")
    if not words:
        return url, None
    return url, msgspec.convert({"host": bare(host_of(url)), "since_s": now_s, **_options(words)}, WebsiteRules)


def hand_in(inbox: Inbox, urls: Sequence[str], files: Sequence[Path], now_s: float = 0.0) -> None:
    """Hands seeds in. They are durable on return; an agent takes them up with its next commit, whenever that is."""
    found = [split_line(line, now_s) for line in urls]
    if rules := [each for _, each in found if each is not None]:
        inbox.add(msgspec.json.encode(rules), SEED_RULES)
    for data in encode(mentioned([url for url, _ in found])):
        inbox.add(data)
    if files:
        inbox.add(json.dumps([str(path.resolve()) for path in files]).encode(), SEED_FILES)


def rules_in(data: bytes) -> list[WebsiteRules]:
    """Returns the rules that `hand_in` was given; anything else is an error."""
    rules = msgspec.json.decode(data, type=list[WebsiteRules])
    check_rules(rules)
    return rules


def check_rules(rules: Iterable[WebsiteRules]) -> None:
    """Raises an error for rules that no seed can have."""
    for each in rules:
        values = {name: getattr(each, name) for name in SEED_OPTIONS if getattr(each, name) is not None}
        seed({"url": f"http://{each.host}/", **values})
        check_urls([f"http://{each.host}/"])


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
        elif message.sender == SEED_RULES:
            rules_in(message.data)
        else:
            check_urls(decode(message.data).url)
    except Exception as error:  # any error of a decoder, for data that came from outside
        facts = {"stream": message.stream, "number": message.number, "part": message.part, "kind": message.kind}
        aside.put(message.data, f"{type(error).__name__}: {error}"[:300], **facts)
        return blank(message)
    return message


class SeedFiles:
    """`SeedFiles` reads files of seeds, one per line; blank lines and lines that start with # do not count.

    `offsets` says how far each has been read; it is part of the agent's committed state, so that a restart reads
    on from there and a crash reads again what was not committed.
    """

    def __init__(self, files: Iterable[Path], offsets: Mapping[str, int]) -> None:
        self.offsets = {name_of_text(text): offset for text, offset in offsets.items()}
        self.add(files)
        self.refused = 0  # lines that are no web address, or have options that no seed has
        self.complaints: list[str] = []  # about such options

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
        """Returns new lines, at most a few megabytes per file and call; a last line without an end once it settled."""
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
            self._collect(name, lines(data[:end], encoding), urls)
        return list(urls)

    def _collect(self, name: str, lines: Iterable[str], urls: dict[str, None]) -> None:
        for line in lines:
            try:
                url = parse_line(line)
            except SeedError as error:
                url = None
                self.complaints += [f"{name}: {error}"] if len(self.complaints) < _NOTES else []
            if url is None:
                self.refused += 1
            else:
                urls[url] = None


class Notes:
    """`Notes` is what a person should be told at once, and not only in the summary: the first thing that happens to a
    seed, if it is trouble, and what was done with rules. There are few, however many seeds there are."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._seeds: dict[str, str] = {}  # by host: one of which nothing has been heard yet

    def say(self, text: str) -> None:
        if len(self.said) < _NOTES and text not in self.said:
            self.said.append(text)

    def expect(self, seeds: Iterable[str]) -> None:
        for url in seeds:
            if len(self._seeds) >= _AWAITED:
                return
            self._seeds.setdefault(host_of(url), url)

    def saw(self, visit: Visit) -> None:
        """Says what went wrong with the first visit to a seed's host. That it has no robots.txt is no trouble."""
        response = visit.response
        request, is_answer = response.request, response.http_status > 0
        if request.host in self._seeds and not (request.is_robots and is_answer):
            answered = f"HTTP {response.http_status}" if is_answer else ""
            self._end(request, visit.outcome, visit.reason or answered, visit.next.due_s != NEVER)

    def put_off(self, deferred: Deferred) -> None:
        if deferred.outcome is None and deferred.reason:
            self.say(deferred.reason)
        if deferred.request.host in self._seeds and deferred.outcome is not None:
            self._end(deferred.request, deferred.outcome, deferred.reason, True)

    def _end(self, request: Request, outcome: Outcome, reason: str, is_again: bool) -> None:
        url = self._seeds.pop(request.host)
        if outcome in (Outcome.OK, Outcome.UNCHANGED, Outcome.MOVED):
            return
        what = url if request.is_robots else request.url
        why = f"{outcome.name.lower().replace('_', ' ')}{f': {reason}' if reason else ''}"
        self.say(f"the seed {what} could not be fetched ({why}){'; it is tried again' if is_again else ''}")


class Intake:
    """`Intake` is what one agent takes in. `seeds` have been read and wait for the next commit."""

    def __init__(self, store: Store, chain: Chain, scope: Scope) -> None:
        self._store, self._chain = store, chain
        self.scope = scope
        self.named = NamedSitemaps.read(store)
        self.seeds: list[str] = []
        self._rules: list[WebsiteRules] = []  # read with the seeds
        self.changed: list[WebsiteRules] = []  # rules that are later than others, with the next commit,
        self.has_other_rules = False  # and whether they say something else,
        self.has_replaced_rules = False  # or something else than others of the same website
        self.files = SeedFiles((), chain.state.seed_files)
        self.notes = Notes()

    def read(self, messages: Iterable[Message], now_s: float) -> None:
        """Reads new lines of seed files, also of files that have just been handed in."""
        for message in messages:
            self._add_files(message)
        for line in self.files.read(now_s):
            url, rules = split_line(line, now_s)
            self.seeds.append(url)
            self._rules += [rules] if rules else []
        for complaint in self.files.complaints:
            self.notes.say(complaint)
        self.files.complaints = []

    def give(self, url: str, rules: WebsiteRules) -> None:
        """Takes in a seed with the rules of its website, to be applied by the next commit."""
        self.seeds.append(url)
        self._rules.append(rules)

    @property
    def has_seeds(self) -> bool:
        return bool(self.seeds or self.files.offsets)

    def take(self, messages: Iterable[Message]) -> list[str]:
        """Returns the seeds that the next commit applies, each once: those that were read, and those in messages. Their
        rules hold from here on."""
        seeds, self.seeds = dict.fromkeys(self.seeds), []
        rules, self._rules, self.changed = self._rules, [], []
        self.has_other_rules = self.has_replaced_rules = False
        for message in messages:
            if message.sender == SEED_RULES and message.kind != NEWS:
                rules += rules_in(message.data)
                continue
            if SEEDS in (message.kind, message.sender) and message.kind != NEWS:
                seeds.update(dict.fromkeys(decode(message.data).url))
            self._add_files(message)
        self.add_rules(rules)
        self.notes.expect(seeds)
        return list(seeds)

    def add_rules(self, rules: Iterable[WebsiteRules]) -> list[WebsiteRules]:
        """Adds rules of websites; returns those that are later than others."""
        added = self.scope.websites.add(rules)
        for each, before in added:
            if before is None or before.words != each.words:
                self.has_other_rules = True
            if before is not None and before.words != each.words:
                self.has_replaced_rules = True
                self.notes.say(f"{each.host} has other rules from now on: {each.words} (before: {before.words})")
        self.changed += [each for each, _ in added]
        return [each for each, _ in added]

    def _add_files(self, message: Message) -> None:
        if message.sender == SEED_FILES and message.kind != NEWS:  # not a `blank` in the place of one
            self.files.add(files_in(message.data))

    def write(self, hosts: Sequence[str], namings: Sequence[Naming]) -> Changes:
        """Writes hosts and rules that are new in the scope, and sitemaps that were named, for the next run."""
        changes = Changes()
        rules = [msgspec.json.encode(each).decode() for each in self.changed]
        for kind, written in (("scope", [*hosts, *rules]), ("named", list(map(" ".join, namings)))):
            if written:
                name = f"tables/{kind}-{self._chain.label}.txt"
                self._store.put(name, "".join(f"{line}\n" for line in written).encode())
                changes |= Changes({kind: [name]})
        return changes


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
    """Refuses a file without any URL, or with an option that no seed has: it is a mistake, and nobody should have to
    find that out from an empty crawl. A file that is empty may be about to grow: the caller decides about it."""
    if not path.stat().st_size:
        return
    first, has_url = "", False
    with path.open(encoding=check_text(path), errors="replace") as text:
        for line in iter(lambda: text.readline(_LINE), ""):
            if (not has_url or _SPACED.search(line)) and (said := _said(line)):
                try:
                    has_url |= parse_line(said) is not None
                except SeedError as error:
                    raise SeedError(f"{path}: {error}") from None
                first = first or said[:_SHOWN]
    if has_url:
        return
    found = f": its first line is {first!r}" if first else ""
    raise SeedError(f"there is no web address in {path}{found}; {REMEDY}")

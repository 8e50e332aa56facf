"""This module is a worker process: it runs page functions, and nothing that they do reaches beyond their page.

Pages come in on standard input; results leave through what was standard output. What functions print goes nowhere.
A page that takes too long is interrupted here; if that does not help, the agent kills the process. The memory map
tells the agent which page is being worked on, so that a crash costs no other.
"""

import contextlib
import ctypes
import faulthandler
import gc
import inspect
import mmap
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, BinaryIO

import msgspec

from gossamer import runtime
from gossamer.functions import item_types
from gossamer.functions.loading import Function, NotFound, code_of, load
from gossamer.functions.page import File, Follow, Link, Page
from gossamer.functions.protocol import (
    INVALID,
    MEMORY,
    PROGRESS,
    RAISED,
    RETIRED,
    TIMEOUT,
    TOO_LARGE,
    Error,
    Ready,
    Result,
    Setup,
    Task,
)
from gossamer.functions.protocol import frame as framed
from gossamer.web.answer import Answer
from gossamer.web.url import page_key

_PDEATHSIG = 1  # of prctl
_FLUSH_BYTES = 64 << 10
_FLUSH_S = 0.05
_TRACEBACK = 20_000  # characters


class _TooLong(BaseException):
    """No `except Exception` of a function catches this."""


class _Invalid(Exception):
    """What a function yields cannot be stored."""


class _TooLarge(Exception):
    """A page has more items or files than allowed."""


_KINDS = {_TooLong: TIMEOUT, MemoryError: MEMORY, _Invalid: INVALID, _TooLarge: TOO_LARGE}


def main() -> None:
    progress_fd, trace_fd = (int(word) for word in sys.argv[1:3])
    pages, results = _apart()
    _die_with_parent()
    os.register_at_fork(after_in_child=_die_with_parent)
    faulthandler.enable(trace_fd)
    runtime.is_worker = True
    setup = msgspec.msgpack.decode(_read(pages), type=Setup)
    sys.argv = setup.argv or sys.argv
    sys.path += [each for each in setup.path if each not in sys.path]
    try:
        functions = [(name, load(where)) for name, where in setup.functions.items()]
        follows = load(setup.links) if setup.links else None
    except NotFound as error:
        results.write(framed(Ready(error=str(error))))
        results.flush()
        return
    work = _Work(setup, functions, follows)
    results.write(framed(Ready(code=[code_of(function) for _, function in functions], columns=work.columns)))
    results.flush()
    gc.collect()
    gc.freeze()
    _limit_memory(setup.memory_mb << 20)
    progress = mmap.mmap(progress_fd, PROGRESS.size)
    work.progress = memoryview(progress)[PROGRESS.size // 2 :].cast("q")
    _serve(pages, results, work, progress)


def _apart() -> tuple[BinaryIO, BinaryIO]:
    """Returns the pipes, moved to where functions do not find them. Standard input is empty; what functions print goes
    to standard error."""
    pages, results = os.fdopen(os.dup(0), "rb", 1 << 20), os.fdopen(os.dup(1), "wb", 1 << 20)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(1, "w", 1, errors="replace")  # line by line: this process may be killed
    return pages, results


def _die_with_parent() -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def _limit_memory(more: int) -> None:
    """Limits what this process may allocate, from now on. (RLIMIT_AS would count files that are only mapped.)"""
    with open("/proc/self/status") as file:
        now = next((int(line.split()[1]) << 10 for line in file if line.startswith("VmData:")), 0)
    resource.setrlimit(resource.RLIMIT_DATA, (now + more, now + more))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(pages: BinaryIO) -> bytes:
    """Reads one frame; empty at the end."""
    head = pages.read(4)
    return pages.read(int.from_bytes(head, "little")) if len(head) == 4 else b""


def _identities(*files: BinaryIO) -> list[tuple[int, int]]:
    with contextlib.suppress(OSError):
        return [(found.st_dev, found.st_ino) for found in (os.fstat(file.fileno()) for file in files)]
    return []


def _serve(pages: BinaryIO, results: BinaryIO, work: "_Work", progress: mmap.mmap) -> None:
    me, tasks = os.getpid(), msgspec.msgpack.Decoder(list[Task])
    ends = _identities(pages, results)
    waiting, flushed_s, is_new = 0, time.monotonic(), True
    while data := _read(pages):
        for task in tasks.decode(data):
            PROGRESS.pack_into(progress, 0, task.number, -1)
            result = work.do(task)
            if os.getpid() != me:  # a function has forked, and this is the child
                os._exit(0)
            if _identities(pages, results) != ends:  # a function has closed our pipes: it was on this page
                os._exit(1)
            if not is_new and any(error.kind == MEMORY for error in result.errors):
                # Pages before it may have left the memory full: whether this one needs so much, a new process will see.
                results.flush()
                PROGRESS.pack_into(progress, 0, 0, RETIRED)
                os._exit(0)
            is_new = False
            waiting += results.write(framed(result))
            now_s = time.monotonic()
            if waiting >= _FLUSH_BYTES or now_s - flushed_s >= _FLUSH_S:
                results.flush()
                waiting, flushed_s = 0, now_s
        results.flush()
        PROGRESS.pack_into(progress, 0, 0, -1)


class _Work:
    """`_Work` runs all functions on one page after the other."""

    def __init__(self, setup: Setup, functions: list[tuple[str, Function]], follows: Function | None) -> None:
        self._setup, self._functions, self._follows = setup, functions, follows
        self.columns = [item_types.declared(function) for _, function in functions]
        self._decoders = [item_types.decoder(each) if each else None for each in self.columns]
        self._types: set[tuple[int, type]] = set()
        self._stored = _Stored()
        self.progress: memoryview | list[int] = [-1]  # the place of the function that runs
        self._new: list[tuple[int, str, str]] = []
        signal.signal(signal.SIGALRM, _interrupt)

    def do(self, task: Task) -> Result:
        answer = self._stored.answer(task) if task.warc else Answer(task.head, task.body)
        if answer is None:
            return Result(task.number, is_unread=True)
        page, made = Page(task, self._setup, answer), _Made(task.number, self._setup.page_mb << 20)
        for place, (name, function) in enumerate(self._functions):
            self.progress[0] = place
            self._guarded(name, made, lambda f=function, p=place: self._extract(f, p, page, made))  # type: ignore[misc]
        if self._follows is not None:
            self.progress[0] = len(self._functions)
            made.result.refuses_all = not self._guarded(self._setup.links, made, lambda: self._judge(page, made))
        made.result.columns, self._new = self._new, []
        return made.result

    def _guarded(self, name: str, made: "_Made", run: Callable[[], None]) -> bool:
        """Runs a function for so long; returns whether it worked. What it yielded before it failed does not count."""
        mark = made.mark()
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, self._setup.time_s)
                run()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            return True
        except BaseException as error:  # also SystemExit: a function ends itself, not the worker
            kind = next((kind for of, kind in _KINDS.items() if isinstance(error, of)), RAISED)
            if kind == TIMEOUT:
                error.args = (f"longer than extract.time_s = {self._setup.time_s:g}",)
            elif kind == MEMORY:
                error.args = (f"more than extract.memory_mb = {self._setup.memory_mb}",)
            made.undo(mark)
            made.result.errors.append(_error(name, kind, error))
            return False

    def _extract(self, function: Function, place: int, page: Page, made: "_Made") -> None:
        for item in _yielded(function(page)):
            if isinstance(item, Follow):
                made.add(len(item.url))
                made.result.follows.append((item.url, item.priority))
            elif isinstance(item, File):
                made.add(len(item.data) + len(item.name))
                made.result.files.append((place, item.name, item.data))
            elif item is not None:
                made.result.items.append((place, self._json(item, place, made)))

    def _json(self, item: Any, place: int, made: "_Made") -> bytes:
        kind = type(item)
        if kind is not dict and (place, kind) not in self._types:
            self._learn(place, kind)
        try:
            data = msgspec.json.encode(item)
        except (TypeError, ValueError, RecursionError) as error:
            raise _Invalid(f"an item cannot be stored: {error}") from None
        if data[:1] != b"{":
            raise _Invalid(
                "a function yields dicts, dataclasses, page.follow(...), page.post(...) and page.file(...), not "
                f"{kind.__name__}"
            )
        made.add(len(data))
        if (decoder := self._decoders[place]) is not None:
            try:
                decoder.decode(data)
            except msgspec.ValidationError as error:
                raise _Invalid(f"an item is not of its declared type: {error}") from None
        return data

    def _learn(self, place: int, kind: type) -> None:
        """Notes the columns of a type of items that no annotation had named."""
        self._types.add((place, kind))
        if item_types.is_item_type(kind):
            known = self.columns[place]
            new = {name: word for name, word in item_types.columns_of(kind).items() if name not in known}
            self._new += [(place, name, word) for name, word in new.items()]
            known |= new
            self._decoders[place] = item_types.decoder(known) if known else None

    def _judge(self, page: Page, made: "_Made") -> None:
        assert self._follows is not None
        for link in page.links:
            answer = self._follows(link)
            if answer is True:
                continue
            weight = _weight(answer, link)
            if weight == 0:
                made.result.refused.append(page_key(link.url))
            else:
                made.result.weights.append((page_key(link.url), weight))


class _Stored:
    """`_Stored` reads pages from WARC files. The last file stays open: pages come in its order."""

    def __init__(self) -> None:
        self._path, self._descriptor = "", -1

    def answer(self, task: Task) -> Answer | None:
        """Returns an answer; None if there is none, or if the record refers to another one: the agent then knows."""
        from gossamer.archive.warc_reader import read_response  # only `gossamer extract` needs it

        try:
            if self._path != task.warc:
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                self._path, self._descriptor = "", -1
                self._descriptor = os.open(task.warc, os.O_RDONLY | os.O_CLOEXEC)
                self._path = task.warc
            found = read_response(self._descriptor, task.offset, task.length)
        except Exception:  # whatever is wrong with the record, the agent reads it again, and says so
            return None
        return Answer(*found) if found else None


def _weight(answer: Any, link: Link) -> float:
    if answer is False or answer is None:
        return 0.0
    if not isinstance(answer, int | float) or not 0 <= answer <= 1e6:
        raise _Invalid(
            f"a links function returns True, False or a number from 0 to 1000000, not {answer!r}: {link.url}"
        )
    return float(answer)


def _yielded(found: Any) -> Iterator[Any]:
    """Returns what a function yields; one that returns a single item may do so."""
    if inspect.isawaitable(found) or hasattr(found, "__aiter__"):
        with contextlib.suppress(Exception):
            found.close()
        raise _Invalid("a page function is a plain function, not an async one")
    is_many = hasattr(found, "__iter__") and not isinstance(found, dict | tuple | str | bytes)
    yield from (found if is_many else () if found is None else (found,))


class _Made:
    """`_Made` gathers what functions make of one page."""

    def __init__(self, number: int, most: int) -> None:
        self.result, self._most, self._size = Result(number), most, 0

    def add(self, size: int) -> None:
        self._size += size
        if self._size > self._most:
            raise _TooLarge(f"the page yields more than extract.page_mb = {self._most >> 20}")

    def mark(self) -> tuple[int, ...]:
        return tuple(len(each) for each in self._lists())

    def undo(self, mark: tuple[int, ...]) -> None:
        for each, length in zip(self._lists(), mark, strict=True):
            del each[length:]

    def _lists(self) -> tuple[list[Any], ...]:
        made = self.result
        return made.items, made.follows, made.files, made.refused, made.weights


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise _TooLong


def _error(name: str, kind: str, error: BaseException) -> Error:
    words = traceback.format_exception_only(error)[-1].strip() if kind == RAISED else str(error)
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    ours = [line for line in lines if "gossamer/functions/worker.py" not in line]
    return Error(name, kind, _clean(words)[:1000], _clean("".join(ours))[-_TRACEBACK:])


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def run() -> None:
    """Is the whole life of the process."""
    try:
        main()
    finally:
        os._exit(0)  # threads that a function started must not hold us up

"""Page functions for tests: good ones, and some that do what no function should."""

import ctypes
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict


def heading(page: Any) -> Iterator[dict[str, Any]]:
    yield {"heading": page.css("h1").text(), "links": len(page.links)}


def talks(page: Any) -> Iterator[dict[str, Any]]:
    print(f"{page.css('h1').text()}, says the function")
    print("and complains", file=sys.stderr)
    yield {"said": page.css("h1").text()}


@dataclass
class Seen:
    title: str
    words: int
    time: datetime
    links: list[str]
    about: dict[str, int]
    ratio: float | None = None


def seen(page: Any) -> Iterator[Seen]:
    links = [link.url for link in page.links]
    yield Seen(page.title, len(page.text.split()), page.time, links, {"depth": page.depth}, 0.5)


class Size(TypedDict):
    size: int


def size(page: Any) -> Iterator[Size]:
    yield {"size": len(page.body)}


def undeclared(page: Any) -> Any:
    return [Seen(page.title, 1, page.time, [], {})]


def nothing(page: Any) -> None:
    return None


def wrong(page: Any) -> Iterator[Size]:
    yield {"size": "large"}  # type: ignore[typeddict-item]


def blob(page: Any) -> Iterator[Any]:
    yield page.file("page.bin", page.body[:10])
    yield page.file("url.txt", page.url)


def elsewhere(page: Any) -> Iterator[Any]:
    """Follows pages that no page links to."""
    if page.url.endswith("/"):
        yield page.follow("/hidden?of=functions", priority=5)
        yield page.follow("https://out-of-scope.example/")
    yield {"url": page.url}


def few(link: Any) -> bool | float:
    assert link.source
    if "/chess/" in link.url or link.url.endswith("/1b"):
        return False
    return 2.0 if link.text else True


def fails_on_links(link: Any) -> bool | float:
    """Follows what it can, and fails on some pages, each time in another way."""
    if "/birds/" in link.source:
        raise ValueError("not this one")
    while "/chess/" in link.source:
        time.sleep(0.01)
    if "/gardening/" in link.source:
        ctypes.string_at(0)
    return float("nan") if "/cycling/" in link.source else True


def _is_bad(page: Any) -> bool:
    return "/birds/" in page.url or page.url.endswith("/2")


def raises(page: Any) -> Iterator[Any]:
    yield {"url": page.url}
    if _is_bad(page):
        raise ValueError("not this one")


def hangs(page: Any) -> Iterator[Any]:
    while _is_bad(page):
        time.sleep(0.01)
    yield {"url": page.url}


def hangs_hard(page: Any) -> Iterator[Any]:
    """Cannot be interrupted from within."""
    if _is_bad(page):
        ctypes.PyDLL(None).sleep(3600)
    yield {"url": page.url}


def crashes(page: Any) -> Iterator[Any]:
    if _is_bad(page):
        ctypes.string_at(0)
    yield {"url": page.url}


def exits(page: Any) -> Iterator[Any]:
    if _is_bad(page):
        os._exit(3)
    yield {"url": page.url}


def leaves(page: Any) -> Iterator[Any]:
    if _is_bad(page):
        raise SystemExit(3)
    yield {"url": page.url}


def eats(page: Any) -> Iterator[Any]:
    if _is_bad(page):
        yield {"size": len(bytearray(10 << 30))}
    yield {"url": page.url}


_LEFT: list[bytearray] = []


def leaks(page: Any) -> Iterator[Any]:
    _LEFT.append(bytearray(20 << 20))
    yield {"url": page.url}


def closes(page: Any) -> Iterator[Any]:
    """Closes what is not its own."""
    if _is_bad(page):
        os.closerange(3, 100)
    yield {"url": page.url}


def shouts(page: Any) -> Iterator[Any]:
    if _is_bad(page):
        for _ in range(1024):
            print("x" * (1 << 20))
    yield {"url": page.url}


def forks(page: Any) -> Iterator[Any]:
    if _is_bad(page) and os.fork() == 0:
        time.sleep(3600)
    if page.url.endswith("4"):
        os.fork()  # both go on as if nothing had happened
    yield {"url": page.url}


def nonsense(page: Any) -> Iterator[Any]:
    if _is_bad(page):
        yield {"x": object()}
    yield {"url": page.url}


def words(page: Any) -> Iterator[Any]:
    yield "a string" if _is_bad(page) else {"url": page.url}


def floods(page: Any) -> Iterator[Any]:
    while _is_bad(page):
        yield {"x": "x" * 100_000}
    yield {"url": page.url}


def asynchronous(page: Any) -> Any:
    async def later() -> None:
        return None

    return later() if _is_bad(page) else {"url": page.url}


NOT_A_FUNCTION = 3


async def later(page: Any) -> None:
    return None


async def later_items(page: Any) -> Any:
    yield {}


class Shop:
    def product(self, page: Any) -> None:
        return None


def of_nothing() -> None:
    return None


def longer(page: Any) -> Iterator[Size]:
    """The second version of `heading`, with a type."""
    yield Size(size=len(page.html))
    yield Size(size=len(page.links))


def results(page: Any) -> Any:
    """Asks an API for its pages, and says what was asked for."""
    if page.posted:
        yield {"posted": page.json()["you_sent"]}
        number = json.loads(page.posted)["page"]
        if number < page.json()["pages"]:
            yield page.post("/api", json={"page": number + 1})
    elif page.url.endswith("/"):
        yield page.post("/api", json={"page": 1})


def empty(page: Any) -> Iterator[Any]:
    yield {}


def next_page(page: Any) -> Iterator[Any]:
    start, _, number = page.url.rpartition("=")
    yield page.follow(f"{start}={int(number) + 1}")


def falls(page: Any) -> None:
    ctypes.string_at(0)


def broken(page: Any) -> None:
    raise ValueError("always")

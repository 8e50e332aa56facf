"""`Links` are the links of a page as columns: texts, keys, traps. The compiled scanner makes them of bytes.

`Listed` makes them of texts: for sitemaps, redirects, and pages that were read through a tree.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from gossamer.arrays import U8, U64, Integers
from gossamer.config import Limits
from gossamer.web.url import TRAPS, origin_of, page_keys, trap

# Kinds of links: those that lead to pages, and what `web/requisites.py` finds; the position is the code in columns.
KINDS = (
    "link",
    "redirect",
    "sitemap",
    "image",
    "style",
    "script",
    "font",
    "audio",
    "video",
    "track",
    "object",
    "icon",
    "manifest",
)


class Links(Protocol):
    """`Links` are distinct URLs in normal form, in order. A text is made when it is asked for."""

    followed: int  # so many come first that the page does not mark

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> str: ...
    def __iter__(self) -> Iterator[str]: ...

    @property
    def chars(self) -> int:
        """Returns the length of all texts."""

    @property
    def origins(self) -> list[str]:
        """Returns the distinct origins of the links."""

    @property
    def origin_of(self) -> Integers:
        """Returns for each link the position of its origin."""

    def keys(self) -> U64:
        """Returns the keys of the pages."""

    def traps(self, limits: Limits) -> U8:
        """Returns for each link why we do not follow it, as `url.trap` does: its position in `url.TRAPS`."""

    def judged(self, limits: Limits, codes: bytes, outside: bytes) -> U8:
        """Returns for each link the code that `outside` has for its origin, or where that is 0 the code of its trap."""

    def enter(self, into: dict[int, str], keys: U64) -> tuple[int, int]:
        """Adds the texts whose `keys` are new to a dictionary. Returns how many they are, and their length."""


class Listed:
    """`Listed` are links whose texts are at hand."""

    def __init__(self, urls: Sequence[str] = (), followed: int | None = None) -> None:
        self._urls = urls
        self.followed = len(urls) if followed is None else followed

    def __len__(self) -> int:
        return len(self._urls)

    def __getitem__(self, index: int) -> str:
        return self._urls[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._urls)

    @property
    def chars(self) -> int:
        return sum(map(len, self._urls))

    @property
    def origins(self) -> list[str]:
        return list(dict.fromkeys(map(origin_of, self._urls)))

    @property
    def origin_of(self) -> Integers:
        places = {origin: place for place, origin in enumerate(self.origins)}
        return np.fromiter((places[origin_of(url)] for url in self._urls), np.int32, len(self._urls))

    def keys(self) -> U64:
        return page_keys(self._urls)

    def traps(self, limits: Limits) -> U8:
        return np.fromiter((TRAPS.index(trap(url, limits)) for url in self._urls), np.uint8, len(self._urls))

    def judged(self, limits: Limits, codes: bytes, outside: bytes) -> U8:
        of_origin = np.frombuffer(outside, np.uint8)[self.origin_of]
        return np.where(of_origin, of_origin, np.frombuffer(codes, np.uint8)[self.traps(limits)])

    def enter(self, into: dict[int, str], keys: U64) -> tuple[int, int]:
        new = {key: url for key, url in zip(keys.tolist(), self._urls, strict=True) if key not in into}
        into.update(new)
        return len(new), sum(map(len, new.values()))


NO_LINKS: Links = Listed()

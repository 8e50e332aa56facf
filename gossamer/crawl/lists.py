"""Which links lead to another page of the same list: one that is as deep as this one, however many there are.

Shops and blogs spread a list over numbered pages, and often each leads only to the next. A calendar looks alike, but
has no end: so only parameters count that are called like the number of a page, numbers that a list can have, and pages
that list something.
"""

import re
from collections.abc import Sequence

import numpy as np

from gossamer.arrays import Bools

# "page=7" and "start=140" in a query, "/page/7" or "/page-7" in a path.
_PAGE = re.compile(
    r"(?:(?<=[?&;])(?:[a-z]*_?page(?:[_-]?(?:no|num|number|index|id))?|paged|pg|p|seite|pagina)=|/page[/-])(\d{1,6})(?![^/&;?])",
    re.IGNORECASE | re.ASCII,
)
_OFFSET = re.compile(
    r"(?<=[?&;])(?:start|offset|from|skip|first|begin|startrow|start_?index|limitstart)=(\d{1,7})(?![^&;])",
    re.IGNORECASE | re.ASCII,
)
_LARGEST_STEP = 1_000  # entries on a page of a list


def level(url: str, links: Sequence[str], most: int) -> Bools | None:
    """Which of a page's links lead to pages of its own list, the first `most` of it; None: none does, as usual."""
    place = _place(url)
    if place is None or not most:
        return None
    found = np.fromiter((_is_near(place, link, most) for link in links), np.bool_, len(links))
    # What leads to nothing but more of its kind lists nothing.
    return found if found.any() and len(_others(place, links)) else None


def _place(url: str) -> tuple[str, str, int, bool] | None:
    """What is before and after the number of a page in a list, the number, and whether it counts pages or entries."""
    match = _PAGE.search(url) or _OFFSET.search(url)
    if match is None:
        return None
    return url[: match.start(1)], url[match.end(1) :], int(match[1]), match.re is _PAGE


def _is_near(place: tuple[str, str, int, bool], link: str, most: int) -> bool:
    before, after, number, is_page = place
    if not (link.startswith(before) and link.endswith(after)) or len(link) <= len(before) + len(after):
        return False
    other = link[len(before) : len(link) - len(after)]
    if not (other.isascii() and other.isdigit()) or len(other) > 7:
        return False
    step = 1 if is_page else abs(int(other) - number)
    return 0 < step <= _LARGEST_STEP and int(other) <= most * step


def _others(place: tuple[str, str, int, bool], links: Sequence[str]) -> list[str]:
    """Links that are no pages of the list, and not its beginning."""
    list_of = place[0].rpartition("?")[0] or place[0].rstrip("/").rpartition("/")[0]
    return [link for link in links if link.partition("?")[0] != list_of and not link.startswith(place[0])]

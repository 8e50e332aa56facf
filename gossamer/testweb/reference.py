"""This module serves a website that never changes, to compare the speeds of clients by."""

from collections.abc import Mapping

from gossamer.testweb.answer import NO_HOST, NOT_FOUND, Answer, text

_CHILDREN = 10  # three levels of them are 1,111 pages
_WORDS = "silk thread wind spider orb dew meadow autumn drift sail "
_TEXT = "".join(f"<p>{_WORDS * 20}</p>\n" for _ in range(15))  # makes a page of about 17 KB, in many small elements


class ReferenceSite:
    """`ReferenceSite` is `reference.SUFFIX`, for `gossamer scan --reference`. Page n leads to ten pages below it and to
    the one above."""

    def __init__(self, pages: int, suffix: str = "test") -> None:
        self.host = f"reference.{suffix}"
        self._pages = pages

    def knows(self, host: str) -> bool:
        return host == self.host

    def latency_s(self, host: str) -> float:  # noqa: ARG002
        return 0.0

    def start_urls(self) -> list[str]:
        """Returns none: a crawl of the web does not begin here, and no page of it leads here."""
        return []

    def response(self, host: str, path: str, t_s: float, asked: Mapping[str, str]) -> Answer:  # noqa: ARG002
        if host != self.host:
            return NO_HOST
        number = 0 if path == "/" else self._number(path)
        if number is None:
            return NOT_FOUND
        below = range(_CHILDREN * number + 1, min(_CHILDREN * (number + 1) + 1, self._pages))
        above = (number - 1) // _CHILDREN if number else 0
        links = [above, *below] if number else list(below)
        listed = "\n".join(f'<li><a href="{_path(page)}">Part {page}</a>' for page in links)
        body = (
            f"<!DOCTYPE html>\n<title>Reference {number}</title>\n<h1>Reference {number}</h1>\n<ul>\n{listed}\n</ul>\n"
        )
        return text(200, body + _TEXT, "text/html; charset=utf-8")

    def _number(self, path: str) -> int | None:
        digits = path.removeprefix("/part/")
        if digits == path or not (digits.isascii() and digits.isdigit()) or digits.startswith("0"):
            return None
        return int(digits) if len(digits) < 10 and int(digits) < self._pages else None


def _path(page: int) -> str:
    return f"/part/{page}" if page else "/"

"""Only this module reads from the name of an archive's file whose file it is, and which commit made it."""

import re
from typing import NamedTuple

FOLDERS = ("warc/", "cdxj/", "tables/", "index/", "outbox/", "handover/")
_NAME = re.compile(
    r"(warc|cdxj|tables|index|outbox|handover)/(?:[^/]+/)?(?:([a-z_-]+)-)?(\w+)-(\d{8,})(?:-(\d{8,})-(\d{8,}))?[-.][^/]*"
)


class Label(NamedTuple):
    """`Label` is a parsed name: `first` to `last` are the rounds of a file's rows, `number` is the commit that made
    it."""

    kind: str  # as in the manifest: "warc", "visits", "index.page.delta"
    agent: str
    first: int
    last: int
    number: int

    @property
    def is_merged(self) -> bool:
        return self.number != self.last or self.first != self.last


def label_of(name: str) -> Label | None:
    """Parses a name; None: not a name that Gossamer gives. Such files belong to others."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    folder, stem, agent, *numbers = match.groups()
    first, last, number = int(numbers[0]), int(numbers[1] or numbers[0]), int(numbers[2] or numbers[0])
    if folder == "index":
        return Label(f"index.{(stem or '').replace('-', '.')}", agent, first, last, number)
    return Label(stem if folder == "tables" and stem else folder, agent, first, last, number)

"""A `Plan` holds the pages of the synthetic web as columns: where they are, what kind they are, what they link to."""

import re
from enum import IntEnum
from typing import cast

import numpy as np

from gossamer.arrays import F64, I32, I64, U8, U16, U64, Bools
from gossamer.testweb.hosts import Hosts
from gossamer.testweb.mix import GOLDEN, draws, mix, mixed, normals, stream, units
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.words import TOPIC_WORDS, TOPICS

CHILDREN = 4  # the first links of a page lead to its children in a tree over its host: all can be reached
_LINK_BYTES = 85  # what a link takes in a page, about
_FRAME_BYTES = 1_100  # head, title, footer
SECTION_BYTES = 1_800

_SLUGS = [word for line in TOPIC_WORDS["en"] for word in line.split()[1:]]
_SLUG_COUNT = len(_SLUGS)
_NUMBER = re.compile(r"(\d+)(?:\.html|/)?$")


class Kind(IntEnum):
    """`Kind` is what a page answers."""

    OK = 0
    REDIRECT = 1
    ERROR = 2
    DUPLICATE = 3  # the bytes of `target`, which is a page of the same host
    NEAR_DUPLICATE = 4  # nearly the text of `target`, which it names as canonical


ERRORS = ((404, 0.5), (410, 0.1), (403, 0.1), (500, 0.2), (503, 0.1))


class Plan:
    """Pages are numbered from 0, host by host; a host's first page is its root."""

    def __init__(self, spec: WebSpec) -> None:
        self.spec = spec
        self.hosts = hosts = Hosts(spec)
        count = spec.pages
        self.offsets: I64 = np.concatenate(([0], np.cumsum(hosts.sizes)))
        hidden = np.where(hosts.has_sitemap, np.ceil((hosts.sizes - 1) / 20), 0).astype(np.int64)
        self.linked: I64 = hosts.sizes - hidden  # pages per host that links lead to; the last ones are hidden
        self.host = np.repeat(np.arange(spec.hosts, dtype=np.int32), hosts.sizes)
        self.bits: U64 = stream(mix(spec.seed) + 2, count)
        self.topic = ((self.bits >> np.uint64(8)) % np.uint64(len(TOPICS))).astype(np.uint8)
        self.kind = self._kinds()
        self.target: I64 = self._targets()
        self.status = self._statuses()
        spread = 2 / 3 + 7 / 9 * self._chance(3) ** (4 / 3)  # 60 to 130 links for a mean of 90
        self.links = np.maximum(1 + CHILDREN, np.rint(spec.links * spread)).astype(np.int32)
        self.links[self.offsets[:-1]] += CHILDREN  # roots also lead to the roots of other hosts
        self.sections = self._sections()
        changing = self._chance(6) < spec.changing
        rates = -np.log1p(-self._chance(7)) * (spec.changes_per_day / 86_400)
        self.changes_per_s = np.where(changing, rates, 0.0)
        # The same columns for one page at a time: a memory view gives plain numbers, far faster than an array.
        self.bits_at, self.host_at = self.bits.data, self.host.data
        self.offset_at, self.topic_at = self.offsets.data, self.topic.data
        self.kind_at, self.target_at = self.kind.data, self.target.data
        self.sections_at = self.sections.data
        self.rate_at = cast("memoryview[float]", self.changes_per_s.data)

    def _chance(self, salt: int) -> F64:
        return units(draws(self.bits, salt))

    def _kinds(self) -> U8:
        spec = self.spec
        shares = (spec.redirects, spec.errors, spec.duplicates, spec.near_duplicates)
        order = (Kind.REDIRECT, Kind.ERROR, Kind.DUPLICATE, Kind.NEAR_DUPLICATE, Kind.OK)
        drawn = np.searchsorted(np.cumsum(shares), self._chance(0), side="right")
        kinds: U8 = np.array(order, dtype=np.uint8)[drawn]
        kinds[self.offsets[:-1]] = Kind.OK
        return kinds

    def _targets(self) -> I64:
        """Returns where redirects lead and whom duplicates repeat; other pages have themselves."""
        target = np.arange(self.spec.pages, dtype=np.int64)
        first = self.offsets[self.host]
        other = first + (self.linked[self.host] * self._chance(1)).astype(np.int64)
        repeats = (self.kind == Kind.DUPLICATE) | (self.kind == Kind.NEAR_DUPLICATE)
        target[repeats] = np.where(self.kind[other] == Kind.OK, other, first)[repeats]
        moved = np.flatnonzero(self.kind == Kind.REDIRECT)
        chance = self._chance(2)[moved]
        elsewhere = self._popular(draws(self.bits[moved], 8))
        target[moved] = np.where(chance < 0.2, elsewhere, other[moved])
        chained = chance > 0.75
        target[moved[chained]] = np.roll(moved, -1)[chained]
        # Few loops: neighbours in the list of redirects that lead to each other; a lone last one to itself.
        pair = np.arange(len(moved)) // 2
        looped = units(draws(stream(mix(self.spec.seed) + 3, len(moved)), 0)[pair]) < 0.04
        partner = np.minimum(np.arange(len(moved)) ^ 1, max(0, len(moved) - 1))
        target[moved[looped]] = moved[partner[looped]]
        return target

    def _statuses(self) -> U16:
        codes = np.array([code for code, _ in ERRORS], dtype=np.uint16)
        drawn = np.searchsorted(np.cumsum([share for _, share in ERRORS]), self._chance(4), side="right")
        status = np.full(self.spec.pages, 200, dtype=np.uint16)
        failed = self.kind == Kind.ERROR
        status[failed] = codes[np.minimum(drawn, len(codes) - 1)][failed]
        moved = self.kind == Kind.REDIRECT
        ways = np.array([301, 302, 303, 307, 308], dtype=np.uint16)
        status[moved] = ways[(draws(self.bits, 9) % np.uint64(5)).astype(np.int64)][moved]
        return status

    def _sections(self) -> I32:
        sigma = 0.6
        sizes = self.spec.page_bytes * np.exp(sigma * normals(draws(self.bits, 5)) - sigma**2 / 2)
        rest = (sizes - self.links * _LINK_BYTES - _FRAME_BYTES) / SECTION_BYTES
        return np.clip(np.rint(rest), 1, 1_000).astype(np.int32)

    def _popular(self, bits: U64) -> I64:
        """Draws a page of some host, popular hosts and their first pages more often."""
        r = units(bits)
        v = units(mixed(bits))
        number = (v * v * self.spec.hosts).astype(np.int64)
        r3 = r * r * r
        return self.offsets[number] + (self.linked[number] * (r3 * r3)).astype(np.int64)

    def link_matrix(self, pages: I64, versions: I64) -> I64:
        """Returns in row i the targets of pages[i], whose first links[pages[i]] columns count.

        A tenth of a page's links, the last ones, depend on its version; the others never change.
        """
        width = int(self.links[pages].max())
        column = np.arange(width, dtype=np.uint64)
        bits = self.bits[pages][:, None] + (column + np.uint64(100)) * np.uint64(GOLDEN)
        stable = self.links[pages] - self.links[pages] // 10
        fresh = (np.arange(width) >= stable[:, None]) * versions.astype(np.uint64)[:, None]
        drawn = mixed(bits + fresh * np.uint64(GOLDEN >> 8))
        host = self.host[pages]
        first, size = self.offsets[host][:, None], self.linked[host][:, None]
        r = units(drawn)
        targets = first + (size * (r * r * r)).astype(np.int64)
        if self.spec.hosts > 1:
            # Pages of small hosts have fewer of their own to link to. The lowest bits decide; units() ignores them.
            local = 256 * self.spec.local * size / (size + 10)
            away = (drawn & np.uint64(255)) >= local
            targets[away] = self._popular(draws(drawn[away], 0))
        self._plant_tree(targets, pages)
        return targets

    def _plant_tree(self, targets: I64, pages: I64) -> None:
        """Sets the first links: the host's root, the page's children, and from roots the roots of child hosts."""
        host = self.host[pages].astype(np.int64)
        first = self.offsets[host]
        targets[:, 0] = first
        for nth in range(1, CHILDREN + 1):
            child = (pages - first) * CHILDREN + nth
            targets[:, nth] = np.where(child < self.linked[host], first + child, targets[:, nth])
            child_host = host * CHILDREN + nth
            fits = (pages == first) & (child_host < self.spec.hosts)
            if fits.any():
                targets[fits, CHILDREN + nth] = self.offsets[child_host[fits]]

    def path(self, page: int) -> str:
        """Returns path and query of a page."""
        host = self.host_at[page]
        nth = page - self.offset_at[host]
        if nth == 0:
            return "/"
        bits = self.bits_at[page]
        topic = TOPICS[self.topic_at[page]]
        one = _SLUGS[(bits >> 16) % _SLUG_COUNT]
        form = bits & 255
        if form < 154:
            return f"/{topic}/{one}-{_SLUGS[(bits >> 32) % _SLUG_COUNT]}-{nth}.html"
        if form < 205:
            return f"/{topic}/{one}-{nth}/"
        if form < 230:
            return f"/{topic}/{one}/{_SLUGS[(bits >> 32) % _SLUG_COUNT]}-{nth}"
        return f"/{topic}/view?lang={self.hosts[host].language}&id={nth}"

    def is_html(self, pages: I64) -> Bools:
        """Returns which pages' paths end in .html."""
        return ((self.bits[pages] & np.uint64(255)) < 154) & ~self._is_root(pages)

    def has_query(self, pages: I64) -> Bools:
        return ((self.bits[pages] & np.uint64(255)) >= 230) & ~self._is_root(pages)

    def _is_root(self, pages: I64) -> Bools:
        return np.asarray(self.offsets[self.host[pages]] == pages)

    def page(self, host: int, path: str) -> int:
        """Returns the page at a path of a host; -1 if there is none."""
        if path == "/":
            return self.offset_at[host]
        match = _NUMBER.search(path)
        if match is None or len(match[1]) > 12:
            return -1
        nth, first = int(match[1]), self.offset_at[host]
        if not 0 < nth < self.offset_at[host + 1] - first:
            return -1
        return first + nth if self.path(first + nth) == path else -1

"""This module defines what each host of the synthetic web is like: its name, language, robots rules, habits."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gossamer.arrays import I64, U64
from gossamer.testweb.mix import draw, draws, mix, normal, stream, unit, units
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.words import CHARSETS, LANGUAGES, TOPICS

OWN_AGENT = "gossamer"  # some hosts have a group of rules for this crawler alone


class Robots(IntEnum):
    """`Robots` is the kind of answer that /robots.txt gives."""

    RULES = 0
    OPEN = 1  # a file that forbids nothing
    MISSING = 2  # 404: everything is allowed
    BROKEN = 3  # 500: nothing is


@dataclass(frozen=True, slots=True)
class Rules:
    """`Rules` is one group of rules, by what it forbids. `allows` is the truth that crawlers are held to."""

    topics: frozenset[int]  # directories /TOPIC/ that are forbidden ...
    spare_html: bool  # ... except their pages that end in .html
    queries: bool  # pages with a query are forbidden

    def allows(self, topic: int, is_html: bool, has_query: bool) -> bool:
        if self.queries and has_query:
            return False
        return topic not in self.topics or (self.spare_html and is_html)

    def lines(self) -> list[str]:
        lines = []
        for topic in sorted(self.topics):
            lines.append(f"Disallow: /{TOPICS[topic]}/")
            if self.spare_html:
                lines.append(f"Allow: /{TOPICS[topic]}/*.html$")
        if self.queries:
            lines.append("Disallow: /*?*id=")
        return lines


@dataclass(frozen=True, slots=True)
class Host:
    number: int
    name: str
    language: str
    charset: str
    declares: bool  # names its charset in the Content-Type header, not only in the page
    robots: Robots
    robots_moved: bool  # /robots.txt redirects to where it is
    rules: Rules  # for everybody
    own_rules: Rules | None  # for OWN_AGENT, where it has a group of its own
    crawl_delay_s: float  # 0: none
    sitemap: bool
    validators: bool
    gzip: bool
    chunked: bool
    latency_s: float


class Hosts:
    """`Hosts` has all hosts; a `Host` is made when asked for, and remembered."""

    def __init__(self, spec: WebSpec) -> None:
        self._spec = spec
        self.bits: U64 = stream(mix(spec.seed) + 1, spec.hosts)
        self.has_sitemap = units(draws(self.bits, 1)) < spec.sitemaps
        self.sizes = _sizes(spec)
        self._made: dict[int, Host] = {}
        self._numbers: dict[str, int] = {}

    def __getitem__(self, number: int) -> Host:
        host = self._made.get(number)
        if host is None:
            host = self._made[number] = self._make(number)
        return host

    def name(self, number: int) -> str:
        bits = draw(int(self.bits[number]), 2)
        if number and unit(bits) < self._spec.subdomains:
            return f"h{number}.h{draw(bits, 0) % number}.{self._spec.suffix}"
        return f"h{number}.{self._spec.suffix}"

    def number(self, name: str) -> int:
        """Returns which host has this name; -1 if none."""
        number = self._numbers.get(name, -1)
        if number < 0:
            label = name.partition(".")[0][1:]
            if label.isdecimal() and int(label) < self._spec.hosts and self.name(int(label)) == name:
                number = self._numbers[name] = int(label)
        return number

    def _make(self, number: int) -> Host:
        spec = self._spec
        bits = int(self.bits[number])
        chance = [unit(draw(bits, salt)) for salt in range(10, 24)]
        language = "en" if number == 0 or chance[0] < 0.5 else LANGUAGES[int(chance[1] * len(LANGUAGES))]
        old = chance[2] < spec.charsets and number > 0
        robots = self._robots(chance[3], number)
        rules = _rules(draw(bits, 30))
        delays = (spec.crawl_delay_s / 2, spec.crawl_delay_s, spec.crawl_delay_s * 2)
        delayed = chance[6] < spec.crawl_delays and number > 0 and robots in (Robots.RULES, Robots.OPEN)
        return Host(
            number=number,
            name=self.name(number),
            language=language,
            charset=CHARSETS[language] if old else "utf-8",
            declares=chance[4] < 0.5,
            robots=robots,
            robots_moved=chance[5] < 0.05 and number > 0,
            rules=rules,
            own_rules=_rules(draw(bits, 31)) if chance[7] < 0.15 else None,
            crawl_delay_s=delays[int(chance[8] * 3)] if delayed else 0.0,
            sitemap=bool(self.has_sitemap[number]),
            validators=chance[9] < spec.validators,
            gzip=chance[10] < spec.gzip,
            chunked=chance[11] < spec.chunked,
            latency_s=_latency_s(spec.latency_ms, draw(bits, 32)),
        )

    def _robots(self, chance: float, number: int) -> Robots:
        spec = self._spec
        if chance < spec.robots_rules:
            return Robots.RULES
        if chance < spec.robots_rules + spec.robots_missing:
            return Robots.MISSING
        if chance < spec.robots_rules + spec.robots_missing + spec.robots_broken and number > 0:
            return Robots.BROKEN
        return Robots.OPEN


def _sizes(spec: WebSpec) -> I64:
    """Returns the pages per host: one each, the rest by a power law of the rank, to exactly spec.pages."""
    weights = np.arange(1, spec.hosts + 1, dtype=np.float64) ** -spec.host_exponent
    sizes: I64 = 1 + np.floor(weights / weights.sum() * (spec.pages - spec.hosts)).astype(np.int64)
    sizes[: spec.pages - int(sizes.sum())] += 1
    return sizes


def _rules(bits: int) -> Rules:
    topics = {bits % len(TOPICS)}
    if bits >> 8 & 1:
        topics.add((bits >> 16) % len(TOPICS))
    return Rules(frozenset(topics), spare_html=bits >> 9 & 3 == 0, queries=bits >> 11 & 3 == 0)


def _latency_s(mean_ms: float, bits: int) -> float:
    if mean_ms == 0:
        return 0.0
    sigma = 0.5
    return float(mean_ms / 1000 * np.exp(sigma * normal(bits) - sigma * sigma / 2))

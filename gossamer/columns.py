"""This module describes every table that crosses a module: name, dtype, unit and meaning of each column.

NumPy tables are the index's (hot, fixed width); Arrow tables are the archive's (Parquet, for people and SQL).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from gossamer.arrays import I32, I64, U8, U64, Indices


class Column(Struct, frozen=True):
    name: str
    dtype: str  # a NumPy dtype, or for archive tables an Arrow type
    meaning: str


class Table(Struct, frozen=True):
    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def numpy(self) -> np.dtype[np.void]:
        import numpy as np  # here and below: commands that only name tables and columns start without it

        return np.dtype([(column.name, column.dtype) for column in self.columns])

    @property
    def arrow(self) -> pa.Schema:
        import pyarrow as pa

        types = _arrow_types()
        return pa.schema([pa.field(c.name, types[c.dtype], metadata={"meaning": c.meaning}) for c in self.columns])


@cache
def _arrow_types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {
        "string": pa.string(),
        "dict": pa.dictionary(pa.int32(), pa.string()),
        "bool": pa.bool_(),
        "u1": pa.uint8(),
        "u2": pa.uint16(),
        "u4": pa.uint32(),
        "u8": pa.uint64(),
        "i4": pa.int32(),
        "i8": pa.int64(),
        "f4": pa.float32(),
        "f8": pa.float64(),
        "time": pa.timestamp("ms", tz="UTC"),
        "binary": pa.binary(),
    }


NEVER = 0xFFFFFFFF  # a due time that never comes
# `hops` of a requisite, which is no page of its own: this, plus the style sheets and redirects between a page and it.
# The least of a page's hops counts, so that whatever a link leads to is a page.
REQUISITE = 128
MOST_HOPS = REQUISITE - 1  # of a page
VANISHED = 255  # of a link that is no longer there
HOST_BITS = 24


class Status(IntEnum):
    """`Status` is the status of a known page. `crawl/states.py` has which outcome leads to which status."""

    NEW = 0  # never visited
    FETCHED = 1  # the last visit brought content
    MOVED = 2  # redirects elsewhere
    FAILED = 3  # a passing failure; due again later
    GONE = 4  # does not exist, or failed too often
    DENIED = 5  # robots.txt forbids it
    REFUSED = 6  # we will not go there, or not keep it: address, port, content type, purpose
    FORBIDDEN = 7  # the server does not let us have it; due again much later


class Outcome(IntEnum):
    """`Outcome` is the outcome of one visit."""

    OK = 0  # new or changed content
    UNCHANGED = 1  # the same content as at the last visit (304, or the same digest)
    MOVED = 2  # 3xx with a usable Location
    GONE = 3  # 404, 410
    REJECTED = 4  # any 4xx that has no outcome of its own
    SERVER_ERROR = 5  # 5xx except 503
    THROTTLED = 6  # 429, 503: the host asks us to slow down
    DENIED = 7  # robots.txt forbids it
    ROBOTS_UNREACHABLE = 8  # robots.txt answers 5xx or not at all: nothing may be fetched for a while
    NO_NAME = 9  # the name does not exist
    DNS_FAILED = 10  # the name could not be looked up now
    CONNECT_FAILED = 11  # refused, unreachable, connect time-out
    TLS_FAILED = 12  # certificate or handshake
    TIMEOUT = 13  # the answer took too long
    BROKEN = 14  # the connection broke, or the answer is not HTTP
    REFUSED_ADDRESS = 15  # the guard forbids the address or port
    BAD_REDIRECT = 16  # 3xx without a usable Location, or too many hops
    OTHER = 17  # a status that fits nowhere (1xx, unasked 304, 600 ...)
    REFUSED_TYPE = 18  # a content type that nobody asked for: only the headers were read
    FORBIDDEN = 19  # 401, 402, 403, 407, 451: there may be a page, but not for us
    REFUSED_USE = 20  # its publisher asks not to use it for the purpose of this crawl (crawl.purpose)


PAGE = Table(
    "page",
    "a known page's hot row in the index: 36 bytes",
    (
        Column("key", "u8", "24 bits of xxh3(host), 40 bits of xxh3(URL)"),
        Column("cash", "i8", "OPIC cash in quanta, minus the running total V of the virtual page"),
        Column("text", "u8", "offset of the URL in the text heap; grows in order of discovery"),
        Column("hits", "u4", "links to it, on the current versions of visited pages"),
        Column("due_s", "u4", "seconds since 1970 when it may be visited (0: at once; NEVER)"),
        Column("status", "u1", "Status"),
        Column("depth", "u1", "links from a seed"),
        Column("hops", "u1", "redirects that led here in a row; REQUISITE and more: it is a requisite"),
        Column("tries", "u1", "failed visits in a row"),
    ),
)

VISITED = Table(
    "visited",
    "what only visited pages have",
    (
        Column("key", "u8", "the page"),
        Column("digest", "u8", "xxh3 of the decoded body at the last visit with content"),
        Column("last_s", "u4", "time of the last visit"),
        Column("changed_s", "u4", "time of the last visit with new content"),
        Column("visits", "u2", "visits with an answer"),
        Column("changes", "u2", "visits whose content differed from the one before"),
        Column("validators", "u8", "offset of ETag, Last-Modified and links in the text heap, NO_TEXT if none"),
        Column("first_s", "u4", "time of the first visit"),
        Column("interval_s", "u4", "the adaptive policy's interval; 0 before the second visit"),
        Column("wire_bytes", "u4", "size of the last version, as sent"),
        Column("change_rate", "u4", "changes in 1e9 seconds, estimated from the counters; 0 before the second visit"),
        *(
            Column(f"counters{n}", "u8", "eight of 32 counters of changes by interval (refresh/change_rates.py)")
            for n in range(4)
        ),
        Column("history", "u8", "OPIC cash it has passed on at all its visits, in quanta; 0 in files of before"),
    ),
)
LATER = (
    "history",
)  # columns, at the ends of their tables, that files and messages of earlier versions lack: all zeros
NO_TEXT = 0xFFFFFFFFFFFFFFFF

ONWARD = Table(
    "onward",
    "a visited page's links that matter when it turns out to be less deep than it seemed (crawl/onward.py)",
    (
        Column("key", "u8", "the page"),
        Column("text", "u8", "offset of those links in the text heap, NO_TEXT if there are none any more"),
    ),
)

HOST = Table(
    "host",
    "a host's row in the index; all of them stay in memory",
    (
        Column("host", "u4", "24 bits of xxh3(name): the top bits of its pages' keys"),
        Column("domain", "u4", "32 bits of xxh3(registrable domain)"),
        Column("known", "u4", "pages known"),
        Column(
            "visited", "u4", "pages with at least one final visit (fetched, moved, gone, denied, refused, forbidden)"
        ),
        Column("country", "u2", "where it answered from: two letters of ISO 3166, one byte each; 0 if unknown"),
    ),
)

KIN = Table(
    "kin",
    "hosts of domains that have several (frontier/wildcard_traps.py)",
    (
        Column("key", "u8", "the host's 24 bits, then zeros"),
        Column("generation", "u1", "how many hosts of its domain led to it, one from the other"),
        Column("fresh", "u2", "visits that brought content of its own"),
        Column("stale", "u2", "visits that brought content known from elsewhere"),
    ),
)

LINK = Table(
    "link",
    "what a strategy may look at when it divides a page's cash among its links",
    (
        Column("foreign", "u1", "1 if it leads to another host"),
        Column("relevance", "f8", "how near its words are to the topic, 0 to 1; 0 if there is none"),
    ),
)

VISITS = Table(
    "visits",
    "one row per visit, successful or not",
    (
        Column("key", "u8", "the page"),
        Column("url", "string", "its normalised URL"),
        Column("host", "string", "its host name"),
        Column("round", "u4", "the round that committed it"),
        Column("time", "time", "when the request began"),
        Column("outcome", "dict", "what became of it: ok, unchanged, moved, gone, ..."),
        Column(
            "status",
            "dict",
            "what its page is now: fetched, moved, failed or forbidden (due again), gone, denied, refused",
        ),
        Column("http_status", "u2", "status code, 0 if there was no answer"),
        Column("reason", "string", "what went wrong, in words; empty if nothing did"),
        Column("content_type", "dict", "as declared, without parameters"),
        Column("charset", "dict", "the encoding used to decode it"),
        Column("title", "string", "the page's title"),
        Column("language", "dict", "the html element's lang"),
        Column("canonical", "string", "what the page calls its canonical URL"),
        Column("location", "string", "where it redirects to"),
        Column("wire_bytes", "u8", "body as sent"),
        Column("body_bytes", "u8", "body after decoding"),
        Column(
            "truncated",
            "dict",
            "length, time, disconnect, corrupt, coding, unspecified (by reason): why the body is not whole; or empty",
        ),
        Column(
            "digest",
            "string",
            "sha1 of the payload without its chunks, base32; empty if none. Of a 304, that of the content it confirms",
        ),
        Column("links", "u4", "distinct links found"),
        Column("depth", "u1", "links from a seed"),
        Column("cash", "i8", "OPIC cash it passed on, in quanta"),
        Column("elapsed_s", "f4", "from first to last byte of the exchange, connecting included"),
        Column("lookup_s", "f4", "of that, until the host's address was known; nearly 0 if it was known before"),
        Column("connect_s", "f4", "then until the TCP connection was there, a round trip; 0 on one that was kept open"),
        Column("response_s", "f4", "from the end of the request to the first byte of the answer"),
        Column("address", "dict", "the IP address contacted"),
        Column("warc", "dict", "WARC file, empty if nothing was stored"),
        Column("warc_offset", "u8", "offset of the record"),
        Column("warc_bytes", "u4", "compressed length of the record"),
        Column("is_revisit", "bool", "the record refers to another one that has the same content"),
        Column("noindex", "bool", "the page asks not to be indexed"),
        Column(
            "is_robots",
            "bool",
            "no page's own visit: to /robots.txt or crawl.opt_out_file, made for its rules, or of kind part",
        ),
        Column(
            "preferences",
            "dict",
            "what its publisher asks about its use, a line each, with its source (preferences.md)",
        ),
        Column("not_for", "dict", "the purposes that these lines refuse, as in 'ai-train ai-input'; empty: none"),
        Column(
            "kind",
            "dict",
            "page; requisite: what a page needs to be shown (docs/media.md); part: what its scripts asked for when it"
            " was rendered (docs/render.md)",
        ),
        Column("width", "u4", "of an image, in pixels, if its header says so (PNG, GIF, JPEG, WebP); else NULL"),
        Column("height", "u4", "the same"),
        Column("rendered", "bool", "its scripts were run (crawl.render): text and links are as they made the page"),
        Column(
            "simhash",
            "u8",
            "of its main text, as of the function simhash (archive.simhash); 0: hardly any text, NULL: nobody looked",
        ),
        Column("country", "dict", "where the host is: two letters of ISO 3166, empty if unknown"),
        Column("g_per_kwh", "f8", "carbon intensity of the power there, then: grams of CO2 equivalent per kWh"),
        Column("energy_j", "f8", "joules that the visit took, by carbon.kwh_per_gb; 0 if nobody was contacted"),
        Column("energy_low_j", "f8", "the same by carbon.kwh_per_gb_low"),
        Column("carbon_g", "f8", "grams of CO2 equivalent, of energy_j"),
    ),
)
ACCOUNT = VISITS.names[-5:]  # what visits cost

PAGES = Table(
    "pages",
    "one row per page, written when it is discovered",
    (
        Column("key", "u8", "the page"),
        Column("url", "string", "its normalised URL"),
        Column("host", "dict", "its host name"),
        Column("domain", "dict", "its registrable domain"),
        Column("referrer", "u8", "the page whose link was seen first; 0 for seeds"),
        Column("round", "u4", "the round that discovered it"),
        Column("depth", "u1", "links from a seed: in the file as known then, in SQL the least that is known"),
        Column("kind", "dict", "page, or requisite: what a page needs to be shown (docs/media.md)"),
    ),
)

DEPTHS = Table(
    "depths",
    "one row for each time that a shorter way to a known page was found",
    (
        Column("key", "u8", "the page"),
        Column("depth", "u1", "links from a seed, from then on"),
        Column("round", "u4", "the round that found it"),
    ),
)

LINKS = Table(
    "links",
    "one row per distinct link of a visited version",
    (
        Column("source", "u8", "the page it is on"),
        Column("target", "u8", "the page it leads to"),
        Column("target_url", "dict", "its normalised URL"),
        Column(
            "verdict",
            "dict",
            "followed, or why not: nofollow, scope, pattern, depth, trap, port, length, cap, best, foreign, function,"
            " requisites, purpose;"
            " later: followed since a shorter way was found, or since scope, depth or patterns are wider",
        ),
        Column("round", "u4", "the round that committed it"),
        Column(
            "kind",
            "dict",
            "link, redirect or sitemap; of what a page needs or embeds: image, style, script, font, audio, video,"
            " track, object, icon, manifest (docs/media.md)",
        ),
    ),
)

ROBOTS = Table(
    "robots",
    "one row per robots.txt fetched; also read at restart, so that none is fetched twice within a day",
    (
        Column("origin", "string", "scheme://name[:port]; for crawl.opt_out_file followed by its path"),
        Column("time", "time", "when"),
        Column("expires", "time", "when it must be fetched again"),
        Column("http_status", "u2", "status code, 0 if there was no answer"),
        Column("verdict", "dict", "rules, allow_all, deny_all"),
        Column("body", "binary", "the first 500 KiB"),
    ),
)

RESTING = Table(
    "resting",
    "a host that rests longer than the usual delay; read at restart, the newest row of a host is true",
    (
        Column("host", "string", "its name"),
        Column("until_s", "f8", "seconds since 1970 before which it is not contacted; 0: it rests no more"),
        Column("failures", "u4", "failures in a row"),
    ),
)

COOKIES = Table(
    "cookies",
    "the cookies of a website that fetch.cookies keeps; read at restart, the newest row of a domain is true",
    (
        Column("domain", "string", "the registrable domain"),
        Column("cookies", "string", "what its servers have set, as JSON; empty: nothing any more"),
    ),
)

CONTRIBUTION = Table(
    "contribution",
    "what seeds, sitemaps or a round of another zone give to one page",
    (
        Column("key", "u8", "the page"),
        Column("cash", "i8", "OPIC cash in quanta, summed"),
        Column("hits", "i4", "links to it, summed; those that vanished count as minus one"),
        Column("depth", "u1", "links from a seed, the least"),
        Column("hops", "u1", "redirects that led there in a row"),
        Column("referrer", "u8", "the page whose link was seen first; 0 for seeds"),
        Column("url", "string", "its normalised URL"),
    ),
)


class Contributions(NamedTuple):
    """`Contributions` are CONTRIBUTION rows as columns."""

    key: U64
    cash: I64
    hits: I32
    depth: U8
    hops: U8
    referrer: U64
    url: list[str]

    @classmethod
    def none(cls) -> Contributions:
        return cls.joined([])

    @classmethod
    def of(cls, key: U64, url: list[str], **values: Any) -> Contributions:
        """Returns rows with these values, each a column, or one number for all; what is not given is 0."""
        import numpy as np

        given = [(column, np.broadcast_to(values.get(column.name, 0), len(key))) for column in CONTRIBUTION.columns]
        return cls._make([key, *(value.astype(column.dtype) for column, value in given[1:-1]), url])

    @classmethod
    def joined(cls, parts: Iterable[Contributions]) -> Contributions:
        import numpy as np

        parts = list(parts)
        columns: list[Any] = [
            np.concatenate([np.zeros(0, column.dtype), *(part[i] for part in parts)])
            for i, column in enumerate(CONTRIBUTION.columns[:-1])
        ]
        columns.append([url for part in parts for url in part.url])
        return cls(*columns)

    def take(self, rows: Indices) -> Contributions:
        columns: list[Any] = [column[rows] for column in self[:-1]]
        columns.append([self.url[i] for i in rows.tolist()])
        return Contributions(*columns)


ITEMS = Table(
    "items",
    "one row per item that a page function yielded; a declared type (docs/functions.md) adds columns of its own",
    (
        Column("key", "u8", "the page"),
        Column("url", "string", "its normalised URL"),
        Column("round", "u4", "the round that committed it, as in visits: key and round are the visit"),
        Column("time", "time", "when the page was fetched, as in visits"),
        Column("function", "dict", "the function, as it was named"),
        Column("code", "dict", "a digest of the file that the function is from"),
        Column("number", "u4", "its place among the function's items of this page, from 0"),
        Column("item", "string", "the item, as JSON"),
    ),
)

GROWING = (ITEMS.name,)  # tables whose files may have more columns than are described here

FILES = Table(
    "files",
    "one row per blob that a page function stored (`page.file`)",
    (
        *ITEMS.columns[:6],
        Column("name", "string", "the name that the function gave it"),
        Column("bytes", "u8", "its size"),
        Column("data", "binary", "its content"),
    ),
)

FUNCTION_ERRORS = Table(
    "function_errors",
    "one row for each time that a page function failed on a page; the function's items of that page do not count",
    (
        *ITEMS.columns[:6],
        Column(
            "kind", "dict", "raised, timeout, memory, crashed, invalid (what it yields cannot be stored), too large"
        ),
        Column("error", "string", "what went wrong, in one line"),
        Column("traceback", "string", "where in the function; empty if that is not known"),
    ),
)

SIGNALS = Table(
    "signals",
    "carbon intensity that decisions saw, one row per place and change",
    (
        Column("time", "time", "when it was so"),
        Column("place", "dict", "host name, country code, or * for everywhere"),
        Column("value", "f8", "grams of CO2 equivalent per kWh"),
        Column("source", "dict", "where the figure comes from"),
    ),
)

# The tables that rounds write as Parquet files, and merges join.
STORED = {table.name: table for table in (VISITS, PAGES, DEPTHS, LINKS, ROBOTS, SIGNALS, ITEMS, FILES, FUNCTION_ERRORS)}

"""Reads mutated pages through the compiled columns and through texts, and compares every link, key and trap; with
each page a header block, and what leads to a declared encoding, read by compiled code and without it.

`make fuzz PAGES=N SEED=S` runs it; `--seed S --first K --pages 1` repeats page K of that run, `--show` prints it. The
markup comes from real pages if the corpus of the benchmarks is there, else from pages made up here, and references from
the conformance cases. A page depends on the seed and on its number alone.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from gossamer.config import Limits
from gossamer.web import charset, html, http
from gossamer.web.tokens import Tokens

TOP = Path(__file__).resolve().parents[2]
CORPUS = TOP / ".cache" / "corpus"
MOST_BYTES = 4_000  # of a real page, from anywhere in it
MOST_LINKS = 200
LIMITS = (Limits(), Limits(url_bytes=40, path_segments=5, path_repeats=1), Limits(path_segments=1_000))

# What URLs are made of, and what the compiled way must leave to the other.
SCHEMES = [
    "http://", "https://", "HTTP://", "http:", "http:/", "http:///", "//", "///", "/\\", "ftp://", "mailto:", "",
]  # fmt: skip
HOSTS = [
    "a.test", "b.test", "www.a.test", "A.Test", "a.test.", "a..test", ".a.test", "a_b.test", "-a-.test", "1.2.3.4",
    "1.2.3", "0x7f.1", "a.1", "a.0x", "a.b2", "2.b", "xn--bcher-kva.test", "xn--.test", "xn--a.test", "ab--c.test",
    "xn-a.test", "[::1]", "u@a.test", "u:p@a.test", "a%2etest", "a%20b", "ü.test", "a b", "", "l" * 63 + ".test",
    "l" * 64 + ".test", "n." * 130 + "test", "localhost", "a.test\t", "a|b", "a^b", "a<b", "a.xn--p1ai", "é",
    "faß.test", "a\u00adb.test", "a.test\\b",
]  # fmt: skip
PORTS = [
    "", "", "", "", ":80", ":443", ":8080", ":0", ":", ":00080", ":25", ":65535", ":65536", ":99999999", ":8x",
    ":6000",
]  # fmt: skip
PATHS = [
    "/", "a", "b", "index.html", "..", ".", "...", "%2e", "%2E%2e", ".%2e", "%2", "%", "%zz", "%41", "a b", "(x)",
    "(", "(S(abcdefghijklmnopqrstuvwx))", ";jsessionid=1", ";v=1", ";", "a;b", "a:b", ":", "@", "a@b", "~u",
    "!$&'*+,=", "[x]", "{x}", "^", "|", "`", '"', "\\", "é", "ж", "\u2028", "\0", "\t", "\n", "\x7f", "%00", "^",
    "a" * 300, "//", "http://c.test/", "-", "_",
]  # fmt: skip
QUERIES = [
    "?", "?a=1", "?a=1&b=2", "&amp;c=3", "&copy=1", "&copy;", "&#63;", "&#x2f;", "?sid=" + "0f" * 16, "?SID=1",
    "&sid=" + "a" * 32, "?phpsessid=x", "?jsessionid=", "?nid=4", "?id=3", "?a='b'", "?é=ü", "?\\", "?{}", "?^`|",
    "?a?b/../c", "?%", "?<>", "#", "#x", "#?y", "?page=3", "?+", "? ", "?;", "&", "&lt", "&amp", "&amp;amp;",
]  # fmt: skip
TAGS = [
    *['<a href="{}">'] * 5, "<a href='{}'>", "<a href={}>", '<a rel=nofollow href="{}">', '<area href="{}">',
    '<link rel=next href="{}">', '<link rel=canonical href="{}">', '<iframe src="{}"></iframe>', '<frame src="{}">',
    '<base href="{}">', '<a href=" {} ">', '<A HREF="\n{}">', "<meta http-equiv=refresh content='1;url={}'>",
    "<svg><a xlink:href='{}'></svg>",
]  # fmt: skip
MARKUP = [
    "<script>", "</script>", "<!--", "-->", "<title>", "</title>", "<template>", "</template>", "<svg>", "</svg>",
    "<", ">", "'", '"', "=", "\0", "&", "<noscript>", "</noscript>", "<iframe srcdoc='<a href=q>'>",
    "<meta name=robots content=nofollow>",
]  # fmt: skip
FIELDS = [
    "HTTP/1.1 200 OK", "Content-Type: text/html", "content-type:text/html; charset=utf-8", 'ETag: "x"',
    "X-Robots-Tag: none", "Transfer-Encoding: chunked", " folded", "\tfolded\t", "no colon", "a b: c", ": no name",
    "Name : x", "X:", "X: \0", "Ü: x", "x: é\r y ", "X: a: b", "", "", "e-t!#$%&'*+.^_`|~09: x", "SERVER:\tx\r",
]  # fmt: skip
LINE_ENDS = ["\r\n"] * 6 + ["\n", "\r", "", "\n\n"]
BEGINNINGS = [
    "<!DOCTYPE html>", "<?xml version='1.0'?>", "<html>", '<html lang="en">', "<head>", "</head >",
    "<title>x</title>", "\n", '<meta name="a" content="b>">', '<META property="a"content="b"/>',
    "<!-- <meta charset=koi8-r> -->", "<!>", "</meta>", '<metadata a="b">', "<link rel=x>", '<link rel="x" a1="y">',
    '<meta name="a" charset="utf-8">', "<p", "<", "charset", '<meta charset="utf-8">', '<meta\tCharset="KOI8-R" / >',
    "<meta charset=utf-8>", '<meta charset="utf-16" />',
    '<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS">', '<meta charset="x y">',
    '<meta charset="">', '<meta http-equiv="content-type" content="text/html;charset=gbk"/>',
    '<meta content="a" http-equiv="content-type">', '<meta http-equiv="content-type" content="text/html">',
    '<meta http-equiv="refresh" content="text/html;charset=gbk"/>',
]  # fmt: skip
CHARSETS = [
    "", "text/html; charset=utf-8", "text/html; charset=utf-8", "text/html; charset=windows-1252",
    "text/html; charset=koi8-r", "text/html; charset=shift_jis",
]  # fmt: skip


class Pages:
    """`Pages` makes a page, its address and its content type from a number."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._real = sorted(CORPUS.rglob("*.html"))[::37] if CORPUS.is_dir() else []
        self._read: dict[int, bytes] = {}

    def page(self, number: int) -> tuple[bytes, str, str]:
        draw = random.Random(self._seed * 1_000_003 + number)
        body = self._markup(draw)
        for _ in range(draw.choice((0, 1, 2, 4, 8, 16))):
            body = mutated(body, draw)
        return body, self._address(draw), draw.choice(CHARSETS)

    def drawn(self, number: int, pieces: list[str], between: list[str]) -> bytes:
        """Makes a text of such pieces, and changes some."""
        draw = random.Random(self._seed * 1_000_003 + number)
        chosen = (draw.choice(pieces) + draw.choice(between) for _ in range(draw.choice((1, 3, 8, 80))))
        body = "".join(chosen).encode("latin-1")
        for _ in range(draw.choice((0, 0, 1, 2))):
            body = mutated(body, draw)
        return body

    def _markup(self, draw: random.Random) -> bytes:
        if self._real and draw.random() < 0.5:
            whole = self._real_page(draw.randrange(len(self._real)))
            start = draw.randrange(max(len(whole) - MOST_BYTES, 1))
            return whole[start : start + draw.randrange(MOST_BYTES)]
        return "".join(tag(draw) for _ in range(draw.randrange(40))).encode("utf-8", "surrogatepass")

    def _real_page(self, number: int) -> bytes:
        if number not in self._read:
            self._read[number] = self._real[number].read_bytes()
        return self._read[number]

    def _address(self, draw: random.Random) -> str:
        """Any address in normal form, and some that are not."""
        given = reference(draw)
        return html.resolve(given, "http://a.test/d/e/p.html") or "http://a.test/d/e/p.html?q"


def corpus() -> Iterator[str]:
    """Yields differences on whole real pages, under their own addresses."""
    pages, links, slow = 0, 0, Counted()
    html._resolved = slow
    for path in sorted(CORPUS.rglob("*.html")):
        if path.is_file():
            url = html.resolve(str(path.relative_to(CORPUS)), "http://docs.test/") or ""
            found, different = compared(path.read_bytes(), url, "")
            pages, links = pages + 1, links + found
            yield from (f"{path}: {difference}" for difference in different)
    print(f"{pages:,} real pages: {links:,} links, and {slow.calls:,} references that are not plain", flush=True)


def tag(draw: random.Random) -> str:
    return draw.choice(TAGS).format(reference(draw)) if draw.random() < 0.96 else draw.choice(MARKUP)


def reference(draw: random.Random) -> str:
    parts = []
    if draw.random() < 0.4:
        parts += [draw.choice(SCHEMES), draw.choice(HOSTS), draw.choice(PORTS)]
    for _ in range(draw.choice((0, 1, 1, 2, 3, 6, 12, 40) if draw.random() < 0.9 else (40,))):
        parts += [draw.choice(("/", "", "/")), draw.choice(PATHS)]
    for _ in range(draw.choice((0, 0, 1, 2))):
        parts.append(draw.choice(QUERIES))
    return "".join(parts)


def mutated(body: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(body) + 1)
    kind = draw.choice((0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5))
    if kind == 0:
        return body[:at] + bytes([draw.randrange(256)]) + body[at + 1 :]
    if kind == 1:
        return body[:at] + body[at + draw.randrange(40) :]
    if kind == 2:
        return body[:at] + tag(draw).encode("utf-8", "surrogatepass") + body[at:]
    if kind == 3:
        return body[:at] + draw.choice([*MARKUP, *PATHS, *QUERIES]).encode("utf-8", "surrogatepass") + body[at:]
    if kind == 4:
        return body[:at]
    size = draw.randrange(200)
    return body[:at] + body[at : at + size] * 2 + body[at + size :]


def through_texts(body: bytes, charset: str, agent: str, max_links: int) -> Tokens:
    tokens = html._scanned(body, charset, agent, max_links)
    tokens.hrefs = dict(tokens.hrefs.items())
    return tokens


def compared(body: bytes, url: str, content_type: str) -> tuple[int, list[str]]:
    """Returns the number of links, and what the two ways do not agree about."""
    html.tokenise = html._scanned
    found = html.parse_html(body, url, content_type, max_links=MOST_LINKS)
    html.tokenise = through_texts
    expected = html.parse_html(body, url, content_type, max_links=MOST_LINKS)
    html.tokenise = html._scanned
    different = [
        f"{name}: {getattr(found, name)!r} and not {getattr(expected, name)!r}"
        for name in ("charset", "title", "language", "canonical", "noindex", "nofollow", "refresh", "base", "followed")
        if getattr(found, name) != getattr(expected, name)
    ]
    if list(found.targets) != list(expected.targets):
        different.append(f"links: {list(found.targets)} and not {list(expected.targets)}")
    else:
        different += differing_columns(found.targets, expected.targets)
    return len(found.targets), different


def differing_columns(links: html.Links, listed: html.Links) -> Iterator[str]:
    keys = links.keys()
    if keys.tolist() != listed.keys().tolist():
        yield f"keys of {list(links)}"
    for limits in LIMITS:
        if links.traps(limits).tolist() != listed.traps(limits).tolist():
            yield f"traps of {list(links)}: {links.traps(limits)} and not {listed.traps(limits)}"
        outside = bytes(place % 3 for place in range(len(listed.origins)))
        if links.judged(limits, b"abcdefgh", outside).tolist() != listed.judged(limits, b"abcdefgh", outside).tolist():
            yield f"codes of {list(links)}"
    if links.origins != listed.origins or links.origin_of.tolist() != listed.origin_of.tolist():
        yield f"origins of {list(links)}"
    known = dict.fromkeys(keys.tolist()[::2], "")
    entered, expected = dict(known), dict(known)
    if links.enter(entered, keys) != listed.enter(expected, keys) or entered != expected:
        yield f"texts of {list(links)}"
    if links.chars != listed.chars:
        yield f"length of {list(links)}"


def differing_head(head: bytes) -> Iterator[str]:
    found, expected = http.headers_of(head), http.Headers(head)
    names = {name for name, _ in expected} | {"content-type", "x", ""}
    if list(found) != list(expected) or len(found) != len(expected):
        yield f"fields of {head!r}"
    if any(found.get(name, "?") != expected.get(name, "?") for name in names):
        yield f"values of {head!r}"
    if any(found.get_all(name) != expected.get_all(name) for name in names):
        yield f"all values of {head!r}"


def differing_charset(body: bytes, limit: int) -> Iterator[str]:
    found = charset.label(charset.declared(body, limit))
    if found and found not in charset._RENAMED and found != charset._prescanned(body, limit):
        yield f"the encoding of {body[:limit]!r}: {found}"


class Counted:
    """`Counted` counts the references that the compiled way leaves to the other."""

    def __init__(self) -> None:
        self.calls = 0
        self._inner = html._resolved

    def __call__(self, base: str, charset: str, href: str) -> str | None:
        self.calls += 1
        return self._inner(base, charset, href)


def fuzz(seed: int, first: int, count: int) -> Iterator[str]:
    """Yields differences, and prints at last how many pages and links there were."""
    pages, links, slow = Pages(seed), 0, Counted()
    html._resolved = slow
    try:
        for number in range(first, first + count):
            page = pages.page(number)
            found, different = compared(*page)
            links += found
            different += differing_head(pages.drawn(number, FIELDS, LINE_ENDS))
            different += differing_charset(pages.drawn(number, BEGINNINGS, ["", "", "\n"]), 16 + number % 600)
            for difference in different:
                yield f"seed {seed}, page {number}, {page[1]}, {page[2]!r}: {difference}"
    finally:
        html._resolved = slow._inner
    print(
        f"{count:,} pages from seed {seed}: {links:,} links, and {slow.calls:,} references that are not plain",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first page")
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--corpus", action="store_true", help="compare the real pages as they are")
    parser.add_argument("--show", action="store_true", help="print the first page, and stop")
    given = parser.parse_args()
    if html.scan is None:
        sys.exit("gossamer.web._scan is not built: python setup.py build_ext --inplace")
    if given.show:
        print(*Pages(given.seed).page(given.first), sep="\n")
        return 0
    print(f"read by {Path(html.__file__).parent}")
    failed = 0
    for difference in corpus() if given.corpus else fuzz(given.seed, given.first, given.pages):
        failed += 1
        print(difference)
    print(f"{failed} differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

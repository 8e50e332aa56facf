"""This module finds the URLs in sitemaps, sitemap indexes, feeds and lists of URLs.

It is a scanner, not an XML parser: no entity is expanded, nothing is fetched, broken files give what they have, and
every step is linear in the file's size. (A strict parser rejects a good part of the sitemaps that exist.)
"""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from gossamer.web import charset, coding
from gossamer.web.url import resolve

LIMIT_BYTES = 50 << 20  # of sitemaps.org, uncompressed
LIMIT_URLS = 50_000
_HEAD = 64 << 10  # a file shows within so many bytes what it is
_SNIFF = 8 << 10
_LONGEST_TEXT = 8 << 10  # of a URL with space around it
_MOST_TEXTS = 3  # per URL allowed, and
_MOST_SECTIONS = 500_000  # comments and CDATA: a file of nothing else would cost many seconds

_KINDS = {b"urlset": "urlset", b"sitemapindex": "index", b"rss": "rss", b"rdf": "rss", b"feed": "atom"}
_FIRST_TAG = re.compile(rb"<(?:[\w.-]{1,64}:)?([A-Za-z][\w.-]{0,64})")
_ROOT = re.compile(rb"<([\w.-]{1,64}:)?(urlset|sitemapindex|rss|feed|RDF)[\s>]", re.I)
_DOCTYPE = re.compile(rb"<!DOCTYPE[^\[>]*+(\[)?", re.I)
_ENCODING = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
_ATTRIBUTE = re.compile(rb"([\w:.-]{1,64})\s*=\s*(?:\"([^\"<]*)\"|'([^'<]*)')")
_LINE = re.compile(rb"[^\r\n]+")
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ABSOLUTE = re.compile(r"https?:|/|www\.", re.I)
_INVISIBLE = "\ufeff\u200b\u2060"


class Sitemap(Struct):
    """The URLs of a file are normal forms, distinct, in order. They are of any host: the caller knows whom to trust."""

    kind: str = ""  # "urlset", "index", "rss", "atom", "text"; "" if it is none of these
    urls: list[str] = field(default_factory=list)  # pages
    sitemaps: list[str] = field(default_factory=list)  # of an index
    truncated: bool = False  # there was more than a limit allows, or the compressed file ends early


def is_sitemap(body: bytes, content_type: str, url: str) -> bool:
    """Returns, by the first bytes, whether parse_sitemap() would find a list. Plain text must also be called one."""
    head = body[:_SNIFF]
    if coding.is_gzip(head):
        head, _ = coding.decode(head, "gzip", _SNIFF)
    kind = _kind(_markup(_utf8(head))[0])
    if kind == "text":
        return "sitemap" in url.lower() and content_type.partition(";")[0].strip() in _TEXT_TYPES
    return kind != ""


_TEXT_TYPES = ("", "text/plain", "application/octet-stream", "application/gzip", "application/x-gzip")


def parse_sitemap(body: bytes, url: str, limit_bytes: int = LIMIT_BYTES, limit_urls: int = LIMIT_URLS) -> Sitemap:
    """Returns what the file fetched from `url` lists; any bytes are accepted."""
    truncated = False
    if coding.is_gzip(body):
        body, reason = coding.decode(body, "gzip", limit_bytes)
        truncated = reason != ""
    elif len(body) > limit_bytes:
        body, truncated = body[:limit_bytes], True
    body = _utf8(body)
    markup, cut = _markup(body)
    truncated |= cut
    kind = _kind(markup)
    if truncated and kind == "text":
        markup = markup[: markup.rfind(b"\n") + 1]  # half a URL is another URL
    encoding = _ENCODING.search(body, 0, _SNIFF)
    name = charset.declared_charset(b"", f"text/xml;charset={encoding[1].decode()}") if encoding else "utf-8"
    found: dict[str, None] = {}
    for number, text in enumerate(_FINDERS[kind](markup) if kind else ()):
        target = _target(text, name, url)
        if number == limit_urls * _MOST_TEXTS or (
            len(found) == limit_urls and target is not None and target not in found
        ):
            truncated = True
            break
        if target is not None:
            found[target] = None
    result = Sitemap(kind, truncated=truncated)
    if kind == "index":
        result.sitemaps = list(found)
    else:
        result.urls = list(found)
    return result


def _utf8(body: bytes) -> bytes:
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return body.decode("utf-16", "replace").encode("utf-8", "replace")
    return body.removeprefix(b"\xef\xbb\xbf")


def _markup(body: bytes) -> tuple[bytes, bool]:
    """Returns markup without comments and document type, CDATA as escaped text; and whether something was cut.

    What is not closed ends the file.
    """
    pieces: list[bytes] = []
    start = 0
    for _ in range(_MOST_SECTIONS):
        at = body.find(b"<!", start)
        if at < 0:
            return (b"".join([*pieces, body[start:]]) if pieces else body), False
        pieces.append(body[start:at])
        if body.startswith(b"<!--", at):
            closing, inside = b"-->", at + 4
        elif body.startswith(b"<![CDATA[", at):
            closing, inside = b"]]>", at + 9
        else:
            doctype = _DOCTYPE.match(body, at)
            closing, inside = (b"]>" if doctype and doctype[1] else b">"), doctype.end() if doctype else at
        end = body.find(closing, inside)
        if end < 0:
            break
        if closing == b"]]>":
            pieces.append(body[inside:end].replace(b"&", b"&amp;").replace(b"<", b"&lt;"))
        start = end + len(closing)
    return b"".join(pieces), True


def _kind(markup: bytes) -> str:
    first = _FIRST_TAG.search(markup, 0, _HEAD)
    if first is None:
        line = markup[:_SNIFF].lstrip().split(b"\n", 1)[0].strip().lower()
        return "text" if line.startswith((b"http://", b"https://", b"www.")) else ""
    name = first[1].lower()
    if name in _KINDS:
        return _KINDS[name]
    # Some servers print warnings before the root element; a page about sitemaps is none.
    root = None if name in (b"html", b"head", b"body") else _ROOT.search(markup, first.end(), _HEAD)
    return _KINDS[root[2].lower()] if root else ""


def _in_sitemap(markup: bytes) -> Iterator[bytes]:
    """Yields the text of <loc>; or of its parent where somebody forgot it, or of a child where somebody added one.

    Only with the prefix of the root element: <image:loc> is no page.
    """
    prefix, start = _root(markup)
    opening = rb"<%b(?:loc|url|sitemap)(?:\s[^<>]*+)?>" % prefix
    text = re.compile(opening + rb"(?:\s*+<[\w:.-]++[^<>]*+>)?+([^<]*+)(?=<)", re.I)
    for match in text.finditer(markup, start):
        yield match[1]


def _in_rss(markup: bytes) -> Iterator[bytes]:
    """Yields per item the text of <link>, else of <guid>. RSS 1.0 has them in the default namespace, too."""
    links = [re.compile(rb"<%b(?:\s[^<>]*+)?>([^<]*+)(?=<)" % name, re.I) for name in (b"link", b"guid")]
    for item in _items(markup, b"", b"item"):
        texts = [match[1] for link in links if (match := link.search(item)) and match[1].strip()]
        yield texts[0] if texts else b""


def _in_atom(markup: bytes) -> Iterator[bytes]:
    """Yields per entry the first <link> to the page itself."""
    prefix, _ = _root(markup)
    link = re.compile(rb"<%blink(\s[^<>]*+)>" % prefix)
    for entry in _items(markup, prefix, b"entry"):
        target = b""
        for match in link.finditer(entry):
            values = {name: double or single for name, double, single in _ATTRIBUTE.findall(match[1])}
            if values.get(b"rel", b"alternate") == b"alternate" and b"href" in values:
                target = values[b"href"]
                break
        yield target


def _root(markup: bytes) -> tuple[bytes, int]:
    """Returns the root element's namespace prefix, as a pattern, and where its name ends."""
    root = _ROOT.search(markup, 0, _HEAD)
    return (re.escape(root[1] or b""), root.end(2)) if root else (b"", 0)


def _items(markup: bytes, prefix: bytes, name: bytes) -> Iterator[bytes]:
    opening = re.compile(rb"<%b%b(?=[\s>])" % (prefix, name), re.I)
    closing = re.compile(rb"</%b%b[\s>]" % (prefix, name), re.I)
    found = opening.search(markup)
    while found:
        following = opening.search(markup, found.end())
        stop = following.start() if following else len(markup)
        end = closing.search(markup, found.end(), stop)
        yield markup[found.end() : end.start() if end else stop]
        found = following


_FINDERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "urlset": _in_sitemap,
    "index": _in_sitemap,
    "rss": _in_rss,
    "atom": _in_atom,
    "text": lambda markup: (line[0] for line in _LINE.finditer(markup)),
}


def _target(raw: bytes, encoding: str, base: str) -> str | None:
    """Returns the URL in a piece of text. References to other entities than XML's own stay as they are written."""
    if len(raw) > _LONGEST_TEXT:
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = charset.decode(raw, encoding)
    if "&" in text:
        text = _ENTITY.sub(_character, text)
    text = text.strip().strip(_INVISIBLE).strip()
    if not _ABSOLUTE.match(text):
        return None  # the protocol wants absolute URLs; guessing more finds dates and titles
    if text[:4].lower() == "www.":
        text = "//" + text
    return resolve(text, base)


def _character(match: re.Match[str]) -> str:
    name = match[1]
    if name in _NAMED:
        return _NAMED[name]
    number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    return chr(number) if number < 0x110000 else "\ufffd"

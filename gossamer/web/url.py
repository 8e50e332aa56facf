"""This module parses, resolves and normalises URLs; all others handle their normal form as text.

The normal form is the WHATWG serialisation of an http(s) URL without fragment, user name and session id. It
is ASCII, has a path, and normalising it again changes nothing: the string is the page's identity.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, wraps
from pathlib import Path
from typing import TypeVar

import numpy as np
from publicsuffixlist import PSLFILE, PublicSuffixList
from url import URL, URLError
from xxhash import xxh3_64_intdigest

from gossamer.arrays import U64
from gossamer.config import Limits
from gossamer.web.guard import BAD_PORTS

T = TypeVar("T")

_KEY_BITS = 40
KEY_LOW = (1 << _KEY_BITS) - 1  # the part of a key that is the page's own; the rest is its host's

TRAPS = ("", "trap", "port", "length")  # what `trap` returns; links in columns have the position

# Session ids of servlet containers, PHP, phpBB and ASP.NET: the same page under countless names.
_SESSION_PATH = re.compile(
    r";jsessionid=[^/?;]*"
    r"|/\((?:[A-Z]\([0-9a-z_-]{20,}\))+\)(?=/)",
    re.IGNORECASE | re.ASCII,
)
_SESSION_PAIR = re.compile(r"(?:jsessionid|phpsessid)=.*|sid=[0-9a-f]{32,}", re.IGNORECASE | re.ASCII | re.DOTALL)

_FINAL_DOT = re.compile(r"^(https?://[^/?]*[^./?])\.(?=(?::\d+)?/)")
_TAB_OR_NEWLINE = dict.fromkeys(map(ord, "\t\n\r"))
_C0_OR_SPACE = "".join(map(chr, range(0x21)))
_SLASHES = re.compile(r"[/\\]{2}")
_AUTHORITY = re.compile(r"^(https?:[/\\]+(?:[^/\\?#]*@)?)([^/\\?#]*)", re.IGNORECASE)
_PUNYCODE = re.compile(r"(?<![^.])xn--", re.IGNORECASE)

_MEMO_NAME = 300  # no host name that can be looked up is longer
_LONGEST_LABEL = 64  # one more than DNS allows


def whatwg(href: str, base: str | None = None) -> str | None:
    """Returns what the WHATWG URL parser makes of a reference, serialised; None where it fails."""
    try:
        found = str(URL.parse(href) if base is None else _parsed(base).join(href))
    except (URLError, UnicodeEncodeError):
        return _whatwg_odd(href, base)
    return _without_carets(found) if "^" in found else found


def normalise(url: str) -> str | None:
    return _normal(whatwg(url))


def resolve(href: str, base: str) -> str | None:
    """Returns the normal form of a reference found on the page at `base`; None if it does not lead to a web page."""
    return _normal(whatwg(href, base))


def resolve_all(hrefs: Iterable[str], base: str) -> list[str]:
    """Returns the distinct normal forms of references, in order of first appearance; what leads nowhere is left out."""
    found = dict.fromkeys(resolve(href, base) for href in hrefs)
    found.pop(None, None)
    return list(found)  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _parsed(base: str) -> URL:
    return URL.parse(base)


def _whatwg_odd(href: str, base: str | None) -> str | None:
    """Parses what the standard accepts and the library does not.

    That is lone surrogates; more than two slashes before a host; ASCII host names whose xn-- labels are not valid
    Punycode: such hosts exist, and since June 2026 the standard lets them pass. They are parsed with another
    prefix in place of xn--.
    """
    href = href.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    href = href.strip(_C0_OR_SPACE).translate(_TAB_OR_NEWLINE)
    if base is not None and base.startswith("http") and _SLASHES.match(href):
        href = base[: base.index(":")] + "://" + href.lstrip("/\\")
    both = (href + (base or "")).lower()
    prefix = next(p for p in (f"x{n}--" for n in range(len(both) + 1)) if p not in both)
    href = _AUTHORITY.sub(lambda match: _hide(match, prefix), href, count=1)
    try:
        if base is None:
            found = URL.parse(href)
        else:
            found = URL.parse(_AUTHORITY.sub(lambda match: _hide(match, prefix), base, count=1)).join(href)
    except (URLError, UnicodeEncodeError):
        return None
    host = found.host_str or ""
    if prefix in host and _PUNYCODE.search(host):
        return None  # the name was not ASCII after all, but percent-encoded: then no label may be wrong
    return _without_carets(str(found).replace(prefix, "xn--"))


def _without_carets(url: str) -> str:
    """Returns a URL with the `^` of its path percent-encoded: the standard wants it since 2025, the library does
    not."""
    end = re.search(r"[?#]|\Z", url).start()  # type: ignore[union-attr]  # every text has an end
    is_opaque = url[url.index(":") + 1 : end][:1] != "/"  # as of mailto:
    return url if is_opaque else url[:end].replace("^", "%5E") + url[end:]


def earlier_form(url: str) -> str:
    """Returns the normal form that a page has in crawls from before `^` was percent-encoded."""
    path, mark, query = url.partition("?")
    return path.replace("%5E", "^") + mark + query


def _hide(match: re.Match[str], prefix: str) -> str:
    return match[1] + (_PUNYCODE.sub(prefix, match[2]) if match[2].isascii() else match[2])


def _normal(url: str | None) -> str | None:
    if url is None or not url.startswith(("http://", "https://")):
        return None
    fragment = url.find("#")
    if fragment >= 0:
        url = url[:fragment]
    if "@" in url:
        path = url.index("/", 8)
        user = url.rfind("@", 0, path)
        if user >= 0:
            url = url[: url.index("//") + 2] + url[user + 1 :]
    if "./" in url or ".:" in url:  # a name and the same name with its final dot are one host
        url = _FINAL_DOT.sub(r"\1", url, 1)
    if "?" in url or ";" in url or "/(" in url:
        return _without_session(url)
    return url


def _without_session(url: str) -> str:
    path, mark, query = url.partition("?")
    shorter = _SESSION_PATH.sub("", path) if ";" in path or "/(" in path else path
    if mark and ("sid=" in query.lower() or "sessionid=" in query.lower()):
        pairs = [pair for pair in query.split("&") if not _SESSION_PAIR.fullmatch(pair)]
        if len(pairs) <= query.count("&"):
            query = "&".join(pairs)
            mark = "?" if query else ""
    if shorter == path:
        return path + mark + query
    # What is left of a segment may be "..": only the parser's result is in normal form.
    return _normal(whatwg(shorter + mark + query)) or url


def origin_of(url: str) -> str:
    return url[: url.index("/", 8)]


def host_of(url: str) -> str:
    authority = url[url.index("//") + 2 : url.index("/", 8)]
    colon = authority.rfind(":")
    return authority[:colon] if colon >= 0 and not authority.endswith("]") else authority


def path_of(url: str) -> str:
    """Returns path and query: what robots rules match."""
    return url[url.index("/", 8) :]


def is_dynamic(url: str) -> bool:
    return "?" in url


def host_key(name: str) -> int:
    return xxh3_64_intdigest(name.encode()) >> _KEY_BITS


def page_key(url: str) -> int:
    return host_part(url[: url.index("/", 8)]) | (xxh3_64_intdigest(url.encode()) & KEY_LOW) or 1


def page_keys(urls: Sequence[str]) -> U64:
    keys = np.fromiter(map(xxh3_64_intdigest, map(str.encode, urls)), np.uint64, len(urls))
    keys &= np.uint64(KEY_LOW)
    keys |= np.fromiter([host_part(url[: url.index("/", 8)]) for url in urls], np.uint64, len(urls))
    keys[keys == 0] = 1  # zero means "no page"
    return keys


def _of_names(function: Callable[[str], T]) -> Callable[[str], T]:
    """Caches answers, but not those to names that fill the memory and lead nowhere."""
    remembered = lru_cache(maxsize=65_536)(function)
    return wraps(function)(lambda name: remembered(name) if len(name) <= _MEMO_NAME else function(name))


@_of_names
def host_part(origin: str) -> int:
    """Returns the part of a page's key that all pages of its host have."""
    return host_key(host_of(origin + "/")) << _KEY_BITS


@lru_cache(maxsize=1)
def _list() -> str:
    return Path(PSLFILE).read_text("utf-8")


def _rules(top: str) -> list[str]:
    """Returns the rules of the public suffix list with this last label, as they are written. A crawl sees few of all
    the labels there are, so nothing is made of the other rules."""
    begins = (before.rpartition("\n")[2] for before in _list().split(f"{top}\n")[:-1]) if top else ()
    return [begin + top for begin in begins if not begin or (begin.endswith(".") and not begin.startswith("//"))]


@lru_cache(maxsize=2_048)
def _suffixes(top: str) -> PublicSuffixList:
    """Returns the rules for names that end in this label: to parse all of them takes a tenth of a second."""
    try:
        written = top.encode().decode("idna") if top.startswith("xn--") else top
    except UnicodeError:
        written = top
    rules = _rules(written)
    # To write rules in ASCII takes most of the time, and nearly all are written so.
    return PublicSuffixList(rules, accept_encoded_idn=not all(map(str.isascii, rules)))


@_of_names
def domain_of(host: str) -> str:
    """Returns the registrable domain; the host itself for addresses and for names that are a public suffix."""
    if host[-1:] == "]" or host[-1:].isdigit():  # a name that ends in a number is an IPv4 address
        return host
    name = host.rstrip(".")
    top = name.rpartition(".")[2][:_LONGEST_LABEL]
    return _suffixes(top).privatesuffix(name) or host


def deepest(url: str, limits: Limits) -> int:
    """Returns how many links from a seed a URL may be."""
    return min(limits.depth, limits.depth_dynamic) if is_dynamic(url) else limits.depth


def trap(url: str, limits: Limits) -> str:
    """Returns why we do not follow a URL: "length", "trap" or "port"; "" if we do."""
    if len(url) > limits.url_bytes:
        return "length"
    start = url.index("/", 8)
    colon = url.rfind(":", 8, start)
    if colon >= 0 and url[start - 1] != "]" and int(url[colon + 1 : start]) in BAD_PORTS:
        return "port"
    end = url.find("?", start)
    slashes = url.count("/", start) if end < 0 else url.count("/", start, end)
    if slashes > limits.path_segments:
        return "trap"
    if slashes > limits.path_repeats + 1:
        segments = url[start + 1 : end if end >= 0 else None].split("/")
        if max(Counter(segments).values()) > limits.path_repeats + 1:
            return "trap"
    return ""

"""`Cookies` keeps what servers set and sends it back (RFC 6265). Python's http.cookiejar decides which goes where.

Each registrable domain has a jar of its own. So a cookie for a whole public suffix reaches nobody else, a request looks
only at the cookies of its own website, and a domain is what fills up, is evicted and is committed.

Cookies from the user's file are secrets: they are read from there in every run, and are never committed.
"""

import contextlib
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Set
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any
from urllib.request import Request as UrlRequest

from gossamer.config import Config
from gossamer.errors import ConfigError
from gossamer.fetch.request import Request
from gossamer.web.http import Headers
from gossamer.web.url import domain_of

Kept = dict[str, tuple[str]]  # by registrable domain: its cookies as JSON, in the only column that a row has

_MOST_DOMAINS = 10_000  # the one not used for longest makes way
_MOST_BYTES = 8 << 10  # of one domain's cookies: servers refuse longer header fields
_MOST_COOKIES = 50  # of one domain, and of one answer: RFC 6265 section 6.1
_LONGEST = 4096  # the same section
_LONGEST_PATH = 1024  # longer ones are no paths, but ballast
_HTTP_ONLY = "#HttpOnly_"
_COLUMNS = 7  # of a line in Netscape's format
_LOCAL = ".local"  # what http.cookiejar adds to names without a dot
# A field, and the name of its cookie; the value is what follows, over folded lines, to a semicolon or the field's end.
_SET_COOKIE = re.compile(
    rb"^(set-cookie2?[ \t]*:[ \t]*(?:[^=;\r\n]*=)?)(?:[^;\n]|\n[ \t])*?(?=;|\r?\n(?![ \t])|\Z)",
    re.IGNORECASE | re.MULTILINE,
)
_SAVED = ("name", "value", "domain", "domain_specified", "path", "secure", "expires")


class _Policy(DefaultCookiePolicy):
    """`_Policy` takes no cookie that is too long, that http:// may not set, or that belongs to others."""

    jar: CookieJar

    def __init__(self) -> None:
        super().__init__(strict_ns_domain=DefaultCookiePolicy.DomainStrictNonDomain)

    def set_ok(self, cookie: Cookie, request: Any) -> bool:
        text = f"{cookie.name}={cookie.value or ''}"
        if len(text) > _LONGEST or len(cookie.path) > _LONGEST_PATH or not text.isprintable():
            return False
        if request.type != "https" and (cookie.secure or self._is_secured(cookie)):
            return False
        if cookie.domain_specified and len(cookie.domain.lstrip(".")) < len(domain_of(request.host.partition(":")[0])):
            return False  # a public suffix
        return super().set_ok(cookie, request)

    def _is_secured(self, cookie: Cookie) -> bool:
        """Returns whether https:// has set a cookie of this name that http:// may not replace."""
        return any(
            each.secure and each.name == cookie.name and each.domain.lstrip(".") == cookie.domain.lstrip(".")
            for each in self.jar
        )


class _Answer:
    """`_Answer` is a response as http.cookiejar wants it."""

    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def info(self) -> "_Answer":
        return self

    def get_all(self, name: str, default: list[str]) -> list[str]:
        return self._headers.get_all(name.lower())[:_MOST_COOKIES] or default


class Cookies:
    """`Cookies` belongs to the fetching thread once that runs. `learns`: what servers set is kept and sent back.
    `with_values`: heads of answers are stored with the values of cookies."""

    def __init__(self, learns: bool, with_values: bool = False) -> None:
        self._learns, self._with_values = learns, with_values
        self._jars: OrderedDict[str, CookieJar] = OrderedDict()
        self._changed: set[str] = set()
        self._kept: Kept = {}
        self._secrets: dict[str, set[str | None]] = {}  # values in the user's file, by domain: these are never evicted

    def give(self, cookies: Iterable[Cookie], are_secret: bool) -> None:
        """Adds cookies that no server has just set."""
        for cookie in cookies:
            domain = domain_of(cookie.domain.lstrip(".").removesuffix(_LOCAL))
            self._jar(domain).set_cookie(cookie)
            self._changed.add(domain)
            if are_secret:
                self._secrets.setdefault(domain, set()).add(cookie.value)

    def of(self, request: Request) -> str:
        """Returns the value of the Cookie field; empty: none is sent."""
        domain = domain_of(request.host)
        jar = self._jars.get(domain)
        if jar is None:
            return ""
        self._jars.move_to_end(domain)
        try:
            url = UrlRequest(request.url)
            jar.add_cookie_header(url)
        except ValueError:  # Python's idea of a URL is narrower than the URL standard's
            return ""
        return url.get_header("Cookie") or ""

    def take(self, request: Request, head: bytes) -> bytes:
        """Takes the cookies that an answer sets. Returns its head as it may be stored."""
        if not _SET_COOKIE.search(head):
            return head
        if self._learns:
            with contextlib.suppress(ValueError):  # of a URL that Python does not understand
                self._learn(request, Headers(head))
        return head if self._with_values else _SET_COOKIE.sub(rb"\1(not stored)", head)

    def _learn(self, request: Request, headers: Headers) -> None:
        domain = domain_of(request.host)
        jar = self._jar(domain)
        jar.extract_cookies(_Answer(headers), UrlRequest(request.url))  # type: ignore[arg-type]
        _shorten(jar, self._secrets.get(domain, set()))
        self._changed.add(domain)
        if not len(jar):
            del self._jars[domain]
        while len(self._jars) > _MOST_DOMAINS + len(self._secrets):
            oldest = next(name for name in self._jars if name not in self._secrets)
            del self._jars[oldest]
            self._changed.add(oldest)

    def kept(self) -> Kept:
        """Returns what is to be committed: what servers have set, without what is in the user's file."""
        if self._learns:
            for domain in self._changed:
                self._kept.pop(domain, None)
                if text := self._text(domain):
                    self._kept[domain] = (text,)
        self._changed.clear()
        return dict(self._kept)

    def _text(self, domain: str) -> str:
        secrets = self._secrets.get(domain, set())
        return _packed(cookie for cookie in self._jars.get(domain, ()) if cookie.value not in secrets)

    def _jar(self, domain: str) -> CookieJar:
        if domain not in self._jars:
            policy = _Policy()
            policy.jar = self._jars[domain] = CookieJar(policy)
        return self._jars[domain]


def open_cookies(config: Config, kept: Kept, committed_s: float) -> Cookies:
    """Returns the cookies of a crawl: those of the user's file, and those that were committed, the later ones on top.

    What servers set since the file was read is newer than the file, unless somebody has written it since."""
    fetch = config.fetch
    found = Cookies(fetch.cookies, config.archive.secrets)
    committed = [cookie for row in kept.values() for cookie in _saved(row[0])] if fetch.cookies else []
    if not fetch.cookies_file:
        found.give(committed, False)
        return found
    own = read_file(fetch.cookies_file)
    is_newer = Path(fetch.cookies_file).expanduser().stat().st_mtime > committed_s
    for cookies, are_secret in ((committed, False), (own, True)) if is_newer else ((own, True), (committed, False)):
        found.give(cookies, are_secret)
    return found


def joined(ours: str, theirs: str) -> str:
    """Returns the kept cookies of a website that two agents had; of two that are the same cookie, ours."""
    found = {(each.domain, each.path, each.name): each for text in (theirs, ours) for each in _saved(text)}
    return _packed([*found.values()][-_MOST_COOKIES:])


def read_file(name: str) -> list[Cookie]:
    """Reads a file in Netscape's format, as browsers and curl write it. No message quotes what is in it."""
    path = Path(name).expanduser()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigError(f"fetch.cookies_file is {path}, which cannot be read: {why}") from None
    return list(_cookies(path, lines))


def _packed(cookies: Iterable[Cookie]) -> str:
    saved = [[getattr(cookie, name) for name in _SAVED] for cookie in cookies]
    return json.dumps(saved, separators=(",", ":")) if saved else ""


def _saved(text: str) -> Iterator[Cookie]:
    for values in json.loads(text):
        yield _cookie(**dict(zip(_SAVED, values, strict=True)))


def _cookie(
    name: str, value: str | None, domain: str, domain_specified: bool, path: str, secure: bool, expires: int | None
) -> Cookie:
    dotted = domain.startswith(".")
    return Cookie(
        0, name, value, None, False, domain, domain_specified, dotted, path, True, secure, expires, expires is None,
        None, None, {},
    )  # fmt: skip


def _cookies(path: Path, lines: Iterable[str]) -> Iterator[Cookie]:
    for number, line in enumerate(lines, 1):
        line = line.removeprefix(_HTTP_ONLY)
        if line.strip() and not line.startswith("#"):
            try:
                yield _parsed(line.split("\t"))
            except ValueError:
                raise ConfigError(
                    f"line {number} of {path} is no cookie in Netscape's format: it must have {_COLUMNS} columns, with "
                    "tabs between them: domain, TRUE or FALSE, path, TRUE or FALSE, expiry, name, value"
                ) from None


def _parsed(columns: list[str]) -> Cookie:
    domain, with_hosts_below, path, secure, expires_s, name, *value = columns
    if len(value) > 1 or not domain.strip(".") or not name or not all(map(str.isprintable, (name, *value))):
        raise ValueError("no cookie")
    domain = domain.lower()
    domain += _LOCAL * ("." not in domain)
    if with_hosts_below.upper() == "TRUE" and not domain.startswith("."):
        domain = f".{domain}"
    until_s = int(float(expires_s)) if expires_s else 0  # 0: as long as the session, which is the crawl
    is_wide = domain.startswith(".")
    return _cookie(
        name, value[0] if value else "", domain, is_wide, path or "/", secure.upper() == "TRUE", until_s or None
    )


def _shorten(jar: CookieJar, secrets: Set[str | None]) -> None:
    """Drops the oldest cookies if they are too many or take too much space; the user's own stay."""
    cookies = [cookie for cookie in jar if cookie.value not in secrets]
    size, count = sum(map(_size, cookies)), len(cookies)
    for cookie in cookies:
        if size <= _MOST_BYTES and count <= _MOST_COOKIES:
            return
        size, count = size - _size(cookie), count - 1
        jar.clear(cookie.domain, cookie.path, cookie.name)


def _size(cookie: Cookie) -> int:
    return len(cookie.name) + len(cookie.value or "") + len(cookie.path) + 3

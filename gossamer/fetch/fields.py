"""`Fields` decides which header fields a request has: ours, those of the configuration, and a host's credentials.

Only this module and libcurl know credentials. What else sees a request, the archive above all, sees `Head.stored`.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gossamer.clocks import Clock, RealClock
from gossamer.config import Config
from gossamer.config.host_overrides import of_host
from gossamer.config.secrets import auth_of, is_reference, read_secret
from gossamer.errors import ConfigError
from gossamer.fetch.request import Request, port_of
from gossamer.web.posts import body_of

if TYPE_CHECKING:  # http.cookiejar, cryptography: whoever needs none of them need not wait for it
    from gossamer.fetch.cookies import Cookies
    from gossamer.fetch.identity import Signer

_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_NOT_STORED = "(not stored)"
# libcurl sends Connection last, wherever it is given.
_LAST: dict[bool, list[bytes]] = {True: [], False: [b"Connection: close"]}


class Head(NamedTuple):
    """`Head` has the header fields of a request; libcurl adds only the request line and Host, before them."""

    lines: list[bytes]
    sent: bytes  # the same as text
    stored: bytes  # as the archive may have it


class _Field(NamedTuple):
    """`_Field` is one field of all requests to some hosts."""

    name: str
    value: str
    is_secret: bool = False


class _Constant:
    """`_Constant` has the fields of all requests to some hosts."""

    def __init__(self, fields: Iterable[_Field], with_secrets: bool) -> None:
        by_name = {field.name.lower(): field for field in fields}  # a later one takes the place of an earlier one
        self._lines = [_line(field.name, field.value) for field in by_name.values()]
        self._hides = hides = not with_secrets
        self._stored = [
            _line(field.name, _NOT_STORED if hides and field.is_secret else field.value) for field in by_name.values()
        ]
        self.heads = {reuse: self._head([], "", reuse) for reuse in _LAST}

    def head(self, more: list[bytes], cookie: str, reuse: bool) -> Head:
        """Returns the same object for all requests with no more fields, so that a handle sees that nothing changed."""
        return self._head(more, cookie, reuse) if more or cookie else self.heads[reuse]

    def _head(self, more: list[bytes], cookie: str, reuse: bool) -> Head:
        lines, stored = self._lines + more, self._stored + more
        if cookie:
            lines.append(b"Cookie: " + _octets(cookie))
            stored.append(_line("Cookie", _NOT_STORED) if self._hides else lines[-1])
        lines += _LAST[reuse]
        return Head(lines, _text(lines), _text(stored + _LAST[reuse]))


class _Own(NamedTuple):
    """`_Own` has the fields of one host, with its secrets and without them, and who gets the secrets."""

    with_secrets: _Constant
    without: _Constant
    in_cleartext: bool
    ports: frozenset[int]

    def of(self, request: Request) -> _Constant:
        return self.without if self.withheld(request) else self.with_secrets

    def withheld(self, request: Request) -> str:
        """Returns why a request gets no secrets; empty: it gets them. A host may have other people's ports."""
        if not self.in_cleartext and not request.url.startswith("https:"):
            return 'by https only; [host."..."] cleartext = true allows http'
        if (port := port_of(request)) not in self.ports:
            return f'to ports 80 and 443 only; [host."..."] ports = [{port}] allows this one'
        return ""


class Fields:
    """`Fields` has the header fields of all requests."""

    def __init__(self, config: Config, cookies: "Cookies | None" = None, clock: Clock | None = None) -> None:
        """Reads the secrets that the configuration refers to; a mistake there is an error."""
        for_all = [
            _Field("User-Agent", config.user_agent),
            _Field("Accept", _ACCEPT),
            _Field("Accept-Encoding", "gzip, deflate, br, zstd"),
        ]
        for_all += [_Field(name, value) for name, value in config.fetch.headers.items()]
        self._cookies = cookies
        with_secrets = config.archive.secrets
        self._for_all = _Constant(for_all, with_secrets)
        self._by_host: dict[str, _Own] = {}
        self._with_secrets: dict[str, bool] = {}
        for host, given in config.host.items():
            own = _own(host, given)
            if own:
                open_ = [field for field in own if not field.is_secret]
                self._by_host[host] = _Own(
                    _Constant(for_all + own, with_secrets),
                    _Constant(for_all + open_, with_secrets),
                    bool(given.get("cleartext")),
                    frozenset((80, 443, *given.get("ports", ()))),
                )
                self._with_secrets[host] = own != open_
        self._signer = _signer(config, clock or RealClock()) if config.fetch.identity else None
        self._are_alike = not (self._by_host or cookies or self._signer)  # what most crawls send

    def of(self, request: Request, reuse: bool) -> Head:
        if self._are_alike and not (request.etag or request.last_modified or request.post):
            return self._for_all.heads[reuse]
        constant = self._for_all
        # A redirect is a request of its own: its host decides what it gets.
        if self._by_host and (own := of_host(self._by_host, request.host)):
            constant = own.of(request)
        cookie = self._cookies.of(request) if self._cookies else ""
        more = _conditions(request) if request.is_conditional else _framing(request.post) if request.post else []
        if self._signer:
            more = more + self._signer.lines(request.url)
        return constant.head(more, cookie, reuse)

    def remark(self, request: Request) -> str:
        """Returns why a request may have been answered with 401, if that is our doing."""
        own = of_host(self._by_host, request.host) if of_host(self._with_secrets, request.host) else None
        why = own.withheld(request) if own else ""
        return f"credentials of {request.host} are sent {why}" if why else ""


def _signer(config: Config, clock: Clock) -> "Signer":
    from gossamer.fetch.identity import Signer

    return Signer(config.fetch.identity, config.fetch.identity_form, clock)


def _own(host: str, given: Mapping[str, Any]) -> list[_Field]:
    """Returns the fields that only this host gets, with its secrets."""
    name = f'host."{host}"'
    found = []
    for field, value in given.get("headers", {}).items():
        is_secret = is_reference(value)
        found.append(_Field(field, read_secret(f"{name}.headers", value) if is_secret else value, is_secret))
    if auth := given.get("auth"):
        found.append(_Field("Authorization", _credentials(f"{name}.auth", *auth_of(auth)), True))
    return found


def _credentials(name: str, scheme: str, reference: str) -> str:
    secret = read_secret(name, reference)
    if scheme == "bearer":
        return f"Bearer {secret}"
    if ":" not in secret:
        raise ConfigError(f"{name}: what {reference} has must be user:password, with a colon between them")
    return f"Basic {b64encode(secret.encode()).decode()}"


def _conditions(request: Request) -> list[bytes]:
    conditions = (("If-None-Match", request.etag), ("If-Modified-Since", request.last_modified))
    lines = [f"{name}: {value}" for name, value in conditions if value and value.isprintable()]
    return [line.encode("latin-1", "replace") for line in lines]


def _framing(post: str) -> list[bytes]:
    kind, body = body_of(post)
    return [_line("Content-Type", kind), _line("Content-Length", str(len(body)))]


def _line(name: str, value: str) -> bytes:
    return f"{name}: {value}".encode()


def _octets(cookie: str) -> bytes:
    """Returns a cookie's text as it came: from a server as octets, from a file perhaps beyond them."""
    try:
        return cookie.encode("latin-1")
    except UnicodeEncodeError:
        return cookie.encode()


def _text(lines: list[bytes]) -> bytes:
    return b"".join([line + b"\r\n" for line in lines])

"""`RemoteSite` is the archive of a site on another machine, read through that site's server into this machine's cache.

Nothing that the site sends is trusted: names must be those of its own agents' files, sizes and checksums must be those
that its manifests promise, and the bytes of a command are limited (`Allowance`). A site that does not answer in time is
a SiteError; whoever reads several goes on without it.
"""

import contextlib
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xxhash import xxh3_64_hexdigest

from gossamer.archive.cache import Cache
from gossamer.archive.chain import snapshots
from gossamer.archive.checksums import Checksum
from gossamer.archive.manifest import Snapshot
from gossamer.archive.mark import MARK, decode_mark, judged
from gossamer.archive.reading import Reading
from gossamer.archive.store import checked
from gossamer.archive.views import KINDS
from gossamer.cluster.federation_file import Federation
from gossamer.cluster.keys import OPERATOR, address, any_of, is_operator
from gossamer.cluster.nats_connection import Unreachable, Wire
from gossamer.cluster.nats_server import why_refused
from gossamer.cluster.protocol import decode, encode
from gossamer.cluster.site_service import (
    FILES,
    MANIFEST_BYTES,
    Adopt,
    HandOver,
    NewCertificate,
    NewList,
    Request,
    Taken,
    check_own,
    is_served,
    pieces,
)
from gossamer.config.folders import Address, cache_folder
from gossamer.errors import ConfigError, RemoteLimit, SiteError

_AT_ONCE = 4  # files that are fetched at the same time
_TRIES = 5  # the site may merge its files while we look
_MANY = 100_000  # manifests of one site, at most


class Refused(SiteError):
    """A site has answered an order, and does not carry it out."""


class Allowance:
    """`Allowance` is how many bytes one command may fetch from sites on other machines."""

    def __init__(self, megabytes: float, file: str) -> None:
        self._left, self._megabytes, self._file = int(megabytes * 1e6), megabytes, file
        self._lock = threading.Lock()

    def take(self, site: str, size: int) -> None:
        with self._lock:
            if size > self._left:
                raise RemoteLimit(
                    f"site {site} would have to send {size / 1e6:,.1f} MB more, and of federation.remote_mb = "
                    f"{self._megabytes:,g} only {self._left / 1e6:,.1f} MB are left: raise it in {self._file}, or ask "
                    "where the site's archive is"
                )
            self._left -= size


class Connections:
    """`Connections` has one connection to each remote site of a federation that somebody asks for."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self._wires: dict[str, Wire] = {}
        self._locks = {site: threading.Lock() for site in federation.sites}

    def to(self, site: str) -> Wire:
        """Returns a connection that is up; a site that cannot be reached in time is a SiteError that says why."""
        with self._locks[site]:
            return self._up(site)

    def _up(self, site: str) -> Wire:
        if site in self._wires and self._wires[site].is_up:
            return self._wires[site]
        federation, timeout_s = self._federation, self._federation.shared.remote_s
        where = federation.sites[site].address
        at = address(self._files, site, where)
        if why := why_refused(at, timeout_s):
            raise SiteError(f"its server at {where} {why}")
        if site not in self._wires:
            self._wires[site] = Wire(at)
        wire = self._wires[site]
        if not wire.wait_up(timeout_s):
            raise SiteError(f"its server at {where} does not answer within {timeout_s:g} s")
        return wire

    @property
    def _files(self) -> dict[str, str]:
        return any_of(self._federation.keys, list(self._federation.sites))

    def ask(self, site: str, subject: str, data: bytes) -> bytes:
        """Asks a site, in the name that our certificate has."""
        timeout_s, subject = self._federation.shared.remote_s, f"{subject}.{Path(self._files['cert']).stem}"
        try:
            return self.to(site).call(lambda link: link.ask(subject, data, timeout_s), timeout_s)
        except Unreachable:
            where = self._federation.sites[site].address
            raise SiteError(
                f"its server at {where} is there, but the site does not answer within {timeout_s:g} s: is it running, "
                f"or served (`gossamer site serve --name {site}`)?"
            ) from None

    def order(self, site: str, subject: str, what: HandOver | NewList | NewCertificate | Adopt) -> Taken:
        """Gives a site an order. One that it does not carry out is a SiteError, which says why."""
        if not is_operator(self._federation.keys):
            raise ConfigError(
                f"only the operator gives orders to sites on other machines: bring {OPERATOR}.pem and {OPERATOR}.key "
                f"to {self._federation.keys}, from where `gossamer federation keys` made them"
            )
        taken = decode(Taken, self.ask(site, subject, encode(what)))
        if taken.refused:
            raise Refused(f"site {site} refuses the order: {taken.refused}")
        return taken

    def close(self) -> None:
        """Lets all connections go. It waits for none: nothing that matters is under way."""
        for wire in self._wires.values():
            wire.let_go()
        self._wires = {}


class RemoteSite:
    """`RemoteSite` is the part of a Store that readers need. Threads may share it."""

    def __init__(self, federation: Federation, site: str, connections: Connections, allowance: Allowance) -> None:
        self.path = Address(f"site://{site}")
        self._site, self._connections, self._allowance = site, connections, allowance
        of = xxh3_64_hexdigest(f"{federation.path}\n{federation.sites[site].address}".encode())[:8]
        self._cache = Cache(cache_folder() / f"site-{site}-{of}", federation.config.archive.cache_mb << 20)
        self._listed: list[str] | None = None
        self._sums: dict[str, Checksum] = {}
        self._named: set[str] = set()
        self._pinned: set[str] = set()

    def read(self) -> Reading:
        """Returns what the site has committed, with all tables in the cache."""
        mark = self.get(MARK)
        judged(decode_mark(mark), f"site {self._site}", read_only=True)
        self._cache.belong(mark)
        for _ in range(_TRIES):
            found = self.snapshots()
            try:
                self.fetch([name for at in found.values() for kind in KINDS for name in at.files.get(kind, [])])
                return Reading(self.path, found, stores={self.path: self})
            except FileNotFoundError:  # merged since
                self._listed = None
        raise SiteError("its files keep vanishing; is something else deleting them there?")

    def snapshots(self) -> dict[str, Snapshot]:
        found = snapshots(self)  # type: ignore[arg-type]
        for agent, at in found.items():
            check_own(self._site, agent, at)
        self._sums = {name: known for at in found.values() for name, known in at.sums.items()}
        self._named = {name for at in found.values() for name in at.names()}
        return found

    # Part of a Store

    def list(self, prefix: str) -> list[str]:
        """Returns manifests; or files that the newest ones name now."""
        if not prefix.startswith("manifest/"):
            self._listed = None
            return sorted(name for at in self.snapshots().values() for name in at.names() if name.startswith(prefix))
        if self._listed is None:
            answer = self._ask(Request())
            listed = [name for names in decode(dict[str, list[str]], answer or b"{}").values() for name in names]
            if len(listed) > _MANY or not all(map(is_served, listed)):
                raise SiteError("it shows manifests with names that are none, or too many")
            self._listed = sorted(listed)
        return [name for name in self._listed if name.startswith(prefix)]

    def get(self, name: str) -> bytes:
        try:
            return b"".join(pieces(checked(name), self._ask, MANIFEST_BYTES))
        except FileNotFoundError:
            self._listed = None
            raise

    def local(self, name: str) -> Path:
        found = self._find(name) or self._fetched(name, is_paid=False)
        self._pinned.add(name)
        return found

    def fetch(self, names: Iterable[str]) -> None:
        """Brings files into the cache, several at a time, if the allowance is enough for all of them."""
        names = list(names)
        missing = [name for name in names if not self._find(name)]
        self._allowance.take(self._site, sum(self._sums[name].size for name in missing if name in self._sums))
        self._pinned.update(names)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for each in [pool.submit(self._fetched, name, is_paid=name in self._sums) for name in missing]:
                each.result()

    def size(self, name: str) -> int:
        if name in self._sums:
            return self._sums[name].size
        return int.from_bytes(self._ask(Request(name=name))[:8], "big")

    def is_evicted(self) -> bool:
        return any(self._cache.find(name) is None for name in self._pinned)

    def _find(self, name: str) -> Path | None:
        found = self._cache.find(checked(name))
        with contextlib.suppress(FileNotFoundError):
            if found is not None and name in self._sums and found.stat().st_size != self._sums[name].size:
                self._cache.drop(name)
                return None
        return found

    def _fetched(self, name: str, is_paid: bool) -> Path:
        if name not in self._named:
            raise FileNotFoundError(name)
        known = self._sums.get(name)
        if not is_paid:
            self._allowance.take(self._site, known.size if known else self.size(name))
        most = known.size if known else self.size(name)
        return self._cache.enter(name, pieces(name, self._ask, most, known), self._pinned)

    def _ask(self, request: Request) -> bytes:
        return self._connections.ask(self._site, FILES, encode(request))

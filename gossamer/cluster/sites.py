"""`Sites` reads all sites of a federation as one archive."""

import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gossamer.archive.places import exists
from gossamer.archive.reading import Reading, joined, location_of
from gossamer.cluster.federation_file import Federation
from gossamer.cluster.remote_site import Allowance, Connections, RemoteSite
from gossamer.errors import GossamerError, RemoteLimit, SiteError, StoreError

_AT_ONCE = 16  # sites that are asked at the same time


class Sites:
    """`Sites` is all sites of a federation, read as one archive: those on this machine and in buckets by their files,
    the others through their servers. A site that cannot be read is left out; `lacking` says why."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.lacking: dict[str, str] = {}
        self.connections = Connections(federation)
        self._allowance = Allowance(federation.shared.remote_mb, federation.path.name)
        self._first: Reading | None = None
        self._may_lack: set[str] = set()  # sites whose absence the user was informed of
        weakref.finalize(self, self.connections.close)

    def read(self) -> Reading:
        if self._first is not None:
            found, self._first = self._first, None
            return found
        self.lacking = {}
        parts: list[Reading] = []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            asked = {name: pool.submit(self._part, name) for name in self._to_be_read()}
        for name, answer in asked.items():
            try:
                parts.append(answer.result())
            except RemoteLimit:
                raise
            except (GossamerError, OSError) as error:
                self.lacking[name] = str(error)
        reasons = "".join(f"\n  {site}: {why}" for site, why in self.lacking.items())
        if not parts:
            raise SiteError(f"no site of {self} can be read:{reasons}")
        if not self.lacking.keys() <= self._may_lack:
            raise SiteError(f"not all sites of {self} can be read:{reasons}")
        return joined(self.federation.path, parts)

    def left_out(self) -> str:
        """Returns which sites the answer will lack, and why: all are asked for that, and the next `read` returns what
        they answered. Without this question, a site that is lacking is an error: no answer lacks one silently."""
        self._may_lack = {*self.federation.sites}
        self._first = self.read()
        self._may_lack = {*self.lacking}
        return f"without {'; '.join(f'{site}: {why}' for site, why in self.lacking.items())}" if self.lacking else ""

    def _to_be_read(self) -> list[str]:
        """Returns all sites but those that are gone, and left nothing here."""
        sites = self.federation.sites
        return [name for name, site in sites.items() if not site.gone or exists(self.federation.directory(name))]

    def _part(self, site: str) -> Reading:
        place = self.federation.directory(site)
        try:
            if exists(place):
                return location_of(place).read()
        except StoreError as error:
            return self._remote(site, f"{error}; and ")
        return self._remote(site, f"{place} holds no crawl, and " if isinstance(place, Path) else "")

    def _remote(self, site: str, why: str) -> Reading:
        """Reads a site through its server; `why` not by its files."""
        try:
            return RemoteSite(self.federation, site, self.connections, self._allowance).read()
        except RemoteLimit:
            raise
        except GossamerError as error:
            raise SiteError(f"{why}{error}") from None

    def __str__(self) -> str:
        return str(self.federation.path)

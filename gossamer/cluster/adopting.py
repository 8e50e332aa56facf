"""This module lets a lost site run again on the machine of whoever has the furthest replica of it, by the operator's
orders from anywhere."""

import time
from contextlib import closing
from datetime import datetime

from gossamer.cluster.changing import change, with_key
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.keys import authority, tls_name, write_private
from gossamer.cluster.remote_site import Connections, Refused
from gossamer.cluster.site_service import ADOPT, Adopt, Taken
from gossamer.errors import ConfigError, SiteError

_TRIES = 30  # a site that takes a new list up answers nobody for a moment
_PAUSE_S = 1.0


def adopt_elsewhere(federation: Federation, lost: str, port: int, now: datetime) -> str:
    """Returns the site that has adopted it, which listens at that port for it, too."""
    federation.check_site(lost)
    keys, path = federation.keys, federation.path
    signer = authority(keys, now, [lost])
    with closing(Connections(federation)) as connections:
        holder, found = _furthest(connections, federation, lost)
    here = federation.sites[holder]
    text = with_key(path.read_text("utf-8"), lost, "weight", "0.0")
    text = with_key(text, lost, "address", f'"{_host(here.address)}:{port}"')
    if here.listen or federation.sites[lost].listen:
        text = with_key(text, lost, "listen", f'"{_host(here.listen or here.address)}:{port}"')
    certificate = signer.sign(tls_name(lost), found.csr.encode(), now)
    changed = change(path, text, lost)
    if holder in changed.missing:
        raise SiteError(f"{holder}, which has the replica, has not got the new list: {changed.missing[holder]}")
    with closing(Connections(load(path))) as connections:
        for attempt in range(_TRIES):
            try:
                connections.order(holder, ADOPT, Adopt(site=lost, certificate=certificate.decode()))
                break
            except SiteError as error:
                if isinstance(error, Refused) or attempt == _TRIES - 1:
                    raise
                time.sleep(_PAUSE_S)
    write_private(keys / f"{lost}.pem", certificate)
    return holder


def _furthest(connections: Connections, federation: Federation, lost: str) -> tuple[str, Taken]:
    """Returns who has the furthest replica, and what it answered. All must answer: whoever does not may have it."""
    found: dict[str, Taken] = {}
    for name, site in federation.sites.items():
        if name != lost and not site.gone:
            found[name] = connections.order(name, ADOPT, Adopt(site=lost))
    best = max(found, key=lambda name: sum(found[name].commits.values()), default="")
    if not best or not found[best].commits:
        raise ConfigError(
            f"no site has a replica of {lost}: with `gossamer federation lose-site {federation.path.name} {lost}` the "
            "others share its hosts, and what only it had is lost"
        )
    return best, found[best]


def _host(address: str) -> str:
    return address.rpartition(":")[0]

"""This module has the keys by which sites authenticate: one authority, and one certificate for each site."""

import datetime
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.errors import ConfigError

if TYPE_CHECKING:
    from gossamer.cluster.certificates import Authority

_AUTHORITY = "authority"
OPERATOR = "operator"  # who may read all sites, and give them orders, and is none itself
RESERVED = (_AUTHORITY, OPERATOR)  # no site has such a name
_PADDING = 0x10  # SSL_OP_TLSEXT_PADDING: 218 bytes more in each greeting, for the sake of a firewall of 2013
_EARLY = datetime.timedelta(days=60)  # before its end a certificate is renewed
MISSING = "certificates are made with cryptography: pip install 'gossamer-crawler[federation]'"


def tls_name(site: str) -> str:
    """Returns a site's name in its certificate."""
    return f"{site}.gossamer.internal"


def address(files: Mapping[str, str], site: str, where: str) -> dict[str, str]:
    """Returns how a process with these files reaches the server of a site, which is at HOST:PORT."""
    return {"url": f"tls://{where}", "name": tls_name(site), **files}


def make_keys(folder: Path, sites: Sequence[str], now: datetime.datetime) -> list[str]:
    """Makes certificates for sites that have none, or whose own will soon end; the authority too, at first. Returns for
    whom they were made. A site keeps its key when its certificate is renewed: the key may be on its machine alone.

    NAME.pem, NAME.key and authority.pem go to another machine; authority.key stays where new sites are admitted.
    """
    missing = [site for site in sites if not _is_whole(folder / f"{site}.pem")]
    ending: list[str] = []
    if _is_whole(folder / f"{_AUTHORITY}.key"):
        ending = [site for site in sites if site not in missing and _ends(folder, site, now + _EARLY)]
    if len(missing) < len(sites) and not _is_whole(folder / f"{_AUTHORITY}.pem"):
        raise ConfigError(
            f"{folder / _AUTHORITY}.pem is missing, which signed the certificates there: bring it back, or remove the "
            "whole folder to make all of them anew"
        )
    if not missing and not ending:
        return []
    signer = authority(folder, now, missing)
    for site in missing:
        _write(folder, site, signer.issue(tls_name(site), now))
    for site in ending:
        path = folder / f"{site}.pem"
        write_private(path, signer.renew(path.read_bytes(), tls_name(site), now))
    return missing + ending


def authority(folder: Path, now: datetime.datetime, asking: Sequence[str]) -> "Authority":
    """Returns the authority, which is made if there is none. `asking`: who needs a certificate."""
    try:
        from gossamer.cluster.certificates import Authority
    except ModuleNotFoundError:
        raise ConfigError(MISSING) from None
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_whole(folder / f"{_AUTHORITY}.pem"):
        _write(folder, _AUTHORITY, Authority.new(now))
    try:
        return Authority.load(*((folder / f"{_AUTHORITY}.{kind}").read_bytes() for kind in ("pem", "key")))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{', '.join(asking)} cannot get a certificate here: {error.filename} is missing; run "
            "`gossamer federation keys` where it is, and bring NAME.pem, NAME.key and authority.pem here"
        ) from None


def own_request(folder: Path, site: str) -> bytes:
    """Returns a request for the certificate of a site that shall run here; its key is made here, if there is none."""
    from gossamer.cluster.certificates import load_key, new_key, private, request

    path = folder / f"{site}.key"
    if not _is_whole(path):
        write_private(path, private(new_key()))
    return request(load_key(path.read_bytes()), tls_name(site))


def take_certificate(folder: Path, site: str, certificate: bytes) -> None:
    """Takes a certificate that the authority made for the key that a site has. Another one is an error that says so."""
    from gossamer.cluster.certificates import check_issued, ends

    path = folder / f"{site}.pem"
    before = path.read_bytes() if _is_whole(path) else b""
    if certificate == before:
        return
    try:
        check_issued(
            certificate, authority_file(folder).read_bytes(), tls_name(site), path.with_suffix(".key").read_bytes()
        )
        if before and ends(certificate) < ends(before):
            raise ValueError("the certificate that is here ends later")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    write_private(path, certificate)


def authority_file(folder: Path) -> Path:
    return folder / f"{_AUTHORITY}.pem"


def check_valid(folder: Path, site: str, now: datetime.datetime) -> None:
    """Raises an error if the certificate of a site has ended: no other site would let it in."""
    if ended := _ends(folder, site, now):
        raise ConfigError(
            f"{folder / site}.pem was valid until {ended:%Y-%m-%d}, and no site lets it in any more: run `gossamer "
            f"federation keys` where {_AUTHORITY}.key is, and bring {site}.pem here"
        )


def _ends(folder: Path, site: str, before: datetime.datetime) -> datetime.datetime | None:
    """Returns when a certificate ends, if that is before this time."""
    try:
        from gossamer.cluster.certificates import ends

        ended = ends((folder / f"{site}.pem").read_bytes())
    except (ModuleNotFoundError, OSError, ValueError):  # whoever needs it says what is wrong
        return None
    return ended if ended < before else None


def _write(folder: Path, name: str, pair: tuple[bytes, bytes]) -> None:
    """Writes the key before the certificate: a certificate that is whole has its key."""
    certificate, key = pair
    write_private(folder / f"{name}.key", key)
    write_private(folder / f"{name}.pem", certificate)


def paths(folder: Path, site: str) -> dict[str, str]:
    """Returns the files of a site: its certificate, its key, and the authority's certificate."""
    found = {"cert": folder / f"{site}.pem", "key": folder / f"{site}.key", "authority": folder / f"{_AUTHORITY}.pem"}
    for path in found.values():
        if not path.exists():
            raise ConfigError(f"{path} is missing: `gossamer federation keys` makes it where the authority's key is")
    return {name: str(path) for name, path in found.items()}


def any_of(folder: Path, sites: Sequence[str]) -> dict[str, str]:
    """Returns the files by which this machine is let in at all sites: the operator's, or those of the first site that
    it has."""
    for site in (OPERATOR, *sites):
        if _is_whole(folder / f"{site}.pem") and _is_whole(folder / f"{site}.key"):
            return paths(folder, site)
    raise ConfigError(
        f"there is no certificate in {folder}: bring authority.pem, operator.pem and operator.key there, from where "
        "`gossamer federation keys` made them"
    )


def is_operator(folder: Path) -> bool:
    return all(_is_whole(folder / f"{OPERATOR}.{kind}") for kind in ("pem", "key"))


def context(files: Mapping[str, str]) -> ssl.SSLContext:
    """Returns the context for a connection to another site's server: both sides authenticate."""
    made = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=files["authority"])
    made.load_cert_chain(files["cert"], files["key"])
    made.options &= ~_PADDING
    return made


def _is_whole(path: Path) -> bool:
    """Returns whether a file is whole: an empty one is what a crash left."""
    return path.exists() and path.stat().st_size > 0


def write_private(path: Path, data: bytes) -> None:
    """Writes a file that is never readable by others, not for a moment, and appears when it is whole."""
    scratch = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)

"""This module makes the keys by which sites authenticate: one authority, and one certificate for each site."""

import datetime
import ipaddress
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gossamer.errors import ConfigError

_DAYS = 3650
_AUTHORITY = "authority"


def tls_name(site: str) -> str:
    """Returns a site's name in its certificate."""
    return f"{site}.gossamer.internal"


def address(files: Mapping[str, str], site: str, where: str) -> dict[str, str]:
    """Returns how a process with these files reaches the server of a site, which is at HOST:PORT."""
    return {"url": f"tls://{where}", "name": tls_name(site), **files}


def make_keys(folder: Path, sites: Sequence[str], now: datetime.datetime) -> list[str]:
    """Makes certificates for sites that have none; the authority too, at first. Returns for whom they were made.

    NAME.pem, NAME.key and authority.pem go to another machine; authority.key stays where new sites are admitted.
    """
    missing = [site for site in sites if not _is_whole(folder / f"{site}.pem")]
    if len(missing) < len(sites) and not _is_whole(folder / f"{_AUTHORITY}.pem"):
        raise ConfigError(
            f"{folder / _AUTHORITY}.pem is missing, which signed the certificates there: bring it back, or remove the "
            "whole folder to make all of them anew"
        )
    if not missing:
        return []
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_whole(folder / f"{_AUTHORITY}.pem"):
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gossamer federation")])
        write_private(folder / f"{_AUTHORITY}.key", _private(key))
        write_private(folder / f"{_AUTHORITY}.pem", _certificate(name, name, key, key, now, None))
    try:
        authority = x509.load_pem_x509_certificate((folder / f"{_AUTHORITY}.pem").read_bytes())
        signer = serialization.load_pem_private_key((folder / f"{_AUTHORITY}.key").read_bytes(), None)
    except FileNotFoundError as error:
        raise ConfigError(
            f"{', '.join(missing)} cannot get a certificate here: {error.filename} is missing; run "
            "`gossamer federation keys` where it is, and bring NAME.pem, NAME.key and authority.pem here"
        ) from None
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    for site in missing:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, tls_name(site))])
        write_private(folder / f"{site}.key", _private(key))
        write_private(folder / f"{site}.pem", _certificate(name, authority.subject, key, signer, now, tls_name(site)))
    return missing


def paths(folder: Path, site: str) -> dict[str, str]:
    """Returns the files of a site: its certificate, its key, and the authority's certificate."""
    found = {"cert": folder / f"{site}.pem", "key": folder / f"{site}.key", "authority": folder / f"{_AUTHORITY}.pem"}
    for path in found.values():
        if not path.exists():
            raise ConfigError(f"{path} is missing: `gossamer federation keys` makes it where the authority's key is")
    return {name: str(path) for name, path in found.items()}


def any_of(folder: Path, sites: Sequence[str]) -> dict[str, str]:
    """Returns the files by which this machine is let in at all sites: those of the first site that it has."""
    for site in sites:
        if _is_whole(folder / f"{site}.pem") and _is_whole(folder / f"{site}.key"):
            return paths(folder, site)
    raise ConfigError(
        f"there is no certificate in {folder}: bring authority.pem, NAME.pem and NAME.key of a site there, from where "
        "`gossamer federation keys` made them"
    )


def context(files: Mapping[str, str]) -> ssl.SSLContext:
    """Returns the context for a connection to another site's server: both sides authenticate."""
    made = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=files["authority"])
    made.load_cert_chain(files["cert"], files["key"])
    return made


def _certificate(
    name: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    dns: str | None,
) -> bytes:
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=dns is None, path_length=None), critical=True)
    )
    if dns is not None:
        names: list[x509.GeneralName] = [x509.DNSName(dns), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False).add_extension(both, False)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)


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

"""This module makes certificates. Only it needs the library cryptography, which the extra `federation` installs."""

import datetime
import ipaddress
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAYS = 3650


class Authority(NamedTuple):
    """`Authority` signs the certificates of sites. A pair is a certificate and its key, as PEM."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, now: datetime.datetime) -> tuple[bytes, bytes]:
        """Makes an authority, whose certificate is signed by itself."""
        made = cls(_named("gossamer federation"), ec.generate_private_key(ec.SECP256R1()))
        return made._certificate(made.name, made.key, now, None), _private(made.key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> "Authority":
        signer = serialization.load_pem_private_key(key, None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        return cls(x509.load_pem_x509_certificate(certificate).subject, signer)

    def issue(self, dns: str, now: datetime.datetime) -> tuple[bytes, bytes]:
        """Makes the pair of a site that is called `dns` in TLS."""
        key = ec.generate_private_key(ec.SECP256R1())
        return self._certificate(_named(dns), key, now, dns), _private(key)

    def _certificate(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime, dns: str | None
    ) -> bytes:
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
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
        return made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def ends(certificate: bytes) -> datetime.datetime:
    """Returns until when a certificate is valid."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)

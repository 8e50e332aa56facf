"""This module makes certificates, and requests for them. Of the library cryptography, which the extra `federation`
installs, others use only ciphers (`invitation`)."""

import datetime
import ipaddress
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
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
        return made._certificate(made.name, made.key.public_key(), now, None), private(made.key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> "Authority":
        return cls(x509.load_pem_x509_certificate(certificate).subject, load_key(key))

    def issue(self, dns: str, now: datetime.datetime) -> tuple[bytes, bytes]:
        """Makes the pair of a site that is called `dns` in TLS."""
        key = new_key()
        return self._certificate(_named(dns), key.public_key(), now, dns), private(key)

    def sign(self, dns: str, request: bytes, now: datetime.datetime) -> bytes:
        """Makes a certificate for a key that stays where it is. A request for another name, or one that was not signed
        with that key, is a ValueError."""
        asked = x509.load_pem_x509_csr(request)
        if asked.subject != _named(dns):
            raise ValueError(f"the request is for another name than {dns}")
        if not asked.is_signature_valid:
            raise ValueError("the request was not signed with its own key")
        return self._certificate(_named(dns), _checked(asked.public_key()), now, dns)

    def renew(self, certificate: bytes, dns: str, now: datetime.datetime) -> bytes:
        """Makes a certificate for the key of another one, which will end before it."""
        public = x509.load_pem_x509_certificate(certificate).public_key()
        return self._certificate(_named(dns), _checked(public), now, dns)

    def _certificate(
        self, name: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime.datetime, dns: str | None
    ) -> bytes:
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(public)
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


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def request(key: ec.EllipticCurvePrivateKey, dns: str) -> bytes:
    """Asks for a certificate: all that the authority needs to know of a key."""
    made = x509.CertificateSigningRequestBuilder().subject_name(_named(dns)).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def fingerprint(certificate: bytes) -> bytes:
    """Returns 32 bytes that no other certificate has."""
    return x509.load_pem_x509_certificate(certificate).fingerprint(hashes.SHA256())


def check_issued(certificate: bytes, authority: bytes, dns: str, key: bytes) -> None:
    """Checks that the authority made a certificate for this name and private key; a ValueError says what is wrong."""
    made, signer = (x509.load_pem_x509_certificate(pem) for pem in (certificate, authority))
    try:
        made.verify_directly_issued_by(signer)
    except (InvalidSignature, TypeError, ValueError):
        raise ValueError("the certificate is signed by another authority") from None
    if made.subject != _named(dns) or made.public_key() != load_key(key).public_key():
        raise ValueError(f"the certificate is not for {dns} and the key that is here")


def _checked(public: object) -> ec.EllipticCurvePublicKey:
    """Returns a key of the kind that we make; others could be weak."""
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise ValueError("the key is none of ours: it must be of the curve P-256")
    return public


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def private(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)

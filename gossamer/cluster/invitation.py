"""This module is what the operator and a new machine send each other, and the token by which they know each other.

The operator connects to the new machine, which is reachable as every site is; so nobody else offers anything to
strangers, and the first site joins like the tenth. What they send is sealed with the token's secret: whoever has not
got the token can neither read, nor change, nor invent any of it. The new machine's private key is no part of it.
"""

import base64
import binascii
import hashlib
import os
import secrets
import socket
import time
from asyncio import IncompleteReadError, StreamReader
from typing import TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from gossamer.cluster.protocol import Versioned, decode, encode
from gossamer.errors import ConfigError, Unreadable

STRANGER = "it does not know the token"
_PREFIX = "gossamer-"
_MOST_BYTES = 4 << 20  # of what is sent: the file of a federation is the largest
_NONCE, _CHECK, _LENGTH = 12, 4, 4

T = TypeVar("T", bound=Versioned)


class Forged(ValueError):
    """What came was not sealed with the token's secret, or not for this."""


class Token(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """`Token` lets one machine join, once, for some time."""

    site: str
    address: str  # HOST:PORT, where others reach the site
    listen: str  # HOST:PORT, where its machine listens
    file: str  # the name of the federation's file
    ends_s: int  # since 1970
    authority: bytes  # the fingerprint of its certificate
    secret: bytes

    @classmethod
    def new(cls, site: str, address: str, listen: str, file: str, ends_s: float, authority: bytes) -> "Token":
        return cls(
            site=site, address=address, listen=listen, file=file, ends_s=int(ends_s), authority=authority,
            secret=secrets.token_bytes(32),
        )  # fmt: skip

    def as_text(self) -> str:
        data = msgspec.msgpack.encode(self)
        return _PREFIX + base64.urlsafe_b64encode(_check(data) + data).decode().rstrip("=")

    @classmethod
    def of_text(cls, text: str) -> "Token":
        """Reads a token. One that was cut or mistyped is an error."""
        try:
            body = text.strip().removeprefix(_PREFIX)
            data = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
            found = msgspec.msgpack.decode(data[_CHECK:], type=cls)
            if data[:_CHECK] == _check(data[_CHECK:]) and len(found.secret) == 32:
                return found
        except (msgspec.MsgspecError, binascii.Error, ValueError):
            pass
        raise ConfigError("this is no whole token: copy all of what `gossamer federation invite` printed")

    # What is sent is bound to everything in the token: one that was changed, to another name say, opens nothing.

    def seal(self, message: Versioned, about: bytes = b"") -> bytes:
        nonce, bound = os.urandom(_NONCE), self._bound(type(message), about)
        return nonce + ChaCha20Poly1305(self.secret).encrypt(nonce, encode(message), bound)

    def opened(self, kind: type[T], sealed: bytes, about: bytes = b"") -> T:
        """Opens a message of that kind; `about` is the request that it belongs to."""
        try:
            bound = self._bound(kind, about)
            return decode(kind, ChaCha20Poly1305(self.secret).decrypt(sealed[:_NONCE], sealed[_NONCE:], bound))
        except (InvalidTag, Unreadable, ValueError):
            raise Forged(STRANGER) from None

    def _bound(self, kind: type[Versioned], about: bytes) -> bytes:
        return hashlib.sha256(kind.__name__.encode() + msgspec.msgpack.encode(self) + about).digest()


class Request(Versioned, frozen=True, kw_only=True):
    """`Request` is the first word of the new machine: the request for its certificate."""

    csr: str


class Admitted(Versioned, frozen=True, kw_only=True):
    """`Admitted` answers it; `refused` says why not."""

    refused: str = ""
    certificate: str = ""
    authority: str = ""
    text: str = ""  # of the federation's file


class Joined(Versioned, frozen=True, kw_only=True):
    """`Joined` confirms that all of it is on the new machine's disk; `refused` says why not."""

    refused: str = ""


def _check(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_CHECK]


# Frames: a length, and so many bytes


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH, "big") + data


def received(connection: socket.socket, timeout_s: float) -> bytes:
    """Returns the next frame; a connection that ends, or sends too much, is Forged."""
    end_s = time.monotonic() + timeout_s

    def exactly(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            connection.settimeout(max(0.01, end_s - time.monotonic()))
            piece = connection.recv(size - len(data))
            if not piece:
                raise Forged("it ends the connection")
            data += piece
        return bytes(data)

    return exactly(_length(exactly(_LENGTH)))


async def read(reader: StreamReader) -> bytes:
    """Does the same, in asyncio."""
    try:
        return await reader.readexactly(_length(await reader.readexactly(_LENGTH)))
    except IncompleteReadError:
        raise Forged("it ends the connection") from None


def _length(head: bytes) -> int:
    length = int.from_bytes(head, "big")
    if length > _MOST_BYTES:
        raise Forged(STRANGER)
    return length

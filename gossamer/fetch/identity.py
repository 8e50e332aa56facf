"""`Identity` signs requests, so that servers can tell this crawler from those that only use its name (Web Bot Auth).

A signature is that of RFC 9421 with Ed25519. Two forms of the field Signature-Agent are in use, and a request can only
have one: `dictionary` (draft-ietf-webbotauth-httpsig-protocol) and `string` (earlier drafts, and Cloudflare's docs).
The key leaves this module only into the file that `gossamer identity` makes.
"""

import hashlib
import json
import secrets
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from gossamer.clocks import Clock
from gossamer.config.secrets import read_secret
from gossamer.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DIRECTORY = "/.well-known/http-message-signatures-directory"
MEDIA_TYPE = "application/http-message-signatures-directory+json"
STRING, DICTIONARY = "string", "dictionary"  # values of fetch.identity_form
_EXPIRES_S = 300  # after the request: clocks differ, and who overhears a request can repeat its signature until then
_LABEL = "sig1"
_WRONG = "is no identity: make one with `gossamer identity https://YOUR-WEBSITE`"


class Identity:
    """`Identity` has a key, and the website where its public part is published."""

    def __init__(self, key: "Ed25519PrivateKey", agent: str) -> None:
        self._key = key
        self.agent = agent  # as in https://bot.example.org
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.jwk = {"kty": "OKP", "crv": "Ed25519", "x": _base64url(public)}
        # RFC 7638 with RFC 8037 appendix A.3: the required members, in the order of the alphabet.
        members = json.dumps({name: self.jwk[name] for name in ("crv", "kty", "x")}, separators=(",", ":"))
        self.keyid = _base64url(hashlib.sha256(members.encode()).digest())

    @classmethod
    def new(cls, agent: str) -> "Identity":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate(), agent)

    @classmethod
    def read(cls, name: str, reference: str) -> "Identity":
        """Reads the identity that the key `name` refers to. No message quotes it."""
        return cls.parse(read_secret(name, reference), f"{name}: what {reference} has")

    @classmethod
    def parse(cls, text: str, what: str) -> "Identity":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        try:
            given = json.loads(text)
            secret, agent = given["key"]["d"], given["agent"]
            key = Ed25519PrivateKey.from_private_bytes(urlsafe_b64decode(secret + "=" * (-len(secret) % 4)))
        except (ValueError, TypeError, KeyError):
            raise ConfigError(f"{what} {_WRONG}") from None
        if not isinstance(agent, str) or not agent.startswith("https://") or '"' in agent:
            raise ConfigError(f"{what} {_WRONG}")
        return cls(key, agent)

    def secret_text(self) -> str:
        """Returns the line of the file that must stay secret."""
        key = {**self.jwk, "d": _base64url(self._key.private_bytes_raw())}
        return json.dumps({"agent": self.agent, "key": key}) + "\n"

    def directory(self) -> str:
        """Returns the file to publish at DIRECTORY."""
        return json.dumps({"keys": [{**self.jwk, "kid": self.keyid, "use": "sig"}]}) + "\n"

    def directory_fields(self, body: bytes, created_s: int, expires_s: int, label: str = "binding0") -> dict[str, str]:
        """Returns header fields by which the answer with that file proves that it is for its own website."""
        digest = f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"
        covered = [('"@authority";req', self.agent.partition("//")[2]), ('"content-digest"', digest)]
        tag = "http-message-signatures-directory"
        params = f'created={created_s};keyid="{self.keyid}";alg="ed25519";expires={expires_s};tag="{tag}"'
        return {"Content-Type": MEDIA_TYPE, "Content-Digest": digest, **self._signed(label, covered, params)}

    def fields(
        self, authority: str, form: str, created_s: int, expires_s: int = 0, nonce: str = "", label: str = _LABEL
    ) -> dict[str, str]:
        """Returns the header fields of a request to `authority`, which is a name, with the port if it is unusual."""
        agent = f'"{self.agent}"'
        member, value = ("", agent) if form == STRING else (f';key="{label}"', f"{label}={agent}")
        covered = [('"@authority"', authority), (f'"signature-agent"{member}', agent)]
        nonce = nonce or b64encode(secrets.token_bytes(64)).decode()
        params = f'created={created_s};keyid="{self.keyid}";alg="ed25519";expires={expires_s or created_s + _EXPIRES_S}'
        params += f';nonce="{nonce}";tag="web-bot-auth"'
        return {"Signature-Agent": value, **self._signed(label, covered, params)}

    def _signed(self, label: str, covered: list[tuple[str, str]], params: str) -> dict[str, str]:
        """Signs the base that RFC 9421 section 2.5 has for components and their values."""
        given = f"({' '.join(name for name, _ in covered)});{params}"
        base = "".join(f"{name}: {value}\n" for name, value in covered) + f'"@signature-params": {given}'
        signature = b64encode(self._key.sign(base.encode())).decode()
        return {"Signature-Input": f"{label}={given}", "Signature": f"{label}=:{signature}:"}


class Signer:
    """`Signer` has the signature of each request, made when the request is."""

    def __init__(self, reference: str, form: str, clock: Clock) -> None:
        self._identity = Identity.read("fetch.identity", reference)
        self._form = form
        self._clock = clock

    def lines(self, url: str) -> list[bytes]:
        start = url.index("//") + 2
        authority = url[start : url.index("/", start)]
        fields = self._identity.fields(authority, self._form, int(self._clock.now()))
        return [f"{name}: {value}".encode() for name, value in fields.items()]


def _base64url(data: Any) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()

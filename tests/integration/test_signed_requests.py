"""A crawl that signs its requests: the server can tell who asks, and the key is in none of the crawl's files."""

import gzip
import json
from base64 import b64decode, urlsafe_b64decode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from raw_server import Exchange, RawServer

from gossamer import Config, Crawl
from gossamer.fetch.identity import Identity

HTML = b"Content-Type: text/html\r\n"
AGENT = "https://bot.gossamer-tests.org"


def page(exchange: Exchange) -> bool:
    return exchange.send_page(b"<a href=/b>x</a>", fields=HTML)


def verified(exchange: Exchange, key: Ed25519PublicKey, form: str) -> str:
    """Verifies as a server does, by RFC 9421; returns what was signed once only."""
    lines = [line.partition(b": ") for line in exchange.head.split(b"\r\n")]
    fields = {name.decode().lower(): value.decode() for name, _, value in lines}
    assert fields["signature-agent"] == (f'"{AGENT}"' if form == "string" else f'sig1="{AGENT}"')
    params = fields["signature-input"].removeprefix("sig1=")
    member = "" if form == "string" else ';key="sig1"'
    base = f'"@authority": {exchange.host}\n"signature-agent"{member}: "{AGENT}"\n"@signature-params": {params}'
    key.verify(b64decode(fields["signature"].removeprefix("sig1=:").rstrip(":")), base.encode())
    return params


@pytest.mark.parametrize("form", ["dictionary", "string"])
def test_every_request_is_signed(tmp_path: Path, form: str) -> None:
    made = Identity.new(AGENT)
    text = made.secret_text()
    (tmp_path / "identity.json").write_text(text)
    values = {
        "polite.delay_s": 0.0, "crawl.patience_s": 1.0,
        "fetch.identity": f"file:{tmp_path}/identity.json", "fetch.identity_form": form, "archive.secrets": True,
    }  # fmt: skip
    server = RawServer(page)
    config = Config().replace({**values, "resolve.map": {"*": f"127.0.0.1:{server.port}"}})
    Crawl(tmp_path / "crawl", ["http://a.test/"], config).run()
    server.close()
    key = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(made.jwk["x"] + "="))
    signed = {verified(exchange, key, form) for exchange in server.exchanges}
    assert sorted(server.paths) == ["/", "/b", "/robots.txt"]
    assert len(signed) == 3, "each has its own"
    secret = json.loads(text)["key"]["d"].encode()
    files = [path for path in (tmp_path / "crawl").rglob("*") if path.is_file()]
    assert any(path.suffix == ".gz" for path in files)
    assert not [path for path in files if secret in path.read_bytes() or secret in _inflated(path)]


def _inflated(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else b""

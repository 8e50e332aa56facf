"""Signed requests: the test vectors of Web Bot Auth, and what becomes of the key."""

import json
import stat
from base64 import b64decode, urlsafe_b64decode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gossamer.cli.app import main
from gossamer.config import Config
from gossamer.config.contact import unreachable
from gossamer.errors import ConfigError
from gossamer.fetch.identity import DICTIONARY, STRING, Identity

# The key of RFC 9421 appendix B.1.4, and vectors that the drafts publish for it.
D, X = "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU", "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
KEYID = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
NONCE = "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA=="
CREATED, EXPIRES = 1735689600, 4889289600


@pytest.fixture
def known() -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(urlsafe_b64decode(D + "=")), "https://signature-agent.test")


def test_a_request_is_signed_as_the_draft_has_it(known: Identity) -> None:
    assert (known.jwk["x"], known.keyid) == (X, KEYID)
    found = known.fields("example.com", DICTIONARY, CREATED, EXPIRES, NONCE, "agent2")
    assert found["Signature-Agent"] == 'agent2="https://signature-agent.test"'
    covered = '("@authority" "signature-agent";key="agent2")'
    params = f'created={CREATED};keyid="{KEYID}";alg="ed25519";expires={EXPIRES};nonce="{NONCE}";tag="web-bot-auth"'
    assert found["Signature-Input"] == f"agent2={covered};{params}"
    signature = "RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg=="
    assert found["Signature"] == f"agent2=:{signature}:", "the vector's label is sig2, which is not signed"


def test_the_directory_is_signed_as_the_draft_has_it(known: Identity) -> None:
    body = b'{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"%s","x":"%s","use":"sig"}]}' % (KEYID.encode(), X.encode())
    found = known.directory_fields(body, CREATED, EXPIRES)
    assert found["Content-Digest"] == "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:"
    signature = "yiHq0TXrbpzbmlttAQMpYoAufitFJUWuNsakB7QQMoN0EHbo5o51bZRVR8az/ptTWCwllix9clrKXfGKwdPzBg=="
    assert found["Signature"] == f"binding0=:{signature}:"
    assert json.loads(known.directory())["keys"][0]["kid"] == KEYID


def test_the_other_form_is_a_string(known: Identity) -> None:
    found = known.fields("example.com:8080", STRING, CREATED)
    assert found["Signature-Agent"] == '"https://signature-agent.test"'
    params = found["Signature-Input"].removeprefix("sig1=")
    assert params.startswith('("@authority" "signature-agent");created=')
    base = '"@authority": example.com:8080\n"signature-agent": "https://signature-agent.test"\n'
    base += f'"@signature-params": {params}'
    key = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(X + "="))
    key.verify(b64decode(found["Signature"].removeprefix("sig1=:").rstrip(":")), base.encode())
    assert known.fields("example.com", STRING, CREATED)["Signature"] != found["Signature"]


def test_the_command_makes_a_key_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["identity", "https://bot.gossamer-tests.org/", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["publish"]["url"] == "https://bot.gossamer-tests.org/.well-known/http-message-signatures-directory"
    secret = json.loads(Path("identity.json").read_text())["key"]["d"]
    assert stat.S_IMODE(Path("identity.json").stat().st_mode) == 0o600
    published = Path("http-message-signatures-directory").read_text()
    assert secret not in published + json.dumps(made)
    assert main(["identity", "https://bot.gossamer-tests.org"]) == 0
    said = capsys.readouterr().out
    assert made["keyid"] in said
    assert secret not in said
    assert main(["identity", "https://other.gossamer-tests.org"]) == 2
    assert main(["identity", "http://bot.gossamer-tests.org"]) == 2
    assert "without a path" in capsys.readouterr().err


def test_mistakes_do_not_show_what_may_be_a_secret(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a reference") as error:
        Config().replace({"fetch.identity": D})
    assert D not in str(error.value)
    (tmp_path / "key").write_text(D)
    with pytest.raises(ConfigError, match="is no identity: make one") as error:
        Identity.read("fetch.identity", f"file:{tmp_path}/key")
    assert D not in str(error.value)


@pytest.mark.parametrize(
    "contact",
    ["you@example.org", "https://www.example.com/bot", "me@laptop", "http://10.0.0.1/", "me@crawler.test",
     "https://a..b/", "https://[::1]/", "me@host.local", "https://-x.org/", "me@1.2"],
)  # fmt: skip
def test_a_contact_that_cannot_exist(contact: str) -> None:
    assert unreachable(contact)


@pytest.mark.parametrize(
    "contact",
    ["me@gossamer-tests.org", "mailto:me@gossamer-tests.org", "https://gossamer-tests.org:8443/bot?x#y",
     "https://münchen.de/", "https://8.8.8.8/bot", "me+crawl@a.b-c.co.uk"],
)  # fmt: skip
def test_a_contact_that_could_exist(contact: str) -> None:
    assert unreachable(contact) == ""

"""What people get wrong with buckets, and what stores do to them: each is said in one message, and nothing is begun or
lost. Everything is tried on the command line, with a real store or a proxy before one."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import complaint, environment, line, succeed
from object_stores import PASS, STRIP, Answer, Asked, Proxy, Server, at
from test_bucket import SPEC as SPEC
from test_bucket import command, statuses
from test_bucket import plain as plain
from test_bucket import weed as weed

from experiments.servers import READER, READER_SECRET, SECRET
from gossamer.archive.buckets import connect
from gossamer.archive.object_store import ObjectStore
from gossamer.config.folders import Address
from gossamer.errors import StoreError
from gossamer.testweb.running import RunningWeb

SLOW_DOWN: Answer = (503, "Slow Down", b"<Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>")
TOO_MANY: Answer = (429, "Too Many Requests", b"<Error><Code>TooManyRequests</Code></Error>")
SKEWED: Answer = (403, "Forbidden", b"<Error><Code>RequestTimeTooSkewed</Code></Error>")


@pytest.mark.parametrize(
    ("settings", "place", "says"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "", "the credentials are wrong, or may not read, write, list and delete"),
        ({"AWS_ACCESS_KEY_ID": READER, "AWS_SECRET_ACCESS_KEY": READER_SECRET}, "", "may not read, write, list and"),
        ({}, "s3://no-such-bucket/crawl", "there is no bucket no-such-bucket: create it, or correct its name"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "", "it cannot be reached, or its answers are lost): check its"),
    ],
    ids=["wrong secret", "read-only", "no bucket", "unreachable"],
)
def test_before_anything_begins(
    web: RunningWeb, weed: Server, tmp_path: Path, settings: dict[str, str], place: str, says: str
) -> None:
    address = weed.address()
    with at(weed, tmp_path / "cache", **settings):
        said = complaint(*command(web, place or address), at=tmp_path)
        assert says in said
        assert SECRET not in said
    with at(weed, tmp_path / "cache"):
        assert ObjectStore(address).list("") == [], "nothing was begun"


@pytest.mark.parametrize(
    "value", ["127.0.0.1:8333", "http://", "http://h:99999", "http://[::1", "http://h/ x", "ftp://h"]
)
@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("AWS_ENDPOINT_URL", "s3://box/crawl"),
        ("GOOGLE_BASE_URL", "gs://box/crawl"),
        ("AZURE_STORAGE_ENDPOINT", "az://box/crawl"),
    ],
)
def test_an_endpoint_that_is_no_url(name: str, address: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match=f"^{name} is no URL of a store: write http://HOST:PORT or https://HOST$"):
        connect(Address(address))


@pytest.mark.parametrize("settings", [{}, {"AZURE_STORAGE_ACCOUNT_NAME": "me", "AZURE_STORAGE_ACCOUNT_KEY": "no key!"}])
def test_azure_without_an_account(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_USE_EMULATOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match="no credentials were found that can be used: set AZURE_STORAGE_ACCOUNT_NAME"):
        connect(Address("az://box/crawl"))


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        (SKEWED, "this machine's clock is wrong, the store says (403 Forbidden RequestTimeTooSkewed): set it"),
        (SLOW_DOWN, "the store is overloaded (503"),
        (TOO_MANY, "the store is overloaded (429"),
    ],
    ids=["clock", "503 without end", "429 without end"],
)
def test_a_store_that_refuses(web: RunningWeb, weed: Server, tmp_path: Path, verdict: Answer, says: str) -> None:
    with Proxy(weed.port, lambda _: verdict) as proxy, at(weed, tmp_path, proxy):
        assert says in complaint(*command(web, weed.address()), at=tmp_path)


def test_a_store_without_conditions(web: RunningWeb, object_servers: Callable[[str], Server], tmp_path: Path) -> None:
    moto = object_servers("moto")
    with Proxy(moto.port, lambda _: STRIP) as proxy, at(moto, tmp_path, proxy):
        said = complaint(*command(web, moto.address()), at=tmp_path)
    assert "the store ignores conditions: it let us create an object that existed" in said
    assert "nothing was begun" in said


@pytest.mark.parametrize("refusal", [SLOW_DOWN, TOO_MANY], ids=["503", "429"])
def test_a_crawl_waits_while_it_is_throttled(
    web: RunningWeb, weed: Server, plain: dict[str, str], tmp_path: Path, refusal: Answer
) -> None:
    """Every fourth request is refused, whatever it is; the crawl finds what an undisturbed one finds."""
    seen: list[Asked] = []

    def judge(asked: Asked) -> str | Answer:
        seen.append(asked)
        return refusal if len(seen) % 4 == 0 else PASS

    address: Address = weed.address()
    with Proxy(weed.port, judge) as proxy, at(weed, tmp_path / "cache", proxy):
        succeed(*command(web, address, "--width", "60"), at=tmp_path)
    assert len(seen) > 60
    with at(weed, tmp_path / "other"):
        assert statuses(address, tmp_path) == plain


def test_whoever_waits_for_machines_says_what_they_must_run(web: RunningWeb, weed: Server, tmp_path: Path) -> None:
    address = weed.address()
    words = [word for word in command(web, address, "--engine", "pull") if word != "--quiet"]
    with at(weed, tmp_path / "cache"), (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(line(*words), cwd=tmp_path, env=environment(), stdout=said, stderr=said)
        try:
            end_s = time.monotonic() + 120
            while b"agent join" not in (tmp_path / "said").read_bytes():
                assert process.poll() is None
                assert time.monotonic() < end_s
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
    assert f"gossamer agent join {address}`" in (tmp_path / "said").read_text()

"""An archive in a bucket, when answers are lost, stores refuse or throttle, and processes die at any request."""

import base64
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT
from object_stores import (
    DROP_AFTER,
    DROP_BEFORE,
    PASS,
    STRIP,
    Answer,
    Asked,
    Proxy,
    Server,
    at,
)

from experiments.servers import READER, READER_SECRET, SECRET
from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Changes
from gossamer.archive.object_store import ObjectStore
from gossamer.archive.store import Store
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.config.folders import Address
from gossamer.errors import ArchiveError, Deposed, StoreError
from gossamer.sharing.exchange import InProcess

QUICK: dict[str, Any] = {"backoff": {"init_backoff": timedelta(milliseconds=5), "max_backoff": timedelta(seconds=1)}}
SLOW_DOWN: Answer = (503, "Slow Down", b"<Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>")
TOO_MANY: Answer = (429, "Too Many Requests", b"<Error><Code>TooManyRequests</Code></Error>")
CONFLICT: Answer = (409, "Conflict", b"<Error><Code>ConditionalRequestConflict</Code></Error>")
DENIED: Answer = (403, "Forbidden", b"<Error><Code>AccessDenied</Code></Error>")


@pytest.fixture
def weed(object_servers: Callable[[str], Server]) -> Server:
    return object_servers("seaweedfs")


def names_of(chain: Chain) -> dict[str, list[str]]:
    """The files of a round: so many that they go up together."""
    label = chain.label
    return {
        "warc": [f"warc/{label}-0.warc.gz"],
        "cdxj": [f"cdxj/{label}.cdxj"],
        "visits": [f"tables/visits-{label}.pq"],
    }


def commit(store: Store, chain: Chain, exchange: InProcess) -> None:
    added = names_of(chain)
    for (name,) in added.values():
        path = store.scratch(name)
        path.write_bytes(name.encode() * 50)
        store.put(name, path)
    gone = {"visits": chain.files["visits"][:1]} if len(chain.files.get("visits", ())) > 2 else {}
    chain.commit(Changes(added, gone), marks={}, outbox=[], exchange=exchange, applied=[], now_s=1.0)


def check(address: Address, server: Server, cache: Path) -> int:
    """All that the newest manifest names is in the bucket, as it was written; the number of that manifest."""
    with at(server, cache):
        store = ObjectStore.open(address, read_only=True)
        snapshot = Chain.read(store, "a0")
        for name in snapshot.names():
            assert store.get(name) == name.encode() * 50
    return snapshot.number


class Faulty:
    """Drops connections at random, before or after a request had its effect; a seed makes it repeat."""

    def __init__(self, seed: int) -> None:
        self._random, self._lock = random.Random(seed), threading.Lock()
        self.lost_creates = 0

    def __call__(self, asked: Asked) -> str:
        with self._lock:
            drawn = self._random.random()
        if drawn < 0.2:
            self.lost_creates += asked.is_create
            return DROP_AFTER
        return DROP_BEFORE if drawn < 0.25 else PASS


@pytest.mark.parametrize("commits", [50, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_lost_answers_depose_nobody(weed: Server, tmp_path: Path, commits: int) -> None:
    address, faults = weed.address(), Faulty(commits)
    with at(weed, tmp_path / "cache"):
        ObjectStore.prepare(address, 1.0)
    with Proxy(weed.port, faults) as proxy, at(weed, tmp_path / "cache", proxy):
        store, exchange = ObjectStore.open(address, retry=QUICK), InProcess()
        chain = Chain.take_over(store, "a0", exchange, 1.0, zones=range(ZONES_IN_ALL))
        for _ in range(commits):
            commit(store, chain, exchange)
        store.settle()
    assert faults.lost_creates > commits // 10, "the test means nothing if no answer to a create was lost"
    assert check(address, weed, tmp_path / "empty") == commits + 1


def test_a_conflict_is_tried_again_and_means_nothing(weed: Server, tmp_path: Path) -> None:
    """S3 answers 409 while another create of the same name is under way, whatever becomes of that one."""
    left = {"conflicts": 2}

    def judge(asked: Asked) -> str | Answer:
        if asked.is_create and "/manifest/" in asked.path and left["conflicts"]:
            left["conflicts"] -= 1
            return CONFLICT
        return PASS

    with Proxy(weed.port, judge) as proxy, at(weed, tmp_path, proxy):
        store = ObjectStore.prepare(weed.address(), 1.0)
        assert store.create("manifest/a0/1", b"mine")
        left["conflicts"] = 1
        assert not store.create("manifest/a0/1", b"yours")
        assert store.get("manifest/a0/1") == b"mine"


def test_a_store_that_ignores_conditions_is_refused(object_servers: Callable[[str], Server], tmp_path: Path) -> None:
    moto = object_servers("moto")
    with Proxy(moto.port, lambda _: STRIP) as proxy, at(moto, tmp_path, proxy):
        address = moto.address()
        with pytest.raises(StoreError, match=r"the store ignores conditions.*nothing was begun"):
            ObjectStore.prepare(address, 1.0)
        assert ObjectStore(address).list("") == []


@pytest.mark.parametrize("refusal", [SLOW_DOWN, TOO_MANY], ids=["503", "429"])
def test_throttling_is_waited_out(weed: Server, tmp_path: Path, refusal: Answer) -> None:
    refused: list[Asked] = []

    def judge(asked: Asked) -> str | Answer:
        if len(refused) % 3 != 2 and len(refused) < 40:
            refused.append(asked)
            return refusal
        refused.append(asked)
        return PASS

    address = weed.address()
    with Proxy(weed.port, judge) as proxy, at(weed, tmp_path / "cache", proxy):
        store, exchange = ObjectStore.prepare(address, 1.0, retry=QUICK), InProcess()
        chain = Chain.take_over(store, "a0", exchange, 1.0, zones=range(ZONES_IN_ALL))
        for _ in range(4):
            commit(store, chain, exchange)
    assert len(refused) >= 40
    assert check(address, weed, tmp_path / "empty") == 5


def test_no_manifest_names_what_did_not_get_there(weed: Server, tmp_path: Path) -> None:
    """A put that fails in the background stops every create, until the same name is put again."""
    refusing = [False]

    def judge(asked: Asked) -> str | Answer:
        return DENIED if refusing[0] and asked.method == "PUT" and "/cdxj/" in asked.path else PASS

    address = weed.address()
    with Proxy(weed.port, judge) as proxy, at(weed, tmp_path / "cache", proxy):
        store, exchange = ObjectStore.prepare(address, 1.0), InProcess()
        chain = Chain.take_over(store, "a0", exchange, 1.0, zones=range(ZONES_IN_ALL))
        commit(store, chain, exchange)
        refusing[0] = True
        for _ in range(2):
            with pytest.raises(StoreError, match=r"the store refuses what we ask \(403 Forbidden AccessDenied\)"):
                commit(store, chain, exchange)
        with pytest.raises(StoreError):
            store.create("inbox/seeds-1", b"")
        with pytest.raises(StoreError):
            store.settle()
        assert check(address, weed, tmp_path / "empty") == 2
        refusing[0] = False
        commit(store, chain, exchange)
    assert check(address, weed, tmp_path / "empty") == 3


def test_of_two_owners_the_first_is_deposed(weed: Server, tmp_path: Path) -> None:
    address, exchange = weed.address(), InProcess()
    with at(weed, tmp_path / "one"):
        first = ObjectStore.prepare(address, 1.0)
        mine = Chain.take_over(first, "a0", exchange, 1.0, zones=range(ZONES_IN_ALL))
        commit(first, mine, exchange)
    with at(weed, tmp_path / "two"):
        second = ObjectStore.prepare(address, 2.0)
        yours = Chain.take_over(second, "a0", exchange, 2.0)
    with pytest.raises(Deposed, match="another process has taken this crawl over"):
        commit(first, mine, exchange)
    commit(second, yours, exchange)
    assert yours.epoch == mine.epoch + 1
    assert check(address, weed, tmp_path / "empty") == 4


_COMMITS = """
import os, sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {here!r}]
from test_object_store import *
store, exchange = ObjectStore.open(Address(sys.argv[1])), InProcess()
chain = Chain.take_over(store, "a0", exchange, 1.0, zones=range(ZONES_IN_ALL))
for _ in range(2):
    commit(store, chain, exchange)
store.settle()
print("done", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("verdict", [DROP_BEFORE, DROP_AFTER])
def test_a_process_may_die_at_any_request(weed: Server, tmp_path: Path, verdict: str, stride: int) -> None:
    """It is killed when its k-th request has come, which has its effect or not; the next one has an empty cache."""
    address = weed.address()
    with at(weed, tmp_path / "cache"):
        ObjectStore.prepare(address, 1.0)
    code = _COMMITS.format(tests=str(ROOT / "tests"), here=str(Path(__file__).parent))
    victim: list[subprocess.Popen[str]] = []
    died, number, survived = 0, 0, False
    for k in range(1, 200, stride):
        count, lock = [0], threading.Lock()

        def judge(_: Asked, k: int = k, count: list[int] = count, lock: threading.Lock = lock) -> str:
            with lock:
                count[0] += 1
                if count[0] == k and verdict == DROP_BEFORE:
                    victim[-1].send_signal(signal.SIGKILL)
                return DROP_AFTER if count[0] == k else DROP_BEFORE if count[0] > k else PASS

        with Proxy(weed.port, judge) as proxy, at(weed, tmp_path / f"cache{k}", proxy):
            settings = {**os.environ, "PYTHONPATH": str(ROOT)}
            victim.append(
                subprocess.Popen([sys.executable, "-c", code, address], env=settings, stdout=subprocess.PIPE, text=True)
            )
            process = victim[-1]
            if verdict == DROP_AFTER:  # whatever it asks next finds nobody: killed while it waits
                while process.poll() is None and count[0] <= k:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(0.02)
                process.kill()
            said, _ = process.communicate(timeout=120)
        survived = said == "done\n"
        before, number = number, check(address, weed, tmp_path / f"empty{k}")
        assert number >= before, "what was committed stays"
        if survived:
            break
        died += 1
    assert survived
    assert died > 20 // stride
    with at(weed, tmp_path / "last"):
        store, exchange = ObjectStore.open(address), InProcess()
        chain = Chain.take_over(store, "a0", exchange, 1.0)
        commit(store, chain, exchange)
        named = chain.snapshot.names()
        left = {name for folder in ("warc/", "cdxj/", "tables/") for name in store.list(folder)}
        assert left == named, "what a crash left is swept"


def test_mistakes_are_named_with_their_remedy(weed: Server, tmp_path: Path) -> None:
    address = weed.address()
    with at(weed, tmp_path):
        ObjectStore.prepare(address, 1.0)
        with pytest.raises(StoreError, match="there is no bucket no-such-bucket: create it, or correct its name"):
            ObjectStore.prepare(Address("s3://no-such-bucket/crawl"), 1.0)
        with pytest.raises(ArchiveError, match="holds no crawl; `gossamer crawl --dir"):
            ObjectStore.open(weed.address())
        with pytest.raises(ArchiveError, match="is not empty and holds no crawl; choose another folder"):
            ObjectStore.prepare(Address(address.rpartition("/")[0]), 1.0)
    with at(weed, tmp_path, AWS_SECRET_ACCESS_KEY="wrong"), pytest.raises(StoreError) as error:
        ObjectStore.open(address)
    assert "SignatureDoesNotMatch" in str(error.value)
    assert "taken from AWS_ACCESS_KEY_ID" in str(error.value)
    with at(weed, tmp_path, AWS_ACCESS_KEY_ID=READER, AWS_SECRET_ACCESS_KEY=READER_SECRET):
        assert ObjectStore.open(address, read_only=True).list("") == ["gossamer.json"]
        with pytest.raises(StoreError, match="may not read, write, list and delete there"):
            ObjectStore.prepare(address, 1.0)
    with at(weed, tmp_path, AWS_ENDPOINT_URL="http://127.0.0.1:1"), pytest.raises(StoreError) as error:
        ObjectStore.open(address)
    assert "cannot be reached" in str(error.value)


def test_mistakes_with_azure(object_servers: Callable[[str], Server], tmp_path: Path) -> None:
    azurite = object_servers("azurite")
    with at(azurite, tmp_path), pytest.raises(StoreError, match="there is no container no-such-box: create it"):
        ObjectStore.prepare(Address("az://no-such-box/crawl"), 1.0)
    wrong = base64.b64encode(b"not the key").decode()
    with at(azurite, tmp_path, AZURE_STORAGE_ACCOUNT_KEY=wrong), pytest.raises(StoreError) as error:
        ObjectStore.prepare(azurite.address(), 1.0)
    assert "taken from AZURE_STORAGE_ACCOUNT_NAME" in str(error.value)
    assert wrong not in str(error.value)


def test_a_wrong_clock_is_named(weed: Server, tmp_path: Path) -> None:
    skewed: Answer = (403, "Forbidden", b"<Error><Code>RequestTimeTooSkewed</Code></Error>")
    wrong = pytest.raises(StoreError, match="this machine's clock is wrong")
    with Proxy(weed.port, lambda _: skewed) as proxy, at(weed, tmp_path, proxy), wrong:
        ObjectStore.open(weed.address())


def test_credentials_of_a_profile(weed: Server, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        f"[crawler]\naws_access_key_id = {weed.settings['AWS_ACCESS_KEY_ID']}\naws_secret_access_key = {SECRET}\n"
    )
    more = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_PROFILE": "crawler"}
    with at(weed, tmp_path / "cache", **more):
        del os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        store = ObjectStore.prepare(weed.address(), 1.0)
        assert store.create("manifest/a0/1", b"mine")
    with at(weed, tmp_path / "cache", **more, AWS_CONFIG_FILE=os.devnull):
        os.environ["AWS_PROFILE"] = "nobody"
        with pytest.raises(StoreError, match="the profile in AWS_PROFILE cannot be used"):
            ObjectStore.open(store.path)

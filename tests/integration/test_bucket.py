"""A crawl whose archive is in a bucket: from the command line, from other machines' caches, killed and resumed."""

import json
import signal
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from commands import answer, complaint, run, running, succeed
from object_stores import STRIP, Proxy, Server, at

from experiments.servers import READER, READER_SECRET, SECRET
from gossamer import Config, Crawl
from gossamer.archive.chain import snapshots
from gossamer.archive.object_store import ObjectStore
from gossamer.config.folders import Address
from gossamer.errors import StoreError
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(
    seed=5, hosts=12, pages=300, links=15.0, page_bytes=2_000.0, changing=0.0, errors=0.0, crawl_delays=0.0,
    robots_broken=0.0,
)  # fmt: skip
OPTIONS = ["--width", "20", "--delay", "0", "--scope", "any", "--connections", "8", "--depth", "250", "--quiet"]
OPTIONS += ["--set", "limits.depth_dynamic=250"]
STATUSES = "SELECT url, status FROM pages"


@pytest.fixture(scope="module")
def plain(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What an undisturbed crawl into a directory knows."""
    where = tmp_path_factory.mktemp("plain")
    succeed(*command(web, "crawl"), at=where)
    return statuses("crawl", where)


@pytest.fixture
def weed(object_servers: Callable[[str], Server]) -> Server:
    return object_servers("seaweedfs")


def command(web: RunningWeb, place: str, *more: str) -> list[str]:
    return ["crawl", *web.start_urls, "--dir", place, "--testweb", web.address, *OPTIONS, *more]


def statuses(place: str, where: Path) -> dict[str, str]:
    return {row["url"]: row["status"] for row in answer("query", place, STATUSES, "--json", at=where)}


def commits(proxy: Proxy) -> list[int]:
    """Which of the requests created a manifest."""
    return [number for number, each in enumerate(list(proxy.asked)) if each.is_create and "/manifest/" in each.path]


def test_every_command_at_an_address(web: RunningWeb, weed: Server, plain: dict[str, str], tmp_path: Path) -> None:
    address = weed.address()
    with at(weed, tmp_path / "one"):
        summary = json.loads(run(*command(web, address, "--json"), at=tmp_path).stdout)
        assert summary["visits"] > 200
    reader = {"AWS_ACCESS_KEY_ID": READER, "AWS_SECRET_ACCESS_KEY": READER_SECRET}
    with at(weed, tmp_path / "two", **reader):  # another machine, that may only read
        assert statuses(address, tmp_path) == plain
        found = answer("status", address, "--json", at=tmp_path)
        assert (found["directory"], found["running"], found["visits"]) == (address, False, summary["visits"])
        assert found["agents"]["a0"]["ended"]
        assert found["disk_bytes"] > 100_000
        assert found["top_hosts"]
        start = web.start_urls[0]
        assert answer("versions", address, start, "--json", at=tmp_path)["version"] == 1
        assert "<html" in succeed("show", address, start, at=tmp_path).lower()
        assert succeed("export", address, "--urls", "-", at=tmp_path).splitlines() == sorted(plain)
        assert [row["agent"] for row in answer("agents", address, "--json", at=tmp_path)["agents"]] == ["a0"]
        checked = answer("verify", address, "--json", at=tmp_path)
        assert (checked["faults"], checked["leftovers"]) == ([], 0)
        assert "may not read, write, list and delete there" in complaint("add", address, start, at=tmp_path)
        assert "no crawl with several agents is running" in complaint("agents", address, "add", at=tmp_path)
    with at(weed, tmp_path / "three"):
        added = answer("add", address, "http://another.test/", "--json", at=tmp_path)
        assert added == {"added": 1}
        again = run("crawl", "--dir", address, "--quiet", at=tmp_path)
        assert b"as in the last run" in again.stdout, "options are remembered for other machines, too"
        assert "http://another.test/" in statuses(address, tmp_path)


def test_a_crawl_in_a_bucket_of_google(
    web: RunningWeb, object_servers: Callable[[str], Server], tmp_path: Path
) -> None:
    google = object_servers("google")
    address = google.address()
    values = {"crawl.width": 20, "crawl.scope": "any", "polite.delay_s": 0.0, "resolve.map": {"*": web.address}}
    for machine, pages in (("one", 40), ("two", 80)):  # the second goes on, with nothing in its cache
        with at(google, tmp_path / machine):
            found = Crawl(address, web.start_urls, Config().replace({**values, "crawl.pages": pages}))
            assert found.run().visits == pages
            assert len(found.query("SELECT key FROM visits WHERE NOT is_robots")) == pages
    refused = pytest.raises(StoreError, match="the store ignores conditions")
    with Proxy(google.port, lambda _: STRIP) as proxy, at(google, tmp_path / "three", proxy), refused:
        Crawl(google.address(), web.start_urls, Config().replace(values)).run()


def test_killed_and_resumed_from_an_empty_cache(
    web: RunningWeb, weed: Server, plain: dict[str, str], tmp_path: Path
) -> None:
    address = weed.address()
    with (
        Proxy(weed.port) as proxy,
        at(weed, tmp_path / "one", proxy),
        running(*command(web, address), at=tmp_path) as process,
    ):
        process.wait_until(lambda: len(commits(proxy)) > 6, "the sixth commit")
        process.signal(signal.SIGKILL)
        process.finish()
    with at(weed, tmp_path / "reader"):
        named = {name for each in snapshots(ObjectStore.open(address)).values() for name in each.names()}
    with Proxy(weed.port) as proxy, at(weed, tmp_path / "two", proxy):
        succeed(*command(web, address), at=tmp_path)
        start = f"/{address.removeprefix('s3://')}/"
        read = {each.path.removeprefix(start) for each in proxy.asked if each.method == "GET" and not each.is_list}
        known = ("manifest/", "inbox/", "gossamer.json", "last-run.toml")
        fetched = {name for name in read if not name.startswith(known)}
        assert fetched
        assert fetched <= named
        assert not any(name.startswith("warc/") for name in fetched), "a crawl that goes on reads no old content"
    with at(weed, tmp_path / "three"):
        assert statuses(address, tmp_path) == plain
        assert answer("verify", address, "--json", at=tmp_path)["faults"] == []


def test_what_a_commit_costs(web: RunningWeb, weed: Server, tmp_path: Path) -> None:
    """No list and at most twelve puts a commit, when the crawl has begun; deletes go together. Small rounds whose files
    are soon merged are the hardest case."""
    hard = ["--width", "5", "--set", "archive.merge_files=6"]
    with Proxy(weed.port) as proxy, at(weed, tmp_path / "cache", proxy):
        succeed(*command(web, weed.address(), *hard), at=tmp_path)
        created, asked = commits(proxy), list(proxy.asked)
    puts = [sum(each.is_put for each in asked[first:last]) for first, last in pairwise(created[2:])]
    steady = asked[created[2] + 1 :]
    kinds = Counter("list" if each.is_list else "put" if each.is_put else each.method for each in steady)
    rounds = len(puts)
    assert rounds > 30
    assert max(puts) <= 12, puts
    assert sum(puts) <= 9 * rounds, puts
    assert kinds["list"] == 0
    assert kinds["POST"] <= rounds + 1, "all that a commit deletes goes in one request"


def test_of_two_crawls_at_an_address_the_first_ends(web: RunningWeb, weed: Server, tmp_path: Path) -> None:
    address = weed.address()
    slow = Config().replace(
        {"crawl.scope": "any", "crawl.width": 5, "polite.delay_s": 0.5, "resolve.map": {"*": web.address}}
    )
    slowly = command(web, address, "--delay", "0.5", "--width", "5")
    with at(weed, tmp_path / "one"), running(*slowly, at=tmp_path) as process:
        with at(weed, tmp_path / "two"):
            process.wait_until(lambda: _commits(address) > 2, "the second commit")
            Crawl(address, [], slow.replace({"crawl.rounds": 2})).run()
        code, _, said = process.finish()
    assert code == 1
    assert "another process has taken this crawl over" in said
    with at(weed, tmp_path / "three"):
        assert answer("verify", address, "--json", at=tmp_path)["faults"] == []


def _commits(address: Address) -> int:
    try:
        return len(ObjectStore.open(address, read_only=True).list("manifest/"))
    except Exception:  # before it has begun
        return 0


def test_no_secret_is_written_anywhere(web: RunningWeb, weed: Server, tmp_path: Path) -> None:
    address = weed.address()
    with at(weed, tmp_path / "cache"):
        done = run(*command(web, address, "--pages", "20"), at=tmp_path)
        assert done.returncode == 0
        texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        store = ObjectStore.open(address)
        texts += [store.get(name) for name in store.list("")] + [done.stdout, done.stderr]
    with at(weed, tmp_path / "cache", AWS_SECRET_ACCESS_KEY=f"{SECRET}-no-more"):
        texts += [run("status", address, at=tmp_path).stderr, run("crawl", "--dir", address, at=tmp_path).stderr]
    assert len(texts) > 20
    assert not any(SECRET.encode() in text for text in texts)


@pytest.mark.slow
def test_two_agents_share_a_bucket(web: RunningWeb, weed: Server, plain: dict[str, str], tmp_path: Path) -> None:
    address = weed.address()
    with at(weed, tmp_path / "one"):
        succeed(*command(web, address, "--agents", "2"), at=tmp_path)
    with at(weed, tmp_path / "two"):
        assert statuses(address, tmp_path) == plain
        assert len(answer("agents", address, "--json", at=tmp_path)["agents"]) == 2

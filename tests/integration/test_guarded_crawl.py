"""Crawls that ask a name server, as real ones do: whatever it answers, only public addresses are contacted.

Everything here is on loopback, so nothing may be reached at all, unless private addresses are allowed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crawls import QUICK, statuses
from name_server import AAAA, A, NameServer, Reply
from raw_server import Loopback, RawServer

from gossamer import Config, Crawl

NAMES: dict[str, list[tuple[int, str]]] = {
    "inner.test": [(A, "127.0.0.1")],
    "six.test": [(AAAA, "::1")],
    "127.0.0.1.nip.test": [(A, "127.0.0.1")],
    "two.test": [(A, "10.0.0.1"), (A, "127.0.0.1")],
    "mixed.test": [(A, "192.168.1.1"), (AAAA, "::ffff:127.0.0.1")],
    "metadata.test": [(A, "169.254.169.254")],
    "zero.test": [(A, "0.0.0.0")],
}


@pytest.fixture
def names() -> Iterator[NameServer]:
    def reply(name: str, kind: int) -> Reply:
        if name == "broken.test":
            return 2, []  # SERVFAIL
        if name not in NAMES:
            return 3, []  # NXDOMAIN
        return 0, [record for record in NAMES[name] if record[0] == kind]

    server = NameServer(reply)
    yield server
    server.close()


@pytest.fixture
def canary(loopback: Loopback) -> RawServer:
    return loopback.serve(lambda exchange: exchange.send_page(b"<html><a href=/next>x</a></html>"))


def crawl(directory: Path, names: NameServer, seeds: list[str], **changes: Any) -> Crawl:
    values = {**QUICK, "crawl.patience_s": 2.0, "fetch.retries": 1, "fetch.contact": "test@gossamer-tests.org"}
    values |= {"resolve.nameservers": [names.address], **{f"resolve.{name}": v for name, v in changes.items()}}
    found = Crawl(directory, seeds, Config().replace(values))
    found.run()
    return found


def test_t074_t076_names_of_forbidden_addresses(tmp_path: Path, names: NameServer, canary: RawServer) -> None:
    seeds = [f"http://{name}:{canary.port}/{i}" for name in NAMES for i in range(3)]
    found = crawl(tmp_path, names, seeds)
    assert canary.connections == 0
    assert set(statuses(found).values()) == {"refused"}
    assert all(names.asked(name) == 1 for name in NAMES), "one look-up, whose answer is checked and used"
    (row,) = found.query("SELECT reason FROM visits WHERE host = 'inner.test' AND NOT is_robots LIMIT 1")
    assert row["reason"] == "127.0.0.1 is loopback"


def test_private_addresses_are_crawled_on_request(tmp_path: Path, names: NameServer, canary: RawServer) -> None:
    found = crawl(tmp_path, names, [f"http://inner.test:{canary.port}/"], private=True)
    assert set(statuses(found).values()) == {"fetched"}
    assert canary.paths == ["/robots.txt", "/", "/next"]


def test_t078_names_that_cannot_be_found(tmp_path: Path, names: NameServer) -> None:
    found = crawl(tmp_path, names, ["http://missing.test/", "http://broken.test/"])
    rows = found.query("SELECT host, outcome FROM visits")
    assert {(row["host"], row["outcome"]) for row in rows} == {
        ("missing.test", "no_name"), ("broken.test", "dns_failed"),
    }  # fmt: skip
    assert statuses(found)["http://missing.test/"] in ("failed", "gone")
    assert statuses(found)["http://broken.test/"] == "new", "it may be found later"


def test_malformed_replies_lose_no_other_host(tmp_path: Path, canary: RawServer) -> None:
    """One name server's nonsense is about one name; and a host whose first replies were nonsense is asked for again."""

    def reply(name: str, kind: int) -> Reply:
        if name == "nonsense.test" or (name == "mending.test" and server.asked(name) <= 3):
            return b"\x81\x80\x00\x01\x00\x01"
        return 0, [(A, "127.0.0.1")] if kind == A else []

    server = NameServer(reply)
    names = [*(f"h{number}.test" for number in range(10)), "nonsense.test", "mending.test", "last.test"]
    seeds = [f"http://{name}:{canary.port}/" for name in names]
    found = crawl(tmp_path, server, seeds, private=True, failed_ttl_s=1.0)
    server.close()
    assert {url for url, status in statuses(found).items() if status != "fetched"} == {
        seeds[names.index("nonsense.test")]
    }

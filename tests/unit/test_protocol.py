"""Messages between the processes of a crawl, of this version and of others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.cluster.federation_file import Site
from gossamer.cluster.protocol import (
    PROTOCOL,
    AgentOrders,
    AgentTask,
    Federated,
    Heartbeat,
    Summary,
    Wish,
    decode,
    decode_or_none,
    encode,
)
from gossamer.cluster.site_list import Members
from gossamer.config import Config
from gossamer.crawl.stats import Report, Stats
from gossamer.errors import TooNew, Unreadable
from gossamer.scan.messages import Done, Failed, Standing, read
from gossamer.sharing.control import Orders

STATS = Stats(1.0, 2.0, visits=3, run_visits=2, wire_bytes=5, outcomes={"ok": 2}, waits_until_s=7.5)
REPORT = Report(
    number=4, epoch=1, zones="0,4095", sent={"a1>a0": 3}, marks={"a0>a1": 2}, pages=None, rounds=2, idle="",
    next_due_s=9.5, backlog_bytes=0, committed_s=1.5, cpu_s=0.25, stats=STATS, clean={"lima": 2},
)  # fmt: skip
MEMBERS = Members(2, {"paris": 1.0, "lima": 0.0}, "ring", [{"paris": 1.0}])
CONFIG = Config().replace({"host": {"example.org": {"delay_s": 9.0}}, "resolve.map": {"*": "127.0.0.1:1"}})
MESSAGES = [
    Heartbeat(incarnation="1-a", life=1, pid=7, alive_s=0.5, report=REPORT),
    Heartbeat(incarnation="1-a", life=1, pid=7, alive_s=0.5),
    AgentOrders(incarnation="1-a", orders=Orders({"a0": "0-4095"}, 5, others={"a1": 9}, holding=True)),
    Wish(retire="a1"),
    AgentTask(
        name="a0", directory="/d", config=CONFIG, address={"url": "nats://x:1"}, incarnation="1-a", is_home=True,
        federation=Federated(site="paris", members=MEMBERS, sites={"paris": Site(countries=["fr"]), "lima": Site()}),
    ),
    Summary(finished=True, crossed={"lima": {"bytes": 3}}, stats=STATS, members=MEMBERS, over=["lima"]),
]  # fmt: skip


def test_a_site_spends_its_share_of_what_is_meant_for_all() -> None:
    members = Members(1, {"paris": 3.0, "lima": 1.0, "oslo": 0.0}, "ring")
    shares = {name: Federated(site=name, members=members, sites={}).share for name in members.weights}
    assert shares == {"paris": 0.75, "lima": 0.25, "oslo": pytest.approx(0.0, abs=1e-6)}
    assert shares["oslo"] > 0, "policies divide by budgets"


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_sent_is_what_arrives(message: object) -> None:
    assert decode(type(message), encode(message)) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_fields_of_a_later_gossamer_are_ignored(message: object) -> None:
    more = {**json.loads(encode(message)), "colour": {"red": [1]}}
    assert decode(type(message), json.dumps(more).encode()) == message


def test_a_later_version_of_the_protocol_is_refused() -> None:
    later = json.dumps({"protocol": PROTOCOL + 1, "retire": ["another", "meaning"]}).encode()
    with pytest.raises(TooNew, match=f"version {PROTOCOL + 1}"):
        decode(Wish, later)
    assert decode_or_none(Wish, later) is None


def test_what_a_version_with_other_zones_left_in_the_registrar_is_as_if_it_had_not_come() -> None:
    orders, beat = (json.loads(encode(message)) for message in (MESSAGES[2], MESSAGES[0]))
    orders["orders"]["owners"] = ["a0"] * 256
    del orders["orders"]["shares"]
    beat["report"]["zones"] = [0, 255]
    assert decode_or_none(AgentOrders, encode(orders)) is None
    assert decode_or_none(Heartbeat, encode(beat)) is None


def test_orders_say_who_owns_each_zone() -> None:
    orders = Orders({"a0": "0-2047,4095", "a1": "2048-4000"})
    assert [orders.owners[zone] for zone in (0, 2047, 2048, 4001, 4095)] == ["a0", "a0", "a1", "", "a0"]


@pytest.mark.parametrize("data", [b"", b"5", b"[]", b'{"retire": 5}', b'{"protocol": "x"}', b"\xff", b"[" * 100_000])
def test_what_is_no_message_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(Wish, data)


@given(st.binary(max_size=200))
def test_nothing_that_comes_breaks_a_reader(data: bytes) -> None:
    assert decode_or_none(Heartbeat, data) is None
    read(data)


def test_lines_of_a_client() -> None:
    assert read(encode(Standing({}))) == Standing({})
    assert read(encode(Done("a.test"))) == Done("a.test")
    assert read(encode(Failed("a.test", "why"))[:-3]) is None, "cut off, as of one that was killed"
    assert read(b'{"type": "later"}') is None


SLOW = """
import threading, time, msgspec
from gossamer.cluster.protocol import Versioned, decode

def slowly():
    time.sleep(0.5)
    return int

class Inner(msgspec.Struct):
    number: "slowly()" = 2

class New(Versioned, frozen=True, kw_only=True):
    inner: Inner
    first: int = 1

found = []
threads = [threading.Thread(target=lambda: found.append(decode(New, b'{"first": 3, "inner": {}}'))) for _ in range(8)]
for thread in threads:
    thread.start()
    time.sleep(0.02)
for thread in threads:
    thread.join()
assert [(each.first, each.inner.number) for each in found] == [(3, 2)] * 8, found
"""


def test_threads_that_meet_a_message_for_the_first_time() -> None:
    """Two of them must not look at once how it is to be decoded: the process would die. Here one takes its time."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", SLOW], cwd=root, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()

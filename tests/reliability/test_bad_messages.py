"""Messages that nobody can read come to a running crawl: it goes on, keeps them for whoever wants to see them, and ends
as if they had never come."""

import time
from pathlib import Path
from typing import Any

import nats_site
import pytest
from commands import ROOT, answer
from nats_site import connected, eventually
from site_support import LEASE_S, Site, check_same, snapshots
from support import Command

from gossamer.archive.bundle import bundled
from gossamer.archive.chain import Chain
from gossamer.archive.manifest import BUNDLE, HOSTS, LINKS, NEWS, PROTOCOL, REMOTE_LINKS, SEEDS, ZONES, Changes, Message
from gossamer.archive.resting import Resting
from gossamer.archive.state import replace
from gossamer.archive.store import Directory, Memory
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.nats_server import Server, read_address
from gossamer.crawl.inbox import Aside, Inbox, refused, set_aside
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(
    seed=41, hosts=24, pages=300, links=20.0, page_bytes=3_000.0, errors=0.0, robots_broken=0.0, crawl_delays=0.0,
    changing=0.0,
)  # fmt: skip
OPTIONS = [
    "--width", "20", "--scope", "any", "--connections", "16", "--depth", "250", "--delay", "0.1",
    "--set", "limits.depth_dynamic=250", "--set", f"site.lease_s={LEASE_S}", "--set", "fetch.timeout_s=5",
]  # fmt: skip
GOOD = {"number": "1", "part": "0", "parts": "1", "previous": "0", "kind": LINKS, "protocol": str(PROTOCOL)}
GARBAGE = b"\x00\xffgarbage\n"
# What is not a message of ours at all, and what is one that says nothing that can be read.
NO_ENVELOPE: list[dict[str, str] | None] = [
    None,
    {},
    *({name: text for name, text in GOOD.items() if name != gone} for gone in GOOD if gone != "protocol"),
    *({**GOOD, name: "x"} for name in GOOD if name != "kind"),
    {**GOOD, "number": "-1"},
    {**GOOD, "part": "5"},
    {**GOOD, "kind": "../../etc"},
    {**GOOD, "digest": "0123456789abcdef"},
]
NO_DATA = [
    (LINKS, GARBAGE), (LINKS, b""), (REMOTE_LINKS, GARBAGE), (REMOTE_LINKS, b"\xff" * 100),
    (SEEDS, GARBAGE), (NEWS, GARBAGE),
    (NEWS, b"[]"), (NEWS, b'{"scope": 5}'), (NEWS, b'{"pool": "much"}'), (NEWS, b'{"unknown": [-1]}'),
    (NEWS, b"[" * 50_000), (NEWS, b'{"moves": {"h": 5}}'), (NEWS, b'{"hosts": "", "site": 7}'),
]  # fmt: skip
REFUSED = [
    ("greetings", b"{}"), (ZONES, GARBAGE), (HOSTS, GARBAGE),
    (ZONES, b'{"zones": [1], "files": ["handover/x", "handover/y", "handover/z"], "quiet_until_s": 0}'),
]  # fmt: skip

site_ = pytest.fixture(nats_site.running, name="site")


@pytest.fixture(scope="module")
def undisturbed(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("alone") / "crawl"
    Command(web, directory, OPTIONS).finish(240)
    return directory


def send(wire: Wire, subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
    assert wire.call(lambda link: link.send(subject, data, headers))


def send_all(wire: Wire, to: str) -> None:
    """Garbage of every kind, each from a sender of its own; some as from the other agent."""
    for number, headers in enumerate(NO_ENVELOPE):
        send(wire, f"links.{to}.{'a0' if to == 'a1' else 'a1'}", GARBAGE + b"%d" % number, headers)
        send(wire, f"links.=.stranger{number}", GARBAGE, headers)
        send(wire, f"links.=0.bundler{number}", GARBAGE, {**(headers or {}), "kind": BUNDLE})
    send(wire, "links.=0.x", GARBAGE, {**GOOD, "kind": BUNDLE})
    for number, (kind, data) in enumerate([*NO_DATA, *REFUSED]):
        send(wire, f"links.{to}.x{number}", data, {**GOOD, "kind": kind})
    send(wire, f"links.{to}.later", GARBAGE, {"protocol": "99", "shape": "round"})
    for name in ("orders", "agents", "wishes", "receipts"):
        send(wire, f"$KV.{name}.{to}" + (".a0" if name == "receipts" else ""), GARBAGE)


def status(directory: Path) -> dict[str, Any]:
    return dict(answer("status", directory, "--json", at=ROOT))


@pytest.mark.timeout(400)
def test_a_crawl_goes_on_and_ends_as_if_nothing_had_come(web: RunningWeb, undisturbed: Path, tmp_path: Path) -> None:
    site = Site(web, tmp_path / "crawl", [*OPTIONS, "--agents", "2"])
    for until in (40, 10**9):  # the second time, garbage waits for those who begin
        with site.cared_for(), site.running() as process:
            site.wait_until(process, lambda until=until: site.visits() >= min(until, 80), "visits")
            wire = Wire(read_address(site.directory / "site") or {})
            try:
                assert wire.wait_up(20)
                for to in ("a0", "a1"):
                    send_all(wire, to)
            finally:
                wire.close()
            if until < 80:
                process.kill()
            else:
                site.end(process)
    check_same(site.directory, undisturbed)
    ended = [event for event in site.log_events() if event["event"] == "agent ended" and event["code"]]
    assert not ended, "nobody died of it"
    messages = status(site.directory)["messages"]
    assert messages["set_aside"] >= len(NO_ENVELOPE) + len(NO_DATA)
    assert any("version 99 of the protocol" in each["why"] for each in messages["refused"])
    assert any(each.get("kind") == "greetings" for each in messages["refused"])
    kept = [path.read_bytes().partition(b"\n")[2] for path in (site.directory / "aside").iterdir()]
    assert {GARBAGE, b"[]", b'{"scope": 5}'} <= set(kept)
    logged = [(site.directory / "log" / f"{name}.jsonl").read_text() for name in ("a0", "a1")]
    assert all('"message set aside"' in text and '"message refused"' in text for text in logged)


def test_garbage_in_the_inbox_of_one_agent(web: RunningWeb, undisturbed: Path, tmp_path: Path) -> None:
    """Another process put it there; the seeds before and after it count."""
    crawl = Command(web, tmp_path / "crawl", OPTIONS)
    store = Directory.prepare(crawl.directory, time.time())
    for number in range(3):
        Inbox(store).add(GARBAGE + b"%d" % number)
    crawl.finish(240)
    check_same(crawl.directory, undisturbed)
    assert set_aside(store) == 3
    assert status(crawl.directory)["messages"] == {"set_aside": 3, "refused": []}


def test_bad_messages_are_removed_and_later_versions_stay(site: Server) -> None:
    """Not even what is acknowledged around them takes them away; and nothing behind them is read before them."""
    wire, store = connected(site), Memory()
    try:
        sender, receiver = NatsExchange(wire, "a0"), NatsExchange(wire, "a1", aside=Aside("a1", store))
        one = Message("a0", 1, 0, "a1", b"one")
        assert sender.publish(one)
        send(wire, "links.a1.a0", GARBAGE, {"number": "2"})
        send(wire, "links.a1.a0", b"later", {**GOOD, "number": "2", "previous": "1", "protocol": str(PROTOCOL + 1)})
        assert sender.publish(replace(one, number=3, previous=2))
        eventually(lambda: refused(store) and set_aside(store))
        assert receiver.pending("a1", {}) == [one]
        receiver.acknowledge("a0>a1", 1)
        eventually(lambda: sender.confirmed("a0>a1") == 1)
        eventually(lambda: receiver.pending("a1", {"a0>a1": 1}) == [] and count(wire) == 2)
        (note,) = refused(store)
        assert note["sender"] == "a0"
        assert f"version {PROTOCOL + 1}" in note["why"]
        again = NatsExchange(wire, "a1", aside=Aside("a1", store))
        eventually(lambda: refused(store))
        assert again.pending("a1", {"a0>a1": 1}) == []
        assert count(wire) == 2
        assert set_aside(store) == 1
    finally:
        wire.close()


def test_a_bundle_is_removed_when_all_have_it_and_a_bad_one_at_once(site: Server) -> None:
    """A bad one is nobody's; one of a later version stays, and what is behind it waits."""
    wire, store = connected(site), Memory()
    try:
        aside = Aside("a1", store)
        sender, one, two = (NatsExchange(wire, name, aside=aside) for name in ("a0", "a1", "a2"))
        letters = [Message("a0", number, 0, to, b"x", previous=number - 1) for number in (1, 2) for to in ("a1", "a2")]
        first, second = bundled(letters)
        assert sender.publish(first)
        send(wire, "links.=0.a0", GARBAGE, {**GOOD, "kind": BUNDLE})
        send(wire, "links.=0.a9", first.data, {**GOOD, "kind": BUNDLE, "protocol": str(PROTOCOL + 1)})
        assert sender.publish(second)
        eventually(lambda: refused(store) and set_aside(store) and count(wire) == 3)
        assert one.pending("a1", {}) == letters[::2]
        assert two.pending("a2", {}) == letters[1::2]
        one.acknowledge("a0>a1", 2)
        eventually(lambda: sender.confirmed("a0>a1") == 2)
        two.acknowledge("a0>a2", 1)
        eventually(lambda: count(wire) == 2)
        again = NatsExchange(wire, "a2", aside=aside)  # it died with what it had in memory
        eventually(lambda: again.pending("a2", {"a0>a2": 1}) == letters[3:])
        again.acknowledge("a0>a2", 2)
        eventually(lambda: count(wire) == 1)
        assert set_aside(store) == 1
    finally:
        wire.close()


def count(wire: Wire) -> int:
    info = wire.call(lambda link: link._js.stream_info("links"))
    return int(info.state.messages)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "in_state",
    [pytest.param(True, marks=pytest.mark.slow, id="of an earlier version"), pytest.param(False, id="of this version")],
)
def test_more_hosts_rest_than_a_message_can_name(web: RunningWeb, tmp_path: Path, in_state: bool) -> None:
    """They change hands with their zones, there and back; the crawl goes on to its end, with one agent too."""
    site = Site(web, tmp_path / "crawl", [*OPTIONS, "--pages", "60"])
    site.finish(120)
    hosts = {f"resting-host-{number:06d}.example": (time.time() + 3_000.0, 1) for number in range(90_000)}
    store = Directory(site.directory)
    chain = Chain.open(store, "a0", Inbox(store))
    resting = Resting(store, chain)
    hosts |= resting.hosts
    changes = Changes() if in_state else resting.write(dict(hosts))
    state = replace(chain.state, resting=hosts if in_state else {})
    chain.commit(
        changes, state=state, marks={}, outbox=[], exchange=Inbox(store), applied=[],
        now_s=time.time(),
    )  # fmt: skip
    for agents, pages in ((2, 120), (1, 180)):
        more = Site(web, site.directory, [*OPTIONS, "--pages", str(pages), "--agents", str(agents)], seeds=[])
        with more.cared_for(), more.running() as process:
            more.end(process)
        at = snapshots(site.directory)
        found = {name: Resting(store, Chain(store, one, 0)).hosts for name, one in at.items()}
        assert sum(one.state.counters.visits for one in at.values()) == pages
        assert all(len(rests) > 40_000 for name, rests in found.items() if at[name].zones)
        together = {host: rest for rests in found.values() for host, rest in rests.items()}
        assert hosts.items() <= together.items()
    manifest = site.directory / "manifest" / "a0"
    assert max(path.stat().st_size for path in manifest.iterdir()) < 100_000 or in_state
    last = max(manifest.iterdir())
    assert last.stat().st_size < 100_000

"""The end of a federation's crawl, while sites cannot hear each other: nobody waits for what will never be said."""

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nats_site import eventually

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))

from crawls import QUICK
from federations import federation, write

from experiments.proxy import Proxy
from gossamer.archive.state import Members
from gossamer.clocks import VirtualClock
from gossamer.cluster.federation import prepare
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.jetstream import Link
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import Server, free_port
from gossamer.cluster.neighbours import Neighbours, publish
from gossamer.cluster.protocol import Summary
from gossamer.cluster.standing import read_summary
from gossamer.errors import SiteError
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

NAMES = ("north", "east", "south")
FINISHED = Summary(finished=True)


@dataclass
class Standing:
    """A site of which only the server and what it says of itself are real; the others reach it through a proxy."""

    federation: Federation
    name: str
    proxy: Proxy
    clock: VirtualClock = field(default_factory=VirtualClock)
    is_over: bool = False

    def __post_init__(self) -> None:
        self.neighbours = Neighbours(self.federation, self.name, self.clock)
        self.server = Server(self.federation.directory(self.name) / "site", self.neighbours.open)
        self.server.start()
        self.wire = Wire(self.server.address)
        assert self.wire.wait_up(30)
        self.neighbours.begin(self.wire)

    def look(self) -> None:
        """As a supervisor does, until it is over; then it says good-bye, and is gone."""
        if not self.is_over and self.neighbours.is_over(FINISHED):
            self.is_over = True
            self.neighbours.leave(FINISHED)
            self.close()

    def close(self) -> None:
        self.neighbours.close()
        self.wire.close()
        self.server.stop()


@dataclass
class Three:
    sites: dict[str, Standing]

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            for site in self.sites.values():
                site.look()

    def pass_s(self, seconds: float) -> None:
        for site in self.sites.values():
            site.clock.advance(seconds)

    def over(self) -> list[str]:
        return [name for name, site in self.sites.items() if site.is_over]

    def hear_each_other(self) -> bool:
        return all(None not in site.neighbours.ask().values() for site in self.sites.values())


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    behind = {name: free_port() for name in NAMES}
    proxies = {name: Proxy(port) for name, port in behind.items()}
    ports = {name: proxy.port for name, proxy in proxies.items()}
    made = load(write(tmp_path, ports, {}, 1, behind=behind))
    prepare(made)
    found = Three({name: Standing(made, name, proxies[name]) for name in NAMES})
    try:
        for site in found.sites.values():
            site.neighbours.is_over(Summary(finished=False))
        eventually(found.hear_each_other)
        yield found
    finally:
        for site in found.sites.values():
            site.close()
        for proxy in proxies.values():
            proxy.close()


def is_done(site: Standing) -> bool:
    """It knows that all is over."""
    return site.neighbours.is_done


def test_who_could_not_hear_the_others_hears_that_all_is_over(three: Three) -> None:
    """However long that was: whoever knows that all is over stays until everybody does."""
    east = three.sites["east"]
    east.proxy.cut()  # nobody hears east, and east hears all
    eventually(lambda: (three.look() or True) and is_done(east))
    for _ in range(6):
        three.pass_s(10.0)
        three.look()
    assert three.over() == [], "60 seconds later all are there"
    east.proxy.mend()
    eventually(lambda: (three.look() or True) and len(three.over()) == 3, 60.0)


def test_nobody_waits_for_ever_for_a_site_that_died(three: Three) -> None:
    """It knew that all was finished, as the others did, and said nothing more."""
    south = three.sites["south"]
    eventually(lambda: (three.look() or True) and is_done(three.sites["north"]))
    south.is_over = True
    south.close()
    left = [three.sites[name].neighbours for name in ("north", "east")]
    eventually(lambda: (three.look() or True) and [site.waiting_for for site in left] == [["south"]] * 2, 60.0)
    assert three.over() == ["south"]
    three.pass_s(2_000.0)
    eventually(lambda: (three.look() or True) and len(three.over()) == 3, 60.0)


def test_an_end_that_nothing_disturbs_waits_for_nobody(three: Three) -> None:
    """No time passes at all."""
    eventually(lambda: (three.look() or True) and len(three.over()) == 3, 60.0)


def test_garbage_in_a_server_is_not_taken_for_how_a_site_stands(three: Three) -> None:
    """A site that runs is asked itself. In its server one looks if it does not answer: when it is gone, say."""
    north, east = three.sites["north"].neighbours, three.sites["east"]
    for data in (b"garbage", b"[]", b"{}", b'{"done": 1}'):

        async def put(link: Link, data: bytes = data) -> int:
            return await link.send("$KV.standing.east", data)

        east.wire.call(put)
        assert read_summary(north._wires["east"], "east") is None
        answer = north.ask(is_new=True)["east"]
        assert answer is not None
        assert answer.members == east.neighbours.members
    eventually(lambda: (three.look() or True) and len(three.over()) == 3, 60.0)


def test_a_single_site_cannot_declare_another_one_gone(three: Three) -> None:
    """Most of those that answer must say so."""
    north = three.sites["north"].neighbours
    list_ = Members(99, {"north": 0.0, "east": 1.0, "south": 1.0}, "ring")
    forged = Summary(finished=False, members=list_, addresses={"north": ""})

    def says(site: str) -> None:
        three.sites[site].neighbours._teller.set(forged)
        publish(three.sites[site].wire, site, forged)
        eventually(lambda: (other := north.ask()[site]) and other.members == list_, 60.0)

    says("east")
    assert not north.is_over(Summary(finished=False))
    says("south")
    with pytest.raises(SiteError, match="by version 99 of the list of sites north is gone"):
        north.is_over(Summary(finished=False))


def test_a_site_that_is_stopped_while_nobody_hears_it(tmp_path: Path) -> None:
    """Its good-bye is where the others look when they cannot reach it: in their own servers."""
    spec = WebSpec(seed=8, hosts=20, pages=200, page_bytes=2_000.0, links=10.0, errors=0.0, robots_broken=0.0,
                   crawl_delays=0.0, changing=0.0)  # fmt: skip
    behind = {"east": free_port()}
    proxy = Proxy(behind["east"])
    ports = {"north": free_port(), "east": proxy.port}
    with RunningWeb(spec) as web, contextlib.closing(proxy):
        values = {**QUICK, "polite.delay_s": 0.05, "site.lease_s": 3.0, "resolve.map": {"*": web.address}}
        with federation(tmp_path, ["north", "east"], values, ports=ports, behind=behind) as sites:
            sites.start_all(*web.start_urls)
            sites.wait_for_visits(40)
            proxy.cut()
            east = sites.processes["east"]
            east.send_signal(signal.SIGINT)
            assert east.wait(60) == 0
            time.sleep(1.0)
            proxy.mend()
            sites.wait()
            assert sites.visits("north") > 0

"""What every Channel between a scan's coordinator and a client does: pipes, and a nats-server with certificates."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from experiments.processes import family
from gossamer.clocks import RealClock
from gossamer.cluster.federation_file import load
from gossamer.scan.channel import Channel, Said, Worker
from gossamer.scan.defaults import defaults
from gossamer.scan.facts import Facts, Places
from gossamer.scan.gathering import Gathering
from gossamer.scan.joining import Joining
from gossamer.scan.process import Process
from gossamer.scan.websites import Website
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

PATIENCE_S = 60.0
NUMBER = 7  # of the client; any
SPEC = WebSpec.plain(seed=34, hosts=3, pages=40, page_bytes=1_500.0, links=8.0, local=0.7)


@pytest.fixture(scope="module")
def web() -> Iterator[RunningWeb]:
    with RunningWeb(SPEC) as running_web:
        yield running_web


@dataclass
class End:
    """The coordinator's end of a channel whose client was greeted."""

    places: Places
    said: Said
    channel: Channel
    heard: list[dict[str, Any] | None] = field(default_factory=list)

    def hear(self, kind: str | None) -> dict[str, Any]:
        """The next message of a kind; reports may come at any time."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            number, message = self.said.get(timeout=max(0.0, end_s - time.monotonic()))
            assert number == NUMBER
            self.heard.append(message)
            if kind is None and message is None:
                return {}
            if message is not None and kind in message:
                return message


@pytest.fixture(params=["pipes", "nats"])
def end(request: pytest.FixtureRequest, tmp_path: Path, web: RunningWeb) -> Iterator[End]:
    places = Places(tmp_path / "here" / "0001")
    said: Said = Queue()
    places.prepare()
    values = {"resolve.map": {"*": web.address}, "polite.delay_s": 0.05, "crawl.patience_s": 1.0, "site.lease_s": 3.0}
    config = defaults().replace(values).values()
    greeting = {"client": "tokyo_a0", "scan": str(places.scan), "config": config, "keep": False}
    if request.param == "pipes":
        channel = Process(NUMBER, Worker("tokyo_a0"), said)
        channel.tell(greeting)
        yield End(places, said, channel)
        channel.kill()
        channel.close(0.0)
        return
    with Joined(tmp_path) as gathering:
        remote = gathering.open(NUMBER, Worker("tokyo_a0", is_remote=True), said)
        remote.tell(greeting)
        yield End(places, said, remote)
        remote.close(0.0)


class Joined:
    """A coordinator's site, and a client of another one, in threads of this process."""

    def __init__(self, here: Path) -> None:
        path = here / "two.toml"
        path.write_text("".join(f'[sites.{name}]\naddress = "127.0.0.1:{_port()}"\n' for name in ("paris", "tokyo")))
        self._gathering = Gathering(here / "site", load(path), "paris", lease_s=3.0)
        self._joining = Joining(load(path), "tokyo", "paris", here / "there", RealClock())
        self._thread = threading.Thread(target=self._joining.run, args=(lambda _: None,))

    def __enter__(self) -> Gathering:
        self._gathering.__enter__()
        self._thread.start()
        return self._gathering

    def __exit__(self, *_: object) -> None:
        self._joining.stop()
        self._thread.join()
        self._gathering.__exit__(None)


def _port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_it_reports_echoes_and_scans(end: End) -> None:
    assert end.hear("at")["at"] == {}
    for text in ("", "x" * 40_000):
        end.channel.tell({"echo": text, "s": 1.5})
    assert [end.hear("echo") for _ in range(2)] == [{"echo": "", "s": 1.5}, {"echo": "x" * 40_000, "s": 1.5}]
    website = Website("h1.test", "http://h1.test/")
    end.channel.tell({"begin": website.name, "start": website.start})
    assert end.hear("done") == {"done": "h1.test"}
    facts = Facts.read(end.places.facts(website))
    assert (facts.status, facts.client) == ("ok", "tokyo_a0")
    assert facts.links
    assert end.places.links(website).stat().st_size == facts.result_bytes
    end.channel.tell({"begin": "nowhere", "start": "ftp://nowhere"})
    assert end.hear("failed")["failed"] == "nowhere"


def test_the_end_of_a_client_is_heard_of(end: End) -> None:
    end.hear("at")
    end.channel.tell({"begin": "h0.test", "start": "http://h0.test/"})
    while not end.hear("at")["at"]:
        pass
    for pid in family(os.getpid())[1:]:
        if b"gossamer.scan.client" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    end.hear(None)
    assert not end.places.facts(Website("h0.test", "")).exists()
    assert end.channel.kill() in ("signal 9", "its process ended")

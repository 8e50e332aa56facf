"""What every Channel between a scan's coordinator and a client does: pipes, and a nats-server with certificates."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import TypeVar

import pytest

from experiments.processes import family
from gossamer.clocks import RealClock
from gossamer.cluster.engine import Channel
from gossamer.cluster.federation_file import load
from gossamer.cluster.nats_server import free_port
from gossamer.cluster.processes import Processes
from gossamer.cluster.protocol import encode
from gossamer.scan.clients import job_of
from gossamer.scan.defaults import defaults
from gossamer.scan.gathering import Gathering
from gossamer.scan.joining import Joining
from gossamer.scan.messages import Begin, ClientTask, Done, Echo, Failed, Message, Standing, read
from gossamer.scan.records import Facts, ScanFolder
from gossamer.scan.websites import Website
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

PATIENCE_S = 60.0
SPEC = WebSpec.plain(seed=34, hosts=3, pages=40, page_bytes=1_500.0, links=8.0, local=0.7)


T = TypeVar("T")


@dataclass
class End:
    """The coordinator's end of a channel whose client was greeted."""

    files: ScanFolder
    channel: Channel
    lines: "Queue[bytes | None]" = field(default_factory=Queue)

    def send(self, message: Message) -> None:
        self.channel.send(encode(message))

    def receive(self, kind: type[T]) -> T:
        """The next message of a kind; reports may come at any time."""
        while True:
            line = self._next()
            assert line is not None
            if isinstance(message := read(line), kind):
                return message

    def wait_for_its_end(self) -> None:
        while self._next() is not None:
            pass

    def _next(self) -> bytes | None:
        return self.lines.get(timeout=PATIENCE_S)


@pytest.fixture(params=["pipes", "nats"])
def end(request: pytest.FixtureRequest, tmp_path: Path, web: RunningWeb) -> Iterator[End]:
    files = ScanFolder(tmp_path / "here" / "0001")
    lines: Queue[bytes | None] = Queue()
    files.prepare()
    values = {"resolve.map": {"*": web.address}, "polite.delay_s": 0.05, "crawl.patience_s": 1.0, "site.lease_s": 3.0}
    task = ClientTask(client="tokyo_a0", scan=str(files.scan), config=defaults().replace(values))
    if request.param == "pipes":
        process = Processes().start(job_of(task), lines.put)
        yield End(files, process, lines)
        process.close()
        return
    with Joined(tmp_path) as gathering:
        remote = gathering.open(task, lines.put)
        yield End(files, remote, lines)
        remote.close()


class Joined:
    """A coordinator's site, and a client of another one, in threads of this process."""

    def __init__(self, here: Path) -> None:
        path = here / "two.toml"
        path.write_text(
            "".join(f'[sites.{name}]\naddress = "127.0.0.1:{free_port()}"\n' for name in ("paris", "tokyo"))
        )
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


def test_it_reports_echoes_and_scans(end: End) -> None:
    assert end.receive(Standing).at == {}
    echoes = [Echo("", 1.5), Echo("x" * 40_000, 1.5)]
    for echo in echoes:
        end.send(echo)
    assert [end.receive(Echo) for _ in range(2)] == echoes
    website = Website("h1.test", "http://h1.test/")
    end.send(Begin(website.name, website.start))
    assert end.receive(Done).website == "h1.test"
    facts = Facts.read(end.files.facts(website))
    assert (facts.status, facts.client) == ("ok", "tokyo_a0")
    assert facts.links
    assert end.files.links(website).stat().st_size == facts.result_bytes
    end.send(Begin("nowhere", "ftp://nowhere"))
    assert end.receive(Failed).website == "nowhere"


def test_what_it_does_not_know_is_skipped(end: End) -> None:
    """A later version may have more kinds of messages, and more in them."""
    end.receive(Standing)
    end.channel.send(b'{"type":"later","x":1}')
    end.channel.send(b'{"type":"echo","text":"a","sent_s":2.0,"more":[1]}')
    assert end.receive(Echo) == Echo("a", 2.0)


def test_the_end_of_a_client_is_heard_of(end: End) -> None:
    end.receive(Standing)
    end.send(Begin("h0.test", "http://h0.test/"))
    while not end.receive(Standing).at:
        pass
    for pid in family(os.getpid())[1:]:
        if b"gossamer.scan.client" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    end.wait_for_its_end()
    assert not end.files.facts(Website("h0.test", "")).exists()
    assert end.channel.kill() in ("signal 9", "its process ended")

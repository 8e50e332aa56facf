"""A client is a process that scans the websites that its coordinator assigns, and reports its progress (`messages`)."""

import gc
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from gossamer.clocks import RealClock
from gossamer.cluster.protocol import decode, encode
from gossamer.crawl.stats import Stats
from gossamer.errors import GossamerError
from gossamer.runtime import tune
from gossamer.scan.facts import Places
from gossamer.scan.messages import Begin, ClientTask, Done, Echo, Failed, Left, Message, Progress, Standing, Stop, read
from gossamer.scan.waiting import in_words
from gossamer.scan.website import WebsiteScan
from gossamer.scan.websites import Website

_REPORT_S = 0.5  # how often a client reports its progress


class Client:
    def __init__(self, task: ClientTask) -> None:
        self._task, self._places, self._clock = task, Places(Path(task.scan)), RealClock()
        self._scans: dict[str, WebsiteScan] = {}
        self._at: dict[str, Progress] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def run(self, lines: Iterable[bytes]) -> None:
        """Works until the coordinator orders the end, or is gone."""
        reporting = threading.Thread(target=self._report, name="reporting", daemon=True)
        reporting.start()
        for line in lines:
            message = read(line)
            if isinstance(message, Begin):
                self._begin(Website(message.website, message.start))
            elif isinstance(message, Echo):
                self._send(message)
            elif isinstance(message, Stop):
                break
        for scan in list(self._scans.values()):
            scan.stop()
        for thread in self._threads:
            thread.join()
        self._ended.set()
        reporting.join()

    def _begin(self, website: Website) -> None:
        if self._places.facts(website).exists():  # it was done, but the report had not arrived
            self._send(Done(website.name))
            return
        task = self._task
        try:
            scan = self._scans[website.name] = WebsiteScan(website, self._places, task.config, self._clock, task.keep)
        except GossamerError as error:
            self._send(Failed(website.name, str(error)))
            return
        thread = threading.Thread(target=self._scan, args=(website, scan), name=website.name)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def _scan(self, website: Website, scan: WebsiteScan) -> None:
        def look(stats: Stats) -> None:
            self._at[website.name] = Progress(stats.visits, stats.wire_bytes, in_words(stats))

        message: Message
        try:
            facts = scan.run(self._task.client, look)
            message = Left(website.name) if facts is None else Done(website.name)
        except GossamerError as error:
            message = Failed(website.name, str(error))
        except Exception as error:  # one website must not take the others of this client with it
            message = Failed(website.name, repr(error)[:300])
        self._scans.pop(website.name, None)
        self._at.pop(website.name, None)
        self._send(message)
        del scan
        gc.collect()  # a crawler is a web of references with large tables in it; a scan has thousands of them

    def _report(self) -> None:
        self._send(Standing({}))
        while not self._ended.wait(_REPORT_S):
            self._send(Standing(dict(self._at)))

    def _send(self, message: Message) -> None:
        with self._lock:
            try:
                sys.stdout.buffer.write(encode(message) + b"\n")
                sys.stdout.buffer.flush()
            except BrokenPipeError:  # the coordinator is gone; standard input ends then too
                self._ended.set()


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are for the coordinator, which then stops its clients
    tune()
    gc.freeze()  # what is there now stays: each website looks only through what it made itself
    line = sys.stdin.buffer.readline()
    if line:
        Client(decode(ClientTask, line)).run(sys.stdin.buffer)
    gc.unfreeze()
    return 0


if __name__ == "__main__":
    sys.exit(main())

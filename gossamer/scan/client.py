"""A client is a process that scans the websites that its coordinator assigns, and reports its progress (`messages`).

All of them are in one crawl (`crawling`), which runs in a thread of its own. Another thread reads what was found of
websites that are done. Only two websites on one host, with different ports, need crawls of their own.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue

import msgspec
import pyarrow.parquet as pq

from gossamer.archive.outputs import replaced
from gossamer.archive.reading import reading
from gossamer.archive.store import sync
from gossamer.clocks import RealClock
from gossamer.cluster.protocol import decode, encode
from gossamer.errors import GossamerError
from gossamer.runtime import tune
from gossamer.scan.crawling import Open, ScanCrawl
from gossamer.scan.findings import findings
from gossamer.scan.messages import Begin, ClientTask, Done, Echo, Failed, Message, Standing, Stop, read
from gossamer.scan.records import ScanFolder
from gossamer.scan.websites import Website
from gossamer.web.url import normalise

_REPORT_S = 0.5  # how often a client reports its progress


class Client:
    def __init__(self, task: ClientTask) -> None:
        self._task, self._files, self._clock = task, ScanFolder(Path(task.scan)), RealClock()
        self._crawls: list[ScanCrawl] = []
        self._threads: list[threading.Thread] = []
        self._done: SimpleQueue[tuple[ScanCrawl, Open] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def run(self, lines: Iterable[bytes]) -> None:
        """Works until the coordinator orders the end, or is gone."""
        reporting = threading.Thread(target=self._report, name="reporting", daemon=True)
        finding = threading.Thread(target=self._find, name="finding", daemon=True)
        reporting.start()
        finding.start()
        for line in lines:
            message = read(line)
            if isinstance(message, Begin):
                self._begin(Website(message.website, message.start))
            elif isinstance(message, Echo):
                self._send(message)
            elif isinstance(message, Stop):
                break
        for crawl in self._crawls:
            crawl.stop()
        for thread in self._threads:
            thread.join()
        self._done.put(None)
        finding.join()
        self._ended.set()
        reporting.join()

    def _begin(self, website: Website) -> None:
        if self._files.facts(website).exists():  # it was done, but the report had not arrived
            self._send(Done(website.name))
        elif normalise(website.start) != website.start:
            self._send(Failed(website.name, f"{website.start} is no web address"))
        else:
            self._crawl_for(website).begin(website)

    def _crawl_for(self, website: Website) -> ScanCrawl:
        for crawl in self._crawls:
            if crawl.has_room_for(website):
                return crawl
        self._open()
        return self._crawl_for(website)

    def _open(self) -> None:
        folder = self._files.crawl(self._task.client, len(self._crawls))
        crawl = ScanCrawl(
            folder, self._task.config, self._clock, self._task.keep, lambda one: self._done.put((crawl, one))
        )
        thread = threading.Thread(target=self._crawl, args=(crawl,), name=folder.name, daemon=True)
        self._crawls.append(crawl)
        self._threads.append(thread)
        thread.start()

    def _crawl(self, crawl: ScanCrawl) -> None:
        try:
            crawl.run()
        except BaseException as error:
            # The main thread waits for the coordinator, which learns from our end that something is wrong.
            print(f"gossamer: {error}", file=sys.stderr, flush=True)
            os._exit(1)

    def _find(self) -> None:
        """Reads what was found of websites that are done, one after the other."""
        while (found := self._done.get()) is not None:
            crawl, one = found
            name = one.website.name
            message: Message = Done(name)
            try:
                self._write(crawl, one)
            except GossamerError as error:
                message = Failed(name, str(error))
            except Exception as error:  # one website must not take the others of this client with it
                message = Failed(name, repr(error)[:300])
            crawl.forget(one)
            self._send(message)

    def _write(self, crawl: ScanCrawl, one: Open) -> None:
        """Writes links and facts. The facts come last: a website with facts is done."""
        website, config, read_s = one.website, self._task.config, self._clock.now()
        links, facts = reading(
            crawl.folder, lambda at: findings(at, website, config, one.first_round, one.begun_s, one.took_s)
        )
        path = self._files.links(website)
        with replaced(path, force=True) as part:
            pq.write_table(links, part)
            sync(part)
        ended_s = self._clock.now()
        facts = msgspec.structs.replace(
            facts,
            client=self._task.client,
            result_bytes=path.stat().st_size,
            scan_s=facts.scan_s + ended_s - read_s,
            ended_s=ended_s,
        )
        facts.write(self._files.facts(website))

    def _report(self) -> None:
        self._send(Standing({}))
        while not self._ended.wait(_REPORT_S):
            self._send(Standing({name: at for crawl in list(self._crawls) for name, at in crawl.standing().items()}))

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
    line = sys.stdin.buffer.readline()
    if line:
        Client(decode(ClientTask, line)).run(sys.stdin.buffer)
    return 0


if __name__ == "__main__":
    sys.exit(main())

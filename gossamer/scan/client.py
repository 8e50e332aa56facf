"""A client: a process that scans the websites it is told to, and says how it stands, in lines of JSON (`channel`)."""

import gc
import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from gossamer.clocks import RealClock
from gossamer.config import Config
from gossamer.crawl.runtime import tune
from gossamer.crawl.stats import Stats
from gossamer.errors import GossamerError
from gossamer.scan.facts import Places
from gossamer.scan.waiting import in_words
from gossamer.scan.website import WebsiteScan
from gossamer.scan.websites import Website

_TELL_S = 0.5  # how often a client says how it stands


class Client:
    def __init__(self, told: dict[str, Any]) -> None:
        self._name, self._keep = str(told["client"]), bool(told["keep"])
        self._places = Places(Path(told["scan"]))
        self._config = Config().replace(told["config"])
        self._clock = RealClock()
        self._scans: dict[str, WebsiteScan] = {}
        self._at: dict[str, tuple[int, int, str]] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def run(self) -> None:
        """Until the coordinator says so, or is gone."""
        telling = threading.Thread(target=self._tell, name="telling", daemon=True)
        telling.start()
        for line in sys.stdin:
            told = json.loads(line)
            if "begin" in told:
                self._begin(Website(told["begin"], told["start"]))
            elif "echo" in told:
                self._say(told)
            else:
                break
        for scan in list(self._scans.values()):
            scan.stop()
        for thread in self._threads:
            thread.join()
        self._ended.set()
        telling.join()

    def _begin(self, website: Website) -> None:
        if self._places.facts(website).exists():  # it was done, and nobody had heard of it
            self._say({"done": website.name})
            return
        try:
            scan = self._scans[website.name] = WebsiteScan(website, self._places, self._config, self._clock, self._keep)
        except GossamerError as error:
            self._say({"failed": website.name, "why": str(error)})
            return
        thread = threading.Thread(target=self._scan, args=(website, scan), name=website.name)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def _scan(self, website: Website, scan: WebsiteScan) -> None:
        def look(stats: Stats) -> None:
            self._at[website.name] = (stats.visits, stats.wire_bytes, in_words(stats))

        try:
            facts = scan.run(self._name, look)
            said: dict[str, Any] = {"left": website.name} if facts is None else {"done": website.name}
        except GossamerError as error:
            said = {"failed": website.name, "why": str(error)}
        except Exception as error:  # one website must not take the others of this client with it
            said = {"failed": website.name, "why": repr(error)[:300]}
        self._scans.pop(website.name, None)
        self._at.pop(website.name, None)
        self._say(said)
        del scan
        gc.collect()  # a crawler is a web of references with large tables in it; a scan has thousands of them

    def _tell(self) -> None:
        self._say({"at": {}})
        while not self._ended.wait(_TELL_S):
            self._say({"at": dict(self._at)})

    def _say(self, message: dict[str, Any]) -> None:
        with self._lock:
            try:
                print(json.dumps(message), flush=True)
            except BrokenPipeError:  # the coordinator is gone; standard input says so too
                self._ended.set()


def main() -> int:
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # they are for the coordinator, which then stops its clients
        signal.signal(number, signal.SIG_IGN)
    tune()
    gc.freeze()  # what is there now stays: each website looks only through what it made itself
    line = sys.stdin.readline()
    if line:
        Client(json.loads(line)).run()
    gc.unfreeze()
    return 0


if __name__ == "__main__":
    sys.exit(main())

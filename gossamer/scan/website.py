"""`WebsiteScan` scans one website with the production crawler, and leaves the result where the coordinator looks."""

import shutil
from collections.abc import Callable

import pyarrow.parquet as pq

from gossamer.api import Crawl
from gossamer.archive.mark import is_trusted
from gossamer.archive.outputs import replaced
from gossamer.archive.reading import reading
from gossamer.archive.store import sync
from gossamer.clocks import Clock
from gossamer.config import Config
from gossamer.crawl.stats import Stats
from gossamer.scan.facts import Facts, Places
from gossamer.scan.findings import findings
from gossamer.scan.websites import Website, config_of

_UNTIL_STOPPED = "stopped"  # how the crawler reports this
_UNSYNCED = 200  # files, of some thirty commits: so much of a website a power failure may cost


class WebsiteScan:
    """Scans one website. `run` goes on where an earlier client left; `stop` may be called from any thread."""

    def __init__(self, website: Website, places: Places, config: Config, clock: Clock, keep: bool = False) -> None:
        self._website, self._places, self._clock, self._keep = website, places, clock, keep
        self._scope = config.crawl.scope
        self._config = config_of(website, config if keep else config.replace({"archive.unsynced": _UNSYNCED}))
        if (places.crawl(website)).exists() and not is_trusted(places.crawl(website)):
            shutil.rmtree(places.crawl(website))  # the power failed, and what is left of it is unknown
        self._crawl = Crawl(places.crawl(website), [website.start], self._config)
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._crawl.stop()

    def run(self, client: str, show: Callable[[Stats], None]) -> Facts | None:
        """Returns None if it was stopped before the end. The facts are written last: a website with facts is done."""
        begun_s = self._clock.now()

        def look(stats: Stats) -> None:
            if self._stopped:  # also if the order came before the crawl had begun
                self._crawl.stop()
            show(stats)

        if self._crawl.run(look).ended == _UNTIL_STOPPED:
            return None
        crawled_s = self._clock.monotonic()
        found = reading(self._crawl.directory, lambda at: findings(at, self._website, self._config, self._scope))
        path = self._places.links(self._website)
        with replaced(path, force=True) as part:
            pq.write_table(found.links, part)
            sync(part)
        facts = Facts(
            self._website.name,
            self._website.start,
            found.status,
            found.reason,
            client,
            errors=len(found.unread),
            links=len(found.links),
            result_bytes=path.stat().st_size,
            scan_s=found.busy_s + self._clock.monotonic() - crawled_s,
            delay_s=max(self._config.polite.delay_s, found.asked_s),
            asked_s=found.asked_s,
            begun_s=begun_s,
            ended_s=self._clock.now(),
            unread=found.unread,
            **found.figures,
        )
        facts.write(self._places.facts(self._website))
        if not self._keep:
            shutil.rmtree(self._crawl.directory, ignore_errors=True)
        return facts

"""`Observer` knows a crawl as it is now, from manifests, reports and the tables; it is asked for parts of that."""

import heapq
from pathlib import Path
from typing import Any

from gossamer.config.folders import Place
from gossamer.crawl.stats import CALM, refused_links, remedy
from gossamer.watch.advice import advice
from gossamer.watch.figures import printable
from gossamer.watch.history import COLUMNS, History
from gossamer.watch.monitor import FAR, Archive, Monitor, Row, totals
from gossamer.watch.thumbnails import REFERRERS, Thumbnails

_ROWS = 500_000  # of visits that are read at the start; older ones are left out of the figures over time
_FAR_ROWS = 100_000  # the same for a bucket: they have to be fetched
_NOW_S = 30  # the rate "now" is that of so many seconds before the last commit
_RESTING = 12


class Observer(Monitor):
    """`Observer` is a `Monitor` that also sums up what was visited."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.history, self.thumbnails = History(), Thumbnails()

    # What there is to see, as plain values

    def now(self) -> Row:
        """Returns the totals, by the same names and of the same sources as `gossamer status --json`."""
        found = totals(self._snapshots(), self.now_s)
        for name in FAR:
            there = [row[name] for row in self.elsewhere if row[name] is not None]
            found[name] = sum(there, found[name] or 0) if there else found[name]
        paces = [self._rate(), *(row["pages_per_s"] for row in self.elsewhere if row["state"] == "crawling")]
        known = [pace for pace in paces if pace is not None]
        due = [row["due_hosts"] for row in self.agents() if row["due_hosts"] is not None]
        return {
            "name": str(self.place),
            "is_federation": self.federation is not None,
            "state": self.state(),
            **found,
            "rate": {**found["rate"], "now": sum(known) if known else None},
            "due_hosts": sum(due) if due else None,
            "is_partial": self.history.is_partial,
        }

    def outcomes(self) -> list[Row]:
        """Returns outcomes of visits, most frequent first; trouble has its reasons, and what to do."""
        counted = self._counters.outcomes
        rows = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
        return [
            {"outcome": name, "visits": times, "is_trouble": name not in CALM}
            | ({} if name in CALM else {"advice": advice(name), "reasons": self.history.reasons(name)})
            for name, times in rows
        ]

    def refused(self) -> list[Row]:
        """Returns the settings that kept links from being followed, and what to do."""
        counted = refused_links(self._counters.refused)
        return [
            {"setting": name, "links": times, "remedy": remedy(name).removeprefix("links not followed: ")}
            for name, times in counted.items()
        ]

    def hosts(self) -> Row:
        """Returns the hosts that stand out, and those that rest."""
        resting = self.resting()
        soonest = heapq.nsmallest(_RESTING, resting)
        rows = [{"host": printable(host), "until_s": until_s, "failures": times} for until_s, host, times in soonest]
        return {**self.history.hosts(), "resting": rows, "resting_in_all": len(resting)}

    def resting(self) -> list[tuple[float, str, int]]:
        """Returns the hosts that rest now: until when, and after how many failures."""
        rests = [item for archive in self.archives.values() for item in archive.rests.items()]
        return [(until_s, host, failures) for host, (until_s, failures) in rests if until_s > self.now_s]

    def parts(self) -> dict[str, Any]:
        """Returns all that the page shows, by part, except for the series."""
        return {
            "now": self.now(),
            "problems": self.problems(),
            "outcomes": self.outcomes(),
            "refused": self.refused(),
            "hosts": self.hosts(),
            "agents": self.agents(),
            "sites": self.sites(),
            "carbon": self.history.carbon(),
            "pages": self.thumbnails.offered(self.history.pages()),
        }

    # How it is found out

    def _read(self, archive: Archive, is_slow: bool) -> None:
        if is_slow:
            archive.read_rests()
        follower = archive.follower
        found, is_partial = follower.rows("visits", COLUMNS, _ROWS if follower.is_near else _FAR_ROWS)
        self.history.is_partial |= is_partial
        for rows in found:
            self.history.add(rows)
        if not isinstance(follower.place, Path):
            return
        warcs = {name for at in follower.snapshots.values() for name in at.files.get("warc", [])} if found else ()
        if sum(self.thumbnails.add(follower.place, warcs, rows) for rows in found):
            for rows in follower.rows("pages", REFERRERS, _ROWS)[0]:
                self.thumbnails.add_referrers(rows)

    def _rate(self) -> float | None:
        """Returns pages per second before the last commit; None if nobody crawls."""
        last_s = max((at.time_s for at in self._snapshots()), default=None)
        if last_s is None or not any(row["pages_per_s"] is not None or row["process"] for row in self.agents()):
            return None
        if self.now_s - last_s > 4 * _NOW_S:
            return 0.0
        return self.history.recent.since(last_s - _NOW_S) / _NOW_S

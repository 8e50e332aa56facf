"""This experiment measures how fresh real crawls keep their archives, by refresh policy, with days in seconds.

Every policy crawls the same changing test webs anew, may make so many visits a day, and runs for so many days. The
web's time and the crawler's clock go equally fast. The web then says which stored versions were current at any time.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness import Results, Row, columns, publish, reach
from gossamer.api import Crawl
from gossamer.arrays import F64
from gossamer.carbon.energy import carbon_g
from gossamer.carbon.grid import means
from gossamer.config import REFRESH, Config
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.numbers import positive
from gossamer.testweb.log import Log
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb

DAY_S = 86_400.0
SPENT_G_PER_DAY = 0.02  # about, if nothing else is measured
POLICIES = ("fixed", "adaptive", "azar", "harmonic", "index", "green-index")
COUNTRIES = ("FR", "PL", "SE", "US", "DE", "IN")
_MEMORY = Path("/dev/shm")  # to sync a disk would take hours of the web's time
_TIMES = 200  # at which freshness is asked for
_PARTS = 8
PACED = 0.9  # fixed intervals are so much shorter than the budget allows: it sets the pace, of all policies alike
SHOWN = columns(
    "policy | requests | days | per_day: revisits a day | apart: ± | unchanged: found unchanged | freshness | "
    "ratio: of fixed | low: from | high: to | energy_kj: kJ | carbon_g: g CO2 | log_carbon_g: by the server's log | "
    "again_g: of refreshes | budget_g: budget"
)
Crawled = tuple[dict[str, Any], F64, F64]  # the row of a crawl; times, and freshness then


class FastClock:
    """Real time, so many times as fast from an epoch on: days pass in seconds, and real servers answer meanwhile."""

    def __init__(self, speed: float, epoch_s: float | None = None) -> None:
        self._speed = speed
        self._epoch_s = time.time() if epoch_s is None else epoch_s
        self._began_s = time.monotonic() - (time.time() - self._epoch_s)

    def now(self) -> float:
        return self._epoch_s + self.monotonic()

    def monotonic(self) -> float:
        return (time.monotonic() - self._began_s) * self._speed


@dataclass(frozen=True)
class Setting:
    """One web and one budget for all policies."""

    pages: int = 200
    hosts: int = 12
    changing: float = 0.6  # of the pages
    changes_per_day: float = 2.0  # of those, on average
    visits_per_page: float = 0.5  # a day
    days: float = 48.0
    speed: float = 40_000.0  # times real
    seed: int = 1
    carbon: float = 0.6  # of what the others spend: the budget of green policies

    @property
    def requests(self) -> int:
        """The first visits, and what the days allow."""
        return self.pages + int(self.pages * self.visits_per_page * self.days)

    @property
    def web(self) -> WebSpec:
        return WebSpec.plain(
            seed=self.seed, hosts=self.hosts, pages=self.pages, links=8.0, page_bytes=8_000.0, validators=1.0,
            changing=self.changing, changes_per_day=self.changes_per_day,
        )  # fmt: skip

    def config(self, policy: str, address: str, g_per_day: float) -> Config:
        hosts = SyntheticWeb(self.web).plan.hosts
        names = [hosts[number].name for number in range(self.hosts)]
        places = {name: COUNTRIES[number % len(COUNTRIES)] for number, name in enumerate(names)}
        values = {
            "crawl.scope": "any",
            "crawl.sitemaps": False,
            "crawl.width": 40,
            "crawl.round_s": 3600.0,
            "crawl.seed": self.seed,
            "crawl.patience_s": 30 * DAY_S,
            "crawl.pages": self.requests,
            "polite.delay_s": 0.0,
            "polite.robots": False,
            "polite.connections": 8,
            "fetch.timeout_s": 1e6,  # time flies
            "fetch.connect_timeout_s": 1e6,
            "resolve.map": {"*": address},
            "archive.merge_files": 0,
            "refresh.policy": policy,
            "refresh.weight": "alike",
            "refresh.least_s": 3600.0,
            "refresh.most_s": 30 * DAY_S,
            "refresh.interval_s": PACED * DAY_S / self.visits_per_page,
            "refresh.visits_per_day": self.visits_per_page * self.pages,
            "carbon.signal": "mean",
            "carbon.places": places,
            "carbon.g_per_day": g_per_day,
        }
        return Config().replace(values)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", action="append", choices=REFRESH[1:], help=f"(default: {', '.join(POLICIES)})")
    parser.add_argument("--pages", type=positive, default=Setting.pages, help=f"of the web (default: {Setting.pages})")
    parser.add_argument("--days", type=float, default=Setting.days, help=f"in its own time (default: {Setting.days:g})")
    parser.add_argument("--visits", type=float, default=Setting.visits_per_page, metavar="N",
                        help=f"per page and day (default: {Setting.visits_per_page:g})")  # fmt: skip
    parser.add_argument("--repeat", type=positive, default=5, metavar="N", help="webs, one by one (default: 5)")


def run(arguments: argparse.Namespace) -> int:
    setting = Setting(
        pages=arguments.pages, days=arguments.days, visits_per_page=arguments.visits, seed=arguments.seed + 1
    )
    publish(measure(setting, arguments.policy or POLICIES, arguments.repeat), arguments.out, arguments.json)
    return 0


def measure(setting: Setting, policies: Sequence[str], repeat: int = 1) -> Results:
    load = [os.getloadavg()[0]]
    by_web: list[list[Crawled]] = []
    for number in range(repeat):
        by_web.append(_on_one_web(replace(setting, seed=setting.seed + number), policies))
        load.append(os.getloadavg()[0])
    rows, curves = [], []
    for crawls in zip(*by_web, strict=True):  # of one policy
        rows.append(_row([row for row, _, _ in crawls]))
        times_s, freshness = (np.mean([crawl[part] for crawl in crawls], axis=0) for part in (1, 2))
        curves.append(Curve(rows[-1]["policy"], times_s / DAY_S, freshness))
    return Results(
        "refresh-real",
        f"Freshness of the archive, {setting.pages:,} pages, {setting.visits_per_page:g} visits per page and day",
        rows,
        SHOWN,
        notes=[
            "freshness: share of pages whose stored version is current, mean over the second half of the time",
            f"{setting.changing:.0%} of the pages change, {setting.changes_per_day:g} times a day on average",
            f"{setting.days:g} days and more, {setting.speed:,.0f} times as fast as real ones; means of {repeat} webs",
            "revisits a day, ±: half the range over the webs; from, to: 95 % interval (Student's) of the mean part of "
            "what fixed intervals keep fresh of the same web",
            f"load of the machine, {os.cpu_count()} cores: {min(load):.1f} to {max(load):.1f}",
            f"green policies may spend {setting.carbon:.0%} of the carbon that the others spend a day on refreshes",
        ],
        figures=[figure(curves)],
        series=_series(curves),
    )


def _on_one_web(setting: Setting, policies: Sequence[str]) -> list[Crawled]:
    plain = [policy for policy in policies if not policy.startswith("green")]
    green = [policy for policy in policies if policy.startswith("green")]
    found = _crawl_all(setting, plain, 0.0)
    spent = [row["again_g"] / row["days"] for row, _, _ in found] or [SPENT_G_PER_DAY]
    found += _crawl_all(setting, green, setting.carbon * float(np.mean(spent)))
    fixed = next((row["freshness"] for row, _, _ in found if row["policy"] == "fixed"), None)
    for row, _, _ in found:
        row["per_day"] = (row["requests"] - setting.pages) / row["days"]
        row["ratio"] = row["freshness"] / fixed if fixed else None
        print(f"web {setting.seed}, {row['policy']}: {row['freshness']:.4f} fresh", file=sys.stderr, flush=True)
    return found


def _row(crawls: Sequence[Row]) -> Row:
    """Returns the means of one policy's crawls."""
    means: dict[str, Any] = {
        key: value if value is None or isinstance(value, str) else float(np.mean([each[key] for each in crawls]))
        for key, value in crawls[0].items()
    }
    means["apart"] = float(np.ptp([each["per_day"] for each in crawls]) / 2)
    means["low"] = means["high"] = None
    if means["ratio"] and len(crawls) > 1:
        either_side = reach(float(np.std([each["ratio"] for each in crawls], ddof=1)), len(crawls))
        means["low"], means["high"] = means["ratio"] - either_side, means["ratio"] + either_side
    return means


def _crawl_all(setting: Setting, policies: Sequence[str], g_per_day: float) -> list[Crawled]:
    """All at once: they mostly wait, and a busy machine is busy for all of them."""
    with ThreadPoolExecutor(max(1, len(policies))) as pool:
        return list(pool.map(lambda policy: crawled(setting, policy, g_per_day), policies))


def crawled(setting: Setting, policy: str, g_per_day: float) -> Crawled:
    """One crawl: its row, and freshness over time."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as scratch:
        log_path = Path(scratch) / "log"
        options = ["--speed", str(setting.speed)]
        with RunningWeb(setting.web, log_path=log_path, options=options) as web:
            clock = FastClock(setting.speed, web.epoch_s)
            config = setting.config(policy, web.address, g_per_day)
            crawl = Crawl(Path(scratch) / "crawl", web.start_urls, config, clock)
            crawl.run()
            span_s = clock.now() - web.epoch_s
            log = web.log()
        times_s, freshness = history(crawl, web.truth, web.epoch_s, span_s)
        row = {"policy": policy, "days": span_s / DAY_S, **_totals(crawl), "log_carbon_g": logged_g(log, config)}
    row["freshness"] = float(freshness[len(freshness) // 2 :].mean())
    row["budget_g"] = g_per_day * span_s / DAY_S if g_per_day else None
    return row, times_s, freshness


def history(crawl: Crawl, truth: SyntheticWeb, epoch_s: float, span_s: float) -> tuple[F64, F64]:
    """Of all pages of the web, the share whose stored version is current, over time."""
    visits = crawl.query(
        "SELECT url, epoch_ms(time) / 1000 AS time_s FROM visits WHERE outcome IN ('ok', 'unchanged') AND NOT is_robots"
    )
    seen: dict[int, list[float]] = {}
    for visit in visits:
        seen.setdefault(truth.page(visit["url"]), []).append(visit["time_s"] - epoch_s)
    times_s = np.linspace(0, span_s, _TIMES)
    fresh = np.zeros(len(times_s))
    for page, visited_s in seen.items():
        visited_s.sort()
        versions = [truth.version(page, at_s) for at_s in visited_s]
        last = np.searchsorted(visited_s, times_s, side="right") - 1
        fresh += [at >= 0 and versions[at] == truth.version(page, t) for at, t in zip(last, times_s, strict=True)]
    return times_s, fresh / len(truth.pages())


def logged_g(log: Log, config: Config) -> float:
    """Grams by the server's own record: bytes it sent and requests it answered, at each host's place."""
    carbon = config.carbon
    energy_j = carbon.kwh_per_gb * 3.6e6 / 1e9 * log.bytes.astype(np.float64) + carbon.request_j
    country = np.array([carbon.places[host] for host in log.host.tolist()], np.str_)
    return float(carbon_g(energy_j, means(country)).sum())


def _totals(crawl: Crawl) -> dict[str, Any]:
    (row,) = crawl.query(
        "SELECT count(*) AS requests, avg((outcome = 'unchanged')::INT) AS unchanged,"
        " sum(energy_j) / 1000 AS energy_kj, sum(carbon_g) AS carbon_g,"
        " sum(carbon_g) FILTER (nth > 1) AS again_g"
        " FROM (SELECT *, row_number() OVER (PARTITION BY key ORDER BY time) AS nth FROM visits)"
    )
    return row


def figure(curves: Sequence[Curve]) -> Figure:
    """From hour to hour a share jumps with the visits: means of a while show what a policy does."""
    size = _TIMES // _PARTS
    mean = np.full(size, 1 / size)
    smooth = [Curve(c.label, c.x[size - 1 :], np.convolve(c.y, mean, "valid")) for c in curves]
    title = "Pages whose stored version is current, running mean"
    return Figure(
        "refresh-real", title, "days", "share of pages", [Curve(c.label, c.x[size:], c.y[size:]) for c in smooth]
    )


def _series(curves: Sequence[Curve]) -> list[Row]:
    return [
        {"policy": curve.label, "day": float(day), "freshness": float(share)}
        for curve in curves
        for day, share in zip(curve.x, curve.y, strict=True)
    ]

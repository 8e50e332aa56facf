"""This module makes one crawl by real sites; each is reached through a proxy that counts bytes and delays them."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.proxy import Proxy
from gossamer.archive import query
from gossamer.arrays import F64, U64
from gossamer.cluster import federation as federated
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.location import locate
from gossamer.cluster.nats_server import free_port
from gossamer.config import toml
from gossamer.crawl.stats import Stats

SITES = ("north", "east", "south", "west", "centre", "coast", "isle", "lake")
_STEADY = (0.1, 0.8)  # of the pages: before, sites begin; after, hosts run out


@dataclass(frozen=True)
class Setting:
    sites: int = 3
    partitioner: str = "ring"
    scores: str = "global"
    order: str = "opic"
    round_trip_ms: float = 0.0
    mb_per_s: float = 0.0  # between two sites, each way; 0: as many as there are
    connections: int = 32  # of each site
    width: int = 500  # of each site
    delay_s: float = 0.0
    pages: int = 0
    sent_cache: int = 1_000_000
    merge_files: int = 32
    replicas: int = 1
    agents: int = 1  # of each site

    @property
    def names(self) -> Sequence[str]:
        return SITES[: self.sites]

    def proxy(self, to: int) -> Proxy:
        return Proxy(to, self.round_trip_ms / 2000, self.mb_per_s * 1e6)

    def sections(self, web: str) -> dict[str, dict[str, Any]]:
        """The configuration of a crawl of this web."""
        return {
            "crawl": {"scope": "any", "patience_s": 3.0, "width": self.width, "sitemaps": False, "pages": self.pages,
                      "order": self.order},
            "site": {"scores": self.scores, "sent_cache": self.sent_cache},
            "polite": {"delay_s": self.delay_s, "robots": False, "connections": self.connections},
            "limits": {"depth": 250, "depth_dynamic": 250, "pages_per_host": 0, "pages_per_domain": 0,
                       "hosts_per_domain": 0},
            "archive": {"merge_files": self.merge_files},
            "resolve": {"map": {"*": web}},
        }  # fmt: skip

    def file(self, ports: dict[str, int], behind: dict[str, int], web: str) -> str:
        """The federation's."""
        sections: dict[str, dict[str, Any]] = {
            "federation": {"partitioner": self.partitioner, "replicas": self.replicas}
        }
        for name in self.names:
            sections[f"sites.{name}"] = {
                "address": f"127.0.0.1:{ports[name]}", "listen": f"127.0.0.1:{behind[name]}", "agents": self.agents
            }  # fmt: skip
        lines = []
        for section, keys in (sections | self.sections(web)).items():
            lines += [f"[{section}]", *(f"{key} = {toml(value)}" for key, value in keys.items())]
        return "\n".join(lines) + "\n"


class Phases(NamedTuple):
    """Of a round of one agent, in the mean. Fetching goes on during the others: it is what is left of the round."""

    generate_s: float
    fetch_s: float
    update_s: float  # with the commit
    pages: float
    rounds: float  # per agent


@dataclass(frozen=True)
class Crawled:
    """What a crawl has left behind."""

    where: Path  # what `gossamer query` takes
    directories: Sequence[Path]  # with logs
    crossed_by_time: Sequence[tuple[float, int]]  # seconds, bytes so far between all places, with whatever carries it

    @property
    def wire_bytes(self) -> int:
        """In the end, both ways."""
        return self.crossed_by_time[-1][1]

    def visited(self) -> tuple[U64, F64]:
        """Keys and times of the visits that brought something, in order."""
        sql = (
            "SELECT key, epoch_ms(time) / 1000.0 AS s FROM visits WHERE NOT is_robots AND outcome = 'ok' ORDER BY time"
        )
        with closing(query.open_database(locate(self.where))) as database:
            found = database.execute(sql).fetchnumpy()
        return np.asarray(found["key"], np.uint64), np.asarray(found["s"], np.float64)

    def wall_s(self) -> float:
        """From the first visit to the last."""
        times = self.visited()[1]
        return float(times[-1] - times[0])

    def pages_per_s(self) -> float:
        """While all sites are busy."""
        times = self.visited()[1]
        first, last = (int(len(times) * part) for part in _STEADY)
        return (last - first) / max(1e-3, float(times[last] - times[first])) if last > first else 0.0

    def commits(self) -> Iterator[dict[str, Any]]:
        """Those that brought pages, of all agents; `round_s` is the time since the one before."""
        for directory in self.directories:
            for file in sorted((directory / "log").glob("*a[0-9]*.jsonl")):
                before_s = 0.0
                for event in map(json.loads, file.read_text().splitlines()):
                    now_s = datetime.fromisoformat(event["time"]).timestamp()
                    if event["event"] == "commit" and event["visits"]:
                        yield {**event, "agent": file.stem, "round_s": now_s - before_s}
                    before_s = now_s

    def phases(self) -> Phases:
        commits = list(self.commits())
        generate_s, update_s, round_s, pages = (
            float(np.mean([event[name] for event in commits]))
            for name in ("generate_s", "seconds", "round_s", "visits")
        )
        agents = len({event["agent"] for event in commits})
        return Phases(generate_s, round_s - generate_s - update_s, update_s, pages, len(commits) / agents)


@dataclass(frozen=True)
class Done(Crawled):
    """The same of a federation."""

    federation: Federation
    setting: Setting

    @property
    def visits(self) -> dict[str, int]:
        return {name: federated.counters(self.federation, name).visits for name in self.setting.names}

    def crossed(self) -> dict[str, int]:
        """Letters to other sites: links, urls, keys, bytes, cache_hits."""
        total: dict[str, int] = {}
        for name in self.setting.names:
            for sent in federated.crossed(self.federation, name).values():
                for key, number in sent.items():
                    total[key] = total.get(key, 0) + number
        return total


class Watch:
    """Looks on while a crawl runs, and notes what has crossed."""

    def __init__(self, proxies: Callable[[], Iterable[Proxy]]) -> None:
        self._proxies, self._start_s = proxies, time.monotonic()
        self.seen: list[tuple[float, int]] = []

    def look(self, _: object = None) -> None:
        crossed = sum(proxy.sent + proxy.received for proxy in self._proxies())
        self.seen.append((time.monotonic() - self._start_s, crossed))


def crawl(
    setting: Setting, folder: Path, seeds: Path, web: str, show: Callable[[Stats], None] = lambda _: None
) -> Done:
    """`show` is called now and then."""
    folder.mkdir()
    with ExitStack() as stack:
        behind = {name: free_port() for name in setting.names}
        proxies = {name: stack.enter_context(closing(setting.proxy(port))) for name, port in behind.items()}
        path = folder / "sites.toml"
        path.write_text(setting.file({name: proxy.port for name, proxy in proxies.items()}, behind, web))
        federation = load(path)
        federated.prepare(federation)
        watch = Watch(lambda: proxies.values())

        def look(stats: Stats) -> None:
            watch.look()
            show(stats)

        federated.FederationRun(federation, [str(seeds)]).run(look)
        watch.look()
    return Done(path, [folder / name for name in setting.names], watch.seen, federation, setting)

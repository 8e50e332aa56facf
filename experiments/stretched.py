"""This module runs one logical crawler over two places (UniCrawl, section V-B2).

The production agents, one at each place, are a single site whose archive is spread over both. Started as a process,
this module is one of these agents. At the first place are the supervisor and nats-server too. Whatever an agent has
to do with the other place goes through a proxy: files that are stored there, and what the agents send to each other.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.proxy import Proxy
from experiments.sites_runs import Crawled, Setting, Watch
from experiments.spread import Shelf, Spread
from gossamer.archive.store import Directory, Store
from gossamer.clocks import RealClock
from gossamer.cluster.agent_process import main
from gossamer.cluster.members import Member
from gossamer.cluster.supervisor import Supervisor
from gossamer.config import Config
from gossamer.crawl.event_log import EventLog
from gossamer.crawl.seeds import hand_in
from gossamer.sharing.exchange import Inbox

PLACES = ("first", "second")


@dataclass(frozen=True)
class Stretched(Crawled):
    bytes_by_kind: Mapping[str, int]  # of what crossed: files, without what carries them


class _Supervisor(Supervisor):
    """Tells each agent where it is."""

    def __init__(
        self, folders: Sequence[Path], ports: Sequence[int], setting: Setting, *rest: Any, **more: Any
    ) -> None:
        super().__init__(folders[0], *rest, **more)
        self._folders, self._ports, self._setting = folders, ports, setting
        self.proxies: list[Proxy] = []  # one, to nats-server

    def _job(self, member: Member, quiet_until_s: float) -> dict[str, Any]:
        here = int(member.name != self._home)
        job = super()._job(member, quiet_until_s)
        job |= {"module": __name__, "directory": str(self._folders[here]), "here": here, "far": self._ports[here]}
        if here:
            self.proxies = self.proxies or [self._setting.proxy(int(self._address["url"].rpartition(":")[2]))]
            job["address"] = {**self._address, "url": f"nats://127.0.0.1:{self.proxies[0].port}"}
        return job


def crawl(setting: Setting, folder: Path, seeds: Path, web: str) -> Stretched:
    folder.mkdir()
    clock, sections = RealClock(), setting.sections(web)
    keys = {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}
    config = Config().replace({**keys, "site.agents": len(PLACES)})
    directories = [Directory.prepare(folder / name, clock.now()) for name in PLACES]
    folders = [directory.path for directory in directories]
    with ExitStack() as stack:
        shelves = [stack.enter_context(closing(Shelf(directory))) for directory in directories]
        # To the other place, by place.
        proxies = [stack.enter_context(closing(setting.proxy(shelf.port))) for shelf in reversed(shelves)]
        ports = [proxy.port for proxy in proxies]
        store = stack.enter_context(closing(Spread(directories[0], 0, ports[0])))
        log = stack.enter_context(EventLog(folders[0] / "log" / "crawl.jsonl"))
        stack.enter_context(store.lock(config.crawl.agent))
        hand_in(Inbox(store), [], [seeds])
        supervisor = _Supervisor(folders, ports, setting, config, clock, log, store=store)
        watch = Watch(lambda: [*proxies, *supervisor.proxies])
        supervisor.run(watch.look)
        watch.look()
        for proxy in supervisor.proxies:
            proxy.close()
        kinds = shelves[0].bytes_by_kind + shelves[1].bytes_by_kind
    whole = folder / "whole"
    for place in folders:
        shutil.copytree(place, whole, dirs_exist_ok=True)
    return Stretched(whole, folders, watch.seen, kinds)


def _opened(job: Mapping[str, Any], _: Config, __: float) -> Store:
    return Spread(Directory(job["directory"]), job["here"], job["far"])


if __name__ == "__main__":
    os._exit(main(_opened))  # threads that wait for a dead network must not hold us up

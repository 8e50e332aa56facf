"""This module runs one logical crawler over two places (UniCrawl, section V-B2).

The production agents, one at each place, are a single site whose archive is spread over both. Started as a process,
this module is one of these agents. At the first place are the supervisor and nats-server too. Whatever an agent has
to do with the other place goes through a proxy: files that are stored there, and what the agents send to each other.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from experiments.proxy import Proxy
from experiments.sites_runs import Crawled, Setting, Watch
from experiments.spread import Shelf, Spread
from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.cluster.agent_process import exit_code, given, run
from gossamer.cluster.engine import Job, Received
from gossamer.cluster.processes import Process, Processes
from gossamer.cluster.protocol import AgentTask, decode, encode
from gossamer.cluster.supervisor import Supervisor
from gossamer.config import Config
from gossamer.crawl.inbox import Inbox
from gossamer.crawl.seeds import hand_in
from gossamer.event_log import EventLog

PLACES = ("first", "second")


@dataclass(frozen=True)
class Stretched(Crawled):
    bytes_by_kind: Mapping[str, int]  # of what crossed: files, without what carries them


class _Places(Processes):
    """An Engine: each agent runs at its place, as a process of this module."""

    def __init__(self, home: str, folders: Sequence[Path], ports: Sequence[int], setting: Setting) -> None:
        self._home, self._folders, self._ports, self._setting = home, folders, ports, setting
        self.proxies: list[Proxy] = []  # one, to nats-server

    def start(self, job: Job, received: Received | None = None) -> Process:
        here, task = int(job.name != self._home), decode(AgentTask, job.task)
        task = msgspec.structs.replace(task, directory=str(self._folders[here]))
        if here:
            self.proxies = self.proxies or [self._setting.proxy(int(task.address["url"].rpartition(":")[2]))]
            url = f"nats://127.0.0.1:{self.proxies[0].port}"
            task = msgspec.structs.replace(task, address={**task.address, "url": url})
        arguments = (str(here), str(self._ports[here]))
        return super().start(replace(job, module=__name__, arguments=arguments, task=encode(task)), received)


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
        places = _Places(config.crawl.agent, folders, ports, setting)
        watch = Watch(lambda: [*proxies, *places.proxies])
        Supervisor(folders[0], config, clock, log, store=store, engine=places).run(watch.look)
        watch.look()
        for proxy in places.proxies:
            proxy.close()
        kinds = shelves[0].bytes_by_kind + shelves[1].bytes_by_kind
    whole = folder / "whole"
    for place in folders:
        shutil.copytree(place, whole, dirs_exist_ok=True)
    return Stretched(whole, folders, watch.seen, kinds)


def main(here: int, far: int) -> int:
    task, stopping = given()
    return exit_code(task.directory, lambda: run(task, Spread(Directory(task.directory), here, far), stopping))


if __name__ == "__main__":
    os._exit(main(*map(int, sys.argv[1:])))  # threads that wait for a dead network must not hold us up

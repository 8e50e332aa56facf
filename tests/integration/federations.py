"""What the federation tests share: sites as real processes, and what must hold of all of them together."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from commands import line

from gossamer.archive.bundle import messages_of
from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import HOSTS, LINKS, REMOTE_LINKS, Snapshot
from gossamer.archive.query import ask
from gossamer.archive.store import Directory
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.cluster.federation import prepare
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.location import locate
from gossamer.cluster.nats_server import free_port
from gossamer.cluster.replicas import holders, replica_of
from gossamer.cluster.site_list import of_file
from gossamer.config import toml
from gossamer.crawl.inbox import decode
from gossamer.crawl.ledger import Ledger
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.placement.hostmap import ENTRY, HostMap
from gossamer.placement.ring import Ring
from gossamer.sharing import compact
from gossamer.web.url import host_of

PATIENCE_S = 180.0


@dataclasses.dataclass
class Sites:
    """A federation in a folder, its sites as processes of this machine."""

    federation: Federation
    processes: dict[str, "subprocess.Popen[bytes]"] = dataclasses.field(default_factory=dict)
    patience_s: float = PATIENCE_S

    def start(self, site: str, *seeds: str, file: Path | None = None) -> None:
        """`file`: another one than all have."""
        self._start(site, "site", "run", "--quiet", "--name", site, str(file or self.federation.path), *seeds)

    def adopt(self, site: str) -> None:
        self._start(site, "federation", "adopt", "--quiet", str(self.federation.path), site)

    def _start(self, site: str, *arguments: str) -> None:
        with (self.federation.path.parent / f"{site}.err").open("ab") as words:
            self.processes[site] = subprocess.Popen(line(*arguments), stdin=subprocess.DEVNULL, stderr=words)

    def change(self, site: str, lines: str) -> None:
        """Edit the file of the running federation: these keys for a site, which may be new, and the next version."""
        path, version = self.federation.path, self.federation.shared.version + 1
        text = re.sub(r"^version = .*\n", "", path.read_text(), flags=re.MULTILINE)
        text = text.replace("[federation]\n", f"[federation]\nversion = {version}\n", 1)
        table = f"[sites.{site}]\n"
        text = text.replace(table, table + lines, 1) if table in text else text + table + lines
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)
        self.federation = load(path)
        prepare(self.federation)

    def start_all(self, *seeds: str) -> None:
        for site in self.federation.sites:
            self.start(site, *(seeds if site == self.federation.first else ()))

    def kill(self, site: str) -> None:
        """All of it, at once: nothing is said, nothing is finished."""
        process = self.processes.pop(site)
        family = _family(process.pid)
        for pid in (process.pid, *family):
            _signal(pid, signal.SIGKILL)
        process.wait()
        end_s = time.monotonic() + self.patience_s
        while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < end_s:
            time.sleep(0.02)

    def kill_server(self, site: str) -> None:
        """Its supervisor starts it again, at the same place."""
        config = str(self.federation.directory(site) / "site" / "nats.conf").encode()
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdigit() and config in (path / "cmdline").read_bytes():
                    os.kill(int(path.name), signal.SIGKILL)

    def wait(self) -> None:
        end_s = time.monotonic() + self.patience_s
        for site, process in self.processes.items():
            code = process.wait(max(1.0, end_s - time.monotonic()))
            assert code == 0, f"{site}: exit code {code}: {self.words(site)}"

    def words(self, site: str) -> str:
        return (self.federation.path.parent / f"{site}.err").read_text()

    def wait_for_visits(self, visits: int) -> None:
        end_s = time.monotonic() + self.patience_s
        while self.visits() < visits:
            assert time.monotonic() < end_s, f"no {visits} visits"
            assert any(process.poll() is None for process in self.processes.values())
            time.sleep(0.05)

    def hosts(self, site: str) -> list[str]:
        """Those of a site, by its indexes; while it runs, files may vanish."""
        while True:
            with suppress(FileNotFoundError):
                found = set()
                for index in self.indexes(site).values():
                    for rows in index.pages.scan():
                        found |= {host_of(url) for url in index.urls(rows)}
                return sorted(found)

    def pages(self, site: str) -> int:
        return sum(index.count for index in self.indexes(site).values())

    def visits(self, site: str = "") -> int:
        found = [at for name in self.federation.sites if site in ("", name) for at in self.at(name).values()]
        return sum(at.state.counters.visits for at in found)

    def replicated_visits(self, site: str) -> int:
        """What the replica has of a site's visits."""
        (holder,) = holders(list(self.federation.sites), site, 2)
        replica = replica_of(self.federation.directory(holder), site)
        found = (
            snapshots(Directory(replica)) if (replica / "gossamer.json").exists() else {}
        )  # a new holder has none yet
        return sum(at.state.counters.visits for at in found.values())

    def at(self, site: str) -> dict[str, Snapshot]:
        directory = self.federation.directory(site)
        return snapshots(Directory(directory)) if (directory / "gossamer.json").exists() else {}

    # What the archives say

    def statuses(self) -> dict[str, str]:
        rows = ask(locate(self.federation.path), "SELECT url, status FROM pages")
        found = {row["url"]: row["status"] for row in rows}
        assert len(found) == len(rows), "a page is known to two"
        return found

    def hits(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for site in self.federation.sites:
            for index in self.indexes(site).values():
                rows = np.concatenate([np.zeros(0, index.pages.dtype), *index.pages.scan()])
                found |= dict(zip(index.urls(rows), rows["hits"].tolist(), strict=True))
        return found

    def indexes(self, site: str) -> dict[str, PageIndex]:
        store = Directory(self.federation.directory(site))
        config = self.federation.config.index
        return {name: PageIndex.open(store, at.files, config) for name, at in self.at(site).items()}

    def owners(self, site: str) -> Ring | HostMap:
        """Who has which host, as a site sees it."""
        ring = Ring(of_file(self.federation).weights)
        if self.federation.shared.partitioner == "ring":
            return ring
        hosts, store = HostMap(ring), Directory(self.federation.directory(site))
        for at in self.at(site).values():
            for name in at.files.get("hostmap", []):
                hosts.record(np.frombuffer(store.get(name), ENTRY))
        return hosts

    def check_owned_once(self) -> None:
        for site in self.federation.sites:
            ring = self.owners(site)
            assert Counter(zone for at in self.at(site).values() for zone in at.zones) == Counter(range(ZONES_IN_ALL))
            for index in self.indexes(site).values():
                keys = np.concatenate([np.zeros(0, np.uint64), *(rows["key"] for rows in index.pages.scan())])
                owners = ring.of_keys(host_of_key(keys))
                assert set(owners.tolist()) <= {list(ring.sites).index(site)}, "a page at a site that does not own it"

    def missing_cash(self) -> int:
        """What all ledgers together lack, messages that are on their way counted: always 0."""
        everywhere = {name: at for site in self.federation.sites for name, at in self.at(site).items()}
        marks = {stream: number for at in everywhere.values() for stream, number in at.marks.items()}
        missing = on_its_way = 0
        for site in self.federation.sites:
            store, indexes = Directory(self.federation.directory(site)), self.indexes(site)
            for name, at in self.at(site).items():
                stored = sum(int(rows["cash"].sum()) for rows in indexes[name].pages.scan())
                missing += Ledger.of(at.state.ledger).missing(stored)
                for message in messages_of(store, at.outbox):
                    if message.number > marks.get(message.stream, 0):
                        rows = {LINKS: decode, REMOTE_LINKS: compact.decode}.get(message.kind)
                        on_its_way += int(rows(message.data).cash.sum()) if rows else 0
                        if message.kind == HOSTS and message.part == 0:
                            on_its_way += json.loads(message.data)["cash"]
        return missing - on_its_way


@contextmanager
def federation(
    folder: Path,
    names: list[str],
    values: Mapping[str, Any],
    agents: int = 1,
    ports: Mapping[str, int] | None = None,
    **shared: Any,
) -> Iterator[Sites]:
    """Sites with free ports; whatever happens in the block, none of their processes outlives it."""
    path = write(folder, ports or {name: free_port() for name in names}, values, agents, **shared)
    made = Sites(load(path))
    prepare(made.federation)
    try:
        yield made
    finally:
        for site in list(made.processes):
            made.kill(site)


def write(
    folder: Path,
    ports: Mapping[str, int],
    values: Mapping[str, Any],
    agents: int,
    behind: Mapping[str, int] | None = None,
    **shared: Any,
) -> Path:
    """`behind`: ports where servers listen that others reach elsewhere, through a proxy."""
    lines = ["[federation]", *(f"{name} = {toml(value)}" for name, value in shared.items())]
    for name, port in ports.items():
        lines += [f"[sites.{name}]", f'address = "127.0.0.1:{port}"', f"agents = {agents}"]
        lines += [f"latitude = {len(name)}.0", f"longitude = {len(name)}.0"]
        lines += [f'listen = "127.0.0.1:{behind[name]}"'] if behind and name in behind else []
    sections: dict[str, list[str]] = {}
    for name, value in values.items():
        section, _, leaf = name.partition(".")
        text = _map(value) if isinstance(value, Mapping) else json.dumps(value)
        sections.setdefault(section, []).append(f"{leaf} = {text}")
    for section, keys in sections.items():
        lines += [f"[{section}]", *keys]
    path = folder / "sites.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def _map(value: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{name}" = "{address}"' for name, address in value.items()) + "}"


def _family(pid: int) -> list[int]:
    """All processes that descend from one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(path.name))
    found, pending = [], [pid]
    while pending:
        new = children.get(pending.pop(), [])
        found += new
        pending += new
    return found


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)

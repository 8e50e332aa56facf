"""Ten machines, each a folder with nothing in it, are brought up by the commands of docs/federation.md, one each; an
operator elsewhere, who has the file and the keys of the federation and no archive, does the rest."""

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT, Process, answer, run, running, succeed
from crawls import QUICK, crawl, statuses
from federations import _family, write
from test_watch import watch

from gossamer.archive.chain import snapshots
from gossamer.archive.store import Directory
from gossamer.cluster.nats_server import free_port
from gossamer.cluster.replicas import holders, replica_of
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SITES = ("paris", "tokyo", "lima", "oslo", "cairo", "delhi", "quito", "perth", "bern", "lyon")
SPEC = WebSpec(
    seed=31, hosts=24, pages=160, page_bytes=1_500.0, links=15.0, local=0.6, errors=0.0, robots_broken=0.0,
    crawl_delays=0.0, changing=0.0,
)  # fmt: skip
VALUES: dict[str, Any] = {
    **QUICK, "crawl.width": 20, "limits.depth": 250, "limits.depth_dynamic": 250, "polite.connections": 4,
    "polite.delay_s": 0.1, "fetch.timeout_s": 600.0, "fetch.contact": "me@gossamer-tests.org",
}  # fmt: skip
_PATIENCE_S = 300.0


def commands(section: str) -> list[list[str]]:
    """The commands that a section of the page shows, as words after `gossamer`."""
    page = (ROOT / "docs" / "federation.md").read_text()
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("gossamer ")]


class Silent:
    """A web server that takes connections and is silent until it is closed: no crawl that knows it can end before."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._taken.append(self._listener.accept()[0])

    def __enter__(self) -> "Silent":
        return self

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for each in self._taken:
            each.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class Machines:
    """The folders, and the command that each of them was given."""

    def __init__(self, folder: Path, names: tuple[str, ...], web: RunningWeb, silent: "Silent") -> None:
        self.folder, self.names, self.web = folder, names, web
        self.processes: dict[str, Process] = {}
        self.tokens: dict[str, str] = {}
        for name in ("laptop", *names):
            (folder / name).mkdir(parents=True)
        values = {**VALUES, "resolve.map": {"*": web.address, "silent.test": silent.address}}
        write(self["laptop"], {name: free_port() for name in names}, values, 1, partitioner="region", replicas=2)

    def __getitem__(self, name: str) -> Path:
        return self.folder / name

    def invite(self, stack: contextlib.ExitStack) -> Process:
        """Runs what the page says, with our file in it."""
        invite, self._first, self._join, *_ = commands("On several machines")
        assert invite[:2] == ["federation", "invite"]
        inviting = stack.enter_context(running(*invite[:2], "sites.toml", at=self["laptop"]))
        assert inviting.inner.stdout is not None
        for _ in self.names:
            words, command = (inviting.inner.stdout.readline().decode() for _ in range(2))
            self.tokens[words.split()[4].strip(",")] = command.split()[-1]
        assert [*self.tokens] == [*self.names]
        return inviting

    def join(self, stack: contextlib.ExitStack, *names: str) -> None:
        """The same on machines, with their tokens and our seeds."""
        for name in names:
            line = self._first if name == self.names[0] else self._join
            words = [self.tokens[name] if word == "TOKEN" else word for word in line]
            words = [word for word in words if word != "https://example.org/"]
            seeds = [*self.web.start_urls, "http://silent.test/"] if line is self._first else []
            self.processes[name] = stack.enter_context(running(*words, *seeds, "--quiet", at=self[name]))

    def kill(self, name: str) -> None:
        process = self.processes.pop(name).inner
        for pid in (process.pid, *_family(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def wait_until(self, condition: Any, what: str) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while not condition():
            for name, process in self.processes.items():
                assert process.inner.poll() is None, f"{name} ended before {what}: {process.finish()}"
            assert time.monotonic() < end_s, f"no {what}"
            time.sleep(0.2)

    def asked(self, *words: str) -> Any:
        return answer(*words, "--json", at=self["laptop"])


def ends(log: Path) -> int:
    """How often the crawl there has ended by itself."""
    events = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    return sum(event["event"] == "end" and event["why"] != "stopped" for event in events)


def replicated(machines: Machines, holder: str, lost: str) -> int:
    replica = replica_of(machines[holder] / holder, lost)
    if not (replica / "gossamer.json").exists():
        return 0
    return sum(at.state.counters.visits for at in snapshots(Directory(replica)).values())


@pytest.fixture
def web() -> Iterator[RunningWeb]:
    with RunningWeb(SPEC) as running_web:
        yield running_web


@pytest.mark.parametrize("count", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_machines_are_brought_up_by_the_page(count: int, web: RunningWeb, tmp_path: Path) -> None:
    names = SITES[:count]
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(Silent())
        machines = Machines(tmp_path / "machines", names, web, silent)
        inviting = machines.invite(stack)
        machines.join(stack, *names)
        code, _, said = inviting.finish(_PATIENCE_S)
        assert code == 0
        assert sorted(said.splitlines()) == sorted(f"gossamer: {name} has joined" for name in names)
        holder_of = {name: holders(list(names), name, 2)[0] for name in names[1:]}

        def found() -> list[str]:
            return [name for name, holder in holder_of.items() if replicated(machines, holder, name)]

        machines.wait_until(found, "replica")
        lost = found()[0]
        holder = holder_of[lost]
        machines.kill(lost)

        def answering() -> set[str]:
            rows = machines.asked("federation", "status", "sites.toml")
            return {row["site"] for row in rows if row["state"] in ("crawling", "idle")}

        machines.wait_until(lambda: answering() == {*names} - {lost}, "answer of all sites but the one that is lost")
        with watch(machines["laptop"] / "sites.toml") as shown:

            def states() -> dict[str, str]:
                kind, first = next(shown.events())
                assert kind == "state"
                return {row["site"]: row["state"] for row in first["sites"]["sites"]}

            machines.wait_until(lambda: states().get(lost) == "not reached", "look at all sites")
            assert {name: state in ("crawling", "idle") for name, state in states().items()} == {
                name: name != lost for name in names
            }
            assert json.loads(shown.ask("/api/state")[2])["now"]["state"] == "running"
        words = run("federation", "adopt", "sites.toml", lost, free_port(), at=machines["laptop"])
        assert words.returncode == 0, words.stderr
        assert f"{lost} runs on the machine of {holder}" in words.stderr.decode()
        silent.close()
        for process in machines.processes.values():
            code, _, said = process.finish(_PATIENCE_S)
            assert code == 0, said
        machines.processes.clear()
        log = machines[holder] / lost / "log" / "crawl.jsonl"
        machines.wait_until(lambda: ends(log), f"end of {lost}")
    # The crawl is over: each machine lets its archive be read.
    with contextlib.ExitStack() as stack:
        for name in names:
            at = machines[holder if name == lost else name]
            serving = stack.enter_context(running("site", "serve", "--name", name, "sites.toml", at=at))
            assert serving.inner.stderr is not None
            assert b"can be read at" in serving.inner.stderr.readline()
        rows = machines.asked("federation", "status", "sites.toml")
        assert {row["site"]: row["state"] for row in rows} == dict.fromkeys(names, "ended")
        assert next(row["known"] for row in rows if row["site"] == lost) == 0, "it has given its hosts away"
        with watch(machines["laptop"] / "sites.toml") as shown:

            def seen() -> dict[str, Any]:
                return json.loads(shown.ask("/api/state")[2])["sites"]  # type: ignore[no-any-return]

            machines.wait_until(lambda: all(row["state"] == "ended" for row in seen()["sites"]), "answer of all sites")
            figures = ("site", "visits", "known", "frontier", "latitude")
            assert [[row[name] for name in figures] for row in seen()["sites"]] == [
                [row["site"], row["visits"], row["known"], row["frontier"], len(row["site"])] for row in rows
            ]
            now = json.loads(shown.ask("/api/state")[2])["now"]
            assert [now[name] for name in ("visits", "known", "frontier")] == [
                sum(row[name] for row in rows) for name in ("visits", "known", "frontier")
            ]
            assert now["state"] == "ended"
            flows = {(flow["from"], flow["to"]): flow["links"] for flow in seen()["flows"]}
            assert flows == {(row["site"], to): sent["links"] for row in rows for to, sent in row["crossed"].items()}
            assert len(flows) >= len(names)
        sql = "SELECT url, status FROM pages WHERE host != 'silent.test'"
        pages = machines.asked("query", "sites.toml", sql)
        alone = statuses(
            crawl(web, tmp_path / "alone", {key: value for key, value in VALUES.items() if key != "polite.delay_s"})
        )
        assert len(pages) == len(alone)
        assert {row["url"]: row["status"] for row in pages} == alone
        plan = machines.asked("federation", "rebalance", "sites.toml", "--apply")
        assert plan["applied"]
        text = succeed("federation", "status", "sites.toml", at=machines["laptop"])
        assert all(name in text for name in names)
    assert sorted(path.name for path in machines["laptop"].iterdir()) == ["keys", "sites.toml"]
    for name in names:
        keys = {path.name for path in (machines[name] / "keys").glob("*.key")}
        assert keys == {f"{name}.key"} | ({f"{lost}.key"} if name == holder else set())

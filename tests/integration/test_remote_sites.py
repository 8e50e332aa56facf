"""A federation whose sites are on other machines: each has nothing but its own directory, and the machine that asks has
none, only the file and a certificate."""

import contextlib
import json
import os
import shutil
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from commands import Process, answer, complaint, run, running, succeed
from crawls import QUICK
from federations import federation, write

from gossamer.archive.manifest import MOVES
from gossamer.archive.query import ask
from gossamer.archive.store import Directory
from gossamer.cluster.federation import prepare
from gossamer.cluster.federation import status as status_of_sites
from gossamer.cluster.federation_file import load
from gossamer.cluster.keys import OPERATOR, make_keys
from gossamer.cluster.location import locate
from gossamer.crawl.inbox import Inbox
from gossamer.errors import SiteError
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.watch.status import status

SITES = ("north", "east", "south")
SPEC = WebSpec(
    seed=21, hosts=20, pages=160, page_bytes=2_000.0, links=20.0, local=0.6, errors=0.0, robots_broken=0.0,
    crawl_delays=0.0, changing=0.0,
)  # fmt: skip
VALUES: dict[str, Any] = {
    **QUICK, "crawl.width": 60, "limits.depth": 250, "limits.depth_dynamic": 250, "polite.connections": 16,
}  # fmt: skip
# Both need rows of several sites at once: an answer put together from answers of single sites would be wrong.
MEDIAN = "SELECT count(*) AS n, median(length(url)) AS middle, count(DISTINCT host) AS hosts FROM pages"
ACROSS = """SELECT source.host AS source, target.host AS target, count(*) AS links
    FROM links JOIN pages source ON source.key = links.source JOIN pages target ON target.key = links.target
    GROUP BY ALL ORDER BY ALL"""


@dataclass
class Machines:
    """Folders that stand for machines: one for each site, one that asks, and one that has everything."""

    folder: Path

    def __getitem__(self, name: str) -> Path:
        return self.folder / name

    def file(self, name: str) -> Path:
        return self.folder / name / "sites.toml"

    @contextlib.contextmanager
    def served(self, *sites: str) -> Iterator[dict[str, Process]]:
        with contextlib.ExitStack() as stack:
            found = {}
            for site in sites:
                command = ("site", "serve", "--name", site, "sites.toml")
                found[site] = stack.enter_context(running(*command, at=self[site]))
            for process in found.values():
                assert process.inner.stderr is not None
                assert b"can be read at" in process.inner.stderr.readline()
            yield found


@pytest.fixture(scope="module")
def crawled(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file, the keys and the directories of three sites that have crawled."""
    folder = tmp_path_factory.mktemp("crawled")
    values = {**VALUES, "resolve.map": {"*": web.address}, "fetch.contact": "me@gossamer-tests.org"}
    with federation(folder, [*SITES], values, partitioner="region", remote_s=10.0) as sites:
        sites.start_all(*web.start_urls)
        sites.wait()
    return folder


@pytest.fixture
def machines(crawled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setenv("GOSSAMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    for name in (*SITES, "asker", "all"):
        (tmp_path / name / "keys").mkdir(parents=True)
        shutil.copy(crawled / "sites.toml", tmp_path / name)
        site = OPERATOR if name == "asker" else name
        for file in ("authority.pem", f"{site}.pem", f"{site}.key") if name != "all" else os.listdir(crawled / "keys"):
            shutil.copy(crawled / "keys" / file, tmp_path / name / "keys")
        for site in SITES:
            if name in (site, "all"):
                shutil.copytree(crawled / site, tmp_path / name / site)
    return Machines(tmp_path)


def asked(machines: Machines, sql: str) -> Any:
    return answer("query", "sites.toml", sql, "--json", at=machines["asker"])


def changed(path: Path, **keys: object) -> None:
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
    path.write_text(path.read_text().replace("[federation]\n", f"[federation]\n{lines}", 1))


def test_a_machine_without_archives_asks_all_sites(machines: Machines) -> None:
    whole = locate(machines.file("all"))
    with machines.served(*SITES):
        for sql in (MEDIAN, ACROSS):
            assert asked(machines, sql) == ask(whole, sql)
        assert ask(whole, MEDIAN)[0]["n"] > 100
        start = ask(whole, "SELECT url FROM pages WHERE host = 'h3.test' AND status = 'fetched' ORDER BY url")[0]["url"]
        assert "<html" in succeed("show", "sites.toml", start, at=machines["asker"]).lower()
        assert answer("versions", "sites.toml", start, "--json", at=machines["asker"])["version"] == 1
        urls = succeed("export", "sites.toml", "--urls", "-", at=machines["asker"]).splitlines()
        assert urls == [row["url"] for row in ask(whole, "SELECT url FROM pages ORDER BY url")]
        rows = answer("federation", "status", "sites.toml", "--json", at=machines["asker"])
        counted = answer("federation", "status", "sites.toml", "--json", at=machines["all"])
        assert [(row["site"], row["state"], row["visits"], row["known"]) for row in rows] == [
            (row["site"], "ended", row["visits"], row["known"]) for row in counted
        ]
    assert sorted(path.name for path in machines["asker"].iterdir()) == ["keys", "sites.toml"]


def test_a_site_that_is_down_is_named_and_the_rest_answered(machines: Machines) -> None:
    with machines.served("north", "south"):
        done = run("query", "sites.toml", MEDIAN, "--json", at=machines["asker"])
        assert done.returncode == 3
        note = done.stderr.decode()
        assert note.startswith(
            f"gossamer: without east: {machines['asker'] / 'east'} holds no crawl, and its server at"
        )
        assert note.count("\n") == 1
        assert "Connection refused" in note
        shutil.rmtree(machines["all"] / "east")
        sql = "SELECT count(*) AS n FROM pages"
        rest = run("query", "sites.toml", sql, "--json", at=machines["all"])
        assert json.loads(rest.stdout)[0]["n"] == json.loads(done.stdout)[0]["n"]
        with pytest.raises(SiteError, match=r"not all sites of .* can be read:\n  east: "):
            ask(locate(machines.file("asker")), MEDIAN)  # nobody was informed
        refused = complaint("federation", "rebalance", "sites.toml", at=machines["asker"])
        assert "not all sites of" in refused
        rows = answer("federation", "status", "sites.toml", "--json", at=machines["asker"])
        assert {row["site"]: row["state"] for row in rows} == {
            "north": "ended", "east": "not reached", "south": "ended",
        }  # fmt: skip
    nobody = complaint("query", "sites.toml", MEDIAN, at=machines["asker"])
    assert "no site of" in nobody
    assert all(f"\n  {site}: " in nobody for site in SITES)


@pytest.mark.slow
def test_a_site_that_is_silent_is_named(machines: Machines) -> None:
    """Its server listens and lets us in, but the process that answers does not."""
    changed(machines.file("asker"), remote_s=3.0)
    path = machines.file("asker")
    path.write_text(path.read_text().replace("remote_s = 10.0\n", "", 1))
    with machines.served("north", "south", "east") as processes:
        os.kill(processes["east"].inner.pid, 19)
        try:
            done = run("query", "sites.toml", MEDIAN, "--json", at=machines["asker"])
        finally:
            os.kill(processes["east"].inner.pid, 18)
    assert done.returncode == 3
    assert "without east: " in done.stderr.decode()
    assert "the site does not answer within 3 s" in done.stderr.decode()


def test_a_wrong_certificate_is_refused(machines: Machines) -> None:
    keys = machines["asker"] / "keys"
    with machines.served("north"):
        true = (keys / "authority.pem").read_bytes()
        shutil.rmtree(keys)
        without = complaint("query", "sites.toml", MEDIAN, at=machines["asker"])
        assert "there is no certificate in" in without
        make_keys(keys, [OPERATOR], datetime.now(UTC))
        assert "no certificate of north.gossamer.internal that" in complaint(
            "query", "sites.toml", MEDIAN, at=machines["asker"]
        )
        (keys / "authority.pem").write_bytes(true)
        refused = complaint("query", "sites.toml", MEDIAN, at=machines["asker"])
        assert "refuses the certificate" in refused
        assert "keys/operator.pem" in refused


@pytest.mark.slow
def test_bytes_are_limited(machines: Machines) -> None:
    with machines.served(*SITES):
        changed(machines.file("asker"), remote_mb=0.02)
        said = complaint("query", "sites.toml", MEDIAN, at=machines["asker"])
        assert "of federation.remote_mb = 0.02 only" in said
        assert "raise it in sites.toml" in said
        path = machines.file("asker")
        path.write_text(path.read_text().replace("remote_mb = 0.02\n", ""))
        assert asked(machines, MEDIAN) == ask(locate(machines.file("all")), MEDIAN)
        changed(path, remote_mb=0)
        assert asked(machines, MEDIAN), "what is in the cache need not be sent"


def test_hosts_are_rebalanced_from_a_machine_without_archives(machines: Machines) -> None:
    whole = answer("federation", "rebalance", "sites.toml", "--json", at=machines["all"])
    with machines.served(*SITES):
        plan = answer("federation", "rebalance", "sites.toml", "--json", at=machines["asker"])
        assert plan == whole
        assert plan["moves"], "hosts were placed by their names alone, and not well"
        operator = machines["asker"] / "keys" / "operator.key"
        operator.rename(operator.with_suffix(".away"))
        for kind in ("pem", "key"):  # the certificate of a site reads all of them, and gives no orders
            shutil.copy(machines["north"] / "keys" / f"north.{kind}", operator.parent)
        assert answer("federation", "rebalance", "sites.toml", "--json", at=machines["asker"]) == whole
        refused = complaint("federation", "rebalance", "sites.toml", "--apply", at=machines["asker"])
        assert "only the operator gives orders" in refused
        operator.with_suffix(".away").rename(operator)
        answer("federation", "rebalance", "sites.toml", "--apply", "--json", at=machines["asker"])
    ordered: dict[str, Mapping[str, str]] = {}
    for site in SITES:
        for message in Inbox(Directory(machines[site] / site)).pending("", {}):
            if message.sender == MOVES:  # the seeds of the crawl are there, too
                ordered[site] = json.loads(message.data)
    assert {site: dict(hosts) for site, hosts in ordered.items()} == {
        site: {row["host"]: row["to"] for row in plan["moves"] if row["from"] == site}
        for site in {row["from"] for row in plan["moves"]}
    }


@pytest.mark.slow
def test_sites_that_crawl_carry_orders_out(machines: Machines) -> None:
    """Sites that run again, each on its machine, hand over the hosts that they were ordered to, and nothing is lost."""
    sql = "SELECT url, status FROM pages ORDER BY url"
    before = ask(locate(machines.file("all")), sql)
    known = Counter({site: status(machines[site] / site)["known"] for site in SITES})
    with machines.served(*SITES):
        plan = answer("federation", "rebalance", "sites.toml", "--apply", "--json", at=machines["asker"])
    assert plan["moves"]
    with contextlib.ExitStack() as stack:
        command = ("site", "run", "--quiet", "--name")
        sites = [stack.enter_context(running(*command, site, "sites.toml", at=machines[site])) for site in SITES]
        assert [process.finish()[0] for process in sites] == [0, 0, 0]
    with machines.served(*SITES):
        assert asked(machines, sql) == before
    for row in plan["moves"]:
        known[row["from"]] -= row["pages"]
        known[row["to"]] += row["pages"]
    assert {site: status(machines[site] / site)["known"] for site in SITES} == known


def test_the_list_of_sites_is_changed_by_a_command(machines: Machines) -> None:
    """From a machine that has nothing but the operator's key; of two operators one is told to look again."""
    before = machines.file("asker").read_text()
    with machines.served("north", "east", "south"):
        done = answer("federation", "retire-site", "sites.toml", "south", "--json", at=machines["asker"])
        assert done == {"version": 2, "taken": [*SITES], "missing": {}}
        files = {machines.file(name).read_text() for name in (*SITES, "asker")}
        assert len(files) == 1
        new = load(machines.file("north"))
        assert (new.shared.version, new.sites["south"].weight) == (2, 0.0)
        machines.file("asker").write_text(before)
        late = complaint("federation", "lose-site", "sites.toml", "east", at=machines["asker"])
        assert "nothing was changed, as north decides which list is next" in late
        assert "its list is version 2, and not 1 any more" in late
        assert load(machines.file("east")).shared.version == 2
    shutil.copy(machines.file("north"), machines.file("asker"))
    with machines.served("north"):
        text = succeed("federation", "lose-site", "sites.toml", "south", at=machines["asker"])
        assert text.startswith("version 3 of the list of sites is at north\n  not at east: its server at")
        assert load(machines.file("north")).sites["south"].gone
        (machines["asker"] / "keys" / "operator.key").unlink()
        shutil.copy(machines["east"] / "keys" / "east.key", machines["asker"] / "keys")
        shutil.copy(machines["east"] / "keys" / "east.pem", machines["asker"] / "keys")
        refused = complaint("federation", "set", "sites.toml", at=machines["asker"])
        assert "only the operator gives orders" in refused
    usage = complaint("federation", "add-site", "sites.toml", "oslo", at=machines["asker"])
    assert "write `gossamer federation add-site sites.toml NAME HOST:PORT`" in usage


class Mute:
    """Servers that take connections and say nothing. `together`: all of them had one open at the same time."""

    def __init__(self, count: int) -> None:
        self.together = threading.Event()
        self._count, self._open, self._guard = count, Counter[int](), threading.Lock()
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.ports = [listener.getsockname()[1] for listener in self._listeners]
        for listener in self._listeners:
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._hold, args=(connection, listener.fileno()), daemon=True).start()

    def _hold(self, connection: socket.socket, at: int) -> None:
        with self._guard:
            self._open[at] += 1
            if len(+self._open) == self._count:
                self.together.set()
        with connection, contextlib.suppress(OSError):
            while connection.recv(65_536):
                pass
        with self._guard:
            self._open[at] -= 1

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()


def test_all_sites_are_asked_for_their_state_at_once(tmp_path: Path) -> None:
    """One that is slow keeps the others waiting no longer than itself."""
    with contextlib.closing(Mute(4)) as mute:
        made = load(write(tmp_path, dict(zip("abcd", mute.ports, strict=True)), {}, 1))
        prepare(made)
        rows = status_of_sites(made)
    assert [(row["site"], row["state"]) for row in rows] == [(name, "not reached") for name in "abcd"]
    assert mute.together.is_set()

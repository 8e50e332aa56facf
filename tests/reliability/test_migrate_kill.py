"""A migration that dies at every write, sync and rename, one after the other, loses nothing, and the next one ends
it; what it makes is a crawl that goes on."""

import multiprocessing
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from dying import Death, Operations, install
from earlier_archives import unpacked
from raw_server import Loopback
from scripted import VALUES, Web, page

from gossamer import Config, Crawl
from gossamer.archive.mark import LAYOUT, MARK, decode_mark
from gossamer.archive.migrate import migrate
from gossamer.archive.query import ask
from gossamer.errors import ArchiveVersion
from gossamer.repair.verify import verify

pytestmark = [pytest.mark.timeout(300)]

HOSTS = [f"h{number}.test" for number in range(4)]
PATHS = ("/", "/a")
MOST = 300  # operations of a migration
_FORKS = multiprocessing.get_context("fork")


def dies(directory: Path, death: Death) -> bool:
    """Whether it died before it was done."""

    def work() -> None:
        install(Operations(death))
        migrate(directory)
        os._exit(0)

    process = _FORKS.Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode in (0, -9)
    return process.exitcode != 0


def archive_of(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    names = {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}
    return {name: data for name, data in names.items() if not name.startswith(("tmp/", "lock/"))}


def is_done(directory: Path) -> bool:
    mark = decode_mark((directory / MARK).read_bytes())
    assert mark is not None
    return mark.layout == LAYOUT and not mark.migrating


def pages(directory: Path) -> list[dict[str, object]]:
    return ask(directory, "SELECT url, status FROM pages ORDER BY url")


@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power-cut"])
@pytest.mark.parametrize(
    ("name", "layout"), [("alone", 3), ("alone", 4), pytest.param("agents", 3, marks=pytest.mark.slow),
                         pytest.param("moving", 4, marks=pytest.mark.slow)],
)  # fmt: skip
def test_die_at_every_operation_of_a_migration(tmp_path: Path, name: str, layout: int, power_cut: bool) -> None:
    base = unpacked(name, tmp_path, layout)
    known, done = pages(base), shutil.copytree(base, tmp_path / "done")
    manifests = migrate(done)
    kinds: Counter[str] = Counter()
    number, refused, died = 0, 0, True
    while died:
        number += 1
        directory, report = shutil.copytree(base, tmp_path / f"{number}"), tmp_path / f"{number}.report"
        died = dies(directory, Death(number, directory, report, power_cut))
        kinds[report.read_text().splitlines()[-1].split()[0]] += 1
        assert pages(directory) == known, "it can be read at any time"
        assert verify(directory).faults == []
        if died and not is_done(directory):
            with pytest.raises(ArchiveVersion, match="gossamer migrate"):
                Crawl(directory, config=Config().replace({"fetch.contact": "me@gossamer-tests.org"})).run()
            refused += 1
        migrate(directory)
        assert archive_of(directory) == archive_of(done)
        assert migrate(directory) == 0
        shutil.rmtree(directory)
        assert number < MOST
    assert number - 4 < refused, "the last syncs come when all is done"
    assert refused > manifests * 3
    assert kinds.keys() >= {"write", "sync", "rename"}


@pytest.mark.parametrize(
    ("name", "layout", "agents", "left"),
    [("alone", 3, 1, 3), ("agents", 3, 2, 0), ("alone", 3, 2, 3),
     ("alone", 4, 1, 3), ("agents", 4, 2, 3), ("agents", 4, 3, 3), ("moving", 4, 2, 3), ("moving", 4, 1, 3)],
)  # fmt: skip
def test_a_migrated_crawl_goes_on(
    loopback: Loopback, tmp_path: Path, name: str, layout: int, agents: int, left: int
) -> None:
    links = [f"http://{host}{path}" for host in HOSTS for path in PATHS]
    web = Web(loopback, {link.removeprefix("http://"): page(*links) for link in links} | {"new.test/": page(*links)})
    directory = unpacked(name, tmp_path, layout)
    migrate(directory)
    values = {**VALUES, "resolve.map": {"*": f"127.0.0.1:{web.server.port}"}, "site.agents": agents}
    Crawl(directory, ["http://new.test/"], Config().replace({**values, "fetch.contact": "me@gossamer-tests.org"})).run()
    asked = [exchange.host + exchange.path for exchange in web.server.exchanges if exchange.path != "/robots.txt"]
    assert len(asked) == left + 1, "no page is visited again"
    visits = Counter(row["url"] for row in ask(directory, "SELECT url FROM visits WHERE NOT is_robots"))
    assert visits == Counter([*links, "http://new.test/"])
    assert {row["status"] for row in pages(directory)} == {"fetched"}
    assert verify(directory).faults == []

"""Archives of earlier layouts can be read and migrated; older and later ones are refused by number and version."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from earlier_archives import states, unpacked
from sample_archive import NOW_S, A, sample

from gossamer import Config, Crawl, __version__
from gossamer.archive.chain import snapshots
from gossamer.archive.mark import LAYOUT
from gossamer.archive.migrate import migrate
from gossamer.archive.query import ask
from gossamer.archive.state import AgentState, Counters
from gossamer.archive.store import Directory, Unchecked
from gossamer.archive.versions import content, version, versions
from gossamer.cli.app import main
from gossamer.config.last_run import remember
from gossamer.errors import ArchiveBusy, ArchiveVersion
from gossamer.frontier.pages import PageIndex, is_in, zone_of_host
from gossamer.repair.repair import Repair
from gossamer.repair.verify import verify
from gossamer.sharing.transfer import unowned
from gossamer.watch.status import status


@pytest.mark.parametrize("layout", [1, 2])
def test_a_layout_before_the_last_one_is_refused_by_number(tmp_path: Path, layout: int) -> None:
    directory = sample(tmp_path / "crawl")
    (directory / "gossamer.json").write_text(json.dumps({"layout": layout, "created": 1.0}))
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    for act in (
        lambda: ask(directory, "SELECT 1"),
        lambda: verify(directory),
        lambda: Crawl(directory, [A], Config().replace({"fetch.contact": "me@gossamer-tests.org"})).run(),
        lambda: Crawl(directory).add([A]),
        lambda: Repair(directory, 1.0).plan(),
        lambda: migrate(directory),
    ):
        refused = (
            rf"has layout {layout}, written by an earlier Gossamer; this Gossamer knows layouts from 3 on: use the"
        )
        with pytest.raises(ArchiveVersion, match=refused):
            act()
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_a_later_layout_is_refused_by_number(tmp_path: Path) -> None:
    directory = sample(tmp_path / "crawl")
    (directory / "gossamer.json").write_text(json.dumps({"layout": 99, "created": 1.0}))
    with pytest.raises(ArchiveVersion, match=r"has layout 99.*; this Gossamer knows layouts up to 5"):
        ask(directory, "SELECT 1")
    (directory / "gossamer.json").write_text(
        '{"layout": 99, "gossamer": "7.1", "created": 1, "what": ["we", "do not know"]}'
    )
    for act in (lambda: ask(directory, "SELECT 1"), lambda: migrate(directory), lambda: Crawl(directory).add([A])):
        with pytest.raises(ArchiveVersion, match=r"has layout 99, written by Gossamer 7\.1; this Gossamer knows"):
            act()


def test_the_mark_names_the_version_that_wrote_it(tmp_path: Path) -> None:
    mark = json.loads((sample(tmp_path / "crawl") / "gossamer.json").read_bytes())
    assert mark == {"layout": LAYOUT, "gossamer": __version__, "created": NOW_S}


# Layout 3: archives that its last version wrote


@pytest.fixture(params=["alone", "agents", "north"])
def third(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


@pytest.fixture(params=["alone", "agents", "moving"])
def fourth(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path, layout=4)


def content_of(directory: Path) -> dict[str, bytes]:
    """All files but those that a migration changes, and locks."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    names = {path.relative_to(directory).as_posix(): path for path in files}
    return {
        name: path.read_bytes()
        for name, path in names.items()
        if not name.startswith(("manifest/", "lock/")) and name != "gossamer.json"
    }


def answers(directory: Path) -> dict[str, object]:
    """What all readers say."""
    # Sums of fractions depend on their order, which is DuckDB's.
    found = json.loads(json.dumps(status(directory)), parse_float=lambda digits: round(float(digits), 9))
    found["agents"] = {agent: facts["round"] for agent, facts in found["agents"].items()}
    sizes = {name: found.pop(name) for name in ("disk", "disk_bytes")}
    assert sizes["disk_bytes"] > 0
    pages = ask(directory, "SELECT url, status FROM pages ORDER BY url")
    url = pages[0]["url"]
    texts = [content(directory, version(directory, url)), verify(directory).faults, versions(directory, url)]
    return {
        "status": found,
        "pages": pages,
        "visits": ask(directory, "SELECT * FROM visits ORDER BY time"),
        "of": texts,
    }


def check_read_and_migrated(old: Path, layout: int) -> None:
    before, said = content_of(old), answers(old)
    assert said["pages"]
    assert content_of(old) == before
    refused = rf"has layout {layout}, of an earlier Gossamer: `gossamer migrate .*` brings it"
    with pytest.raises(ArchiveVersion, match=refused):
        Crawl(old, [A], Config().replace({"fetch.contact": "me@gossamer-tests.org"})).run()
    with pytest.raises(ArchiveVersion, match="gossamer migrate"):
        Repair(old, 1.0).plan()
    assert migrate(old) == len(list(old.glob("manifest/*/*.json")))
    assert content_of(old) == before
    assert answers(old) == said
    assert json.loads((old / "gossamer.json").read_bytes())["layout"] == LAYOUT
    assert all(path.read_bytes().startswith(b'{"format":') for path in old.glob("manifest/*/*.json"))
    whole = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    assert migrate(old) == 0
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == whole
    assert not Repair(old, 1.0).plan()


def test_layout_3_is_read_and_migrated(third: Path) -> None:
    check_read_and_migrated(third, 3)


def test_layout_4_is_read_and_migrated(fourth: Path) -> None:
    check_read_and_migrated(fourth, 4)


def test_agents_own_the_same_hosts_as_before(fourth: Path) -> None:
    """Compared with the JSON of layout 4 itself: each of its zones is 16 of today."""
    then: dict[str, list[int]] = {}
    for path in sorted(fourth.glob("manifest/*/*.json")):
        then |= {path.parent.name: zones} if (zones := json.loads(path.read_bytes()).get("zones")) else {}
    for _ in range(2):  # as it is read, and as it is migrated
        for agent, at in snapshots(Unchecked(fourth)).items():
            assert sorted({zone % 256 for zone in at.zones}) == then[agent]
            assert len(at.zones) == 16 * len(then[agent])
            index = PageIndex.open(Unchecked(fourth), at.files, Config().index)
            assert is_in(at.zones)[zone_of_host(index.hosts.rows["host"])].all()
        assert unowned(Unchecked(fourth)) == [], "what is on its way is somebody's"
        migrate(fourth)
    for path in fourth.glob("manifest/*/*.json"):
        assert len(json.loads(path.read_bytes()).get("zones", "")) < 300, "ranges, not thousands of numbers"


def plain(value: Any) -> Any:
    """A struct as JSON has it, with the fields that are as they would be by default."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def test_nothing_of_the_state_is_lost(third: Path) -> None:
    """Compared with the JSON of layout 3 itself."""
    then = states(third)
    migrate(third)
    now = {agent: at.state for agent, at in snapshots(Directory(third)).items()}
    assert now.keys() == then.keys()
    renamed = {"said": "reported", "heard": "received", "without": "gone", "carbon": "prices"}
    for agent, was in then.items():
        state = plain(now[agent])
        counters, prices = state["counters"], state["prices"]
        flat = {**counters, **counters.pop("outcomes"), **prices.pop("groups")}
        for name, value in was.items():
            if name == "counters":
                assert {key: flat.get(key, 0) for key in value} == value
            elif name == "carbon":
                assert {**{key: flat[key] for key in ("all", "country", "host")}, **prices, "day": 0} == value
            else:
                assert state[renamed.get(name, name)] == value, name


def test_refused_links_have_their_own_place(tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path / "crawl", 1.0)
    body = {"agent": "a0", "number": 1, "epoch": 1, "time_s": 1.0, "zones": [1], "files": {}, "marks": {}, "sent": {}}
    state = {"counters": {"visits": 3, "ok": 2, "timeout": 1, "refused limits.depth": 4}, "resting": {"a.test": [5, 1]}}
    outbox = [["outbox/a1/x", 4, "a0", 1, 0, "a1", "links", 1, 0]]
    body |= {"state": state, "outbox": outbox, "applied": [["a1>a0", 3]]}
    store.put("manifest/a0/00000001.json", json.dumps(body).encode())
    at = snapshots(store)["a0"]
    expected = Counters(visits=3, outcomes={"ok": 2, "timeout": 1}, refused={"limits.depth": 4})
    assert at.state == AgentState(counters=expected, resting={"a.test": (5.0, 1)})
    assert [entry.message.protocol for entry in at.outbox] == [1]
    assert at.applied == (("a1>a0", 3),)


def test_a_damaged_manifest_stays_as_it_is(tmp_path: Path) -> None:
    """`gossamer repair` is for it; the others are brought up to date."""
    directory = unpacked("alone", tmp_path)
    bad = directory / "manifest/a0/00000003.json"
    bad.write_bytes(bad.read_bytes()[:-9])
    assert migrate(directory) == 2
    assert "manifest/a0/00000003.json" in [fault.name for fault in verify(directory).faults]
    Repair(directory, 1.0).apply(lambda _: None)
    assert verify(directory).faults == []
    assert len(ask(directory, "SELECT url FROM visits WHERE NOT is_robots")) == 5


def test_no_migration_while_a_crawl_runs(tmp_path: Path) -> None:
    directory = unpacked("agents", tmp_path)
    with Unchecked(directory).lock("a0"), pytest.raises(ArchiveBusy, match=f"being crawled by process {os.getpid()}"):
        migrate(directory)
    assert json.loads((directory / "gossamer.json").read_bytes())["layout"] == 3
    migrate(directory)


def test_the_command_takes_copies_and_replicas_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory, disk = unpacked("alone", tmp_path), unpacked("agents", tmp_path / "other")
    replica = unpacked("north", directory / "replicas")
    remember(directory, Config().replace({"site.copies": 2, "site.disks": [str(disk)]}))
    assert main(["migrate", str(directory)]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"{disk}: 16 manifests were brought up to layout 5",
        f"{replica}: 8 manifests were brought up to layout 5",
        f"{directory}: 4 manifests were brought up to layout 5",
    ]
    assert main(["migrate", str(tmp_path / "nowhere")]) == 1
    assert "holds no crawl" in capsys.readouterr().err

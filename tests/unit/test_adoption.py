"""A lost site comes back from the most complete of its replicas, whoever holds it; an empty one is none."""

from pathlib import Path

import pytest
from test_replicas import Quiet

from gossamer.archive.chain import Chain, snapshots
from gossamer.archive.manifest import Changes
from gossamer.archive.state import Counters, replace
from gossamer.archive.store import Directory
from gossamer.cluster.adoption import adopt
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.protocol import encode
from gossamer.cluster.replicas import Request, Source, holders, replica_of
from gossamer.errors import ConfigError
from gossamer.sharing.exchange import InProcess

NAMES = ["north", "east", "south", "oslo"]


def federation(folder: Path) -> Federation:
    """South is lost, and its file says so; oslo has joined last, and is south's holder by the new list alone."""
    assert holders(NAMES[:3], "south", 2) != holders(NAMES, "south", 2) == ["oslo"], "the case that this is about"
    lines = ["[federation]", "version = 2", "replicas = 2", "[fetch]", 'contact = "https://gossamer-tests.org/crawler"']
    for number, name in enumerate(NAMES):
        lines += [f"[sites.{name}]", f'address = "127.0.0.1:{4000 + number}"', *(["weight = 0"] * (name == "south"))]
    path = folder / "sites.toml"
    path.write_text("\n".join(lines))
    return load(path)


def held_by(sites: Federation, name: str) -> Quiet:
    return Quiet(replica_of(sites.directory(name), "south"), name, "south")


def commit(store: Directory, agent: str, times: int = 1, now_s: float = 0.0) -> None:
    """An agent of south goes on with its chain, so many rounds of ten pages."""
    chain = Chain.open(store, agent, InProcess())
    for _ in range(times):
        name, visits = f"warc/{chain.label}.warc.gz", 10 * chain.round
        store.put(name, f"{name} of {now_s}".encode())
        state = replace(chain.state, counters=Counters(visits=visits, known=2 * visits))
        chain.commit(
            Changes({"warc": [name]}), state=state, marks={}, outbox=[], exchange=InProcess(), applied=[], now_s=now_s
        )


def catch_up(source: Directory, replica: Quiet) -> None:
    there = Source(source, [])
    while replica.catch_up(lambda request: there.answer("oslo", encode(request))):
        pass


def lost(folder: Path) -> Directory:
    return Directory.prepare(folder / "elsewhere", 0.0)


def test_a_holder_that_is_new_and_empty_does_not_win(tmp_path: Path) -> None:
    sites, south = federation(tmp_path), lost(tmp_path)
    commit(south, "south_a0", 5)
    catch_up(south, held_by(sites, "east"))
    held_by(sites, "oslo")  # it has begun, and nothing has come
    Directory.prepare(replica_of(sites.directory("north"), "south"), 0.0)  # as holders used to begin
    adopted = adopt(sites, "south")
    assert snapshots(Directory(sites.directory("south"))) == snapshots(south)
    said = adopted.in_words(sites.path.parent)
    assert "east/replicas/south: commit 5 of south_a0, 100 pages known, 50 visits; taken" in said
    assert "north/replicas/south: empty" in said
    assert "oslo" not in said


def test_the_furthest_chain_of_each_agent_is_taken(tmp_path: Path) -> None:
    """A holder that is new may have what one agent committed last, and nothing of another one yet."""
    sites, south = federation(tmp_path), lost(tmp_path)
    for agent, times in (("south_a0", 4), ("south_a1", 7)):
        commit(south, agent, times)
    catch_up(south, held_by(sites, "east"))
    commit(south, "south_a0", 2)
    names = Chain.read(south, "south_a1").names()
    source, oslo = Source(south, []), held_by(sites, "oslo")
    with pytest.raises(FileNotFoundError):  # the link fails amid the second chain
        oslo.catch_up(lambda r: b"" if r.name in names else source.answer("oslo", encode(r)))
    adopted = adopt(sites, "south")
    here = Directory(sites.directory("south"))
    assert snapshots(here) == snapshots(south)
    for at in snapshots(here).values():
        assert all(here.get(name) == south.get(name) for name in at.names())
    said = adopted.in_words(sites.path.parent)
    assert "commit 4 of south_a0, 7 of south_a1, 220 pages known, 110 visits; south_a1 taken" in said
    assert "commit 6 of south_a0, 120 pages known, 60 visits; south_a0 taken" in said


def test_a_replica_that_lacks_files_is_not_taken(tmp_path: Path) -> None:
    sites, south = federation(tmp_path), lost(tmp_path)
    commit(south, "south_a0", 5)
    catch_up(south, held_by(sites, "east"))
    commit(south, "south_a0")
    catch_up(south, held_by(sites, "oslo"))
    damaged = replica_of(sites.directory("oslo"), "south")
    (damaged / "warc" / "south_a0-00000003.warc.gz").unlink()
    said = adopt(sites, "south").in_words(sites.path.parent)
    assert Chain.read(Directory(sites.directory("south")), "south_a0").number == 5
    assert "oslo/replicas/south: commit 6 of south_a0" in said
    assert "1 file missing, such as warc/south_a0-00000003.warc.gz" in said


def test_the_later_life_is_taken_not_the_longer(tmp_path: Path) -> None:
    """South was lost before, and came back from a replica that was behind: what it said since then is what counts."""
    sites, first = federation(tmp_path), lost(tmp_path)
    second = Directory.prepare(tmp_path / "second", 0.0)
    for store in (first, second):
        commit(store, "south_a0", 3, now_s=1.0)
    Chain.take_over(first, "south_a0", InProcess(), 2.0)
    commit(first, "south_a0", 5, now_s=2.0)
    commit(second, "south_a0", 1, now_s=2.0)
    Chain.take_over(second, "south_a0", InProcess(), 3.0)
    commit(second, "south_a0", 1, now_s=3.0)
    catch_up(first, held_by(sites, "east"))
    catch_up(second, held_by(sites, "oslo"))
    adopt(sites, "south")
    assert snapshots(Directory(sites.directory("south"))) == snapshots(second)


def test_a_replica_behind_what_others_have_heard_is_refused(tmp_path: Path) -> None:
    """It would say other things under the numbers that they know: they would hear nothing of it."""
    sites, south = federation(tmp_path), lost(tmp_path)
    commit(south, "south_a0", 5)
    catch_up(south, held_by(sites, "east"))
    north = Chain.open(Directory.prepare(sites.directory("north"), 0.0), "north_a0", InProcess())
    marks = {"south_a0>north": 8}
    north.commit(Changes(), marks=marks, outbox=[], exchange=InProcess(), applied=[], now_s=0.0)
    with pytest.raises(ConfigError, match=r"north has applied commit 8 of south_a0.*commit 5.*on another machine"):
        adopt(sites, "south")
    assert not sites.directory("south").exists()


def test_only_empty_replicas_are_no_replica(tmp_path: Path) -> None:
    sites = federation(tmp_path)
    held_by(sites, "oslo")
    Directory.prepare(replica_of(sites.directory("north"), "south"), 0.0)
    with pytest.raises(ConfigError, match=r"no site on this machine has a replica of south.*empty.*gone = true"):
        adopt(sites, "south")
    assert not sites.directory("south").exists()


def test_a_holder_has_no_replica_before_it_has_a_manifest(tmp_path: Path) -> None:
    sites, south = federation(tmp_path), lost(tmp_path)
    commit(south, "south_a0", 2)
    folder = replica_of(sites.directory("oslo"), "south")
    oslo = held_by(sites, "oslo")
    assert not folder.exists()
    source = Source(south, [])

    def broken(request: Request) -> bytes:
        return b"" if "00000002.warc" in request.name else source.answer("oslo", encode(request))

    with pytest.raises(FileNotFoundError):
        oslo.catch_up(broken)
    assert not folder.exists()
    catch_up(south, held_by(sites, "oslo"))  # started again, it goes on with what it has
    assert snapshots(Directory(folder)) == snapshots(south)
    assert [path.name for path in folder.parent.iterdir()] == ["south"]


def test_an_adoption_that_was_interrupted_begins_again(tmp_path: Path) -> None:
    """Whatever it left is no crawl, and not part of the next one."""
    sites, south = federation(tmp_path), lost(tmp_path)
    commit(south, "south_a0", 3)
    catch_up(south, held_by(sites, "east"))
    replica = Directory(replica_of(sites.directory("east"), "south"))
    unreadable = replica.local("warc/south_a0-00000003.warc.gz")
    content = unreadable.read_bytes()
    unreadable.unlink()
    unreadable.mkdir()
    here = sites.directory("south")
    with pytest.raises(IsADirectoryError):
        adopt(sites, "south")
    assert not here.exists()
    unreadable.rmdir()
    unreadable.write_bytes(content)
    adopt(sites, "south")
    assert snapshots(Directory(here)) == snapshots(south)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["east", "elsewhere", "sites.toml", "south"]


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path) -> None:
    sites, south = federation(tmp_path), lost(tmp_path)
    commit(south, "south_a0", 3)
    catch_up(south, held_by(sites, "east"))
    here = sites.directory("south")
    here.mkdir()
    (here / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="move it away"):
        adopt(sites, "south")
    assert [path.name for path in here.iterdir()] == ["notes.txt"]

"""What every Store does, and what only a Directory does."""

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from object_stores import STORES, Server, environment

from experiments.spread import Shelf, Spread, place_of
from gossamer import __version__
from gossamer.archive.checksums import of_bytes, of_file
from gossamer.archive.copies import Copied
from gossamer.archive.mark import LAYOUT
from gossamer.archive.object_store import ObjectStore
from gossamer.archive.store import Directory, Memory, Store
from gossamer.errors import ArchiveBusy, ArchiveError, ArchiveVersion, OutOfSpace, disk_full_guard


@pytest.fixture(params=["directory", "memory", "copied", "copied to a bucket", "spread", *STORES])
def store(request: pytest.FixtureRequest, tmp_path: Path, object_servers: Callable[[str], Server]) -> Iterator[Store]:
    if request.param == "memory":
        yield Memory()
        return
    if request.param in STORES:
        server = object_servers(request.param)
        with environment({**server.settings, "GOSSAMER_CACHE": str(tmp_path / "cache")}):
            yield ObjectStore.prepare(server.address(), 1.0)
        return
    if request.param == "copied to a bucket":
        server = object_servers("seaweedfs")
        with environment({**server.settings, "GOSSAMER_CACHE": str(tmp_path / "cache")}):
            one, other = (ObjectStore.prepare(server.address(), 1.0) for _ in range(2))
            yield Copied(one, [other, Directory.prepare(tmp_path / "b", 1.0)])
        return
    first, second, third = (Directory.prepare(tmp_path / name, 1.0) for name in ("crawl", "b", "c"))
    if request.param == "directory":
        yield first
    elif request.param == "copied":
        yield Copied(first, [second, third])
    else:
        with closing(Shelf(second)) as shelf, closing(Spread(first, 0, shelf.port)) as spread:
            yield spread


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory.prepare(tmp_path / "crawl", 1.0)


def test_put_get(store: Store) -> None:
    store.put("warc/a", b"one")
    store.put("deep/er/b", b"")
    assert store.get("warc/a") == b"one"
    assert store.get("deep/er/b") == b""


def test_put_takes_a_scratch_file(store: Store) -> None:
    path = store.scratch("warc/a")
    path.write_bytes(b"made there")
    assert store.list("warc/") == []
    store.put("warc/a", path)
    assert store.get("warc/a") == b"made there"
    assert not path.exists()


def test_put_again_replaces_and_leaves_open_files_alone(store: Store) -> None:
    store.put("warc/a", b"left over")
    with store.local("warc/a").open("rb") as file:
        store.put("warc/a", b"new")
        store.local("warc/a")
        assert file.read() == b"left over"
    assert store.local("warc/a").read_bytes() == b"new"


def test_create_only_if_absent(store: Store) -> None:
    assert store.create("manifest/a0/1", b"mine")
    assert not store.create("manifest/a0/1", b"yours")
    assert not store.create("manifest/a0/1", b"mine")
    assert store.get("manifest/a0/1") == b"mine"


def test_a_spread_archive_is_at_both_places_and_one_for_both(tmp_path: Path) -> None:
    places = [Directory.prepare(tmp_path / name, 1.0) for name in ("north", "south")]
    names = [f"warc/a0-{number}" for number in range(20)]
    with ExitStack() as stack:
        shelves = [stack.enter_context(closing(Shelf(place))) for place in places]
        north = stack.enter_context(closing(Spread(places[0], 0, shelves[1].port)))
        south = stack.enter_context(closing(Spread(places[1], 1, shelves[0].port)))
        for name in names:
            north.put(name, name.encode())
        assert south.list("warc/") == north.list("warc/") == sorted(names)
        assert all(south.local(name).read_bytes() == name.encode() for name in names)
        assert not south.create(names[0], b"mine")
    assert [len(place.list("warc/")) for place in places] == [
        sum(place_of(n) == here for n in names) for here in (0, 1)
    ]
    assert all(shelf.bytes_by_kind["warc"] for shelf in shelves)


def test_of_many_who_create_one_wins(store: Store) -> None:
    won: list[int] = []

    def attempt(i: int) -> None:
        if store.create("manifest/a0/1", b"%d" % i):
            won.append(i)

    threads = [threading.Thread(target=attempt, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.get("manifest/a0/1") == b"%d" % won[0]


def test_missing(store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        store.get("warc/a")
    store.delete("warc/a")
    assert store.list("warc/") == []


def test_list_is_by_text_prefix_and_sorted(store: Store) -> None:
    for name in ("inbox/b-2", "inbox/b-1", "inbox/c", "inboxes/d", "inbox/sub/e"):
        store.put(name, b"")
    assert store.list("inbox/") == ["inbox/b-1", "inbox/b-2", "inbox/c", "inbox/sub/e"]
    assert store.list("inbox/b") == ["inbox/b-1", "inbox/b-2"]
    assert store.list("nothing/") == []


def test_prefixes_are_text_also_inside_a_name(store: Store) -> None:
    for name in ("refused/a0-1", "refused/a0-2", "refused/a01-1"):
        store.put(name, b"")
    assert store.list("refused/a0-") == ["refused/a0-1", "refused/a0-2"]
    assert store.list("refused/a") == ["refused/a0-1", "refused/a0-2", "refused/a01-1"]


def test_many_puts_are_durable_after_settle(store: Store) -> None:
    names = [f"warc/a0-{number:08d}-0.warc.gz" for number in range(40)]
    for name in names:
        path = store.scratch(name)
        path.write_bytes(name.encode() * 1000)
        store.put(name, path)
    store.settle()
    assert store.list("warc/") == names
    assert [store.get(name) for name in names] == [name.encode() * 1000 for name in names]
    store.delete(*names[1:], "warc/missing")
    store.settle()
    assert store.list("warc/") == names[:1]


def test_size_and_checksum(store: Store) -> None:
    store.put("warc/a", b"12345")
    assert store.size("warc/a") == 5
    assert store.checksum("warc/a") == of_bytes(b"12345")
    with pytest.raises(FileNotFoundError):
        store.size("warc/b")


def test_fetch_says_nothing_of_what_is_missing(store: Store) -> None:
    store.put("warc/a", b"12345")
    store.fetch(["warc/a", "warc/missing"])
    assert store.local("warc/a").read_bytes() == b"12345"


def test_a_large_file_goes_up_in_parts(store: Store) -> None:
    path = store.scratch("warc/large")
    path.write_bytes(os.urandom(1 << 20) * 70)
    expected = of_file(path)
    store.put("warc/large", path)
    store.settle()
    assert store.size("warc/large") == expected.size
    assert of_bytes(store.get("warc/large")) == expected


def test_what_was_deleted_can_be_put_again(store: Store) -> None:
    for number in range(10):
        store.put("index/a", b"%d" % number)
        store.delete("index/a")
    store.put("index/a", b"last")
    store.settle()
    assert store.get("index/a") == b"last"
    assert store.local("index/a").read_bytes() == b"last"


def test_delete(store: Store) -> None:
    store.put("a/b", b"x")
    store.delete("a/b")
    assert store.list("a/") == []
    assert store.create("a/b", b"y")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "."])
def test_names_stay_inside(store: Store, name: str) -> None:
    with pytest.raises(ArchiveError):
        store.put(name, b"")


def test_lock_is_exclusive_per_agent(store: Store) -> None:
    with store.lock("a0"):
        with store.lock("a1"):
            pass
        with pytest.raises(ArchiveBusy, match=str(os.getpid())), store.lock("a0"):
            pass
    with store.lock("a0"):
        pass


def test_lock_survives_no_kill(directory: Directory) -> None:
    """The lock of a killed process is free, and while it lives its id is known."""
    code = (
        "import sys,time; from gossamer.archive.store import Directory\n"
        "with Directory(sys.argv[1]).lock('a0'): print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(directory.path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "held\n"
        assert directory.holder("a0") == process.pid
        with pytest.raises(ArchiveBusy, match=f"process {process.pid};"), directory.lock("a0"):
            pass
        process.kill()
        process.wait()
    assert directory.holder("a0") == 0
    with directory.lock("a0"):
        assert directory.holder("a0") == os.getpid()


def test_holder_of_nothing(directory: Directory) -> None:
    assert directory.holder("a0") == 0
    assert directory.list("lock/") == []


def test_prepare_makes_and_opens(tmp_path: Path) -> None:
    Directory.prepare(tmp_path / "a" / "b", 5.0)
    assert json.loads((tmp_path / "a" / "b" / "gossamer.json").read_text()) == {
        "layout": LAYOUT,
        "gossamer": __version__,
        "created": 5.0,
    }
    Directory.prepare(tmp_path / "a" / "b", 6.0)
    assert Directory(tmp_path / "a" / "b").get("gossamer.json").endswith(b'"created":5.0}')


def test_prepare_after_a_crash_while_preparing(tmp_path: Path) -> None:
    (tmp_path / "crawl" / "tmp").mkdir(parents=True)
    (tmp_path / "crawl" / "tmp" / "1-gossamer.json").write_bytes(b"{")
    Directory.prepare(tmp_path / "crawl", 1.0)


def test_open_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="holds no crawl"):
        Directory(tmp_path / "absent")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_bytes(b"")
    with pytest.raises(ArchiveError, match="choose another --dir"):
        Directory.prepare(tmp_path / "photos", 1.0)
    with pytest.raises(ArchiveError, match="is a file"):
        Directory.prepare(tmp_path / "photos" / "me.jpg", 1.0)
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["me.jpg"]


@pytest.mark.parametrize(
    ("content", "error"),
    [('{"layout": 1}', ArchiveVersion), ("{", ArchiveError), ("[]", ArchiveError), ("{}", ArchiveError)],
)
def test_other_layouts(tmp_path: Path, content: str, error: type[ArchiveError]) -> None:
    (tmp_path / "gossamer.json").write_text(content)
    with pytest.raises(error, match="choose another --dir"):
        Directory.prepare(tmp_path, 1.0)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk(number: int, tmp_path: Path) -> None:
    with pytest.raises(OutOfSpace, match="run the same command again"), disk_full_guard(tmp_path):
        raise OSError(number, os.strerror(number))
    with pytest.raises(PermissionError), disk_full_guard(tmp_path):
        raise PermissionError(errno.EACCES, "no")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_for_real(directory: Directory) -> None:
    path = directory.scratch("warc/a")
    path.symlink_to("/dev/full")
    with pytest.raises(OutOfSpace), disk_full_guard(path), path.open("wb") as file:
        file.write(b"x" * 100_000)


def test_scratch_files_swept_by_another_process_are_written_again(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, calls = os.link, []

    def swept(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == 1:
            Path(source).unlink()
        link(source, target)

    monkeypatch.setattr(os, "link", swept)
    assert directory.create("inbox/seeds-1", b"urls")
    assert directory.get("inbox/seeds-1") == b"urls"
    assert directory.list("tmp/") == []


def test_every_file_is_synced_and_so_is_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_relative_to(tmp_path):  # threads of other tests may not be over
            synced.append(path.name.split("-")[-1])
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    directory = Directory.prepare(tmp_path / "crawl", 1.0)
    assert {"gossamer.json", "crawl", tmp_path.name.split("-")[-1]} <= set(synced)
    del synced[:]
    directory.put("a", b"1")
    assert len(synced) == 2
    assert synced[1] == "crawl"
    assert directory.create("manifest/1", b"2")
    assert "manifest" in synced

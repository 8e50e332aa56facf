"""A crawl in a bucket is damaged, and repaired there: from the command line, by a machine that has nothing of it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from commands import complaint, run, succeed
from crawls import crawl, statuses, visited
from object_stores import Server
from object_stores import at as machine

from gossamer import Config, Crawl
from gossamer.archive.buckets import connect
from gossamer.archive.chain import Chain
from gossamer.archive.copies import restore
from gossamer.archive.manifest import Changes, file_names
from gossamer.archive.object_store import ObjectStore
from gossamer.config.folders import Address
from gossamer.errors import Deposed
from gossamer.repair.repair import Repair
from gossamer.repair.verify import verify
from gossamer.sharing.exchange import InProcess
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(seed=4, hosts=8, pages=80, page_bytes=2_000.0, errors=0.0, robots_broken=0.0, crawl_delays=0.0)
VALUES: dict[str, Any] = {"crawl.width": 10, "limits.depth": 250, "limits.depth_dynamic": 250, "archive.merge_files": 6}


@pytest.fixture(scope="module")
def half(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl that was ended half-way."""
    directory = tmp_path_factory.mktemp("half") / "crawl"
    crawl(web, directory, {**VALUES, "crawl.pages": 40})
    return directory


@pytest.fixture(scope="module")
def whole(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each page in a crawl that nothing happened to."""
    return statuses(crawl(web, tmp_path_factory.mktemp("whole") / "crawl", VALUES))


class Damaged:
    """The half crawl in a bucket, whose objects somebody changes behind our back."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._bucket = connect(address)

    def flip(self, name: str) -> None:
        data = bytearray(bytes(obstore.get(self._bucket, name).bytes()))
        data[len(data) // 2] ^= 4
        obstore.put(self._bucket, name, bytes(data))

    def lose(self, *names: str) -> None:
        for name in names:
            obstore.delete(self._bucket, name)

    def files(self, kind: str) -> list[str]:
        return Chain.read(ObjectStore(self.address), "a0").files[kind]

    def manifests(self) -> list[str]:
        return file_names(ObjectStore(self.address), "a0")


@pytest.fixture
def damaged(object_servers: Callable[[str], Server], half: Path, tmp_path: Path) -> Iterator[Damaged]:
    weed = object_servers("seaweedfs")
    address = weed.address()
    with machine(weed, tmp_path / "cache"):
        restore(address, [half])
        yield Damaged(address)


def lose_table(crawl: Damaged) -> None:
    crawl.flip(crawl.files("links")[0])
    crawl.lose(crawl.files("cdxj")[0])


def lose_warc(crawl: Damaged) -> None:
    crawl.flip(crawl.files("warc")[0])
    crawl.lose(crawl.files("warc")[-1])


def lose_index(crawl: Damaged) -> None:
    crawl.flip(crawl.files("index.page.delta")[-1])


def lose_manifests(crawl: Damaged) -> None:
    crawl.lose(*crawl.manifests())


def lose_mark(crawl: Damaged) -> None:
    crawl.lose("gossamer.json")


@pytest.mark.parametrize(
    "harm",
    [
        lose_manifests,
        *(pytest.param(harm, marks=pytest.mark.slow) for harm in (lose_table, lose_warc, lose_index, lose_mark)),
    ],
)
def test_a_bucket_is_repaired_and_the_crawl_goes_on(
    web: RunningWeb, damaged: Damaged, whole: dict[str, str], tmp_path: Path, harm: Callable[[Damaged], None]
) -> None:
    address = damaged.address
    assert Crawl(address, (), Config()).query("SELECT count(*) AS n FROM pages")  # the cache has files as they were
    harm(damaged)
    before = set(ObjectStore(address).list(""))
    told = run("verify", address, at=tmp_path)
    assert told.returncode == 1
    assert b"damaged" in told.stdout or b"missing" in told.stdout
    assert f"`gossamer repair {address} --apply` does that" in succeed("repair", address, "--dry-run", at=tmp_path)
    assert set(ObjectStore(address).list("")) == before, "nothing was changed"
    said = succeed("repair", address, "--apply", at=tmp_path)
    assert f"what was taken out is in {address}/aside/" in said
    assert verify(address).faults == []
    after = set(ObjectStore(address).list(""))
    moved = {name.split("/", 2)[2] for name in after if name.startswith("aside/")}
    assert before <= after | moved, "nothing was deleted"
    assert succeed("repair", address, "--dry-run", at=tmp_path) == "nothing is damaged\n"
    shutil.rmtree(tmp_path / "cache")  # another machine goes on
    end = crawl(web, address, VALUES, seeds=[])
    assert statuses(end) == whole
    assert len(visited(end)) == len(set(visited(end)))


def test_a_crawl_elsewhere_is_deposed_before_files_are_set_aside(damaged: Damaged) -> None:
    exchange = InProcess()
    elsewhere = Chain.open(ObjectStore(damaged.address), "a0", exchange)
    late = ObjectStore(damaged.address)
    late.put(f"warc/{elsewhere.label}-0.warc.gz", b"of the round under way")
    late.settle()
    damaged.flip(damaged.files("links")[0])
    Repair(damaged.address, 1e9).apply(lambda _: None)
    with pytest.raises(Deposed, match="another process has taken this crawl over"):
        elsewhere.commit(Changes(), marks={}, outbox=[], exchange=exchange, applied=[], now_s=1e9)
    assert verify(damaged.address).faults == []


def test_caches_forget_files_that_a_repair_has_changed(damaged: Damaged) -> None:
    """A WARC file keeps its name when its damaged records are replaced."""
    name = damaged.files("warc")[0]
    damaged.flip(name)
    wrong = ObjectStore.open(damaged.address).local(name).read_bytes()
    Repair(damaged.address, 1e9).apply(lambda _: None)
    assert ObjectStore.open(damaged.address).local(name).read_bytes() != wrong


def test_a_crawl_on_this_machine_must_end_first(damaged: Damaged, tmp_path: Path) -> None:
    with ObjectStore(damaged.address).lock("a0"):
        assert "is being crawled by process" in complaint("repair", damaged.address, "--dry-run", at=tmp_path)


def test_where_nothing_is_nothing_is_repaired(damaged: Damaged, tmp_path: Path) -> None:
    nowhere = f"{damaged.address}-not"
    assert f"{nowhere} holds no crawl" in complaint("repair", nowhere, "--dry-run", at=tmp_path)
    assert f"{nowhere} holds no crawl" in complaint("repair", nowhere, "--apply", at=tmp_path)
    assert ObjectStore(Address(nowhere)).list("") == []

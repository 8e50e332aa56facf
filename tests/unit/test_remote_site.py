"""A site on another machine may be broken or hostile: what it sends is checked, and never more than it promised."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sample_archive import sample
from test_federation_mistakes import written

from gossamer.archive.manifest import Snapshot, file_name, load, sealed
from gossamer.archive.query import with_database
from gossamer.archive.reading import Reading
from gossamer.archive.state import replace
from gossamer.archive.store import Directory
from gossamer.cluster.federation_file import load as load_file
from gossamer.cluster.protocol import decode, encode
from gossamer.cluster.remote_site import Allowance, RemoteSite
from gossamer.cluster.site_service import FILES, PIECE_BYTES, HandOver, Request, Source, Taken, carried_out, is_served
from gossamer.errors import GossamerError, RemoteLimit, SiteError

Tamper = Callable[[Request, bytes], bytes]


class Loopback:
    """What `Connections` does, without a server. `tamper` changes answers on their way."""

    def __init__(self, source: Source, tamper: Tamper = lambda _, answer: answer) -> None:
        self._source, self.tamper = source, tamper
        self.asked: list[Request] = []

    def ask(self, _site: str, subject: str, data: bytes) -> bytes:
        assert subject == FILES
        self.asked.append(decode(Request, data))
        return self.tamper(self.asked[-1], self._source.answer("reader", data))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directory:
    monkeypatch.setenv("GOSSAMER_CACHE", str(tmp_path / "cache"))
    return Directory(sample(tmp_path / "paris", "paris_a0"))


def remote(store: Directory, tamper: Tamper = lambda _, answer: answer, megabytes: float = 10.0) -> Any:
    federation = load_file(written(store.path.parent, "paris\ndirectory = 'elsewhere'", "tokyo"))
    return RemoteSite(federation, "paris", Loopback(Source(store, []), tamper), Allowance(megabytes, "f.toml"))  # type: ignore[arg-type]


def table_files(store: Directory) -> list[str]:
    return store.list("tables/")


class Place:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def read(self) -> Reading:
        return self._reading

    def left_out(self) -> str:
        return ""


def test_an_archive_is_read_from_elsewhere(store: Directory) -> None:
    site = remote(store)
    at = site.read()
    paths = [path for kind in at.kinds for path in at.paths(kind)]
    assert all(path.read_bytes() == store.get(name) for path, name in zip(paths, _names(at), strict=True))
    assert site.size(table_files(store)[0]) == store.size(table_files(store)[0])
    assert not at.missing()
    count = len(site._connections.asked)
    again = remote(store)
    again.read()
    fetched = {request.name for request in again._connections.asked if request.name.startswith("tables/")}
    assert count > len(again._connections.asked)
    assert not fetched, "tables are in the cache"
    with_database(Place(at), lambda database: database.execute("SELECT count(*) FROM pages").fetchall())


def _names(at: Reading) -> list[str]:
    return [name for kind in at.kinds for name in at.names(kind)]


def test_large_files_come_in_pieces(store: Directory) -> None:
    at = load(store, "paris_a0")[0]
    name = f"tables/visits-paris_a0-{at.number + 1:08d}.parquet"
    store.put(name, bytes(range(256)) * 10_000)
    files = {**at.files, "visits": [*at.files.get("visits", []), name]}
    sums = {**at.sums, name: store.checksum(name)}
    new = replace(at, number=at.number + 1, files=files, sums=sums)
    store.create(file_name("paris_a0", at.number + 1), sealed(new))
    site = remote(store)
    site.read()
    assert site.local(name).read_bytes() == store.get(name)
    offsets = [request.offset for request in site._connections.asked if request.name == name]
    assert offsets == [0, PIECE_BYTES, 2 * PIECE_BYTES]


def _of_tables(change: Callable[[bytes], bytes]) -> Tamper:
    return lambda request, answer: change(answer) if request.name.startswith("tables/") and answer else answer


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (_of_tables(lambda answer: answer[:-1] + b"?"), "with other content than its manifests promise"),
        (_of_tables(lambda answer: (1 << 50).to_bytes(8, "big") + answer[8:]), "as its manifests do not promise"),
        (_of_tables(lambda answer: answer[:9]), "as its manifests do not promise"),
        (_of_tables(lambda answer: answer + bytes(100)), "as its manifests do not promise"),
        (_of_tables(lambda answer: answer[:8]), "its files keep vanishing"),
        (_of_tables(lambda _: b""), "its files keep vanishing"),
    ],
)
def test_files_are_what_the_manifests_promise(store: Directory, tmp_path: Path, tamper: Tamper, words: str) -> None:
    with pytest.raises(SiteError, match=words):
        remote(store, tamper).read()
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.suffix == ".parquet"]


@pytest.mark.parametrize(
    "listing",
    [
        {"paris_a0": ["../../etc/passwd"]},
        {"paris_a0": ["manifest/paris_a0/../../keys/north.key"]},
        {"paris_a0": [f"manifest/paris_a0/{number:08d}.json" for number in range(200_000)]},
        ["manifest/paris_a0/00000001.json"],
        {"paris_a0": 7},
    ],
)
def test_lists_of_manifests_are_checked(store: Directory, listing: Any) -> None:
    data = msgspec.json.encode(listing)
    with pytest.raises(GossamerError):
        remote(store, lambda request, answer: answer if request.name else data).read()


@pytest.mark.parametrize(
    "name",
    ["../paris.key", "keys/paris.key", "tables/visits-tokyo_a0-00000001.parquet", "warc/../x-paris_a0-00000001.x"],
)
def test_manifests_name_only_files_of_their_own_agent(store: Directory, name: str) -> None:
    at = load(store, "paris_a0")[0]
    bad = replace(at, number=at.number + 1, files={**at.files, "visits": [name]})
    store.create(file_name("paris_a0", at.number + 1), sealed(bad))
    with pytest.raises(GossamerError, match=r"is no file of paris_a0|is not a name inside an archive"):
        remote(store).read()


def test_agents_of_other_sites_are_refused(store: Directory) -> None:
    store.create(file_name("tokyo_a0", 1), sealed(Snapshot("tokyo_a0", 1)))
    with pytest.raises(SiteError, match="which is no agent of that site"):
        remote(store).read()


def test_bytes_are_counted_before_they_come(store: Directory) -> None:
    site = remote(store, megabytes=0.0005)
    with pytest.raises(
        RemoteLimit, match=r"federation\.remote_mb = 0\.0005 only 0\.0 MB are left: raise it in f\.toml"
    ):
        site.read()
    assert not [request for request in site._connections.asked if request.name.startswith("tables/")]


def test_a_later_layout_is_refused(store: Directory) -> None:
    (store.path / "gossamer.json").write_bytes(b'{"layout": 99, "gossamer": "9.9"}')
    with pytest.raises(GossamerError, match="site paris has layout 99"):
        remote(store).read()


@pytest.mark.parametrize(
    "name",
    ["nats.conf", "site/nats.conf", "site/nats.json", "keys/paris.key", "last-run.toml", "inbox/s-000000000001.arrow",
     "lock/paris_a0", "log/crawl.jsonl", "replicas/tokyo/gossamer.json", "manifest/../site/00000001.json", "/etc/x",
     "manifest/a/b/00000001.json", "aside/x", "../f.toml"],
)  # fmt: skip
def test_nothing_but_the_archive_is_served(store: Directory, name: str) -> None:
    assert not is_served(name)
    if not name.startswith(("/", "..")) and ".." not in name:
        store.put(name, b"secret")
    assert Source(store, []).answer("reader", encode(Request(name=name))) == b""


def test_orders_are_taken_for_known_sites_only(store: Directory) -> None:
    source = Source(store, [], ["paris", "tokyo"])

    def ordered(data: bytes) -> Taken:
        return decode(Taken, asyncio.run(carried_out(source.take_moves, "operator", data)))

    assert ordered(encode(HandOver(hosts={"a.test": "tokyo"}))).hosts == 1
    assert "has no lima" in ordered(encode(HandOver(hosts={"a.test": "lima"}))).refused
    assert ordered(b"[]").refused
    assert len(store.list("inbox/")) == 1

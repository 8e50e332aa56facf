"""Damage of every kind to a crawl's directory: it is found, named, and mended or set aside; nothing else is touched."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from commands import complaint, run, succeed
from crawls import QUICK, crawl, statuses, visited
from earlier_archives import rewritten
from raw_server import Loopback
from warcio.archiveiterator import ArchiveIterator

from gossamer import Config, Crawl
from gossamer.archive import manifest, store
from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Snapshot
from gossamer.archive.state import replace
from gossamer.archive.store import Directory, Memory
from gossamer.columns import NEVER, PAGES, Status
from gossamer.crawl import onward
from gossamer.errors import ArchiveBusy, ArchiveError
from gossamer.frontier import frontier, table, text_heap
from gossamer.frontier.pages import PageIndex
from gossamer.repair import aside
from gossamer.repair.rebuilt_index import RebuiltIndex, seed_hosts
from gossamer.repair.repair import Repair
from gossamer.repair.verify import Fault, verify
from gossamer.sharing.exchange import InProcess
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

pytestmark = pytest.mark.timeout(600)

SPEC = WebSpec(seed=4, hosts=12, pages=240, page_bytes=2_000.0, errors=0.0, robots_broken=0.0, crawl_delays=0.0)
VALUES: dict[str, Any] = {"crawl.width": 10, "limits.depth": 250, "limits.depth_dynamic": 250, "archive.merge_files": 6}
ARCHIVED = ("warc", "cdxj", "visits", "pages", "links", "robots", "signals")
INDEX = ("index.page", "index.visited", "index.host", "index.heap", "index.frontier")


@pytest.fixture(scope="module")
def half(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl that was ended half-way, with a file of every kind."""
    directory = tmp_path_factory.mktemp("half") / "crawl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier, "KEEP_SHARE", 0)
        for part in (table, text_heap):
            patch.setattr(part, "MAX_DELTAS", 3)
        crawl(web, directory, {**VALUES, "crawl.pages": 120})
    assert {"warc", "cdxj", "visits", "pages", "links", "robots", "index.frontier"} <= set(at(directory).files)
    return directory


@pytest.fixture(scope="module")
def whole(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each page in a crawl that nothing happened to."""
    return statuses(crawl(web, tmp_path_factory.mktemp("whole") / "crawl", VALUES))


@pytest.fixture
def damaged(half: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(half, tmp_path / "crawl"))


def at(directory: Path) -> Snapshot:
    return Chain.read(Directory(directory), "a0")


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def pages(directory: Path) -> dict[str, str]:
    return statuses(Crawl(directory, (), Config()))


def records(directory: Path) -> set[str]:
    """Of the WARC files that manifests name."""
    found = set()
    for name in at(directory).files["warc"]:
        with (directory / name).open("rb") as file:
            found |= {record.rec_headers.get_header("WARC-Record-ID") for record in ArchiveIterator(file)}
    return found


def files_of(directory: Path, kind: str) -> list[str]:
    return [
        name for of, names in at(directory).files.items() if of == kind or of.startswith(f"{kind}.") for name in names
    ]


def flip(path: Path, share: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 4
    path.write_bytes(data)


def repaired(directory: Path) -> list[str]:
    said: list[str] = []
    Repair(directory, 1e9).apply(said.append)
    assert verify(directory).faults == []
    return said


def check_goes_on(web: RunningWeb, directory: Path, whole: dict[str, str]) -> None:
    """The crawl finds everything, and visits no page again."""
    end = crawl(web, directory, VALUES, seeds=[])
    assert statuses(end) == whole
    assert len(visited(end)) == len(set(visited(end)))


def lose(directory: Path, which: str) -> None:
    manifests = sorted((directory / "manifest" / "a0").iterdir())
    for path in {"all": manifests, "newest 8": manifests[-8:], "newest": manifests[-1:], "middle": manifests[-3:-2]}[
        which
    ]:
        path.unlink()


@pytest.mark.parametrize("which", ["all", "newest 8", "newest", "middle"])
def test_missing_manifests(web: RunningWeb, damaged: Path, whole: dict[str, str], which: str) -> None:
    before, known, archived = contents(damaged), pages(damaged), records(damaged)
    lose(damaged, which)
    left = {name for name, _ in contents(damaged).items()}
    said = complaint("crawl", "--json", "--dir", damaged, at=damaged.parent)
    assert f"`gossamer repair {damaged} --dry-run`" in said
    assert left <= set(contents(damaged)), "nothing was deleted"
    told = run("verify", damaged, at=damaged.parent)
    assert told.returncode == 1
    lines = told.stdout.decode().splitlines()
    assert len(lines) == 3, "one fault, the sum, and what to do"
    assert lines[0].startswith("manifest/a0 ")
    assert "cannot be checked without" in lines[0]
    assert "name the archive's files again" in succeed("repair", damaged, "--dry-run", at=damaged.parent)
    assert left <= set(contents(damaged)), "a dry run changes nothing"
    assert "nothing was deleted" in succeed("repair", damaged, "--apply", at=damaged.parent)
    assert succeed("verify", damaged, at=damaged.parent).count(" 0 damaged") == 1
    after = contents(damaged).values()
    assert all(data in after for name, data in before.items() if name in left and name.startswith(("warc/", "tables/")))
    assert (pages(damaged), records(damaged)) == (known, archived)
    check_goes_on(web, damaged, whole)


def index_of(directory: Path) -> PageIndex:
    return PageIndex.open(Directory(directory), at(directory).files, Config().index)


def test_a_rebuild_knows_when_what_was_forbidden_is_due(loopback: Loopback, tmp_path: Path) -> None:
    """The pause goes on that its server's answer began, and after the last attempt there is none."""
    server = loopback.serve(
        lambda exchange: exchange.send_page(b"", "403 Forbidden" if exchange.path == "/" else "404 Not Found")
    )
    values = {
        **QUICK,
        "resolve.map": {"*": f"127.0.0.1:{server.port}"},
        "crawl.patience_s": 0.1,
        "polite.robots": False,
    }
    Crawl(tmp_path, ["http://a.test/"], Config().replace(values)).run()
    (row,) = (row for rows in index_of(tmp_path).pages.scan() for row in rows)
    assert (row["status"], row["tries"]) == (Status.FORBIDDEN, 1)
    lose(tmp_path, "all")
    repaired(tmp_path)
    (again,) = (row for rows in index_of(tmp_path).pages.scan() for row in rows)
    assert (again["status"], again["tries"]) == (row["status"], row["tries"])
    assert abs(int(again["due_s"]) - int(row["due_s"])) <= 2  # the table has when the visit began
    repaired_files = [Directory(tmp_path).local(name) for name in at(tmp_path).files["visits"]]
    impatient = RebuiltIndex({"visits": repaired_files}, Config().replace({"fetch.retries": 0}))
    impatient.write(Memory(), "a0-00000009")
    (last,) = (row for rows in impatient.index.pages.scan() for row in rows)
    assert (last["status"], last["due_s"]) == (Status.FORBIDDEN, NEVER)


def test_more_depth_after_a_rebuild(web: RunningWeb, tmp_path: Path) -> None:
    """Links that were refused as too deep are followed when more depth is allowed, as without the repair."""
    shallow, deep = ({**VALUES, "crawl.sitemaps": False, "limits.depth": depth} for depth in (1, 2))
    seeds = web.start_urls[:1]
    wanted = statuses(crawl(web, tmp_path / "plain", deep, seeds=seeds))
    directory = tmp_path / "crawl"
    assert len(crawl(web, directory, shallow, seeds=seeds).query("FROM pages")) < len(wanted)
    before = sorted(onward.refused(index_of(directory)))
    lose(directory, "all")
    repaired(directory)
    assert sorted(onward.refused(index_of(directory))) == before
    assert statuses(crawl(web, directory, deep, seeds=[])) == wanted


@pytest.mark.parametrize("kind", [*ARCHIVED[:-1], *INDEX])
def test_one_flipped_bit(web: RunningWeb, damaged: Path, whole: dict[str, str], kind: str) -> None:
    """Found by `verify`; by the crawl too if it decides by that file; mended, and what was damaged is kept."""
    name = files_of(damaged, kind)[-1]
    before, known = contents(damaged), pages(damaged)
    flip(damaged / name)
    broken = (damaged / name).read_bytes()
    assert [(fault.name, bool(fault.remedy)) for fault in verify(damaged).faults] == [(name, True)]
    said = run("verify", damaged, at=damaged.parent)
    assert said.returncode == 1
    assert f"{name} is damaged" in said.stdout.decode()
    if kind not in ARCHIVED or kind == "robots":
        assert f"{name} is damaged" in complaint("crawl", "--json", "--dir", damaged, at=damaged.parent)
        assert all(
            data == before[other]
            for other, data in contents(damaged).items()
            if other in before and other != name and not other.startswith(("log/", "lock/", "last"))
        )
    repaired(damaged)
    assert broken in [data for other, data in contents(damaged).items() if other.startswith("aside/")]
    assert set(pages(damaged)) == set(known), "all pages are known"
    if kind not in ("visits", "pages"):
        assert pages(damaged) == known
    if kind != "visits":  # whose rows say which pages were visited
        check_goes_on(web, damaged, whole)
    elif kind == "visits":
        assert set(statuses(crawl(web, damaged, VALUES, seeds=[]))) == set(whole)


def test_a_flipped_bit_in_the_scope(web: RunningWeb, tmp_path: Path) -> None:
    """The hosts of seeds are known from the pages too."""
    values = {**VALUES, "crawl.scope": "host"}
    end = crawl(web, tmp_path / "plain", values)
    directory = tmp_path / "crawl"
    crawl(web, directory, {**values, "crawl.pages": 3})
    (name,) = at(directory).files["scope"]
    before = (directory / name).read_text()
    flip(directory / name)
    assert f"{name} is damaged" in complaint("crawl", "--json", "--dir", directory, at=tmp_path)
    repaired(directory)
    (name,) = at(directory).files["scope"]
    assert (directory / name).read_text() == before
    assert statuses(crawl(web, directory, values, seeds=[])) == statuses(end)


def test_a_damaged_record_costs_that_record_only(damaged: Path) -> None:
    before, name = records(damaged), at(damaged).files["warc"][0]
    flip(damaged / name)
    repaired(damaged)
    assert len(before - records(damaged)) == 1
    assert (damaged / name).stat().st_size == (damaged / "aside/2001-09-09T014640" / name).stat().st_size
    bodies = Crawl(damaged, (), Config()).query(
        "SELECT url, body(warc, warc_offset) AS body FROM visits WHERE warc <> ''"
    )
    assert sum(row["body"] is None for row in bodies) <= 1


def damage(path: Path, column: str) -> int:
    """One bit of a column's data, in the first group of rows. Returns how many rows that group has."""
    group = pq.read_metadata(path).row_group(0)
    (place,) = (i for i in range(group.num_columns) if group.column(i).path_in_schema == column)
    chunk = group.column(place)
    data = bytearray(path.read_bytes())
    data[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 2] ^= 4
    path.write_bytes(data)
    return int(group.num_rows)


@pytest.mark.parametrize(
    ("kind", "column", "nulls", "empty"),
    [
        ("visits", "digest", ["digest"], []),
        ("visits", "warc_offset", [], ["warc", "warc_offset"]),
        ("pages", "referrer", ["referrer"], []),
        ("pages", "host", [], []),  # it is known from the URL
    ],
)
def test_a_damaged_column_costs_that_column_only(
    web: RunningWeb, damaged: Path, whole: dict[str, str], kind: str, column: str, nulls: list[str], empty: list[str]
) -> None:
    name = at(damaged).files[kind][0]
    had = nulls_of(pq.read_table(damaged / name))  # energy and carbon, without a green policy
    count = damage(damaged / name, column)
    before = pq.read_metadata(damaged / name).num_rows
    words = ", ".join(
        f"the column {each} of {count:,} row{'s' * (count != 1)} becomes {what}"
        for what, columns in (("NULL", nulls), ("empty", empty))
        for each in columns
    )
    words = words or "all of its rows can be read: they are written anew"
    assert words in succeed("repair", damaged, "--dry-run", at=damaged.parent)
    assert any(words in line for line in repaired(damaged))
    rows = pq.read_table(damaged / at(damaged).files[kind][0])
    assert rows.num_rows == before
    assert nulls_of(rows) == had | dict.fromkeys(nulls, count)
    check_goes_on(web, damaged, whole)  # it also merges these rows
    lose(damaged, "all")
    repaired(damaged)
    assert pages(damaged) == whole


def nulls_of(rows: Any) -> dict[str, int]:
    return {each: rows[each].null_count for each in rows.column_names if rows[each].null_count}


def test_rows_without_their_keys_are_lost(damaged: Path) -> None:
    """A dry run says how many, as the repair does."""
    name = at(damaged).files["links"][0]
    count, total = damage(damaged / name, "source"), pq.read_metadata(damaged / name).num_rows
    words = f"{count:,} of {total:,} rows are lost"
    assert words in succeed("repair", damaged, "--dry-run", at=damaged.parent)
    assert any(words in line for line in repaired(damaged))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_rows_of_pages_are_found_in_other_tables(damaged: Path, share: float) -> None:
    """All that SQL knew of pages that have been linked or visited, wherever the file is damaged."""
    sql = "SELECT key, url, host, domain, round, depth, status FROM pages WHERE referrer <> 0 ORDER BY key"
    before = Crawl(damaged, (), Config()).query(sql)
    name = at(damaged).files["pages"][0]
    flip(damaged / name, share)
    repaired(damaged)
    assert Crawl(damaged, (), Config()).query(sql) == before


@pytest.mark.parametrize("column", PAGES.names)
def test_rows_of_pages_are_whole_whichever_column_is_damaged(damaged: Path, column: str) -> None:
    """Only who linked first may be forgotten; the hosts of seeds stay the crawl's scope."""
    sql = "SELECT key, url, host, domain, round, depth, status FROM pages ORDER BY key"
    found = Crawl(damaged, (), Config())
    before, alone = found.query(sql), found.query("SELECT key FROM pages WHERE referrer = 0 AND visits = 0")
    traceless = {row["key"] for row in alone}  # sitemaps that were named and not visited yet: no other table has them
    names = at(damaged).files["pages"]
    name = next(each for each in names if not traceless & set(pq.read_table(damaged / each)["key"].to_pylist()))
    hosts = seed_hosts({kind: [damaged / each for each in names] for kind, names in at(damaged).files.items()})
    damage(damaged / name, column)
    repaired(damaged)
    assert Crawl(damaged, (), Config()).query(sql) == before
    files = {kind: [damaged / each for each in names] for kind, names in at(damaged).files.items()}
    assert seed_hosts(files) == hosts


@pytest.mark.parametrize("kind", ["warc", "visits"])
def test_a_file_that_is_lost(damaged: Path, kind: str) -> None:
    name = at(damaged).files[kind][0]
    (damaged / name).unlink()
    assert [fault[:3] for fault in verify(damaged).faults] == [Fault(name, kind, "is missing")[:3]]
    repaired(damaged)
    assert name not in at(damaged).names()
    Crawl(damaged, (), Config()).query("SELECT text(warc, warc_offset) FROM pages")


@pytest.mark.parametrize("how", ["empty", "half", "flipped"])
@pytest.mark.parametrize("kind", INDEX[:-1])
@pytest.mark.parametrize("summed", [True, False], ids=["summed", "unsummed"])
def test_the_index_is_never_opened_damaged(web: RunningWeb, damaged: Path, kind: str, how: str, summed: bool) -> None:
    """Also one of an earlier version, which has no checksums: then what cannot be right is refused."""
    path = damaged / files_of(damaged, kind)[-1]
    if how == "flipped":
        if kind == "index.heap" and not summed:
            pytest.skip("nothing but text: only a checksum tells")
        flip(path, 0.5 if summed else 0.0)
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 if how == "half" else 0])
    if not summed:
        forget_checksums(damaged)
    if kind == "index.heap" and how == "half" and not summed:
        pytest.skip("a heap may end anywhere")
    with pytest.raises(ArchiveError, match=rf"{path.name} is (damaged|not an index file).*|a file is missing"):
        crawl(web, damaged, VALUES, seeds=[])


def forget_checksums(directory: Path) -> None:
    """As an earlier version wrote manifests."""
    rewritten(Directory(directory), "a0", drop=("sums", "gone"))


def test_files_without_checksums_are_counted(damaged: Path) -> None:
    forget_checksums(damaged)
    found = verify(damaged)
    assert (found.faults, found.unsummed) == ([], found.files)
    assert "have no checksum on record" in succeed("verify", damaged, at=damaged.parent)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"layout": "x"}', None])
def test_a_damaged_mark(web: RunningWeb, damaged: Path, whole: dict[str, str], data: bytes | None) -> None:
    if data is None:
        (damaged / "gossamer.json").unlink()
    else:
        (damaged / "gossamer.json").write_bytes(data)
    assert "gossamer.json" in complaint("status", damaged, at=damaged.parent) or data is None
    assert [fault.name for fault in verify(damaged).faults] == ["gossamer.json"]
    repaired(damaged)
    check_goes_on(web, damaged, whole)


def test_a_flipped_bit_in_a_manifest(web: RunningWeb, damaged: Path, whole: dict[str, str]) -> None:
    path = sorted((damaged / "manifest" / "a0").iterdir())[-1]
    flip(path)
    assert f"manifest/a0/{path.name} is damaged" in complaint("query", damaged, "SELECT 1", at=damaged.parent)
    assert f"manifest/a0/{path.name}" in [fault.name for fault in verify(damaged).faults]
    repaired(damaged)
    check_goes_on(web, damaged, whole)


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_an_old_manifest_that_nobody_needs(damaged: Path, how: str) -> None:
    """The newest full one says all that it said: it is set aside alone."""
    patient = Directory(damaged)
    current = at(damaged)
    full = manifest.file_name("a0", current.number + 1)
    body = manifest.sealed(replace(current, number=current.number + 1))
    assert patient.create(full, body)
    old = sorted((damaged / "manifest" / "a0").iterdir())[-3]
    if how == "missing":
        old.unlink()
        assert verify(damaged).faults == []
        return
    flip(old)
    before = at(damaged)
    assert [(fault.name, fault.problem, fault.remedy) for fault in verify(damaged).faults] == [
        (f"manifest/a0/{old.name}", "is damaged", "set aside: a newer one has all of its content")
    ]
    assert "1 file that newer ones have replaced" in succeed("repair", damaged, "--dry-run", at=damaged.parent)
    repaired(damaged)
    assert at(damaged) == before
    assert not old.exists()
    assert (damaged / "aside/2001-09-09T014640/manifest/a0" / old.name).exists()


@pytest.mark.parametrize("command", [("query", "SELECT * FROM pages"), ("status",), ("versions", "http://h0.test/")])
def test_readers_do_not_say_that_nothing_is_there(damaged: Path, command: tuple[str, ...]) -> None:
    lose(damaged, "all")
    said = complaint(command[0], damaged, *command[1:], at=damaged.parent)
    assert "files that no manifest names" in said
    assert f"`gossamer repair {damaged} --dry-run`" in said


def test_files_that_newer_ones_replaced_are_set_aside(web: RunningWeb, damaged: Path, whole: dict[str, str]) -> None:
    """As after a backup that was put back over a crawl that had gone on. Nothing else is changed."""
    (damaged / "warc" / "a0-00000003-7.warc.gz").write_bytes(b"old")
    before = at(damaged)
    assert "1 file that no manifest names" in complaint("crawl", "--json", "--dir", damaged, at=damaged.parent)
    repaired(damaged)
    assert at(damaged) == before
    assert (damaged / "aside/2001-09-09T014640/warc/a0-00000003-7.warc.gz").read_bytes() == b"old"
    check_goes_on(web, damaged, whole)


def test_nothing_to_repair(half: Path) -> None:
    assert succeed("repair", half, "--dry-run", at=half.parent) == "nothing is damaged\n"
    assert succeed("repair", half, "--apply", at=half.parent) == "nothing is damaged\n"
    assert not (half / "aside").exists()
    assert "one of the arguments --dry-run --apply is required" in complaint("repair", half, at=half.parent)


def test_nobody_repairs_what_is_being_crawled(damaged: Path) -> None:
    with Directory(damaged).lock("a0"):
        assert "is being crawled by process" in complaint("repair", damaged, "--apply", at=damaged.parent)
        with pytest.raises(ArchiveBusy):
            Repair(damaged, 1e9).apply(print)


class Crash(BaseException):
    """The process dies: nobody may catch it."""


def dying(patch: pytest.MonkeyPatch, after: int) -> None:
    """Whatever changes files, one after the other; at the last one the process dies."""
    left = after

    def mortal(act: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash
            return act(*args, **more)

        return call

    for owner, name in ((store.Directory, "put"), (store.Directory, "create"), (store.Directory, "delete")):
        patch.setattr(owner, name, mortal(getattr(owner, name)))
    for name in ("keep", "move"):
        patch.setattr(aside.Aside, name, mortal(getattr(aside.Aside, name)))


@pytest.mark.parametrize("what", ["manifests", "table"])
def test_a_repair_that_dies_is_done_again(
    web: RunningWeb, half: Path, tmp_path: Path, whole: dict[str, str], what: str
) -> None:
    known, archived, after, survived = pages(half), records(half), 0, False
    directory = tmp_path / "crawl"
    while not survived:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(half, directory)
        if what == "manifests":
            lose(directory, "all")
        else:
            flip(directory / at(half).files["links"][-1])
            flip(directory / at(half).files["cdxj"][-1])
        with pytest.MonkeyPatch.context() as patch:
            dying(patch, after)
            try:
                Repair(directory, 1e9).apply(lambda _: None)
                survived = True
            except Crash:
                pass
        if not survived:
            Repair(directory, 2e9).apply(lambda _: None)
        assert verify(directory).faults == []
        assert (pages(directory), records(directory)) == (known, archived)
        after += 1 if after < 8 else 7
    check_goes_on(web, directory, whole)


def test_half_of_a_repair_is_none(damaged: Path) -> None:
    lose(damaged, "all")
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, 12)
        with pytest.raises(Crash):
            Repair(damaged, 1e9).apply(lambda _: None)
    with pytest.raises(ArchiveError, match="a repair was interrupted"):
        Chain.open(Directory(damaged), "a0", InProcess())


def test_copies_mend_everything(web: RunningWeb, whole: dict[str, str], tmp_path: Path) -> None:
    first, other = tmp_path / "one" / "crawl", tmp_path / "other"
    values = {**VALUES, "site.copies": 2, "site.disks": [str(other)]}
    crawl(web, first, {**values, "crawl.pages": 120})
    good = {
        name: data for name, data in contents(first).items() if name.startswith(("manifest", "warc", "tables", "index"))
    }
    for kind in ("warc", "visits", "index.page"):
        flip(first / files_of(first, kind)[0])
    lose(first, "newest 8")
    repaired(first)
    assert {name: contents(first).get(name) for name in good} == good
    end = crawl(web, first, values, seeds=[])
    assert statuses(end) == whole


@pytest.mark.slow
def test_several_agents(web: RunningWeb, whole: dict[str, str], tmp_path: Path) -> None:
    """All their pages, and those that were on their way, are the first one's; the next run shares them out again."""
    directory = tmp_path / "crawl"
    crawl(web, directory, {**VALUES, "site.agents": 2, "crawl.pages": 120})
    known = pages(directory)
    shutil.rmtree(directory / "manifest" / "a1")
    before = contents(directory)
    assert "manifests are probably missing" in complaint("crawl", "--json", "--dir", directory, at=tmp_path)
    assert all(
        contents(directory).get(name) == data
        for name, data in before.items()
        if name.startswith(("warc", "tables", "index"))
    )
    repaired(directory)
    assert {url: status for url, status in pages(directory).items() if url in known} == known
    end = crawl(web, directory, {**VALUES, "site.agents": 2}, seeds=[])
    assert statuses(end) == whole
    assert len(visited(end)) == len(set(visited(end)))

"""Lists of websites, what a website is called, clients of a file, and what links tables become from scan to scan."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gossamer.cli.app import main
from gossamer.cluster.protocol import decode, encode
from gossamer.errors import ArchiveBusy, ArchiveError, ConfigError, SeedError
from gossamer.scan import clients, results
from gossamer.scan.command import configuration, span_s
from gossamer.scan.defaults import defaults
from gossamer.scan.findings import GONE, LINKS, READ
from gossamer.scan.history import outlook
from gossamer.scan.messages import ClientTask
from gossamer.scan.records import Facts, Record, Scans
from gossamer.scan.websites import Website, crawl_config, name_of, read_list, rules_of


def listed(path: Path, text: str, scope: str = "host") -> list[Website]:
    path.write_text(text)
    return read_list([path], scope).websites


def test_a_line_is_a_name_or_a_url(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("# ours\n\nexample.org\n  https://www.example.net/a \nwww.example.org\nhttp://\nexample.com:8080\n")
    found = read_list([path], "host")
    assert [(website.name, website.start) for website in found.websites] == [
        ("example.org", "http://example.org/"),
        ("example.net", "https://www.example.net/a"),
        ("example.com:8080", "http://example.com:8080/"),
    ]
    assert found.duplicates == ["www.example.org"]
    assert found.invalid == ["http://"]
    assert found.websites[2].folder == "example.com%3A8080"


def test_a_list_without_websites_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SeedError, match="nothing to scan: 'http://' is no web address"):
        listed(tmp_path / "list", "http://\n")
    with pytest.raises(SeedError, match="'http://', 'a b' are no web addresses"):
        listed(tmp_path / "list", "http://\na b\n")
    with pytest.raises(SeedError, match=r"http://a\.test/ is no file"):  # as it was written
        read_list(["http://a.test/"], "host")


def test_a_list_of_any_editor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "list"
    for encoding in ("utf-8-sig", "utf-16"):
        path.write_text("http://a.test/\r\nb.test\r\n", encoding, newline="")
        assert [website.name for website in read_list([path], "host").websites] == ["a.test", "b.test"]
    path.write_bytes(b"\x1f\x8b\0\0a\nb\n")
    with pytest.raises(SeedError, match="is not a text file"):
        read_list([path], "host")


def test_names_by_host_and_by_domain() -> None:
    assert name_of("https://www.a.example.org/x", "host") == "a.example.org"
    assert name_of("https://www.a.example.org/x", "domain") == "example.org"
    assert [each.name for each in (Website("a", "b"),)] == ["a"]


def test_the_rules_of_a_website() -> None:
    website = Website("example.org", "http://www.example.org/")
    rules = rules_of(website, defaults(), 7.0)
    assert (rules.host, rules.since_s, rules.pages) == ("example.org", 7.0, None)
    assert "https://www.example.org/*" in (rules.include or ())
    wide = rules_of(website, defaults().replace({"crawl.scope": "domain", "crawl.pages": 50}), 7.0)
    assert (wide.include, wide.pages) == (None, 50)
    own = rules_of(website, defaults().replace({"crawl.include": ["*a*"]}), 7.0)
    assert own.include is None, "as for all"


def test_the_crawl_of_websites_has_no_limits_for_all_of_them() -> None:
    own = crawl_config(defaults().replace({"crawl.pages": 50, "crawl.minutes": 2.0}), keep=False)
    assert (own.crawl.pages, own.crawl.minutes, own.limits.hosts_per_domain) == (0, 0.0, 0)
    assert (own.limits.depth, own.crawl.sitemaps, own.archive.digests) == (3, False, 0)
    wide = crawl_config(defaults().replace({"crawl.scope": "domain"}), keep=True)
    assert wide.limits.hosts_per_domain == defaults().limits.hosts_per_domain
    assert wide.archive.digests


def test_a_configuration_survives_the_way_to_a_client() -> None:
    config = defaults().replace(
        {"resolve.map": {"*": "127.0.0.1:1"}, "polite.delay_s": 0.5, "crawl.exclude": ["*.pdf"]}
    )
    config = config.replace({"host": {"example.org": {"delay_s": 9.0}}})
    task = ClientTask(client="c0", scan="s", config=config)
    assert decode(ClientTask, encode(task)) == task


def test_a_configuration_that_is_no_toml_is_a_mistake_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "scan.toml"
    path.write_text("x = [")
    with pytest.raises(ConfigError, match=r"scan\.toml is not valid TOML"):
        configuration(tmp_path, path, {})
    with pytest.raises(ConfigError, match="`gossamer config` prints a file"):
        configuration(tmp_path, tmp_path / "absent.toml", {})
    path.write_text("[limits]\ndepth = 5\n")
    assert configuration(tmp_path, path, {"crawl.pages": 9}) == defaults().replace(
        {"limits.depth": 5, "crawl.pages": 9}
    )


def test_lengths_of_time() -> None:
    assert [span_s(text) for text in ("90s", "30m", "6h", "1.5d", "2w")] == [90, 1800, 21_600, 129_600, 1_209_600]
    for wrong in ("", "6", "h", "-1h", "0s", "6 hours"):
        with pytest.raises(ConfigError, match="such as 30m, 6h"):
            span_s(wrong)


def test_clients_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "clients.toml"
    path.write_text('[clients.a]\nat_once = 2\nset = { "polite.delay_s" = 9.0 }\n[clients.b]\nreference_s = 85.8\n')
    found, times = clients.load(path, 4)
    assert [(worker.name, worker.slots) for worker in found] == [("a", 2), ("b", 4)]
    assert [worker.delay_s(defaults()) for worker in found] == [9.0, 5.0]
    assert times == {"b": 85.8}
    for text, message in (
        ("", "names no client"),
        ("[clients]\na = 3\n", "names no client"),
        ("[clients.a]\nat_once = 0\n", "at least 1"),
        ("[clients.a]\nreference_s = -1\n", "seconds above 0"),
        ("[clients.a]\nspeed = 1\n", "speed is unknown"),
        ('[clients.a]\nset = { "polite.deelay_s" = 1 }\n', "did you mean delay_s"),
        ("x = ", "not valid TOML"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            clients.load(path, 4)
    with pytest.raises(ConfigError, match="is no file"):
        clients.load(tmp_path / "absent", 4)


def test_the_sites_of_a_federation_are_clients(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text('[sites.paris]\naddress = "127.0.0.1:1"\nagents = 2\n[sites.rome]\naddress = "127.0.0.1:2"\n')
    assert [worker.name for worker in clients.load(path, 4)[0]] == ["paris_a0", "paris_a1", "rome_a0"]


def test_one_scan_at_a_time_in_a_directory(tmp_path: Path) -> None:
    scans = Scans(tmp_path / "scan")
    with scans.lock(), pytest.raises(ArchiveBusy, match="another process scans"), Scans(tmp_path / "scan").lock():
        pass
    (tmp_path / "gossamer.json").write_text("{}")
    with pytest.raises(ArchiveError, match="holds a crawl"), Scans(tmp_path).lock():
        pass


def test_a_damaged_record_is_reported(tmp_path: Path) -> None:
    scans = Scans(tmp_path)
    scans.write(Record(1, "batch", 0.0, []))
    (scans.folder(1) / "scan.json").write_text("{")
    with pytest.raises(ArchiveError, match="to do that scan again"):
        scans.unfinished()


# What is kept from scan to scan. A website has pages p and q, each with a link.

READ_BOTH = {"p": READ, "q": READ}


def scan(
    scans: Scans,
    number: int,
    told: dict[str, tuple[Facts, list[tuple[str, str]]]],
    states: dict[str, str] = READ_BOTH,
) -> dict[str, int]:
    """Publishes a scan in which the pages had these states, and had these links if they were read."""
    record = Record(number, "batch", float(number), [[name, f"http://{name}/"] for name in told])
    scans.write(record)
    files = scans.files(number)
    files.prepare()
    for website in record.listed:
        facts, links = told[website.name]
        pages = states if facts.status == "ok" else {}
        rows = [
            {
                "site": website.name,
                "source": source,
                "target": target,
                "target_site": "x",
                "anchor": "",
                "seen": _at(number),
            }
            for source, target in links
        ]
        rows += [{"site": website.name, "source": source, "target": "", "page": page} for source, page in pages.items()]
        pq.write_table(pa.Table.from_pylist(rows, schema=LINKS), files.links(website))
        facts.write(files.facts(website))
    found = results.publish(scans, record)
    record.ended_s = float(number)
    scans.write(record)
    return found


def _at(number: int) -> datetime:
    return datetime.fromtimestamp(1_000.0 * number, UTC)


def ok(name: str = "w", unreached: str = "") -> Facts:
    return Facts(name, f"http://{name}/", "ok", pages=2, unreached=unreached)


def sums(seen: int, appeared: int = 0, gone: int = 0, unknown: int = 0) -> dict[str, int]:
    return {"links": seen + unknown, "appeared": appeared, "gone": gone, "seen": seen, "unknown": unknown}


def states(scans: Scans, number: int, table: str = "links") -> dict[tuple[str, str], tuple[str, str]]:
    rows = pq.read_table(scans.folder(number) / f"{table}.parquet").to_pylist()
    return {(row["source"], row["target"]): (row["state"], row["reason"]) for row in rows}


def seen(scans: Scans, number: int) -> dict[tuple[str, str], tuple[datetime, datetime]]:
    rows = pq.read_table(scans.folder(number) / "links.parquet").to_pylist()
    return {(row["source"], row["target"]): (row["first_seen"], row["last_seen"]) for row in rows}


BOTH = [("p", "x1"), ("q", "x2")]


def test_first_and_last_seen(tmp_path: Path) -> None:
    scans = Scans(tmp_path)
    assert scan(scans, 1, {"w": (ok(), BOTH)}) == sums(2)
    assert scan(scans, 2, {"w": (ok(), [("p", "x1"), ("p", "x3")])}) == sums(2, appeared=1, gone=1)
    assert seen(scans, 2) == {("p", "x1"): (_at(1), _at(2)), ("p", "x3"): (_at(2), _at(2))}
    assert states(scans, 2, "changes")["q", "x2"] == ("gone", "its page was read without it")


def test_a_page_that_could_not_be_read_keeps_its_links(tmp_path: Path) -> None:
    scans = Scans(tmp_path)
    scan(scans, 1, {"w": (ok(), BOTH)})
    assert scan(scans, 2, {"w": (ok(), BOTH[:1])}, {"p": READ, "q": "it answered 503"}) == sums(1, unknown=1)
    assert seen(scans, 2)["q", "x2"] == (_at(1), _at(1))
    assert states(scans, 2)["q", "x2"] == ("unknown", "it answered 503")
    assert scan(scans, 3, {"w": (ok(), BOTH[:1])}, {"p": READ, "q": GONE}) == sums(1, gone=1)
    assert states(scans, 3, "changes") == {("q", "x2"): ("gone", "its page is gone")}


def test_a_page_that_nobody_visited_keeps_its_links(tmp_path: Path) -> None:
    scans = Scans(tmp_path)
    scan(scans, 1, {"w": (ok(), BOTH)})
    assert scan(scans, 2, {"w": (ok(unreached="not visited"), BOTH[:1])}, {"p": READ}) == sums(1, unknown=1)
    assert states(scans, 2, "changes") == {("q", "x2"): ("unknown", "not visited")}
    assert scan(scans, 3, {"w": (ok(), BOTH)}) == sums(2), "it is seen again, and has not appeared"
    assert seen(scans, 3)["q", "x2"] == (_at(1), _at(3))


def test_links_of_a_page_that_could_not_be_read_before_have_not_appeared(tmp_path: Path) -> None:
    scans = Scans(tmp_path)
    scan(scans, 1, {"w": (ok(), BOTH[:1])}, {"p": READ, "q": "it answered 503"})
    assert scan(scans, 2, {"w": (ok(), [*BOTH, ("r", "x3")])}) == sums(3, appeared=1)
    assert set(states(scans, 2, "changes")) == {("r", "x3")}, "its page is new"


def test_a_website_that_is_down_or_moved_keeps_its_links(tmp_path: Path) -> None:
    scans = Scans(tmp_path)
    scan(scans, 1, {"w": (ok(), BOTH)})
    down = Facts("w", "http://w/", "unreachable", "no connection")
    assert scan(scans, 2, {"w": (down, [])}) == sums(0, unknown=2)
    moved = Facts("w", "http://w/", "moved", "it leads to http://y/")
    assert scan(scans, 3, {"w": (moved, [])}) == sums(0, unknown=2)
    assert set(states(scans, 3).values()) == {("unknown", "it leads to http://y/")}


def test_new_websites_have_no_changes_nor_have_those_that_left(tmp_path: Path) -> None:
    scans = Scans(tmp_path)
    scan(scans, 1, {"w": (ok(), BOTH)})
    assert scan(scans, 2, {"v": (ok("v"), BOTH)}) == sums(2)


def test_a_plan_expects_waits_only_for_what_failed_to_the_end(tmp_path: Path) -> None:
    scans, one = Scans(tmp_path), {"pages": 9, "requests": 10, "wire_bytes": 9_000, "client": "c"}
    passing = Facts("w", "http://w/", "ok", scan_s=53.0, waited_s=48.0, **one)
    lasting = Facts("v", "http://v/", "ok", scan_s=53.0, waited_s=48.0, errors=1, **one)
    scan(scans, 1, {"w": (passing, BOTH), "v": (lasting, [])})
    ahead = outlook(scans, ["w", "v"], {"c": 0.0})
    assert ahead.waits_s.tolist() == [0.0, 48.0]
    assert ahead.times_s[:, 0] == pytest.approx([5.0, 53.0])


def test_tables_of_an_earlier_version_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They had no states, and no table of pages that were not read."""
    scans = Scans(tmp_path)
    scan(scans, 1, {"w": (ok(), BOTH)})
    for name, new in (
        ("links", ["state", "reason"]),
        ("changes", ["state", "reason"]),
        ("sites", ["seen", "unknown", "waited_s"]),
    ):
        path = scans.folder(1) / f"{name}.parquet"
        pq.write_table(pq.read_table(path).drop_columns(new), path)
    (scans.folder(1) / "unread.parquet").unlink()
    assert main(["query", str(tmp_path), "SELECT count(*) AS n, max(state) AS state FROM links", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 2, "state": None}]
    assert main(["query", str(tmp_path), "FROM unread", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert scan(scans, 2, {"w": (ok(), BOTH[:1])}, {"p": READ, "q": "it answered 503"}) == sums(1, unknown=1)
    assert main(["query", str(tmp_path), "SELECT sum(unknown) AS n FROM sites", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 1}]

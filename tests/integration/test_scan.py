"""`gossamer scan` and `gossamer plan` as users run them: what is found, what changed, what is wrong, what is next."""

import contextlib
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import answer, complaint, run, running, succeed
from scans import QUICK, SPEC, changes, folder, links, names, sites, texts, true_links, true_pages, write_list

from gossamer.cli.app import main
from gossamer.testweb.running import RunningWeb

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWeb]:
    path = tmp_path_factory.mktemp("web") / "log"
    with RunningWeb(SPEC, log_path=path, options=["--speed", "0"]) as running_web:
        yield running_web


@pytest.fixture(scope="module")
def twice(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of two scans, a day apart; in the second one website does not answer."""
    here = tmp_path_factory.mktemp("twice")
    listed = write_list(here / "SITES.txt", ["# ours", "", *names(web), names(web)[1], "http:///", "moved.example"])
    command = (
        "scan",
        listed,
        "--dir",
        "scan",
        "--testweb",
        web.address,
        *QUICK,
        "--depth",
        "2",
        "--agents",
        "2",
        "--json",
    )
    first = answer(*command, at=here)
    web.advance(DAY_S)
    web.fault(names(web)[2], "refuse")
    second = answer(*command, "--mode", "batch", at=here)
    web.fault(names(web)[2])
    (here / "said.json").write_text(json.dumps([first, second]))
    return here


def test_a_scan_finds_the_links_away_to_its_depth(web: RunningWeb, twice: Path) -> None:
    truth = {link for name in names(web) for link in true_links(web.truth, name, 2)}
    assert links(twice / "scan") == truth
    rows = sites(twice / "scan")
    assert {name: rows[name]["status"] for name in names(web)} == dict.fromkeys(names(web), "ok")
    assert sum(int(str(row["links"])) for row in rows.values()) == len(truth)
    assert all(row["scan_s"] and row["wire_bytes"] for row in rows.values())
    assert all(anchor for *_, anchor in texts(twice / "scan")), "the test web's links have texts"


def test_files_for_people_and_programs_say_the_same(twice: Path) -> None:
    lines = (folder(twice / "scan") / "links.csv").read_text().splitlines()
    assert lines[0] == '"site","source","target","target_site","anchor","first_seen","last_seen","state","reason"'
    assert len(lines) - 1 == len(links(twice / "scan"))
    assert not (folder(twice / "scan") / "crawls").exists()
    assert not (folder(twice / "scan") / "done").exists()


def test_scans_can_be_asked(twice: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = "SELECT (SELECT count(*) FROM links) AS links, list(DISTINCT scan ORDER BY scan) AS scans FROM sites"
    assert main(["query", str(twice / "scan"), asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"links": len(links(twice / "scan", 2)), "scans": [1, 2]}]
    assert main(["query", str(twice / "scan"), "SELECT count(*) AS n FROM changes WHERE scan = 2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": sum(map(len, changes(twice / "scan", 2).values()))}]
    assert main(["query", str(twice / "scan"), "tables"]) == 0
    assert "changes: links that appeared, are gone, or are unknown since" in capsys.readouterr().out
    assert main(["query", str(twice / "scan"), "SELECT * FROM pages"]) == 1
    assert "The tables are links, changes, sites, unread." in capsys.readouterr().err
    assert main(["status", str(twice / "scan")]) == 1
    assert "holds scans, not a crawl" in capsys.readouterr().err


def test_an_answer_that_nobody_reads_to_its_end(twice: Path) -> None:
    with running("query", "scan", "SELECT * FROM range(1000000)", "--format", "csv", at=twice) as query:
        assert query.inner.stdout is not None
        query.inner.stdout.close()
        assert query.inner.wait(60) == 0
        assert query.inner.stderr is not None
        assert query.inner.stderr.read() == b""


def test_the_second_scan_says_what_changed(web: RunningWeb, twice: Path) -> None:
    silent = names(web)[2]
    now = {link for name in names(web) if name != silent for link in true_links(web.truth, name, 2, DAY_S)}
    before = {link for name in names(web) if name != silent for link in true_links(web.truth, name, 2)}
    found = changes(twice / "scan", 2)
    assert now != before, "this web changes within a day"
    assert found["appeared"] == now - before
    visited = {page for name in names(web) if name != silent for page in true_pages(web.truth, name, 2, DAY_S)}
    assert found["gone"] == {link for link in before - now if link[1] in visited}
    unknown = {link for link in before - now if link[1] not in visited}  # no page leads to their pages any more
    assert found["unknown"] == unknown | true_links(web.truth, silent, 2)


def test_a_website_that_does_not_answer_keeps_its_links(web: RunningWeb, twice: Path) -> None:
    silent = names(web)[2]
    assert sites(twice / "scan", 2)[silent]["status"] == "unreachable"
    assert {link for link in links(twice / "scan", 2) if link[0] == silent} == true_links(web.truth, silent, 2)


def test_what_is_wrong_with_the_list_is_said(web: RunningWeb, twice: Path) -> None:
    first, second = json.loads((twice / "said.json").read_text())
    assert f"{names(web)[1]} is listed again, and scanned once" in first["events"]
    assert "http:/// is no web address" in first["events"]
    assert "nothing is known of these websites yet: the next one goes to the next free client" in first["events"]
    assert sites(twice / "scan")["moved.example"]["status"] == "failed"
    assert any(event.startswith(f"{names(web)[2]} is unreachable") for event in second["events"])
    assert (first["scan"], second["scan"], second["mode"], second["ended"]) == (1, 2, "batch", True)
    assert second["planned_s"] >= second["bound_s"] * 0.999 > 0


def test_a_plan_from_two_scans(web: RunningWeb, twice: Path) -> None:
    plan = ("plan", "SITES.txt", "--from", "scan", "--at-once", "1")
    rows = [json.loads(line) for line in succeed(*plan, "--json", at=twice).splitlines()]
    assert sorted(name for row in rows[:-1] for name in row["websites"]) == sorted([*names(web), "moved.example"])
    assert rows[-1]["planner"] == "lpt"
    assert rows[-1]["ratio"] >= 1
    compared = [json.loads(line) for line in succeed(*plan, "--compare", "--json", at=twice).splitlines()]
    assert [row["planner"] for row in compared][:3] == ["deal", "next-free", "next-free-reversed"]
    best = min(row["makespan_s"] for row in compared)
    assert compared[-1]["planner"] == "exact"
    assert compared[-1]["makespan_s"] == pytest.approx(best)
    succeed(*plan[:-1], "40", "--figure", "idle.svg", at=twice)  # some clients have nothing to do
    said = succeed(*plan, "--figure", "plan.png", at=twice)
    assert "no plan can be faster than" in said
    assert (twice / "plan.png").stat().st_size > 5_000


def test_clients_of_a_file(twice: Path) -> None:
    (twice / "clients.toml").write_text(
        "[clients.slow]\nreference_s = 100\nat_once = 1\n[clients.fast]\nreference_s = 25\nat_once = 1\n"
    )
    said = succeed("plan", "SITES.txt", "--from", "scan", "--clients", "clients.toml", "--json", at=twice)
    slow, fast, _ = map(json.loads, said.splitlines())
    assert fast["speed"] / slow["speed"] == pytest.approx(4)
    (twice / "bad.toml").write_text("[clients.slow]\nspeed = 3\n")
    wrong = complaint("plan", "SITES.txt", "--from", "scan", "--clients", "bad.toml", at=twice)
    assert "clients.slow.speed is unknown; there are at_once, reference_s, set" in wrong


def test_mistakes(web: RunningWeb, tmp_path: Path) -> None:
    write_list(tmp_path / "empty.txt", ["", "# nothing"])
    write_list(tmp_path / "one.txt", ["example.org"])
    on_web = ("--testweb", web.address)
    assert "nothing to scan; write one host name or URL per line" in complaint(
        "scan", "empty.txt", *on_web, at=tmp_path
    )
    assert "absent.txt is no file" in complaint("scan", "absent.txt", *on_web, at=tmp_path)
    assert "nothing to scan; write one host name" in complaint("scan", "empty.txt", at=tmp_path), "before the contact"
    assert "absent.txt is no file" in complaint("scan", "absent.txt", at=tmp_path)
    assert "say who is scanning" in complaint("scan", "one.txt", at=tmp_path)
    assert "write `gossamer scan join FILE --name SITE`" in complaint("scan", "join", at=tmp_path)
    assert "write a length of time" in complaint("scan", "one.txt", *on_web, "--repeat", "soon", at=tmp_path)
    assert "--scope host or --scope domain" in complaint("scan", "one.txt", *on_web, "--scope", "any", at=tmp_path)
    assert "limit a website by --pages" in complaint("scan", "one.txt", *on_web, "--rounds", "3", at=tmp_path)
    assert "leave it out" in complaint("scan", "one.txt", *on_web, "--engine", "pull", at=tmp_path)
    assert "write one number" in complaint("scan", "one.txt", *on_web, "--agents", "1..3", at=tmp_path)
    rendering = ("--render", "auto", "--agents", "2")
    assert "works with one agent only" in complaint("scan", "one.txt", *on_web, *rendering, at=tmp_path)
    assert "no finished scan to learn from" in complaint("plan", "one.txt", "--from", "none", at=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"empty.txt", "one.txt"}, "a mistake leaves nothing behind"


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            number, _, rest = path.read_text().partition(" (")
            if int(rest.rpartition(") ")[2].split()[1]) == parent:
                found.append(int(number))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_scan_goes_on(web: RunningWeb, twice: Path, tmp_path: Path, number: int) -> None:
    """Ctrl-C in the middle, or a terminal that is closed, which its clients hear too; then the same command: everything
    is there, and no finished website is visited again."""
    listed = write_list(tmp_path / "SITES.txt", names(web))
    slow = ("scan", listed, "--testweb", web.address, *QUICK, "--depth", "2", "--delay", "0.08", "--at-once", "1")
    visits = len(web.log())
    with running(*slow, at=tmp_path) as process:
        done = tmp_path / "scan" / "scans" / "0001" / "done"
        process.wait_until(lambda: len(list(done.glob("*.json"))) >= 2, "two finished websites")
        clients = children(process.inner.pid)
        assert clients
        for client in clients:
            os.kill(client, number)
        process.signal(number)
        code, said, _ = process.finish()
    assert code == 0
    assert "was interrupted; the same command goes on where it was" in said
    assert not (folder(tmp_path / "scan") / "links.csv").exists()
    again = run(*slow, at=tmp_path)
    assert again.returncode == 0
    assert "scan 1 goes on" in again.stdout.decode()
    truth = {link for name in names(web) for link in true_links(web.truth, name, 2, DAY_S)}
    assert links(tmp_path / "scan") == truth
    fetched = Counter(web.log().urls[visits:])
    assert {url for url, times in fetched.items() if times > 1 and not url.endswith("/robots.txt")} == set()


@pytest.mark.slow
def test_scans_repeat_until_they_are_stopped(web: RunningWeb, tmp_path: Path) -> None:
    listed = write_list(tmp_path / "SITES.txt", names(web)[2:])
    command = ("scan", listed, "--testweb", web.address, *QUICK, "--depth", "1", "--repeat", "1s", "--json")
    with running(*command, at=tmp_path) as process:
        third = tmp_path / "scan" / "scans" / "0002" / "links.csv"
        process.wait_until(third.exists, "second scan")
        process.signal(signal.SIGTERM)
        code, said, _ = process.finish()
    assert code == 0
    lines = [json.loads(line) for line in said.splitlines()]
    assert [line["scan"] for line in lines][:2] == [1, 2]
    assert lines[1]["appeared"] == lines[1]["gone"] == 0, "its time stands still"


@pytest.mark.slow
def test_a_reference_site_tells_clients_apart(web: RunningWeb, tmp_path: Path) -> None:
    listed = write_list(tmp_path / "SITES.txt", names(web)[2:])
    (tmp_path / "clients.toml").write_text('[clients.quick]\n[clients.slow]\nset = { "polite.delay_s" = 0.1 }\n')
    reference = ("--reference", f"http://{names(web)[3]}/", "--clients", "clients.toml")
    succeed("scan", listed, "--testweb", web.address, *QUICK, *reference, at=tmp_path)
    clients = json.loads((folder(tmp_path / "scan") / "scan.json").read_text())["clients"]
    assert clients["slow"]["reference_s"] > clients["quick"]["reference_s"]
    assert clients["quick"]["reference_pages"] > 1
    said = succeed("plan", listed, at=tmp_path)
    assert "the reference site should be: on a server of its own" in said

"""Every command in a process of its own: what it prints, what it leaves behind, what it says to mistakes."""

import csv
import gzip
import io
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commands import answer, committed_visits, complaint, environment, line, run, running, succeed
from warcio.archiveiterator import ArchiveIterator

from gossamer import config
from gossamer.archive.chain import Chain
from gossamer.archive.query import ask
from gossamer.archive.store import Directory
from gossamer.archive.views import TABLES
from gossamer.frontier.strategies import ORDERS
from gossamer.testweb.log import read_log
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec.plain(seed=21, hosts=4, pages=60, page_bytes=2_000.0, links=8.0, latency_ms=2.0)
QUICK = ("--scope", "any", "--delay", "0", "--set", "crawl.patience_s=0.1", "--set", "polite.backoff_s=0.1")
# Slow enough that a test finds the crawl still running, whatever else the machine does.
SLOW = ("--scope", "host", "--delay", "0.3", "--set", "crawl.round_s=0.3")
LONG = ("--scope", "host", "--delay", "2")


@pytest.fixture(scope="module")
def done(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory `crawl`, finished, inside this one."""
    here = tmp_path_factory.mktemp("done")
    succeed("crawl", web.start_url, "--testweb", web.address, *QUICK, "--quiet", at=here)
    return here


def urls_of(directory: Path) -> Counter[str]:
    return Counter(row["url"] for row in ask(directory, "SELECT url FROM visits WHERE NOT is_robots"))


def every_url(web: RunningWeb) -> set[str]:
    return set(web.truth.urls(web.truth.reachable()))


def of_host(web: RunningWeb, host: str) -> set[str]:
    return {url for url in every_url(web) if url.startswith(f"http://{host}/")}


# crawl


def test_crawl_says_what_it_did_and_where_it_is(web: RunningWeb, tmp_path: Path) -> None:
    said = succeed("crawl", web.start_url, "--testweb", web.address, *QUICK, at=tmp_path)
    first = said.splitlines()[0]
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +round \d+ +\d+ pages .* frontier \d+ .* errors 0", first)
    assert re.search(r"^ pages +60 +in 0:\d\d", said, re.MULTILINE)
    assert re.search(r"^ ok +60 +100 %", said, re.MULTILINE)
    for name in ("warc", "cdxj", "tables", "log"):
        assert f"crawl/{name}" in said
        assert (tmp_path / "crawl" / name).is_dir()
    assert "\x1b" not in said, "no escape sequences where nobody sees them"


def test_crawl_for_programs_and_for_nobody(web: RunningWeb, tmp_path: Path) -> None:
    command = ("crawl", web.start_url, "--testweb", web.address, *QUICK)
    found = answer(*command, "--json", "--dir", "a", at=tmp_path)
    assert (found["visits"], found["run_visits"], found["known"], found["frontier"]) == (60, 60, 60, 0)
    assert found["outcomes"] == {"ok": 60}
    assert found["errors"] == {}
    assert found["hosts"] == 4
    assert found["wire_bytes"] > 60_000
    assert {"elapsed_s", "round", "pages_per_s", "memory_bytes"} <= found.keys()
    assert succeed(*command, "--quiet", "--dir", "b", at=tmp_path) == ""


def test_the_same_command_again_goes_on(web: RunningWeb, tmp_path: Path) -> None:
    command = ("crawl", web.start_url, "--testweb", web.address, *QUICK, "--json")
    assert answer(*command, "--pages", "25", at=tmp_path)["visits"] == 25
    assert answer(*command, "--pages", "25", at=tmp_path)["run_visits"] == 0
    found = answer(*command, at=tmp_path)
    assert (found["visits"], found["run_visits"]) == (60, 35)
    assert urls_of(tmp_path / "crawl") == Counter(every_url(web))
    assert answer(*command, at=tmp_path)["run_visits"] == 0


def test_a_crawl_goes_on_with_the_options_of_its_last_run(web: RunningWeb, tmp_path: Path) -> None:
    succeed("crawl", web.start_url, "--testweb", web.address, *QUICK, "--quiet", "--pages", "10", at=tmp_path)
    again = run("crawl", "--json", "--width", "7", at=tmp_path)
    found = json.loads(again.stdout)
    assert (again.returncode, found["visits"], found["run_visits"]) == (0, 60, 50)  # the limit was the first run's
    said = again.stderr.decode()
    assert re.match(r"gossamer: as in the last run \(crawl/last-run\.toml\): .*polite\.delay_s = 0\.0", said)
    assert "crawl.width" not in said
    assert tomllib.loads((tmp_path / "crawl" / "last-run.toml").read_text())["crawl"]["width"] == 7
    (tmp_path / "mine.toml").write_text("[crawl]\nscope = 'host'\n")
    assert "say who is crawling" in complaint("crawl", "--config", "mine.toml", at=tmp_path)  # nothing else counts then


def test_warnings_are_shown_even_when_quiet(web: RunningWeb, tmp_path: Path) -> None:
    rude = ("--set", "polite.robots=false", "--pages", "1", "--quiet")
    said = succeed("crawl", web.start_url, "--testweb", web.address, *QUICK, *rude, at=tmp_path)
    assert "only to servers that are yours" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_ends_cleanly_and_the_crawl_goes_on_later(web: RunningWeb, tmp_path: Path, number: int) -> None:
    command = ("crawl", web.start_url, "--testweb", web.address)
    with running(*command, *SLOW, "--json", at=tmp_path) as crawl:
        crawl.wait_until(lambda: committed_visits(tmp_path / "crawl") >= 5, "commit")
        crawl.signal(number)
        code, out, err = crawl.finish()
    assert (code, err) == (0, "")
    stopped = json.loads(out)
    assert 5 <= stopped["visits"] < len(of_host(web, "h0.test"))
    state = Chain.read(Directory(tmp_path / "crawl"), "a0").state
    assert state.clean
    assert state.counters.visits == stopped["visits"] == urls_of(tmp_path / "crawl").total()
    found = answer(*command, *SLOW, "--delay", "0", "--json", at=tmp_path)
    assert found["visits"] == stopped["visits"] + found["run_visits"]
    assert urls_of(tmp_path / "crawl") == Counter(of_host(web, "h0.test"))


def test_the_second_signal_ends_at_once(tmp_path: Path) -> None:
    with RunningWeb(SPEC, options=["--fault", "h1.test=hang"]) as web:
        command = ("crawl", "http://h0.test/", "http://h1.test/", "--testweb", web.address, *SLOW)
        with running(*command, "--quiet", at=tmp_path) as crawl:
            crawl.wait_until(lambda: committed_visits(tmp_path / "crawl") >= 5, "commit")
            crawl.signal(signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                crawl.finish(1.0)  # a request to h1 is under way: a clean end waits for it
            crawl.signal(signal.SIGINT)
            assert crawl.finish() == (130, "", "")
        web.fault("h1.test")
        done_before = urls_of(tmp_path / "crawl")
        assert done_before.total() >= 5
        quick = ("--scope", "host", "--delay", "0", "--quiet")
        succeed(*command[:5], *quick, at=tmp_path)
        wanted = of_host(web, "h0.test") | of_host(web, "h1.test")
    assert urls_of(tmp_path / "crawl") == Counter(wanted)


def test_a_terminal_that_is_closed_ends_the_crawl_cleanly(web: RunningWeb, tmp_path: Path) -> None:
    """Which the kernel says by SIGHUP, to all processes of the terminal, and by failing whatever is written there."""
    command = line("crawl", web.start_url, "--testweb", web.address, *SLOW)
    child, terminal = pty.fork()
    if not child:  # it is our own terminal's first process now, as a shell would be
        os.chdir(tmp_path)
        os.execve(command[0], command, environment())
    with open(terminal, "rb", buffering=0) as screen:
        while committed_visits(tmp_path / "crawl") < 5:
            select.select([screen], [], [], 0.05)[0] and screen.read(1 << 16)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    state = Chain.read(Directory(tmp_path / "crawl"), "a0").state
    assert state.clean
    assert 5 <= state.counters.visits < len(of_host(web, "h0.test"))


def test_hang_ups_come_in_numbers_and_nohup_is_obeyed(web: RunningWeb, tmp_path: Path) -> None:
    """The kernel, the shell and systemd all say it: only Ctrl-C and SIGTERM mean something else the second time."""
    with RunningWeb(SPEC, options=["--fault", "h1.test=hang"]) as hanging:
        command = ("crawl", "http://h0.test/", "http://h1.test/", "--testweb", hanging.address, *SLOW, "--quiet")
        with running(*command, "--set", "fetch.timeout_s=20", at=tmp_path) as crawl:
            crawl.wait_until(lambda: committed_visits(tmp_path / "crawl") >= 5, "commit")
            for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):  # while it waits for h1
                crawl.signal(number)
                time.sleep(0.3)
            assert crawl.finish() == (0, "", "")
    assert Chain.read(Directory(tmp_path / "crawl"), "a0").state.clean
    deaf = line("crawl", web.start_url, "--testweb", web.address, *SLOW, "--pages", "20", "--json", "--dir", "deaf")
    with subprocess.Popen(["nohup", *deaf], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE) as crawl:
        while not committed_visits(tmp_path / "deaf"):
            time.sleep(0.05)
        crawl.send_signal(signal.SIGHUP)
        told = json.loads(crawl.communicate(timeout=120)[0])
    assert (crawl.returncode, told["visits"]) == (0, 20)


def test_only_one_crawl_at_a_time_in_a_directory(web: RunningWeb, tmp_path: Path) -> None:
    command = ("crawl", web.start_url, "--testweb", web.address, *LONG)
    with running(*command, "--quiet", at=tmp_path) as crawl:
        crawl.wait_until(lambda: committed_visits(tmp_path / "crawl"), "commit")
        said = complaint(*command, at=tmp_path)
        assert f"being crawled by process {crawl.inner.pid}" in said
        assert "choose another --dir" in said
        status = answer("status", "crawl", "--json", at=tmp_path)
        assert status["running"]
        assert status["agents"]["a0"]["pid"] == crawl.inner.pid
        assert f"running (process {crawl.inner.pid})" in succeed("status", "crawl", at=tmp_path)
        assert answer("query", "crawl", "SELECT count(*) AS n FROM visits", "--json", at=tmp_path)[0]["n"] > 0
        crawl.signal(signal.SIGINT)
        assert crawl.finish() == (0, "", "")


def test_an_order_of_ones_own_is_found_where_one_is(web: RunningWeb, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from gossamer.frontier.strategies import Strategy, by_depth\nORDER = Strategy('mine', 'my own', by_depth)\n"
    )
    command = line("crawl", web.start_url, "--testweb", web.address, *QUICK, "--order", "mine:ORDER", "--json")
    for agents in ("1", "2"):
        # -P: as the installed command `gossamer` does, Python does not look here by itself.
        started = [sys.executable, "-P", *command[1:], "--agents", agents, "--dir", f"of{agents}"]
        done = subprocess.run(started, cwd=tmp_path, env=environment(), capture_output=True, timeout=120)
        assert (done.returncode, done.stderr.decode()) == (0, "")
        assert json.loads(done.stdout)["visits"] == 60


# Seeds that come later


def test_seeds_are_added_to_a_running_crawl(web: RunningWeb, tmp_path: Path) -> None:
    with running("crawl", web.start_url, "--testweb", web.address, *LONG, "--quiet", at=tmp_path) as crawl:
        crawl.wait_until(lambda: committed_visits(tmp_path / "crawl"), "commit")
        before = len(read_log(web.log_path or Path()))
        assert "1 seed waits" in succeed("add", "crawl", "http://h1.test/", at=tmp_path)
        (agent,) = answer("agents", "crawl", "--json", at=tmp_path)["agents"]
        assert (agent["state"], agent["process"]) == ("crawling", crawl.inner.pid)
        assert "1 running, 1 in all" in succeed("agents", "crawl", at=tmp_path)
        others = tmp_path / "others.txt"
        others.write_text("# two more\nhttp://h2.test/\nhttp://h3.test/\n")
        assert answer("add", "crawl", others, "http://h1.test/", "--json", at=tmp_path) == {"added": 3}

        wanted = {"h1.test", "h2.test", "h3.test"}
        crawl.wait_until(lambda: wanted <= asked(web, before), "visit to the added hosts")
        crawl.signal(signal.SIGINT)
        assert crawl.finish() == (0, "", "")


def test_seeds_are_added_to_a_crawl_that_rests(web: RunningWeb, tmp_path: Path) -> None:
    command = ("--testweb", web.address, "--scope", "host", "--delay", "0", "--quiet")
    succeed("crawl", web.start_url, *command, "--pages", "3", at=tmp_path)
    assert answer("add", "crawl", "http://h1.test/", "--json", at=tmp_path) == {"added": 1}
    succeed("crawl", *command, at=tmp_path)
    assert urls_of(tmp_path / "crawl") == Counter(of_host(web, "h0.test") | of_host(web, "h1.test"))


def test_a_seed_file_is_read_as_it_grows(web: RunningWeb, tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("http://h0.test/\n")
    with running("crawl", file, "--testweb", web.address, *LONG, "--quiet", at=tmp_path) as crawl:
        crawl.wait_until(lambda: committed_visits(tmp_path / "crawl"), "commit")
        before = len(read_log(web.log_path or Path()))
        for name in ("h2.test", "h3.test"):
            with file.open("a") as more:
                more.write(f"http://{name}/\n")
            crawl.wait_until(lambda name=name: name in asked(web, before), f"visit to {name}")
        crawl.signal(signal.SIGINT)
        assert crawl.finish() == (0, "", "")
    assert {"h0.test", "h2.test", "h3.test"} == hosts_of(tmp_path / "crawl")


def asked(web: RunningWeb, before: int) -> set[str]:
    """Hosts whose pages were asked for, in the server's log from that line on."""
    log = read_log(web.log_path or Path())
    pairs = zip(log.host.tolist()[before:], log.path.tolist()[before:], strict=True)
    return {host for host, path in pairs if path != "/robots.txt"}


def hosts_of(directory: Path) -> set[str]:
    return {row["host"] for row in ask(directory, "SELECT DISTINCT host FROM visits WHERE NOT is_robots")}


# Looking at a crawl


def test_status(done: Path) -> None:
    found = answer("status", "crawl", "--json", at=done)
    assert (found["running"], found["visits"], found["known"], found["hosts"]) == (False, 60, 60, 4)
    assert (found["outcomes"], found["errors"], found["statuses"]) == ({"ok": 60}, {}, {"fetched": 60})
    assert found["top_hosts"][0]["host"] == "h0.test"
    assert sum(host["visited"] for host in found["top_hosts"]) == 60
    assert found["disk_bytes"] == sum(found["disk"].values()) > 0
    assert found["last_commit_s"] >= found["started_s"]
    assert {"directory", "agents", "rounds", "frontier", "wire_bytes", "busy_s", "rate", "where"} <= found.keys()
    shown = succeed("status", at=done)  # the directory's default name
    assert "not running" in shown
    assert re.search(r"^visits +60 ", shown, re.MULTILINE)
    assert re.search(r"^h0\.test ", shown, re.MULTILINE)


SQL = "SELECT host, count(*) AS pages FROM pages GROUP BY host ORDER BY host"


def test_query_in_every_format(web: RunningWeb, done: Path) -> None:
    wanted = [{"host": f"h{i}.test", "pages": len(of_host(web, f"h{i}.test"))} for i in range(4)]
    for arguments in (("--json",), ("--format", "json")):
        assert answer("query", "crawl", SQL, *arguments, at=done) == wanted
    rows = csv.DictReader(io.StringIO(succeed("query", "crawl", SQL, "--format", "csv", at=done)))
    assert [{"host": row["host"], "pages": int(row["pages"])} for row in rows] == wanted
    table = succeed("query", "crawl", SQL, at=done)
    assert [line.split()[0] for line in table.splitlines()[2:6]] == [f"h{i}.test" for i in range(4)]
    assert table.splitlines()[-1] == "4 rows"
    assert succeed("query", "crawl", SQL, "--format", "parquet", "--out", "rows.parquet", at=done) == ""
    assert pq.read_table(done / "rows.parquet").to_pylist() == wanted
    assert succeed("query", "crawl", SQL, "--json", "--out", "rows.json", at=done) == ""
    assert json.loads((done / "rows.json").read_text()) == wanted


def test_query_from_standard_input_and_the_list_of_tables(done: Path) -> None:
    assert json.loads(succeed("query", "crawl", "-", "--json", at=done, given="SELECT 1 AS one")) == [{"one": 1}]
    described = succeed("query", "crawl", "tables", at=done)
    for table in TABLES:
        assert f"## {table.name}" in described
    assert "text(warc, warc_offset)" in described


def test_query_reaches_content_and_text(done: Path) -> None:
    sql = """SELECT title, content(warc, warc_offset) AS html, text(warc, warc_offset) AS text
        FROM pages WHERE url = 'http://h0.test/'"""
    (row,) = answer("query", "crawl", sql, "--json", at=done)
    assert row["title"] in row["html"]
    assert "<a href" in row["html"]
    assert row["text"]
    assert "<" not in row["text"]


def test_export_warc(done: Path) -> None:
    piped = run("export", "crawl", "--warc", "-", at=done)
    assert (piped.returncode, piped.stderr) == (0, b"")
    found = answer("export", "crawl", "--warc", "all.warc.gz", "--json", at=done)
    assert found == {"kind": "warc", "out": "all.warc.gz", "files": ["all.warc.gz"]}
    assert (done / "all.warc.gz").read_bytes() == piped.stdout
    answers = [
        record.rec_headers.get_header("WARC-Target-URI")
        for record in ArchiveIterator(io.BytesIO(piped.stdout))
        if record.rec_type in ("response", "revisit")
    ]
    assert len([url for url in answers if not url.endswith("/robots.txt")]) == 60
    several = run("export", "crawl", "--warc", "folder", at=done)
    assert re.fullmatch(r"gossamer: wrote .*B(,| of WARC) to folder\n", several.stderr.decode())
    assert run("export", "crawl", "--warc", "all.warc", at=done).returncode == 0
    assert (done / "all.warc").read_bytes() == gzip.decompress(piped.stdout)
    assert sorted(path.name for path in (done / "folder").iterdir()) == sorted(
        path.name for path in (done / "crawl" / "warc").iterdir()
    )


def test_export_cdxj_and_urls(web: RunningWeb, done: Path) -> None:
    assert answer("export", "crawl", "--cdxj", "all.cdxj", "--json", at=done)["rows"] >= 60
    lines = (done / "all.cdxj").read_text().splitlines()
    assert lines == sorted(lines)
    entries = [json.loads(line.split(" ", 2)[2]) for line in lines]
    assert {entry["url"] for entry in entries} >= every_url(web)
    assert succeed("export", "crawl", "--cdxj", "-", at=done).splitlines() == lines
    assert succeed("export", "crawl", "--urls", "-", at=done).splitlines() == sorted(every_url(web))
    assert run("export", "crawl", "--urls", "urls.txt", at=done).stderr == b"gossamer: wrote 60 URLs to urls.txt\n"
    assert (done / "urls.txt").read_text().splitlines() == sorted(every_url(web))


def test_export_text(web: RunningWeb, done: Path) -> None:
    pages = [json.loads(line) for line in succeed("export", "crawl", "--text", "-", at=done).splitlines()]
    assert {page["url"] for page in pages} == every_url(web)
    assert all(page["text"] and page["title"] and page["time"].endswith("Z") for page in pages)
    piped = run("export", "crawl", "--text", "-", "--json", at=done)
    assert json.loads(piped.stderr) == {"kind": "text", "out": "-", "rows": 60}
    written = run("export", "crawl", "--text", "text.parquet", at=done)
    assert (written.stdout, written.stderr) == (b"", b"gossamer: wrote 60 pages' text to text.parquet\n")
    assert pq.read_metadata(done / "text.parquet").num_rows == 60


def test_inspect(web: RunningWeb, done: Path) -> None:
    found = answer("inspect", "HTTP://H0.test:80/#top", "--testweb", web.address, "--json", at=done)
    assert found["url"] == "HTTP://H0.test:80/#top"
    assert found["normalised"] == "http://h0.test/"
    assert (found["outcome"], found["http_status"], found["charset"]) == ("ok", 200, "utf-8")
    assert found["robots"]["verdict"] == "allowed"
    assert {link["verdict"] for link in found["links"]} == {"followed", "nofollow", "scope"}
    wide = answer("inspect", "http://h0.test/", "--testweb", web.address, "--scope", "any", "--json", at=done)
    assert {link["verdict"] for link in wide["links"]} == {"followed", "nofollow"}
    assert {"key", "host", "domain", "title", "headers", "redirects", "trap", "canonical", "elapsed_s"} <= found.keys()
    shown = succeed("inspect", "http://h0.test/", "--testweb", web.address, at=done)
    assert re.search(r"^normalised +http://h0\.test/", shown, re.MULTILINE)
    assert re.search(r"^robots +allowed", shown, re.MULTILINE)


def test_inspect_tells_what_is_in_the_way(done: Path) -> None:
    spec = WebSpec(seed=4, hosts=12, pages=200, robots_rules=1.0, robots_missing=0.0, robots_broken=0.0)
    with RunningWeb(spec) as web:
        truth = web.truth
        denied = next(truth.url(page) for page in range(spec.pages) if not truth.allowed(page))
        found = answer("inspect", denied, "--testweb", web.address, "--json", at=done)
    assert (found["outcome"], found["robots"]["verdict"]) == ("denied", "denied")
    assert found["robots"]["line"].lower().startswith("disallow:")
    found = answer("inspect", "http://h0.test/", "--testweb", "127.0.0.1:1", "--json", at=done)
    assert (found["outcome"], found["robots"]["http_status"]) == ("robots_unreachable", 0)
    assert "connect" in found["reason"].lower()
    for url in ("http://127.0.0.1:8080/", "http://2130706433/", "http://169.254.169.254/latest/meta-data/"):
        found = answer("inspect", url, "--json", at=done)
        assert found["outcome"] == "refused_address", url


def test_config_prints_every_key(tmp_path: Path) -> None:
    text = succeed("config", at=tmp_path)
    (tmp_path / "all.toml").write_text(text)
    assert config.load(tmp_path / "all.toml") == config.Config()
    sections = tomllib.loads(text)
    assert sections["polite"]["delay_s"] == 5.0
    assert len(sections) == 13


def test_orders(tmp_path: Path) -> None:
    found = answer("orders", "--json", at=tmp_path)
    assert [order["name"] for order in found] == list(ORDERS)
    lines = succeed("orders", at=tmp_path).splitlines()
    assert [line.split()[0] for line in lines] == list(ORDERS)


def test_testweb_prints_the_command_that_crawls_it(tmp_path: Path) -> None:
    with running("testweb", "--seed", "3", "--hosts", "3", "--pages", "20", at=tmp_path) as web:
        assert web.inner.stdout is not None
        said = [web.inner.stdout.readline().decode() for _ in range(2)]
        assert said[0].startswith("testweb: http://h0.test/")
        command = shlex.split(said[1].partition("gossamer ")[2])
        succeed(*command, "--pages", "5", "--quiet", at=tmp_path)
        web.signal(signal.SIGINT)
        assert web.finish() == (0, "", "")
    assert urls_of(tmp_path / "crawl").total() == 5


def test_testweb_for_programs(tmp_path: Path) -> None:
    with running("testweb", "--json", "--pages", "20", "--hosts", "3", at=tmp_path) as web:
        assert web.inner.stdout is not None
        told = json.loads(web.inner.stdout.readline())
        assert told["start_urls"] == ["http://h0.test/"]
        assert answer("inspect", "http://h0.test/", "--testweb", told["address"], "--json", at=tmp_path)["title"]
        web.signal(signal.SIGTERM)
        assert web.finish() == (0, "", "")


def test_help_and_version(tmp_path: Path) -> None:
    commands = ("crawl", "add", "status", "query", "export", "inspect", "config", "orders", "testweb", "demo")
    said = succeed("--help", at=tmp_path)
    assert all(re.search(rf"^ +{name} ", said, re.MULTILINE) for name in commands)
    assert re.fullmatch(r"gossamer \d+\.\d+\.\d+\n", succeed("--version", at=tmp_path))
    flags = succeed("crawl", "--help", at=tmp_path)
    wanted = ("--dir", "--pages", "--rounds", "--minutes", "--width", "--delay", "--scope", "--order", "--depth",
              "--config", "--set", "--json")  # fmt: skip
    assert all(flag in flags for flag in wanted)


def test_output_that_nobody_reads_to_its_end(done: Path) -> None:
    with running("query", "crawl", "SELECT * FROM range(1000000)", "--format", "csv", at=done) as query:
        assert query.inner.stdout is not None
        assert query.inner.stdout.readline() == b"range\n"
        query.inner.stdout.close()
        assert query.inner.wait(60) == 0
        assert query.inner.stderr is not None
        assert query.inner.stderr.read() == b""


def test_a_report_that_nobody_reads(done: Path) -> None:
    with running("report", "crawl", "--html", "-", at=done) as report:
        assert report.inner.stdout is not None
        report.inner.stdout.close()
        assert report.inner.wait(60) == 0
        assert report.inner.stderr is not None
        assert report.inner.stderr.read() == b""


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    said = succeed("demo", "--dir", "d", at=tmp_path)
    assert "Which pages do most other hosts link to?" in said
    assert "What to try next" in said
    assert "watch d-sites/three-sites.toml" in said
    assert (tmp_path / "d-sites" / "three-sites.toml").read_text().count("latitude = ") == 3  # the map shows them
    assert ask(tmp_path / "d", "SELECT count(*) AS n FROM pages WHERE status = 'fetched'")[0]["n"] > 1_000

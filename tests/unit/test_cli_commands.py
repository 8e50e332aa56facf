"""The table of commands: every row leads to a command, and none is imported before it is asked for."""

import argparse
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT, environment
from rich.text import Text
from sample_archive import sample

from gossamer.cli.app import COMMANDS, main
from gossamer.cli.output import show, watched
from gossamer.config import Config
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec


@pytest.mark.parametrize("name", COMMANDS)
def test_every_row_leads_to_a_command(name: str) -> None:
    place, _, function = COMMANDS[name][0].partition(":")
    module = import_module(place)
    assert callable(getattr(module, function or name))
    if not function:
        parser = argparse.ArgumentParser()
        getattr(module, f"{name}_arguments")(parser)
        assert parser.format_help()


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n    {name}" not in shown] == []


# Libraries that take long to load, and what crawls: all of them together take half a second.
_HEAVY = (
    *("asyncio", "cryptography", "duckdb", "isal", "msgspec", "nats", "numpy", "obstore", "pyarrow", "pyarrow.parquet"),
    *("pycares", "pycurl", "rich", "selectolax"),
    *("gossamer.api", "gossamer.crawl.agent", "gossamer.fetch.client", "gossamer.web.html", "gossamer.wiring"),
)
_SCRIPT = """
import contextlib, io, sys
from gossamer.cli.app import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(sys.argv[2:])
print(*(name for name in sys.argv[1].split(",") if name in sys.modules))
"""


def _imported(*words: object, among: tuple[str, ...] = _HEAVY) -> set[str]:
    """What a command has imported when it is done, in a process of its own."""
    line = [sys.executable, "-c", _SCRIPT, ",".join(among), *map(str, words)]
    done = subprocess.run(line, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


_ENDING = """
import atexit, sys, threading
from gossamer.cli.app import command
atexit.register(print, "left")
threading.Timer(0.1, print, ["waited"]).start()
sys.argv[1:] = ["--version"]
command()
"""


def test_a_command_ends_as_python_does_but_for_freeing_memory() -> None:
    """Threads are waited for, what is registered for the end is called, and what was printed arrives."""
    done = subprocess.run([sys.executable, "-c", _ENDING], cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[-2:] == ["waited", "left"]
    line = [sys.executable, "-m", "gossamer", "status", "/nowhere"]
    assert subprocess.run(line, cwd=ROOT, env=environment(), capture_output=True).returncode == 1


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample(tmp_path_factory.mktemp("commands") / "crawl")


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_needs_nothing_but_itself(word: str) -> None:
    modules = [path.relative_to(ROOT).with_suffix("") for path in ROOT.glob("gossamer/**/*.py")]
    names = tuple(".".join(path.parts).removesuffix(".__init__") for path in modules)
    ours = {"gossamer", "gossamer.cli", "gossamer.cli.app", "gossamer.errors", "gossamer.version"}
    assert _imported(word, among=(*names, *_HEAVY)) == ours


@pytest.mark.parametrize("name", ["status", "crawl", "add", "reload", "agents", "watch"])
def test_the_help_of_a_command_needs_no_more_than_the_configuration(name: str) -> None:
    assert _imported(name, "--help") == {"msgspec"}


def test_status_needs_no_arrays_and_nothing_that_crawls(crawl: Path) -> None:
    assert _imported("status", crawl, "--json") == {"duckdb", "msgspec", "rich"}


def test_a_check_of_health_reads_no_tables(crawl: Path) -> None:
    assert _imported("status", crawl, "--check") == {"msgspec"}


def test_a_query_needs_nothing_that_reads_pages_or_crawls(crawl: Path) -> None:
    found = _imported("query", crawl, "SELECT count(*) FROM pages")
    assert found == {"duckdb", "msgspec", "numpy", "pyarrow", "pyarrow.parquet", "rich"}


def test_a_query_that_reads_pages_finds_what_it_needs(crawl: Path) -> None:
    sql = "SELECT text(warc, warc_offset) FROM pages WHERE status = 'fetched'"
    assert "gossamer.web.html" in _imported("query", crawl, sql)


def test_a_crawl_that_nobody_watches_loads_only_what_it_uses(tmp_path: Path) -> None:
    with RunningWeb(WebSpec.plain(seed=5, hosts=1, pages=3, page_bytes=500.0, links=3.0)) as web:
        words = ("--testweb", web.address, "--delay", "0", "--set", "crawl.patience_s=0.1", "--dir", tmp_path / "crawl")
        found = _imported("crawl", web.start_url, *words, "--json", among=(*_HEAVY, "numpy.ma"))
    assert found == {
        *("isal", "msgspec", "numpy", "pyarrow", "pyarrow.parquet", "pycurl"),
        *("gossamer.api", "gossamer.crawl.agent", "gossamer.fetch.client", "gossamer.web.html", "gossamer.wiring"),
    }


def test_who_wants_no_display_reads_notes_as_the_crawl_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also in a file: a crawl may take days."""
    read: list[str] = []

    def run(_: object) -> Any:
        read.append((tmp_path / "log").read_text())

    with (tmp_path / "log").open("w") as log:
        monkeypatch.setattr(sys, "stdout", log)
        watched(run, Config(), argparse.Namespace(json=False, quiet=True), ["slower"])
    assert read == ["gossamer: slower\n"]


def test_a_pipe_gets_whole_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show("word " * 30, False, Text)
    assert capsys.readouterr().out == "word " * 30 + "\n"


def test_without_a_word_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "show the state of a crawl" in capsys.readouterr().err


def test_an_output_on_a_full_disk_is_a_message(crawl: Path) -> None:
    with open("/dev/full", "w") as full:
        line = [sys.executable, "-m", "gossamer", "status", str(crawl), "--json"]
        done = subprocess.run(
            line, cwd=ROOT, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (
        1, "gossamer: the output cannot be written: No space left on device\n",
    )  # fmt: skip


def test_an_output_that_is_closed_is_no_trouble(crawl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["query", str(crawl), "SELECT 1"]) == 0
    sys.stdout.close()


def test_seeds_that_need_not_be_given_are_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["federation", "status"])
    assert capsys.readouterr().err.endswith("the following arguments are required: FILE\n")


@pytest.mark.parametrize("words", [["report", "{}"], ["duplicates", "{}", "--similarity", "7"]])
def test_mistakes_are_refused(crawl: Path, words: list[str]) -> None:
    try:
        code = main([word.format(crawl) for word in words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2


def test_a_report_can_be_figures_alone(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(crawl), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["known"] == 4

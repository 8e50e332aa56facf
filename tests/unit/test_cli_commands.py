"""The table of commands: every row leads to a command, and none is imported before it is asked for."""

import argparse
import subprocess
import sys
from importlib import import_module

import pytest
from commands import ROOT, environment
from rich.text import Text

from gossamer.cli.app import COMMANDS, main
from gossamer.cli.output import show


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


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_needs_nothing_but_itself(word: str) -> None:
    script = (
        "import sys\n"
        "from gossamer.cli.app import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(sorted(name for name in sys.modules if name.startswith('gossamer')), file=sys.stderr)\n"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'duckdb', 'pyarrow', 'rich', 'msgspec')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, word], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (
        0,
        "['gossamer', 'gossamer.cli', 'gossamer.cli.app', 'gossamer.errors', 'gossamer.version']\n",
    )


def test_a_pipe_gets_whole_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show("word " * 30, False, Text)
    assert capsys.readouterr().out == "word " * 30 + "\n"

"""Completion scripts offer what the parsers know: commands, options, and values where there is a list of them."""

import shutil
import subprocess

import pytest

from gossamer.cli.app import COMMANDS, main
from gossamer.cli.completion import SHELLS, parsers


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def offered(source: str, *words: str) -> list[str]:
    """What bash would offer for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _gossamer; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", f"{source}\n{ask}"], capture_output=True, text=True, check=True, timeout=30)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    source = script("bash", capsys)
    assert offered(source, "gossamer", "sta") == ["status"]
    assert offered(source, "gossamer", "crawl", "--cont") == ["--contact"]
    assert offered(source, "gossamer", "crawl", "--scope", "") == ["host", "domain", "any"]
    assert offered(source, "gossamer", "agents", "crawl", "re") == ["retire"]
    assert offered(source, "gossamer", "query", "no-such-file") == []  # then bash goes on with files


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_with_every_option_is_there(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = script(shell, capsys)
    known = {name: parser for name, _, parser in parsers()}
    assert {*COMMANDS} - {*known} == {"lab"}
    for name, parser in known.items():
        assert name in source
        for flag in (flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")):
            assert (f"-l {flag[2:]} " if shell == "fish" else flag) in source or flag == "--with-process"
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=source, capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stderr) == (0, "")

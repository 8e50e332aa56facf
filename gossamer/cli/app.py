"""This module is the command `gossamer`: it finds the command that was asked for, runs it, and reports its errors.

Each command is a row of `COMMANDS`. Its module is imported when it is asked for, so that nobody waits for the others.
"""

import argparse
import atexit
import errno
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from gossamer.errors import ConfigError, GossamerError
from gossamer.version import __version__

# Name: where it is, and what it does. A module has `NAME_arguments(parser)`, which declares the command's arguments,
# and `NAME(arguments)`, which does the work and returns the exit code. After a colon, a function takes all the
# arguments as they are.
COMMANDS = {
    "crawl": ("gossamer.cli.crawl", "crawl from seeds into a directory; run the same command again to resume"),
    "add": ("gossamer.cli.crawl", "add seeds to a crawl, whether it is running or not"),
    "reload": ("gossamer.cli.crawl", "change limits, delays, patterns and other options of a crawl that is running"),
    "status": ("gossamer.cli.status", "show the state of a crawl"),
    "watch": ("gossamer.cli.watch", "show a crawl in the browser, and serve its metrics and its health"),
    "agents": ("gossamer.cli.status", "show the agents of a crawl, start another one, or let one leave"),
    "agent": ("gossamer.cli.agent", "join a crawl on other machines: run its agents here, as its supervisor asks for"),
    "federation": ("gossamer.cli.federation", "run several sites that crawl as one, as a file describes them"),
    "site": ("gossamer.cli.federation", "run one site of a federation on its own machine"),
    "query": ("gossamer.cli.query", "ask a crawl's archive in SQL"),
    "versions": ("gossamer.cli.query", "list the versions of one page, as it changed from visit to visit"),
    "show": ("gossamer.cli.query", "print a page as it was stored, in its last version or in an earlier one"),
    "extract": ("gossamer.cli.extract", "run functions over the pages of a crawl, without fetching them again"),
    "export": ("gossamer.cli.export", "write a crawl to one file, in a format that other programs read"),
    "import": ("gossamer.cli.importing:main", "make a crawl of WARC files that others wrote"),
    "duplicates": ("gossamer.cli.duplicates", "list the pages of a crawl that nearly repeat another one"),
    "report": ("gossamer.cli.report", "write a page about a crawl: coverage, structure, errors, politeness, carbon"),
    "restore": ("gossamer.cli.repair", "restore a crawl from its copies (site.copies), after its disk was lost"),
    "verify": ("gossamer.cli.repair", "check every file of a crawl: is it there, and is it as it was written"),
    "repair": ("gossamer.cli.repair", "repair the directory of a crawl from what is left of it; nothing is deleted"),
    "migrate": ("gossamer.cli.migrate", "bring the directory of a crawl that an earlier version made up to date"),
    "inspect": ("gossamer.cli.inspect", "show how the crawler sees one URL: normal form, robots.txt, answer, links"),
    "identity": ("gossamer.cli.identity", "make the key that requests are signed with, and say what to publish of it"),
    "scan": ("gossamer.cli.scan", "scan a list of websites, once or regularly, for links that lead away from them"),
    "plan": ("gossamer.cli.scan", "plan which client should scan which websites next, and how long that will take"),
    "config": ("gossamer.cli.reference", "print a configuration file with every key and its meaning"),
    "orders": ("gossamer.cli.reference", "list the strategies for --order"),
    "completion": ("gossamer.cli.completion", "print a script that completes commands in bash, zsh or fish"),
    "testweb": ("gossamer.testweb.command:main", "serve a synthetic web on loopback"),
    "simulate": ("gossamer.cli.simulate", "simulate a crawl of a link graph, to compare orders and connections"),
    "lab": ("gossamer.cli.simulate:lab", "run the experiments that compare Gossamer with papers, from a clone"),
    "demo": ("gossamer.cli.demo", "crawl a test web and answer questions about it"),
}  # fmt: skip

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of a disk that takes no more

# NumPy's linear algebra is not used, but its threads would be started, and spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class Parser(argparse.ArgumentParser):
    """`Parser` names the word that may have been meant. The parsers of its commands do so, too."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        known = [str(choice) for choice in action.choices or ()]
        if value not in (action.choices or ()) and (near := _nearest(str(value), known)):
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; did you mean {near}?")
        super()._check_value(action, value)


def command() -> NoReturn:
    """Runs the command line and ends the process without taking the interpreter apart: the kernel frees all memory at
    once, where Python would look for cycles among everything that was imported."""
    code = main()
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as Python does when it ends
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    if sys.stdout is None:  # the caller has closed it
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()  # here, where an error has a message
        return code
    except GossamerError as error:
        print(f"gossamer: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except BrokenPipeError:  # the reader of our output (head, less) has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a file or directory that the user named, and we may not touch
        if error.filename is None and error.errno in _FULL:
            print(f"gossamer: the output cannot be written: {error.strerror}", file=sys.stderr)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        if error.filename is None:
            raise
        print(f"gossamer: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(words: list[str]) -> int:
    """Does what the first word asks for, with the others. `--help` and `--version` need no command."""
    name = words[0] if words else ""
    if words == ["--version"]:  # without the parsers of all commands
        print(f"gossamer {__version__}")
        return 0
    place, _, function = COMMANDS[name][0].partition(":") if name in COMMANDS else ("", "", "")
    if function:
        return _action(place, function)(words[1:])
    parser = Parser(prog="gossamer", description="A fast, polite, crash-proof web crawler.")
    parser.add_argument("--version", action="version", version=f"gossamer {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    parsers = {
        each: commands.add_parser(each, help=text, description=f"{text[0].upper()}{text[1:]}.")
        for each, (_, text) in COMMANDS.items()
        if each == name or not place
    }
    if not words:  # whoever does not know what to write sees what there is
        parser.print_help(sys.stderr)
    if not place:
        parser.parse_args(words)  # shows help or version, or ends with an error
        return 0
    _action(place, f"{name}_arguments")(parsers[name])
    arguments, rest = parser.parse_known_args(words)
    if rest:
        _complain(parsers[name], rest)
    return _action(place, name)(arguments)


def _action(place: str, function: str) -> Callable[[Any], int]:
    found: Callable[[Any], int] = getattr(import_module(place), function)
    return found


def _complain(parser: argparse.ArgumentParser, rest: list[str]) -> None:
    """Reports what the command does not know, with its own usage, and what may have been meant."""
    known = [option for action in parser._actions for option in action.option_strings]
    meant = _nearest(rest[0].partition("=")[0], known)
    parser.error(f"unrecognized arguments: {' '.join(rest)}" + (f"; did you mean {meant}?" if meant else ""))


def _nearest(word: str, known: list[str]) -> str:
    """Returns the word that may have been meant, if any."""
    import difflib  # only for those who mistype

    return next(iter(difflib.get_close_matches(word, known, 1)), "")

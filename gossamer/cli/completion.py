"""`gossamer completion SHELL` prints a script that completes commands and options, made from the parsers themselves."""

import argparse
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

SHELLS = ("bash", "zsh", "fish")


def completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell",
        choices=SHELLS,
        help='which one; for example: eval "$(gossamer completion bash)", in ~/.bashrc to have it always',
    )


def completion(arguments: argparse.Namespace) -> int:
    words = list(_all_words())
    print(_fish(words) if arguments.shell == "fish" else _posix(words, arguments.shell), end="")
    return 0


def parsers() -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yields every command with what it does, and its parser. Experiments (`gossamer lab`) have their own parsers."""
    from gossamer.cli.app import COMMANDS, Parser

    for name, (place, text) in COMMANDS.items():
        module, _, function = place.partition(":")
        if name == "lab":
            continue
        if function:
            yield name, text, import_module(module).parser()
            continue
        parser = Parser(prog=f"gossamer {name}", description=f"{text[0].upper()}{text[1:]}.")
        getattr(import_module(module), f"{name}_arguments")(parser)
        yield name, text, parser


class _Words(NamedTuple):
    """`_Words` is what can follow a command: its options, each with its meaning and values, and words of its own."""

    command: str
    meaning: str
    options: dict[str, tuple[str, list[str]]]
    words: list[str]


def _all_words() -> Iterator[_Words]:
    for name, text, parser in parsers():
        shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
        options = {
            flag: (_first(each), _values(each)) for each in shown for flag in each.option_strings if flag != "-h"
        }
        yield _Words(name, text, options, [word for each in shown if not each.option_strings for word in _values(each)])


def _values(action: argparse.Action) -> list[str]:
    """Returns what an argument can be if that is a list of words: its choices, or a metavar such as host|domain|any."""
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    found = [str(choice) for choice in action.choices or ()] or (metavar.split("|") if "|" in metavar else [])
    return [word for word in found if word.replace("-", "").isalnum() and word.islower()]


def _first(action: argparse.Action) -> str:
    """Returns the first clause of an option's help, in one line."""
    return " ".join((action.help or "").split()).partition(";")[0].partition(" (default")[0].replace("%%", "%")


def _posix(commands: list[_Words], shell: str) -> str:
    """Returns the same function for bash and zsh: what was written selects a list of words; files if there is none."""
    cases = [
        f"        '{each.command} {flag}') offer='{' '.join(values)}' ;;"
        for each in commands
        for flag, (_, values) in each.options.items()
        if values
    ]
    others = [f"            {each.command}) offer='{' '.join([*each.words, *each.options])}' ;;" for each in commands]
    first = " ".join(each.command for each in commands)
    lines = [
        "_gossamer() {",
        *_POSITION[shell],
        '    case "$command $previous" in',
        f"        'gossamer '*) offer='{first} --help --version' ;;",
        *cases,
        '        *) case "$command" in',
        *others,
        "        esac ;;",
        "    esac",
        *_OFFER[shell],
        "}",
        *_REGISTER[shell],
    ]
    return "\n".join(lines) + "\n"


_POSITION = {
    "bash": (
        "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} offer",
        '    [ "$COMP_CWORD" = 1 ] && command=gossamer',
    ),
    "zsh": (
        "    local previous=${words[CURRENT-1]} command=${words[2]} offer",
        "    (( CURRENT == 2 )) && command=gossamer",
    ),
}  # fmt: skip
_OFFER = {
    "bash": ('    COMPREPLY=($(compgen -W "$offer" -- "$word"))',),
    "zsh": ("    compadd -- ${=offer} || _files",),
}
_REGISTER = {
    "bash": ("complete -o default -F _gossamer gossamer",),
    "zsh": ("compdef _gossamer gossamer",),
}


def _fish(commands: list[_Words]) -> str:
    lines = []
    for each in commands:
        lines.append(f"complete -c gossamer -n __fish_use_subcommand -a {each.command} -d {_quoted(each.meaning)}")
        begin = f"complete -c gossamer -n '__fish_seen_subcommand_from {each.command}'"
        lines += [f"{begin} -a {word}" for word in each.words]
        for flag, (meaning, values) in each.options.items():
            kind = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            lines.append(f"{begin} {kind} -d {_quoted(meaning)}" + (f" -xa '{' '.join(values)}'" if values else ""))
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

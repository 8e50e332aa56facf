"""This module has the arguments that several commands share: directories, --json, and the configuration.

The configuration's most used keys have a flag of their own; --set is for the others.
"""

import argparse
import ipaddress
from pathlib import Path
from typing import Any

from gossamer import config
from gossamer.archive.places import remembered
from gossamer.config import last_run
from gossamer.config.folders import Place, as_place, check_folder
from gossamer.errors import ConfigError
from gossamer.sim.numbers import positive as positive

DEFAULT_DIR = "crawl"
_CRAWL = "its directory, or where it is in a bucket (s3://, az://, gs://)"

_AGENTS = "site.agents"  # and what decides whether their number follows the demand

# flag, configuration key, metavar (empty: the flag means true): the keys that have a flag of their own; all others go
# through --set.
FLAGS = (
    ("--pages", "crawl.pages", "N"),
    ("--rounds", "crawl.rounds", "N"),
    ("--minutes", "crawl.minutes", "M"),
    ("--agents", _AGENTS, "N|MIN..MAX"),
    ("--engine", "site.engine", "processes|ray|pull"),
    ("--ray-address", "site.ray_address", "ADDRESS"),
    ("--width", "crawl.width", "N"),
    ("--scope", "crawl.scope", "host|domain|any"),
    ("--order", "crawl.order", "NAME"),
    ("--topic", "crawl.topic", "WORDS"),
    ("--delay", "polite.delay_s", "S"),
    ("--burst", "polite.burst", "C"),
    ("--connections", "polite.connections", "R"),
    ("--depth", "limits.depth", "N"),
    ("--contact", "fetch.contact", "WHO"),
    ("--cookies", "fetch.cookies_file", "FILE"),
    ("--include", "crawl.include", "PATTERN"),
    ("--exclude", "crawl.exclude", "PATTERN"),
    ("--requisites", "crawl.requisites", ""),
    ("--render", "crawl.render", "auto|PATTERN"),
    ("--extract", "extract.functions", "MODULE:FUNCTION"),
    ("--links", "extract.links", "MODULE:FUNCTION"),
    ("--log", "log.file", "FILE"),
)
_LISTS = (
    "crawl.include",
    "crawl.exclude",
    "crawl.render",
    "extract.functions",
)  # each time the flag is given adds an item


def folder(name: str) -> Path:
    """Converts an argument that is a directory."""
    try:
        return Path(check_folder(name))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def crawl_place(name: str) -> Place:
    """Converts an argument that is a directory, or an address."""
    try:
        return as_place(name)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_crawl(parser: argparse.ArgumentParser, text: str = f"the crawl: {_CRAWL}") -> None:
    parser.add_argument("dir", metavar="DIR", type=crawl_place, help=text)


def add_default_crawl(parser: argparse.ArgumentParser) -> None:
    text = f"the crawl: {_CRAWL} (default: {DEFAULT_DIR})"
    parser.add_argument("dir", metavar="DIR", type=crawl_place, nargs="?", default=Path(DEFAULT_DIR), help=text)


def add_folder(parser: argparse.ArgumentParser, flag: str, default: str, text: str, *aliases: str) -> None:
    """Adds a flag for the directory to work in."""
    text = f"{text} (default: {default})"
    parser.add_argument(flag, *aliases, dest="dir", metavar="DIR", type=folder, default=Path(default), help=text)


def add_place(parser: argparse.ArgumentParser) -> None:
    """Adds the flag for where the crawl is to be."""
    text = f"what holds the crawl: {_CRAWL} (default: {DEFAULT_DIR})"
    parser.add_argument("--dir", metavar="DIR", type=crawl_place, default=Path(DEFAULT_DIR), help=text)


def add_seeds(parser: argparse.ArgumentParser, number: str = "*", more: str = "") -> None:
    parser.add_argument(
        "seeds",
        nargs=number,
        metavar="SEED",
        default=[],  # without it, argparse would name seeds among what is required
        help=f"a URL, or a file with one URL per line{more}; options like depth=2 may follow a URL",
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def add_json(parser: argparse.ArgumentParser, text: str = "print JSON") -> None:
    parser.add_argument("--json", action="store_true", help=text)


def add_configuration(parser: argparse.ArgumentParser, base: config.Config | None = None) -> None:
    """Adds the flags of the configuration; `base` has the defaults that their help names."""
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="a TOML file with the configuration; `gossamer config` prints one")
    for flag, name, metavar in FLAGS:
        if not metavar:
            add(flag, dest=name, action="store_const", const="true", help=config.meaning(name, base))
            continue
        action = "append" if name in _LISTS else "store"
        add(flag, dest=name, metavar=metavar, action=action, help=config.meaning(name, base))
    add("--testweb", metavar="ADDRESS:PORT", help="crawl the test web at this address (see `gossamer testweb`)")
    add("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="set any key of the configuration")


def configuration(arguments: argparse.Namespace) -> config.Config:
    loaded = config.load(arguments.config) if arguments.config else config.Config()
    return loaded.replace(given(arguments))


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the options on the command line, by `section.key`."""
    values: dict[str, Any] = {}
    for flag, name, _ in FLAGS:
        text = getattr(arguments, name)
        if text is not None:
            try:
                values |= _agents(text) if name == _AGENTS else {name: _parsed(name, text)}
            except ConfigError as error:
                raise ConfigError(f"{flag}: {error}") from None
    if arguments.testweb:
        values["resolve.map"] = {"*": _on_loopback(arguments.testweb)}
    for item in arguments.set:
        name, equals, text = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item}: write --set section.key=value")
        values[name.strip()] = config.parse_value(name.strip(), text.strip())
    return values


def _parsed(name: str, text: Any) -> Any:
    return text if name in _LISTS else config.parse_value(name, text)


def _agents(text: str) -> dict[str, Any]:
    """Returns the keys for `4` (always so many), `1..4` (on demand), or `1..` (with no upper bound of ours)."""
    least, dots, most = text.partition("..")
    if not dots:
        return {_AGENTS: config.parse_value(_AGENTS, text), "site.max_agents": 0, "site.min_agents": 1}
    first = config.parse_value("site.min_agents", least or "1")
    last = config.parse_value("site.max_agents", most or "unlimited")
    return {"site.min_agents": first, _AGENTS: first, "site.max_agents": last}


def _on_loopback(address: str) -> str:
    """Returns the address of a test web. It must be this machine: every name leads there, and no contact is needed."""
    from gossamer.fetch.resolver import checked_map

    ((host, _),) = checked_map(config.Resolve(map={"*": address})).values()
    if not ipaddress.ip_address(host).is_loopback:
        raise ConfigError(
            f"--testweb {address}: a test web is on this machine, as in 127.0.0.1:8080; "
            "to send names to other servers of yours, use resolve.map"
        )
    return address


def dropped_functions(arguments: argparse.Namespace) -> str:
    """Returns a warning if the last run had functions that --config silently leaves out; otherwise nothing."""
    before = remembered(arguments.dir) if arguments.config else None
    if before is None:
        return ""
    now, asked = configuration(arguments).extract, given(arguments)
    functions = before.extract.functions if not now.functions and "extract.functions" not in asked else []
    links = before.extract.links if not now.links and "extract.links" not in asked else ""
    flags = [f"--extract {each}" for each in functions] + [f"--links {links}"] * bool(links)
    if not flags:
        return ""
    missed = f"; `gossamer extract {arguments.dir} {' '.join(functions)}` makes up for pages without items"
    return (
        f"the last run had functions that this one has not, as --config takes the place of its options: "
        f"give {' '.join(flags)} again{missed if functions else ''}"
    )


def resumed(arguments: argparse.Namespace) -> tuple[config.Config, str]:
    """Returns the configuration of a crawl that may have run before, and a note on options kept from its last run."""
    before = None if arguments.config else remembered(arguments.dir)
    if before is None:
        return configuration(arguments), ""
    now = given(arguments)
    kept = [f"{name} = {config.toml(value)}" for name, value in last_run.options(before).items() if name not in now]
    word = f"as in the last run ({arguments.dir}/{last_run.FILE}): {', '.join(kept)}" if kept else ""
    return before.replace(now), word

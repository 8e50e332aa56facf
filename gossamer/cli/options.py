"""What the command line says of the configuration: the keys that have a flag of their own, and --set for the others."""

import argparse
import ipaddress
from pathlib import Path
from typing import Any

from gossamer import config
from gossamer.errors import ConfigError

# flag, configuration key, metavar: the keys that have a flag of their own; all others go through --set.
FLAGS = (
    ("--pages", "crawl.pages", "N"),
    ("--rounds", "crawl.rounds", "N"),
    ("--minutes", "crawl.minutes", "M"),
    ("--agents", "site.agents", "N"),
    ("--width", "crawl.width", "N"),
    ("--scope", "crawl.scope", "host|domain|any"),
    ("--order", "crawl.order", "NAME"),
    ("--topic", "crawl.topic", "WORDS"),
    ("--delay", "polite.delay_s", "S"),
    ("--burst", "polite.burst", "C"),
    ("--connections", "polite.connections", "R"),
    ("--depth", "limits.depth", "N"),
    ("--contact", "fetch.contact", "WHO"),
)
# The same for lists: each time the flag is given adds an item.
LISTS = (
    ("--include", "crawl.include", "PATTERN"),
    ("--exclude", "crawl.exclude", "PATTERN"),
)


def configuration(arguments: argparse.Namespace) -> config.Config:
    loaded = config.load(arguments.config) if arguments.config else config.Config()
    return loaded.replace(given(arguments))


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the command line says, by `section.key`."""
    values: dict[str, Any] = {}
    for flag, name, _ in FLAGS:
        text = getattr(arguments, name)
        if text is not None:
            try:
                values[name] = config.parse_value(name, text)
            except ConfigError as error:
                raise ConfigError(f"{flag}: {error}") from None
    values |= {name: items for _, name, _ in LISTS if (items := getattr(arguments, name))}
    if arguments.testweb:
        values["resolve.map"] = {"*": _on_loopback(arguments.testweb)}
    for item in arguments.set:
        name, equals, text = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item}: write --set section.key=value")
        values[name.strip()] = config.parse_value(name.strip(), text.strip())
    return values


def _on_loopback(address: str) -> str:
    """The address of a test web. Every name leads there, and nobody is asked who crawls: it must be this machine."""
    from gossamer.fetch.resolver import checked_map

    ((host, _),) = checked_map(config.Resolve(map={"*": address})).values()
    if not ipaddress.ip_address(host).is_loopback:
        raise ConfigError(
            f"--testweb {address}: a test web is on this machine, as in 127.0.0.1:8080; "
            "to send names to other servers of yours, use resolve.map"
        )
    return address


def going_on(arguments: argparse.Namespace) -> tuple[config.Config, str]:
    """The configuration of a crawl that may have run before, and a word about what it was told then."""
    from gossamer.config import last_run

    before = None if arguments.config else last_run.recall(Path(arguments.dir))
    if before is None:
        return configuration(arguments), ""
    said_now = given(arguments)
    kept = [
        f"{name} = {config.toml(value)}" for name, value in last_run.options(before).items() if name not in said_now
    ]
    said = f"as in the last run ({Path(arguments.dir) / last_run.FILE}): {', '.join(kept)}" if kept else ""
    return before.replace(said_now), said

"""This module decides which sites share the hosts, and since when: what a site keeps of the file, and what follows when
the file changes.

Each version of the list of sites is carried out in two turns. A site gives away the hosts that are no longer its own,
and reports that to all others (`released`). When all have reported it, nothing is on its way any more that was sent by
an earlier list; what came meanwhile and is not its own it has sent on, and reports that too (`clean`). Until all others
are clean, it does not touch hosts that were not its own before: another site may still have them.
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gossamer.archive.state import Members as Members
from gossamer.cluster.federation_file import Federation, load, parsed
from gossamer.errors import ConfigError

Weights = Mapping[str, float]


def of_file(federation: Federation) -> Members:
    weights = {name: 0.0 if site.gone else site.weight for name, site in federation.sites.items()}
    return Members(federation.shared.version, weights, federation.shared.partitioner)


def in_words(federation: Federation) -> str:
    """Returns the list of sites as text, for people who look on when it changes."""
    names = [name for name, site in federation.sites.items() if not site.gone]
    gone = [name for name, site in federation.sites.items() if site.gone]
    without = f" ({', '.join(gone)} {'is' if len(gone) == 1 else 'are'} gone)" if gone else ""
    return f"version {federation.shared.version} of the list of sites: {', '.join(names)}{without}"


def to_carry_out(
    federation: Federation, site: str, kept: Mapping[str, Any] | None, clean: Mapping[str, int]
) -> Members:
    """Returns the list that a site follows: the file, and what it kept of those before it."""
    new = of_file(federation)
    if kept is None:
        return new
    old, name = Members(**kept), federation.path.name
    if new.partitioner != old.partitioner:
        raise ConfigError(
            f'the crawl was begun with federation.partitioner = "{old.partitioner}", by which hosts have their sites: '
            f"write it so in {name} again"
        )
    if list(new.weights)[: len(old.weights)] != list(old.weights):
        raise ConfigError(
            f"the sites of {name} must begin with those that the crawl has had: {', '.join(old.weights)}; "
            "write new ones below them, and `gone = true` for one that is switched off for good"
        )
    if new.version < old.version:
        raise ConfigError(f"{name} is older than the crawl: federation.version was {old.version} there")
    if new.version == old.version:
        if dict(new.weights) != dict(old.weights):
            raise ConfigError(
                f"the sites of {name} are not what they were: write federation.version = {old.version + 1}, "
                "so that all sites give and take hosts at the same turn (see docs/federation.md)"
            )
        return old
    before: list[Weights] | None = [old.weights]
    if is_holding(old.version, others(federation, site), clean):
        before = None if old.before is None else [*old.before, old.weights]
    return Members(new.version, new.weights, new.partitioner, before)


def why_behind(federation: Federation, site: str, kept: Mapping[str, Any] | None, is_running: bool) -> str:
    """Returns why a site that kept this list does not follow the file; empty if it does, or will when started."""
    try:
        new = to_carry_out(federation, site, kept, {})
    except ConfigError as error:
        return str(error)
    if kept is None or not is_running or new.version == kept["version"]:
        return ""
    return f"{federation.path.name} is version {new.version} here; bring it to its machine"


def why_fenced(site: str, address: str, mine: Members, theirs: Members | None, addresses: Mapping[str, str]) -> str:
    """Returns why a site may not act any more, by a later list of sites than its own; empty if it may."""
    if theirs is None or theirs.version <= mine.version or addresses.get(site, address) == address:
        return ""
    there = addresses[site]
    if there:
        return (
            f"by version {theirs.version} of the list of sites {site} is at {there} now, and this is {address}, by "
            f"version {mine.version}: it must not run twice; bring the new file here to run it here"
        )
    return (
        f"by version {theirs.version} of the list of sites {site} is gone, and its hosts are with others; the file "
        f"here is version {mine.version}: delete the site's directory, and add it under another name"
    )


def why_waiting(site: str, mine: Members, theirs: Mapping[str, Members]) -> str:
    """Returns why a site waits: others follow another list under the same version. The list that most follow counts;
    of two that are followed by as many, the one of the site that comes first."""
    same = {name: members for name, members in theirs.items() if members.version == mine.version}
    lists = [(name, same.get(name, mine)) for name in mine.weights if name == site or name in same]
    followed = [[name for name, other in lists if _is_same(other, one)] for _, one in lists]
    chosen = max(followed, key=len)
    if site in chosen:
        return ""
    return (
        f"{', '.join(chosen)} {'follows' if len(chosen) == 1 else 'follow'} another version {mine.version} of the list "
        f"of sites than {site}: bring one file to all sites, with federation.version = {mine.version + 1}"
    )


def _is_same(one: Members, other: Members) -> bool:
    return list(one.weights.items()) == list(other.weights.items()) and one.partitioner == other.partitioner


def take(path: Path, text: str, before: int) -> None:
    """Takes a list that the operator sends, at a site. One that cannot be taken is an error that says why."""
    current, new = load(path), parsed(path, text)
    if path.read_text("utf-8") == text:
        return
    if before and current.shared.version != before:
        raise ConfigError(f"its list is version {current.shared.version}, and not {before} any more: look again")
    if new.shared.version <= current.shared.version:
        raise ConfigError(f"its list is version {current.shared.version} already")
    new.check()
    to_carry_out(new, new.first, of_file(current).as_dict(), {})  # says what cannot be done
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Writes the file, whole or not at all; who may read it stays as it is."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_text(text, "utf-8")
    if path.exists():
        shutil.copymode(path, scratch)
    scratch.replace(path)


def others(federation: Federation, site: str) -> list[str]:
    """Returns the sites that can be contacted."""
    return [name for name, one in federation.sites.items() if name != site and not one.gone]


def is_holding(version: int, names: Iterable[str], clean: Mapping[str, int]) -> bool:
    """Returns whether one of these sites may still have hosts of others. The first version begins with none."""
    return version > 1 and any(clean.get(name, 0) < version for name in names)

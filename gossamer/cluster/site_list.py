"""This module decides which sites share the hosts, and since when: what a site keeps of the file, and what follows when
the file changes.

Each version of the list of sites is carried out in two turns. A site gives away the hosts that are no longer its own,
and reports that to all others (`released`). When all have reported it, nothing is on its way any more that was sent by
an earlier list; what came meanwhile and is not its own it has sent on, and reports that too (`clean`). Until all others
are clean, it does not touch hosts that were not its own before: another site may still have them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gossamer.archive.state import Members as Members
from gossamer.cluster.federation_file import Federation
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


def others(federation: Federation, site: str) -> list[str]:
    """Returns the sites that can be contacted."""
    return [name for name, one in federation.sites.items() if name != site and not one.gone]


def is_holding(version: int, names: Iterable[str], clean: Mapping[str, int]) -> bool:
    """Returns whether one of these sites may still have hosts of others. The first version begins with none."""
    return version > 1 and any(clean.get(name, 0) < version for name in names)

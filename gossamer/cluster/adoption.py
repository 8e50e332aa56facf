"""This module restores the directory of a lost site from the replicas that other sites on this machine hold.

Only manifests count, not which directories there are: a new holder may have nothing yet, and a former one may have the
most. Chains are taken agent by agent. Any mixture of them is a state in which the site could have been killed, for what
an agent has sent to others is at all holders (`replicated_exchange`).
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import Snapshot, file_names
from gossamer.archive.mark import MARK
from gossamer.archive.places import opened
from gossamer.archive.state import total
from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.cluster.federation_file import Federation
from gossamer.cluster.replicas import is_of_another_life, replica_of
from gossamer.errors import ConfigError

_UNFINISHED = ".adopting"


@dataclass(frozen=True)
class Held:
    """`Held` is a replica: what its manifests name, and which of these files are not there."""

    path: Path
    chains: Mapping[str, Snapshot]
    missing: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, path: Path) -> "Held":
        store = Directory(path)
        chains = snapshots(store)
        missing = {
            agent: [name for name in sorted(at.names()) if not store.local(name).exists()]
            for agent, at in chains.items()
        }
        return cls(path, chains, {agent: names for agent, names in missing.items() if names})

    def in_words(self) -> str:
        if not self.chains:
            return "empty"
        counters = total(at.state.counters for at in self.chains.values())
        commits = ", ".join(f"{at.number} of {agent}" for agent, at in self.chains.items())
        words = f"commit {commits}, {counters.known:,} pages known, {counters.visits:,} visits"
        lacking = [name for names in self.missing.values() for name in names]
        if lacking:
            words += f"; {len(lacking)} file{'s' * (len(lacking) > 1)} missing, such as {lacking[0]}"
        return words


@dataclass(frozen=True)
class Adopted:
    """`Adopted` has the replicas that were looked at, and which of them each agent's chain was taken from."""

    site: str
    looked_at: Sequence[Held]
    taken: Mapping[str, Held]

    def in_words(self, beside: Path) -> str:
        """Returns a report for the user who gave the command: a line for each replica, then what happened."""
        lines = [f"gossamer: replicas of {self.site} on this machine:"]
        for held in self.looked_at:
            agents = [agent for agent, chosen in self.taken.items() if chosen is held]
            whole = len(agents) == len(self.taken)
            chosen = f"; {'' if whole else ', '.join(agents) + ' '}taken" if agents else ""
            path = held.path.relative_to(beside.resolve()) if held.path.is_relative_to(beside.resolve()) else held.path
            lines.append(f"  {path}: {held.in_words()}{chosen}")
        return "\n".join([*lines, f"gossamer: {self.site} is here again; it gives its hosts away"])


def check_adoptable(federation: Federation, site: str) -> Path:
    """Returns the directory that a lost site shall have on this machine. If it cannot be adopted here, that is an error
    which says what to do."""
    federation.check_site(site)
    directory = federation.directory(site)
    if not isinstance(directory, Path):
        raise ConfigError(
            f"{site} is at {directory}, and not lost with its machine: write another address under [sites.{site}], and "
            f"run it there: `gossamer site run --name {site} {federation.path.name}`"
        )
    if federation.sites[site].weight or federation.sites[site].gone:
        raise ConfigError(
            f"under [sites.{site}] of {federation.path.name} write `weight = 0` and an address of this machine; write "
            f"federation.version = {federation.shared.version + 1}, bring the file to all sites, and run this again"
        )
    if directory.exists() and any(directory.iterdir()):
        raise ConfigError(f"{directory} is not empty: if that is site {site}, run it; if it is damaged, move it away")
    return directory


def held(federation: Federation, site: str) -> dict[str, int]:
    """Returns how far the replicas on this machine are: the last commit of each agent of that site."""
    found = _furthest(list(_replicas(federation, site)))
    return {agent: replica.chains[agent].number for agent, replica in found.items()}


def adopt(federation: Federation, site: str) -> Adopted:
    """Restores the directory of a site that is lost, from the furthest replicas that sites on this machine have of it.
    When it is run then, it gives its hosts away, as it would if it left by itself."""
    directory = check_adoptable(federation, site)
    looked_at = list(_replicas(federation, site))
    taken = _furthest(looked_at)
    if not taken:
        found = "".join(f"; {each.path} is there, but {each.in_words()}" for each in looked_at)
        raise ConfigError(
            f"no site on this machine has a replica of {site}{found}: run this where there is one (replicas/{site} of "
            "a directory); without any, write `gone = true`, and what only it had is lost"
        )
    _check_applied(federation, site, taken)
    federation.check()
    _restore(directory, taken)
    return Adopted(site, looked_at, taken)


def _replicas(federation: Federation, site: str) -> Iterator[Held]:
    """Yields replicas at every site, also one that does not hold it by the list as it is now, or that is gone."""
    for name in federation.sites:
        directory = federation.directory(name)
        if isinstance(directory, Path) and (replica_of(directory, site) / MARK).exists():
            yield Held.read(replica_of(directory, site))


def _furthest(replicas: Sequence[Held]) -> dict[str, Held]:
    """Returns for each agent the replica whose chain is furthest, among those that have all files of it."""
    taken: dict[str, Held] = {}
    for held in replicas:
        for agent, at in held.chains.items():
            if agent not in held.missing and (agent not in taken or _is_ahead(at, taken[agent].chains[agent])):
                taken[agent] = held
    return dict(sorted(taken.items()))


def _is_ahead(one: Snapshot, other: Snapshot) -> bool:
    """Compares two lives of a site: the later one counts, whose messages the other sites have received last."""
    if not is_of_another_life(other, one):
        return one.number > other.number
    return is_of_another_life(one, other) and one.time_s > other.time_s


def _check_applied(federation: Federation, site: str, taken: Mapping[str, Held]) -> None:
    """Raises an error if the site would come back from before what it has sent: it would send other messages under
    numbers that are used up. The others would ignore them, and wait for ever for what it once had sent."""
    for name in federation.here:
        for at in snapshots(opened(federation.directory(name))).values():
            for agent, held in taken.items():
                applied, number = at.marks.get(f"{agent}>{name}", 0), held.chains[agent].number
                if applied > number:
                    raise ConfigError(
                        f"{name} has applied commit {applied} of {agent}, but no replica on this machine is further "
                        f"than commit {number} ({held.path}): a further one must be on another machine, run this "
                        f"there; if there is none, write `gone = true` under [sites.{site}]"
                    )


def _restore(directory: Path, taken: Mapping[str, Held]) -> None:
    """Restores all of it or nothing: the directory gets its name when everything is in it."""
    unfinished = directory.with_name(directory.name + _UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)  # of a command that was interrupted
    here = Directory.prepare(unfinished, RealClock().now())
    for agent, held in taken.items():
        there = Directory(held.path)
        for name in [*sorted(held.chains[agent].names()), *file_names(there, agent)]:
            copy = here.scratch(name)
            shutil.copyfile(there.local(name), copy)
            here.put(name, copy)
    unfinished.rename(directory)

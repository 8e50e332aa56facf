"""What the sites of a federation know of each other while they crawl: how each stands, and when all of it is over.

Nobody decides for the others. Each site says in its own server how it stands and reads what the others say in theirs.
"""

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nats.aio.msg import Msg

from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import Snapshot
from gossamer.archive.state import replace
from gossamer.archive.store import Directory
from gossamer.clocks import Clock
from gossamer.cluster.federation_file import Federation, home_of, load
from gossamer.cluster.jetstream import NO_STREAM, Link, bucket, facts
from gossamer.cluster.keys import paths, tls_name
from gossamer.cluster.nats_connection import Unreachable, Wire
from gossamer.cluster.nats_server import Open
from gossamer.cluster.plan import undelivered
from gossamer.cluster.replicas import Replication
from gossamer.errors import ConfigError
from gossamer.placement.hostmap import HostMap
from gossamer.placement.hosts import Locate, partitioner
from gossamer.placement.network import RoundTrips
from gossamer.placement.ring import Ring
from gossamer.sharing.owners import Place
from gossamer.sharing.placing import Placing
from gossamer.sharing.site_list import Members, is_holding, to_carry_out

Summary = Mapping[str, Any]

# In memory: what a site said in an earlier run, such as good-bye, must not be heard in this one.
_STANDING = bucket("standing", in_memory=True)
_GOODBYE_S = 3.0  # long enough for the others to look at us once more
_REPLICATE_S = 5.0  # how long the last commits may take to reach the other sites that keep them
_LINGER_S = 20.0  # who knows that all know that it is over waits so long for the others to hear that
_ABSENT_S = 600.0  # ... and so long for a site that may not know it and cannot be reached
_WORDS = {"finished", "sent", "marks", "numbers", "serial", "done"}  # of every summary


class Neighbours:
    """The other sites, seen from one. `wires` must be closed by `close`."""

    def __init__(self, federation: Federation, site: str, clock: Clock) -> None:
        here = federation.sites[site]
        if here.gone:
            raise ConfigError(
                f"{federation.path.name} says that site {site} is gone; take `gone = true` away to run it"
            )
        self._federation, self.site, self._clock = federation, site, clock
        kept = kept_by(federation, site)
        self.members = to_carry_out(federation, site, kept.get("members"), kept.get("clean", {}))
        self.names = [name for name in self.members.weights if not federation.sites[name].gone]
        self.replicas = min(federation.shared.replicas, len(self.names))
        self._files = paths(federation.keys, site)
        self.open = Open(site, here.listen or here.address, self._files, list(federation.sites))
        self._read_s = _modified_s(federation.path)
        self._latest = self.members.version
        self.refused = ""  # why the file as it is now cannot be carried out
        self._wires: dict[str, Wire] = {}
        self._own: Wire | None = None
        self._replication: Replication | None = None
        self._serial = 0
        self._wave: tuple[dict[str, Any], dict[str, int]] | None = None
        self._done_s: float | None = None
        self._over: set[str] = set()  # other sites that know that all is over
        self._behind_s = 0.0  # when one was last heard that did not know it
        self._left: set[str] = set()  # sites that have ended, for a reason of their own
        self.waiting_for: list[str] = []  # when we are finished ourselves

    def address(self, site: str) -> dict[str, str]:
        """How an agent of ours reaches a site's server."""
        url = f"tls://{self._federation.sites[site].address}"
        return {"url": url, "name": tls_name(site), **self._files}

    def job(self) -> dict[str, Any]:
        """What agents are told of it."""
        others = {name: self.address(name) for name in self.names if name != self.site}
        sites = self._federation.sites
        facts = {name: asdict(sites[name]) for name in self.members.weights}
        gone = [name for name in self.members.weights if sites[name].gone]
        members = self.members.as_dict()
        return {
            "site": self.site,
            "members": members,
            "sites": facts,
            "others": others,
            "gone": gone,
            "is_replicated": self.replicas > 1,
        }

    def is_holding(self, clean: Mapping[str, int]) -> bool:
        """Whether other sites may still have hosts that are ours by now."""
        return is_holding(self.members.version, [name for name in self.names if name != self.site], clean)

    def has_changed(self) -> bool:
        """Whether the file has a later list of sites, that can be carried out; if not, `refused` says why."""
        modified_s = _modified_s(self._federation.path)
        if modified_s != self._read_s:
            self._read_s, self.refused = modified_s, ""
            try:
                new = load(self._federation.path)
                to_carry_out(new, self.site, self.members.as_dict(), {})
                new.check_contact()
                self._latest = new.shared.version
            except ConfigError as error:
                self.refused = str(error)
        return self._latest > self.members.version

    def begin(self, own: Wire) -> None:
        self._own = own
        self._wires = {name: Wire(self.address(name)) for name in self.names if name != self.site}
        if self.replicas > 1:
            directory = self._federation.directory(self.site)
            self._replication = Replication(directory, self.site, self.names, self.replicas, self._clock)
            self._replication.begin(own, self._wires)

    def close(self) -> None:
        if self._replication:
            self._replication.close()
        for wire in self._wires.values():
            wire.close()

    def replicated(self, agent: str) -> int:
        """The agent's last commit that is wherever it shall be kept."""
        return self._replication.replicated(agent) if self._replication else 0

    def hear(self) -> dict[str, Summary | None]:
        """How the others stand; None: not to be reached. Who has said good-bye is not asked any more; it says it in our
        server too, since we may not reach its own before that is gone."""
        assert self._own is not None
        asked = {name: wire for name, wire in self._wires.items() if name not in self._left}
        found = {name: read_summary(wire, name) or read_summary(self._own, name) for name, wire in asked.items()}
        self._left |= {name for name, other in found.items() if other is not None and other.get("left")}
        return {name: other for name, other in found.items() if name not in self._left}

    def leave(self, mine: dict[str, Any]) -> None:
        """We end, others may go on: nothing more will come from here, and nobody need wait for it."""
        if self._replication:
            self._replication.finish(_REPLICATE_S)
        others = self.hear()
        self._serial += 1
        reached = [wire for name, wire in self._wires.items() if others.get(name) is not None]
        self._tell({**mine, "left": True, **self._standing()}, *reached)
        if self._done_s is None and any(other is not None for other in others.values()):
            time.sleep(_GOODBYE_S)

    def is_over(self, mine: dict[str, Any]) -> bool:
        """Say how we stand, and look at the others: over is when all are finished, nothing is on its way between them,
        and the same was so when they last spoke. (Two looks, because the sites are not looked at in one instant.)"""
        self._serial += 1
        mine = {**mine, **self._standing()}
        self._tell(mine)
        others = self.hear()
        self.waiting_for = []
        if not mine["finished"]:
            self._wave = None
            return False
        self.waiting_for = [name for name, other in others.items() if other is None]
        if self._done_s is not None:
            return self._may_end(others, self._done_s)
        if any(other is not None and other["done"] for other in others.values()) or self._is_second(mine, others):
            self._done_s = self._clock.monotonic()
        return False

    def _may_end(self, others: Mapping[str, Summary | None], done_s: float) -> bool:
        """We know that all is over. Whoever does not, and is alive, cannot hear us just now: it would wait for ever if
        we were gone when it can again. So we end when all know it, and know that we do."""
        now_s = self._clock.monotonic()
        self._over |= {name for name, other in others.items() if other is not None and other["done"]}
        self.waiting_for = [name for name in others if name not in self._over]
        if any(others[name] is not None for name in self.waiting_for):
            self._behind_s = now_s
            return False
        if self.waiting_for:
            return now_s - max(done_s, self._behind_s) > _ABSENT_S
        known = all(other is None or self.site in other.get("over", ()) for other in others.values())
        return known or now_s - done_s > _LINGER_S

    def _is_second(self, mine: Summary, others: Mapping[str, Summary | None]) -> bool:
        heard = [other for other in others.values() if other is not None]
        if len(heard) < len(others) or not all(other["finished"] for other in heard):
            self._wave = None
            return False
        everyone = {self.site: mine, **{name: other for name, other in others.items() if other is not None}}
        sent = {name: one["sent"] for name, one in everyone.items()}
        if undelivered(sent, {name: one["marks"] for name, one in everyone.items()}) - self._left:
            self._wave = None
            return False
        state = {name: (one["sent"], one["marks"], one["numbers"]) for name, one in everyone.items()}
        serials = {name: one["serial"] for name, one in everyone.items()}
        if self._wave is None or self._wave[0] != state:
            self._wave = (state, serials)
            return False
        return all(serials[name] > before for name, before in self._wave[1].items())

    def _standing(self) -> dict[str, Any]:
        members = replace(self.members, before=None).as_dict()
        return {
            "serial": self._serial,
            "done": self._done_s is not None,
            "over": sorted(self._over),
            "members": members,
            "refused": self.refused,
        }

    def _tell(self, mine: Summary, *elsewhere: Wire) -> None:
        async def put(link: Link) -> int:
            try:
                return await link.send(f"$KV.standing.{self.site}", json.dumps(mine).encode())
            except NO_STREAM:
                await link.ensure(_STANDING)
                return await link.send(f"$KV.standing.{self.site}", json.dumps(mine).encode())

        assert self._own is not None
        for wire in (self._own, *elsewhere):
            with contextlib.suppress(Unreachable):  # the next one will be heard
                wire.call(put)


def read_summary(wire: Wire, site: str) -> Summary | None:
    """How a site stands; None if it cannot be reached, or has said nothing yet."""

    async def ask(link: Link) -> list[Msg]:
        try:
            return await link.newest("KV_standing", f"$KV.standing.{site}")
        except NO_STREAM:
            return []

    try:
        found = wire.call(ask)
    except Unreachable:
        return None
    said = facts(found[-1]) if found else None
    return said if said is not None and (said.get("left") or said.keys() >= _WORDS) else None


def place(job: Mapping[str, Any], agent: str, locate: Locate) -> Place:
    """Where an agent is, from what it was told."""
    site, home = job["site"], home_of(job["site"])
    members, gone = Members(**job["members"]), job["gone"]
    ring, before = Ring(members.weights), None if members.before is None else [Ring(each) for each in members.before]
    if members.partitioner == "ring":
        return Place(site, home, ring, None, members, gone, before)
    sites = {name: {**job["sites"][name], "weight": weight} for name, weight in members.weights.items()}
    round_trips = RoundTrips(list(sites))
    decide = partitioner(members.partitioner, sites, locate, round_trips) if agent == home else None
    hosts = HostMap(ring, gone)
    return Place(site, home, hosts, Placing(hosts, site, decide, round_trips), members, gone, before)


def kept_by(federation: Federation, site: str) -> dict[str, Any]:
    """What a site has committed of the sites that there are."""
    directory = federation.directory(site)
    if not (directory / "gossamer.json").exists():
        return {}
    at = snapshots(Directory(directory))
    home = at.get(home_of(site), Snapshot("")).state
    lists = [one.state.members for one in at.values() if one.state.members]
    newest = max(lists, key=lambda members: members.version, default=None)
    return {"members": newest and newest.as_dict(), "clean": home.received.get("clean", {})}


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0

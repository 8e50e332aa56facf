"""`Neighbours` is what a site knows of the others of its federation: the state of each, and when all of it is over.

No site decides for the others. Each publishes its summary in its own server, and reads those of the others.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import Snapshot
from gossamer.archive.places import exists, opened, unmarked
from gossamer.clocks import Clock
from gossamer.cluster import site_list
from gossamer.cluster.federation_file import Federation, home_of, load
from gossamer.cluster.keys import address, paths
from gossamer.cluster.mail import Mail, Relay
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import Open, why_refused
from gossamer.cluster.orders import orders_of
from gossamer.cluster.plan import undelivered
from gossamer.cluster.protocol import Address, Federated, Summary
from gossamer.cluster.replicas import Replication, holders
from gossamer.cluster.site_list import is_holding, to_carry_out
from gossamer.cluster.site_service import Source, services
from gossamer.cluster.standing import Follower, Teller, publish, read_all, read_summary
from gossamer.errors import ConfigError, SiteError
from gossamer.placement.hostmap import HostMap
from gossamer.placement.network import RoundTrips
from gossamer.placement.partitioners import Locate, partitioner
from gossamer.placement.ring import Ring
from gossamer.sharing.owners import SiteView
from gossamer.sharing.placing import Placing

_WHY_S = 30.0
_LEARN_S = 3.0  # how long other sites may take to answer before we act
_GOODBYE_S = 3.0  # long enough for the others to look at us once more
_REPLICATE_S = 5.0  # how long the last commits may take to reach the other sites that keep them
_LINGER_S = 20.0  # a site that knows that all know that it is over waits so long for the others to receive that
_ABSENT_S = 600.0  # ... and so long for a site that may not know it and cannot be reached


class Neighbours:
    """`Neighbours` is the other sites, seen from one. Call `close` to close `wires`."""

    def __init__(self, federation: Federation, site: str, clock: Clock) -> None:
        here = federation.sites[site]
        if here.gone:
            raise ConfigError(
                f"{federation.path.name} says that site {site} is gone; take `gone = true` away to run it"
            )
        self._federation, self.site, self._clock = federation, site, clock
        kept = kept_by(federation, site)
        self.members = to_carry_out(federation, site, kept.members, kept.clean)
        self.names = [name for name in self.members.weights if not federation.sites[name].gone]
        self.replicas = min(federation.shared.replicas, len(self.names))
        self._files = paths(federation.keys, site)
        gone = [name for name, one in federation.sites.items() if one.gone]
        offered = services(site, [name for name in federation.sites if name not in gone], gone)
        self.open = Open(site, here.listen or here.address, self._files, list(federation.sites), offered)
        self._read_s = _modified_s(federation.path)
        self._latest = self.members.version
        self.refused = ""  # why the file as it is now cannot be carried out
        self._wires: dict[str, Wire] = {}
        self._followers: dict[str, Follower] = {}
        self._teller = Teller()
        self._own: Wire | None = None
        self._replication: Replication | None = None
        self._serial = 0
        self._wave: tuple[dict[str, object], dict[str, int]] | None = None
        self._done_s: float | None = None
        self._over: set[str] = set()  # other sites that know that all is over
        self._behind_s = 0.0  # when one last reported that did not know it
        self._left: set[str] = set()  # sites that have ended, for a reason of their own
        self.trouble: dict[str, str] = {}  # by site: what is wrong with its certificate, or ours
        self._look_s = clock.monotonic() + _WHY_S / 3
        self.conflict = ""  # why we wait: others have another list under the same version
        self.waiting_for: list[str] = []  # when we are finished ourselves

    def address(self, site: str) -> Address:
        """Returns how we reach a site's server."""
        return address(self._files, site, self._federation.sites[site].address)

    def for_agents(self) -> Federated:
        """Returns what agents get to know of the federation."""
        sites = {name: self._federation.sites[name] for name in self.members.weights}
        return Federated(
            site=self.site,
            members=self.members,
            sites=sites,
            others=[name for name in self.names if name != self.site],
            gone=[name for name, site in sites.items() if site.gone],
            is_replicated=self.replicas > 1,
        )

    def is_holding(self, clean: Mapping[str, int]) -> bool:
        """Returns whether other sites may still have hosts that are ours by now."""
        return is_holding(self.members.version, [name for name in self.names if name != self.site], clean)

    def has_changed(self) -> bool:
        """Returns whether the file has a later list of sites that can be carried out; if not, `refused` says why."""
        modified_s = _modified_s(self._federation.path)
        if modified_s != self._read_s:
            self._read_s, self.refused = modified_s, ""
            try:
                new = load(self._federation.path)
                to_carry_out(new, self.site, self.members.as_dict(), {})
                new.check()
                self._latest = new.shared.version
            except ConfigError as error:
                self.refused = str(error)
        return self._latest > self.members.version

    def begin(self, own: Wire) -> None:
        self._own = own
        self._wires = {name: Wire(self.address(name), is_far=True) for name in self.names if name != self.site}
        self._followers = {name: Follower(wire, self.site) for name, wire in self._wires.items()}
        directory = self._federation.directory(self.site)
        keepers, orders = holders(self.names, self.site, self.replicas), orders_of(self._federation, self.site)
        source = Source(unmarked(directory), keepers, self._federation.sites, orders)
        own.keep(source.serve)
        own.keep(self._teller.serve)
        own.keep(Mail(home_of(self.site)).serve)
        own.keep(Relay(self.site, self._wires).serve)
        if self.replicas > 1:
            assert isinstance(directory, Path), "`load` has refused it"
            self._replication = Replication(directory, self.site, self.names, self.replicas, self._clock, source)
            self._replication.begin(self._wires)

    def learn(self) -> None:
        """Asks the others for their list of sites, before we act by ours; those that cannot be reached are not waited
        for."""
        end_s = time.monotonic() + _LEARN_S
        for wire in self._wires.values():
            wire.wait_up(max(0.0, end_s - time.monotonic()))
        self._compare(self.ask())

    def _compare(self, others: Mapping[str, Summary | None]) -> None:
        """Looks at the others' lists of sites. If later ones have no place for us, that is an error. Most of the sites
        that answer must say so: a single one may want to harm us."""
        lists = {name: other for name, other in others.items() if other is not None and other.members is not None}
        mine = self._federation.sites[self.site].address
        fenced = [
            why
            for other in lists.values()
            if (why := site_list.why_fenced(self.site, mine, self.members, other.members, other.addresses))
        ]
        if 2 * len(fenced) > len(lists):
            raise SiteError(fenced[0])
        self.conflict = site_list.why_waiting(
            self.site, self.members, {name: other.members for name, other in lists.items() if other.members}
        )

    def close(self) -> None:
        if self._replication:
            self._replication.close()
        for wire in self._wires.values():
            wire.close()

    def replicated(self, agent: str) -> int:
        """Returns the agent's last commit that is at all sites that shall keep it."""
        return self._replication.replicated(agent) if self._replication else 0

    def ask(self, is_new: bool = False) -> dict[str, Summary | None]:
        """Returns the summaries of the others; None: not to be reached. `is_new`: as they are this moment, and not as
        of the last change that matters. A site that has sent good-bye is not asked any more; it sends it to our server
        too, since we may not reach its own before that is gone."""
        assert self._own is not None
        asked = {name: wire for name, wire in self._wires.items() if name not in self._left}
        found = {name: None if is_new else self._followers[name].latest for name in asked}
        found |= read_all({name: wire for name, wire in asked.items() if found[name] is None}, self.site)
        for name in [name for name, other in found.items() if other is None]:
            found[name] = read_summary(self._own, name)
        self._left |= {name for name, other in found.items() if other is not None and other.left}
        self._look_why([name for name, wire in asked.items() if not wire.is_up and name not in self._left])
        return {name: other for name, other in found.items() if name not in self._left}

    def _look_why(self, silent: Sequence[str]) -> None:
        """Finds out, now and then, whether sites are silent because a certificate is refused: a person must know it."""
        now_s = self._clock.monotonic()
        if not silent or now_s < self._look_s:
            return
        self._look_s = now_s + _WHY_S
        found = {name: why_refused(self.address(name), 1.0) for name in silent}
        self.trouble = {name: why for name, why in found.items() if "certificate" in why}

    def leave(self, mine: Summary) -> None:
        """Reports that we end while others may go on: nothing more will come from here, and none need wait for it."""
        if self._replication:
            self._replication.finish(_REPLICATE_S)
        others = self.ask()
        self._serial += 1
        reached = [wire for name, wire in self._wires.items() if others.get(name) is not None]
        self._publish(msgspec.structs.replace(self._completed(mine), left=True), *reached)
        if self._done_s is None and any(other is not None for other in others.values()):
            time.sleep(_GOODBYE_S)

    def is_over(self, mine: Summary) -> bool:
        """Publishes our summary, and looks at the others. It is over when all are finished, nothing is on its way
        between them, and the same was so when they last reported. (Two looks, because the sites are not looked at in
        one instant.)"""
        self._serial += 1
        mine = self._completed(mine)
        self._publish(mine)
        others = self.ask()
        if mine.finished and not self.is_done and all(other and other.finished for other in others.values()):
            others = self.ask(is_new=True)  # whether they were finished once more after that, only they know
        self._compare(others)
        self.waiting_for = []
        if not mine.finished:
            self._wave = None
            return False
        self.waiting_for = [name for name, other in others.items() if other is None]
        if self._done_s is not None:
            return self._may_end(others, self._done_s)
        if any(other is not None and other.done for other in others.values()) or self._is_second(mine, others):
            self._done_s = self._clock.monotonic()
        return False

    def _may_end(self, others: Mapping[str, Summary | None], done_s: float) -> bool:
        """Decides whether we may end, knowing that all is over. A site that does not know it, and is alive, cannot
        receive our summary just now: it would wait for ever if we were gone when it can again. So we end when all know
        it, and know that we do."""
        now_s = self._clock.monotonic()
        self._over |= {name for name, other in others.items() if other is not None and other.done}
        self.waiting_for = [name for name in others if name not in self._over]
        if any(others[name] is not None for name in self.waiting_for):
            self._behind_s = now_s
            return False
        if self.waiting_for:
            return now_s - max(done_s, self._behind_s) > _ABSENT_S
        known = all(other is None or self.site in other.over for other in others.values())
        return known or now_s - done_s > _LINGER_S

    def _is_second(self, mine: Summary, others: Mapping[str, Summary | None]) -> bool:
        received = [other for other in others.values() if other is not None]
        if len(received) < len(others) or not all(other.finished for other in received):
            self._wave = None
            return False
        everyone = {self.site: mine, **{name: other for name, other in others.items() if other is not None}}
        sent = {name: one.sent for name, one in everyone.items()}
        if undelivered(sent, {name: one.marks for name, one in everyone.items()}) - self._left:
            self._wave = None
            return False
        state: dict[str, object] = {name: (one.sent, one.marks, one.numbers) for name, one in everyone.items()}
        serials = {name: one.serial for name, one in everyone.items()}
        if self._wave is None or self._wave[0] != state:
            self._wave = (state, serials)
            return False
        return all(serials[name] > before for name, before in self._wave[1].items())

    @property
    def is_done(self) -> bool:
        """Returns whether we know that all is over."""
        return self._done_s is not None

    def _completed(self, mine: Summary) -> Summary:
        """Returns the summary with what we know ourselves."""
        return msgspec.structs.replace(
            mine,
            serial=self._serial,
            done=self.is_done,
            over=sorted(self._over),
            members=msgspec.structs.replace(self.members, before=None),
            refused=self.refused or self.conflict,
            addresses={name: "" if one.gone else one.address for name, one in self._federation.sites.items()},
        )

    def _publish(self, mine: Summary, *elsewhere: Wire) -> None:
        assert self._own is not None
        self._teller.set(mine)
        publish(self._own, self.site, mine)
        for wire in elsewhere:  # figures are for those who look on, and they look here
            publish(wire, self.site, msgspec.structs.replace(mine, stats=None, crossed={}))


def place(federation: Federated, agent: str, locate: Locate, blocks: Locate | None = None) -> SiteView:
    """Returns where an agent is, from its task. `locate` and `blocks` tell where hosts are."""
    site, home, members, gone = federation.site, home_of(federation.site), federation.members, federation.gone
    ring, before = Ring(members.weights), None if members.before is None else [Ring(each) for each in members.before]
    if members.partitioner == "ring":
        return SiteView(site, home, ring, None, members, gone, before)
    sites = {name: asdict(replace(federation.sites[name], weight=weight)) for name, weight in members.weights.items()}
    round_trips = RoundTrips(list(sites))
    decide = partitioner(members.partitioner, sites, locate, round_trips, blocks) if agent == home else None
    hosts = HostMap(ring, gone)
    return SiteView(site, home, hosts, Placing(hosts, site, decide, round_trips), members, gone, before)


class Kept(NamedTuple):
    """`Kept` is what a site has committed of the list of sites."""

    members: dict[str, Any] | None = None  # the latest list
    clean: Mapping[str, int] = MappingProxyType({})  # by site: the version that it has carried out


def kept_by(federation: Federation, site: str) -> Kept:
    directory = federation.directory(site)
    if not exists(directory):
        return Kept()
    at = snapshots(opened(directory))
    home = at.get(home_of(site), Snapshot(site)).state
    lists = [one.state.members for one in at.values() if one.state.members]
    latest = max(lists, key=lambda members: members.version, default=None)
    return Kept(latest.as_dict() if latest else None, home.received.get("clean", {}))


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0

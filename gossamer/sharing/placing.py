"""`Placing` gives each newly discovered host to a site: the host's home on the ring decides, once, and informs all.

Whoever decides tells each other site once, and the agents of its own site. Who speaks for a site tells its agents what
it was told; nobody else passes anything on. So what a site that is lost has decided may be known to some and not to
others: these tell each other what they know of it with the list that says that it is gone (`membership`).
"""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import Changes
from gossamer.archive.state import AgentState, replace
from gossamer.archive.store import Store
from gossamer.arrays import F64, I64, U32, Bools, Integers, Keys, Rows
from gossamer.columns import HOST_BITS
from gossamer.errors import Unreadable
from gossamer.frontier.pages import host_of_key
from gossamer.frontier.sorted_runs import search
from gossamer.placement.hostmap import ENTRY, HostMap
from gossamer.placement.network import TELLING_BYTES, RoundTrips, block_of
from gossamer.sharing import compact

Links = tuple[Keys, npt.NDArray[Any], str]  # pages, how many links to each, and from which site they come

# Host keys, a URL of each, links to them by site (a row for each host), pages that each site has: the site of each.
Partitioner = Callable[[U32, Sequence[str], F64, F64], I64]

KIND = "hostmap"
_ENTRIES = 100_000  # of a message
_SHORT = ":"  # what the text of entries begins with; until version 3 of the protocol they were sent as they are


class News(NamedTuple):
    """`News` is what a commit says about hosts, as messages that are not too long, and puts on record."""

    to_sites: list[dict[str, Any]]
    to_agents: list[dict[str, Any]]  # of our own site
    entries: Rows


class Placing:
    """`Placing` is the host map of an agent; `partitioner` is None for those that do not speak for their site."""

    def __init__(
        self, hosts: HostMap, site: str, partitioner: Partitioner | None, round_trips: RoundTrips | None = None
    ) -> None:
        self._hosts, self._partitioner = hosts, partitioner
        self._round_trips = round_trips or RoundTrips(hosts.sites)
        self._here = list(hosts.sites).index(site)
        self._pages = np.zeros(len(hosts.sites))  # of each site, as last received
        self._decided: list[Rows] = []  # here, since the last commit
        self._heard: list[Rows] = []  # from other sites, since then
        self._arrived: U32 = np.zeros(0, np.uint32)  # hosts that our index has, sorted

    def open(self, store: Store, files: Iterable[str], state: AgentState) -> None:
        """Reads what is on record at our site."""
        self._round_trips.recall(state.round_trips)
        for name in files:
            self._hosts.record(np.frombuffer(store.get(name), ENTRY))

    def settled(self, arrived: Integers) -> None:
        """Notes that hosts have come and gone; our index has these now."""
        self._arrived = np.sort(arrived.astype(np.uint32))

    def has_arrived(self, host_keys: Integers) -> Bools:
        """Returns which hosts of our site this agent may own. A host that was handed over comes with all that is known
        of it, in a message of its own. Whatever else is received about it, it is not ours before that message is
        committed."""
        arrived = ~self._hosts.is_handed_over(host_keys)
        arrived[~arrived] = search(self._arrived, host_keys[~arrived].astype(np.uint32))[0]
        return arrived

    def decide(self, links: Sequence[Links], urls: Callable[[int], str], pages: int) -> None:
        """Decides about every host of these links that is undecided and whose home we are."""
        if self._partitioner is None:
            return
        self._pages[self._here] = pages
        keys = np.concatenate([keys for keys, _, _ in links])
        hosts = host_of_key(keys)
        open_ = ~self._hosts.is_settled(hosts) & (self._hosts.of_keys(hosts) == self._here)
        if not open_.any():
            return
        names = list(self._hosts.sites)
        source = np.repeat([names.index(site) for _, _, site in links], [len(keys) for keys, _, _ in links])
        weight = np.concatenate([np.asarray(weight, np.float64) for _, weight, _ in links])
        found, first, inverse = np.unique(hosts[open_], return_index=True, return_inverse=True)
        table = np.zeros((len(found), len(names)))
        np.add.at(table, (inverse, source[open_]), weight[open_])
        examples = [urls(int(key)) for key in keys[open_][first]]
        sites = self._partitioner(found, examples, table, self._pages)
        self._decided.append(self._hosts.record(self._hosts.decided(found, sites)))

    def saw(self, visits: Mapping[str, Sequence[Any]]) -> None:
        """Measures how long connecting and bytes took, at each visit of a round: the decision depends on how far hosts
        are. Only what came on a connection that was there tells how long bytes took."""
        if self._partitioner is not None:
            connect_s, sent = np.array(visits["connect_s"]), np.array(visits["wire_bytes"], np.float64)
            tells = (connect_s == 0) & (sent >= TELLING_BYTES)
            mb_s = 1e6 * (np.array(visits["elapsed_s"]) - visits["response_s"]) / np.maximum(sent, 1)
            for places in (visits["country"], [block_of(address) for address in visits["address"]]):
                self._round_trips.measure(self._site, places, connect_s.tolist())
                self._round_trips.measure_bandwidth(self._site, places, np.where(tells, mb_s, 0.0).tolist())

    def noted(self, state: AgentState) -> AgentState:
        """Returns the state with round trips, for the manifest."""
        return state if self._partitioner is None else replace(state, round_trips=self._round_trips.as_dict())

    def homes(self, host_keys: Integers) -> I64:
        return self._hosts.homes(host_keys)

    def is_orphaned(self, host_keys: Integers) -> Bools:
        return self._hosts.is_orphaned(host_keys)

    def give(self, host_keys: Integers, site: str) -> Rows:
        """Gives hosts to another site; the agent that takes them in reports that to all others."""
        numbers = np.full(len(host_keys), list(self._hosts.sites).index(site), np.int64)
        return self._hosts.record(self._hosts.handed_over(host_keys, numbers))

    def record(self, entries: Rows) -> None:
        """Records entries of hosts that pass through us, or come to us."""
        self._hosts.record(entries)

    def known(self, on_their_way: Rows) -> Rows:
        """Returns all entries. Hosts that we gave away, and that may not have been taken in, are here, as before: their
        new site will report them. If we are lost before, they never come there; nor do they if that site is gone."""
        entries = self._hosts.entries()
        late = np.isin(_states(entries), _states(on_their_way)) & (entries["site"] != self._here)
        late &= ~self.is_orphaned(entries["host"])
        entries["site"][late] = self._here
        entries["turn"][late] -= 1
        return entries

    def about(self, host_keys: Integers) -> list[dict[str, Any]]:
        """Returns once more what is decided about these hosts, for somebody who does not know it."""
        return self.in_parts(self._hosts.entries(host_keys))

    def receive(self, news: Mapping[str, Any]) -> None:
        """Takes a message: decisions, how many pages its sender's site has, and how far hosts are from there."""
        new = self._hosts.record(unpacked(news["hosts"]))
        if news["site"] != self._site:  # then we speak for ours; what agents of ours say is on record, and known to all
            self._heard.append(new)
        self._round_trips.receive(news["site"], news.get("round_trips", {}))
        self._pages[list(self._hosts.sites).index(news["site"])] = news["pages"]

    def take_news(self) -> News:
        """Returns what is new since the last call."""
        decided = np.concatenate([np.zeros(0, ENTRY), *self._decided])
        entries = np.concatenate([decided, *self._heard])
        self._decided, self._heard = [], []
        far = self._round_trips.news(self._site) if self._partitioner is not None else {}
        to_sites = [self.news(decided[:0], far)] if far else []
        return News([*to_sites, *self.in_parts(decided)], self.in_parts(entries), entries)

    def round_trips(self) -> dict[str, Any]:
        """Returns all that our site has measured, for a site that is new."""
        return self.news(np.zeros(0, ENTRY), self._round_trips.as_dict().get(self._site, {}))

    def in_parts(self, entries: Rows) -> list[dict[str, Any]]:
        return [self.news(entries[start : start + _ENTRIES]) for start in range(0, len(entries), _ENTRIES)]

    def news(self, entries: Rows, round_trips: Mapping[str, float] | None = None) -> dict[str, Any]:
        news = {"hosts": packed(entries), "site": self._site, "pages": int(self._pages[self._here])}
        return {**news, "round_trips": dict(round_trips)} if round_trips else news

    @property
    def _site(self) -> str:
        return self._hosts.sites[self._here]


def _states(entries: Rows) -> I64:
    """Returns each entry as one number: a host has one site in each turn."""
    states: I64 = entries["host"].astype(np.int64) << 16 | entries["turn"]
    return states


def packed(entries: Rows) -> str:
    return _SHORT + base64.b85encode(compact.encode_entries(entries)).decode()


def unpacked(text: str) -> Rows:
    if text.startswith(_SHORT):
        entries = compact.decode_entries(base64.b85decode(text.removeprefix(_SHORT)))
    else:
        entries = np.frombuffer(base64.b85decode(text), ENTRY)
    if entries["host"].max(initial=0) >> HOST_BITS:
        raise Unreadable("it speaks of a host that cannot be")
    return entries


def write(store: Store, label: str, entries: Rows) -> Changes:
    """Writes entries with the commit that makes or receives them."""
    if not len(entries):
        return Changes()
    name = f"tables/{KIND}-{label}.bin"
    store.put(name, entries.tobytes())
    return Changes({KIND: [name]})


def hostmap_files(store: Store) -> list[str]:
    """Returns the files of decisions about hosts, by whichever agent they were taken or received."""
    return [name for at in snapshots(store).values() for name in at.files.get(KIND, [])]

"""`Roster` knows which agents a site has, and which of them shall own which zone. It starts nobody."""

from collections.abc import Collection, Iterable, Mapping
from itertools import count

from gossamer.archive.chain import Chain, chains, snapshots
from gossamer.archive.manifest import HELD, Snapshot
from gossamer.archive.store import Store
from gossamer.archive.zones import shares
from gossamer.cluster.followed import Followed
from gossamer.cluster.plan import shared_out, undelivered
from gossamer.cluster.site_agent import SiteAgent
from gossamer.crawl.inbox import Inbox


class Roster:
    """`home` is the agent that reads seeds and stays to the end. `sites` are those of a federation, also those that are
    gone: messages to them are for nobody here."""

    def __init__(self, store: Store, home: str, sites: Collection[str] = ()) -> None:
        self._store, self._home, self._sites = store, home, set(sites)
        self.followed = Followed(store)
        self.agents: dict[str, SiteAgent] = {}  # that have zones, shall have some, or have something to send
        self._left: dict[str, SiteAgent] = {}
        self.owners: tuple[str, ...] = ()  # of each zone, as it shall be
        self.shares: dict[str, str] = {}  # the same, by owner: in ranges

    def read(self, wanted: int, names: Collection[str] = ()) -> None:
        """Reads from the archive who there is, and what they have committed. So many shall share the zones, these
        first."""
        before = snapshots(self._store)
        self.agents = {
            name: SiteAgent(name, before.get(name, Snapshot(name)))
            for name in _chosen(self._home, before, wanted, names)
        }
        for name in before.keys() - self.agents.keys():
            if before[name].ranges or before[name].outbox or before[name].files.get(HELD):
                self.agents[name] = SiteAgent(name, before[name], is_retiring=True)
        self._left = {name: SiteAgent(name, at) for name, at in before.items() if name not in self.agents}
        self._plan()

    def sharing(self) -> int:
        """Returns how many agents have zones, by their last commits."""
        return sum(bool(at.ranges) for at in snapshots(self._store).values())

    @property
    def home(self) -> SiteAgent:
        return self.agents[self._home]

    @property
    def everybody(self) -> list[SiteAgent]:
        """Returns all agents, also those that have left."""
        return [*self._left.values(), *self.agents.values()]

    @property
    def staying(self) -> list[SiteAgent]:
        """Returns the agents that shall share the zones."""
        return [agent for agent in self.agents.values() if not agent.is_retiring]

    @property
    def running(self) -> int:
        return sum(agent.is_running for agent in self.agents.values())

    @property
    def visits(self) -> int:
        return sum(agent.visits for agent in self.everybody)

    # Who comes and goes

    def add(self) -> str:
        """Adds an agent: one that has left comes back, so that chains do not become more and more. Returns its name."""
        name = min(self._left, key=lambda name: (len(name), name), default="")
        name = name or _next_name(self._home, {*self.agents, *chains(self._store)})
        self._left.pop(name, None)
        self.agents[name] = SiteAgent(name, Chain.read(self._store, name))
        self._plan()
        return name

    def retire(self, name: str) -> bool:
        """Lets an agent give its zones away, and leave. Returns whether there is one that may."""
        if name == self._home or name not in self.agents:
            return False
        self.agents[name].is_retiring = True
        self._plan()
        return True

    def recall(self, names: Iterable[str]) -> None:
        """Brings agents back that have left, though another agent did not know that and wrote to them."""
        for name in set(names) - self.agents.keys():
            self.agents[name] = SiteAgent(name, Chain.read(self._store, name), is_retiring=True)
            self._left.pop(name, None)

    def let_go(self) -> None:
        """Lets those leave that have given everything away."""
        for agent in list(self.agents.values()):
            if agent.is_retiring and agent.is_resting and not agent.zones and not agent.is_running:
                self._left[agent.name] = self.agents.pop(agent.name)

    def _plan(self) -> None:
        owned = {agent.name: agent.zones for agent in self.agents.values()}
        self.owners = shared_out(owned, [agent.name for agent in self.staying])
        self.shares = shares(self.owners)

    # What is to be done

    def leaves(self, agent: SiteAgent) -> bool:
        """Returns whether it has zones that shall be another's."""
        return any(self.owners[zone] != agent.name for zone in agent.zones)

    def waited_for(self) -> set[str]:
        """Returns agents for whom there is a message."""
        marks = {agent.name: agent.marks for agent in self.everybody}
        return undelivered({agent.name: agent.sent for agent in self.agents.values()}, marks) - self._sites

    def has_seeds(self) -> bool:
        return bool(Inbox(self._store).pending(self._home, self.home.marks))

    def has_work(self, agent: SiteAgent, waited_for: Collection[str], now_s: float) -> bool:
        if not agent.is_resting or agent.name in waited_for or self.leaves(agent):
            return True
        if agent.next_due_s is not None and agent.next_due_s <= now_s:
            return True
        return agent.name == self._home and self.has_seeds()

    def is_finished(self) -> bool:
        """Returns whether all are idle, as of their last commits, and no message is on its way: then none can be sent
        any more."""
        agents = self.agents.values()
        if not all(agent.is_idle for agent in agents):
            return False
        at = self.followed.snapshots()
        if undelivered({n: s.sent for n, s in at.items()}, {n: s.marks for n, s in at.items()}) - self._sites:
            return False
        if any(agent.report and agent.report.number != at[agent.name].number for agent in agents):
            return False
        return not self.has_seeds() and not any(self.leaves(agent) for agent in agents)


def _chosen(home: str, before: Mapping[str, Snapshot], wanted: int, first: Collection[str]) -> list[str]:
    """Returns agents that shall share the zones: the first ones, those that have some, and as many new ones as it
    takes."""
    having = (name for name, at in sorted(before.items()) if at.ranges)
    names = list(dict.fromkeys([home, *first, *having]))
    while len(names) < wanted:
        names.append(_next_name(home, names))
    return names[:wanted]


def _next_name(home: str, names: Collection[str]) -> str:
    """Returns a name like that of the first one, with another number: a0, a1, ...; north_a0, north_a1, ..."""
    stem = home.rstrip("0123456789") or "a"
    return next(name for name in (f"{stem}{number}" for number in count(1)) if name not in names)

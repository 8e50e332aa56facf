"""This module decides for a site which agent owns which zone, may visit how many pages, and is waited for. It does no
I/O and knows no time."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from gossamer.archive.manifest import HELD, Snapshot
from gossamer.archive.zones import ZONES_IN_ALL

LEAST_GRANT = 16  # pages: smaller grants would cost more messages than they spare surplus


def shared_out(owned: Mapping[str, Iterable[int]], names: Sequence[str]) -> tuple[str, ...]:
    """Returns the owner of each zone, as it shall be: equal shares for `names`, and as few moves as that takes.

    `owned` has the zones of each now; a zone without an owner is given like those of agents that are to leave.
    """
    owners = [""] * ZONES_IN_ALL
    for name, zones in sorted(owned.items()):
        for zone in zones:
            owners[zone] = name
    counts = {name: owners.count(name) for name in names}
    # The agents that have most keep the odd zones.
    ranked = sorted(names, key=lambda name: (-counts[name], names.index(name)))
    share, odd = divmod(ZONES_IN_ALL, len(names))
    room = {name: share + (place < odd) for place, name in enumerate(ranked)}
    free = []
    for zone, name in enumerate(owners):
        if room.get(name, 0):
            room[name] -= 1
        else:
            free.append(zone)
    takers = (name for name in names for _ in range(room[name]))
    for zone, name in zip(free, takers, strict=True):
        owners[zone] = name
    return tuple(owners)


@dataclass
class Budget:
    """`Budget` divides a limit of pages among agents, so that all of them together never exceed it.

    An agent may make as many visits as the last grant allows that it has received. A grant changes only when the one
    before has been received, and is lowered only for an agent that reports that it is idle: so what an agent may still
    do is the larger of what it was sent and what it reports to have received.
    """

    limit: int
    grants: dict[str, int] = field(default_factory=dict)

    def divide(
        self,
        visits: Mapping[str, int],
        confirmed: Mapping[str, int],
        idle: Collection[str],
        need: Mapping[str, int] = MappingProxyType({}),
    ) -> dict[str, int]:
        """Returns new grants, by agent. `visits` are those made so far, `confirmed` the grants that agents work under
        (or what they have begun, if that is more), `need` the pages that each can visit: it is granted few more."""
        grants = self.grants
        for name, made in visits.items():
            grants[name] = max(grants.get(name, 0), made)
        settled = {name for name in visits if confirmed.get(name, grants[name]) == grants[name]}
        for name in settled:
            enough = 0 if name in idle else need.get(name, self.limit) + LEAST_GRANT
            grants[name] = min(grants[name], visits[name] + enough)
        held = {name: max(grants[name], confirmed.get(name, 0)) for name in visits}
        left = max(0, self.limit - sum(held.values()))
        few = max(LEAST_GRANT, left // (4 * max(1, len(visits))))
        hungry = [name for name in sorted(settled - set(idle)) if grants[name] - visits[name] <= few]
        for name in hungry:
            block = min(left, max(LEAST_GRANT, left // (2 * len(hungry))))
            grants[name] = held[name] + block
            left -= block
        return {name: grants[name] for name in visits}


def undelivered(sent: Mapping[str, Mapping[str, int]], marks: Mapping[str, Mapping[str, int]]) -> set[str]:
    """Returns agents to whom something was sent that they have not committed. Both are by agent, then by stream."""
    return {
        stream.partition(">")[2]
        for streams in sent.values()
        for stream, number in streams.items()
        if marks.get(stream.partition(">")[2], {}).get(stream, 0) < number
    }


def is_shared(at: Mapping[str, Snapshot], home: str, agents: int) -> bool:
    """Returns whether it takes more than one agent: they are wanted, others have zones, or links are under way."""
    if agents > 1 or any(at[name].ranges for name in at.keys() - {home}):
        return True
    if any(one.files.get(HELD) for one in at.values()):
        return True
    return bool(undelivered({name: s.sent for name, s in at.items()}, {name: s.marks for name, s in at.items()}))

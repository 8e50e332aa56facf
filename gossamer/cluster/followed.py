"""`Followed` reads the chains of a site again and again: of each, only the manifests that are new."""

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import MANIFEST, Snapshot, as_delta, number_of, read_document
from gossamer.archive.store import Store


class Followed:
    """`Followed` is asked twice a second, by one thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at: dict[str, Snapshot] = {}

    def snapshots(self) -> dict[str, Snapshot]:
        """Returns what each agent has committed, by agent."""
        names: dict[str, list[str]] = {}
        for name in self._store.list("manifest/"):
            if MANIFEST.search(name):
                names.setdefault(name.split("/")[1], []).append(name)
        self._at = {agent: self._newest(agent, names[agent]) for agent in sorted(names)}
        return dict(self._at)

    def _newest(self, agent: str, names: list[str]) -> Snapshot:
        at = self._at.get(agent)
        if at is None or number_of(names[-1]) < at.number:
            return Chain.read(self._store, agent)
        for name in names:
            if number_of(name) <= at.number:
                continue
            try:
                found = read_document(self._store, name)
            except FileNotFoundError:  # its owner has deleted it since, and there are later ones
                return Chain.read(self._store, agent)
            if isinstance(found, Snapshot):
                at = found
            elif found.number == at.number + 1:
                at = at.after(as_delta(found, at))
            else:
                return Chain.read(self._store, agent)
        return at

"""`Resting` keeps the hosts that rest longer than usual: only this module writes and reads their files."""

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Changes
from gossamer.archive.row_files import RowFiles, read_rows
from gossamer.archive.store import Files, Store
from gossamer.columns import RESTING

Rests = dict[str, tuple[float, int]]  # by host name: until when, and failures in a row

_AWAKE = (0.0, 0)  # of a host that rests no more


class Resting:
    """`Resting` has the resting hosts of one agent."""

    def __init__(self, store: Store, chain: Chain) -> None:
        self._files = RowFiles(store, chain, RESTING, _AWAKE)
        self.hosts: Rests = {**chain.state.resting, **self._files.rows}

    def write(self, hosts: Rests) -> Changes:
        """Returns what the next commit must have so that these hosts rest; its state must have none."""
        self.hosts = hosts
        return self._files.write(hosts)


def read_rests(store: Files, name: str) -> Rests:
    """Returns the hosts in one file; those that rest no more are among them, until 0."""
    return read_rows(store, name, RESTING)

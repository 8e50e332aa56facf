"""`SiteLease` decides which process leads a site that has nothing but a Store.

Each term has a number, and belongs to whoever creates its file. The holder writes to the file again and again; nobody
else does. Others watch it: if it has not changed for a lease, by their own monotonic clocks, they create the next
number. The holder looks for that number each time that it renews.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from gossamer.archive.mark import this_boot
from gossamer.archive.store import Store
from gossamer.clocks import Clock, RealClock
from gossamer.cluster.protocol import Versioned, decode_or_none, encode
from gossamer.cluster.store_exchange import BROKEN
from gossamer.cluster.store_registrar import FOLDER, pace_s, put, read

LEAD = f"{FOLDER}lead/"
_KEPT = 16  # terms: a holder that slept looks for the one after its own
_PROCESSES = Path("/proc/self/ns/pid")  # process ids mean something only inside of it


class Term(Versioned, frozen=True, kw_only=True):
    """`Term` describes the holder of a lease."""

    machine: str  # that has its process id; empty: not known
    pid: int
    is_alone: bool  # its agents are processes of this machine, and end with it
    lease_s: float
    beat: int = 0
    is_over: bool = False  # it has ended, and so have its agents


class SiteLease:
    """`is_alone`: our agents end with us. After `take`, `term` is ours, and `is_quiet` means that no agent of the term
    before can be at work."""

    def __init__(self, store: Store, lease_s: float, is_alone: bool = True, clock: Clock | None = None) -> None:
        self._store, self._lease_s, self._clock = store, lease_s, clock or RealClock()
        self.term = 0
        self.is_quiet = True
        self.is_lost = False
        self._until_s = 0.0
        self._own = Term(machine=_machine(), pid=os.getpid(), is_alone=is_alone, lease_s=lease_s)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._renew_always, name="lease", daemon=True)

    @property
    def is_held(self) -> bool:
        """Returns whether the lease is ours now; it may be again after a time in which the store did not answer."""
        return not self.is_lost and self._clock.monotonic() < self._until_s

    def take(self, waits: Callable[[Term], bool]) -> bool:
        """Takes the lease, as soon as nobody has it. While somebody has it, `waits` is called again and again, until it
        returns False: then we have not taken it."""
        seen, since_s = None, self._clock.monotonic()
        while True:
            now_s = self._clock.monotonic()
            names = self._store.list(LEAD)
            last = names[-1] if names else ""
            found = read(self._store, last) if last else None
            if (last, found) != seen:
                seen, since_s = (last, found), now_s
            holder = decode_or_none(Term, found) if found else None
            if holder is None or _is_over(holder) or now_s - since_s > 1.25 * max(holder.lease_s, self._lease_s):
                self._until_s = now_s + self._lease_s
                if self._store.create(_name(_number(last) + 1), encode(self._own)):
                    self.term = _number(last) + 1
                    self.is_quiet = holder is None or _is_over(holder)
                    for name in names[:-_KEPT]:
                        self._store.delete(name)
                    self._thread.start()
                    return True
            elif not waits(holder) or self._closing.wait(pace_s(self._lease_s) / 2):
                return False

    def check(self) -> bool:
        """Returns whether the lease is not lost. Whoever slept for longer than a lease asks the store first."""
        if not self.is_lost and not self.is_held:
            with contextlib.suppress(*BROKEN):
                self._renew()
        return not self.is_lost

    def release(self, is_over: bool) -> None:
        """Ends the renewals. `is_over`: our agents have ended, and the next holder need not wait."""
        self._closing.set()
        if self._thread.ident:
            self._thread.join()
        if is_over and self.term and not self.is_lost:
            with contextlib.suppress(*BROKEN):
                put(self._store, _name(self.term), encode(msgspec.structs.replace(self._own, is_over=True)))

    def _renew_always(self) -> None:
        while not self._closing.wait(pace_s(self._lease_s)) and not self.is_lost:
            with contextlib.suppress(*BROKEN):
                self._renew()

    def _renew(self) -> None:
        now_s = self._clock.monotonic()
        self._own = msgspec.structs.replace(self._own, beat=self._own.beat + 1)
        put(self._store, _name(self.term), encode(self._own))
        is_late = not self.is_held  # there may have been so many terms that the next one is deleted
        later = self._store.list(LEAD)[-1:] if is_late else [_name(self.term + 1)]
        self.is_lost = any(name > _name(self.term) and read(self._store, name) is not None for name in later)
        self._until_s = now_s + self._lease_s


def leader(store: Store) -> Term | None:
    """Returns who leads the site, or did until it was killed on another machine; None if nobody does."""
    names = store.list(LEAD)
    found = read(store, names[-1]) if names else None
    holder = decode_or_none(Term, found) if found else None
    return None if holder is None or _is_over(holder) else holder


def _is_over(holder: Term) -> bool:
    """Returns whether its agents cannot be at work: it wrote so, or it was a process of this machine and is gone."""
    if holder.is_over:
        return True
    is_ours = holder.is_alone and holder.machine and holder.machine == _machine()
    return bool(is_ours) and not Path(f"/proc/{holder.pid}").exists()


def _machine() -> str:
    try:
        return f"{this_boot()} {os.readlink(_PROCESSES)}"
    except OSError:  # not Linux
        return ""


def _name(term: int) -> str:
    return f"{LEAD}{term:08d}"


def _number(name: str) -> int:
    return int(name.rpartition("/")[2]) if name else 0

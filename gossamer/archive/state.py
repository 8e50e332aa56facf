"""`AgentState` is what an agent keeps from one commit to the next, whole in every manifest: only this module defines
its fields, and how it is written.

The structs are strict: a manifest with a field that is not here, or of another type, is damaged. Whoever adds a field
gives it a default; whoever changes or removes one raises `mark.LAYOUT`, and teaches `earlier.py` what it was.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace as replace

# Bytes of a file's name that are not UTF-8 are lone surrogates for Python, which JSON cannot have: private use instead.
_PRIVATE = {0xDC80 + byte: 0xF0080 + byte for byte in range(128)}
_SURROGATE = {private: surrogate for surrogate, private in _PRIVATE.items()}


class Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`Strict` structs do not write what is as it would be by default."""


class LedgerState(Strict, frozen=True):
    """`LedgerState` is the OPIC cash, as `crawl.ledger.Ledger` counts it."""

    v: int = 0
    pool: int = 0
    minted: int = 0
    known: int = 0


class Counters(Strict, frozen=True):
    """`Counters` counts what an agent has done in the whole crawl, and what it has now. Zones have one owner: those of
    several agents add up, and nothing is counted twice."""

    visits: int = 0  # of pages; robots.txt is not counted
    requisites: int = 0  # visits to them, which are not counted in `visits` and `outcomes`
    truncated: int = 0  # visits that brought a body, but not all of it
    rounds: int = 0
    deferred: int = 0
    wire_bytes: int = 0  # bodies, as sent
    known: int = 0  # pages in the index
    hosts: int = 0  # of these pages
    frontier: int = 0  # of these pages, not yet visited
    outcomes: Mapping[str, int] = {}  # of visits
    refused: Mapping[str, int] = {}  # links, by the setting that kept them from being followed
    functions: Mapping[str, int] = {}  # what page functions found: items, files, pages, and pages on which they failed

    def __add__(self, other: "Counters") -> "Counters":
        return Counters(**{name: _sum(getattr(self, name), getattr(other, name)) for name in self.__struct_fields__})

    def __sub__(self, other: "Counters") -> "Counters":
        """Returns the difference to `other`, the counters before."""
        return Counters(
            **{name: _sum(getattr(self, name), getattr(other, name), -1) for name in self.__struct_fields__}
        )


class PriceState(Strict, frozen=True):
    """`PriceState` is the price of carbon: `carbon.prices.Prices`."""

    began_s: float | None = None
    day: int = 0
    groups: dict[str, dict[int, tuple[float, float, float]]] = {}  # price, unit, grams spent today


class Members(Strict, frozen=True, kw_only=False):
    """`Members` has the sites of a federation, in one version of the list: `cluster.site_list`."""

    version: int
    weights: Mapping[str, float]  # of all sites there ever were; 0: it takes no hosts
    partitioner: str
    # The lists before it, from the last that was carried out on: what is ours by all of them is ours. None: we are new.
    before: list[Mapping[str, float]] | None = None

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


class AgentState(Strict, frozen=True):
    """The next one is `replace(state, ...)` with what has changed; times are seconds since 1970."""

    # The crawl
    ledger: LedgerState = LedgerState()
    counters: Counters = Counters()
    costs: dict[str, float] = {}  # joules and grams of all visits
    seed_files: dict[str, int] = {}  # by path (`name_as_text`): how many bytes have been read
    order: str = ""
    depth_limits: tuple[int, ...] | None = None  # by which links were refused as too deep
    judged_by: str = ""  # the settings of scope and patterns by which all links were judged; empty: unknown
    prices: PriceState = PriceState()
    overlap: bool = False  # other agents may know the same pages
    # Time and politeness
    started_s: float | None = None
    committed_s: float = 0.0
    busy_s: float | None = None  # in all runs
    waits_until_s: float | None = None  # nothing is due before
    quiet_until_s: float = 0.0  # an owner before us may be fetching
    clean: bool | None = None  # nothing was being fetched; None: nothing has ever been
    epochs: dict[int, int] = {}  # the last ones, and the number with which each began
    resting: dict[
        str, tuple[float, int]
    ] = {}  # hosts, in early manifests of layout 3; now they have files of their own
    # Other sites
    members: Members | None = None
    gone: tuple[str, ...] = ()  # sites whose hosts have been looked for again
    moves: dict[str, str] = {}  # hosts that a rebalance gives to other sites
    settling: bool = False  # hosts have come that may have to go on
    reported: dict[str, int] = {}  # which version of the list we reported as carried out, by turn
    received: dict[str, dict[str, int]] = {}  # and which the other sites reported
    early: list[tuple[int, int, int, int]] = []  # links to pages whose URLs are yet to come: key, hits, depth, hops
    crossed: dict[str, dict[str, int]] = {}  # by site: what was sent there
    round_trips: dict[str, dict[str, float]] = {}  # by site and place: seconds (placement/network.py)


def encoded(value: Any) -> bytes:
    """Encodes as JSON; NumPy's numbers and arrays become plain ones."""
    return msgspec.json.encode(value, enc_hook=_plain)


def settled(state: AgentState) -> AgentState:
    """Returns the state as it will be read; the caller can no longer change it."""
    return msgspec.json.decode(encoded(state), type=AgentState)


def name_as_text(name: str) -> str:
    return name.translate(_PRIVATE)


def name_of_text(text: str) -> str:
    return text.translate(_SURROGATE)


def total(counters: Iterable[Counters]) -> Counters:
    return sum(counters, Counters())


def _sum(one: Any, other: Any, sign: int = 1) -> Any:
    if not isinstance(one, Mapping):
        return one + sign * other
    both = Counter(one)
    both.update({name: sign * times for name, times in other.items()})
    return {name: times for name, times in both.items() if times}


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be part of a manifest")

"""`Stats` has the figures of a running crawl, for a display; `Report` adds what the agent's site must know."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import msgspec

# Outcomes that are no trouble. Every other one counts as an error and is named by its kind.
CALM = ("ok", "unchanged", "moved", "denied", "refused_use")

LEAST_S = 1.0  # no rate is shown before so much time has passed: it would be noise


@dataclass(frozen=True, slots=True)
class Stats:
    """`Stats` has the figures of a running crawl at one moment. None means unknown and is shown as a dash."""

    now_s: float  # seconds since 1970
    elapsed_s: float  # since this run began (a resumed crawl is a new run)
    visits: int  # pages visited by the whole crawl, earlier runs included; robots.txt not counted
    run_visits: int  # pages visited by this run
    wire_bytes: int  # bodies received by this run, as sent
    round: int | None = None  # being gathered now
    outcomes: Mapping[str, int] = field(default_factory=dict)  # word: visits, this run
    requisites: int = 0  # visits to what pages need, by the whole crawl
    truncated: int = 0  # bodies that were cut, in the whole crawl
    refused: Mapping[str, int] = field(default_factory=dict)  # setting: links that it refused, in the whole crawl
    connections: int | None = None  # open now
    hosts: int | None = None  # known
    active_hosts: int | None = None  # with pages in the workbench
    backed_off_hosts: int | None = None  # of these, paused after a failure or at their own request
    frontier: int | None = None  # known pages not yet visited
    known: int | None = None  # pages
    memory_bytes: int | None = None  # resident
    ended: str = ""  # why the run ended; empty while it goes on
    refused_seeds: int = 0  # lines of seed files that are no web address
    waits_until_s: float | None = None  # nothing is due before: pages are tried again then, or hosts rest
    phase: str = ""  # such as "committing" or "stopping"; empty: just crawling
    notes: tuple[str, ...] = ()  # what a person should be told at once, the first one first; only more come

    @property
    def errors(self) -> dict[str, int]:
        """Returns kinds of trouble and how often each occurred, most frequent first."""
        kinds = [(word, times) for word, times in self.outcomes.items() if word not in CALM and times]
        return dict(sorted(kinds, key=lambda kind: (-kind[1], kind[0])))

    def as_dict(self) -> dict[str, Any]:
        """Returns figures by name, the rate included, for programs."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            **found,
            "outcomes": dict(self.outcomes),
            "refused": dict(self.refused),
            "errors": self.errors,
            "pages_per_s": self.mean_rate,
        }

    @property
    def mean_rate(self) -> float | None:
        return self.run_visits / self.elapsed_s if self.elapsed_s >= LEAST_S else None


class SiteProgress(NamedTuple):
    """`SiteProgress` is how far a site has carried out the list of sites, as the agent that speaks for it knows."""

    clean: Mapping[str, int] | None = None  # by other site: the version of the list that it has carried out
    passing: bool = False  # hosts are on their way through the agent to another one
    is_clean: bool = False  # the agent's own site has carried out the list


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`Report` is the state of an agent, as it reports it to its site."""

    number: int  # of its last commit
    epoch: int
    zones: str  # that it owns, in ranges
    sent: Mapping[str, int]  # by stream: the number of the last message
    marks: Mapping[str, int]  # by stream: the last message that it has committed
    pages: int | None  # the limit of visits that it works under
    rounds: int  # of this run
    idle: str  # why it has nothing to do; empty: it has
    next_due_s: float | None
    backlog_bytes: int  # of messages that are not confirmed
    committed_s: float
    cpu_s: float  # user and system, since its process began
    stats: Stats
    cpu_share: float = 0.0  # of one core, over the last seconds
    received_bytes: int = 0  # heads and bodies of HTTP, by this life of the agent
    sent_bytes: int = 0
    due_hosts: int = 0  # whose turn it is, and whose request has not begun
    cores: int = 0  # of its machine; 0: not known
    is_working: bool = False  # pages are under way
    # Of the agent that speaks for a site of a federation, as in `SiteProgress`:
    clean: Mapping[str, int] | None = None
    passing: bool = False
    is_clean: bool = False


def waited_for_s(stats: Iterable[Mapping[str, Any]]) -> float | None:
    """Returns when the first of several agents goes on, if all wait that are not done."""
    signs = ("waits_until_s", "frontier", "connections")
    times = [each["waits_until_s"] for each in stats if any(each[sign] for sign in signs)]
    return min(times) if times and None not in times else None


def refused_links(refused: Mapping[str, int]) -> dict[str, int]:
    """Returns how many links each setting has kept from being followed, most first."""
    found = {name: times for name, times in refused.items() if times > 0}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


_REMEDIES = {
    "crawl.scope": "they lead out of the scope (crawl.scope, or that of a seed); a wider one follows them",
    "crawl.include/exclude": "by crawl.include and crawl.exclude; with wider ones the same command follows them",
    "crawl.nofollow": "their pages ask for that; crawl.nofollow = false follows them",
    "site.mode": "they lead to pages of other agents, and site.mode is firewall",
    "extract.links": "your function (extract.links) refused them, or failed on their pages (table function_errors)",
    "port": "browsers refuse these ports too",
    "seeds.pages": "their website has as many pages as its seed allows (pages=)",
}


def remedy(setting: str) -> str:
    """Returns what a person may do about it."""
    if setting in _REMEDIES:
        return f"links not followed: {_REMEDIES[setting]}"
    if setting.startswith("limits.depth"):
        return f"links refused by {setting}: with a greater one the same command follows them"
    return f"links refused by {setting}: a greater one holds for links found from then on"


def in_short(refused: Mapping[str, int]) -> str:
    """Returns how many links were not followed, by reason, in a few words: "scope 4,023, depth 151"."""
    return ", ".join(f"{setting.rpartition('.')[2].replace('_', ' ')} {times:,}" for setting, times in refused.items())


def found_by_functions(counts: Mapping[str, int]) -> list[str]:
    """Returns a note about what page functions found; none if there were no pages for them."""
    if not counts:
        return []
    items, files, pages, failed = (counts.get(name, 0) for name in ("items", "files", "pages", "failed"))
    found = f"functions found {items:,} items and {files:,} files on {pages:,} pages"
    found += f"; they failed on {failed:,} pages (table function_errors)" if failed else ""
    unjudged = counts.get("unjudged", 0)  # pages whose links no function could judge
    return [found + (f"; the links function failed on {unjudged:,}: no link of these is followed" if unjudged else "")]

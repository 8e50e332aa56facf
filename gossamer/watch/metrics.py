"""This module writes what an `Observer` knows as OpenMetrics text, for Prometheus and programs that read the same.

Counters are those of the manifests: they never fall, as the manifests survive every process. Labels are agent, site and
outcome, whose numbers are bounded: no host or URL is one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gossamer.archive.state import AgentState
from gossamer.watch.observer import Observer

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Sample = tuple[dict[str, str], float]


class Family(NamedTuple):
    """`Family` is a metric: its name, its kind, its unit if that ends its name, and what it means."""

    name: str
    kind: str
    unit: str
    help: str


_COUNTED = {
    "rounds": Family("gossamer_commits", "counter", "", "Commits of the agent."),
    "wire_bytes": Family("gossamer_received_bytes", "counter", "bytes", "Bodies received, as sent."),
    "deferred": Family("gossamer_deferrals", "counter", "", "Pages that could not be tried when their turn came."),
    "known": Family("gossamer_known_pages", "gauge", "", "Pages in the index."),
    "frontier": Family("gossamer_frontier_pages", "gauge", "", "Known pages that were not visited yet."),
    "hosts": Family("gossamer_known_hosts", "gauge", "", "Hosts of the known pages."),
}
_VISITS = Family("gossamer_visits", "counter", "", "Visits of pages, by outcome; robots.txt is not counted.")
_REFUSED = Family("gossamer_refused_links", "counter", "", "Links that a setting kept from being followed.")
_ENERGY = Family("gossamer_energy_joules", "counter", "joules", "Energy of all visits, at most.")
_CARBON = Family("gossamer_carbon_grams", "counter", "grams", "Carbon dioxide equivalent of all visits, at most.")
_SENT = Family("gossamer_sent_bytes", "counter", "bytes", "Bytes that the site sent to other sites.")
_COMMITTED = Family("gossamer_last_commit_timestamp_seconds", "gauge", "seconds", "When the agent last committed.")
_UP = Family("gossamer_agent_up", "gauge", "", "1 if the agent runs, as far as can be seen from here.")
_LIVE = {
    "memory_bytes": Family("gossamer_agent_memory_bytes", "gauge", "bytes", "Resident memory of the agent."),
    "cpu": Family("gossamer_agent_cpu_cores", "gauge", "", "Cores that the agent uses now."),
    "connections": Family("gossamer_agent_connections", "gauge", "", "Connections of the agent that are open now."),
    "active_hosts": Family("gossamer_agent_active_hosts", "gauge", "", "Hosts with pages in the agent's workbench."),
    "due_hosts": Family("gossamer_agent_due_hosts", "gauge", "", "Hosts whose turn it is, without a request yet."),
    "backlog_bytes": Family("gossamer_agent_backlog_bytes", "gauge", "bytes", "Messages that are not confirmed yet."),
}
_RESTING = Family("gossamer_resting_hosts", "gauge", "", "Hosts that are left alone longer than usual.")
_HEALTHY = Family("gossamer_healthy", "gauge", "", "1 if nothing is wrong that /healthz would report.")


def exposition(observer: Observer) -> str:
    """Returns all metrics as text."""
    lines: list[str] = []
    for family, samples in _families(observer):
        lines += _written(family, samples)
    return "\n".join([*lines, "# EOF\n"])


def _families(observer: Observer) -> Iterator[tuple[Family, list[Sample]]]:
    chains = [
        ({"agent": agent, "site": archive.site}, at)
        for archive in observer.archives.values()
        for agent, at in archive.follower.snapshots.items()
    ]
    counted = [(labels, sorted(at.state.counters.outcomes.items())) for labels, at in chains]
    yield _VISITS, [({**labels, "outcome": name}, visits) for labels, pairs in counted for name, visits in pairs]
    for name, family in _COUNTED.items():
        yield family, [(labels, getattr(at.state.counters, name)) for labels, at in chains]
    yield _REFUSED, [(labels, sum(at.state.counters.refused.values())) for labels, at in chains]
    yield _ENERGY, [(labels, at.state.costs["energy_j"]) for labels, at in chains if "energy_j" in at.state.costs]
    yield _CARBON, [(labels, at.state.costs["carbon_g"]) for labels, at in chains if "carbon_g" in at.state.costs]
    yield _SENT, [(labels, _sent(at.state)) for labels, at in chains if at.state.crossed]
    yield _COMMITTED, [(labels, at.time_s) for labels, at in chains]
    rows = [({"agent": row["agent"], "site": row["site"]}, row) for row in observer.agents()]
    yield _UP, [(labels, float(row["state"] not in ("ended", "stopped"))) for labels, row in rows]
    for name, family in _LIVE.items():
        yield family, [(labels, row[name]) for labels, row in rows if row[name] is not None]
    yield _RESTING, [({}, len(observer.resting()))]
    yield _HEALTHY, [({}, float(observer.health()["healthy"]))]


def _sent(state: AgentState) -> int:
    return sum(to.get("bytes", 0) for to in state.crossed.values())


def _written(family: Family, samples: list[Sample]) -> Iterator[str]:
    if not samples:
        return
    name, kind, unit, text = family
    yield f"# TYPE {name} {kind}"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {text}"
    ending = "_total" if kind == "counter" else ""
    for labels, value in samples:
        yield f"{name}{ending}{_braced(labels)} {value:.17g}"


def _braced(labels: Mapping[str, Any]) -> str:
    shown = [f'{name}="{_escaped(str(value))}"' for name, value in labels.items() if value]
    return "{" + ",".join(shown) + "}" if shown else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""This module shows which agents crawl in a directory, and what each has and does; and it asks for more or fewer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.archive.places import opened
from gossamer.archive.reading import Reading, reading
from gossamer.archive.state import Counters
from gossamer.cluster import store_registrar
from gossamer.cluster.hub import FOLDER, AgentRegistrar
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import read_address
from gossamer.cluster.protocol import Heartbeat, Wish
from gossamer.cluster.registrar import of_agents
from gossamer.cluster.store_lease import leader
from gossamer.config.folders import Place, folder_of
from gossamer.errors import SiteError
from gossamer.watch.figures import UNKNOWN, count, moment, rate, size

_CONNECT_S = 3.0


def agents(directory: Place) -> list[dict[str, Any]]:
    """Returns one row for each agent that ever committed here or is alive now."""
    alive = _alive(directory)
    return reading(directory, lambda at: [_row(at, name, alive.get(name)) for name in sorted({*at.snapshots, *alive})])


def change(directory: Place, retire: str = "") -> None:
    """Asks the running crawl for one agent more, or for this one to leave."""
    reading(directory, lambda _: None)  # it must be a crawl
    with registrar_of(directory) as registrar:
        if registrar is None:
            raise SiteError(
                f"no crawl with several agents is running in {directory}: start it with "
                f"`gossamer crawl --dir {directory} --agents N`"
            )
        if retire.endswith("a0"):
            raise SiteError(f"{retire} reads the seeds and stays to the end; retire another one")
        if retire and retire not in (registrar.alive() or {}):
            raise SiteError(f"{retire} is not running; `gossamer agents {directory}` shows who is")
        if not registrar.wish(Wish(retire=retire)):
            raise SiteError(f"the crawl in {directory} does not answer; try again")


def _alive(directory: Place) -> dict[str, Heartbeat]:
    with registrar_of(directory) as registrar:
        found = registrar.alive() if registrar else {}
    if found is None:
        raise SiteError(f"the crawl in {directory} does not answer; try again")
    return found


@contextmanager
def registrar_of(directory: Place) -> Iterator[AgentRegistrar | None]:
    """Yields the registrar of the site that runs here, None if there is none."""
    store = opened(directory)
    if leader(store) is not None:
        by_store = store_registrar.of_agents(store)
        try:
            yield by_store
        finally:
            by_store.close()
        return
    wire = _connected(directory)
    try:
        yield None if wire is None else of_agents(wire)
    finally:
        if wire is not None:
            wire.close()


def _connected(directory: Place) -> Wire | None:
    address = read_address(folder_of(directory) / FOLDER)
    if address is None:
        return None
    wire = Wire(address)
    if wire.wait_up(_CONNECT_S):
        return wire
    wire.close()
    return None


def _row(at: Reading, name: str, beat: Heartbeat | None) -> dict[str, Any]:
    snapshot = at.snapshots.get(name)
    counted = snapshot.state.counters if snapshot else Counters()
    row = {
        "agent": name,
        "state": "ended",
        "zones": list(snapshot.zones) if snapshot else [],
        "visits": counted.visits,
        "known": counted.known,
        "frontier": counted.frontier,
        "pages_per_s": None,
        "memory_bytes": None,
        "cpu": None,
        "backlog_bytes": sum(letter.size for letter in snapshot.outbox) if snapshot else 0,
        "committed_s": snapshot.time_s if snapshot else None,
        "process": None,
    }
    if beat is None:
        return row
    row |= {"state": "starting", "process": beat.pid}
    if (report := beat.report) is not None:
        stats = report.stats.as_dict()
        row |= {name: stats[name] for name in ("visits", "known", "frontier", "pages_per_s", "memory_bytes")}
        row |= {name: getattr(report, name) for name in ("zones", "backlog_bytes", "committed_s")}
        row["state"] = "idle" if report.idle else report.stats.phase or "crawling"
        row["cpu"] = report.cpu_s / beat.alive_s if beat.alive_s else None
    return row


def render(rows: list[dict[str, Any]]) -> RenderableType:
    table = Table(header_style="bold", show_edge=False, pad_edge=False, box=None, padding=(0, 1, 0, 0))
    names = ("agent", "state", "zones", "visits", "pages/s", "frontier", "memory", "CPU", "unsent", "committed")
    for name in names:
        is_text = name in ("agent", "state")
        table.add_column(name, justify="left" if is_text else "right", no_wrap=True)
    for row in rows:
        style = {"ended": "dim", "crawling": "green"}.get(row["state"], "")
        cpu = UNKNOWN if row["cpu"] is None else f"{100 * row['cpu']:.0f} %"
        table.add_row(
            row["agent"],
            Text(row["state"], style),
            count(len(row["zones"])),
            count(row["visits"]),
            rate(row["pages_per_s"]),
            count(row["frontier"]),
            size(row["memory_bytes"]),
            cpu,
            size(row["backlog_bytes"]),
            moment(row["committed_s"])[11:19],
        )
    running = sum(row["process"] is not None for row in rows)
    return Group(table, Text(), Text(f"{running} running, {len(rows)} in all", "dim"))

"""This module shows which agents crawl in a directory, what each has and does, and how many would be enough; and it
asks for more or fewer."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.archive.places import opened, remembered
from gossamer.archive.reading import Reading, reading
from gossamer.archive.state import Counters
from gossamer.archive.zones import in_ranges
from gossamer.cluster import store_registrar
from gossamer.cluster.hub import FOLDER, AgentRegistrar
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import read_address
from gossamer.cluster.on_demand import limits, load_of
from gossamer.cluster.protocol import Heartbeat, Wish
from gossamer.cluster.registrar import of_agents
from gossamer.cluster.scaling import Advice, Situation, advice
from gossamer.cluster.store_lease import leader
from gossamer.config import PROCESSES, Config
from gossamer.config.folders import Place, folder_of
from gossamer.errors import SiteError
from gossamer.watch import panel
from gossamer.watch.figures import UNKNOWN, count, moment, rate, size
from gossamer.watch.following import agents_with_locks

_CONNECT_S = 3.0


class AgentRow(msgspec.Struct, kw_only=True):
    """`AgentRow` describes one agent: by its report if it runs, else by its last commit. None means unknown."""

    agent: str
    state: str = "ended"
    zones: int = 0
    visits: int = 0
    known: int | None = 0
    frontier: int | None = 0
    pages_per_s: float | None = None
    connections: int | None = None  # busy now
    due_hosts: int | None = None  # whose turn it is, and whose request has not begun
    memory_bytes: int | None = None  # resident
    cpu: float | None = None  # share of a core, over the last seconds
    cpu_s: float | None = None  # user and system, since its process began
    received_bytes: int | None = None  # heads and bodies of HTTP
    sent_bytes: int | None = None
    backlog_bytes: int = 0  # of messages to others that are not confirmed
    committed_s: float | None = None
    process: int | None = None


class Overview(msgspec.Struct):
    """`Overview` has all agents that ever committed here or are alive now, and says how many would be enough."""

    agents: list[AgentRow]
    advice: Advice


def overview(directory: Place) -> Overview:
    alive = _alive(directory)
    # An agent alone reports to nobody, but it has a process of this machine.
    pids = {name: pid for name, pid in agents_with_locks(opened(directory)) if pid}
    rows = reading(
        directory,
        lambda at: [_row(at, name, alive.get(name), pids.get(name)) for name in sorted({*at.snapshots, *alive, *pids})],
    )
    return Overview(rows, _advice(alive, remembered(directory) or Config()))


def _advice(alive: Mapping[str, Heartbeat], config: Config) -> Advice:
    """Returns what the supervisor would decide on now, if it decided by this moment alone."""
    reports = {name: beat.report for name, beat in alive.items()}
    cores = max((report.cores for report in reports.values() if report), default=0)
    loads = {name: load_of(report) if report else None for name, report in reports.items()}
    return advice(Situation(loads), limits(config, cores if cores and config.site.engine == PROCESSES else inf))


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


def _row(at: Reading, name: str, beat: Heartbeat | None, pid: int | None) -> AgentRow:
    snapshot = at.snapshots.get(name)
    counted = snapshot.state.counters if snapshot else Counters()
    row = AgentRow(agent=name, visits=counted.visits, known=counted.known, frontier=counted.frontier)
    if snapshot:
        row.zones, row.committed_s = len(snapshot.zones), snapshot.time_s
        row.backlog_bytes = sum(entry.size for entry in snapshot.outbox)
    if beat is None:
        row.state, row.process = ("crawling", pid) if pid else (row.state, None)
        return row
    row.state, row.process = "starting", beat.pid
    if (report := beat.report) is not None:
        stats = report.stats
        row.state = "idle" if report.idle else stats.phase or "crawling"
        row.visits, row.known, row.frontier = stats.visits, stats.known, stats.frontier
        row.pages_per_s = stats.mean_rate
        row.connections, row.due_hosts, row.memory_bytes = stats.connections, report.due_hosts, stats.memory_bytes
        row.cpu, row.cpu_s = report.cpu_share, report.cpu_s
        row.received_bytes, row.sent_bytes = report.received_bytes, report.sent_bytes
        row.zones, row.backlog_bytes = len(in_ranges(report.zones)), report.backlog_bytes
        row.committed_s = report.committed_s
    return row


def render(found: Overview) -> RenderableType:
    running = [row for row in found.agents if row.process is not None]
    parts: list[RenderableType] = [_work(found.agents)]
    if reporting := [row for row in running if row.memory_bytes is not None]:
        parts += [Text(), _load(reporting)]
    parts += [Text(), Text(f"{len(running)} running, {len(found.agents)} in all", "dim")]
    return Group(*parts, Text(words(found.advice))) if reporting else Group(*parts)


def _work(rows: list[AgentRow]) -> Table:
    """Returns a table of what agents have, and have done."""
    table = panel.table(
        "agent", "state", "zones", "visits", "pages/s", "frontier", "unsent", "committed", texts=("state",)
    )
    for row in rows:
        table.add_row(
            row.agent,
            Text(row.state, {"ended": "dim", "crawling": "green"}.get(row.state, "")),
            count(row.zones),
            count(row.visits),
            rate(row.pages_per_s),
            count(row.frontier),
            size(row.backlog_bytes),
            moment(row.committed_s)[11:19],
        )
    return table


def _load(rows: list[AgentRow]) -> Table:
    """Returns a table of what agents have to do now, and what they use."""
    table = panel.table("agent", "connections busy", "hosts due", "CPU", "memory", "received", "sent")
    for row in rows:
        table.add_row(
            row.agent,
            count(row.connections),
            count(row.due_hosts),
            UNKNOWN if row.cpu is None else f"{100 * row.cpu:.0f} %",
            size(row.memory_bytes),
            size(row.received_bytes),
            size(row.sent_bytes),
        )
    return table


def words(found: Advice) -> str:
    """Returns advice as a sentence."""
    if found.agents is None:
        return f"How many agents would be enough is not known: {found.why}."
    enough = found.agents if found.enough is None else found.enough
    bound = "" if enough == found.agents else f" ({found.agents} are allowed)"
    return f"{enough} agent{'s' * (enough != 1)} would be enough now{bound}: {found.why}."

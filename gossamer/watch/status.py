"""`status` reads the state of a crawl, running or not, from what it has committed, never from the running process."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import duckdb
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.archive.reading import Reading, reading
from gossamer.archive.state import total
from gossamer.archive.store import ReadOnly
from gossamer.archive.views import KINDS, statements, word
from gossamer.clocks import RealClock
from gossamer.columns import Outcome, Status
from gossamer.config.folders import Address, Place
from gossamer.crawl.inbox import ASIDE, refused, set_aside
from gossamer.crawl.stats import CALM, in_short, refused_links, remedy
from gossamer.watch.figures import count, grams, joules, moment, printable, rate, share, size, span, waiting
from gossamer.watch.monitor import totals
from gossamer.watch.panel import grid, table

if TYPE_CHECKING:
    from gossamer.archive.object_store import ObjectStore

SCANNED_ROWS = 2_000_000  # of pages and visits; a scan of more would keep the user waiting
_FETCHED_BYTES = 50  # of all tables, per row that may be scanned: 100 MB that come from a bucket
_SCANNED = ("statuses", "top_hosts", "costs_by_country")
_RECENT = 5  # rounds
_TOP = 10  # hosts, and countries
_OF_FUNCTIONS = ("items", "files", "function_errors")
_PLACES = ("warc", "cdxj", "tables", "index", "manifest")


# As the view `pages` has it, which takes twice as long for all its other columns.
_STATUSES_SQL = f"""
    SELECT coalesce(v.status, '{word(Status.NEW)}'), count(*)
    FROM stored.pages p LEFT JOIN stored.newest v ON v.key = p.key
    WHERE coalesce(v.kind, p.kind, 'page') = 'page' GROUP BY ALL"""
_ROWS_SQL = "SELECT sum(num_rows) FROM parquet_file_metadata(?)"
_RECENT_SQL = """
    WITH visits AS (SELECT round, epoch_ms(time) AS ms FROM read_parquet(?) WHERE NOT is_robots)
    SELECT count(*), (max(ms) - min(ms)) / 1000, count(DISTINCT round) FROM visits
    WHERE round + ? > (SELECT max(round) FROM visits)"""


_OF_HOST = ("host", "pages", "visited", "ok", "errors", "wire_bytes", "energy_j", "carbon_g")
_OF_COUNTRY = ("country", "visits", "wire_bytes", "energy_low_j", "energy_j", "carbon_low_g", "carbon_g")
_COUNTRIES_SQL = """
    SELECT country, count(*) FILTER (energy_j > 0), sum(wire_bytes) FILTER (energy_j > 0)::BIGINT, sum(energy_low_j),
        sum(energy_j), sum(energy_low_j * g_per_kwh) / 3.6e6, sum(carbon_g)
    FROM visits GROUP BY country ORDER BY sum(carbon_g) DESC, country"""


def status(directory: Place, scanned_rows: float = SCANNED_ROWS) -> dict[str, Any]:
    """Returns everything there is to know, as plain values; None is unknown.

    Counters come from the manifests. What needs a scan of the tables (`statuses`, `top_hosts`, `costs_by_country`) is
    None if they have more than `scanned_rows`.
    """

    def work(at: Reading) -> dict[str, Any]:
        # One for all questions: to open it takes longer than most of them. What is asked is ours, so that it need not
        # be confined as `archive.query` does, which brings Arrow and all that reads pages.
        with closing(duckdb.connect()) as database:
            return _status(at, database, scanned_rows)

    return reading(directory, work)


def _status(at: Reading, database: duckdb.DuckDBPyConnection, scanned_rows: float) -> dict[str, Any]:
    there = at.stores[at.directory] if isinstance(at.directory, Address) else ReadOnly(at.directory)
    store = cast("ReadOnly | ObjectStore", there)
    summed = totals(at.snapshots.values(), RealClock().now())
    counters = total(snapshot.state.counters for snapshot in at.snapshots.values())
    locks = [name.partition("/")[2] for name in store.list("lock/")]  # of agents that may yet have to commit
    agents = {agent: _agent(at, store, agent) for agent in sorted({*at.snapshots, *locks})}
    outcomes = {name: counters.outcomes[name] for name in map(word, Outcome) if name in counters.outcomes}
    disk = _disk(at)
    scanned = _scan(at, database) if _is_small(at, database, scanned_rows) else dict.fromkeys(_SCANNED)
    return {
        "directory": str(at.directory),
        "running": any(agent["pid"] for agent in agents.values()),
        "agents": agents,
        **summed,
        "refused_links": refused_links(counters.refused),
        "outcomes": outcomes,
        "errors": {name: times for name, times in outcomes.items() if name not in CALM},
        "rate": {**summed["rate"], **_recent(at, database)},
        "messages": {"set_aside": set_aside(store), "refused": refused(store)},
        "functions": {kind: _rows(at, database, kind) for kind in _OF_FUNCTIONS},
        **scanned,
        "disk": disk,
        "disk_bytes": sum(disk.values()),
        "where": {name: f"{at.directory}/{name}" for name in _PLACES},
    }


def _rows(at: Reading, database: duckdb.DuckDBPyConnection, kind: str) -> int | None:
    """Returns how many rows a table has, by the ends of its files; None in a bucket, where files must be fetched."""
    return None if at.stores else _stored_rows(database, at.paths(kind))


def _is_small(at: Reading, database: duckdb.DuckDBPyConnection, most_rows: float) -> bool:
    """Returns whether the tables can be scanned while the user waits: few rows, or few bytes from far away."""
    if at.stores and sum(map(at.bytes, KINDS)) > most_rows * _FETCHED_BYTES:
        return False
    paths = [path for kind in ("pages", "visits") for path in at.paths(kind)]
    return _stored_rows(database, paths) <= most_rows


def _stored_rows(database: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> int:
    if not paths:
        return 0
    ((rows,),) = database.execute(_ROWS_SQL, [list(map(str, paths))]).fetchall()
    return int(rows)


def _agent(at: Reading, store: "ReadOnly | ObjectStore", agent: str) -> dict[str, Any]:
    snapshot = at.snapshots.get(agent)
    committed = {"round": snapshot.number, "committed_s": snapshot.time_s} if snapshot else {}
    return {"round": 0, "committed_s": None, **committed, "pid": store.holder(agent) or None, **_elsewhere(at, agent)}


def _elsewhere(at: Reading, agent: str) -> dict[str, Any]:
    """Returns, of a crawl in a bucket, whether its agent has ended: another machine may run it, where no lock tells."""
    snapshot = at.snapshots.get(agent)
    return {"ended": bool(snapshot and snapshot.state.clean)} if at.stores else {}


def _disk(at: Reading) -> dict[str, int]:
    """Returns bytes by kind; the many kinds of index files are one."""
    used: Counter[str] = Counter()
    for kind in at.kinds:
        used[kind.partition(".")[0]] += at.bytes(kind)
    return dict(used.most_common())


def _recent(at: Reading, database: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Returns pages per second over the last rounds, from when their visits began."""
    files = {agent: snapshot.files.get("visits", [])[-_RECENT:] for agent, snapshot in at.snapshots.items()}
    paths = [str(path) for agent, names in files.items() for path in at.of_agent(agent, names)]
    row = database.execute(_RECENT_SQL, [paths, _RECENT]).fetchone() if paths else None
    visits, passed_s, rounds = row or (0, None, 0)
    return {"recent": visits / passed_s if passed_s else None, "recent_rounds": rounds}


def _scan(at: Reading, database: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    files = {kind: at.paths(kind) for kind in ("pages", "visits")}
    for statement in statements(database, files, at.overlap, views=("visits", "newest", "hosts")):
        database.execute(statement)
    found = dict(database.execute(_STATUSES_SQL).fetchall())
    hosts = database.execute(
        f"SELECT {', '.join(_OF_HOST)} FROM hosts ORDER BY visited DESC, pages DESC, host LIMIT {_TOP}"
    ).fetchall()
    # Visits that an earlier layout stored have neither country nor costs.
    countries = [row for row in database.execute(_COUNTRIES_SQL).fetchall() if row[3] is not None]
    costs = [math.fsum(column) for column in zip(*(row[3:] for row in countries), strict=True)]
    return {
        **({"costs": dict(zip(_OF_COUNTRY[3:], costs, strict=True))} if costs else {}),
        "statuses": {name: found[name] for name in map(word, Status) if name in found},
        "top_hosts": [dict(zip(_OF_HOST, row, strict=True)) for row in hosts],
        "costs_by_country": [dict(zip(_OF_COUNTRY, row, strict=True)) for row in countries if row[1]][:_TOP],
    }


def render(found: Mapping[str, Any]) -> RenderableType:
    """Returns the same for a person."""
    parts: list[RenderableType] = [_headline(found), Text(), _totals(found)]
    if found["outcomes"]:
        parts += [Text(), _shares("visits by outcome", found["outcomes"], found["errors"])]
    if found["refused_links"]:
        parts += [Text(), _limits(found["refused_links"])]
    if found["statuses"]:
        parts += [Text(), _shares("pages by status", found["statuses"], {})]
    if found["top_hosts"]:
        parts += [Text(), _hosts(found["top_hosts"])]
    if found["costs_by_country"]:
        parts += [Text(), _countries(found["costs_by_country"])]
    if found["disk"]:
        parts += [Text(), _used(found)]
    return Group(*parts)


def _headline(found: Mapping[str, Any]) -> Text:
    pids = [agent["pid"] for agent in found["agents"].values() if agent["pid"]]
    state = f"running (process {', '.join(map(str, pids))})" if pids else "not running"
    if not pids and any(agent.get("ended") is False for agent in found["agents"].values()):
        state = "not running on this machine; if no other runs it, it was killed"
    if not found["rounds"]:
        state += ", nothing committed yet"
    return Text.assemble((found["directory"], "bold"), "  ", (state, "green" if pids else "dim"))


def _totals(found: Mapping[str, Any]) -> Table:
    rows = grid()
    rows.add_row("visits", count(found["visits"]), f"in {count(found['rounds'])} rounds")
    if found["requisites"]:
        rows.add_row("requisites", count(found["requisites"]), "visits to what pages need to be shown")
    if found["truncated"]:
        rows.add_row("truncated", count(found["truncated"]), "bodies that are not whole (visits.truncated)")
    rows.add_row("known", count(found["known"]), f"pages of {count(found['hosts'])} hosts")
    rows.add_row("frontier", count(found["frontier"]), "pages not yet visited")
    rows.add_row("traffic", size(found["wire_bytes"]), "bodies as sent")
    made = found["functions"]
    if any(made.values()):
        failed = made["function_errors"]
        words = f"and {count(made['files'])} files by functions; {count(failed)} errors"
        rows.add_row("items", count(made["items"]), Text(words + " (table function_errors)" * bool(failed)))
    cost = found["costs"]
    if cost:
        rows.add_row(
            "energy", joules(cost["energy_j"]), f"at most, by the bytes sent; {joules(cost['energy_low_j'])} at least"
        )
        rows.add_row(
            "carbon", grams(cost["carbon_g"]), f"of CO2 equivalent at most; {grams(cost['carbon_low_g'])} at least"
        )
    speed = found["rate"]
    recent = f"pages/s; {rate(speed['recent'])} in the last {speed['recent_rounds']} rounds"
    rows.add_row("rate", rate(speed["mean"]), recent)
    began = f"since {moment(found['started_s'])}" if found["started_s"] is not None else ""
    rows.add_row("busy", span(found["busy_s"]), began)
    rows.add_row("committed", "", moment(found["last_commit_s"]))
    if found["waits_until_s"]:
        rows.add_row("now", "", waiting(found["waits_until_s"]))
    _mail(rows, found)
    return rows


def _mail(rows: Table, found: Mapping[str, Any]) -> None:
    """Adds messages of other agents and sites that could not be read."""
    messages = found["messages"]
    if messages["set_aside"]:
        where = Text(f"messages that nobody could read, in {found['directory']}/{ASIDE}", "yellow")
        rows.add_row("set aside", count(messages["set_aside"]), where)
    if messages["refused"]:
        why = Counter(str(each["why"]) for each in messages["refused"])
        words = [f"{printable(reason)} ({times})" for reason, times in why.most_common()]
        rows.add_row("refused", count(len(messages["refused"])), Text("messages: " + "\n".join(words), "yellow"))


def _shares(title: str, values: Mapping[str, float], trouble: Mapping[str, float]) -> Table:
    rows = grid()
    whole = sum(values.values())
    rows.add_row(Text(title, "bold"))
    for name, number in sorted(values.items(), key=lambda value: (-value[1], value[0])):
        style = "yellow" if name in trouble else ""
        rows.add_row(name.replace("_", " "), Text(count(number), style), share(number, whole))
    return rows


def _limits(links: Mapping[str, int]) -> Table:
    rows = grid()
    rows.add_row(Text("links not followed", "bold"), count(sum(links.values())), in_short(links))
    for setting, times in links.items():
        rows.add_row(setting, count(times), remedy(setting))
    return rows


def _hosts(hosts: list[dict[str, Any]]) -> Table:
    found = table("most visited hosts", "known", "visited", "ok", "errors", "bytes", "energy", "carbon")
    for host in hosts:
        figures = [count(host[name]) for name in ("pages", "visited", "ok", "errors")]
        costs = [size(host["wire_bytes"]), joules(host["energy_j"]), grams(host["carbon_g"])]
        found.add_row(Text(printable(host["host"])), *figures, *costs)
    return found


def _countries(countries: list[dict[str, Any]]) -> Table:
    found = table("where the hosts are", "requests", "bytes", "energy, least", "most", "carbon, least", "most")
    for row in countries:
        energy = [joules(row[name]) for name in ("energy_low_j", "energy_j")]
        carbon = [grams(row[name]) for name in ("carbon_low_g", "carbon_g")]
        found.add_row(row["country"] or "unknown", count(row["visits"]), size(row["wire_bytes"]), *energy, *carbon)
    return found


def _used(found: Mapping[str, Any]) -> Table:
    rows = grid()
    rows.add_row(Text("on disk", "bold"), size(found["disk_bytes"]))
    for kind, used in found["disk"].items():
        rows.add_row(kind, size(used), found["where"].get(kind) or found["where"]["tables"])
    return rows

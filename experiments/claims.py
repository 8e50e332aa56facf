"""This module makes the table of claims in docs/which-settings.md from what is on record: what the papers say, their
figures, ours, and whether they hold.
"""

import re
from collections.abc import Callable

from experiments import advice
from experiments.harness import Block, Row, columns, markdown
from experiments.records import Difference, difference, ends, find, paired, record, verdict

CLAIMS = columns(
    "claim | theirs: their figure | ours | held: on what no constant has seen | holds: holds? | where: measured on"
)
STRAIGHT = 0.99  # R² of what is called almost a line
TABLE = "Azurite and PostgreSQL"
SCALED = (("agents", "from 1 to 4 agents", "3.79"), ("sites", "from 2 to 3 sites", "1.42"))
Claim = tuple[str, str, str, str, str, str]


def claims() -> list[Row]:
    rows = [*_castillo(), *_simulator(), *_leads(), *_links(), *_others()]
    return [dict(zip(CLAIMS, row, strict=True)) for row in rows]


def _castillo() -> list[Claim]:
    speed = _said("lab/robots-speed-cnr-2000-nat", "the speed-up is sub-linear (moving on)")
    idle = _said("lab/batch-cnr-2000-nat", "with c = 1 most robots are idle most of the time")
    return [
        _of_pairs("Castillo: OPIC is better than breadth-first", "+.0284", paired("breadth-first", -1)),
        _of_pairs("Castillo: OPIC is better than backlink-count", "+.1757", paired("backlink-count", -1)),
        _of_pairs("ours: `opic-foreign` is better than OPIC", "-", paired("foreign-10")),
        _of_pairs("ours: the same, from home pages", "-", paired("foreign-10", 1, "home pages")),
        _larger_sites(),
        *(_under_conditions(starts) for starts in ("all home pages", "random pages")),
        (
            "Castillo: the speed-up is sub-linear",
            "54.6 of 64, 220 of 256",
            speed[0],
            "-",
            speed[1],
            "CNR, one set of starts",
        ),
        ("Castillo: with c = 1 most robots are idle", "in words", idle[0], "-", idle[1], "CNR, one batch"),
    ]


def _of_pairs(text: str, theirs: str, found: list[Difference]) -> Claim:
    given, held = ([each for each in found if each.is_held_out is kind] for kind in (False, True))
    where = f"{len(given)} and {len(held)} graphs, 30 sets of starts each"
    return text, theirs, _counted(given), _counted(held), verdict(found), where


def _counted(found: list[Difference]) -> str:
    return f"{verdict(found)}: {ends(found)}"


def _larger_sites() -> Claim:
    graphs = ("debian-docs", "cs-stanford", "cnr-2000-nat-first")
    text = "larger-sites-first is better than opic"
    rows = [find(f"lab/order-{graph}", "Statements of Castillo 2004", statement=text) for graph in graphs]
    ours = "; ".join(
        f"{graph} {row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
        for graph, row in zip(graphs, rows, strict=True)
    )
    holds = f"on {sum(row['here'] == 'holds' for row in rows)} of {len(rows)}"
    return (
        "Castillo: larger-sites-first is better than OPIC",
        "+.0040",
        ours,
        "-",
        holds,
        "30 sets of starts; on CNR the first tenth",
    )


def _under_conditions(starts: str) -> Claim:
    rows = record("lab/castillo")[""]
    chosen = [row for row in rows if row["order"] == "larger-sites-first" and row["starts"] == starts]
    found = [difference(row, f"{row['graph']}, {row['wait']}") for row in chosen]
    text = f"the same with more hosts than connections and w of 15 and 5 s, from {starts}"
    return text, "+.0040", "-", _counted(found), verdict(found), "two graphs, 30 sets each"


def _simulator() -> list[Claim]:
    """Returns how well the simulator of all these orders is like the crawler, and like Castillo's."""
    tables = {graph: record(f"lab/parity-{graph}")[""] for graph in ("cs-stanford", "debian-docs")}
    worst = {graph: max(rows, key=lambda row: row["largest_difference"]) for graph, rows in tables.items()}
    ours = "; ".join(
        f"{graph} {_passed(rows)} of {len(rows)} orders, at most {worst[graph]['largest_difference']:.2%} "
        f"({worst[graph]['strategy']})"
        for graph, rows in tables.items()
    )
    cases = f"in {sum(map(_passed, tables.values()))} of {sum(map(len, tables.values()))} cases"
    text = "ours: the simulator crawls as the crawler does, within 1 % of all PageRank"
    return [
        (text, "-", ours, "-", cases, "crawls with 64 connections, means of several"),
        _actual(),
    ]


def _actual() -> Claim:
    rows = [row for row in record("lab/realcrawl")[""] if row["simulated"] is not None]
    ahead = {row["strategy"]: row["average"] - row["simulated"] for row in rows}
    text = "Castillo: the actual crawl is slightly better than the simulated one"
    ours = ", ".join(f"{strategy} {by:+.4f}" for strategy, by in ahead.items())
    holds = f"in {sum(by > 0 for by in ahead.values())} of {len(ahead)} runs; one of each proves little"
    return text, "in a figure", ours, "-", holds, "a made web, one run of each order"


def _passed(rows: list[Row]) -> int:
    return sum(row["passed"] for row in rows)


def _leads() -> list[Claim]:
    slots, times = (
        {(row["index"], row["curve"]): row["here"] for row in record(f"green/green-{name}")["Shape"]}
        for name in ("figures", "times")
    )
    curves = [
        (
            f"LEADS D1.4: {curve} {words}",
            "in a figure",
            f"constant index: {slots['constant', curve]}; with K_j: {times['constant', curve]}",
            "-",
            f"{shape(slots['constant', curve])}; with K_j: {shape(times['constant', curve])}",
            "10 webs; 3 with K_j",
        )
        for curve, words in (("staleness", "rises, convex"), ("carbon", "falls linearly"))
    ]
    return [
        *curves,
        _cut("FENNEL is within 10 % of METIS", "FENNEL is within 10 % of METIS", "up to 29 % more in its own table"),
        _cut("LDG is hardly better than random", "LDG is hardly better than hashing", "74 to 75 % with k = 4"),
        *(_table_2(text) for text in ("FENNEL is within 10 % of METIS", "LDG is hardly better than hashing")),
    ]


def shape(here: str) -> str:
    """Returns in a word whether a curve has the shape that LEADS D1.4 gives it, by what the record says of it: a
    direction, and either second differences or how far from a straight line it is."""
    direction, _, rest = here.partition("; ")
    goes = direction in ("rises", "falls")
    if convex := re.match(r"(\d+) of (\d+) second differences", rest):
        bent = convex[1] == convex[2]
        return "holds" if goes and bent else "half: convex, but it falls first" if bent else "does not hold"
    straight = float(re.findall(r"straight line ([\d.]+)", rest)[0])
    return "holds" if goes and straight >= STRAIGHT else "does not hold"


def _cut(words: str, text: str, theirs: str) -> Claim:
    ours, holds = _said("placement/partition-cs-stanford", text, 1)
    return f"LEADS D1.4: {words}", theirs, ours, "-", holds, "cs-stanford, 10 runs"


def _table_2(text: str) -> Claim:
    rows = {row["kind"]: row for row in record("placement/leads-table")["Verdicts"] if row["statement"] == text}
    given, held = (
        f"holds in {row['holds']}, open in {row['is open']} of {row['cases']}"
        for row in (rows["given"], rows["held out"])
    )
    holds = f"in {sum(row['holds'] for row in rows.values())} of {sum(row['cases'] for row in rows.values())} cases"
    words = f"the same on graphs of its sizes, k = 2 to 64: {text}"
    return words, "k = 2 to 16", given, held, holds, "crawls of CNR and of *copied*, 5 runs"


def _links() -> list[Claim]:
    found = []
    for what, noun in (("bytes stored", "storage"), ("CPU", "computation time")):
        rows = [row for row in record("sites/link-database-made")["Against sums"] if row["what"] == what]
        times = ", ".join(
            f"{row['way'].removeprefix('L, ')} ({row['partitioner']}) {row['ratio']:.2f} "
            f"[{row['low']:.2f}, {row['high']:.2f}]"
            for row in rows
        )
        text = f"UniCrawl: a database of all links is expensive in {noun}"
        holds = f"at least twice as much in {sum(row['low'] >= 2 for row in rows)} of {len(rows)} cases"
        found.append((text, "in words", "-", f"times as much as sums: {times}", holds, "a made web, 5 crawls of each"))
    return found


def _others() -> list[Claim]:
    queue = _said("cloud/cloud-latency", "NATS: the queue stays fairly flat with more agents")
    table = _said("cloud/cloud-sql", "the table service is faster than PostgreSQL, with a primary key")
    return [
        *(_scaled(kind, words, theirs) for kind, words, theirs in SCALED),
        (
            "Bahrami et al.: the queue stays flat with more agents",
            "25.54 ms",
            queue[0],
            "-",
            queue[1],
            "NATS, medians of 3 runs",
        ),
        ("Bahrami et al.: a cloud table is faster than SQL", "in a figure", table[0], "-", table[1], TABLE),
        *(_batches(clients) for clients in (3, 5)),
    ]


def _scaled(kind: str, words: str, theirs: str) -> Claim:
    ours, holds = _said(f"agents/cpu-slices-{kind}", f"{words}: at least UniCrawl's {theirs} times as fast")
    return (
        f"UniCrawl: {words}",
        f"{theirs} times",
        ours,
        "-",
        holds,
        "a test web, equal slices of CPU, 2 crawls of each",
    )


def _batches(clients: int) -> Claim:
    drawn, real = (
        find(name, **part, mode="round-robin-reversed", clients=clients)
        for name, part in (("scan/jobs", {"part": "300 drawn"}), ("scan/jobs-real", {}))
    )
    theirs, gains = drawn["paper_gain"], (real["gain"], drawn["gain"])
    by_less = "; by less on drawn lists" if gains[1] < theirs else ""
    return (
        f"Pechnikov et al.: batches by times beat the worse round robin, {clients} clients",
        f"{theirs:.2f} times",
        f"{gains[0]:.2f} with real clients",
        f"{gains[1]:.2f} on drawn lists",
        f"holds{by_less}" if min(gains) > 1 else "does not hold",
        "one real list, chosen for it; 300 drawn lists",
    )


def _said(name: str, text: str, number: int = 0) -> tuple[str, str]:
    """Returns the figures of a statement on record, and whether it holds."""
    rows: list[Row] = next(rows for title, rows in record(name).items() if title.startswith("Statements"))
    row = [row for row in rows if row["statement"] == text][number]
    return row["figures"], row["here"]


TABLES: dict[str, Callable[[], Block]] = {
    "advice": lambda: Block("", advice.advice(), advice.ADVICE),
    "kinds": lambda: Block("", advice.kinds(), advice.KINDS_SHOWN),
    "claims": lambda: Block("", claims(), CLAIMS),
}


def filled(text: str) -> str:
    """Returns the page with all tables as the record has them now: <!-- NAME --> ... <!-- end NAME -->."""
    for name, block in TABLES.items():
        head, _, rest = text.partition(f"<!-- {name} -->\n")
        _, _, tail = rest.partition(f"<!-- end {name} -->")
        text = f"{head}<!-- {name} -->\n{markdown(block())}<!-- end {name} -->{tail}"
    return text

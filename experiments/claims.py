"""This module makes the two tables of docs/which-settings.md from what is on record: advice with the size of its
effect, and claims of the papers with their figures, ours, and whether they hold.
"""

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from experiments.harness import Block, Row, markdown

DOCS = Path(__file__).resolve().parents[1] / "docs"
ADVICE = {"want": "you want", "set": "set", "effect": "effect", "where": "measured on"}
# What the tables of green.md say, in a word.
STALENESS, CARBON = "in slots; not with K_j, where it falls first", "holds"
CLAIMS = {"claim": "claim", "theirs": "their figure", "ours": "ours", "holds": "holds?", "where": "measured on"}


@cache
def record(name: str) -> dict[str, Any]:
    """Returns the tables of docs/NAME.json by title; the first has the title "" too."""
    facts = json.loads((DOCS / f"{name}.json").read_text())
    tables = {title: block["rows"] for title, block in facts["tables"].items()}
    return {"": tables[facts["title"]], **tables}


def find(name: str, title: str = "", **wanted: object) -> Row:
    """Returns the one row that has these values."""
    (row,) = (row for row in record(name)[title] if all(row.get(key) == value for key, value in wanted.items()))
    found: Row = row
    return found


def paired(order: str, sign: int = 1, starts: str = "random pages") -> list[tuple[str, float, float, float]]:
    """Returns by graph the mean difference to OPIC, and its interval; turned around if the sign is -1."""
    rows = [row for row in record("lab/paired")[""] if row["order"] == order and row["starts"] == starts]
    return [
        (f"{row['graph']}{'*' * (row['kind'] == 'held out')}", sign * row["difference"], *_turned(row, sign))
        for row in rows
    ]


def _turned(row: Row, sign: int) -> tuple[float, float]:
    low, high = sorted((sign * row["low"], sign * row["high"]))
    return low, high


def verdict(found: Iterable[tuple[str, float, float, float]]) -> str:
    """Returns on how many graphs the interval is above zero, below it, or has it."""
    found = list(found)
    above, below = sum(low > 0 for _, _, low, _ in found), sum(high < 0 for _, _, _, high in found)
    return f"on {above} of {len(found)}; the opposite on {below}"


def spread(found: Iterable[tuple[str, float, float, float]]) -> str:
    return ", ".join(f"{graph} {mean:+.4f} [{low:+.4f}, {high:+.4f}]" for graph, mean, low, high in found)


def _ends(found: list[tuple[str, float, float, float]]) -> str:
    """Returns the least and the largest mean, with their graphs."""
    low, high = min(found, key=lambda each: each[1]), max(found, key=lambda each: each[1])
    return f"{low[1]:+.4f} ({low[0]}) to {high[1]:+.4f} ({high[0]}) of the average cumulative PageRank"


def advice() -> list[Row]:
    rows: list[tuple[str, str, str, str]] = [*_of_orders(), *_of_speed(), *_of_visits(), *_of_sites()]
    return [dict(zip(ADVICE, row, strict=True)) for row in rows]


def _of_orders() -> list[tuple[str, str, str, str]]:
    few = {row["strategy"]: row["average"] for row in record("lab/robots-cnr-2000-nat")[""] if row["robots"] == 1}
    many = {row["strategy"]: row["average"] for row in record("lab/robots-cnr-2000-nat")[""] if row["robots"] == 256}
    apart = [abs(each["larger-sites-first"] - each["breadth-first"]) for each in (few, many)]
    return [
        (
            "important pages first",
            '`crawl.order = "opic"`',
            f"against breadth-first {_ends(paired('breadth-first', -1))}",
            "nine graphs, 30 sets of starts each",
        ),
        (
            "the same, where many hosts link to each other",
            "`opic-foreign`, if `gossamer simulate` says so on a crawl of your own",
            f"against OPIC {_ends(paired('foreign-10'))}",
            "the same",
        ),
        (
            "the order to matter",
            "few connections",
            f"two orders differ by {apart[0]:.4f} with one connection, by {apart[1]:.4f} with 256",
            "CNR, 20,347 hosts, 3 sets of starts",
        ),
    ]


def _of_speed() -> list[tuple[str, str, str, str]]:
    robots = {row["robots"]: row["hours"] for row in record("lab/robots-cnr-2000-nat")[""]}
    batch = {(row["link"], row["burst"]): row["hours"] for row in record("lab/batch-cnr-2000-nat")[""]}
    saved = {link: 1 - batch[link, 100] / batch[link, 1] for link in ("large", "small")}
    agents = find("agents/agents-scaling", agents=4)
    firewall = find("agents/agents-modes", mode="firewall", agents=8)
    return [
        (
            "to be done sooner",
            "as many connections as hosts can be asked, no more",
            f"64 and 256 connections take {robots[64]:.1f} and {robots[256]:.1f} hours, the time of the largest host",
            "CNR, 20,347 hosts, 15 s between pages",
        ),
        (
            "to be done sooner, where hosts allow it",
            "`polite.burst = 100`",
            f"{saved['large']:.0%} less time on a large link, {saved['small']:.0%} on a small one",
            "one batch of CNR",
        ),
        (
            "more pages a second",
            "`--agents 4`",
            f"{agents['factor']:.2f} times as many, where latency is the limit",
            "a test web, one run",
        ),
        (
            "all pages, with several agents",
            '`site.mode = "exchange"` (the default)',
            f"all of them; `firewall`, which sends nothing, finds {firewall['coverage']:.0%} with eight agents",
            "a test web, one run",
        ),
    ]


def _of_visits() -> list[tuple[str, str, str, str]]:
    policies = {(row["policy"], row["budget"]): row["of_optimum"] for row in record("refresh/refresh-policies")[""]}
    gains = [f"{policies['index (learned)', at] / policies['fixed', at] - 1:.0%}" for at in (0.02, 0.1, 1.0)]
    fixed, learned = (
        find("refresh/refresh-restless", budget=0.5, policy=name)["of_optimum"] for name in ("fixed", "index (learned)")
    )
    cut = find("green/green-saved", "What a cut costs", signal="mix", saved=0.4)
    return [
        (
            "to stay current",
            '`refresh.policy = "index"`, `refresh.visits_per_day`',
            f"{', '.join(gains)} more freshness than fixed intervals, at 0.02, 0.1 and 1 visits per page and day",
            "simulated, 1,000 pages, 3 webs; rates are learned",
        ),
        (
            "the same, where pages change faster than you can visit",
            "`index` too",
            f"{learned:.2f} of the optimum instead of {fixed:.2f}",
            "simulated, 200 pages, 10 webs",
        ),
        (
            "important pages current",
            '`refresh.weight = "importance"` (the default)',
            _weights(),
            "crawls of graphs, 10 of each",
        ),
        (
            "less carbon",
            "`green-index`, with a budget of 60 % of what you spend",
            f"40 % less carbon for {cut['lost']:.1%} of the freshness",
            "simulated, 3,000 pages in six countries",
        ),
    ]


def _weights() -> str:
    rows = [row for row in record("refresh/refresh-weights")[""] if row["visits"] == 5]
    kinds = list(dict.fromkeys(row["weight"] for row in rows))
    found = {kind: [row["of_optimum"] for row in rows if row["weight"] == kind] for kind in kinds}
    words = ", ".join(f"{kind} {min(values):.3f} to {max(values):.3f}" for kind, values in found.items())
    return f"of the freshness that knowing PageRank would bring, after five visits: {words}"


def _of_sites() -> list[tuple[str, str, str, str]]:
    found = record("placement/partition-discovery-cnr-2000-nat")[""]
    crossing = {row["method"]: row["crossing"] for row in found if row["level"] == "host" and row["k"] == 4}
    lists = [row for row in record("scan/jobs")[""] if row["part"].endswith("drawn") and row["clients"] == 5]
    above = {row["mode"]: f"{row['ratio'] - 1:.1%}" for row in lists}
    return [
        (
            "several sites",
            '`partitioner = "fennel"`, `rebalance_hours`',
            f"{crossing['fennel']:.2f} crossing links per page instead of {crossing['hash']:.2f} with the ring, "
            f"{crossing['fennel, 0.2 moved']:.2f} with rebalances whenever the crawl has doubled",
            "CNR at discovery, 4 sites, 5 runs",
        ),
        (
            "a list of websites scanned in time",
            "`gossamer scan` as it is (`dynamic`)",
            f"{above['dynamic']} above the bound; planned beforehand (`batch`) {above['batch']}",
            "300 drawn lists, five clients",
        ),
    ]


# --- claims


def claims() -> list[Row]:
    rows = [*_castillo(), *_leads(), *_links(), *_others()]
    return [dict(zip(CLAIMS, row, strict=True)) for row in rows]


def _castillo() -> list[tuple[str, str, str, str, str]]:
    better, back = paired("breadth-first", -1), paired("backlink-count", -1)
    foreign, homes = paired("foreign-10"), paired("foreign-10", 1, "home pages")
    nine = "nine graphs (* held out), 30 sets of starts, 95 % intervals"
    larger = [_of_statement(graph) for graph in ("debian-docs", "cs-stanford", "cnr-2000-nat")]
    speed = _said("lab/robots-speed-cnr-2000-nat", "the speed-up is sub-linear (moving on)")
    idle = _said("lab/batch-cnr-2000-nat", "with c = 1 most robots are idle most of the time")
    return [
        ("Castillo: OPIC is better than breadth-first", "+.0284", spread(better), verdict(better), nine),
        ("Castillo: OPIC is better than backlink-count", "+.1757", spread(back), verdict(back), nine),
        ("ours: `opic-foreign` is better than OPIC", "-", spread(foreign), verdict(foreign), nine),
        ("ours: the same, from home pages", "-", spread(homes), verdict(homes), nine),
        (
            "Castillo: larger-sites-first is better than OPIC",
            "+.0040",
            "; ".join(larger),
            "on none of 3",
            "5 sets of starts",
        ),
        _under_conditions(),
        ("Castillo: the speed-up is sub-linear", "54.6 of 64, 220 of 256", *speed, "CNR, one run"),
        ("Castillo: with c = 1 most robots are idle", "in words", *idle, "CNR, one batch"),
    ]


def _under_conditions() -> tuple[str, str, str, str, str]:
    rows = [row for row in record("lab/castillo")[""] if row["order"] == "larger-sites-first"]
    found = [
        (f"{row['graph']}*, {row['starts']}, {row['wait']}", row["difference"], row["low"], row["high"]) for row in rows
    ]
    return (
        "the same, with all home pages known, more hosts than connections, and w of 15 and 5 s",
        "+.0040",
        spread(found),
        verdict(found),
        "two graphs (* held out), from all home pages and from random ones, 30 sets, 95 % intervals",
    )


def _leads() -> list[tuple[str, str, str, str, str]]:
    slots, times = (
        {(row["index"], row["curve"]): row["here"] for row in record(f"green/green-{name}")["Shape"]}
        for name in ("figures", "times")
    )
    curves = [
        (
            f"LEADS D1.4: {curve} {words}",
            "in a figure",
            f"constant index: {slots['constant', curve]}; with K_j: {times['constant', curve]}",
            holds,
            "10 webs; 3 with K_j",
        )
        for curve, words, holds in (("staleness", "rises, convex", STALENESS), ("carbon", "falls linearly", CARBON))
    ]
    place = "placement/partition-cs-stanford"
    return [
        *curves,
        (
            "LEADS D1.4: FENNEL is within 10 % of METIS",
            "up to 29 % more in its own table",
            *_said(place, "FENNEL is within 10 % of METIS", 1),
            "cs-stanford, 10 runs",
        ),
        (
            "LEADS D1.4: LDG is hardly better than random",
            "74 to 75 % with k = 4",
            *_said(place, "LDG is hardly better than hashing", 1),
            "cs-stanford, 10 runs",
        ),
        *(_table_2(text) for text in ("FENNEL is within 10 % of METIS", "LDG is hardly better than hashing")),
    ]


def _table_2(text: str) -> tuple[str, str, str, str, str]:
    found = [row for row in record("placement/leads-table")["Verdicts"] if row["statement"] == text]
    words = "; ".join(
        f"{row['kind']}: holds in {row['holds']}, open in {row['is open']} of {row['cases']}" for row in found
    )
    holds = sum(row["holds"] for row in found)
    return (
        f"the same on graphs of its sizes, k = 2 to 64: {text}",
        "k = 2 to 16",
        words,
        f"in {holds} of {sum(row['cases'] for row in found)} cases",
        "crawls of CNR (given) and of *copied* (held out), 5 runs",
    )


def _links() -> list[tuple[str, str, str, str, str]]:
    found = []
    for what, noun in (("bytes stored", "storage"), ("CPU", "computation time")):
        rows = [row for row in record("sites/link-database-made")["Against sums"] if row["what"] == what]
        times = [
            f"{row['way'].removeprefix('L, ')} ({row['partitioner']}) {row['ratio']:.2f} "
            f"[{row['low']:.2f}, {row['high']:.2f}]"
            for row in rows
        ]
        many = sum(row["low"] >= 2 for row in rows)
        found.append(
            (
                f"UniCrawl: a database of all links is expensive in {noun}",
                "in words",
                f"times as much as sums: {', '.join(times)}",
                f"at least twice as much in {many} of {len(rows)} cases",
                "a made web, 5 crawls of each",
            )
        )
    return found


def _others() -> list[tuple[str, str, str, str, str]]:
    queue = _said("cloud/cloud-latency", "NATS: the queue stays fairly flat with more agents")
    table = _said("cloud/cloud-sql", "the table service is faster than PostgreSQL, with a primary key")
    scale = find("agents/agents-scaling", agents=4)["factor"]
    kinds = {"on drawn lists": "scan/jobs", "with real clients": "scan/jobs-real"}
    gains = {
        (words, row["clients"]): row
        for words, name in kinds.items()
        for row in record(name)[""]
        if row["mode"] == "round-robin-reversed" and row.get("part", "drawn").endswith("drawn")
    }
    return [
        (
            "UniCrawl: four nodes are 3.79 times as fast",
            "3.79, 8 cores a node",
            f"{scale:.2f}, two cores, bound by latency",
            "not comparable",
            "a test web, one run",
        ),
        ("Bahrami et al.: the queue stays flat with more agents", "25.54 ms", *queue, "NATS, one run"),
        ("Bahrami et al.: a cloud table is faster than SQL", "in a figure", *table, "Azurite and PostgreSQL"),
        *(
            (
                f"Pechnikov et al.: batches by times beat the worse round robin, {clients} clients",
                f"{gains['on drawn lists', clients]['paper_gain']:.2f} times",
                ", ".join(f"{gains[words, clients]['gain']:.2f} {words}" for words in kinds),
                "holds; by less on drawn lists",
                "300 drawn lists; one real list, chosen for it",
            )
            for clients in (3, 5)
        ),
    ]


def _said(name: str, text: str, number: int = 0) -> tuple[str, str]:
    """Returns the figures of a statement on record, and whether it holds."""
    rows: list[Row] = next(rows for title, rows in record(name).items() if title.startswith("Statements"))
    row = [row for row in rows if row["statement"] == text][number]
    return row["figures"], row["here"]


def _of_statement(graph: str) -> str:
    rows = record(f"lab/order-{graph}")["Statements of Castillo 2004"]
    row = next(row for row in rows if row["statement"] == "larger-sites-first is better than opic")
    return f"{graph} {row['difference']:+.4f} ({row['sets']})"


TABLES: dict[str, Callable[[], Block]] = {
    "advice": lambda: Block("", advice(), ADVICE),
    "claims": lambda: Block("", claims(), CLAIMS),
}


def filled(text: str) -> str:
    """Returns the page with both tables as the record has them now: <!-- NAME --> ... <!-- end NAME -->."""
    for name, block in TABLES.items():
        head, _, rest = text.partition(f"<!-- {name} -->\n")
        _, _, tail = rest.partition(f"<!-- end {name} -->")
        text = f"{head}<!-- {name} -->\n{markdown(block())}<!-- end {name} -->{tail}"
    return text

"""This module makes the tables of advice in docs/which-settings.md from what is on record: what to set with the size of
its effect, and which order on which kind of web.
"""

from experiments.harness import Row, columns, reach
from experiments.records import Difference, find, paired, record

ADVICE = {"want": "you want", "set": "set", "effect": "effect", "where": "measured on"}
KINDS_SHOWN = columns(
    "kind: kind of web | foreign: links between hosts | best: best of five orders | gain: against OPIC | "
    "opic_foreign: `opic-foreign` against OPIC"
)
KINDS = {
    "cs-stanford": "a university's site, 2001",
    "cnr-2000-nat": "a research council's, 2000; its hosts are cuts",
    "ukwa-hosts-1996-domains": "hosts of a country, 1996",
    "debian-docs": "manuals that link to each other densely",
    "racket-doc": "manuals of a language",
    "erlang-doc": "manuals of another language",
    "journals": "many small journals, made",
    "menus": "hosts with menus, made",
    "copied": "pages that copy links, made",
}
ORDERS = {
    "foreign-10": "opic-foreign",
    "foreign-1000": "trans-host",
    "backlink-count": "backlink-count",
    "breadth-first": "breadth-first",
}


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
            f"against breadth-first {_means(paired('breadth-first', -1))}",
            "nine graphs, 30 sets of starts each",
        ),
        (
            "the same, where a crawl has many hosts",
            "`opic-foreign`",
            f"against OPIC {_means(paired('foreign-10'))}",
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
    agents, cpu = find("agents/agents-scaling", agents=4), find("agents/cpu-slices-agents", nodes=4)
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
            f"{cpu['factor']:.2f} [{cpu['low']:.2f}, {cpu['high']:.2f}] times as many with equal slices of CPU, "
            f"{agents['factor']:.2f} (one run) where latency is the limit",
            "a test web",
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
    restless = [find("refresh/refresh-restless", budget=0.5, policy=name) for name in ("fixed", "index (learned)")]
    fixed, learned = (f"{row['of_optimum']:.2f} ± {reach(row['spread'], 10):.2f}" for row in restless)
    cut = find("green/green-saved", "What a cut costs", signal="mix", saved=0.4)
    real = find("refresh/refresh-real", policy="index")
    return [
        (
            "to stay current",
            '`refresh.policy = "index"`, `refresh.visits_per_day`',
            f"{', '.join(gains)} more freshness than fixed intervals, at 0.02, 0.1 and 1 visits per page and day",
            "simulated, 1,000 pages, 3 webs; rates are learned",
        ),
        (
            "the same, in real crawls that know nothing at first",
            "`index` too",
            f"{real['ratio']:.3f} [{real['low']:.3f}, {real['high']:.3f}] times what fixed intervals keep fresh",
            "a kind of web where most pages change often, 5 webs, 25 visits a page",
        ),
        (
            "the same, where pages change faster than you can visit",
            "`index` too",
            f"{learned} of the optimum instead of {fixed}",
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
    crossing = {
        row["method"]: f"{row['crossing']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
        for row in found
        if row["level"] == "host" and row["k"] == 4
    }
    lists = [row for row in record("scan/jobs")[""] if row["part"].endswith("drawn") and row["clients"] == 5]
    above = {row["mode"]: f"{row['ratio'] - 1:.1%} ± {reach(row['spread'], 300):.1%}" for row in lists}
    return [
        (
            "several sites",
            '`partitioner = "fennel"`, `rebalance_hours`',
            f"{crossing['fennel']} crossing links per page instead of {crossing['hash']} with the ring, "
            f"{crossing['fennel, 0.2 moved']} with rebalances whenever the crawl has doubled",
            "CNR at discovery, 4 sites, 5 runs",
        ),
        (
            "a list of websites scanned in time",
            "`gossamer scan` as it is (`dynamic`)",
            f"{above['dynamic']} above the bound; planned beforehand (`batch`) {above['batch']}",
            "300 drawn lists, five clients",
        ),
    ]


def _means(found: list[Difference]) -> str:
    """Returns the least and the largest mean, with their graphs."""
    low, high = min(found, key=lambda each: each.mean), max(found, key=lambda each: each.mean)
    return f"{low.mean:+.4f} ({low.graph}) to {high.mean:+.4f} ({high.graph}) of the average cumulative PageRank"


def kinds() -> list[Row]:
    """Returns for each graph which order is best on it, OPIC among them: where none is better, it is the best."""
    by_order = {name: {each.graph: each for each in paired(key)} for key, name in ORDERS.items()}
    foreign = {row["graph"]: row["foreign"] for row in record("lab/paired")[""]}
    rows: list[Row] = []
    for graph, kind in KINDS.items():
        best = max(by_order, key=lambda name: by_order[name][graph].mean)
        found = by_order[best][graph]
        rows.append(
            {
                "kind": f"{kind}{' *' * found.is_held_out}",
                "foreign": f"{foreign[graph]:.0%}",
                "best": f"`{best if found.mean > 0 else 'opic'}`",
                "gain": str(found) if found.mean > 0 else "-",
                "opic_foreign": str(by_order["opic-foreign"][graph]),
            }
        )
    return rows

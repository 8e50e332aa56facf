"""This module shows a federation to a person: the state of each site, and what crossed between them."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gossamer.watch import panel
from gossamer.watch.figures import UNKNOWN, count, rate, size, waiting

Row = Mapping[str, Any]


def render(rows: Sequence[Row]) -> RenderableType:
    """Returns the sites, and under them the traffic between them."""
    table = panel.table("site", "state", "agents", "visits", "pages/s", "frontier", "known", texts=("state",))
    for row in rows:
        figures = [count(row[name]) for name in ("frontier", "known")]
        state = Text(row["state"], {"crawling": "green", "not reached": "yellow"}.get(row["state"], ""))
        table.add_row(
            row["site"], state, count(row["agents"]), count(row["visits"]), rate(row["pages_per_s"]), *figures
        )
    visits = sum(row["visits"] or 0 for row in rows)
    waits = [Text(f"{row['site']}: {waiting(row['waits_until_s'])}") for row in rows if row["waits_until_s"]]
    crossed = crossings({row["site"]: row["crossed"] for row in rows}, visits)
    return Group(table, *waits, *_behind(rows), Text(), crossed)


def _behind(rows: Sequence[Row]) -> list[Text]:
    """Returns which sites do not follow the file, and why."""
    reasons: dict[tuple[int, str], list[str]] = {}
    for row in rows:
        if row["behind"]:
            reasons.setdefault((row["version"], row["behind"]), []).append(row["site"])
    return [
        Text(f"{', '.join(sites)}: still version {version} of the list of sites: {why}", "yellow")
        for (version, why), sites in reasons.items()
    ]


def crossings(crossed: Mapping[str, Mapping[str, Mapping[str, int]]], visits: int) -> RenderableType:
    """Returns what each site sent to each other one."""
    table = panel.table(
        "from", "to", "links", "new URLs", "known pages", "bytes", "bytes/record", "known there", texts=("to",)
    )
    total: dict[str, int] = {}
    for site, to in crossed.items():
        for other, sent in to.items():
            table.add_row(site, other, *_figures(sent))
            for name, number in sent.items():
                total[name] = total.get(name, 0) + number
    if not total:
        return Text("nothing crossed between sites yet", "dim")
    table.add_row("all", "", *_figures(total), style="bold")
    per_page = f"{total.get('bytes', 0) / visits:.1f} bytes crossed per page visited" if visits else ""
    return Group(table, Text(per_page, "dim"))


def moves(plan: Row, given: Mapping[str, int], file: object) -> RenderableType:
    """Returns what a rebalance would do, and what came of it."""
    table = panel.table("host", "from", "to", "pages", "links saved", texts=("from", "to"))
    for row in plan["moves"]:
        table.add_row(row["host"], row["from"], row["to"], count(row["pages"]), count(row["links_saved"]))
    large = [
        f"{each['site']} has {count(each['excess'])} pages more than its share and a tenth"
        + (f": {each['host']} alone has {count(each['pages'])}, and a host is never split" if is_why else "")
        for each in plan["too_large"]
        for is_why in [each["pages"] >= each["excess"]]
    ]
    if not plan["moves"]:
        none = "no host is worth moving: its pages would cost more to send than its links would save"
        return Text("\n".join([none, *large]))
    words = [
        f"{100 * plan['crossing_before']:.1f} % of the links between hosts cross between sites, "
        f"{100 * plan['crossing_after']:.1f} % would",
        f"the fullest site has {plan['fullest_before']:.2f} of its share, and would have {plan['fullest_after']:.2f}",
        f"the moves send about {size(plan['moved_bytes'])}, once; as many links again would send "
        f"{size(plan['saved_bytes'])} less",
        *large,
    ]
    if given:
        words.append("asked for: " + ", ".join(f"{site} gives {number}" for site, number in given.items()))
        words.append("sites that run do it now, others when they are started again")
    else:
        words.append(f"`gossamer federation rebalance {file} --apply` does it")
    return Group(table, Text(), Text("\n".join(words), "dim"))


def _figures(sent: Mapping[str, int]) -> list[str]:
    records = sent.get("urls", 0) + sent.get("keys", 0)
    each = f"{sent.get('bytes', 0) / records:.1f}" if records else UNKNOWN
    hits = f"{100 * sent.get('cache_hits', 0) / sent['links']:.0f} %" if sent.get("links") else UNKNOWN
    numbers = [count(sent.get(name, 0)) for name in ("links", "urls", "keys")]
    return [*numbers, size(sent.get("bytes", 0)), each, hits]

"""This module writes a quality report as one HTML page that needs nothing else: no script, no request, no font.

Text from the web is never markup: everything goes through `escape`.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from math import ceil
from typing import Any

from gossamer.version import __version__
from gossamer.watch.advice import advice
from gossamer.watch.figures import UNKNOWN, count, grams, joules, moment, printable, rate, share, size, span
from gossamer.watch.quality import Answer

_TEXT = 160  # characters of an address or a reason
_WIDE, _HIGH = 960, 220  # of a chart, in its own units
_LEFT, _BELOW = 56, 26  # room for the numbers
_CHARACTER = 7.0  # the width of one

_WRITTEN: dict[str, Callable[[Any], str]] = {
    "count": count,
    "size": size,
    "joules": joules,
    "grams": grams,
    "percent": lambda value: UNKNOWN if value is None else f"{value:.0f} %",
    "seconds": lambda value: UNKNOWN if value is None else f"{value:.3f}",
}
_STYLE = """
main { padding-bottom: 1rem; }
svg.plot { display: block; width: 100%; height: auto; }
svg.plot text { font: 12px var(--font); fill: var(--muted); }
svg.plot .axis { stroke: var(--line); }
svg.plot .line { fill: none; stroke: var(--pages); stroke-width: 2; stroke-linejoin: round; }
svg.plot .area { fill: var(--pages); opacity: 0.12; }
svg.plot .all { fill: var(--pages); opacity: 0.35; }
svg.plot .part { fill: var(--pages); }
.half { grid-column: span 6; }
@media (max-width: 68rem) { .half { grid-column: 1 / -1; } }
@media (max-width: 40rem) { .wide svg.plot text { font-size: 24px; } }
@media print { .card { break-inside: avoid; } body { background: none; } }
"""


_NOTHING = '<section class="card wide"><p class="empty">This crawl has committed nothing yet.</p></section>'


def page(name: str, totals: Mapping[str, Any], answers: Sequence[Answer], now_s: float | None = None) -> str:
    """Returns the page of the crawl with this name."""
    style = files("gossamer.watch").joinpath("page/style.css").read_text(encoding="utf-8")
    cards = "\n".join(map(_card, answers)) if totals["known"] else _NOTHING
    made = moment(time.time() if now_s is None else now_s)
    title = _text(f"Crawl report: {name}")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}{_STYLE}</style>
</head>
<body>
<header><span class="brand">Gossamer</span><h1>{title}</h1></header>
<main>
{_totals(totals)}
{cards}
</main>
<footer class="quiet">Made by Gossamer {__version__} on {made}. Ask more with <code>gossamer query</code>.</footer>
</body>
</html>
"""


def _totals(found: Mapping[str, Any]) -> str:
    lasted_s = found["last_s"] - found["first_s"] if found["first_s"] is not None else None
    tiles = [
        ("pages known", count(found["known"]), f"on {count(found['hosts'])} hosts"),
        ("visited", count(found["visited"]), share(found["visited"], found["known"])),
        ("with content", count(found["fetched"]), f"{count(found['gone'])} are gone"),
        ("visits", count(found["visits"]), f"{count(found['trouble'])} with trouble"),
        ("fetched", size(found["wire_bytes"]), _distinct(found)),
        ("links", count(found["links"]), "distinct, per page and version"),
        ("took", span(lasted_s), f"from {moment(found['first_s'])}"),
        ("energy", joules(found["energy_j"]), f"{grams(found['carbon_g'])} of CO₂e, estimated"),
    ]
    rows = "".join(f"<div><dt>{a}</dt><dd><strong>{b}</strong><small>{c}</small></dd></div>" for a, b, c in tiles)
    return f'<section class="figures" aria-label="Totals"><dl>{rows}</dl></section>'


def _distinct(found: Mapping[str, Any]) -> str:
    return f"{share(found['contents'], found['contents_fetched'])} of contents are distinct"


def _card(answer: Answer) -> str:
    part = answer.part
    body = _SHAPES[part.shape](answer) if answer.rows else f'<p class="empty">{escape(part.empty)}</p>'
    note = f'<p class="quiet">{_prose(part.note)}</p>' if part.note else ""
    width = "wide" if part.is_wide else "half"
    return f'<section class="card {width}"><div class="head"><h2>{escape(part.title)}</h2>{note}</div>{body}</section>'


def _text(value: Any) -> str:
    text = printable("" if value is None else str(value))
    return escape(text if len(text) <= _TEXT else text[: _TEXT - 1] + "…")


def _prose(text: str) -> str:
    """Words of our own: what is between backquotes is code."""
    return re.sub("`(.*?)`", r"<code>\1</code>", escape(text))


def _many(number: int, word: str) -> str:
    return f"{count(number)} {word}{'' if number == 1 else 's'}"


def _bars(answer: Answer) -> str:
    whole = sum(row[1] for row in answer.rows)
    most = max(row[1] for row in answer.rows)
    rows = (
        f'<li class="good"><span class="cut">{_text(name)}</span><span class="number">{count(number)}</span>'
        f'<span class="number quiet">{share(number, whole)}</span><span class="track">'
        f'<span class="bar" style="width:{100 * number / most:.1f}%"></span></span></li>'
        for name, number, *_ in answer.rows
    )
    return f'<ul class="bars">{"".join(rows)}</ul>'


def _table(answer: Answer) -> str:
    kinds = answer.part.columns
    numbers = [' class="number"' if kind in _WRITTEN else ' class="text" dir=auto' for kind in kinds]
    names = (name.replace("_", " ") for name in answer.names)
    head = "".join(f"<th{of} scope=col>{escape(name)}</th>" for name, of in zip(names, numbers, strict=True))
    rows = (
        "".join(
            f"<td{of}>{_WRITTEN.get(kind, _text)(value)}</td>"
            for value, kind, of in zip(row, kinds, numbers, strict=True)
        )
        for row in answer.rows
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _trouble(answer: Answer) -> str:
    rows = (
        f'<li><p><strong>{_text(outcome.replace("_", " "))}</strong><span class="number">{_many(visits, "visit")}, '
        f'{_many(hosts, "host")}</span></p><p class="quiet">{_text(reason)}</p><p>{_prose(advice(outcome))}</p>'
        f'<p class="quiet cut">{_text(example)}</p></li>'
        for outcome, visits, hosts, reason, example in answer.rows
    )
    return f'<ul class="trouble">{"".join(rows)}</ul>'


def _columns(answer: Answer) -> str:
    """Draws one column per row; a third value is the part of it that is darker."""
    wide, high = _WIDE // 2, _HIGH
    top = max(row[1] for row in answer.rows)
    step = (wide - _LEFT) / len(answer.rows)
    every = ceil((1 + max(len(str(row[0])) for row in answer.rows)) * _CHARACTER / step)  # no label runs into another
    marks = []
    for place, row in enumerate(answer.rows):
        x, width = _LEFT + place * step + step * 0.12, step * 0.76
        for number, of in ((row[1], "all"), (row[2] if len(row) > 2 else row[1], "part")):
            tall = (high - _BELOW - 16) * number / top
            marks.append(_rectangle(x, high - _BELOW - tall, width, tall, of, f"{row[0]}: {count(number)}"))
        if place % every == 0:
            marks.append(_label(x + width / 2, high - 8, str(row[0]), "middle"))
    return _plot(wide, high, top, "".join(marks), answer.part.title)


def _curve(answer: Answer) -> str:
    times, values = [row[0] for row in answer.rows], [row[1] for row in answer.rows]
    top, first, lasted = max(values) or 1, times[0], max(times[-1] - times[0], 1)
    points = [
        (_LEFT + (_WIDE - _LEFT - 8) * (at - first) / lasted, (_HIGH - _BELOW) - (_HIGH - _BELOW - 16) * value / top)
        for at, value in zip(times, values, strict=True)
    ]
    way = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    floor = _HIGH - _BELOW
    area = f'<path class="area" d="M{points[0][0]:.1f} {floor} L{way} L{points[-1][0]:.1f} {floor} Z"/>'
    ends = _label(_LEFT, _HIGH - 8, moment(first), "start") + _label(_WIDE - 8, _HIGH - 8, moment(times[-1]), "end")
    return _plot(_WIDE, _HIGH, top, f'{area}<path class="line" d="M{way}"/>{ends}', answer.part.title)


def _plot(wide: int, high: int, top: float, marks: str, title: str) -> str:
    floor = high - _BELOW
    axes = "".join(
        f'<line class="axis" x1="{_LEFT}" x2="{wide}" y1="{y}" y2="{y}"/>'
        f"{_label(_LEFT - 6, y + 4, rate(value) if top < 10 else count(value), 'end')}"
        for y, value in ((floor, 0), (16, top))
    )
    return f'<svg class="plot" viewBox="0 0 {wide} {high}" role="img" aria-label="{escape(title)}">{axes}{marks}</svg>'


def _rectangle(x: float, y: float, width: float, height: float, of: str, words: str) -> str:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{of}" {box} rx="2"><title>{_text(words)}</title></rect>'


def _label(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(words)}</text>'


_SHAPES: dict[str, Callable[[Answer], str]] = {
    "bars": _bars,
    "columns": _columns,
    "curve": _curve,
    "table": _table,
    "trouble": _trouble,
}

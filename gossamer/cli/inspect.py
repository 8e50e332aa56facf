"""`gossamer inspect` shows how the crawler sees one URL."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.cli import options
from gossamer.cli.inspection import inspect as inspected
from gossamer.cli.output import hint, show
from gossamer.watch.figures import count, printable, size

_LINKS = 20  # shown to a person; a program gets all
_REFUSED = ("denied", "refused_use")  # by the publisher
_GOOD = ("ok", "unchanged", "moved")


def inspect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL")
    options.add_json(parser)
    options.add_configuration(parser)


def inspect(arguments: argparse.Namespace) -> int:
    config = options.configuration(arguments)
    found = inspected(arguments.url, config)
    show(found, arguments.json, inspect_report)
    if (config.extract.functions or config.extract.links) and "items" not in found:
        why = found["reason"] or f"HTTP {found['http_status']}"
        todo = "" if found.get("http_status") or found["outcome"] in _REFUSED else f"; {hint(why)}"
        print(f"gossamer: functions did not run, as there is no page for them: {printable(why)}{todo}", file=sys.stderr)
        return 1
    return 1 if found.get("function_errors") else 0


def inspect_report(found: Mapping[str, Any]) -> RenderableType:
    """Returns one page on one URL. Keys that were not collected are left out."""
    parts: list[RenderableType] = [_identity(found), Text(), _verdicts(found)]
    if found.get("http_status"):
        parts += [Text(), _answer(found)]
    if found.get("links"):
        parts += [Text(), *_links(found["links"])]
    if found.get("headers"):
        parts += [Text(), _headers(found["headers"])]
    if "items" in found:
        parts += [Text(), *_made(found)]
    return Group(*parts)


def _grid(title: str = "") -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True, min_width=12)
    grid.add_column(overflow="fold")
    if title:
        grid.add_row(Text(title, "bold not dim"))
    return grid


def _add(grid: Table, name: str, value: Any, style: str = "") -> None:
    """Adds a row, unless there is nothing to show. Values may come from strangers."""
    if value not in (None, "", []):
        grid.add_row(name, Text(printable(str(value)), style))


def _identity(found: Mapping[str, Any]) -> Table:
    grid = _grid()
    _add(grid, "url", found.get("url"), "bold")
    for hop in found.get("redirects") or []:
        _add(grid, "redirected", f"{hop['http_status']} {hop['url']} → {hop['location']}")
    for name in ("normalised", "key", "host", "domain"):
        _add(grid, name, found.get(name))
    return grid


def _verdicts(found: Mapping[str, Any]) -> Table:
    grid = _grid()
    robots = found.get("robots") or {}
    if robots:
        allowed = robots.get("verdict") == "allowed"
        _add(grid, "robots", robots.get("verdict"), "green" if allowed else "yellow")
        _add(grid, "decided by", robots.get("line") or robots.get("reason") or "no line matches: allowed")
        _add(grid, "robots.txt", f"{robots.get('url')} ({robots.get('http_status') or 'no answer'})")
        delay_s = robots.get("crawl_delay_s")
        _add(grid, "crawl-delay", None if delay_s is None else f"{delay_s:g} s")
        _add(grid, "sitemaps", "\n".join(robots.get("sitemaps") or []))
    _add(grid, "trap", found.get("trap") and f"{found['trap']}: links to it are not followed", "yellow")
    outcome = found.get("outcome")
    _add(grid, "outcome", outcome, "green" if outcome in _GOOD else "yellow")
    _add(grid, "reason", found.get("reason"))
    return grid


def _answer(found: Mapping[str, Any]) -> Table:
    grid = _grid("answer")
    _add(grid, "status", found["http_status"])
    for name in ("location", "content_type", "charset", "title", "language", "canonical", "address"):
        _add(grid, name.replace("_", " "), found.get(name))
    if found.get("wire_bytes") is not None:
        _add(grid, "size", f"{size(found['wire_bytes'])} as sent, {size(found.get('body_bytes'))} decoded")
    _add(grid, "cut", found.get("truncated"), "yellow")
    if found.get("elapsed_s") is not None:
        _add(grid, "time", f"{found['elapsed_s']:.3f} s")
    _add(grid, "noindex", "the page asks not to be indexed" if found.get("noindex") else "")
    _add(grid, "asks", "\n".join(found.get("preferences") or []))
    _add(grid, "not for", ", ".join(found.get("not_for") or []), "yellow")
    return grid


def _made(found: Mapping[str, Any]) -> list[RenderableType]:
    """Returns what functions made of the page, last: whoever asked for it need not look for it."""
    lines: list[RenderableType] = [Text("functions", "bold")]
    for each in found["items"]:
        text = json.dumps(each["item"], indent=2, ensure_ascii=False)
        lines += [Text(printable(each["function"]), "dim"), Text("\n".join(map(printable, text.splitlines())))]
    lines += [Text(f"follow {printable(each['url'])} (priority {each['priority']:g})") for each in found["follows"]]
    lines += [Text(f"file {printable(each['name'])}, {size(each['bytes'])}") for each in found["files"]]
    for each in found["function_errors"]:
        lines.append(Text(printable(f"{each['function']} failed: {each['error']}"), "yellow"))
        lines += [Text(printable(line)) for line in each["traceback"].splitlines()]
    return lines if len(lines) > 1 else [*lines, Text("they yield nothing for this page")]


def _links(links: Sequence[Mapping[str, str]]) -> list[RenderableType]:
    verdicts = Counter(link["verdict"] for link in links)
    kinds = ", ".join(f"{count(times)} {verdict}" for verdict, times in verdicts.most_common())
    grid = _grid()
    for link in links[:_LINKS]:
        followed = link["verdict"] == "followed"
        grid.add_row(Text(link["verdict"], "" if followed else "yellow"), Text(printable(link["url"])))
    more = len(links) - _LINKS
    rest: list[RenderableType] = [Text(f"and {count(more)} more; --json has all", "dim")] if more > 0 else []
    return [Text.assemble(("links", "bold"), f"  {kinds}"), grid, *rest]


def _headers(headers: Sequence[Sequence[str]]) -> Table:
    grid = _grid("headers")
    for name, value in headers:
        grid.add_row(Text(printable(name)), Text(printable(value)))
    return grid

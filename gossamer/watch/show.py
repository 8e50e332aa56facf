"""How `gossamer inspect`, `versions` and `verify` show what they find to a person."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.archive.damage import files_in_words
from gossamer.archive.rows import printable
from gossamer.repair.verify import Verified
from gossamer.watch.figures import count, size

_LINKS = 20  # shown to a person; a program gets all
_GOOD = ("ok", "unchanged", "moved")


def inspect_json(found: Mapping[str, Any]) -> str:
    return json.dumps(found, ensure_ascii=False, indent=2, default=str)


def inspect_report(found: Mapping[str, Any]) -> RenderableType:
    """One page on one URL. Keys that were not collected are left out."""
    parts: list[RenderableType] = [_identity(found), Text(), _verdicts(found)]
    if found.get("http_status"):
        parts += [Text(), _answer(found)]
    if found.get("links"):
        parts += [Text(), *_links(found["links"])]
    if found.get("headers"):
        parts += [Text(), _headers(found["headers"])]
    return Group(*parts)


def _grid(title: str = "") -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True, min_width=12)
    grid.add_column(overflow="fold")
    if title:
        grid.add_row(Text(title, "bold not dim"))
    return grid


def _add(grid: Table, name: str, value: Any, style: str = "") -> None:
    """A row, unless there is nothing to say. Values may be a stranger's words."""
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
    return grid


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


def versions_report(found: Sequence[Mapping[str, Any]]) -> Table:
    """The versions of one page, oldest first."""
    table = Table(header_style="bold", show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    for name, width in {"": 3, "found (UTC)": 19, "last seen": 19, "visits": 6, "status": 6, "bytes": 7}.items():
        table.add_column(name, justify="left" if width == 19 else "right", no_wrap=True, min_width=width)
    table.add_column("title", no_wrap=True, overflow="ellipsis")
    for row in found:
        times = [f"{row[name]:%Y-%m-%d %H:%M:%S}" for name in ("time", "last_visit")]
        figures = [count(row["visits"]), str(row["http_status"]), size(row["wire_bytes"])]
        table.add_row(str(row["version"]), *times, *figures, Text(printable(row["title"] or row["location"])))
    return table


def verify_report(found: Verified, directory: str) -> str:
    """What is wrong, file by file, and what can be done about it."""
    lines = [f"{fault.name} {fault.problem}; repair: {fault.remedy}" for fault in found.faults]
    lines.append(
        f"{files_in_words(found.files)}, {size(found.bytes)}: {count(len(found.faults))} damaged, missing or unnamed"
    )
    if found.unsummed:
        are = "has" if found.unsummed == 1 else "have"
        lines.append(f"{found.unsummed:,} of them {are} no checksum on record: written by an earlier version")
    if found.leftovers:
        them = "it" if len(found.leftovers) == 1 else "them"
        lines.append(f"{files_in_words(len(found.leftovers))} that a crash left: the next crawl removes {them}")
    if found.faults:
        lines.append(f"see what `gossamer repair {directory} --dry-run` can do, and do it with --apply")
    return "\n".join(lines)


@contextlib.contextmanager
def counting(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Files counted on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    with console.status(what) as status:
        yield lambda done, total, name: status.update(f"{what}: {done:,} of {total:,} files  {name}")

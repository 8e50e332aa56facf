"""`Progress` shows a running crawl to a person: live on a terminal, in plain lines elsewhere, then as a summary."""

from collections.abc import Mapping

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gossamer.config import Config
from gossamer.crawl.stats import CALM, Stats, in_short, remedy
from gossamer.watch.figures import UNKNOWN, count, moment, rate, share, short, size, span, sparkline, waiting
from gossamer.watch.pace import TREND_S, Pace
from gossamer.watch.panel import Panel, grid

_KINDS = 3  # of trouble that a line names
_LOOK_S = 0.1  # looks that follow each other faster are passed over


def time_left_s(stats: Stats, config: Config, pages_per_s: float | None) -> float | None:
    """Returns the time until the nearest limit whose distance is known; None if there is none.

    A page limit beyond the frontier has no known distance: the crawl may run out of pages first.
    """
    left: list[float] = []
    if config.crawl.minutes:
        left.append(config.crawl.minutes * 60 - stats.elapsed_s)
    remaining = config.crawl.pages - stats.visits
    reachable = stats.frontier is None or stats.frontier >= remaining
    if config.crawl.pages and pages_per_s and reachable:
        left.append(remaining / pages_per_s)
    return max(0.0, min(left)) if left else None


class Progress(Panel):
    """`Progress` shows a crawl on `console`. Use it as a context manager; call `update` as often as you like."""

    def __init__(self, console: Console, config: Config) -> None:
        super().__init__(console)
        self._config = config
        self._pace = Pace()
        self._next_look_s = 0.0
        self._phase = ""
        self._told: set[str] = set()

    def update(self, stats: Stats) -> None:
        self._tell(stats)
        if stats.elapsed_s < self._next_look_s and stats.phase == self._phase:
            return
        self._next_look_s, self._phase = stats.elapsed_s + _LOOK_S, stats.phase
        self._pace.see(stats.elapsed_s, stats.run_visits, stats.wire_bytes)
        self.draw(stats.elapsed_s, lambda: self.display(stats), lambda: self.line(stats))

    def _tell(self, stats: Stats) -> None:
        """Writes what is new among the notes, at once."""
        for text in stats.notes:
            if text not in self._told:
                self._told.add(text)
                self.note(f"gossamer: {text}")

    def note(self, text: str) -> None:
        """Writes a line above the display, such as a warning."""
        self._console.print(Text(text), highlight=False, soft_wrap=True)

    def finish(self, stats: Stats, where: Mapping[str, str] | None = None) -> None:
        """Writes the final summary; `where` names what is where. Call it after the display has ended."""
        self._tell(stats)
        self._console.print(summary(stats, where or {}))

    def line(self, stats: Stats) -> str:
        """Returns one look as a plain line."""
        parts = [moment(stats.now_s)[:19]]
        if stats.round is not None:
            parts.append(f"round {stats.round}")
        limit = self._config.crawl.pages
        parts.append(f"{count(stats.visits)}{f' of {count(limit)}' if limit else ''} pages")
        parts.append(f"{rate(self._pace.pages())}/s (mean {rate(stats.mean_rate)}/s)")
        parts.append(f"{size(stats.wire_bytes)}")
        for name, value in (("frontier", stats.frontier), ("active hosts", stats.active_hosts)):
            if value is not None:
                parts.append(f"{name} {count(value)}")
        if stats.backed_off_hosts:
            parts.append(f"backed off {count(stats.backed_off_hosts)}")
        kinds = ", ".join(word.replace("_", " ") for word in [*stats.errors][:_KINDS])
        parts.append(f"errors {count(sum(stats.errors.values()))}{f' ({kinds})' if kinds else ''}")
        left_s = time_left_s(stats, self._config, self._pace.pages())
        if left_s is not None:
            parts.append(f"{span(left_s)} left")
        if stats.phase or stats.waits_until_s:
            parts.append(stats.phase or waiting(stats.waits_until_s or 0.0))
        return "  ".join(parts)

    def display(self, stats: Stats) -> RenderableType:
        """Returns one look as a small panel of figures, four to eight lines high."""
        parts = [self._head(stats), Text(), self._figures(stats), Text(), _kinds(stats)]
        if stats.waits_until_s:
            parts.append(Text(waiting(stats.waits_until_s), "dim"))
        return Padding(Group(*parts), 1)

    def _head(self, stats: Stats) -> RenderableType:
        limit, minutes = self._config.crawl.pages, self._config.crawl.minutes
        left_s = time_left_s(stats, self._config, self._pace.pages())
        row = Table.grid(padding=(0, 2, 0, 0), expand=True)
        row.add_column(no_wrap=True)
        row.add_column(ratio=1)
        row.add_column(justify="right", no_wrap=True)
        of = f" of {count(limit)} pages" if limit else " pages"
        title = Text.assemble((count(stats.visits), "bold"), of)
        done = stats.visits / limit if limit else stats.elapsed_s / (minutes * 60) if minutes else None
        if done is None:
            middle: RenderableType = self._trend()
        else:
            middle = ProgressBar(total=1.0, completed=min(1.0, done), complete_style="cyan", finished_style="cyan")
        left = () if left_s is None else ((f"{span(left_s)} left", "bold"), " · ")
        end = Text.assemble(*left, f"{span(stats.elapsed_s)} so far")
        row.add_row(title, middle, end)
        return row

    def _trend(self) -> Text:
        rates = self._pace.trend()
        if len(rates) < 2:
            return Text()
        label = f"last {span(len(rates) * TREND_S)} "
        return Text.assemble((label, "dim"), (sparkline(rates), "cyan"), no_wrap=True)

    def _figures(self, stats: Stats) -> RenderableType:
        figures = Table.grid(padding=(0, 2, 0, 0))
        for _ in range(2):
            figures.add_column(style="dim", no_wrap=True)
            figures.add_column(justify="right", no_wrap=True)
            figures.add_column(style="dim", no_wrap=True)
        pages, traffic = f"{rate(self._pace.pages())}/s", _per_second(self._pace.bytes())
        open_, most = count(stats.connections), count(self._config.polite.connections)
        active, backed_off = f"{count(stats.active_hosts)} active", f"{count(stats.backed_off_hosts)} backed off"
        now = stats.phase or f"memory {size(stats.memory_bytes)}"
        figures.add_row("pages", pages, f"mean {rate(stats.mean_rate)}/s  ", "connections", open_, f"of {most}")
        figures.add_row("traffic", traffic, f"total {size(stats.wire_bytes)}  ", "hosts", active, backed_off)
        figures.add_row(
            "frontier", count(stats.frontier), f"known {short(stats.known)}  ", "round", count(stats.round), now
        )
        return figures


def _per_second(number: float | None) -> str:
    return UNKNOWN if number is None else f"{size(number)}/s"


def _kinds(stats: Stats) -> RenderableType:
    """Returns all outcomes of the run side by side, trouble in yellow."""
    calm = [(word, stats.outcomes[word], "") for word in CALM if stats.outcomes.get(word)]
    trouble = [(word, times, "yellow") for word, times in stats.errors.items()]
    items = (Text.assemble((f"{_named(w)} ", "dim"), (count(n), style), no_wrap=True) for w, n, style in calm + trouble)
    return Columns(items, padding=(0, 3))


def _named(word: str) -> str:
    return word.replace("_", " ")


def brief(stats: Stats) -> str:
    """Returns the same in a line."""
    errors = sum(stats.errors.values())
    failed = f", {count(errors)} of them with errors" if errors else ""
    return f"{count(stats.run_visits)} pages in {span(stats.elapsed_s)}{failed}; ended: {stats.ended}"


def summary(stats: Stats, where: Mapping[str, str]) -> RenderableType:
    """Returns a table of what a finished run did."""
    figures = grid()
    figures.add_row(" pages", Text(count(stats.run_visits), "bold"), f"in {span(stats.elapsed_s)}")
    if stats.visits != stats.run_visits:
        figures.add_row(" in all", count(stats.visits), "earlier runs included")
    if stats.requisites:
        figures.add_row(" requisites", count(stats.requisites), "that pages need, earlier runs included")
    if stats.truncated:
        figures.add_row(" truncated", Text(count(stats.truncated), "yellow"), "bodies not whole; SQL: truncated <> ''")
    figures.add_row(" rate", f"{rate(stats.mean_rate)}", "pages/s")
    figures.add_row(" traffic", size(stats.wire_bytes), "as sent")
    for name, value in (("hosts", stats.hosts), ("known", stats.known), ("frontier", stats.frontier)):
        if value is not None:
            figures.add_row(f" {name}", count(value), _MEANINGS[name])
    tries = sum(stats.outcomes.values())  # a page whose robots.txt cannot be read is tried, and not visited
    for word in CALM:
        if stats.outcomes.get(word):
            times = stats.outcomes[word]
            figures.add_row(f" {_named(word)}", count(times), share(times, tries))
    for word, times in stats.errors.items():
        figures.add_row(f" {_named(word)}", Text(count(times), "yellow"), share(times, tries))
    if stats.refused:
        figures.add_row(" not followed", count(sum(stats.refused.values())), f"links: {in_short(stats.refused)}")
    for setting, links in stats.refused.items():
        figures.add_row(f"   {setting}", count(links), remedy(setting))
    if stats.refused_seeds:
        figures.add_row(
            " seed lines",
            Text(count(stats.refused_seeds), "yellow"),
            "are no web address, or have unknown options; write https://...",
        )
    rows: list[RenderableType] = [figures]
    if stats.ended:
        rows += [Text(), Text.assemble((" ended: ", "dim"), stats.ended)]
    if not where:
        return Group(*rows)
    places = Table.grid(padding=(0, 2, 0, 0))
    places.add_column(style="dim", no_wrap=True)
    places.add_column(overflow="fold")
    for what, place in where.items():
        places.add_row(f" {what}", Text(place))
    return Group(*rows, Text(), places)


_MEANINGS = {"hosts": "with known pages", "known": "pages", "frontier": "known, not yet visited"}

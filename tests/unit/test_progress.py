import io
import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from gossamer.cli.output import watched as show_of_crawl
from gossamer.config import Config
from gossamer.crawl.stats import Stats, waited_for_s
from gossamer.watch.figures import count, moment, rate, share, short, size, span, sparkline
from gossamer.watch.progress import Progress, brief, summary, time_left_s

OUTCOMES = {"ok": 900, "moved": 40, "denied": 10, "gone": 30, "timeout": 15, "server_error": 5}


def stats(elapsed_s: float, visits: int, **more: object) -> Stats:
    values = {"now_s": 1_750_000_000 + elapsed_s, "visits": visits, "run_visits": visits}
    return Stats(**{**values, "elapsed_s": elapsed_s, "wire_bytes": visits * 30_000, **more})  # type: ignore[arg-type]


def console(width: int = 80, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)


def output(of: Console) -> str:
    return of.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def drawn(what: RenderableType, width: int = 80) -> str:
    to = console(width)
    to.print(what)
    return output(to)


def watched(config: Config, seconds: int = 20, per_s: int = 100, **more: object) -> tuple[Progress, Stats]:
    progress = Progress(console(), config)
    for second in range(seconds + 1):
        last = stats(float(second), second * per_s, **more)
        progress.update(last)
    return progress, last


@pytest.mark.parametrize("width", [80, 120])
def test_display_fits_and_shows_everything(width: int) -> None:
    config = Config().replace({"crawl.pages": 10_000})
    progress, last = watched(
        config, round=7, outcomes=OUTCOMES, connections=200, active_hosts=1200, backed_off_hosts=14,
        frontier=1_200_000, known=1_900_000, memory_bytes=412_000_000,
    )  # fmt: skip
    text = drawn(progress.display(last), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in text
    for part in (
        "2,000 of 10,000 pages", "1:20 left", "0:20 so far", "100/s", "mean 100/s", "3.00 MB/s", "total 60.0 MB",
        "200  of 256", "1,200 active", "14 backed off", "1,200,000", "known 1.90 M", "memory 412 MB",
        "ok 900", "gone 30", "server error 5",
    ):  # fmt: skip
        assert part in text


def test_what_is_unknown_is_not_invented() -> None:
    progress, _ = watched(Config(), seconds=0)
    text = drawn(progress.display(stats(0.0, 0)))
    assert "left" not in text
    assert "mean -/s" in text
    assert "- active" in text
    assert "memory -" in text
    assert "0 pages" in text


def test_the_trend_of_a_crawl_without_limit() -> None:
    progress, last = watched(Config(), seconds=60)
    assert "last 1:00 " in drawn(progress.display(last))


def test_rate_now_is_not_the_mean() -> None:
    progress = Progress(console(), Config())
    for second in range(31):
        progress.update(stats(float(second), 1000 * min(second, 20)))
    assert progress.line(last := stats(30.0, 20_000)).split("  ")[2] == "0.0/s (mean 667/s)"
    assert "mean 667/s" in drawn(progress.display(last))


def test_time_left() -> None:
    pages = Config().replace({"crawl.pages": 1000})
    assert time_left_s(stats(10.0, 500), pages, 50.0) == 10.0
    assert time_left_s(stats(10.0, 500), pages, None) is None
    assert time_left_s(stats(10.0, 1100), pages, 50.0) == 0.0
    # The frontier may end before the limit is reached: nobody knows when.
    assert time_left_s(stats(10.0, 500, frontier=499), pages, 50.0) is None
    assert time_left_s(stats(10.0, 500, frontier=500), pages, 50.0) == 10.0
    minutes = Config().replace({"crawl.minutes": 1.0})
    assert time_left_s(stats(10.0, 500), minutes, None) == 50.0
    assert time_left_s(stats(10.0, 500), Config(), 50.0) is None
    both = pages.replace({"crawl.minutes": 1.0})
    assert time_left_s(stats(10.0, 500), both, 50.0) == 10.0


def test_plain_lines_every_ten_seconds_elsewhere() -> None:
    to = console()
    with Progress(to, Config()) as progress:
        for tenth in range(310):
            progress.update(stats(tenth / 10, tenth, round=3, phase="committing" if tenth > 300 else ""))
    lines = output(to).splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("2025-06-15 15:06:40  round 3  0 pages  -/s")
    assert "10/s (mean 10/s)" in lines[1]
    assert "errors 0" in lines[1]


def test_a_terminal_gets_a_live_display_that_leaves_nothing_behind() -> None:
    to = console(terminal=True)
    with Progress(to, Config()) as progress:
        progress.update(stats(0.0, 0))
        progress.update(stats(1.0, 100))
        progress.note("something to know")
    text = output(to)
    assert "100 pages" in text
    assert "something to know" in text
    assert "\x1b[?25h" in text  # the cursor is visible again


def test_who_wants_to_see_nothing_sees_what_there_is_to_know_before_it_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(show: Callable[[Stats], None]) -> Stats:
        show(stats(20.0, 100, notes=("something happens",)))
        return stats(20.0, 100)

    for quiet, as_json in ((True, False), (False, True)):
        given = Namespace(quiet=quiet, json=as_json)
        assert show_of_crawl(run, Config(), given, ["a warning"]).visits == 100
        out, err = capsys.readouterr()
        note = "gossamer: a warning\n"
        assert (out, err) == ((json.dumps(stats(20.0, 100).as_dict()) + "\n", note) if as_json else (note, ""))


def test_summary() -> None:
    to = console()
    last = replace(stats(100.0, 1000, outcomes=OUTCOMES, hosts=17, frontier=5, known=1005), visits=4000)
    Progress(to, Config()).finish(last, {"archive": "/data/crawl"})
    lines = [line.split() for line in output(to).splitlines()]
    for part in (
        "pages 1,000 in 1:40", "in all 4,000 earlier runs included", "rate 10 pages/s", "hosts 17 with known pages",
        "traffic 30.0 MB as sent", "ok 900 90 %", "server error 5 <1 %", "archive /data/crawl",
    ):  # fmt: skip
        assert part.split() in lines
    assert "in all" not in drawn(summary(stats(1.0, 5), {}))


def test_figures() -> None:
    assert [size(n) for n in (None, 0, 999, 1000, 1234, 99_960, 999_600, 5e9, 2e18)] == [
        "-", "0 B", "999 B", "1.00 kB", "1.23 kB", "100 kB", "1.00 MB", "5.00 GB", "2000 PB",
    ]  # fmt: skip
    assert [span(s) for s in (None, -1, 7.9, 754, 11_554, 270_000)] == [
        "-", "0:00", "0:07", "12:34", "3:12:34", "3 d 03:00",
    ]  # fmt: skip
    assert [rate(r) for r in (None, 0.0, 0.44, 9.94, 9.96, 12_345.6)] == ["-", "0.0", "0.4", "9.9", "10", "12,346"]
    assert [short(n) for n in (None, 12_345, 1_914_200, 5e9)] == ["-", "12,345", "1.91 M", "5.00 G"]
    assert [share(n, 1000) for n in (0, 1, 5, 995, 1000)] == ["0 %", "<1 %", "<1 %", ">99 %", "100 %"]
    assert share(1, 0) == moment(None) == count(None) == "-"
    assert moment(0) == "1970-01-01 00:00:00 UTC"
    assert sparkline([0, 1, 2]) == "▁▄▇"
    assert sparkline([0, 0]) == "▁▁"


def test_what_is_waited_for_is_said() -> None:
    progress, last = watched(Config(), waits_until_s=1_750_000_060.0)
    for text in (progress.line(last), drawn(progress.display(last))):
        assert "waits until 2025-06-15 15:07:40 UTC: what failed is tried again, or hosts rest" in text
    assert "waits" not in progress.line(replace(last, waits_until_s=None))


def test_several_wait_if_none_has_something_to_do() -> None:
    def one(waits_until_s: float | None, frontier: int = 0, connections: int = 0) -> dict[str, object]:
        return {"waits_until_s": waits_until_s, "frontier": frontier, "connections": connections}

    assert waited_for_s([one(30.0, 1), one(20.0), one(None)]) == 20.0, "the third is done"
    assert waited_for_s([one(30.0, 1), one(None, frontier=5)]) is None
    assert waited_for_s([one(30.0, 1), one(None, connections=1)]) is None
    assert waited_for_s([one(None)]) is None


def test_a_quiet_run_ends_with_a_line() -> None:
    done = stats(125.0, 1000, outcomes={"ok": 980, "timeout": 20}, ended="nothing left to visit")
    assert brief(done) == "1,000 pages in 2:05, 20 of them with errors; ended: nothing left to visit"


def test_notes_are_told_once_and_at_once() -> None:
    to = console(200)
    progress = Progress(to, Config())
    for notes in ((), ("first",), ("first", "second"), ("first", "second")):
        progress.update(stats(0.01, 1, notes=notes))
    progress.finish(stats(1.0, 1, notes=("first", "second", "last")))
    told = [line for line in output(to).splitlines() if line.startswith("gossamer: ")]
    assert told == ["gossamer: first", "gossamer: second", "gossamer: last"]

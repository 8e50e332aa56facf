"""The pages of the documentation show what is on record, and the commands that stand there say what the pages say."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import case_files
import pytest

from experiments import claims, records
from experiments import pages as lab_page
from experiments.harness import cell, main, parser
from gossamer.sim.figures import draw

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


FIGURES = lab_page.figures()
RECORDS = {"federation": "sites"}  # where the record of a page is, if not in the folder of its name


def shapes(svg: Path) -> list[str]:
    """Curves and dots with their places, and all words; not who drew it when."""
    text = re.sub(r"<metadata>.*?</metadata>", "", svg.read_text(), flags=re.DOTALL)
    places = re.findall(r'<(?:path d="([^"]*)" clip-path|use [^>]*x="([\d.]+)" y="([\d.]+)" style="fill)', text)
    return re.findall(r"<!-- (.*?) -->", text) + [re.sub(r"\.\d+", "", " ".join(place)) for place in places]


@pytest.mark.parametrize("number", range(len(FIGURES)), ids=[figure.name for _, figure in FIGURES])
def test_a_figure_on_a_page_shows_what_its_table_says(number: int, tmp_path: Path) -> None:
    folder, figure = FIGURES[number]
    draw(figure, tmp_path)
    name = f"{figure.name}.svg"
    drawn = shapes(tmp_path / name)
    assert len(drawn) > 10
    assert shapes(folder / name) == drawn, "older than its data: run python -m experiments.pages --tables"


def test_no_figure_is_older_than_its_data_and_every_one_is_shown() -> None:
    assert lab_page.unshown() == []
    recorded = json.loads(lab_page.RECORD.read_text())
    assert lab_page.record() == recorded, "draw it again; then python -m experiments.pages --record"


@pytest.mark.parametrize("ends", ["failed", pytest.param("killed", marks=pytest.mark.slow)])
def test_a_suite_goes_on_where_it_stopped(
    ends: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two experiments cannot read its graph, or is killed: the first is not made again."""
    first, second, progress = tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "progress.json"
    first.write_text("0 1\n1 2\n2 0\n")
    commands = [["order", "--graph", str(path), "--repeat", "1", "--order", "opic"] for path in (first, second)]
    if ends == "killed":
        os.mkfifo(second)  # the experiment waits for its first byte
        call = f"run({commands}, lambda _: Path({str(tmp_path)!r}), Path({str(progress)!r}))"
        suite = [sys.executable, "-c", f"from experiments.pages import *; {call}"]
        with subprocess.Popen(suite, cwd=ROOT, start_new_session=True) as process:
            while not progress.exists():
                assert process.poll() is None
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)
        second.unlink()
    else:
        with pytest.raises(SystemExit, match="ended with 2"):
            lab_page.run(commands, lambda _: tmp_path, progress)
    made = (tmp_path / "order-a.json").stat().st_mtime_ns
    second.write_text("0 1\n1 0\n")
    capfd.readouterr()
    lab_page.run(commands, lambda _: tmp_path, progress)
    said = [line for line in capfd.readouterr().out.splitlines() if line.startswith("[")]
    assert said[0].startswith("[1 of 2, ")
    assert "] done before: order" in said[0]
    assert said[1].startswith("[2 of 2, ")
    assert "] gossamer lab order" in said[1]
    assert len(said) == 2
    assert (tmp_path / "order-a.json").stat().st_mtime_ns == made
    assert (tmp_path / "order-b.json").exists()
    assert json.loads(progress.read_text()) == {lab_page.code(): []}, "whoever asks again wants all of it anew"
    progress.write_text(json.dumps({lab_page.code(): [[*commands[0], "--out", str(tmp_path)]]}))
    monkeypatch.setattr(lab_page, "code", lambda: "changed")
    lab_page.run(commands[:1], lambda _: tmp_path, progress)
    assert (tmp_path / "order-a.json").stat().st_mtime_ns > made, "what other code has made is made anew"


PAGES_WITH_TABLES = ("lab", "agents", "refresh", "green", "cloud", "placement", "scan", "federation", "scale")


@pytest.mark.parametrize("name", PAGES_WITH_TABLES)
def test_the_tables_of_a_page_are_those_on_record(name: str, tmp_path: Path) -> None:
    page = tmp_path / f"{name}.md"
    shutil.copy(ROOT / "docs" / page.name, page)
    lab_page.fill_in(page, ROOT / "docs" / RECORDS.get(name, name))
    assert page.read_text() == (ROOT / "docs" / page.name).read_text(), "run python -m experiments.pages --tables"


def test_advice_and_claims_are_those_on_record() -> None:
    page = (ROOT / "docs" / "which-settings.md").read_text()
    assert claims.filled(page) == page, "run python -m experiments.pages --tables"
    assert page.count("\n| ") > 25
    for linked in ("README.md", "docs/getting-started.md"):
        assert "which-settings.md" in (ROOT / linked).read_text()


@pytest.mark.parametrize(
    ("here", "verdict"),
    [
        ("rises; 19 of 19 second differences not negative", "holds"),
        ("does not always rise; 9 of 9 second differences not negative", "half: convex, but it falls first"),
        ("rises; 17 of 19 second differences not negative", "does not hold"),
        ("falls; R² of a straight line 0.9942, at most 5.2% of its range off", "holds"),
        ("falls; R² of a straight line 0.9100, at most 20% of its range off", "does not hold"),
        ("does not always fall; R² of a straight line 0.9942, at most 5.2% of its range off", "does not hold"),
    ],
)
def test_whether_a_curve_has_its_shape_follows_from_the_record(here: str, verdict: str) -> None:
    assert claims.shape(here) == verdict


def test_a_claim_holds_where_the_whole_interval_is_on_its_side() -> None:
    above, across, below = (
        records.Difference(graph, mean, mean - 0.02, mean + 0.02, False)
        for graph, mean in (("a", 0.05), ("b", 0.01), ("c", -0.05))
    )
    assert records.verdict([above, across]) == "on 1 of 2"
    assert records.verdict([above, across, below]) == "on 1 of 3; the opposite on 1"
    assert records.ends([across, below, above]) == ("-0.0500 [-0.0700, -0.0300] (c) to +0.0500 [+0.0300, +0.0700] (a)")


def test_all_rows_of_parity_are_of_one_simulator() -> None:
    graphs = ("cs-stanford", "debian-docs")
    made = {row.get("simulator") for graph in graphs for row in lab_page.rows(lab_page.OUT, f"parity-{graph}")}
    assert len(made) == 1, "run python -m experiments.pages --graphs DIR --only parity"
    assert None not in made, "nobody knows which simulator made them"


def table_of(page: str, *starts: str) -> list[list[str]]:
    """Cells of the table on a page whose head begins so, without the head."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    (table,) = re.findall(rf"^\| {re.escape(' | '.join(starts))}.*?\n\n", text, re.MULTILINE | re.DOTALL)
    return [[each.strip() for each in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]


@pytest.mark.parametrize(
    ("name", "head"), [("cnr-2000-nat", ("method", "4, random", "4, natural", "4, bfs", "16")), ("cs-stanford", ())]
)
def test_edges_cut_on_the_page_on_placement_are_those_on_record(name: str, head: tuple[str, ...]) -> None:
    head = head or ("method", "4, random", "4, natural", "4, bfs", "4, dfs")
    text = (ROOT / "docs" / "placement.md").read_text()
    (line,) = re.findall(rf"^\| {re.escape(' | '.join(head))}.*$", text, re.MULTILINE)
    columns = [each.strip() for each in line.strip("|").split("|")][1:]
    rows = {
        (row["method"], f"{row['k']}, {row['order']}"): 100 * row["cut"]
        for row in lab_page.rows(ROOT / "docs" / "placement", f"partition-{name}")
    }
    for method, *cells in table_of("placement", *head):
        for column, shown in zip(columns, cells, strict=True):
            k = column.partition(",")[0]
            cut = rows.get((method, column), rows.get((method, f"{k}, any")))
            assert cut is not None, (method, column)
            assert shown == (f"{cut:.1f}" if cut >= 1 else f"{cut:.2f}"), (method, column)


def clock(seconds: float | None) -> str:
    whole = int(seconds or 0)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}" if seconds else "-"


def test_figures_of_clients_on_the_page_on_scans_are_those_on_record() -> None:
    rows = lab_page.rows(ROOT / "docs" / "scan", "jobs")
    again = [
        [str(row["clients"]), row["mode"], clock(row["makespan_s"]), cell(row["ratio"]), cell(row["gain"]),
         clock(row["paper_s"]), cell(row["paper_gain"])]
        for row in rows if row["part"] == "re-enacted"
    ]  # fmt: skip
    assert table_of("scan", "clients", "mode", "h:mm:ss") == again
    drawn = [
        [str(row["clients"]), row["mode"], cell(row["ratio"]), cell(row["spread"]), cell(row["gain"])]
        for row in rows
        if row["part"].endswith("drawn")
    ]
    assert table_of("scan", "clients", "mode", "to the bound, mean") == drawn


def verdicts(name: str) -> list[tuple[str, str]]:
    """Tables on record in which a statement of the literature holds or does not, and their experiments."""
    files = sorted((ROOT / "docs" / RECORDS.get(name, name)).glob("*.json"))
    found = [(file.stem, title) for file in files for title in json.loads(file.read_text())["tables"]]
    return [(stem, title) for stem, title in found if title.startswith("Statements")]


@pytest.mark.parametrize("name", ["lab", "cloud", "placement", "federation"])
def test_a_page_prints_all_verdicts_of_its_record(name: str) -> None:
    """Also those that do not hold."""
    page = (ROOT / "docs" / f"{name}.md").read_text()
    assert verdicts(name)
    assert [each for each in verdicts(name) if "<!-- table {} {} -->".format(*each) not in page] == []


def commands(page: Path) -> list[list[str]]:
    """Arguments of every `gossamer lab` on a page that is written out: in a block, or in backticks with an option."""
    found = re.findall(r"^gossamer lab (.*)$|`gossamer lab ([^`]* --[^`]*)`", page.read_text(), re.MULTILINE)
    return [shlex.split(block or inline, comments=True) for block, inline in found]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_commands_of_the_lab_on_a_page_are_understood(page: Path) -> None:
    for arguments in commands(page):
        parser().parse_args(arguments)


def test_the_pages_name_the_commands_that_fill_them() -> None:
    for name in ("refresh", "green"):
        filled = [each for each in lab_page.experiments(Path("graphs")) if each[0].startswith(name)]
        assert filled
        assert [each for each in filled if each not in commands(ROOT / "docs" / f"{name}.md")] == []


def recorded(name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = lab_page.rows(ROOT / "docs" / "refresh", name)
    return rows


def test_estimates_of_the_page_are_those_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refresh", "--part", "estimates", "--json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [pytest.approx(row, abs=5e-4) for row in recorded("refresh-estimates")] == said


@pytest.mark.slow
@pytest.mark.timeout(3600)  # two hundred seconds of a core
def test_freshness_of_the_page_is_that_of_its_command(tmp_path: Path) -> None:
    """The command that the page names, as it stands there. One page chosen otherwise, for a last digit of another
    machine's exponential, changes what is learned afterwards a little: hence a thousandth."""
    command = min(commands(ROOT / "docs" / "refresh.md"), key=len)
    assert command == ["refresh"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    facts = json.loads((tmp_path / "refresh-policies.json").read_text())
    said = facts["tables"][facts["title"]]["rows"]
    shown = ("budget", "freshness", "of_optimum")
    for row, other in zip(recorded("refresh-policies"), said, strict=True):
        assert row["policy"] == other["policy"]
        assert [row[key] for key in shown] == pytest.approx([other[key] for key in shown], abs=1e-3), row["policy"]


@pytest.mark.slow
@pytest.mark.timeout(3600)  # a hundred seconds of a core
def test_orders_of_the_page_are_those_of_its_command(tmp_path: Path) -> None:
    graphs = case_files.graph("cs-stanford").parent
    (command,) = (each for each in lab_page.experiments(graphs) if each[0] == "order" and "cs-stanford" in each[-1])
    assert main([*command, "--out", str(tmp_path)]) == 0
    for row, other in zip(*(lab_page.rows(at, "order-cs-stanford") for at in (lab_page.OUT, tmp_path)), strict=True):
        assert row["strategy"] == other["strategy"]
        shown = ("average", "spread", "at_10_percent", "tau")
        assert [row[key] for key in shown] == pytest.approx([other[key] for key in shown], abs=1e-3), row["strategy"]


def test_the_page_says_what_of_the_batch_is_fitted_and_what_is_found() -> None:
    """Links take Castillo's 29 and 2.9 of 9 hours because their speeds were chosen so; the rest is simulated."""
    rows = {(row["link"], row["burst"]): row for row in lab_page.rows(lab_page.OUT, "batch-cnr-2000-nat")}
    host_h = rows["large", 1]["host_hours"]
    fitted = {link: 9 * rows[link, 1]["link_hours"] / host_h for link in ("small", "large")}
    assert fitted == pytest.approx({"small": 29.0, "large": 2.9})
    speeds = [f"{rows[link, 1]['bandwidth']:,.0f}" for link in ("small", "large")]
    assert "small link has {} bytes/s and the large one {}".format(*speeds) in (ROOT / "docs" / "lab.md").read_text()
    above = {key: row["hours"] / row["link_hours"] - 1 for key, row in rows.items()}
    page = (ROOT / "docs" / "lab.md").read_text()
    assert f"by {above['small', 100]:.0%} of".replace("%", " %") in page
    assert f"by {above['large', 100]:.0%} of".replace("%", " %") in page
    assert f"by {above['small', 1]:.0%} of".replace("%", " %") in page
    assert f"by {rows['large', 1]['hours'] / host_h - 1:.0%} of".replace("%", " %") in page


def test_costs_and_speeds_of_a_bucket_are_those_of_the_benchmark() -> None:
    page = (ROOT / "docs" / "cloud.md").read_text()
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text().partition("## store")[2]
    for name in ("costs", "speeds"):
        (shown,) = re.findall(rf"<!-- {name} -->\n(.*?)<!-- end {name} -->", page, re.DOTALL)
        assert shown.count("\n") > 5
        assert shown in results, "run python -m benchmarks.bench_store --write"


def test_the_factors_that_agents_reach_stand_with_what_limits_them() -> None:
    """Bound by latency from the lab's record, bound by CPU from the benchmark's, each under its own heading."""
    page = (ROOT / "docs" / "agents.md").read_text()
    waiting, working = page.partition("### Bound by latency")[2].split("### Bound by CPU")
    rows = {row["agents"]: row for row in lab_page.rows(ROOT / "docs" / "agents", "agents-scaling")}
    assert f"So {rows[4]['factor']:.2f} says" in waiting
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text().partition("## agents")[2]
    (factor,) = re.findall(r"Bound by CPU: two agents on two cores are ([\d.]+) times", results)
    one, two = re.findall(r"^\| ([12]) +\| +([\d,]+) \|[^|]*\| +([\d.]+) \|", results, re.MULTILINE)
    assert f"| {one[0]} | {one[2]} ms | {one[1]} | 1 |" in working
    assert f"| {two[0]} | {two[2]} ms | {two[1]} | {factor} (" in working

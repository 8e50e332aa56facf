"""This module runs every experiment that a page of the documentation shows, and fills the pages.

python -m experiments.pages                  graphs made on the spot, results into .cache/lab; needs nothing but a clone
python -m experiments.pages --graphs DIR     the public graphs of docs/lab.md: figures and JSON into docs/, tables into
                                             lab.md, agents.md, refresh.md, green.md, cloud.md and scale.md
python -m experiments.pages --graphs DIR --only parity    the same of one experiment, or of several: --only again
python -m experiments.pages --tables         runs nothing: tables, and figures that show what tables say, from the JSON
python -m experiments.pages --record         notes that all figures are those of their data (docs/figures.json)

A suite that was stopped goes on with the experiment that it was at, as long as the code is the same.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from experiments import (
    agents,
    castillo,
    claims,
    cloud,
    cpu_slices,
    graphs,
    leads_table,
    link_database,
    paired,
    parity,
    refresh,
    refresh_estimates,
    robots,
    scale,
)
from experiments.harness import Block, Row, markdown
from gossamer.sim.figures import Figure, draw

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OUT = DOCS / "lab"
ELSEWHERE = {
    name: DOCS / name for name in ("agents", "refresh", "green", "cloud", "scale")
}  # experiments with a page of their own
LATENCY = "cloud-latency"
RECORD = DOCS / "figures.json"
# Figures whose data has another name than theirs.
DATA = {
    "agents-coverage": "agents-modes",
    "agents-cross-over": "agents-modes",
    "agents-queue": "agents-latency",
    "agents-table": "agents-latency",
    **dict.fromkeys(
        (
            "cloud-look-up-agents",
            "cloud-queue-agents",
            "cloud-queue-rate",
            "cloud-table-agents",
            "cloud-table-rate",
            "cloud-way-agents",
        ),
        LATENCY,
    ),
    "green-carbon": "green-figures",
    "green-staleness": "green-figures",
    "jobs-3": "jobs",
    "jobs-5": "jobs",
    "jobs-scale": "jobs",
}
CACHE = ROOT / ".cache"
PROGRESS = CACHE / "lab-done.json"  # commands that were done by this code, since a suite last came to its end
REAL = ("fixed", "adaptive", "index", "green-index")
PUBLIC = ("cnr-2000-nat", "debian-docs", "cs-stanford")
MADE = ("synthetic", "corpus", "corpus")  # what stands for them in a bare clone
MADE_PAGES, MADE_HOSTS = 20_000, 1_000
JUDGES = ("parity",)  # they end with 1 if something does not pass
FIRST = ("--pages=5000", "--repeat=2")  # of debian-docs: a page there has 72 links, and all pages would take hours


def experiments(folder: Path, names: tuple[str, str, str] = PUBLIC) -> list[list[str]]:
    """Arguments of every command, on these three graphs: a large one without hosts, and two with their own."""

    def graph(name: str) -> list[str]:
        return ["--graph", str(folder / f"{name}.npz")]

    large, docs, small = names
    return [
        *(["order", *graph(name)] for name in dict.fromkeys((docs, small))),
        ["order", *graph(large), "--repeat=5"],  # a set takes two minutes of a core, so few of whole crawls,
        *([["order", *graph(large), "--pages=32000"]] if names == PUBLIC else []),  # and thirty of their first tenth
        ["robots", *graph(large)],
        ["batch", *graph(large)],
        ["realcrawl"],
        ["parity", *graph(small)],
        *([["parity", *graph(docs), *FIRST]] if docs != small else []),
        ["agents"],
        ["refresh"],
        ["refresh-real", "--pages=150", *(f"--policy={name}" for name in REAL)],
        ["green"],
        ["cloud"],
        ["scale"],
    ]


def make_graphs(folder: Path) -> tuple[str, str, str]:
    """Make what is not there yet, and say what there is: the benchmark's corpus comes from Debian's servers."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "synthetic.npz").exists():
        graphs.make(folder / "synthetic.npz", MADE_PAGES, MADE_HOSTS)
    if not (folder / "corpus.npz").exists():
        from benchmarks import corpus

        try:
            graphs.of_directories(folder / "corpus.npz", corpus.ensure())
        except corpus.CorpusError as error:
            print(f"without the graph of the benchmark's corpus: {error}", flush=True)
            return ("synthetic",) * 3
    return MADE


def run(commands: list[list[str]], place: Callable[[str], Path], progress: Path = PROGRESS) -> None:
    """Runs all of them, or ends with the first that fails. What does not hold is a result, and goes to the page. What
    the same code had done when it was stopped is not done again."""
    source, began_s = code(), time.monotonic()
    found = json.loads(progress.read_text()) if progress.exists() else {}
    done: list[list[str]] = found.get(source, [])
    for number, arguments in enumerate(commands, 1):
        line = [*arguments, "--out", str(place(arguments[0]))]
        at = f"[{number} of {len(commands)}, {(time.monotonic() - began_s) / 60:.0f} min]"
        print(at, "done before:" if line in done else "gossamer lab", *arguments, flush=True)
        if line in done:
            continue
        ended = subprocess.call([sys.executable, "-m", "experiments", *line], cwd=ROOT)
        if ended and not (ended == 1 and arguments[0] in JUDGES):
            raise SystemExit(f"gossamer lab {' '.join(arguments)} ended with {ended}")
        done.append(line)
        progress.parent.mkdir(parents=True, exist_ok=True)
        progress.write_text(json.dumps({source: done}))
    left = [line for line in done if line[:-2] not in commands]  # whoever asks for these again wants them made anew
    progress.write_text(json.dumps({source: left}))


def code() -> str:
    """Returns a digest of all that experiments run."""
    sources = sorted([*(ROOT / "gossamer").rglob("*.py"), *(ROOT / "experiments").glob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def on_pages(experiment: str) -> Path:
    """Where the results are that a page shows."""
    return ELSEWHERE.get(experiment.partition("-")[0], OUT)


def tables() -> None:
    """In all pages. A place is <!-- table NAME [TITLE] --> ... <!-- end -->; TITLE names a further table of the
    experiment. <!-- notes NAME --> ... <!-- end --> is for its set-up, and <!-- figures cloud-latency --> ...
    <!-- end --> for its figures. What is not on record stays as it is."""
    for folder in (OUT, *ELSEWHERE.values(), DOCS / "placement", DOCS / "scan"):
        fill_in(folder.with_suffix(".md"), folder)
    fill_in(DOCS / "federation.md", DOCS / "sites")
    settings = DOCS / "which-settings.md"
    settings.write_text(claims.filled(settings.read_text()))


def figures() -> list[tuple[Path, Figure]]:
    """Those that can be drawn from the rows on record, and the folder of each: they are never older than the table."""
    found = [(OUT, parity.figure(name, rows(OUT, f"parity-{name}"))) for name in ("cs-stanford", "debian-docs")]
    found.append((OUT, robots.speed_figure("cnr-2000-nat", rows(OUT, "robots-speed-cnr-2000-nat"))))
    found.append((OUT, paired.figure(rows(OUT, "paired"))))
    found.append((DOCS / "placement", leads_table.figure(rows(DOCS / "placement", "leads-table"))))
    found.append((OUT, castillo.figure(rows(OUT, "castillo"))))
    found.append((DOCS / "sites", link_database.figure("made", rows(DOCS / "sites", "link-database-made"))))
    here = ELSEWHERE["refresh"]
    found.append((here, refresh.figure(rows(here, "refresh-policies"))))
    found.append((here, refresh_estimates.figure(rows(here, "refresh-estimates"))))
    here = ELSEWHERE["agents"]
    found += [(here, each) for each in agents.scaling_figures(rows(here, "agents-scaling"))]
    found += [(here, each) for each in agents.latency_figures(rows(here, "agents-latency"))]
    found += [(here, cpu_slices.figure(rows(here, f"cpu-slices-{kind}"))) for kind in ("agents", "sites")]
    here = ELSEWHERE["scale"]
    found += [(here, each) for each in scale.figures(rows(here, "scale"))]
    here = ELSEWHERE["cloud"]
    found.append((here, cloud.sql_figure(rows(here, "cloud-sql"))))
    if (here / f"{LATENCY}.json").exists():
        found += [(here, each) for each in cloud.latency_figures(rows(here, LATENCY))]
    return found


def record() -> dict[str, dict[str, str]]:
    """Returns the digests of all figures that pages show, and of the data of each: DOCS/figures.json has those of the
    time when they were drawn. A figure that no page shows is deleted when results go to the pages."""
    found: dict[str, dict[str, str]] = {}
    for figure in sorted(DOCS.glob("*/*.svg")):
        if figure.parent.name == "images":
            continue
        at = figure.parent
        name = DATA.get(figure.stem) or next(
            (each.stem for each in sorted(at.glob("*.json"), reverse=True) if figure.stem.startswith(each.stem)), ""
        )
        digests = {path.name: _digest(path) for path in (figure, at / f"{name}.json") if path.exists()}
        found[figure.relative_to(DOCS).as_posix()] = digests
    return found


def unshown() -> list[Path]:
    """Returns figures that no page shows."""
    pages = "".join(page.read_text() for page in (ROOT / "README.md", *DOCS.rglob("*.md")))
    return [path for path in sorted(DOCS.glob("*/*.svg")) if f"{path.parent.name}/{path.name}" not in pages]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def rows(folder: Path, name: str) -> list[Row]:
    facts = json.loads((folder / f"{name}.json").read_text())
    found: list[Row] = facts["tables"][facts["title"]]["rows"]
    return found


def fill_in(page: Path, folder: Path) -> None:
    def fill(found: re.Match[str]) -> str:
        name, title = found[1], found[2].strip()
        if not (folder / f"{name}.json").exists():
            return found[0]
        facts = json.loads((folder / f"{name}.json").read_text())
        block = facts["tables"][title or facts["title"]]
        return f"<!-- table {name}{found[2]} -->\n{markdown(Block('', block['rows'], block['shown']))}<!-- end -->"

    def notes(found: re.Match[str]) -> str:
        facts = json.loads((folder / f"{found[1]}.json").read_text())
        shown = "".join(f"- {note}\n" for note in facts["notes"])
        return f"<!-- notes {found[1]} -->\n{shown}<!-- end -->"

    text = re.sub(r"<!-- table ([\w-]+)([^>]*?) -->\n.*?<!-- end -->", fill, page.read_text(), flags=re.DOTALL)
    text = re.sub(r"<!-- notes ([\w-]+) -->\n.*?<!-- end -->", notes, text, flags=re.DOTALL)
    page.write_text(_with_figures(text, folder))


def _with_figures(text: str, folder: Path) -> str:
    if not (folder / f"{LATENCY}.json").exists():
        return text
    shown = "\n\n".join(
        f"![{f.title}]({folder.name}/{f.name}.svg)" for f in cloud.latency_figures(rows(folder, LATENCY))
    )
    place = re.compile(rf"(?<=<!-- figures {LATENCY} -->\n).*?(?=<!-- end -->)", re.DOTALL)
    return place.sub(lambda _: f"{shown}\n", text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the experiments of the documentation.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--graphs", type=Path, metavar="DIR", help="the public graphs: results go into docs/")
    what.add_argument("--tables", action="store_true", help="run nothing, fill the pages from the JSON in docs/")
    what.add_argument("--record", action="store_true", help="all figures were drawn from the data in docs/ just now")
    parser.add_argument("--only", action="append", metavar="NAME", help="with --graphs: only these experiments")
    arguments = parser.parse_args()
    if arguments.only and not arguments.graphs:
        parser.error("--only needs --graphs")
    if arguments.record:
        RECORD.write_text(json.dumps(record(), indent=1) + "\n")
        return
    if not arguments.graphs and not arguments.tables:
        names = make_graphs(CACHE / "graphs")
        run(experiments(CACHE / "graphs", names), lambda _: CACHE / "lab")
        print(f"results are in {CACHE / 'lab'}; docs/lab.md shows those on public graphs", flush=True)
        return
    if arguments.graphs:
        if missing := [name for name in PUBLIC if not (arguments.graphs / f"{name}.npz").is_file()]:
            raise SystemExit(f"{arguments.graphs} has no {missing[0]}.npz: docs/lab.md says where it comes from")
        commands = experiments(arguments.graphs.resolve())
        if wrong := set(arguments.only or ()).difference(each[0] for each in commands):
            parser.error(f"no page shows the experiment {min(wrong)} from here")
        run([each for each in commands if each[0] in (arguments.only or each)], on_pages)
    tables()
    drawn = {f"{folder.name}/{figure.name}.svg" for folder, figure in figures() if draw(figure, folder)}
    for path in unshown():
        path.unlink()
    before = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    now = record()
    made = tuple(arguments.only or ("",)) if arguments.graphs else ()
    kept = {
        name: now[name] if name in drawn or Path(name).stem.startswith(made) else before.get(name, {}) for name in now
    }
    RECORD.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()

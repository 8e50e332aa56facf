"""Runs the lab's experiments for docs/lab.md, agents.md, refresh.md and green.md: figures and JSON into docs/lab/,
docs/agents/, docs/refresh/ and docs/green/, tables into the pages' marked places.

python scripts/lab_page.py [GRAPHS]     (default: ../shared/data/graphs)
python scripts/lab_page.py --tables     (runs nothing: tables, and figures that show what tables say, from the JSON)
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from experiments import agents, parity, refresh, refresh_estimates
from experiments.output import Block, Row, markdown
from gossamer.sim.figures import Figure, draw

DOCS = Path(__file__).parent.parent / "docs"
OUT = DOCS / "lab"
ELSEWHERE = {name: DOCS / name for name in ("agents", "refresh", "green")}  # experiments with a page of their own
REAL = ("fixed", "adaptive", "index", "green-index")
GRAPHS = ("cnr-2000-nat", "debian-docs", "cs-stanford")


def experiments(graphs: Path) -> list[list[str]]:
    def graph(name: str) -> list[str]:
        return ["--graph", str(graphs / f"{name}.npz")]

    return [
        *(["order", *graph(name)] for name in GRAPHS),
        ["robots", *graph("cnr-2000-nat")],
        ["batch", *graph("cnr-2000-nat")],
        ["realcrawl"],
        *(["parity", *graph(name)] for name in ("cs-stanford", "debian-docs")),
        ["agents"],
        ["refresh"],
        ["refresh-real", "--pages=150", *(f"--policy={name}" for name in REAL)],
        ["green"],
    ]


def run(graphs: Path) -> None:
    for arguments in experiments(graphs):
        print("gossamer lab", *arguments, flush=True)
        out = ELSEWHERE.get(arguments[0].partition("-")[0], OUT)
        subprocess.run([sys.executable, "-m", "gossamer", "lab", *arguments, "--out", str(out)], check=True)


def tables() -> None:
    """In all pages. A place is <!-- table NAME [TITLE] --> ... <!-- end -->; TITLE names a further table of the
    experiment."""
    for folder in (OUT, *ELSEWHERE.values()):
        fill_in(folder.with_suffix(".md"), folder)


def figures() -> list[tuple[Path, Figure]]:
    """Those that can be drawn from the rows on record, and the folder of each: they are never older than the table."""
    found = [(OUT, parity.figure(name, rows(OUT, f"parity-{name}"))) for name in ("cs-stanford", "debian-docs")]
    here = ELSEWHERE["refresh"]
    found.append((here, refresh.figure(rows(here, "refresh-policies"))))
    found.append((here, refresh_estimates.figure(rows(here, "refresh-estimates"))))
    here = ELSEWHERE["agents"]
    return found + [(here, each) for each in agents.scaling_figures(rows(here, "agents-scaling"))]


def rows(folder: Path, name: str) -> list[Row]:
    facts = json.loads((folder / f"{name}.json").read_text())
    found: list[Row] = facts["tables"][facts["title"]]["rows"]
    return found


def fill_in(page: Path, folder: Path) -> None:
    def fill(found: re.Match[str]) -> str:
        name, title = found[1], found[2].strip()
        facts = json.loads((folder / f"{name}.json").read_text())
        block = facts["tables"][title or facts["title"]]
        return f"<!-- table {name}{found[2]} -->\n{markdown(Block('', block['rows'], block['shown']))}<!-- end -->"

    text = re.sub(r"<!-- table ([\w-]+)([^>]*?) -->\n.*?<!-- end -->", fill, page.read_text(), flags=re.DOTALL)
    page.write_text(text)


def main() -> None:
    given = [argument for argument in sys.argv[1:] if argument != "--tables"]
    if "--tables" not in sys.argv:
        run(Path(given[0]) if given else Path("../shared/data/graphs"))
    tables()
    for folder, figure in figures():
        draw(figure, folder)


if __name__ == "__main__":
    main()

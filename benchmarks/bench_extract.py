"""What your functions cost: an empty one beside a crawl, and three selectors over an archive, next to Scrapy's parsel.

Everything is CPU time, so that a busy machine matters less; runs to be compared alternate, and the best of each counts:
the others were disturbed. What a process takes to start is measured on one page, and left out.

python -m benchmarks.bench_extract [--products 3000] [--repeats 3]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import RESULTS, ROOT, corpus, machine, peers, shop, table, write_section
from gossamer.functions.pool import ENVIRONMENT
from gossamer.testweb.running import RunningWeb

FUNCTIONS = """
def nothing(page):
    return None


def three(page):
    yield {"name": page.css("h1").text(), "price": page.css(".price").text(), "tags": page.css(".tag").texts()}
"""
# The CPU of the process that fetches, all its threads; processes that run functions are not counted.
CRAWL = """
import sys, time
from gossamer import Config, Crawl
directory, address, function, pages = sys.argv[1:]
values = {"resolve.map": {"*": address}, "polite.delay_s": 0.0, "polite.connections": 64, "limits.depth": 250,
          "crawl.pages": int(pages), "extract.functions": [function] if function else []}
crawl = Crawl(directory, ["http://shop.example/"], Config().replace(values))
start_s = time.process_time()
crawl.run()
print(time.process_time() - start_s)
"""
PARSEL = """
import pathlib, sys, time
from scrapy.http import HtmlResponse
bodies = [path.read_bytes() for path in sorted(pathlib.Path(sys.argv[1]).glob("*.html"))]
headers = {"Content-Type": "text/html; charset=utf-8"}
start_s = time.process_time()
for body in bodies:
    page = HtmlResponse("http://shop.example/product/1.html", body=body, headers=headers)
    page.css("h1::text").get(), page.css(".price::text").get(), page.css(".tag::text").getall()
print((time.process_time() - start_s) / len(bodies))
"""
# What no function that looks for elements can do without: a tree, and the same three. It has the memory settings of
# workers, and bytes that are UTF-8 already.
TREE = """
import pathlib, sys, time
from selectolax.lexbor import LexborHTMLParser
bodies = [path.read_bytes() for path in sorted(pathlib.Path(sys.argv[1]).glob("*.html"))]
start_s = time.process_time()
for body in bodies:
    page = LexborHTMLParser(body)
    page.css("h1")[0].text(), page.css(".price")[0].text(), [tag.text() for tag in page.css(".tag")]
print((time.process_time() - start_s) / len(bodies))
"""
FEW = 100  # pages of the crawl that measures starting


def printed(command: Sequence[str], at: Path, more: Mapping[str, str] = {}) -> float:
    environment = {**_environment(), **more}
    done = subprocess.run(command, cwd=at, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.splitlines()[-1])


def cpu_s(command: Sequence[str], at: Path) -> float:
    """The CPU of a command and all its processes."""
    process = subprocess.Popen(command, cwd=at, env=_environment(), stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def beside_a_crawl(scratch: Path, web: RunningWeb, pages: int, repeats: int) -> dict[str, float]:
    """Seconds a page of the fetching process, without functions and with an empty one."""
    found: dict[str, list[float]] = {"": [], "functions:nothing": []}
    for number in range(repeats):
        for function, seconds in found.items():
            run = [sys.executable, "-c", CRAWL]
            spent = [
                printed(
                    [*run, f"crawl-{number}-{len(function)}-{some}", web.address, function, str(some)],
                    scratch,
                )
                for some in (FEW, pages)
            ]
            seconds.append((spent[1] - spent[0]) / (pages - FEW))
    return {function: min(seconds) for function, seconds in found.items()}


def over_an_archive(scratch: Path, crawl: str, pages: int, repeats: int) -> dict[str, float]:
    """Seconds a page of `gossamer extract`, all its processes, one worker; of parsel, and of selectolax alone."""
    found: dict[str, list[float]] = {"three": [], "nothing": [], "parsel": [], "tree": []}
    products, python = str(scratch / "shop" / "product"), str(peers.VENV / "bin/python")
    for _ in range(repeats):
        for function in ("three", "nothing"):
            run = [sys.executable, "-m", "gossamer", "extract", crawl, f"functions:{function}", "--workers", "1"]
            start_s = cpu_s([*run, "--where", "url LIKE '%/product/1.html'"], scratch)
            found[function].append((cpu_s(run, scratch) - start_s) / pages)
        found["parsel"].append(printed([python, "-c", PARSEL, products], scratch))
        found["tree"].append(printed([sys.executable, "-c", TREE, products], scratch, ENVIRONMENT))
    return {name: min(seconds) for name, seconds in found.items()}


def report(pages: int, size: float, crawl: dict[str, float], archive: dict[str, float]) -> str:
    plain, empty = crawl[""], crawl["functions:nothing"]
    selectors = archive["three"] - archive["nothing"]
    rows = [
        ["", "µs/page", "pages/CPU s"],
        ["crawl, the fetching process", f"{plain * 1e6:,.0f}", f"{1 / plain:,.0f}"],
        ["the same with an empty function", f"{empty * 1e6:,.0f}", f"{1 / empty:,.0f}"],
        ["gossamer extract, empty function", f"{archive['nothing'] * 1e6:,.0f}", f"{1 / archive['nothing']:,.0f}"],
        ["gossamer extract, three selectors", f"{archive['three'] * 1e6:,.0f}", f"{1 / archive['three']:,.0f}"],
        ["of that, the selectors", f"{selectors * 1e6:,.0f}", f"{1 / selectors:,.0f}"],
        ["Scrapy's response.css (parsel), the same three", f"{archive['parsel'] * 1e6:,.0f}",
         f"{1 / archive['parsel']:,.0f}"],
        ["selectolax alone, the same three", f"{archive['tree'] * 1e6:,.0f}", f"{1 / archive['tree']:,.0f}"],
    ]  # fmt: skip
    less, in_all, most = (archive["parsel"] / each for each in (selectors, archive["three"], archive["tree"]))
    lines = [
        table(rows),
        "",
        f"- {pages:,} pages of {size / 1000:.0f} kB. An empty function costs the fetching process "
        f"{(empty - plain) * 1e6:,.0f} µs a page (60 are allowed).",
        f"- parsel is given bodies in memory. Beside it the selectors alone take {less:.1f} times less; with reading",
        f"  and unpacking WARC, passing pages to another process and storing items it is {in_all:.1f} times less.",
        "- We aim at 2,000 pages a second for `gossamer extract`, and at a fifth of parsel's time. What limits it is",
        f"  the tree: selectolax alone, with bodies in memory that nobody unpacks or decodes, takes {most:.1f} times",
        "  less than parsel.",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=3_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    peers.prepare()
    load = os.getloadavg()[0]
    corpus.CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=corpus.CACHE, prefix="extract-") as name:
        scratch = Path(name)
        (scratch / "functions.py").write_text(FUNCTIONS)
        products = shop.build(scratch / "shop", arguments.products) / "product"
        sizes = [path.stat().st_size for path in products.iterdir()]
        with RunningWeb(roots={shop.HOST: scratch / "shop"}) as web:
            pages = arguments.products
            crawl = beside_a_crawl(scratch, web, pages, arguments.repeats)
        archive = over_an_archive(scratch, f"crawl-0-0-{pages}", pages, arguments.repeats)
        text = f"`make bench-extract` on {machine()}; load {load:.1f} at the start\n\n"
        text += report(pages, sum(sizes) / len(sizes), crawl, archive)
    print(f"\n{text}\n")
    write_section("extract", text)
    print(f"bench: written to {RESULTS.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

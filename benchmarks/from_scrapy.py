"""The same shop scraped with Scrapy and with Gossamer: lines of code, CPU, and whether the items are the same.

python -m benchmarks.from_scrapy [--products 1000] [--repeats 2]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import RESULTS, ROOT, corpus, machine, peers, shop, table, write_section
from gossamer.testweb.running import RunningWeb

CONNECTIONS = 16
FEW = 20  # products of the shop that measures starting
SPIDER, FUNCTIONS = ROOT / "benchmarks" / "shop_spider.py", ROOT / "benchmarks" / "shop_functions.py"


@dataclass(frozen=True)
class Scraped:
    cpu_s: float
    items: list[dict[str, object]]


def spent_s(command: Sequence[str], at: Path) -> float:
    """CPU of a command and all its processes, from start to end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=at, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def items(path: Path) -> list[dict[str, object]]:
    return sorted((json.loads(line) for line in path.read_text().splitlines()), key=lambda item: item["sku"])


def with_scrapy(start: str, folder: Path) -> Scraped:
    settings = {
        "ROBOTSTXT_OBEY": "True",
        "CONCURRENT_REQUESTS": CONNECTIONS,
        "CONCURRENT_REQUESTS_PER_DOMAIN": CONNECTIONS,
        "DOWNLOAD_DELAY": 0,
        "LOG_ENABLED": "False",
        "TWISTED_DNS_RESOLVER": "benchmarks.scrapy_spider.LoopbackResolver",
    }
    given = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    (folder / "shop_spider.py").write_text(f"{SPIDER.read_text()}    start_urls = [{start!r}]\n")
    run = [str(peers.VENV / "bin/python"), "-m", "scrapy", "runspider", "shop_spider.py", "-O", "scrapy.jsonl", *given]
    return Scraped(spent_s(run, folder), items(folder / "scrapy.jsonl"))


def with_gossamer(start: str, address: str, folder: Path) -> Scraped:
    run = [sys.executable, "-m", "gossamer"]
    crawl = ["crawl", start, "--dir", "crawl", "--extract", f"{FUNCTIONS}:product", "--testweb", address]
    crawl += ["--delay", "0", "--connections", str(CONNECTIONS), "--depth", "200", "--quiet"]
    cpu_s = spent_s([*run, *crawl], folder)
    cpu_s += spent_s([*run, "export", "crawl", "--items", "gossamer.jsonl"], folder)
    return Scraped(cpu_s, items(folder / "gossamer.jsonl"))


def lines(path: Path) -> int:
    return sum(bool(line.strip()) for line in path.read_text().splitlines())


def scraped(folder: Path, products: int, repeats: int) -> tuple[int, dict[str, float]]:
    """How many pages a shop has, and the CPU that each needs for it at best; their items must be those of the shop."""
    site = shop.build(folder / "shop", products)
    truth, found = shop.items(products), dict.fromkeys(("Scrapy 2.19", "Gossamer"), float("inf"))
    with RunningWeb(roots={shop.HOST: site}) as web:
        start = f"http://{shop.HOST}:{web.address.rpartition(':')[2]}/"
        for number in range(repeats):
            scratch = folder / str(number)
            scratch.mkdir()
            for name, run in (
                ("Scrapy 2.19", with_scrapy(start, scratch)),
                ("Gossamer", with_gossamer(start, web.address, scratch)),
            ):
                if run.items != truth:
                    raise RuntimeError(f"the items of {name} are not those of the shop")
                found[name] = min(found[name], run.cpu_s)
    return sum(1 for _ in site.rglob("*.html")), found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    peers.prepare()
    load = os.getloadavg()[0]
    corpus.CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=corpus.CACHE, prefix="shop-") as name:
        few, start_s = scraped(Path(name) / "few", FEW, arguments.repeats)
        pages, cpu_s = scraped(Path(name) / "all", arguments.products, arguments.repeats)
    code = {"Scrapy 2.19": lines(SPIDER), "Gossamer": lines(FUNCTIONS)}
    head = ["", "lines of code", "items", f"CPU s, {few} pages", f"CPU s, {pages:,} pages", "pages/CPU s between"]
    rows = [head]
    for peer, most_s in cpu_s.items():
        rate = (pages - few) / (most_s - start_s[peer])
        figures = [f"{start_s[peer]:.1f}", f"{most_s:.1f}", f"{rate:,.0f}"]
        rows.append([peer, str(code[peer]), f"{arguments.products:,}", *figures])
    text = f"`python -m benchmarks.from_scrapy` on {machine()}; load {load:.1f} at the start\n\n{table(rows)}\n\n"
    text += "- The items of both are those of the shop. CPU of all processes from start to end, functions and export\n"
    text += "  included. A shop of a few pages is mostly starting; between the two sizes that is left out.\n"
    text += "- Gossamer stores the pages, too (WARC, tables, index); Scrapy keeps the items only."
    print(f"\n{text}\n")
    write_section("from Scrapy", text)
    print(f"bench: written to {RESULTS.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Microseconds of CPU per page of each stage of parse_html, and what the scanner gains over the tree.

"known": other pages of the directory were read before, so that what references mean is remembered; "new": none.

python -m benchmarks.bench_parse [DIRECTORY of HTML files]     (default: made-up pages of 33 KB, 134 links)
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from gossamer.web import html, tree
from gossamer.web.charset import declared_charset
from gossamer.web.url import page_keys, resolve_all

PAGES = 400
REPEATS = 5
AGENT = "gossamer"
MAX_LINKS = 10_000

Page = tuple[bytes, str]


def made_up(number: int) -> Page:
    """About 33 KB, 134 links, 57 targets: the means of Debian's documentation."""
    links = [f"../section{i % 57 % 8}/page{(number + i) % 57}.html#part{i}" for i in range(134)]
    rows = [
        f'<li class="toctree-l1"><a class="reference internal" href="{link}">Topic {i}</a>'
        f'<p id="p{i}">{"Some words about the topic. " * 4}<code class="xref">name_{i}</code></p></li>\n'
        for i, link in enumerate(links)
    ]
    head = f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Page {number}</title></head>\n'
    return (head + f"<body><ul>\n{''.join(rows)}</ul></body></html>\n").encode(), f"http://made.example/d/{number}.html"


def pages_of(directory: Path) -> list[Page]:
    files = sorted(f for f in directory.rglob("*.htm*") if f.is_file() and f.suffix in (".html", ".htm"))
    chosen = files[:: max(1, len(files) // PAGES)][:PAGES]
    return [(f.read_bytes(), f"http://docs.example/{f.relative_to(directory)}") for f in chosen]


def microseconds(stage: Callable[[Page], object], pages: list[Page]) -> float:
    """Per page, the best of some runs: the others were disturbed."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        for page in pages:
            stage(page)
        best = min(best, time.process_time() - start)
    return best / len(pages) * 1e6


def main() -> None:
    pages = pages_of(Path(sys.argv[1])) if len(sys.argv) > 1 else [made_up(n) for n in range(PAGES)]
    if not pages:
        sys.exit(f"no HTML files in {sys.argv[1]}")
    charsets = {url: declared_charset(body) for body, url in pages}
    documents = {url: html.parse_html(body, url) for body, url in pages}
    hrefs = {url: list(html.tokenise(body, charsets[url], AGENT, MAX_LINKS).hrefs) for body, url in pages}
    mean = sum(len(body) for body, _ in pages) / len(pages)
    references = sum(map(len, hrefs.values())) / len(pages)
    print(f"{len(pages)} pages of {mean / 1000:.1f} KB with {references:.0f} distinct references")

    def through_tree(page: Page) -> object:
        return tree.tokenise(page[0], charsets[page[1]], AGENT, MAX_LINKS)

    def through_default(page: Page) -> object:
        return html.tokenise(page[0], charsets[page[1]], AGENT, MAX_LINKS)

    stages: dict[str, Callable[[Page], object]] = {
        "charset": lambda page: declared_charset(page[0]),
        "tokenise, tree": through_tree,
        "tokenise, scanner" if html.scan else "tokenise, no scanner built": through_default,
        "resolve, known": lambda page: resolve_all(hrefs[page[1]], page[1]),
        "resolve, new": lambda page: resolve_all(hrefs[page[1]], f"http://{next(fresh)}.example/d/x.html"),
        "page keys": lambda page: page_keys(documents[page[1]].links),
        "parse_html, known": lambda page: html.parse_html(*page),
        "parse_html, new": lambda page: html.parse_html(page[0], f"http://{next(fresh)}.example/d/x.html"),
    }
    fresh = iter(range(10**9))
    figures = {name: microseconds(stage, pages) for name, stage in stages.items()}
    for name, figure in figures.items():
        print(f"{name:28}{figure:9.1f} µs/page")
    if html.scan:
        ratio = figures["tokenise, tree"] / figures["tokenise, scanner"]
        print(f"scanner: {ratio:.1f} times as fast as the tree (selectolax)")


if __name__ == "__main__":
    main()

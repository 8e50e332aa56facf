"""Scores what finds the text of pages: on the article extraction benchmark, and on our own 50 pages.

The benchmark has news articles of 2019 with their text (github.com/scrapinghub/article-extraction-benchmark, MIT).
It is downloaded once, into .cache/articles; its pages are other people's, and not in our repository. The measure is its
own: of each page the runs of four words that are found and that should be, as often as they occur, give precision and
recall; the means of these give F1. The figure behind it is 1.96 times the deviation over 1,000 draws of the pages.

Run: python -m benchmarks.bench_articles [--from DIR|FILE.tar.gz|URL]
"""

import argparse
import gzip
import io
import json
import os
import re
import shutil
import sys
import tarfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from benchmarks import bench_text
from benchmarks.corpus import CACHE

_COMMIT = "11b407d43934becc20873bb3dcd5e3d2591746d3"  # pages and texts are the same since
SOURCE = f"https://codeload.github.com/scrapinghub/article-extraction-benchmark/tar.gz/{_COMMIT}"
TRUTH, PAGES = "ground-truth.json", "html"
_RUN = 4  # words
_DRAWS = 1_000
_TIMEOUT_S = 60.0
_WORD = re.compile(r"\w+")


class Article(NamedTuple):
    """`Article` is a page, and the text that should be found."""

    html: str
    text: str


class Score(NamedTuple):
    precision: float
    recall: float
    f1: float
    give_or_take: float
    cpu_ms: float  # of a page


def articles(directory: Path) -> list[Article]:
    """Returns the benchmark's pages from a copy of its repository."""
    texts = json.loads((directory / TRUTH).read_text("utf-8"))
    return [
        Article(
            gzip.decompress((directory / PAGES / f"{name}.html.gz").read_bytes()).decode("utf-8", "replace"),
            item.get("articleBody") or "",
        )
        for name, item in sorted(texts.items())
    ]


def copy_of(source: str, cache: Path) -> Path:
    """Returns a directory that has the benchmark: the source itself, or what was downloaded from there."""
    if (Path(source) / TRUTH).is_file():
        return Path(source)
    if (cache / TRUTH).is_file() and source == SOURCE:
        return cache
    if Path(source).is_file():
        data = Path(source).read_bytes()
    else:
        with urllib.request.urlopen(source, timeout=_TIMEOUT_S) as answer:
            data = answer.read()
    unpack(data, cache)
    return cache


def unpack(data: bytes, to: Path) -> None:
    """Unpacks the texts and the pages, and nothing else, whatever names the archive has; all of it, or nothing."""
    part = to.with_name(f"{to.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    (part / PAGES).mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            is_page = path.parent.name == PAGES and path.name.endswith(".html.gz")
            if (is_page or path.name == TRUTH) and (file := archive.extractfile(member)) is not None:
                (part / (PAGES if is_page else "") / path.name).write_bytes(file.read())
    shutil.rmtree(to, ignore_errors=True)
    os.replace(part, to)


def matched(found: str, text: str) -> tuple[float, float, float]:
    """Returns which shares of all runs of words of both texts are in both, in the first only, and in the second."""
    ours, theirs = _runs(found), _runs(text)
    both, either = (ours & theirs).total(), (ours | theirs).total()
    if not either:
        return 0.0, 0.0, 0.0
    return both / either, (ours.total() - both) / either, (theirs.total() - both) / either


def _runs(text: str) -> Counter[tuple[str, ...]]:
    """Returns all runs of four words; a shorter text is one run."""
    words = _WORD.findall(text)
    return Counter(tuple(words[at : at + _RUN]) for at in range(max(len(words) - _RUN + 1, min(len(words), 1))))


def precision_and_recall(shares: np.ndarray) -> tuple[float, float]:
    """Returns the means over the pages of which something was found, and of which something should be."""
    both, too_much, missed = shares.T
    found, there = both + too_much > 0, both + missed > 0
    return (
        float(np.mean(both[found] / (both + too_much)[found])) if found.any() else 0.0,
        float(np.mean(both[there] / (both + missed)[there])) if there.any() else 0.0,
    )


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def score(function: Callable[[str], str], pages: Sequence[Article]) -> Score:
    """Scores a function; its time is that of the second time."""
    shares = np.array([matched(function(page.html), page.text) for page in pages])
    began_s = time.process_time()
    for page in pages:
        function(page.html)
    cpu_ms = (time.process_time() - began_s) / len(pages) * 1000
    chance = np.random.default_rng(1)
    draws = (shares[chance.integers(0, len(shares), len(shares))] for _ in range(_DRAWS))
    deviation = float(np.std([f1(*precision_and_recall(draw)) for draw in draws]))
    precision, recall = precision_and_recall(shares)
    return Score(precision, recall, f1(precision, recall), 1.96 * deviation, cpu_ms)


def report(pages: Sequence[Article]) -> str:
    """Returns both tables, as Markdown."""
    lines = [f"The article extraction benchmark, {len(pages)} pages:", ""]
    lines += ["| function | precision | recall | F1 | ms of CPU a page |", "|---|---|---|---|---|"]
    for name, function in bench_text.FUNCTIONS.items():
        of = score(function, pages)
        figures = f"{of.precision:.3f} | {of.recall:.3f} | {of.f1:.3f} ± {of.give_or_take:.3f} | {of.cpu_ms:.2f}"
        lines.append(f"| `{name}` | {figures} |")
    return "\n".join([*lines, "", "Our own 50 pages, by single words:", "", bench_text.table()])


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", default=SOURCE, help="a copy of the benchmark, or its address")
    parser.add_argument("--cache", type=Path, default=CACHE / "articles", help="where what is downloaded is kept")
    arguments = parser.parse_args(words)
    try:
        pages = articles(copy_of(arguments.source, arguments.cache))
    except (OSError, ValueError, tarfile.TarError) as error:
        print(
            f"{arguments.source} cannot be had here, or is not the benchmark ({error}); where there is a network, "
            "git clone https://github.com/scrapinghub/article-extraction-benchmark, and give its place with --from",
            file=sys.stderr,
        )
        return 1
    print(report(pages))
    return 0


if __name__ == "__main__":
    sys.exit(main())

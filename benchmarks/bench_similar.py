"""Measures how many near-duplicates MinHash and simhash find, how many false ones, and at what cost.

The pages are of the test web, where many share whole paragraphs; of each a copy is made with a share of its words
replaced by others. Beside our simhash, one bit of each of 64 hashes, stands the one in which all runs of words vote
(Charikar 2002). Times are CPU. Run: python -m benchmarks.bench_similar [--pages 10000] [--corpus DIR], where DIR has
real pages (`make bench` keeps some in .cache/corpus), of which the cost is measured, too.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb
from gossamer.web.answer import Answer
from gossamer.web.html import text_of
from gossamer.web.main_text import main_text
from gossamer.web.similar import SIMHASH_BITS, Simhashes, Words, groups, minhash, simhash

PAGES = 10_000
COPIES = 1_000
REAL = 300
_LEAST_WORDS = 50
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"


def pages(count: int = PAGES) -> list[str]:
    """The main texts of pages that differ."""
    spec = WebSpec.plain(seed=5, hosts=50, pages=count + count // 4, page_bytes=4_000.0)
    web, found = SyntheticWeb(spec), dict[str, None]()
    for page in web.pages():
        parts = urlsplit(web.url(page))
        body = web.response(parts.netloc, parts.path or "/", 0.0, {}).body
        text = main_text(body.decode("utf-8", "replace")) or text_of(body, "text/html")
        if len(text.split()) >= _LEAST_WORDS:
            found[text] = None
        if len(found) == count:
            break
    return list(found)


def changed(text: str, share: float, chance: random.Random) -> str:
    words = text.split()
    for place in chance.sample(range(len(words)), max(round(share * len(words)), 1)):
        words[place] = f"word{chance.randrange(10**6)}"
    return " ".join(words)


def votes(runs: Any) -> int:
    """Returns a number of which each bit is what most of the runs have there."""
    bits = np.unpackbits(runs.astype(">u8").view(np.uint8).reshape(-1, 8), axis=1)
    return int.from_bytes(np.packbits(bits.sum(axis=0, dtype=np.int64) * 2 > len(runs)).tobytes(), "big")


def close_pairs(hashes: np.ndarray) -> list[int]:
    """Returns how many pairs differ in at most 0, 1, 2 ... bits."""
    found = np.zeros(65, np.int64)
    for i in range(len(hashes)):
        found += np.bincount(np.bitwise_count(hashes[i + 1 :] ^ hashes[i]), minlength=65)
    return list(map(int, np.cumsum(found)))


def timed(function: Callable[[Any], Any], values: Sequence[Any]) -> tuple[list[Any], float]:
    """Returns the results, and milliseconds of CPU for each."""
    began_s = time.process_time()
    found = [function(value) for value in values]
    return found, (time.process_time() - began_s) / len(values) * 1000


def cost(bodies: Sequence[bytes]) -> float:
    """Returns what `archive.simhash` adds to a page, in milliseconds of CPU."""
    simhashes = Simhashes(1.0)
    return timed(lambda body: simhashes.of(0, Answer(_HEAD, body)), bodies)[1]


def real(corpus: Path) -> list[bytes]:
    files = sorted(path for path in corpus.rglob("*.html") if path.is_file())
    return [path.read_bytes() for path in random.Random(1).sample(files, min(REAL, len(files)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--corpus", type=Path, help="a directory with HTML files")
    arguments = parser.parse_args()
    texts, chance, words = pages(arguments.pages), random.Random(20), Words()
    copied = texts[:COPIES]
    print(f"{len(texts):,} pages, {np.mean([len(text.split()) for text in texts]):.0f} words on average; ms of CPU:")
    runs, runs_ms = timed(words.runs, texts)
    signatures, minhash_ms = timed(minhash, runs)
    simhash_ms = timed(simhash, runs)[1]
    print(f"runs of words {runs_ms:.2f}, minhash {minhash_ms:.2f}, simhash {simhash_ms:.2f}")
    false = sum(i != first for i, first in enumerate(groups(np.array(signatures))))
    print(f"MinHash: {false} pages repeat another, of {len(texts):,}")
    copies = {share: [words.runs(changed(text, share, chance)) for text in copied] for share in (0.01, 0.05)}
    for share, theirs in copies.items():
        joined = groups(np.array([*signatures[: len(copied)], *map(minhash, theirs)]))
        found = np.mean([joined[i + len(copied)] == joined[i] for i in range(len(copied))])
        print(f"MinHash, {share:.0%} of words changed: {found:.1%} found")
    for name, function, most in (("simhash", simhash, range(3, 7)), ("votes", votes, range(5, 9))):
        values = np.array([function(each) for each in runs], np.uint64)
        pairs = close_pairs(values)
        apart = {
            share: np.bitwise_count(values[: len(copied)] ^ np.array([function(each) for each in theirs], np.uint64))
            for share, theirs in copies.items()
        }
        for bits in most:
            shares = ", ".join(f"{np.mean(found <= bits):.1%} at {share:.0%}" for share, found in apart.items())
            mark = " (SIMHASH_BITS)" if function is simhash and bits == SIMHASH_BITS else ""
            print(f"{name}, {bits} bits{mark}: {shares} found; {pairs[bits]} false pairs")
    if arguments.corpus:
        bodies = real(arguments.corpus)
        kb = np.mean([len(body) for body in bodies]) / 1000
        print(f"archive.simhash, {len(bodies)} real pages of {kb:.0f} kB: {cost(bodies):.2f} ms a page")


if __name__ == "__main__":
    main()

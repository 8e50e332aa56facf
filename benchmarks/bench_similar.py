"""Measures how many near-duplicates MinHash and simhash find, and at what cost, on pages of the test web.

Of each page a copy is made with a share of its words replaced by others. Run: python -m benchmarks.bench_similar
"""

import random
import time
from urllib.parse import urlsplit

import numpy as np

from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb
from gossamer.web.html import text_of
from gossamer.web.main_text import main_text
from gossamer.web.similar import SIMHASH_BITS, Words, groups, minhash, simhash

PAGES = 10_000
COPIES = 1_000
_LEAST_WORDS = 50


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


def distances(hashes: np.ndarray) -> np.ndarray:
    """The least distance of each to any other."""
    least = np.full(len(hashes), 64, np.uint8)
    for i in range(len(hashes)):
        apart = np.bitwise_count(hashes ^ hashes[i])
        apart[i] = 64
        least[i] = apart.min()
    return least


if __name__ == "__main__":
    texts, chance, words = pages(), random.Random(20), Words()
    print(
        f"{len(texts):,} pages of the test web, {np.mean([len(text.split()) for text in texts]):.0f} words on average"
    )
    runs = [words.runs(text) for text in texts]
    began_s = time.perf_counter()
    for text in texts[:COPIES]:
        words.runs(text)
    each_ms = time.perf_counter() - began_s
    began_s = time.perf_counter()
    signatures = np.array([minhash(each) for each in runs])
    min_ms = (time.perf_counter() - began_s) / len(runs) * 1000
    began_s = time.perf_counter()
    hashes = np.array([simhash(each) for each in runs], np.uint64)
    sim_ms = (time.perf_counter() - began_s) / len(runs) * 1000
    began_s = time.perf_counter()
    found = groups(signatures)
    all_s = time.perf_counter() - began_s
    print(f"ms a page: runs of words {each_ms:.2f}, minhash {min_ms:.2f}, simhash {sim_ms:.2f}; grouping {all_s:.1f} s")
    print(
        f"pairs among different pages: minhash {sum(i != first for i, first in enumerate(found))}, "
        f"simhash {int((distances(hashes) <= SIMHASH_BITS).sum())} pages"
    )
    for share in (0.01, 0.05):
        copies = [words.runs(changed(text, share, chance)) for text in texts[:COPIES]]
        both = np.concatenate((signatures[:COPIES], np.array([minhash(each) for each in copies])))
        joined = groups(both)
        by_minhash = np.mean([joined[i + COPIES] == joined[i] for i in range(COPIES)])
        apart = np.bitwise_count(hashes[:COPIES] ^ np.array([simhash(each) for each in copies], np.uint64))
        by_simhash = np.mean(apart <= SIMHASH_BITS)
        print(f"{share:.0%} of words changed: minhash finds {by_minhash:.1%}, simhash {by_simhash:.1%}")

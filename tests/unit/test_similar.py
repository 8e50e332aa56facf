"""Texts that nearly repeat each other."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from sample_archive import Sample, page

from gossamer.archive.export_text import WHOLE, export_text
from gossamer.archive.near_duplicates import near_duplicates
from gossamer.archive.query import ask
from gossamer.cli.app import main
from gossamer.web.similar import Words, groups, minhash, simhash

VOCABULARY = [f"word{n}" for n in range(3_000)]


def text(chance: random.Random, count: int = 400) -> list[str]:
    return chance.choices(VOCABULARY, k=count)


def changed(words: list[str], share: float, chance: random.Random) -> list[str]:
    copy = list(words)
    for place in chance.sample(range(len(copy)), round(share * len(copy))):
        copy[place] = "other"
    return copy


def test_minhash_finds_copies_with_one_word_in_twenty_changed_and_nothing_else() -> None:
    chance, words = random.Random(1), Words()
    originals = [text(chance) for _ in range(300)]
    copies = [changed(each, 0.05, chance) for each in originals]
    found = groups(np.array([minhash(words.runs(" ".join(each))) for each in originals + copies]))
    assert found[:300] == list(range(300))
    assert sum(found[i + 300] == i for i in range(300)) >= 297
    assert all(found[i + 300] in (i, i + 300) for i in range(300))


def test_simhash_of_copies_with_one_word_in_a_hundred_changed() -> None:
    chance, words = random.Random(2), Words()
    originals = [text(chance) for _ in range(300)]
    copies = [changed(each, 0.01, chance) for each in originals]
    first, second = ([simhash(words.runs(" ".join(each))) for each in made] for made in (originals, copies))
    assert sum((a ^ b).bit_count() <= 8 for a, b in zip(first, second, strict=True)) >= 255
    assert not [(a, b) for i, a in enumerate(first) for b in first[:i] if (a ^ b).bit_count() <= 8]


def test_the_order_of_words_counts_and_few_words_are_a_text() -> None:
    words = Words()
    assert simhash(words.runs("a b c d")) != simhash(words.runs("d c b a"))
    assert simhash(words.runs("")) == 0
    assert len(words.runs("one two")) == 1
    assert words.runs("A, b - c!").tolist() == words.runs("a b c").tolist()


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    chance = random.Random(3)
    one, other = text(chance), text(chance)
    bodies = {"a": one, "b": changed(one, 0.02, chance), "c": other, "d": ["not", "found"], "e": ["not", "found"]}
    sample = Sample(tmp_path / "crawl")
    pages = [page(f"http://a.test/{n}", " ".join(ws), after_s=i) for i, (n, ws) in enumerate(bodies.items())]
    sample.commit([f"http://a.test/{name}" for name in bodies], pages)
    return tmp_path / "crawl"


def test_the_older_page_is_the_one_that_is_repeated(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = near_duplicates(crawl, WHOLE)
    assert (found.url, found.of) == ("http://a.test/b", "http://a.test/a")
    assert 0.7 < found.similarity < 1
    assert main(["duplicates", str(crawl), "--whole", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["of"] == "http://a.test/a"


def test_distinct_pages_are_exported_once(crawl: Path, tmp_path: Path) -> None:
    assert main(["export", str(crawl), "--text", str(tmp_path / "out.jsonl"), "--distinct"]) == 0
    urls = [json.loads(line)["url"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert urls == [f"http://a.test/{name}" for name in "acde"]
    assert export_text(crawl, tmp_path / "all.jsonl") == 5


def test_simhash_in_sql(crawl: Path) -> None:
    sql = "SELECT url, simhash(text(warc, warc_offset)) AS bits FROM pages ORDER BY url"
    a, b, c, *_ = [row["bits"] for row in ask(crawl, sql)]
    assert (a ^ b).bit_count() < (a ^ c).bit_count()
    (row,) = ask(crawl, "SELECT bit_count(xor(simhash('a b c d'), simhash('a b c d'))) AS apart")
    assert row["apart"] == 0

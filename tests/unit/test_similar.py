"""Texts that nearly repeat each other."""

import json
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sample_archive import Sample, page

from gossamer.archive.export import export_warc
from gossamer.archive.export_text import WHOLE, export_text
from gossamer.archive.near_duplicates import near_duplicates
from gossamer.archive.query import ask
from gossamer.cli.app import main
from gossamer.web.similar import SIMHASH_BITS, Words, groups, groups_of, minhash, simhash

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


def test_texts_that_have_nearly_half_of_their_runs_in_common_are_no_copies() -> None:
    """Of a simhash in which all runs vote 8 bits were needed to find copies. That took 6 of these for copies, and 32
    among 10,000 pages of the test web."""
    chance, words = random.Random(6), Words()
    originals = [text(chance, 300) for _ in range(1_000)]
    others = [each[:190] + text(chance, 110) for each in originals]
    first, second = ([simhash(words.runs(" ".join(each))) for each in made] for made in (originals, others))
    assert min((a ^ b).bit_count() for a, b in zip(first, second, strict=True)) > SIMHASH_BITS


def test_simhashes_are_grouped_as_if_each_was_compared_with_each() -> None:
    chance = random.Random(6)
    values = [chance.getrandbits(64) for _ in range(300)]
    for apart in (0, 1, 2, 3, 4, 4, 4, 5, 6, 30):
        values += [each ^ sum(1 << bit for bit in chance.sample(range(64), apart)) for each in values[:300:7]]
    chance.shuffle(values)
    expected = list(range(len(values)))
    for value in values:  # the first of a group comes before all others
        near = [j for j in range(len(values)) if (value ^ values[j]).bit_count() <= SIMHASH_BITS]
        least = min(expected[j] for j in near)
        joined = {expected[j] for j in near}
        expected = [least if each in joined else each for each in expected]
    assert list(groups_of(np.array(values, np.uint64))) == expected
    assert list(groups_of(np.array([], np.uint64))) == []


def test_a_large_text_is_hashed_piece_by_piece() -> None:
    runs = np.random.default_rng(7).integers(0, 1 << 63, 20_000, np.uint64)
    pieces = [minhash(runs[start : start + 1_000]) for start in range(0, len(runs), 1_000)]
    assert minhash(runs).tolist() == np.min(pieces, axis=0).tolist()
    tracemalloc.start()
    minhash(np.resize(runs, 200_000))
    assert tracemalloc.get_traced_memory()[1] < 32 << 20, "all at once they take 400 MB"
    tracemalloc.stop()


def test_words_that_never_end_are_not_remembered_whole() -> None:
    words = Words()
    assert len(words.runs("x" * 1_000_000)) == 1, "all pieces are the same word"
    assert max(map(len, words._known)) <= 64


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


def test_quick_is_by_the_simhashes_that_were_noted_and_by_the_text_of_other_pages(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of what is imported without them, nobody has noted simhashes; with a share of 0.3, that of one."""
    files = export_warc(crawl, tmp_path / "files")
    signed = "SELECT url, simhash, simhash(main_text(warc, warc_offset)) AS made FROM pages ORDER BY url"
    for share in (0, 0.3, 1):
        directory = tmp_path / str(share)
        assert main(["import", *map(str, files), "--dir", str(directory), "--simhash", str(share)]) == 0
        noted = ask(directory, signed)
        assert [row["simhash"] for row in noted] == {
            0: [None] * 5,
            0.3: [None, noted[1]["made"], None, None, None],
            1: [*(row["made"] for row in noted[:3]), 0, 0],  # "not found" is hardly any text
        }[share]
        (found,) = near_duplicates(directory, is_quick=True)
        assert (found.url, found.of) == ("http://a.test/b", "http://a.test/a")
        out = tmp_path / f"{share}.jsonl"
        assert main(["export", str(directory), "--text", str(out), "--distinct", "--quick"]) == 0
        assert len(out.read_text().splitlines()) == 4
    assert main(["duplicates", str(crawl), "--quick", "--whole"]) == 2
    assert "leave out --whole" in capsys.readouterr().err

"""The article extraction benchmark, of which the tests make a small copy in its own format."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks import bench_text
from benchmarks.bench_articles import Article, articles, main, matched, precision_and_recall, score


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A directory as the benchmark's repository: our own pages, and one that has no text."""
    found = tmp_path / "article-extraction-benchmark-0"
    (found / "html").mkdir(parents=True)
    texts = {}
    for number, (html, words) in enumerate([*bench_text.pages(4), ("<p>", [])]):
        name = f"{number:064x}"
        (found / "html" / f"{name}.html.gz").write_bytes(gzip.compress(html.encode()))
        texts[name] = {"articleBody": " ".join(words), "url": f"http://a.test/{number}"}
    (found / "ground-truth.json").write_text(json.dumps(texts), "utf-8")
    return found


def packed(copy: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(copy, copy.name)
        archive.addfile(tarfile.TarInfo("../../html/../outside.py"))
    return data.getvalue()


def test_runs_of_words_are_matched_as_often_as_they_occur() -> None:
    assert matched("a b c d e", "a b c d e") == (1.0, 0.0, 0.0)
    assert matched("a b c d e", "a b c d x") == (1 / 3, 1 / 3, 1 / 3)
    assert matched("a b c d, a b c d", "a b c d") == (1 / 5, 4 / 5, 0.0)
    assert matched("a b", "a, b!") == (1.0, 0.0, 0.0), "a short text is one run"
    assert matched("A b", "a b") == (0.0, 0.5, 0.5)
    assert matched("", "") == (0.0, 0.0, 0.0)


def test_each_page_counts_as_much_as_any_other() -> None:
    text = "one two three four five six"
    pages = [Article("all", text), Article("half", text), Article("nothing", text), Article("all", "")]
    found = {"all": text, "half": "one two three four", "nothing": ""}
    of = score(lambda html: found[html], pages)
    assert of.precision == pytest.approx((1 + 1 + 0) / 3), "of the page of which nothing is found there is none"
    assert of.recall == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert of.f1 == pytest.approx(2 * of.precision * of.recall / (of.precision + of.recall))
    assert precision_and_recall(np.zeros((3, 3))) == (0.0, 0.0)


def test_a_copy_is_scored_with_our_own_pages(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(articles(copy)) == 5
    assert main(["--from", str(copy)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("5 pages:")
    for name in bench_text.FUNCTIONS:
        assert sum(f"`{name}`" in line for line in lines) == 2, "in both tables"


def test_what_is_downloaded_is_kept_and_nothing_else_is_written(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(packed(copy))
    cache = tmp_path / "cache" / "articles"
    cache.parent.mkdir()
    assert main(["--from", (tmp_path / "x.tar.gz").as_uri(), "--cache", str(cache)]) == 0
    assert articles(cache) == articles(copy)
    assert {path.name for path in cache.iterdir()} == {"ground-truth.json", "html"}
    assert not list(tmp_path.rglob("outside.py"))
    assert main(["--cache", str(cache)]) == 0, "nothing is downloaded again"


def test_without_a_network_it_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--from", (tmp_path / "none.tar.gz").as_uri(), "--cache", str(tmp_path / "cache")]) == 1
    assert "git clone" in capsys.readouterr().err
    (tmp_path / "broken.tar.gz").write_bytes(b"<html>Not Found")
    assert main(["--from", str(tmp_path / "broken.tar.gz"), "--cache", str(tmp_path / "cache")]) == 1
    assert not (tmp_path / "cache").exists()

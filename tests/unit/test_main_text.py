"""Main text, Markdown, language and licence hints."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sample_archive import Sample, page

from gossamer import Crawl
from gossamer.archive.export_text import Form, export_text
from gossamer.cli.app import main
from gossamer.errors import ConfigError
from gossamer.web.html import text_of
from gossamer.web.main_text import language_of, licences_of, main_text, markdown

pytest.importorskip("resiliparse")
pytest.importorskip("py3langid")

ARTICLE = """<html lang=fr><head><title>Spiders</title><link rel=license href="https://cc.test/by/4.0/"></head><body>
<nav><a href=/>Home</a> <a href=/about>About us</a></nav><div style="display: none">never seen</div><main><article>
<h1>How spiders fly</h1><p>Small spiders climb to a high place, let out a fine thread, and are carried away by the wind
for many kilometres. See <a href="/gossamer?a=1&amp;b=2">what gossamer is</a> [1].</p><pre>def fly():
    return "away"
</pre><p>On warm days in autumn thousands of threads cover the fields in the morning, and nobody sees who made them.</p>
</article></main><footer>All rights reserved. Cookies.</footer></body></html>"""


def test_what_surrounds_a_page_is_left_out() -> None:
    found = main_text(ARTICLE)
    assert "carried away by the wind" in found
    assert 'def fly():\n    return "away"' in found
    assert not [word for word in ("Home", "About us", "Cookies", "never seen") if word in found]


def test_markdown_keeps_headings_code_and_links() -> None:
    found = markdown(ARTICLE)
    assert found.startswith("# How spiders fly\n")
    assert "[what gossamer is](/gossamer?a=1&b=2)" in found
    assert '```\ndef fly():\n    return "away"\n```' in found
    assert r"\[1\]" in found


def test_a_page_nested_too_deep_for_a_tree_gives_all_its_text() -> None:
    # Hours, if a tree were built.
    for markup in ("<div>" * 20_000 + "x", "<div></b>" * 20_000 + "x", "<a>" * 20_000 + "x" + "</a>" * 20_000):
        assert main_text(markup) == markdown(markup) == "x"
    assert main_text("<div><table></div></table>" * 20_000 + "x") == "x", "end tags that a parser ignores"


def test_licences_are_looked_for_in_linear_time() -> None:
    assert licences_of("<a " * 300_000 + "<a rel=license href=/cc>") == ["/cc"]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Small spiders climb to a high place and are carried away.", "en"),
        ("Kleine Spinnen klettern auf einen hohen Ort und fliegen davon.", "de"),
        ("Маленькие пауки забираются на высокое место.", "ru"),
        ("12 34", ""),
        ("", ""),
    ],
)
def test_the_language_is_told_by_the_text(text: str, language: str) -> None:
    assert language_of(text) == language


def test_licence_hints() -> None:
    html = """<a rel="nofollow license" href='https://cc.test/a'>x</a><meta name="DC.rights" content="CC0 &amp; more">
    <script type="application/ld+json">{"license": "https://cc.test/b", "x": {"license": {"url": "https://cc.test/c"}}}
    </script><a href=/license>our license</a>"""
    assert licences_of(html) == ["https://cc.test/a", "CC0 & more", "https://cc.test/b", "https://cc.test/c"]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>a</p><div hidden><div>no</div>no</div>b", "a\nb"),
        ("a<span style='color:red;display:none'>no</span>b", "ab"),
        ("a<div title='a hidden treasure'>b</div>", "a\nb"),
        ("a<div hidden>never closed", "a\nnever closed"),
        ("<script>'<div hidden>'</script>a<div>b</div>", "a\nb"),
        ("<div HIDDEN='x'>no</div>a", "a"),
    ],
)
def test_text_leaves_out_what_is_hidden(markup: str, text: str) -> None:
    assert text_of(markup.encode(), "text/html; charset=utf-8") == text


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    urls = [f"http://a.test/{n}" for n in range(5)]
    sample = Sample(tmp_path / "crawl")
    sample.commit(urls, [page(url, ARTICLE.replace("Spiders", url)) for url in urls])
    return tmp_path / "crawl"


def test_sql_and_pages(crawl: Path) -> None:
    sql = """SELECT main_text(warc, warc_offset) AS text, markdown(warc, warc_offset) AS md,
        language_of(main_text(warc, warc_offset)) AS language FROM pages LIMIT 1"""
    (row,) = Crawl(crawl).query(sql)
    assert (row["text"], row["md"], row["language"]) == (main_text(ARTICLE), markdown(ARTICLE), "en")
    first = next(iter(Crawl(crawl).pages()))
    assert (first.main_text, first.markdown) == (row["text"], row["md"])


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_shards_can_be_resumed(crawl: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"text.{ending}"
    shards = [tmp_path / f"text-{n:05d}.{ending}" for n in (1, 2, 3)]
    options = {"form": Form("markdown"), "shard_bytes": 2 * len(markdown(ARTICLE))}
    assert export_text(crawl, out, **options) == 5
    before = [shard.read_bytes() for shard in shards]
    shards[1].unlink()
    shards[2].unlink()
    assert export_text(crawl, out, resume=True, **options) == 3
    assert [shard.read_bytes() for shard in shards] == before
    assert export_text(crawl, out, resume=True, **options) == 0
    if ending == "parquet":
        rows = [row for shard in shards for row in pq.read_table(shard).to_pylist()]
    else:
        rows = [json.loads(line) for shard in shards for line in shard.read_text().splitlines()]
    assert sorted(row["url"] for row in rows) == [f"http://a.test/{n}" for n in range(5)]
    assert rows[0]["licences"] == ["https://cc.test/by/4.0/"]
    assert rows[0]["detected_language"] == "en"
    assert len(rows[0]["digest"]) == 32


def test_new_shards_come_after_the_last(crawl: Path, tmp_path: Path) -> None:
    out, shards = tmp_path / "text.jsonl", [tmp_path / f"text-{n:05d}.jsonl" for n in (1, 2, 3, 4)]
    options = {"form": Form("markdown"), "shard_bytes": 2 * len(markdown(ARTICLE))}
    export_text(crawl, out, **options)
    assert export_text(crawl, out, resume=True, **options) == 0
    assert not shards[3].exists(), "nothing is new"
    lines = shards[1].read_bytes()
    shards[1].unlink()
    assert export_text(crawl, out, resume=True, **options) == 2
    assert (shards[1].exists(), shards[3].read_bytes()) == (False, lines)
    assert export_text(crawl, out, force=True, **options) == 5
    assert [shard.exists() for shard in shards] == [True, True, True, False]


@pytest.mark.parametrize(
    "other",
    [
        {"form": Form("main_text")},
        {"form": Form("markdown", "trafilatura")},
        {"purpose": "search"},
        {"is_distinct": True},
        {"where": "another"},
    ],
)
def test_shards_of_other_options_are_not_resumed(crawl: Path, tmp_path: Path, other: dict[str, Any]) -> None:
    Sample(tmp_path / "another").commit(["http://b.test/"], [page("http://b.test/", ARTICLE)])
    out = tmp_path / "text.jsonl"
    options = {"where": crawl, "out": out, "form": Form("markdown"), "shard_bytes": 1 << 20}
    export_text(**options)
    changed = options | other
    changed["where"] = tmp_path / changed["where"]
    with pytest.raises(ConfigError, match=r"made with other options .* --force"):
        export_text(resume=True, **changed)
    assert export_text(resume=True, **options) == 0, "nothing has changed"
    (tmp_path / "text-options.json").unlink()
    with pytest.raises(ConfigError, match="made with other options"):
        export_text(resume=True, **options)


def test_the_command_names_the_shards(crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(crawl), "--text", str(tmp_path / "text.jsonl"), "--shard-mb", "1"]) == 0
    assert f"wrote 5 pages' text; shards: {tmp_path}/text-00001.jsonl\n" in capsys.readouterr().err
    assert main(["export", str(crawl), "--wacz", str(tmp_path / "x.zip")]) == 0
    assert "of WACZ" in capsys.readouterr().err


def test_what_resuming_needs(crawl: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--shard-mb"):
        export_text(crawl, tmp_path / "a.jsonl", resume=True)

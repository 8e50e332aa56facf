"""The documentation's site: what is made from code is whole, and links stay in the site (`make docs` builds it)."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import build_docs  # noqa: E402

from gossamer.cli.app import COMMANDS  # noqa: E402


def test_the_reference_has_every_command() -> None:
    page = "".join(build_docs.options())
    assert [name for name in COMMANDS if f"\n## gossamer {name}\n" not in page] == ["lab"]
    assert "--contact WHO" in page


def test_the_python_reference_says_something_of_everything() -> None:
    page = "".join(build_docs.python())
    assert "### Crawl.run" in page
    parts = [part.rstrip() for part in page.split("\n##")]
    assert [part.splitlines()[0] for part in parts if part.endswith("```")] == []


def test_every_page_is_in_the_navigation_and_links_stay_in_the_site(tmp_path: Path) -> None:
    build_docs.gather(tmp_path)
    for made in ("options.md", "python.md"):
        (tmp_path / made).write_text("# It\n")
    assert '"getting-started.md"' in build_docs.navigation(tmp_path)
    assert "](getting-started.md)" in (tmp_path / "index.md").read_text()
    assert "](images/watch.webp)" in (tmp_path / "index.md").read_text()
    assert "](../benchmarks.md)" not in (tmp_path / "agents.md").read_text()
    assert "\n`deploy` has a Dockerfile" in (tmp_path / "operations.md").read_text()
    (tmp_path / "lost.md").write_text("# Nobody finds me\n")
    with pytest.raises(SystemExit, match=r"lost\.md"):
        build_docs.navigation(tmp_path)


@pytest.mark.parametrize(
    "markup",
    ['<script src="https://cdn.example/x.js">', '<link rel="stylesheet" href="//fonts.example/a.css">', '<img src="http://a.test/i.png">'],
)  # fmt: skip
def test_requests_to_other_servers_are_found(tmp_path: Path, markup: str) -> None:
    (tmp_path / "a.html").write_text(f"<p>{markup}</p><a href='https://example.org/'>fine</a><img src='own.png'>")
    assert len(list(build_docs.foreign_requests(tmp_path))) == 1

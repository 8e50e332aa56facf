"""What the README shows works as it stands there, on a test web instead of example.org; its figures are on record."""

import re
import shlex
from pathlib import Path

import pytest
from commands import ROOT, succeed

from gossamer import Config
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

PAGES = ("README.md", "docs/getting-started.md")
EXAMPLE = "https://example.org/"


SPEC = WebSpec.plain(seed=5, hosts=1, pages=8, page_bytes=500.0, links=3.0)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_first_commands_of_a_page_do_what_it_says(page: str, web: RunningWeb, tmp_path: Path) -> None:
    (block,) = (block for block in blocks(page, "sh") if "--contact" in block)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    ours = [words[1:] for words in lines if words[0] == "gossamer"]
    assert [words[0] for words in ours][:1] == ["crawl"]
    for words in ours:
        if words[0] == "crawl":
            words = [web.start_url if word == EXAMPLE else word for word in words]
            words += ["--testweb", web.address, "--delay", "0", "--quiet", "--set", "crawl.patience_s=0.1"]
        said = succeed(*words, at=tmp_path)
    assert "fetched" in said


def test_the_python_of_the_readme_runs(
    web: RunningWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = blocks("README.md", "python")
    monkeypatch.chdir(tmp_path)
    settings = {"resolve.map": {"*": web.address}, "polite.delay_s": 0.0, "crawl.patience_s": 0.1}
    source = block.replace(EXAMPLE, web.start_url).replace("config)\n", "config.replace(settings))\n")
    exec(compile(source, "README.md", "exec"), {"settings": settings, "Config": Config})
    urls = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert urls == set(web.truth.urls(web.truth.reachable()))


def test_the_figures_of_the_readme_are_those_on_record() -> None:
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text()
    heads, *rows = (
        line.strip("|").split("|")
        for line in results.splitlines()
        if re.match(r"\|\s+\| pages |\| (Gossamer|Scrapy [\d.]+|wget|Crawlee [\d.]+) +\|", line)
    )
    found = {}
    for row in rows:
        found.setdefault(row[0].strip(), {head.strip(): cell.strip() for head, cell in zip(heads, row, strict=False)})
    readme = (ROOT / "README.md").read_text()
    (names,) = re.findall(r"^\| \| Gossamer \| (.*) \|$", readme, re.MULTILINE)
    peers = names.split(" | ")
    assert len(peers) == 3
    assert f"The same {found['Gossamer']['pages']} real pages" in readme
    for words, column, unit in (
        ("pages per second of CPU", "pages/CPU s", ""),
        ("peak memory", "peak MB", " MB"),
        ("stored on disk", "stored MB", " MB"),
    ):
        others = " | ".join(f"{found[name][column]}{unit}" for name in peers)
        assert f"| {words} | **{found['Gossamer'][column]}{unit}** | {others} |" in readme
    (peak,) = re.findall(r"^ +50\.0 .* (\d+)$", results, re.MULTILINE)
    assert f"within {peak} MB" in readme

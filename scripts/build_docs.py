"""Builds the documentation's site into build/site: the pages of docs/, and a reference made from the code.

`make docs` runs it. A link that leads nowhere, any other warning, a page that nobody can find, or a request to another
server is an error.
"""

import argparse
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
BUILD = TOP / "build" / "docs"
SITE = TOP / "build" / "site"
_COPIED = (".md", ".svg", ".webp", ".json")

# Pages that live elsewhere in the repository.
ELSEWHERE = {
    "index.md": "README.md",
    "benchmarks.md": "benchmarks/RESULTS.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}

# The navigation; a page that is in none of these groups is an error.
NAVIGATION: dict[str, tuple[str, ...]] = {
    "Start": ("index.md", "getting-started.md", "which-settings.md", "from-scrapy.md", "cookbook.md"),
    "Concepts": ("journey-of-a-url.md", "design.md", "glossary.md", "papers.md"),
    "How to": (
        "functions.md", "requests.md", "media.md", "render.md", "archives.md", "text.md",
        "preferences.md", "refresh.md", "green.md", "scan.md", "agents.md",
        "federation.md", "placement.md", "cloud.md", "watch.md", "operations.md", "repair.md", "security.md",
    ),
    "Reference": ("commands.md", "options.md", "configuration.md", "tables.md", "python.md", "changelog.md"),
    "Experiments": ("lab.md", "lab/attempts.md", "scale.md", "performance.md", "benchmarks.md"),
    "Decisions": ("decisions/README.md", "contributing.md"),
}  # fmt: skip

# Objects whose docstrings are the reference of the Python API: module, name.
PYTHON = (
    ("gossamer", "Crawl"),
    ("gossamer", "Page"),
    ("gossamer", "Config"),
    ("gossamer", "Seed"),
    ("gossamer.functions.page", "Page"),
    ("gossamer.frontier.strategies", "Strategy"),
)

CONFIGURATION = """[project]
site_name = "Gossamer"
site_description = "A web crawler that is fast, polite, and loses nothing"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
extra_css = ["{style}"]
nav = [
{nav}
]

[project.theme]
font = false
logo = "{icon}"
favicon = "{icon}"
features = [
  "content.code.copy", "navigation.footer", "navigation.indexes", "navigation.sections", "navigation.top",
  "search.highlight",
]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to light mode"

[project.markdown_extensions]
attr_list = {{}}
md_in_html = {{}}
tables = {{}}
toc.permalink = true
pymdownx.highlight = {{}}
pymdownx.superfences = {{}}
"""


ICON = "icon.svg"
STYLE = "site.css"
# Room for a line of code with its comment; no empty row above a table without heads; names of one word in one line.
LOOKS = """
.md-grid { max-width: 76rem; }
.md-typeset table:not([class]) thead:not(:has(th:not(:empty))) { display: none; }
.md-typeset td:first-child > code:only-child { white-space: nowrap; }
"""


def main() -> int:
    shutil.rmtree(BUILD, ignore_errors=True)
    pages = BUILD / "pages"
    gather(pages)
    shutil.copy(TOP / "gossamer" / "watch" / "page" / "icon.svg", pages / ICON)
    (pages / STYLE).write_text(LOOKS, "utf-8")
    (pages / "options.md").write_text("".join(options()), "utf-8")
    (pages / "python.md").write_text("".join(python()), "utf-8")
    (BUILD / "zensical.toml").write_text(CONFIGURATION.format(nav=navigation(pages), style=STYLE, icon=ICON), "utf-8")
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--strict", "--clean"]
    if any("```mermaid" in path.read_text("utf-8") for path in pages.rglob("*.md")):
        sys.exit("docs: diagrams in mermaid are drawn by a script from another server: draw an SVG instead")
    done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
    if done.returncode or "warning" in (done.stdout + done.stderr).lower():
        print(done.stdout + done.stderr, file=sys.stderr)
        return done.returncode or 1
    foreign = sorted(foreign_requests(BUILD / "site"))
    for each in foreign:
        print(f"docs: {each}", file=sys.stderr)
    if foreign:
        return 1
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(BUILD / "site", SITE)
    print(f"{SITE.relative_to(TOP)}/index.html: {len(list(SITE.rglob('*.html')))} pages")
    return 0


def gather(pages: Path) -> None:
    """Copies all pages and their figures, with links as they are in one folder."""
    sources = {path.relative_to(TOP / "docs"): path for path in (TOP / "docs").rglob("*") if path.suffix in _COPIED}
    sources |= {Path(name): TOP / place for name, place in ELSEWHERE.items()}
    known = {path.resolve(): name for name, path in sources.items()}
    for name, path in sources.items():
        target = pages / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(relinked(path, name, known), "utf-8")
        else:
            shutil.copy(path, target)


def relinked(path: Path, name: Path, known: dict[Path, Path]) -> str:
    """Returns a page whose links lead to the site's pages. Those to code and folders become plain words."""

    def link(found: re.Match[str]) -> str:
        image, text, place, anchor = found.groups()
        if not place or "://" in place or place.startswith("mailto:"):
            return found[0]
        target = (path.parent / place).resolve()
        target = target / "README.md" if target.is_dir() and target / "README.md" in known else target
        if target not in known:
            words = str(target.relative_to(TOP))
            return f"`{words}`" if text.strip("/`") == words else f"{text} (`{words}`)"
        up = "../" * (len(name.parts) - 1)
        return f"{image}[{text}]({up}{known[target].as_posix()}{anchor or ''})"

    return re.sub(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)", link, path.read_text("utf-8"))


def navigation(pages: Path) -> str:
    decisions = sorted(path.relative_to(pages).as_posix() for path in (pages / "decisions").glob("0*.md"))
    groups = {**NAVIGATION, "Decisions": (*NAVIGATION["Decisions"], *decisions)}
    shown = {name for names in groups.values() for name in names}
    there = {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")}
    if shown != there:
        sys.exit(f"docs: the navigation of scripts/build_docs.py and the pages differ: {sorted(shown ^ there)}")
    lines = []
    for group, names in groups.items():
        items = ", ".join(f'{{ "{title(pages / name)}" = "{name}" }}' for name in names)
        lines.append(f'  {{ "{group}" = [{items}] }},')
    return "\n".join(lines)


def title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].lstrip("# ").replace("`", "").replace('"', "'")


def options() -> Iterator[str]:
    """Yields the page of all commands' help."""
    from gossamer.cli.completion import parsers

    yield "# Options of every command\n\nAs `gossamer COMMAND --help` prints them.\n"
    for name, text, parser in parsers():
        parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=110)
        yield f"\n## gossamer {name}\n\n{text[0].upper()}{text[1:]}.\n\n```text\n{parser.format_help()}```\n"


def python() -> Iterator[str]:
    """Yields the page of the Python API, from signatures and docstrings."""
    yield "# Python\n\nWhat programs import. [Your code on every page](functions.md) has examples.\n"
    for module, name in PYTHON:
        found = getattr(import_module(module), name)
        yield f"\n## {module}.{name}\n\n```python\n{signature(name, found)}\n```\n\n{text_of(found)}\n"
        for each, member in vars(found).items():
            if each.startswith("_") or not (
                callable(member) or isinstance(member, property | classmethod | staticmethod)
            ):
                continue
            inner = getattr(member, "__func__", getattr(member, "fget", None) or member)
            shown = each if isinstance(member, property) else signature(each, inner)
            yield f"\n### {name}.{each}\n\n```python\n{shown}\n```\n\n{text_of(inner)}\n"


def signature(name: str, found: Any) -> str:
    try:
        shown = str(inspect.signature(found))
    except (TypeError, ValueError):
        return name
    shown = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", shown)  # the modules of types
    return name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)


def text_of(found: Any) -> str:
    return inspect.getdoc(found) or ""


def foreign_requests(site: Path) -> Iterator[str]:
    """Yields what a browser would fetch from other servers when it shows a page."""
    wanted = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="(https?:)?//[^"]*"|<link\b[^>]*\bhref="(?:https?:)?//[^"]*\""""
    )
    for page in site.rglob("*.html"):
        for found in wanted.finditer(page.read_text("utf-8")):
            if 'rel="canonical"' not in found[0]:
                yield f"{page.relative_to(site)} asks another server: {found[0]}"
    for sheet in site.rglob("*.css"):
        for found in re.findall(r"url\([\"']?((?:https?:)?//[^)]*)\)", sheet.read_text("utf-8")):
            yield f"{sheet.relative_to(site)} asks another server: {found}"


if __name__ == "__main__":
    sys.exit(main())

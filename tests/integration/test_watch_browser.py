"""The dashboard in a real browser: its numbers are those of `gossamer status`, and text from the web stays text."""

from collections.abc import Iterator
from pathlib import Path

import commands
import pytest
from browser import Browser, browser
from crawls import crawl
from test_watch import SPEC, Watch, watch

from gossamer.testweb.running import RunningWeb

HOSTILE = '<script>window.owned = 1</script><img src=x onerror="window.owned = 1">'
READY = "document.documentElement?.dataset.ready === 'true' && document.querySelectorAll('.uplot').length === 2"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Browser]:
    with browser(tmp_path / "profile") as opened:
        yield opened


def figure(page: Browser, name: str) -> tuple[float, str]:
    """A number of the page: as it was sent, and as people read it."""
    find = f"document.querySelector('[data-figure={name}]')"
    return float(page.evaluate(f"{find}.dataset.value")), page.evaluate(f"{find}.textContent")


def test_the_numbers_on_the_page_are_those_of_status(page: Browser, tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    with RunningWeb(SPEC) as web:
        crawl(web, directory, {"crawl.width": 60})
    with watch(directory) as shown:
        page.open(f"http://127.0.0.1:{shown.port}/")
        page.wait(READY)
        status = commands.answer("status", directory, "--json", at=tmp_path)
        for name in ("visits", "known", "frontier"):
            assert figure(page, name) == (status[name], f"{status[name]:,}")
        assert figure(page, "wire_bytes")[0] == status["wire_bytes"]
        assert figure(page, "rate")[0] == status["rate"]["mean"]
        assert figure(page, "errors")[0] == sum(status["errors"].values())
        rows = "[...document.querySelectorAll('[data-outcome]')].map(n => [n.dataset.outcome, +n.dataset.value])"
        assert dict(page.evaluate(rows)) == status["outcomes"]
        assert page.evaluate("document.getElementById('state-word').textContent") == "finished"
        ask(page, "SELECT count(*) AS pages FROM pages")
        assert page.evaluate("document.querySelector('#sql-result td').textContent") == str(status["known"])
        check_alone(page, shown)


@pytest.mark.slow
def test_hostile_text_is_shown_and_does_nothing(page: Browser, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    safe = HOSTILE.replace("<", "&lt;")
    (root / "index.html").write_text(
        f"<title>{safe}</title><a href='/%22onload=%22alert(1).html?<b>x</b>'>x</a>{'x ' * 200}"
    )
    with RunningWeb(roots={"evil.test": root}) as web:
        crawl(web, tmp_path / "crawl", seeds=["http://evil.test/"])
    with watch(tmp_path / "crawl") as shown:
        page.open(f"http://127.0.0.1:{shown.port}/")
        page.wait(READY)
        titles = page.evaluate("[...document.querySelectorAll('#pages .title')].map(n => n.textContent)")
        assert HOSTILE in titles
        ask(page, "SELECT title FROM pages WHERE title LIKE '%script%'")
        assert page.evaluate("document.querySelector('#sql-result td').textContent") == HOSTILE
        assert page.evaluate("document.querySelectorAll('#main script, #main img, #main b').length") == 0
        assert page.evaluate("window.owned === undefined")
        check_alone(page, shown)


def ask(page: Browser, sql: str) -> None:
    page.evaluate(
        f"document.getElementById('sql').value = {sql!r}; document.getElementById('sql-form').requestSubmit()"
    )
    page.wait("document.querySelector('#sql-result td') !== null")


def check_alone(page: Browser, shown: Watch) -> None:
    """No request went elsewhere, and the console has nothing to say."""
    home = f"http://127.0.0.1:{shown.port}/"
    assert [url for url in page.requests if not url.startswith((home, "about:"))] == []
    assert page.complaints == []


@pytest.mark.slow
def test_titles_that_are_read_from_the_right_or_very_long_stay_in_their_column(page: Browser, tmp_path: Path) -> None:
    titles = {
        "hebrew": "(\u05e9\u05dc\u05d5\u05dd) 1, 2!",
        "long": "Supercalifragilistic" * 20,
        "plain": "(Hello) 1, 2!",
    }
    root = tmp_path / "root"
    root.mkdir()
    (root / "index.html").write_text("".join(f"<a href='{name}.html'>x</a>" for name in titles))
    for name, title in titles.items():
        (root / f"{name}.html").write_text(f"<meta charset=utf-8><title>{title}</title>{name}")
    with RunningWeb(roots={"a.test": root}) as web:
        crawl(web, tmp_path / "crawl", seeds=["http://a.test/"])
    with watch(tmp_path / "crawl") as shown:
        page.size(390, 844, phone=True)
        page.open(f"http://127.0.0.1:{shown.port}/")
        page.wait(READY)
        script = """Object.fromEntries([...document.querySelectorAll('#pages .title')].map(n => [
            n.textContent.slice(0, 5), [getComputedStyle(n).direction, getComputedStyle(n).textAlign]]))"""
        found = page.evaluate(script)
        assert found[titles["hebrew"][:5]] == ["rtl", "left"]
        assert found[titles["plain"][:5]] == ["ltr", "left"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        check_alone(page, shown)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height", "phone"), [(390, 844, True), (1440, 900, False), (3840, 2160, False)])
def test_nothing_is_wider_than_the_screen(page: Browser, tmp_path: Path, width: int, height: int, phone: bool) -> None:
    with RunningWeb(SPEC) as web:
        crawl(web, tmp_path / "crawl", {"crawl.pages": 40})
    with watch(tmp_path / "crawl") as shown:
        page.size(width, height, phone=phone)
        page.open(f"http://127.0.0.1:{shown.port}/")
        page.wait(READY)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        font = "parseFloat(document.querySelector('.uplot canvas').getContext('2d').font)"
        page.wait(f"{font} / devicePixelRatio >= 10")  # labels of the charts can be read

"""Pages that their scripts make: a browser without network runs them, and the crawl fetches what they ask for."""

from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
import tools
from raw_server import Exchange, Loopback
from scripted import Web, moved, page, reply, robots, verdicts

from gossamer import Crawl
from gossamer.errors import ConfigError
from gossamer.render.renderer import is_shell

pytest.importorskip("playwright.async_api")


@pytest.fixture(scope="module", autouse=True)
def chromium() -> str:
    return tools.need("chromium")


SHELL = (
    b"<!doctype html><title>shop</title><div id=app>Loading</div><script src=/app.js></script><noscript>No</noscript>"
)
# It asks for data, and makes links and text of them.
APP = b"""fetch('/data' + location.pathname + '.json').then(answer => answer.json()).then(data => {
    document.title = data.title
    document.getElementById('app').innerHTML =
        data.links.map(link => `<a href="${link}">${link}</a>`).join(' ') + '<p>' + data.text + '</p>'
})"""


def script(text: bytes) -> bytes:
    return reply(text, mime="text/javascript")


def data(title: str, text: str, *links: str) -> bytes:
    listed = ",".join(f'"{link}"' for link in links)
    return reply(f'{{"title": "{title}", "text": "{text}", "links": [{listed}]}}'.encode(), mime="application/json")


SHOP: dict[str, Any] = {
    "a.test/start": reply(SHELL),
    "a.test/one": reply(SHELL),
    "a.test/two": reply(SHELL),
    "a.test/app.js": script(APP),
    "a.test/data/start.json": data("Start", "All that we sell", "/one", "/plain"),
    "a.test/data/one.json": data("One", "The first thing", "/two"),
    "a.test/data/two.json": data("Two", "The second thing"),
    "a.test/plain": page("/last", text="A page that needs no scripts. " * 20, head="<script>1</script>"),
    "a.test/last": page(text="The last one."),
}


def crawled(web: Web, directory: Path, **changes: Any) -> Crawl:
    return web.crawl(directory, ["http://a.test/start"], **{"crawl__render": ["auto"], **changes})


def pages(crawl: Crawl) -> dict[str, str]:
    return {
        row["url"].removeprefix("http://a.test"): row["title"] for row in crawl.query("SELECT url, title FROM pages")
    }


def rendered(crawl: Crawl) -> set[str]:
    return {row["url"].removeprefix("http://a.test") for row in crawl.query("SELECT url FROM visits WHERE rendered")}


def test_links_that_only_scripts_make_are_followed(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, SHOP)
    crawl = crawled(web, tmp_path)
    assert pages(crawl) == {"/start": "Start", "/one": "One", "/two": "Two", "/plain": "t", "/last": "t"}
    assert rendered(crawl) == {"/start", "/one", "/two"}, "and no page that does without"
    assert web.asked().count("a.test/app.js") == 1, "a script that pages share is fetched once"
    texts = {row["url"]: row["text"] for row in crawl.query("SELECT url, text(warc, warc_offset) AS text FROM pages")}
    assert texts["http://a.test/one"] == "/two\nThe first thing", "and nothing of what scripts would be missed for"
    parts = [row["url"] for row in crawl.query("SELECT url FROM visits WHERE kind = 'part' ORDER BY url")]
    assert parts == [
        f"http://a.test/{path}" for path in ("app.js", "data/one.json", "data/start.json", "data/two.json")
    ]
    assert crawl.query("SELECT count(*) AS n FROM visits WHERE kind = 'part' AND warc = ''")[0]["n"] == 0


def test_without_rendering_a_shell_leads_nowhere(loopback: Loopback, tmp_path: Path) -> None:
    crawl = crawled(Web(loopback, SHOP), tmp_path, crawl__render=[])
    assert pages(crawl) == {"/start": "shop"}


def test_only_pages_that_match_are_rendered(loopback: Loopback, tmp_path: Path) -> None:
    crawl = crawled(Web(loopback, SHOP), tmp_path, crawl__render=["*/start", "*/last"])
    assert rendered(crawl) == {"/start", "/last"}
    assert pages(crawl)["/one"] == "shop"


def test_the_warc_has_what_came_and_what_was_made_of_it(loopback: Loopback, tmp_path: Path) -> None:
    from warcio.archiveiterator import ArchiveIterator

    crawled(Web(loopback, SHOP), tmp_path)
    found: dict[str, dict[str, tuple[str, bytes]]] = {}
    for path in sorted(tmp_path.glob("warc/*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                url, kind = record.rec_headers.get_header("WARC-Target-URI"), record.rec_type
                name = record.rec_headers.get_header("WARC-Refers-To" if kind == "conversion" else "WARC-Record-ID")
                found.setdefault(url, {})[kind] = name, record.content_stream().read()
    one = found["http://a.test/one"]
    assert one["response"][1] == SHELL
    assert b"The first thing" in one["conversion"][1]
    assert one["conversion"][0] == one["response"][0], "it says what it was made of"
    assert "conversion" not in found["http://a.test/plain"]


def test_what_pages_ask_for_is_polite_and_allowed(loopback: Loopback, tmp_path: Path) -> None:
    """Never two requests at a time to a host, its delay between them, robots.txt and patterns for all."""
    app = (
        APP + b";fetch('/secret/x.json').catch(() => 0);fetch('/no/x.json').catch(() => 0);fetch('/', {method: 'POST'})"
    )
    app += b";new Image().src = '/image.png'"
    web = Web(
        loopback, {**SHOP, "a.test/app.js": script(app), "/robots.txt": robots("User-agent: *\nDisallow: /secret/")}
    )
    delay_s = 0.2
    crawl = crawled(web, tmp_path, polite__delay_s=delay_s, crawl__exclude=["*/no/*"])
    assert set(pages(crawl)) == {"/start", "/one", "/two", "/plain", "/last"}
    asked = web.exchanges("a.test", with_robots=True)
    assert {exchange.head.split(b" ", 1)[0] for exchange in asked} == {b"GET"}
    assert not {"/secret/x.json", "/no/x.json", "/image.png"} & {exchange.path for exchange in asked}
    for before, after in pairwise(asked):
        assert after.began_s - before.ended_s >= 0.9 * delay_s, (before.path, after.path)
    denied = crawl.query("SELECT url FROM visits WHERE outcome = 'denied'")
    assert {row["url"] for row in denied} == {"http://a.test/secret/x.json"}


@pytest.mark.parametrize(
    "evil",
    [
        b"while (true) {}",
        b"setInterval(() => fetch('/more' + Math.random()).catch(() => 0), 1)",
        b"for (let i = 0; i < 50; i++) { open('/x' + i); } alert('hello'); confirm('x'); location = '/elsewhere'",
        b"const all = []; setInterval(() => { for (let i = 0; i < 20; i++) all.push(new Uint8Array(1e7).fill(i)) }, 1)",
        b"new WebSocket('ws://127.0.0.1:1/'); navigator.serviceWorker.register('/worker.js'); "
        b"const a = document.createElement('a'); a.href = 'data:application/zip,x'; a.download = 'x'; a.click()",
        b"throw new Error('broken')",
    ],
    ids=["endless-loop", "endless-requests", "windows-and-dialogs", "memory", "sockets-workers-downloads", "error"],
)
def test_an_evil_page_costs_only_itself(loopback: Loopback, tmp_path: Path, evil: bytes) -> None:
    web = Web(
        loopback, {**SHOP, "a.test/evil": reply(SHELL.replace(b"app.js", b"evil.js")), "a.test/evil.js": script(evil)}
    )
    web.replies["a.test/data/start.json"] = data("Start", "All that we sell", "/evil", "/one")
    limits = {"render__time_s": 10.0, "render__requests": 20, "render__memory_mb": 700}  # time enough for the others
    crawl = crawled(web, tmp_path, **limits)
    found = pages(crawl)
    assert found["/two"] == "Two", "the others are rendered"
    assert "/evil" in found
    (evil_visit,) = crawl.query("SELECT outcome FROM visits WHERE url = 'http://a.test/evil'")
    assert evil_visit["outcome"] == "ok", "it is stored as it came"
    assert len([path for path in web.asked() if path.startswith("a.test/more")]) <= 20
    assert "a.test/worker.js" not in web.asked()


def test_where_scripts_go_is_a_link(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {**SHOP, "a.test/app.js": script(b"location.href = '/plain'")})
    crawl = crawled(web, tmp_path)
    assert set(pages(crawl)) == {"/start", "/plain", "/last"}
    assert verdicts(crawl)["http://a.test/plain"] == "followed"


def test_scripts_behind_a_redirect_are_found(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {**SHOP, "a.test/app.js": moved("http://b.test/app.js"), "b.test/app.js": script(APP)})
    assert pages(crawled(web, tmp_path))["/two"] == "Two"


def test_functions_get_the_page_as_it_was_made(loopback: Loopback, tmp_path: Path) -> None:
    module = tmp_path / "shop.py"
    module.write_text("def product(page):\n    yield {'title': page.title, 'links': len(page.css('a'))}\n")
    crawl = crawled(Web(loopback, SHOP), tmp_path / "crawl", extract__functions=[f"{module}:product"])
    items = {row["item"] for row in crawl.query("SELECT item::VARCHAR AS item FROM items")}
    assert '{"title":"Start","links":2}' in {item.replace(" ", "") for item in items}


def test_a_limit_of_pages_lets_the_last_one_be_rendered(loopback: Loopback, tmp_path: Path) -> None:
    crawl = crawled(Web(loopback, SHOP), tmp_path, crawl__pages=1)
    assert rendered(crawl) == {"/start"}


def test_a_browser_is_replaced_after_some_pages(loopback: Loopback, tmp_path: Path) -> None:
    crawl = crawled(Web(loopback, SHOP), tmp_path, render__recycle=1, render__tabs=1)
    assert pages(crawl)["/two"] == "Two"


def test_what_is_missing_is_named(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, SHOP)
    with pytest.raises(ConfigError, match="there is no no-such-browser"):
        crawled(web, tmp_path / "a", render__browser="no-such-browser")
    with pytest.raises(ConfigError, match="one agent only"):
        crawled(web, tmp_path / "b", site__agents=2)
    assert not web.asked()


def test_a_page_that_changes_between_tabs_is_read_by_each(loopback: Loopback, tmp_path: Path) -> None:
    """Data are asked for again by each page: only scripts are shared."""
    number = count(1)

    def news(exchange: Exchange) -> bool:
        return exchange.send(data(f"News {next(number)}", "x"))

    web = Web(
        loopback,
        {**SHOP, "a.test/app.js": script(APP.replace(b"' + location.pathname + '", b"")), "a.test/data.json": news},
    )
    crawl = web.crawl(tmp_path, ["http://a.test/start", "http://a.test/one"], crawl__render=["auto"], render__tabs=1)
    assert set(pages(crawl).values()) == {"News 1", "News 2"}


@pytest.mark.parametrize(
    ("markup", "links", "expected"),
    [
        (SHELL, 0, True),
        (SHELL.replace(b"Loading", b"word " * 100), 0, False),
        (SHELL, 10, False),
        (b"<p>short", 0, False),
        (SHELL + b"<noscript>" + b"Please enable JavaScript. " * 50 + b"</noscript>", 0, True),
    ],
)
def test_shells(markup: bytes, links: int, expected: bool) -> None:
    assert is_shell(markup, links) == expected

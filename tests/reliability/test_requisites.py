"""What pages need to be shown is fetched: once, from wherever it is, within limits, and it does not count as pages."""

import base64
from pathlib import Path

from raw_server import Loopback
from scripted import Web, moved, page, reply, robots

from gossamer import Crawl

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGNgYPgPRlAKAB/uA/0Q0dq5AAAAAElFTkSuQmCC"
)
IMAGE = reply(PNG, mime="image/png")
CSS = "text/css"
WEB = {
    "a.test/": page(
        "/two",
        head='<link rel=stylesheet href="/main.css"><link rel=icon href=//cdn.test/icon.png>',
        text='<img src=/logo.png srcset="/logo.png 1x, http://cdn.test/large.png 2x"><script src=/app.js></script>'
        '<p style="background: url(/inline.png)"><img src=/gone.png><img src=/secret/s.png>',
    ),
    "a.test/two": page("/logo.png", head="<style>@import '/more.css';</style>", text="<img src=/only-two.png>"),
    "a.test/robots.txt": robots("User-agent: *\nDisallow: /secret/\n"),
    "a.test/main.css": reply(
        b'@import "more.css"; @font-face { src: url(//cdn.test/f.woff2) } b { background: url("moved.png") }', mime=CSS
    ),
    "a.test/more.css": reply(b'@import "main.css"; i { background: url(deep.png) }', mime=CSS),
    "a.test/moved.png": moved("http://cdn.test/elsewhere.png"),
    "a.test/app.js": reply(b"let x = '<a href=/no>'", mime="text/javascript"),
    "cdn.test/f.woff2": reply(b"wOF2", mime="font/woff2"),
    **{f"a.test/{name}.png": IMAGE for name in ("logo", "inline", "only-two", "deep")},
    **{f"cdn.test/{name}.png": IMAGE for name in ("icon", "large", "elsewhere")},
}
NEEDED = {
    "a.test/main.css", "a.test/more.css", "a.test/moved.png", "a.test/app.js", "a.test/inline.png",
    "a.test/only-two.png", "a.test/deep.png", "a.test/gone.png",
    "cdn.test/icon.png", "cdn.test/large.png", "cdn.test/elsewhere.png", "cdn.test/f.woff2",
}  # fmt: skip


def test_everything_is_fetched_once_and_is_no_page(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, WEB)
    crawl = Crawl(tmp_path / "c", ["http://a.test/"], web.config(crawl__scope="host", crawl__requisites=True))
    stats = crawl.run()
    asked = web.asked()
    assert sorted(asked) == sorted({*NEEDED, "a.test/", "a.test/two", "a.test/logo.png"})
    assert asked[0] == "a.test/"
    rows = crawl.query("SELECT url, kind, status, depth, width, height FROM pages")
    kinds = {row["url"].removeprefix("http://"): row["kind"] for row in rows}
    assert {url for url, kind in kinds.items() if kind == "page"} == {"a.test/", "a.test/two"}
    assert {row["status"] for row in rows if "/secret/" in row["url"]} == {"denied"}
    assert {(row["width"], row["height"]) for row in rows if row["url"].endswith("deep.png")} == {(3, 2)}
    # A link leads to the logo: it is known as a page since then, and was fetched before.
    assert (stats.visits, stats.known, stats.requisites) == (2, 3, len(NEEDED) + 2)
    assert stats.outcomes == {"ok": 2}
    found = crawl.query("SELECT * FROM hosts")
    hosts = {row["host"]: (row["pages"], row["visits"], row["requisites"]) for row in found}
    assert hosts == {"a.test": (2, 2, 10), "cdn.test": (0, 0, 4)}


def test_links_have_kinds(loopback: Loopback, tmp_path: Path) -> None:
    crawl = Web(loopback, WEB).crawl(tmp_path / "c", ["http://a.test/"], crawl__scope="host", crawl__requisites=True)
    sql = "SELECT target_url, verdict, l.kind FROM links l JOIN pages ON key = source WHERE url = 'http://a.test/'"
    found = {row["target_url"].removeprefix("http://"): (row["kind"], row["verdict"]) for row in crawl.query(sql)}
    assert found == {
        "a.test/two": ("link", "followed"),
        "a.test/main.css": ("style", "followed"),
        "cdn.test/icon.png": ("icon", "followed"),
        "a.test/logo.png": ("image", "followed"),
        "cdn.test/large.png": ("image", "followed"),
        "a.test/app.js": ("script", "followed"),
        "a.test/inline.png": ("image", "followed"),
        "a.test/gone.png": ("image", "followed"),
        "a.test/secret/s.png": ("image", "followed"),
    }
    moved_on = crawl.query("SELECT kind FROM links WHERE target_url = 'http://cdn.test/elsewhere.png'")
    assert moved_on == [{"kind": "redirect"}]


def test_nobody_asked(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, WEB)
    crawl = web.crawl(tmp_path / "c", ["http://a.test/"], crawl__scope="host")
    assert sorted(web.asked()) == ["a.test/", "a.test/logo.png", "a.test/two"]
    assert crawl.query("SELECT DISTINCT kind FROM links") == [{"kind": "link"}]


def test_limits(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, WEB)
    limits = {"limits__requisites": 2, "limits__requisite_depth": 0, "crawl__exclude": ["*.png"]}
    crawl = web.crawl(tmp_path / "c", ["http://a.test/"], crawl__scope="host", crawl__requisites=True, **limits)
    assert sorted(web.asked()) == ["a.test/", "a.test/app.js", "a.test/main.css", "a.test/more.css", "a.test/two"]
    sql = "SELECT verdict, count(*) AS n FROM links WHERE kind <> 'link' GROUP BY verdict ORDER BY verdict"
    # more.css, main.css and the font are too far away; all images are excluded.
    assert {row["verdict"]: row["n"] for row in crawl.query(sql)} == {"followed": 3, "pattern": 9, "requisites": 3}


def test_a_limit_of_pages_does_not_leave_the_last_ones_bare(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, WEB)
    values = {"crawl__scope": "host", "crawl__requisites": True}
    stats = Crawl(tmp_path / "c", ["http://a.test/"], web.config(crawl__pages=1, **values)).run()
    assert stats.visits == 1
    assert "a.test/two" not in web.asked()
    assert {*NEEDED} - {"a.test/only-two.png"} == {*web.asked()} - {"a.test/", "a.test/logo.png"}
    again = Crawl(tmp_path / "c", ["http://a.test/"], web.config(**values)).run()
    assert len(web.asked()) == len(set(web.asked()))
    assert (again.visits, again.known) == (2, 3)


def test_media_are_targets_by_scope(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, WEB)
    crawl = Crawl(tmp_path / "c", ["http://a.test/"], web.config(crawl__scope="host", crawl__media=["image/*"]))
    assert crawl.run().requisites == 0
    images = {f"a.test/{name}.png" for name in ("logo", "inline", "only-two", "gone")}
    assert {*web.asked()} == {"a.test/", "a.test/two", *images}
    rows = crawl.query("SELECT target_url, kind, verdict FROM links WHERE kind = 'image'")
    found = {row["target_url"].removeprefix("http://"): row["verdict"] for row in rows}
    assert found["a.test/only-two.png"] == "followed"
    assert found["cdn.test/large.png"] == "scope"
    assert {row["kind"] for row in crawl.query("SELECT kind FROM pages")} == {"page"}

"""Crawls of pages whose markup is odd, monstrous or lies.

Numbers such as T042 are those of the list in tests/cases/README.md.
"""

from pathlib import Path

from raw_server import Loopback
from scripted import Web, page, reply, robots, statuses, verdicts


def test_t042_base(loopback: Loopback, tmp_path: Path) -> None:
    link = "<a href=x>to</a>"
    web = Web(loopback, {
        "/relative/p": page(head="<base href=/r/>", text=link),
        "/host/p": page(head="<base href=http://b.test/h/>", text=link),
        "/second/p": page(head="<base href=/s1/><base href=/s2/>", text=link),
        "/late/p": page(text=f"{link}<base href=/l/>"),
        "/data/p": page(head="<base href='data:text/html,'>", text=link),
        "/script/p": page(head="<base href='javascript:x'>", text=link),
        "/empty/p": page(head="<base href=''>", text=link),
    })  # fmt: skip
    names = ("relative", "host", "second", "late", "data", "script", "empty")
    seeds = [f"http://a.test/{name}/p" for name in names]
    web.crawl(tmp_path, seeds)
    found = set(web.asked()) - {seed.removeprefix("http://") for seed in seeds}
    wanted = {"a.test/r/x", "b.test/h/x", "a.test/s1/x", "a.test/l/x", "a.test/data/x", "a.test/script/x"}
    assert found == wanted | {"a.test/empty/x"}


def test_t043_monstrous_markup(loopback: Loopback, tmp_path: Path) -> None:
    """A link before and a link after: however bad it is between them, the crawl gets on."""
    monsters = {
        "deep": "<div>" * 200_000,
        "attributes": "<p " + " ".join(f"a{i}=1" for i in range(50_000)) + ">",
        "quote": '<p title="' + "never closed " * 10_000,
        "tags": "<b><i><table><tr><td>" * 20_000,
        "line": "word " * 1_000_000,
    }
    web = Web(loopback, {
        f"/{name}": page(f"/{name}/before", text=f"{text}<a href=/{name}/after>x</a>")
        for name, text in monsters.items()
    })  # fmt: skip
    found = web.crawl(tmp_path, [f"http://t.test/{name}" for name in monsters])
    assert {f"t.test/{name}/before" for name in monsters} <= set(web.asked())
    assert {statuses(found)[f"http://t.test/{name}"] for name in monsters} == {"fetched"}


def test_t044_too_many_and_too_long_links(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {
        "/many": page(*(f"/m{i}" for i in range(20_000))),
        "/copies": page(*["/same"] * 10_000, "/same#a", "/./same"),
        "/long": page("/" + "l" * 2_000_000, "data:text/plain," + "d" * 1_000_000, "/short"),
    })  # fmt: skip
    values = {"limits__links": 50, "crawl__width": 1_000}
    found = web.crawl(tmp_path, [f"http://t.test/{name}" for name in ("many", "copies", "long")], **values)
    asked = web.asked()
    assert len([path for path in asked if path.startswith("t.test/m") and path != "t.test/many"]) == 50
    assert asked.count("t.test/same") == 1
    assert asked.count("t.test/short") == 1
    assert max(map(len, asked)) < 2_000
    rows = found.query("SELECT links FROM pages WHERE url = 'http://t.test/copies'")
    assert rows == [{"links": 1}]


def test_t045_nofollow(loopback: Loopback, tmp_path: Path) -> None:
    meta = '<meta name="{}" content="{}">'
    web = Web(loopback, {
        "/rel": page(text="<a rel=nofollow href=/no1>x</a><a rel='ugc' href=/no2>x</a><a rel=sponsored href=/no3>x</a>"
                     "<a href=/yes1>x</a>"),
        "/meta": page("/no4", head=meta.format("robots", "index, nofollow")),
        "/none": page("/no5", head=meta.format("ROBOTS", "none")),
        "/ours": page("/no6", head=meta.format("gossamer", "nofollow") + meta.format("robots", "follow")),
        "/theirs": page("/yes2", head=meta.format("otherbot", "nofollow")),
        "/header": reply(b"<html><a href=/no7>x</a></html>", 200, "X-Robots-Tag: nofollow"),
        "/named": reply(b"<html><a href=/no8>x</a></html>", 200, "X-Robots-Tag: gossamer: nofollow"),
        "/other": reply(b"<html><a href=/yes3>x</a></html>", 200, "X-Robots-Tag: otherbot: nofollow"),
    })  # fmt: skip
    names = ("rel", "meta", "none", "ours", "theirs", "header", "named", "other")
    seeds = [f"http://t.test/{name}" for name in names]
    found = web.crawl(tmp_path / "obedient", seeds)
    assert {path for path in web.asked() if "/no" in path} == {"t.test/none"}
    assert {path for path in web.asked() if "/yes" in path} == {f"t.test/yes{i}" for i in (1, 2, 3)}
    refused = [url for url, verdict in verdicts(found).items() if verdict == "nofollow"]
    assert len(refused) == 8
    web.crawl(tmp_path / "all-the-same", seeds, crawl__nofollow=False)
    assert {f"t.test/no{i}" for i in range(1, 9)} <= set(web.asked())


def test_t046_canonical_hides_nothing(loopback: Loopback, tmp_path: Path) -> None:
    link = '<link rel=canonical href="{}">'
    web = Web(loopback, {
        "/a": page("/next-a", head=link.format("/b")), "/b": page(head=link.format("/c")),
        "/elsewhere": page(head=link.format("http://o.test/x")), "/gone": page(head=link.format("/404")),
        "/two": page(head=link.format("/b") + link.format("/d")), "o.test": page(),
    })  # fmt: skip
    found = web.crawl(tmp_path, [f"http://t.test/{name}" for name in ("a", "elsewhere", "gone", "two")])
    status = statuses(found)
    for name in ("a", "b", "elsewhere", "gone", "two"):
        assert status[f"http://t.test/{name}"] == "fetched"
    assert "t.test/next-a" in web.asked()
    rows = found.query("SELECT canonical FROM pages WHERE url = 'http://t.test/elsewhere'")
    assert rows == [{"canonical": "http://o.test/x"}]


def test_t047_what_is_no_link(loopback: Loopback, tmp_path: Path) -> None:
    text = """<!-- <a href=/comment>x</a> --><script>var a = "<a href=/script>";</script>
        <style>p { background: url(/css) }</style><img src=/img srcset="/set 2x" data-src=/lazy>
        <svg><a xlink:href=/svg>x</a><image xlink:href=/image /></svg><iframe srcdoc="<a href=/srcdoc>"></iframe>
        <iframe src=/frame></iframe><form action=/get><input name=q></form><form method=post action=/post></form>
        <a href="javascript:void(0)">x</a><a href="mailto:a@b">x</a><a href="tel:1">x</a><a>x</a>"""
    web = Web(loopback, {"/": page(text=text)})
    web.crawl(tmp_path, ["http://t.test/"])
    assert sorted(web.asked()) == ["t.test/", "t.test/frame", "t.test/srcdoc", "t.test/svg"]
    assert all(exchange.head.startswith(b"GET ") for exchange in web.exchanges())


def test_t048_content_that_is_not_what_it_says(loopback: Loopback, tmp_path: Path) -> None:
    markup = b"<html><a href=/%b>x</a></html>"
    web = Web(loopback, {
        "/pdf": reply(b"%PDF-1.4\n" + bytes(range(256)) * 20), "/png": reply(b"\x89PNG\r\n\x1a\n" + bytes(500)),
        "/empty": reply(b"", 200, "Content-Type: text/html"),
        "/image": reply(markup % b"no1", mime="image/png"), "/zip": reply(markup % b"no2", mime="application/zip"),
        "/untyped": b"HTTP/1.1 200 x\r\nContent-Length: 31\r\n\r\n" + markup % b"yes1",
        "/octets": reply(markup % b"yes2", mime="application/octet-stream"),
    })  # fmt: skip
    found = web.crawl(tmp_path, [f"http://t.test{path}" for path in web.replies])
    assert {path for path in web.asked() if "/no" in path} == set()
    assert {"t.test/yes1", "t.test/yes2"} <= set(web.asked())
    types = {row["url"]: row["content_type"] for row in found.query("SELECT url, content_type FROM pages")}
    assert types["http://t.test/pdf"] == "text/html", "as declared"
    assert types["http://t.test/image"] == "image/png"


def test_t049_honeypots(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {
        "/robots.txt": robots("User-agent: *\nDisallow: /trap\n"),
        "/": page("/trap", "/trap/deeper", "/%74rap", text='<a style="display:none" href="/trap?h">.</a>'),
    })  # fmt: skip
    found = web.crawl(tmp_path, ["http://t.test/"])
    assert web.asked() == ["t.test/"]
    assert list(statuses(found).values()).count("denied") == 4

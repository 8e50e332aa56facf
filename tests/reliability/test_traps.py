"""Crawls of pages and sites that are built to confuse a crawler, or to keep it for ever.

Numbers such as T050 are those of the shared torture list.
"""

import gzip
import io
import random
from collections import Counter
from pathlib import Path
from typing import Any

from raw_server import Exchange, Loopback
from scripted import VALUES, Web, outcomes, page, reply, robots, statuses, verdicts
from warcio.archiveiterator import ArchiveIterator

from gossamer import Config
from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.crawl.agent import Agent
from gossamer.federation.exchange import Inbox
from gossamer.watch.log import EventLog

LONG = "x" * 2_000  # content that is worth a reference instead of a copy


# Pages


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
    assert sorted(web.asked()) == ["t.test/", "t.test/frame", "t.test/svg"]
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


# Sites without an end


def numbers(exchange: Exchange) -> int:
    """The last number in a path."""
    digits = "".join(c if c.isdigit() else " " for c in exchange.path).split()
    return int(digits[-1]) if digits else 0


def test_t050_a_calendar_without_end(loopback: Loopback, tmp_path: Path) -> None:
    def calendar(exchange: Exchange) -> bool:
        month = numbers(exchange) + 1
        return exchange.send(page(f"/cal?m={month}", f"/{2000 + month}/{month}", f"/{1999 - month}/{month}"))

    web = Web(loopback, {"calendar.test": calendar, "other.test": page(*(f"/{i}" for i in range(30)))})
    found = web.crawl(tmp_path, ["http://calendar.test/", "http://other.test/"])
    asked = web.asked("calendar.test")
    assert len(asked) == len(set(asked)) < 500
    depths = found.query("SELECT max(depth) FILTER (url LIKE '%?%') AS dynamic, max(depth) AS any FROM pages")
    assert depths == [{"dynamic": 5, "any": 15}]
    assert len(set(web.asked("other.test"))) == 31
    capped = web.crawl(tmp_path / "capped", ["http://calendar.test/"], limits__pages_per_host=20)
    assert capped.query("SELECT count(*) AS n FROM pages") == [{"n": 20}]


def test_t051_session_ids(loopback: Loopback, tmp_path: Path) -> None:
    chance = random.Random(51)

    def session(exchange: Exchange) -> bool:
        token = f"{chance.getrandbits(128):032x}"
        return exchange.send(page(
            f"/a;jsessionid={token}", f"/b?PHPSESSID={token}", f"/c?x=1&sid={token}", f"/(S({token[:24]}))/d.aspx",
            f"/e;jsessionid={token}?y=2",
        ))  # fmt: skip

    web = Web(loopback, {"t.test": session})
    found = web.crawl(tmp_path, ["http://t.test/"])
    wanted = ["t.test/", "t.test/a", "t.test/b", "t.test/c?x=1", "t.test/d.aspx", "t.test/e?y=2"]
    assert sorted(web.asked()) == wanted
    assert len(statuses(found)) == 6


def test_t051_tokens_that_nobody_knows(loopback: Loopback, tmp_path: Path) -> None:
    chance = random.Random(51)

    def token(exchange: Exchange) -> bool:
        return exchange.send(page(*(f"/t/{chance.getrandbits(64):x}/{name}" for name in "abcdef"), text=LONG))

    web = Web(loopback, {"trap.test": token, "other.test": page(*(f"/{i}" for i in range(20)))})
    web.crawl(tmp_path, ["http://trap.test/", "http://other.test/"], limits__pages_per_host=60)
    assert len(web.asked("trap.test")) == 60
    assert len(web.asked("other.test")) == 21


def test_t052_paths_that_repeat(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {
        "deep.test": page("y/"), "pair.test": page("a/b/"), "long.test": page("z{}/".format("1")),
        "/": page("a/", "x/y/"),
    })  # fmt: skip
    seeds = ["http://deep.test/x/y/", "http://pair.test/a/b/"]
    found = web.crawl(tmp_path, seeds, limits__depth=50)
    assert web.asked("deep.test") == ["deep.test/x/y/", "deep.test/x/y/y/", "deep.test/x/y/y/y/"]
    assert web.asked("pair.test") == ["pair.test/a/b/", "pair.test/a/b/a/b/", "pair.test/a/b/a/b/a/b/"]
    assert list(verdicts(found).values()).count("trap") == 2


def test_t052_paths_that_grow(loopback: Loopback, tmp_path: Path) -> None:
    def grow(exchange: Exchange) -> bool:
        return exchange.send(page(f"{exchange.path}{exchange.path.count('/')}/"))

    web = Web(loopback, {"t.test": grow})
    web.crawl(tmp_path, ["http://t.test/"], limits__depth=50)
    assert max(path.count("/") for path in web.asked()) == 20


def test_t053_facets(loopback: Loopback, tmp_path: Path) -> None:
    """2^20 combinations of filters, each in any order: the depth of dynamic pages and the host's budget hold."""

    def facets(exchange: Exchange) -> bool:
        query = exchange.path.partition("?")[2]
        chosen = query.split("&") if query else []
        free = [f"f{i}=1" for i in range(20) if f"f{i}=1" not in chosen]
        return exchange.send(page(*("/shop?" + "&".join([*chosen, more]) for more in free), "/about"))

    web = Web(loopback, {"shop.test": facets, "/about": page(), "other.test": page(*(f"/{i}" for i in range(20)))})
    values = {"limits__pages_per_host": 150, "limits__depth_dynamic": 2}
    found = web.crawl(tmp_path, ["http://shop.test/shop", "http://other.test/"], **values)
    assert len(web.asked("shop.test")) == 150
    assert "shop.test/about" in web.asked()
    assert len(web.asked("other.test")) == 21
    assert max(path.count("&") for path in web.asked("shop.test")) == 1
    assert {"followed", "cap", "depth"} == set(verdicts(found).values())


def test_t054_the_same_content_everywhere(loopback: Loopback, tmp_path: Path) -> None:
    """Mirrors, print versions and a server that says 200 to everything: the content is stored once."""
    links = [f"/{i}" for i in range(100)]
    same = page(*links, text=LONG)
    web = Web(loopback, {"a.test": same, "www.a.test": same, "b.test": reply(f"<html>{LONG}</html>".encode())})
    seeds = ["http://a.test/", "http://www.a.test/", *(f"http://b.test/no-such-{i}?print=1" for i in range(100))]
    found = web.crawl(tmp_path, seeds)
    assert len(web.asked()) == 302
    rows = found.query("SELECT is_revisit, count(*) AS n FROM visits WHERE NOT is_robots GROUP BY is_revisit")
    assert {row["is_revisit"]: row["n"] for row in rows} == {False: 2, True: 300}
    profiles = Counter(
        header.get_header("WARC-Profile")
        for header in record_headers(tmp_path)
        if header.get_header("WARC-Type") == "revisit"
    )
    assert list(profiles) == ["http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"]
    texts = found.query("SELECT count(DISTINCT text(warc, warc_offset)) AS n FROM pages WHERE host = 'b.test'")
    assert texts == [{"n": 1}], "references are followed"


def test_t055_names_without_end(loopback: Loopback, tmp_path: Path) -> None:
    def anywhere(exchange: Exchange) -> bool:
        start = numbers(exchange) + sum(map(ord, exchange.host))
        return exchange.send(page(*(f"http://s{start}x{i}.trap.test/p{i}" for i in range(20))))

    web = Web(loopback, {})
    web.replies = {"other.test": page(*(f"/{i}" for i in range(20)))}
    web.replies |= {f"/p{i}": anywhere for i in range(20)} | {"trap.test": anywhere}
    values = {"limits__hosts_per_domain": 15, "limits__pages_per_domain": 60}
    web.crawl(tmp_path, ["http://trap.test/", "http://other.test/"], **values)
    trapped = [exchange.host for exchange in web.exchanges() if exchange.host.endswith("trap.test")]
    assert len(set(trapped)) == 15
    assert len(trapped) <= 60
    assert len(web.asked("other.test")) == 21


def test_t056_pages_with_side_effects(loopback: Loopback, tmp_path: Path) -> None:
    def results(exchange: Exchange) -> bool:
        n = numbers(exchange) + 1
        fields = [f"Set-Cookie: cart={n}; Path=/"]
        body = f"<html><a href='/search?q=x&page={n}'>next</a><form action=/buy method=post></form></html>"
        return exchange.send(reply(body.encode(), 200, *fields))

    web = Web(loopback, {
        "/robots.txt": robots("User-agent: *\nDisallow: /logout\nDisallow: /cart\n"),
        "/": page("/search?q=x&page=0", "/logout", "/cart?add=1"), "t.test": results,
    })  # fmt: skip
    web.crawl(tmp_path, ["http://t.test/"])
    assert web.asked() == ["t.test/", *(f"t.test/search?q=x&page={n}" for n in range(5))]
    for exchange in web.exchanges(with_robots=True):
        assert exchange.head.startswith(b"GET ")
        assert b"\ncookie:" not in exchange.head.lower()


# Sitemaps


def test_t091_sitemaps(loopback: Loopback, tmp_path: Path) -> None:
    def urlset(*urls: str, before: str = "") -> bytes:
        entries = "".join(f"<url><loc>{url}</loc><lastmod>not a date</lastmod></url>" for url in urls)
        return reply(f"<?xml version='1.0'?>{before}<urlset>{entries}</urlset>".encode(), mime="application/xml")

    def index(*urls: str) -> bytes:
        entries = "".join(f"<sitemap><loc>http://t.test{url}</loc></sitemap>" for url in urls)
        return reply(f"<sitemapindex>{entries}</sitemapindex>".encode(), mime="text/xml")

    laughs = "<!DOCTYPE x [<!ENTITY a 'ha'>" + "".join(
        f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 12)
    ) + "]>"  # fmt: skip
    xxe = '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd"><!ENTITY h SYSTEM "http://t.test/entity">]>'
    packed = gzip.compress(b"<urlset><url><loc>http://t.test/5</loc></url></urlset>")
    bomb = gzip.compress(b"<urlset>" + b"<url><loc>http://t.test/bomb</loc></url>" + b" " * (60 << 20))
    web = Web(loopback, {
        "/robots.txt": robots("Sitemap: http://t.test/index.xml\nSitemap: http://elsewhere.test/sitemap.xml"),
        "/index.xml": index("/index.xml", "/nested.xml", "/sitemap-html.xml", "/sitemap.gz", "/bomb.xml.gz"),
        "/nested.xml": index("/index.xml", "/laughs.xml", "/xxe.xml", "/foreign.xml"),
        "/laughs.xml": urlset("http://t.test/1", "http://t.test/&a11;", before=laughs),
        "/xxe.xml": urlset("http://t.test/2", "http://t.test/&f;", "http://t.test/&h;", before=xxe),
        "/foreign.xml": urlset("http://t.test/3", "http://foreign.test/", "http://t.test.evil.test/"),
        "/sitemap-html.xml": page("/4", text="not a sitemap"),
        "/sitemap.gz": reply(packed, mime="application/gzip"),
        "/bomb.xml.gz": reply(bomb, mime="application/gzip"),
        "t.test": page(), "elsewhere.test": urlset("http://elsewhere.test/own", "http://t.test/6"),
    })  # fmt: skip
    found = web.crawl(tmp_path, ["http://t.test/"])
    asked = Counter(web.asked())
    assert {f"t.test/{i}" for i in (1, 2, 3, 5)} | {"t.test/bomb", "elsewhere.test/own"} <= set(asked)
    assert max(asked.values()) == 1, "an index that names itself is read once"
    assert not [path for path in asked if path.startswith(("foreign.test", "t.test.evil.test"))]
    assert "t.test/6" not in asked, "a sitemap speaks for its own host"
    assert "t.test/entity" not in asked
    assert not [path for path in asked if "root:" in path or "haha" in path]
    assert outcomes(found)["http://t.test/bomb.xml.gz"] == "ok"


def test_t091_a_sitemap_of_more_than_it_may_list(loopback: Loopback, tmp_path: Path) -> None:
    entries = "".join(f"<url><loc>http://t.test/{i}</loc></url>" for i in range(50_001))
    text = f"<urlset>{entries}</urlset>".encode()
    web = Web(loopback, {"/robots.txt": robots("Sitemap: http://t.test/s.xml"), "/s.xml": reply(text, mime="text/xml")})
    found = web.crawl(tmp_path, ["http://t.test/"], limits__pages_per_host=100_000, crawl__pages=40)
    assert found.query("SELECT links, truncated FROM visits WHERE url = 'http://t.test/s.xml'") == [
        {"links": 50_000, "truncated": "length"}
    ]
    assert found.query("SELECT count(*) AS n FROM pages") == [{"n": 50_002}]


# Records and turns


def record_headers(directory: Path) -> list[Any]:
    files = [path.read_bytes() for path in sorted((directory / "warc").iterdir())]
    return [record.rec_headers for data in files for record in ArchiveIterator(io.BytesIO(data))]


def test_t095_one_page_under_many_spellings(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {"t.test": page("/x", "/y/../x", "/x#1", "//t.test:80/x", "HTTP://T.TEST/x", "/%78", "/./x")})
    web.crawl(
        tmp_path, ["http://t.test", "HTTP://T.test:80/", "http://t.test/#top", "http://u:p@t.test/", "http:t.test"]
    )
    assert sorted(web.asked()) == ["t.test/", "t.test/%78", "t.test/x"], "%78 may mean something else to a server"
    headers = record_headers(tmp_path)
    ids = [header.get_header("WARC-Record-ID") for header in headers]
    assert len(ids) == len(set(ids))
    assert all(header.get_header("WARC-Date").endswith("Z") for header in headers)


class SetBack(RealClock):
    """The machine's clock is set back by an hour while we look the other way."""

    def __init__(self) -> None:
        self.back_s = 0.0

    def now(self) -> float:
        return super().now() - self.back_s


def test_t095_the_clock_is_set_back(loopback: Loopback, tmp_path: Path) -> None:
    clock = SetBack()

    def turn(exchange: Exchange) -> bool:
        clock.back_s = 3_600.0 if len(web.asked()) > 5 else 0.0
        return exchange.send(page(f"/{numbers(exchange) + 1}"))

    web = Web(loopback, {"t.test": turn})
    values = {**VALUES, "resolve.map": {"*": web.address}, "crawl.width": 4, "polite.delay_s": 0.02}
    store = Directory.prepare(tmp_path, clock.now())
    with EventLog(tmp_path / "log" / "crawl.jsonl") as log:
        agent = Agent(store, Config().replace(values), clock, Inbox(store), log, ["http://t.test/0"])
        stats = agent.run(lambda _: None)
    assert stats.visits == 16
    assert web.asked() == [f"t.test/{i}" for i in range(16)], "all of them, down to the last level"


def test_t096_small_hosts_finish_early(loopback: Loopback, tmp_path: Path) -> None:
    small = [f"small{i}.test" for i in range(20)]
    replies = {host: page(*(f"/{i}" for i in range(5))) for host in small}
    web = Web(loopback, {**replies, "big.test": page(*(f"/{i}" for i in range(150)))})
    seeds = ["http://big.test/", *(f"http://{host}/" for host in small)]
    web.crawl(tmp_path, seeds, polite__delay_s=0.03, crawl__width=40, polite__connections=64)
    order = [exchange.host for exchange in web.exchanges()]
    assert (order.count("big.test"), len(order)) == (151, 151 + 120)
    last = max(place for place, host in enumerate(order) if host != "big.test")
    assert order[:last].count("big.test") < 75, "all small hosts are done before the big one is half done"

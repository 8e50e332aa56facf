"""Crawls of sites that would keep a crawler for ever, or keep others from their turn.

Numbers such as T050 are those of the list in tests/cases/README.md.
"""

import gzip
import io
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from raw_server import Exchange, Loopback
from scripted import VALUES, Web, outcomes, page, reply, robots, statuses, verdicts
from warcio.archiveiterator import ArchiveIterator

from gossamer import Config
from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.crawl.inbox import Inbox
from gossamer.crawl.seeds import hand_in
from gossamer.event_log import EventLog
from gossamer.watch.status import status
from gossamer.wiring import lone_agent

LONG = "x" * 2_000  # content that is worth a reference instead of a copy


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
    for directory, settings in (
        (tmp_path, ["depth", "depth_dynamic"]),
        (tmp_path / "capped", ["depth_dynamic", "pages_per_host"]),
    ):
        refused = status(directory)["refused_links"]
        assert sorted(refused) == [f"limits.{name}" for name in settings]
        assert min(refused.values()) > 0


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
    web = Web(loopback, {"deep.test": page("y/"), "pair.test": page("a/b/")})
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


def test_t055_real_names_among_names_without_end(loopback: Loopback, tmp_path: Path) -> None:
    """A site whose pages lead to its real hosts late, and a trap that had its turn long before."""

    def anywhere(exchange: Exchange) -> bool:
        start = numbers(exchange) + sum(map(ord, exchange.host))
        return exchange.send(page(*(f"http://s{start}x{i}.d.test/p{i}" for i in range(20))))

    real = [f"real{i}.d.test" for i in range(15)]
    chain = {f"www.d.test/{i}": page(f"/{i + 1}") for i in range(9)}
    web = Web(loopback, {
        **chain, "www.d.test/0": page("/1", "http://trap.d.test/p0"),
        "www.d.test/9": page(*(f"http://{host}/" for host in real)),
        **{f"{host}/": page(text=host) for host in real}, **{f"/p{i}": anywhere for i in range(20)},
    })  # fmt: skip
    web.crawl(tmp_path, ["http://www.d.test/0"], limits__hosts_per_domain=40)
    hosts = {exchange.host for exchange in web.exchanges()}
    assert set(real) <= hosts
    assert len(hosts) <= 40


@pytest.mark.parametrize("first", ["/shop?page=1", "/shop?sort=a&start=0", "/blog/page/1/"])
def test_a_list_over_many_pages_is_no_trap(loopback: Loopback, tmp_path: Path, first: str) -> None:
    """Two hundred products on twenty pages, each of which leads to the next only."""
    step = 10 if "start" in first else 1

    def products(exchange: Exchange) -> bool:
        number = numbers(exchange)
        place = number // step - (step == 1)
        if "product" in exchange.path:
            return exchange.send(page("/"))
        following = first.replace(str((step == 1 and 1) or 0), str(number + step)) if place < 19 else "/"
        return exchange.send(page(*(f"/product/{10 * place + i}" for i in range(10)), following))

    web = Web(loopback, {"/": page(first), "shop.test": products})
    web.crawl(tmp_path, ["http://shop.test/"])
    asked = [path for path in web.asked("shop.test") if "product" in path]
    assert len(set(asked)) == len(asked) == 200


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
        "t.test": page(), "elsewhere.test": urlset("http://elsewhere.test/own", "http://t.test/6", "http://foreign.test/7"),
    })  # fmt: skip
    found = web.crawl(tmp_path, ["http://t.test/"])
    asked = Counter(web.asked())
    assert {f"t.test/{i}" for i in (1, 2, 3, 5, 6)} | {"t.test/bomb", "elsewhere.test/own"} <= set(asked)
    assert max(asked.values()) == 1, "an index that names itself is read once"
    assert not [path for path in asked if path.startswith(("foreign.test", "t.test.evil.test"))]
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
        hand_in(Inbox(store), ["http://t.test/0"], [])
        agent = lone_agent(store, Config().replace(values), clock, Inbox(store), log)
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

import gzip
import random
from typing import Any

import numpy as np
import pytest
from answers import HTML, NOW_S, answer, page, reader

from gossamer.columns import NEVER, REQUISITE, Outcome, Status
from gossamer.crawl.reader import VERDICTS, Visit
from gossamer.crawl.scope import NamedSitemaps, Naming, Scope
from gossamer.crawl.update import CashUse
from gossamer.fetch.client import Request, Response
from gossamer.web.url import page_key


def verdicts(visit: Visit) -> dict[str, str]:
    assert len(visit.targets) == len(visit.verdicts) == len(visit.urls)
    assert visit.targets.tolist() == [page_key(url) for url in visit.urls]
    return dict(zip(visit.urls, [VERDICTS[code] for code in visit.verdicts], strict=True))


def test_a_page_and_what_it_says() -> None:
    canonical = "<link rel=canonical href=/dir/c>"
    fields = (HTML, 'ETag: "e"', "Last-Modified: yesterday")
    visit = reader().read(answer(page("/x", head=canonical), *fields))
    assert (visit.outcome, visit.next.status, visit.next.cash_use) == (Outcome.OK, Status.FETCHED, CashUse.SPEND)
    assert (visit.mime, visit.charset, visit.title, visit.language) == ("text/html", "utf-8", "T", "de")
    assert visit.canonical == "http://a.test/dir/c"
    assert (visit.etag, visit.last_modified) == ('"e"', "yesterday")
    assert verdicts(visit) == {"http://a.test/dir/c": "followed", "http://a.test/x": "followed"}
    assert visit.digest != 0
    assert visit.body_bytes == len(visit.response.body)


def test_every_verdict_that_a_link_can_have() -> None:
    inside = Scope("host", ["a.test"])
    links = ["/ok", "http://b.test/", "/a/a/a/a/a", "http://a.test:25/", "/" + "l" * 3_000]
    body = page(*links) + b"<a rel=nofollow href=/marked>x</a>"
    found = verdicts(reader(inside).read(answer(body, HTML)))
    assert list(found.values()) == ["followed", "scope", "trap", "port", "length", "nofollow"]
    unmarked = verdicts(reader(inside, crawl__nofollow=False).read(answer(body, HTML)))
    assert unmarked["http://a.test/marked"] == "followed"


def test_patterns() -> None:
    links = ["/blog/1", "/blog/1?sort=name", "/about", "/blog/2.pdf", "http://b.test/blog/"]
    body = page(*links)
    seen = Scope("host", ["a.test"])
    values = {"crawl__include": ["*/blog/*"], "crawl__exclude": ["*.pdf", "http://a.test/*?sort=*"]}
    found = verdicts(reader(seen, **values).read(answer(body, HTML)))
    assert list(found.values()) == ["followed", "pattern", "pattern", "pattern", "scope"]
    excluded = verdicts(reader(seen, crawl__exclude=["*/blog/*"]).read(answer(body, HTML)))
    assert list(excluded.values()) == ["pattern", "pattern", "followed", "pattern", "scope"]


def test_patterns_are_about_links_not_about_seeds_and_sitemaps() -> None:
    read = reader(Scope("host", ["a.test"]), crawl__include=["*/blog/*"])
    moved = {"status": 301, "outcome": Outcome.MOVED, "location": "http://a.test/new"}
    assert verdicts(read.read(answer(depth=0, **moved))) == {"http://a.test/new": "followed"}
    assert verdicts(read.read(answer(depth=1, **moved))) == {"http://a.test/new": "pattern"}
    robots = b"Sitemap: http://a.test/map.xml\nSitemap: http://b.test/map.xml\n"
    assert read.read(answer(robots, is_robots=True)).sitemaps == ["http://a.test/map.xml", "http://b.test/map.xml"]
    head = "<sitemapindex xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><sitemap><loc>"
    index = f"{head}http://a.test/map2.xml</loc></sitemap></sitemapindex>"
    assert verdicts(read.read(answer(index.encode(), "Content-Type: text/xml"))) == {
        "http://a.test/map2.xml": "followed"
    }
    urls = index.replace("sitemapindex", "urlset").replace("<sitemap>", "<url>").replace("</sitemap>", "</url>")
    assert verdicts(read.read(answer(urls.encode(), "Content-Type: text/xml"))) == {"http://a.test/map2.xml": "pattern"}


def test_a_widened_scope_is_judged_anew() -> None:
    scope = Scope("host", ["a.test"])
    read = reader(scope)
    response = answer(page("http://b.test/"), HTML)
    assert verdicts(read.read(response)) == {"http://b.test/": "scope"}
    scope.widen(["http://b.test/"])
    read.forget()
    assert verdicts(read.read(response)) == {"http://b.test/": "followed"}


@pytest.mark.parametrize(
    ("depth", "static", "dynamic"),
    [(0, "followed", "followed"), (1, "followed", "followed"), (2, "followed", "depth"), (3, "followed", "depth"),
     (4, "depth", "depth")],
)  # fmt: skip
def test_depth(depth: int, static: str, dynamic: str) -> None:
    read = reader(limits__depth=4, limits__depth_dynamic=2)
    found = verdicts(read.read(answer(page("/s", "/d?q"), HTML, depth=depth)))
    assert list(found.values()) == [static, dynamic]


def test_dynamic_pages_are_never_deeper_than_static_ones() -> None:
    found = verdicts(reader(limits__depth=1, limits__depth_dynamic=5).read(answer(page("/s", "/d?q"), HTML, depth=1)))
    assert list(found.values()) == ["depth", "depth"]


def test_a_redirect_is_one_link_at_the_same_depth() -> None:
    moved = {"status": 301, "outcome": Outcome.MOVED, "location": "http://a.test/new"}
    visit = reader(limits__depth=3).read(answer(b"<a href=/other>x</a>", HTML, depth=3, **moved))
    assert (visit.outcome, visit.next.status, visit.next.cash_use) == (Outcome.MOVED, Status.MOVED, CashUse.PASS)
    assert visit.location == "http://a.test/new"
    assert verdicts(visit) == {"http://a.test/new": "followed"}
    outside = reader(Scope("host", ["b.test"])).read(answer(**moved))
    assert verdicts(outside) == {"http://a.test/new": "scope"}


def test_too_many_redirects_in_a_row() -> None:
    moved = {"status": 302, "outcome": Outcome.MOVED, "location": "http://a.test/new"}
    last, too_many = (reader(fetch__hops=3).read(answer(hops=hops, **moved)) for hops in (2, 3))
    assert (last.outcome, len(last.targets)) == (Outcome.MOVED, 1)
    assert (too_many.outcome, too_many.next.status) == (Outcome.BAD_REDIRECT, Status.GONE)
    assert too_many.reason == "more than 3 redirects in a row"
    assert len(too_many.targets) == 0
    robots = reader(fetch__hops=3).read(answer(hops=3, is_robots=True, **moved))
    assert robots.outcome is Outcome.MOVED, "those of robots.txt have a limit of their own"


def test_unchanged_by_digest_sends_no_links_again() -> None:
    read = reader()
    first = read.read(answer(page("/x"), HTML))
    again = read.read(answer(page("/x"), HTML, digest=first.digest))
    assert (again.outcome, again.next.status, again.next.cash_use) == (Outcome.UNCHANGED, Status.FETCHED, CashUse.SPEND)
    assert (again.title, again.charset, again.digest) == ("T", "utf-8", first.digest)
    assert verdicts(again) == {}
    assert verdicts(first) == {"http://a.test/x": "followed"}
    changed = read.read(answer(page("/y"), HTML, digest=first.digest))
    assert (changed.outcome, list(verdicts(changed))) == (Outcome.OK, ["http://a.test/y"])


def test_the_digest_is_that_of_the_content_not_of_its_coding() -> None:
    plain = reader().read(answer(page("/x"), HTML))
    packed = answer(gzip.compress(page("/x")), HTML, "Content-Encoding: gzip", digest=plain.digest)
    assert reader().read(packed).outcome is Outcome.UNCHANGED


def test_not_modified() -> None:
    response = answer(b"", 'ETag: "e2"', status=304, outcome=Outcome.UNCHANGED, etag='"e"', digest=5)
    visit = reader().read(response)
    assert (visit.outcome, visit.next.cash_use, visit.digest, len(visit.targets)) == (
        Outcome.UNCHANGED, CashUse.SPEND, 0, 0,
    )  # fmt: skip


def test_empty_pages_are_never_unchanged() -> None:
    visit = reader().read(answer(b"", HTML, digest=0))
    assert (visit.outcome, visit.digest, visit.body_bytes) == (Outcome.OK, 0, 0)


PACKED = gzip.compress(page("/x") + random.Random(1).randbytes(30_000))


@pytest.mark.parametrize(
    ("fields", "wire", "cut", "links"),
    [
        (("Content-Encoding: gzip",), gzip.compress(page("/x")), "", 1),
        (("Content-Encoding: gzip",), PACKED[:-100], "disconnect", 1),
        (("Content-Encoding: gzip",), page("/x"), "", 1),
        (("Content-Encoding: foo",), page("/x"), "coding", 0),
        (("Content-Encoding: " + ", ".join(["gzip"] * 50),), page("/x"), "coding", 0),
        (("Transfer-Encoding: chunked",), b"%x\r\n%b\r\n0\r\n\r\n" % (len(page("/x")), page("/x")), "", 1),
        (("Content-Encoding: gzip",), PACKED[:-9_000] + b"\xff" * 9_000, "corrupt", 1),
    ],
    ids=["gzip", "cut", "plain", "unknown", "layers", "chunks", "corrupt"],
)  # fmt: skip
def test_codings(fields: tuple[str, ...], wire: bytes, cut: str, links: int) -> None:
    visit = reader().read(answer(wire, HTML, *fields))
    assert (visit.outcome, len(visit.targets)) == (Outcome.OK, links)
    assert visit.truncated == cut
    assert visit.response.body == wire, "what is stored are the bytes of the wire"


def test_a_bomb_is_cut() -> None:
    wire = gzip.compress(page("/x") + b" " * 5_000_000)
    visit = reader(fetch__decoded_bytes=10_000).read(answer(wire, HTML, "Content-Encoding: gzip"))
    assert (visit.body_bytes, visit.truncated, len(visit.targets)) == (10_000, "length", 1)


def test_what_was_cut_on_the_wire_stays_so() -> None:
    visit = reader().read(answer(page("/x"), HTML, truncated="time"))
    assert (visit.truncated, len(visit.targets)) == ("time", 1)


def test_only_the_beginning_of_a_page_is_searched() -> None:
    body = page("/x") + b" " * 2_000 + b"<a href=/far>x</a>"
    assert list(verdicts(reader(fetch__parse_bytes=1_024).read(answer(body, HTML)))) == ["http://a.test/x"]
    assert len(reader(limits__links=3).read(answer(page(*map(str, range(9))), HTML)).targets) == 3


@pytest.mark.parametrize(
    ("field", "is_read"),
    [(HTML, True), ("Content-Type: application/xhtml+xml", True), ("X-No-Type: 1", True),
     ("Content-Type: text/plain", True), ("Content-Type: application/octet-stream", True),
     ("Content-Type: image/png", False), ("Content-Type: application/json", False)],
)  # fmt: skip
def test_which_types_are_read(field: str, is_read: bool) -> None:
    assert bool(len(reader().read(answer(page("/x"), field)).targets)) == is_read


@pytest.mark.parametrize("kind", ["X-No-Type: 1", *(f"Content-Type: {t}/{t}" for t in ("unknown", "*"))])
@pytest.mark.parametrize("start", ["<div>", "<script></script>", "<table>", "<p>", " <!-- -->", "<h1>", "<BR>"])
def test_pages_of_unknown_type_are_recognised_by_their_first_tag(kind: str, start: str) -> None:
    visit = reader().read(answer(f"{start}<a href=/x>x</a>".encode(), kind))
    assert verdicts(visit) == {"http://a.test/x": "followed"}


def test_plain_text_is_no_page() -> None:
    visit = reader().read(answer(b"see http://b.test/ and <a href=/x>", "Content-Type: text/plain"))
    assert (visit.outcome, len(visit.targets), visit.charset) == (Outcome.OK, 0, "")


@pytest.mark.parametrize("outcome", [Outcome.GONE, Outcome.SERVER_ERROR, Outcome.REJECTED, Outcome.OTHER])
def test_error_pages_are_not_read(outcome: Outcome) -> None:
    visit = reader().read(answer(page("/x"), HTML, status=404, outcome=outcome))
    assert (visit.outcome, len(visit.targets), visit.title) == (outcome, 0, "")
    assert visit.body_bytes > 0


def test_failures_and_their_next_state() -> None:
    failed = Response(Request(1, "http://a.test/", "a.test", tries=1), Outcome.TIMEOUT, "slow", started_s=NOW_S)
    visit = reader(fetch__retry_s=10.0).read(failed)
    assert (visit.reason, visit.next.status, visit.next.tries) == ("slow", Status.FAILED, 2)
    assert visit.next.due_s == int(NOW_S + 20) + 1
    last = reader(fetch__retries=1).read(failed)
    assert (last.next.status, last.next.due_s) == (Status.GONE, NEVER)


def test_x_robots_tag_and_refresh() -> None:
    tagged = reader().read(answer(page("/x"), HTML, "X-Robots-Tag: noindex, nofollow"))
    assert tagged.noindex
    assert verdicts(tagged) == {"http://a.test/x": "nofollow"}
    elsewhere = reader().read(answer(page("/x"), HTML, "X-Robots-Tag: otherbot: nofollow"))
    assert verdicts(elsewhere) == {"http://a.test/x": "followed"}
    refresh = reader().read(answer(page(), HTML, "Refresh: 1; url=/soon"))
    assert verdicts(refresh) == {"http://a.test/soon": "followed"}


# Sitemaps


def test_a_relative_sitemap_belongs_to_the_host_of_the_robots_txt() -> None:
    body = "Sitemap: /map.xml\nSitemap:\u00a0http://a.test/b.xml".encode()
    found = reader().read(answer(body, url="http://a.test/robots.txt", is_robots=True))
    assert found.sitemaps == ["http://a.test/map.xml", "http://a.test/b.xml"]


def sitemap(*urls: str, kind: str = "url") -> bytes:
    root = "urlset" if kind == "url" else "sitemapindex"
    return f"<{root}>{''.join(f'<{kind}><loc>{url}</loc></{kind}>' for url in urls)}</{root}>".encode()


XML = "Content-Type: application/xml"


def test_a_sitemap_speaks_for_its_own_host() -> None:
    body = sitemap("http://a.test/1", "http://b.test/2", "https://a.test/3", "http://www.a.test/4", "http://a.test/5?q")
    found = verdicts(reader().read(answer(body, XML, url="http://a.test/s.xml")))
    assert list(found.values()) == ["followed", "scope", "followed", "scope", "followed"]


def test_an_index_of_sitemaps() -> None:
    body = sitemap("http://a.test/s1.xml", "http://b.test/s2.xml", kind="sitemap")
    found = verdicts(reader().read(answer(body, XML, url="http://a.test/index.xml")))
    assert list(found.values()) == ["followed", "scope"]


def test_depth_rules_hold_for_sitemaps_and_win_over_nothing_else() -> None:
    body = sitemap("http://a.test/1", "http://a.test/2?q", "http://b.test/3?q")
    found = verdicts(reader(limits__depth_dynamic=0).read(answer(body, XML, url="http://a.test/s.xml")))
    assert list(found.values()) == ["followed", "depth", "scope"]


def test_a_page_is_taken_for_a_sitemap_only_if_it_is_called_one() -> None:
    body = sitemap("http://a.test/1")
    assert len(reader().read(answer(body, HTML, url="http://a.test/page")).targets) == 0
    assert len(reader().read(answer(body, HTML, url="http://a.test/sitemap.xml")).targets) == 1


def test_a_sitemap_beyond_its_limits_is_marked() -> None:
    body = sitemap(*(f"http://a.test/{i}" for i in range(50_001)))
    visit = reader().read(answer(body, XML, url="http://a.test/s.xml"))
    assert (len(visit.targets), visit.truncated) == (50_000, "length")


ROBOTS = b"User-agent: *\nDisallow: /x\nSitemap: http://a.test/s.xml\nSitemap: http://b.test/s.xml\nSitemap: mailto:x\n"


def robots(status: int = 200, **changes: Any) -> list[str]:
    scope = changes.pop("scope", None)
    response = answer(ROBOTS, url="http://a.test/robots.txt", status=status, is_robots=True)
    visit = reader(scope, **changes).read(response)
    assert len(visit.targets) == 0
    return visit.sitemaps


def test_sitemaps_of_a_robots_txt() -> None:
    assert robots() == ["http://a.test/s.xml", "http://b.test/s.xml"]
    assert robots(scope=Scope("host", ["a.test"])) == ["http://a.test/s.xml", "http://b.test/s.xml"]
    assert robots(scope=Scope("host", ["c.test"])) == [], "a host that is not in scope names nothing"
    assert robots(crawl__sitemaps=False) == []
    assert robots(status=404) == []
    assert robots(limits__url_bytes=20) == ["http://a.test/s.xml", "http://b.test/s.xml"]


def test_sitemap_lines_may_be_relative() -> None:
    body = b"Sitemap: /s.xml\nSitemap: maps/t.xml\n"
    visit = reader().read(answer(body, url="http://a.test/robots.txt", is_robots=True))
    assert visit.sitemaps == ["http://a.test/s.xml", "http://a.test/maps/t.xml"]


def test_a_robots_txt_sends_us_to_so_many_other_hosts_only() -> None:
    body = b"".join(b"Sitemap: http://h%d.test/s.xml\n" % i for i in range(1_000))
    visit = reader(Scope("host", ["a.test"])).read(answer(body, url="http://a.test/robots.txt", is_robots=True))
    assert len(visit.sitemaps) == len(visit.named) == 100


def test_a_sitemap_elsewhere_speaks_for_the_hosts_that_name_it() -> None:
    named = NamedSitemaps([Naming("a.test", "http://cdn.test/s.xml")])
    read = reader(Scope("host", ["a.test", "c.test"]), named)
    body = sitemap("http://a.test/1", "http://c.test/2", "http://cdn.test/3")
    found = verdicts(read.read(answer(body, XML, url="http://cdn.test/s.xml")))
    assert list(found.values()) == ["followed", "scope", "scope"]
    other = verdicts(read.read(answer(body, XML, url="http://cdn.test/t.xml")))
    assert list(other.values()) == ["scope", "scope", "scope"], "nobody has named that one"


def test_what_a_sitemap_elsewhere_leads_to_is_named_too() -> None:
    named = NamedSitemaps([Naming("a.test", "http://cdn.test/s.xml")])
    read = reader(Scope("host", ["a.test"]), named)
    body = sitemap("http://cdn.test/1.xml", "http://other.test/2.xml", "http://a.test/3.xml", kind="sitemap")
    visit = read.read(answer(body, XML, url="http://cdn.test/s.xml"))
    assert list(verdicts(visit).values()) == ["followed", "scope", "followed"]
    assert Naming("http://cdn.test/s.xml", "http://cdn.test/1.xml") in visit.named
    named.add(visit.named)
    assert named.hosts("http://cdn.test/1.xml") == {"a.test"}
    moved = answer(url="http://cdn.test/s.xml", status=301, outcome=Outcome.MOVED, location="http://store.test/s.xml")
    visit = read.read(moved)
    assert verdicts(visit) == {"http://store.test/s.xml": "followed"}
    named.add(visit.named)
    assert named.hosts("http://store.test/s.xml") == {"a.test"}


def test_links_are_columns() -> None:
    visit = reader().read(answer(page("/x", "/y"), HTML))
    assert (visit.targets.dtype, visit.verdicts.dtype) == (np.uint64, np.uint8)
    nothing = reader().read(answer(b"", HTML))
    assert (nothing.targets.dtype, nothing.verdicts.dtype) == (np.uint64, np.uint8)


def test_what_gets_a_simhash() -> None:
    shown = b"<p>" + b" ".join(b"word%d" % n for n in range(100))
    read = reader(archive__simhash=1.0, crawl__purpose="ai-train")
    visit = read.read(answer(shown, HTML))
    assert visit.simhash
    assert read.read(answer(gzip.compress(shown), HTML, "Content-Encoding: gzip")).simhash == visit.simhash
    made = read.read_again(read.read(answer(b"<script src=/app.js></script>", HTML)), shown, "", "")
    assert made.simhash == visit.simhash, "the page as its scripts made it"
    assert read.read(answer(b"<p>not found", HTML)).simhash == 0
    assert read.read(answer(b"\x89PNG", "Content-Type: image/png")).simhash == 0
    for other in (
        answer(shown, HTML, digest=visit.digest),  # unchanged
        answer(shown, HTML, hops=REQUISITE),
        answer(shown, HTML, is_robots=True),
        answer(shown, HTML, "X-Robots-Tag: noai"),
        answer(shown + b" " * (1 << 19), HTML),
    ):
        assert read.read(other).simhash is None
    assert reader().read(answer(shown, HTML)).simhash is None, "nobody asked"

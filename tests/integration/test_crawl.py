"""Whole crawls of a test web over real HTTP, checked against the web's own truth and its own log."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from crawls import QUICK, crawl, statuses, visited
from raw_server import Exchange, Loopback
from rich.console import Console

from gossamer.api import Crawl
from gossamer.archive.chain import Chain
from gossamer.archive.linkgraph import read_links
from gossamer.archive.store import Directory
from gossamer.config import Config
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.stats import Stats
from gossamer.frontier.pages import PageIndex
from gossamer.testweb.assets import SHARED, image
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.watch.progress import summary
from gossamer.watch.status import render, status
from gossamer.web.url import domain_of, host_of, origin_of

SPEC = WebSpec(seed=11, hosts=40, pages=700, page_bytes=6_000.0, links=20.0, robots_broken=0.0, crawl_delay_s=0.02)


def missing_cash(directory: Path) -> int:
    """Cash that the ledger cannot account for."""
    store = Directory(directory)
    snapshot = Chain.read(store, "a0")
    index = PageIndex.open(store, snapshot.files, Config().index)
    stored = sum(int(rows["cash"].sum()) for rows in index.pages.scan())
    return Ledger.of(snapshot.state.ledger).missing(stored)


def test_a_crawl_visits_what_can_be_reached_and_nothing_else(web: RunningWeb, tmp_path: Path) -> None:
    found = crawl(web, tmp_path)
    truth = web.truth
    wanted = {truth.url(page) for page in truth.reachable()}
    status = statuses(found)
    fetched = {url for url in visited(found) if status[url] != "denied"}
    sitemaps = {url for url in fetched if url.endswith((".xml", ".xml.gz"))}
    assert fetched - sitemaps == wanted
    by_status = Counter(status.values())
    assert by_status["fetched"] > 500
    assert by_status["denied"] > 0
    assert by_status["new"] == 0
    assert missing_cash(tmp_path) == 0


def test_rules_are_committed_with_the_visit_that_brought_them(web: RunningWeb, tmp_path: Path) -> None:
    """A crash after a commit must not find rules whose sitemaps nobody has read: round by round, both or neither."""
    crawl(web, tmp_path, {"crawl.width": 5, "archive.merge_files": 0})
    rounds = 0
    for path in sorted((tmp_path / "tables").glob("robots-*.parquet")):
        visits = pq.read_table(path.with_name(path.name.replace("robots-", "visits-"))).to_pylist()
        asked = {origin_of(visit["url"]) for visit in visits if visit["is_robots"]}
        ruled = {row["origin"] for row in pq.read_table(path).to_pylist()}
        assert ruled <= asked, path.name
        rounds += 1
    assert rounds > 5


def test_a_sitemap_on_another_host_is_read(loopback: Loopback, tmp_path: Path) -> None:
    """The robots.txt that names it is the permission, for the host's own pages, through an index and restarts."""

    def answer(exchange: Exchange) -> bool:
        url = f"{exchange.host}{exchange.path}"
        texts = {
            "a.test/robots.txt": "Sitemap: http://cdn.test/index.xml",
            "cdn.test/robots.txt": "Sitemap: http://cdn.test/own.xml",
            "cdn.test/index.xml": "<sitemapindex><sitemap><loc>http://cdn.test/1.xml</loc></sitemap></sitemapindex>",
            "cdn.test/1.xml": "<urlset>" + "".join(
                f"<url><loc>http://{name}</loc></url>" for name in ("a.test/found", "b.test/", "cdn.test/page")
            ) + "</urlset>",
        }  # fmt: skip
        kind = "text/plain" if url.endswith(".txt") else "text/xml" if url.endswith(".xml") else "text/html"
        return exchange.send_page(texts.get(url, "<html>").encode(), fields=f"Content-Type: {kind}\r\n".encode())

    address = f"127.0.0.1:{loopback.serve(answer).port}"
    values = {**QUICK, "crawl.scope": "host", "resolve.map": {"*": address}, "crawl.width": 1}
    for pages in (1, 2, 0):  # stopped before and after the index was read
        config = Config().replace({**values, "crawl.pages": pages})
        found = Crawl(tmp_path, ["http://a.test/"], config)
        found.run()
    assert statuses(found) == {
        "http://a.test/": "fetched",
        "http://cdn.test/index.xml": "fetched",
        "http://cdn.test/1.xml": "fetched",
        "http://a.test/found": "fetched",
    }


def test_a_crawl_that_is_left_with_what_is_forbidden_ends(loopback: Loopback, tmp_path: Path) -> None:
    """However patient it is: what a server forbids is due again in a day."""

    def answer(exchange: Exchange) -> bool:
        if exchange.path == "/":
            return exchange.send_page(b"<a href=/no>x</a>", fields=b"Content-Type: text/html\r\n")
        return exchange.send_page(b"", "404 x" if exchange.path == "/robots.txt" else "403 x")

    address = f"127.0.0.1:{loopback.serve(answer).port}"
    patient = {"crawl.patience_s": 7_200.0, "polite.backoff_max_s": 20.0, "polite.crawl_delay_max_s": 20.0}
    config = Config().replace({**QUICK, **patient, "resolve.map": {"*": address}})
    found = Crawl(tmp_path, ["http://a.test/"], config)
    ended = found.run().ended
    due = found.query("SELECT due FROM pages WHERE status = 'forbidden'")[0]["due"]
    assert ended == f"nothing left to visit; forbidden pages are due on {due:%Y-%m-%d %H:%M} UTC"
    assert statuses(found) == {"http://a.test/": "fetched", "http://a.test/no": "forbidden"}
    again = Crawl(tmp_path, config=config.replace({"fetch.forbidden_s": 0.1, "crawl.patience_s": 0.0}))
    assert again.run().run_visits, "as docs/requests.md has it for a credential that was corrected"


def test_links_that_are_followed_later_are_of_the_same_version(web: RunningWeb, tmp_path: Path) -> None:
    shallow, deep = ({"limits.depth": depth, "limits.depth_dynamic": depth} for depth in (1, 3))
    crawl(web, tmp_path / "twice", shallow)
    crawl(web, tmp_path / "twice", deep)
    crawl(web, tmp_path / "once", deep)
    twice, once = (read_links(tmp_path / name) for name in ("twice", "once"))
    edges = [
        {(of.urls[a], of.urls[b]) for a, b in zip(of.source.tolist(), of.target.tolist(), strict=True)}
        for of in (twice, once)
    ]
    assert len(edges[1]) > 100
    assert edges[0] == edges[1]


def test_robots_txt_is_obeyed(web: RunningWeb, tmp_path: Path) -> None:
    before = len(web.log())
    crawl(web, tmp_path)
    truth = web.truth
    for url in web.log().urls[before:]:
        path = url.split("/", 3)[3]
        if path != "robots.txt" and not path.startswith("sitemap"):
            assert truth.allowed(truth.page(url)), url


@pytest.mark.parametrize("order", ["opic", "opic-virtual", "breadth-first", "backlink-count", "larger-sites-first",
                                   "larger-sites-opic", "shallow-first", "random"])  # fmt: skip
def test_every_order_crawls_the_same_pages(web: RunningWeb, tmp_path: Path, order: str) -> None:
    found = crawl(web, tmp_path, {"crawl.order": order, "crawl.width": 50})
    wanted = {web.truth.url(page) for page in web.truth.reachable()}
    assert wanted <= set(visited(found))
    assert missing_cash(tmp_path) == 0


def test_one_connection_gives_the_same_order_again(web: RunningWeb, tmp_path: Path) -> None:
    values = {"polite.connections": 1, "crawl.width": 25, "crawl.pages": 300}
    first, second = (visited(crawl(web, tmp_path / name, values)) for name in ("a", "b"))
    assert len(first) == 300
    assert first == second


def test_a_crawl_goes_on_where_it_was(web: RunningWeb, tmp_path: Path) -> None:
    for limit in (100, 250):
        stopped = crawl(web, tmp_path / "parts", {"crawl.pages": limit})
        assert len(visited(stopped)) == limit
    parts = crawl(web, tmp_path / "parts")
    whole = crawl(web, tmp_path / "whole")
    assert statuses(parts) == statuses(whole)
    pages = Counter(visited(parts))
    failing = {url for url, n in Counter(visited(whole)).items() if n > 1}
    assert {url for url, n in pages.items() if n > 1} <= failing
    robots = parts.query("SELECT url, count(*) AS n FROM visits WHERE is_robots GROUP BY url HAVING n > 1")
    assert robots == []  # remembered over restarts


def test_limits_and_scope(web: RunningWeb, tmp_path: Path) -> None:
    start = web.start_url
    host = crawl(web, tmp_path / "host", {"crawl.scope": "host"})
    assert {host_of(url) for url in visited(host)} == {host_of(start)}
    refused = host.query("SELECT DISTINCT verdict FROM links ORDER BY verdict")
    assert {row["verdict"] for row in refused} >= {"followed", "scope"}
    domain = crawl(web, tmp_path / "domain", {"crawl.scope": "domain"})
    assert {domain_of(host_of(url)) for url in visited(domain)} == {domain_of(host_of(start))}
    shallow = crawl(web, tmp_path / "shallow", {"limits.depth": 1, "crawl.sitemaps": False})
    depths = shallow.query("SELECT max(depth) AS depth FROM pages")
    assert depths == [{"depth": 1}]
    capped = crawl(web, tmp_path / "capped", {"limits.pages_per_host": 3})
    assert max(row["n"] for row in capped.query("SELECT count(*) AS n FROM pages GROUP BY host")) == 3
    values = {"crawl.exclude": [f"http://{host_of(start)}/*", "*5*"], "crawl.sitemaps": False}
    chosen = crawl(web, tmp_path / "chosen", values)
    assert [url for url in visited(chosen) if host_of(url) == host_of(start) or "5" in url] == [start]
    assert len(visited(chosen)) > 50
    refused = chosen.query("SELECT count(*) AS n FROM links WHERE verdict = 'pattern'")
    assert refused[0]["n"] > 0
    other = next(host_of(url) for url in visited(capped) if host_of(url) != host_of(start))
    own = crawl(web, tmp_path / "own", {"limits.pages_per_host": 3, f"host.{host_of(start)}": {"pages": 7}})
    known = {row["host"]: row["n"] for row in own.query("SELECT host, count(*) AS n FROM pages GROUP BY host")}
    assert (known[host_of(start)], known[other]) == (7, 3)
    for directory in ("host", "domain", "shallow", "capped", "chosen", "own"):
        assert missing_cash(tmp_path / directory) == 0


@pytest.mark.parametrize("metric", ["first", "hits", "cash", "shallow", "external"])
def test_only_the_best_links_of_a_page(web: RunningWeb, tmp_path: Path, metric: str) -> None:
    values = {"crawl.links_per_page": 2, "crawl.link_metric": metric, "crawl.sitemaps": False, "crawl.width": 20}
    found = crawl(web, tmp_path, values)
    most = found.query(
        "SELECT max(n) AS n FROM (SELECT count(*) AS n FROM links WHERE verdict = 'followed' GROUP BY source)"
    )
    assert most == [{"n": 2}]
    assert missing_cash(tmp_path) == 0


def test_only_some_types(loopback: Loopback, tmp_path: Path) -> None:
    def answer(exchange: Exchange) -> bool:
        if exchange.path == "/":
            return exchange.send_page(
                b"<a href=/x.html>x</a><a href=/y.png>y</a>", fields=b"Content-Type: text/html\r\n"
            )
        kind = b"image/png" if exchange.path == "/y.png" else b"text/html"
        return exchange.send_page(b"hello" * 1_000, fields=b"Content-Type: " + kind + b"\r\n")

    server = loopback.serve(answer)
    values = {"fetch.accept_types": ["text/html"], "resolve.map": {"*": f"127.0.0.1:{server.port}"}}
    found = Crawl(tmp_path, ["http://a.test/"], Config().replace({**QUICK, **values}))
    found.run()
    assert statuses(found) == {
        "http://a.test/": "fetched", "http://a.test/x.html": "fetched", "http://a.test/y.png": "refused",
    }  # fmt: skip
    (image,) = found.query(
        "SELECT outcome, reason, wire_bytes, truncated, content_type FROM pages WHERE url LIKE '%png'"
    )
    assert image == {
        "outcome": "refused_type", "reason": "image/png is not among fetch.accept_types", "wire_bytes": 0,
        "truncated": "unspecified", "content_type": "image/png",
    }  # fmt: skip
    assert found.query("SELECT errors FROM hosts") == [{"errors": 0}]
    assert missing_cash(tmp_path) == 0


def test_seeds_added_later(web: RunningWeb, tmp_path: Path) -> None:
    found = crawl(web, tmp_path, {"crawl.scope": "host", "crawl.pages": 20})
    other = web.truth.url(int(web.truth.reachable()[-1]))
    assert found.add([other, web.start_url]) == 2
    again = crawl(web, tmp_path, {"crawl.scope": "host"}, seeds=[])
    assert other in visited(again)
    assert host_of(other) in {host_of(url) for url in visited(again)}
    assert missing_cash(tmp_path) == 0


def test_a_seed_file(web: RunningWeb, tmp_path: Path) -> None:
    urls = [web.truth.url(page) for page in range(0, 60, 10)]
    file = tmp_path / "seeds.txt"
    file.write_text("\n".join(urls))
    found = crawl(web, tmp_path / "crawl", {"limits.depth": 0, "crawl.sitemaps": False}, seeds=[str(file)])
    assert set(visited(found)) == set(urls)


def test_unchanged_pages_become_revisit_records(tmp_path: Path) -> None:
    spec = WebSpec(seed=5, hosts=4, pages=60, changing=0.5, changes_per_day=40_000.0, validators=0.5, errors=0.0)
    with RunningWeb(spec, options=["--speed", "1"]) as web:
        values = {
            "refresh.policy": "fixed",
            "refresh.interval_s": 2.0,
            "refresh.least_s": 1.0,
            "crawl.minutes": 0.15,
            "crawl.sitemaps": False,
        }
        found = crawl(web, tmp_path, values)
    rows = found.query("SELECT outcome, is_revisit, http_status FROM visits WHERE NOT is_robots")
    kinds = Counter((row["outcome"], row["is_revisit"], row["http_status"]) for row in rows)
    assert kinds["unchanged", True, 304] > 0  # the server said so
    assert kinds["unchanged", True, 200] > 0  # we found out by the digest
    assert kinds["ok", False, 200] > len(statuses(found)) / 2  # the first visits, and changes
    assert missing_cash(tmp_path) == 0
    assert all(page.html for page in found.pages())
    # What a revisit record refers to is found, and is the same; and the page still says what it said when it was new.
    unread = "SELECT url, time FROM visits WHERE is_revisit AND coalesce(content(warc, warc_offset), '') = ''"
    assert found.query(unread) == []
    untold = """SELECT url FROM pages WHERE status = 'fetched'
        AND (title = '' OR charset = '' OR links = 0 OR digest = '' OR version_time > last_visit)"""
    assert found.query(untold) == []


def test_politeness_with_hundreds_of_hosts(tmp_path: Path) -> None:
    spec = WebSpec(seed=3, hosts=250, pages=1_200, page_bytes=3_000.0, links=15.0, crawl_delay_s=0.1, latency_ms=3.0)
    with RunningWeb(spec, log_path=tmp_path / "log") as web:
        crawl(web, tmp_path / "crawl", {"polite.delay_s": 0.1, "polite.connections": 250, "crawl.minutes": 0.4})
        log = web.log()
    assert len(log) > 800
    assert len(set(log.host.tolist())) > 200
    assert log.overlaps() == []
    gaps = np.concatenate(list(log.intervals().values()))
    assert gaps.min() >= 0.1 - 0.001


def test_politeness_with_bursts(tmp_path: Path) -> None:
    spec = WebSpec.plain(seed=3, hosts=20, pages=600, page_bytes=3_000.0, links=15.0)
    with RunningWeb(spec, log_path=tmp_path / "log") as web:
        values = {"polite.delay_s": 0.3, "polite.burst": 100, "polite.burst_delay_s": 0.02, "crawl.minutes": 0.3}
        crawl(web, tmp_path / "crawl", values)
        log = web.log()
    assert log.overlaps() == []
    assert min(gap.min() for gap in log.intervals(connections=True).values() if len(gap)) >= 0.3 - 0.001
    assert min(gap.min() for gap in log.intervals().values() if len(gap)) >= 0.02 - 0.001
    most = Counter(log.connection.tolist()).most_common(1)[0][1]
    assert 1 < most <= 100


@pytest.mark.parametrize("pages", [1, 2])
def test_a_crawl_that_waits_for_what_failed_says_so(tmp_path: Path, pages: int) -> None:
    """The page is tried again; of two, the other one waits for its host, which rests."""
    spec = WebSpec.plain(seed=1, hosts=2, pages=4, links=1.0, page_bytes=500.0)
    with RunningWeb(spec, options=["--fault", "h1.test=refuse"]) as web:
        values = {"crawl.patience_s": 600.0, "polite.robots": False, "polite.backoff_s": 40.0, "fetch.retry_s": 40.0}
        config = Config().replace({**QUICK, **values, "resolve.map": {"*": web.address}})
        crawl = Crawl(tmp_path / "crawl", [f"http://h1.test/{page}" for page in range(pages)], config)
        seen: list[float] = []

        def look(stats: Stats) -> None:
            if stats.waits_until_s is not None:
                seen.append(stats.waits_until_s)
                crawl.stop()

        crawl.run(look)
    assert 0 < seen[0] - Chain.read(Directory(tmp_path / "crawl"), "a0").time_s <= 60.0


def test_what_servers_forbid_does_not_keep_a_crawl(loopback: Loopback, tmp_path: Path) -> None:
    """It is due again in a day: this crawl has ended, the next one does not ask yet, and nobody says it was gone."""
    answers = {"/": "200 OK", "/401": "401 Unauthorized", "/403": "403 Forbidden", "/404": "404 Not Found"}
    body, html = b"".join(b"<a href=%s>x</a>" % path.encode() for path in answers), b"Content-Type: text/html\r\n"
    server = loopback.serve(lambda exchange: exchange.send_page(body, answers.get(exchange.path, "404"), html))
    config = Config().replace({**QUICK, "resolve.map": {"*": f"127.0.0.1:{server.port}"}})
    for _ in range(2):
        crawl = Crawl(tmp_path, ["http://a.test/"], config)
        assert crawl.run().ended.startswith("nothing left to visit; forbidden pages are due on 20")
    assert Counter(server.paths) == Counter(["/robots.txt", *answers])
    assert statuses(crawl) == {
        "http://a.test/": "fetched", "http://a.test/401": "forbidden",
        "http://a.test/403": "forbidden", "http://a.test/404": "gone",
    }  # fmt: skip


def test_what_is_due_only_later_ends_a_crawl_with_words_about_then(tmp_path: Path) -> None:
    values = {"crawl.patience_s": 0.0, "polite.backoff_s": 400.0, "resolve.map": {"*": "127.0.0.1:1"}}
    ended = Crawl(tmp_path, ["http://a.test/"], Config().replace({**QUICK, **values})).run().ended
    assert ended.startswith("nothing is due for another 7 minutes: what failed is tried again then")
    assert ended.endswith("the same command goes on")


def test_what_limits_refused_is_said_and_lifted(web: RunningWeb, tmp_path: Path) -> None:
    values = {"limits.depth": 1, "crawl.sitemaps": False}
    config = Config().replace({**QUICK, "resolve.map": {"*": web.address}, **values})
    limited = Crawl(tmp_path, web.start_urls, config)
    stats = limited.run()
    found = status(tmp_path)["refused_links"]
    sql = "SELECT verdict, count(*) AS times FROM links WHERE verdict <> 'followed' GROUP BY verdict"
    by_verdict = {row["verdict"]: row["times"] for row in limited.query(sql)}
    assert found == {"limits.depth": by_verdict.pop("depth"), "crawl.nofollow": by_verdict.pop("nofollow")}
    assert not by_verdict
    assert stats.refused == found
    console = Console(width=200, record=True)
    for shown in (render(status(tmp_path)), summary(stats, {})):
        console.print(shown)
        text = console.export_text()
        assert f"{found['limits.depth']:,}" in text
        assert "limits.depth: with a greater one the same command follows them" in text
    whole = crawl(web, tmp_path / "whole", {"crawl.sitemaps": False})
    again = Crawl(tmp_path, [], config.replace({"limits.depth": 15}))
    again.run()
    assert statuses(again) == statuses(whole)
    assert status(tmp_path)["refused_links"] == status(tmp_path / "whole")["refused_links"]


def test_how_deep_pages_are_does_not_depend_on_the_order(web: RunningWeb, tmp_path: Path) -> None:
    """Pages at the limit are visited by long ways first, or by short ones."""
    depths = {}
    for order, connections in (("breadth-first", 1), ("random", 8), ("larger-sites-first", 8)):
        values = {"limits.depth": 4, "crawl.order": order, "crawl.width": 10, "polite.connections": connections}
        found = crawl(web, tmp_path / order, {**values, "crawl.sitemaps": False, "archive.links": order == "random"})
        depths[order] = {row["url"]: row["depth"] for row in found.query("SELECT url, depth FROM pages")}
        assert "new" not in statuses(found).values()
    assert depths["random"] == depths["larger-sites-first"] == depths["breadth-first"]
    assert max(depths["random"].values()) == 4


def test_fifty_pages_of_the_test_web_lack_nothing(tmp_path: Path) -> None:
    spec = WebSpec.plain(seed=4, hosts=5, pages=80, page_bytes=2_000.0, links=10.0, requisites=3)
    with RunningWeb(spec) as needy:
        found = crawl(needy, tmp_path / "c", {"crawl.requisites": True, "crawl.pages": 50})
        pages = [row["url"] for row in found.query("SELECT url FROM pages WHERE kind = 'page' AND status = 'fetched'")]
        assert len(pages) == 50
        fetched = {row["url"] for row in found.query("SELECT url FROM pages WHERE status = 'fetched'")}
        start = needy.truth.host(0).name
        for url in pages:
            page, host = needy.truth.page(url), needy.truth.host(needy.truth.page(url)).name
            images = {f"http://{where}{image(page, nth)}" for nth, where in enumerate((host, host, start))}
            assert {*images, *(f"http://{host}/assets/{name}" for name in SHARED)} <= fetched
        sizes = "SELECT DISTINCT width, height FROM visits WHERE content_type = 'image/png'"
        assert found.query(sizes) == [{"width": 32, "height": 24}]
        missing = "SELECT count(*) AS n FROM links l JOIN pages t ON t.key = target WHERE l.kind <> 'link'"
        missing += " AND t.status <> 'fetched'"
        assert found.query(missing) == [{"n": 0}]


def test_two_agents_send_each_other_what_pages_need(tmp_path: Path) -> None:
    spec = WebSpec.plain(seed=4, hosts=5, pages=40, page_bytes=2_000.0, links=10.0, requisites=3)
    values = {"crawl.requisites": True, "limits.depth": 200}
    counts = "SELECT kind, status, count(*) AS pages, sum(visits) AS visits FROM pages GROUP BY ALL ORDER BY ALL"
    with RunningWeb(spec) as needy:
        alone = crawl(needy, tmp_path / "one", values)
        shared = crawl(needy, tmp_path / "two", {**values, "site.agents": 2, "site.exchange": "store"})
        assert shared.query(counts) == alone.query(counts)
        assert [row["visits"] for row in alone.query(counts)] == [40, 160]

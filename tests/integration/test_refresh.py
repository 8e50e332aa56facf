"""Crawls that come back: what a later version changes in the index, and what it does not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from crawls import QUICK, visited
from raw_server import Exchange, Loopback

from experiments import refresh_real
from experiments.refresh_real import FastClock
from gossamer import Config, Crawl
from gossamer.archive.chain import Chain
from gossamer.archive.store import Directory, Memory
from gossamer.archive.versions import versions
from gossamer.config import REFRESH
from gossamer.country_facts import WORLD_G_PER_KWH
from gossamer.crawl.ledger import Ledger
from gossamer.frontier.pages import PageIndex
from gossamer.repair.rebuilt_index import RebuiltIndex
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.watch.status import status
from gossamer.web.url import page_key

SPEED = 1000.0
AGAIN = {
    "refresh.policy": "fixed", "refresh.interval_s": 200.0, "refresh.least_s": 10.0, "polite.robots": False,
    "fetch.timeout_s": 60.0 * SPEED, "fetch.connect_timeout_s": 10.0 * SPEED,  # a busy machine's real seconds
    "crawl.patience_s": 1e7,  # until the last page that is asked for
}  # fmt: skip


def opened(directory: Path) -> tuple[PageIndex, Ledger]:
    store = Directory(directory)
    snapshot = Chain.read(store, "a0")
    return PageIndex.open(store, snapshot.files, Config().index), Ledger.of(snapshot.state.ledger)


def hits(directory: Path) -> dict[str, int]:
    index, _ = opened(directory)
    return {index.urls(rows)[i].removeprefix("http://a.test/"): int(rows["hits"][i])
            for rows in index.pages.scan() for i in range(len(rows))}  # fmt: skip


def missing(directory: Path) -> int:
    index, ledger = opened(directory)
    return ledger.missing(sum(int(rows["cash"].sum()) for rows in index.pages.scan()))


def site(pages: Callable[[str, int], tuple[str, bytes]]) -> Callable[[Exchange], bool]:
    """`pages` says what a path answers at its n-th visit: status and body. An ETag says which body it is."""
    visits: dict[str, int] = {}

    def answer(exchange: Exchange) -> bool:
        visits[exchange.path] = number = visits.get(exchange.path, 0) + 1
        status, body = pages(exchange.path, number)
        etag = b'"%x"' % page_key(f"http://a.test/{body.decode()}")
        if status.startswith("200") and b"If-None-Match: " + etag in exchange.head:
            return exchange.send_page(b"", "304 Not Modified")
        return exchange.send_page(body, status, b"Content-Type: text/html\r\nETag: " + etag + b"\r\n")

    return answer


def come_back(loopback: Loopback, tmp_path: Path, answer: Callable[[Exchange], bool], **values: object) -> Crawl:
    server = loopback.serve(answer)
    given = {name.replace("__", "."): value for name, value in values.items()}
    config = {**QUICK, **AGAIN, "resolve.map": {"*": f"127.0.0.1:{server.port}"}, **given}
    found = Crawl(tmp_path / "crawl", ["http://a.test/"], Config().replace(config), FastClock(SPEED))
    found.run()
    return found


@pytest.mark.parametrize("order", ["opic", "opic-virtual", "opic-foreign"])
def test_links_of_an_outdated_version_no_longer_count(loopback: Loopback, tmp_path: Path, order: str) -> None:
    def pages(path: str, number: int) -> tuple[str, bytes]:
        if path == "/":
            return "200 OK", b"<a href=/a>a</a><a href=/b>b</a>" if number == 1 else b"<a href=/b>b</a><a href=/c>c</a>"
        return "200 OK", b"<a href=/>home</a>" + path.encode()

    found = come_back(loopback, tmp_path, site(pages), crawl__order=order, crawl__pages=24, crawl__width=4)
    assert hits(found.directory) == {"": 3, "a": 0, "b": 1, "c": 1}
    assert missing(found.directory) == 0
    outcomes = found.query("SELECT outcome, count(*) AS n FROM visits GROUP BY outcome ORDER BY outcome")
    assert outcomes == [{"outcome": "ok", "n": 5}, {"outcome": "unchanged", "n": 19}]
    passed = found.query("SELECT DISTINCT url FROM visits WHERE outcome = 'unchanged' AND cash > 0")
    # How often depends on who was visited together; if it stayed where it is, /c would have none at its second visit.
    urls = {f"http://a.test/{name}" for name in ("", "b", "c")}
    assert {row["url"] for row in passed} >= urls, "pages that did not change pass their cash on all the same"


def test_validators_of_a_304_are_adopted(loopback: Loopback, tmp_path: Path) -> None:
    """RFC 9111 section 4.3.4: the server renames the version that we have, so we ask for it by its new name."""
    conditions: list[set[bytes]] = []

    def answer(exchange: Exchange) -> bool:
        if exchange.path != "/":
            return exchange.send_page(b"", "404 Not Found")
        fields = (b"If-None-Match", b"If-Modified-Since")
        conditions.append({line for line in exchange.head.split(b"\r\n") if line.startswith(fields)})
        number = len(conditions)
        if number == 1:
            fields = b'Content-Type: text/html\r\nETag: "1"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n'
            return exchange.send_page(b"<a href=/a>a</a>", fields=fields)
        if number == 2:
            return exchange.send(b'HTTP/1.1 304 Not Modified\r\nETag: "2"\r\n\r\n')
        return exchange.send(b"HTTP/1.1 304 Not Modified\r\nLast-Modified: Mon, 07 Nov 1994 08:49:37 GMT\r\n\r\n")

    found = come_back(loopback, tmp_path, answer, crawl__pages=5)
    since = b"If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", b"If-Modified-Since: Mon, 07 Nov 1994 08:49:37 GMT"
    assert conditions == [
        set(),
        {b'If-None-Match: "1"', since[0]},
        {b'If-None-Match: "2"', since[0]},
        {b'If-None-Match: "2"', since[1]},
    ]
    assert hits(found.directory) == {"": 0, "a": 1}, "its links stay"
    assert missing(found.directory) == 0


def test_a_page_that_is_forbidden_for_a_while_is_not_gone(loopback: Loopback, tmp_path: Path) -> None:
    """It is asked for again, and until then what it said when it last had content counts."""

    def pages(path: str, number: int) -> tuple[str, bytes]:
        if path == "/":
            return ("403 Forbidden" if number == 2 else "200 OK"), b"<a href=/a>a</a>"
        return "404 Not Found", b""

    server, clock = loopback.serve(site(pages)), FastClock(SPEED)
    values = {**QUICK, **AGAIN, "fetch.forbidden_s": 600.0, "resolve.map": {"*": f"127.0.0.1:{server.port}"}}
    for visits, wanted in ((2, "fetched"), (3, "forbidden"), (4, "fetched")):
        now = {"crawl.pages": visits, "refresh.policy": "never" if visits == 2 else "fixed"}  # first both pages
        found = Crawl(tmp_path, ["http://a.test/"], Config().replace({**values, **now}), clock)
        found.run()
        assert found.query("SELECT status FROM pages WHERE url = 'http://a.test/'") == [{"status": wanted}]
        assert found.query("SELECT url, hits FROM targets") == [{"url": "http://a.test/a", "hits": 1}]
        assert hits(tmp_path) == {"": 0, "a": 1}
        assert missing(tmp_path) == 0
    assert [version["outcome"] for version in versions(tmp_path, "http://a.test/")] == ["ok"]


def test_a_page_that_is_gone_takes_its_links_with_it(loopback: Loopback, tmp_path: Path) -> None:
    def pages(path: str, number: int) -> tuple[str, bytes]:
        if path == "/":
            return "200 OK", b"<a href=/a>a</a><a href=/b>b</a>"
        if path == "/a" and number > 1:
            return "404 Not Found", b"gone"
        return "200 OK", b"<a href=/c>c</a>" + path.encode()

    found = come_back(loopback, tmp_path, site(pages), crawl__pages=14)
    assert hits(found.directory) == {"": 0, "a": 1, "b": 1, "c": 2}
    assert missing(found.directory) == 0


def test_change_counters_follow_the_visits(loopback: Loopback, tmp_path: Path) -> None:
    def pages(path: str, number: int) -> tuple[str, bytes]:
        return "200 OK", b"%d" % number if path == "/" else b"<a href=/>"

    found = come_back(loopback, tmp_path, site(pages), crawl__pages=6)
    index, _ = opened(found.directory)
    (row,) = index.visited.look_up(np.array([page_key("http://a.test/")], np.uint64))[1]
    assert (row["visits"], row["changes"]) == (6, 5)
    counted = np.array([row[f"counters{n}"] for n in range(4)], "<u8").view(np.uint8)
    assert counted[:16].sum() == 5
    assert counted[16:].sum() == 0
    assert row["change_rate"] > 1e9 / 500  # it changed whenever we came, which was after 200 s or more


def hub(path: str, number: int) -> tuple[str, bytes]:
    """All pages change whenever they are visited; all of them lead to /hub, and nothing but the start leads to them."""
    leaves = b"".join(b"<a href=/%d>leaf</a>" % leaf for leaf in range(12))
    body = leaves if path == "/" else b"<p>nothing</p>"
    return "200 OK", b"<a href=/hub>hub</a>" + body + b"<p>%d" % number


@pytest.mark.parametrize(("order", "policy"), [("opic", "index"), ("batch-pagerank", "index"), ("opic", "green")])
def test_a_page_that_all_link_to_is_visited_most(loopback: Loopback, tmp_path: Path, order: str, policy: str) -> None:
    """Pages change alike, and a tenth of them may be visited in the time between two visits."""
    found = come_back(
        loopback, tmp_path, site(hub), crawl__order=order, crawl__rescore=5, crawl__pages=14 + 40, crawl__width=4,
        refresh__policy=policy, refresh__visits_per_day=86_400 / 100, carbon__price=1e-9,
    )  # fmt: skip
    counts = {row["url"]: row["visits"] for row in found.query("SELECT url, visits FROM pages")}
    leaves = [counts[f"http://a.test/{leaf}"] for leaf in range(12)]
    assert len(counts) == 14
    assert counts["http://a.test/hub"] > max(leaves)
    index, _ = opened(found.directory)
    passed = {
        row["key"]: int(row["cash"]) for row in found.query("SELECT key, sum(cash) AS cash FROM visits GROUP BY key")
    }
    for rows in index.visited.scan():
        assert {int(row["key"]): int(row["history"]) for row in rows} == passed
    store = Directory(found.directory)
    files = Chain.read(store, "a0").files
    rebuilt = RebuiltIndex({kind: [store.local(name) for name in names] for kind, names in files.items()}, Config())
    rebuilt.write(Memory(), "a0-00000001")
    for rows in rebuilt.index.visited.scan():
        assert {int(row["key"]): int(row["history"]) for row in rows} == passed


SMALL = WebSpec.plain(seed=4, hosts=3, pages=20, links=6.0, page_bytes=2_000.0, changing=0.5, changes_per_day=4.0)
POLICIES = [policy for policy in REFRESH if policy != "never"]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_comes_back(tmp_path: Path, policy: str) -> None:
    speed = 40_000.0
    with RunningWeb(SMALL, log_path=tmp_path / "log", options=["--speed", str(speed)]) as web:
        values = {
            **QUICK, "resolve.map": {"*": web.address}, "crawl.pages": 100, "crawl.patience_s": 1e7, "crawl.width": 10,
            "fetch.timeout_s": 1e6, "fetch.connect_timeout_s": 1e6, "polite.robots": False, "crawl.sitemaps": False,
            "refresh.policy": policy, "refresh.interval_s": 40_000.0, "refresh.least_s": 600.0,
            "refresh.visits_per_day": 100.0, "carbon.g_per_day": 1.0, "carbon.signal": "mean",
        }  # fmt: skip
        found = Crawl(tmp_path / "crawl", web.start_urls, Config().replace(values), FastClock(speed, web.epoch_s))
        found.run()
        log = web.log()
    (row,) = found.query(
        "SELECT count(*) AS visits, count(DISTINCT key) AS pages, sum(energy_j) AS energy_j,"
        " sum(energy_low_j) AS low_j, sum(carbon_g) AS carbon_g,"
        " count(*) FILTER (outcome = 'ok') AS versions FROM visits"
    )
    assert (row["visits"], row["pages"]) == (100, 20)
    assert 20 < row["versions"] < 100
    assert missing(found.directory) == 0
    # The server's own record says the same of every byte.
    carbon = Config().carbon
    for name, kwh in (("energy_j", carbon.kwh_per_gb), ("low_j", carbon.kwh_per_gb_low)):
        assert row[name] == pytest.approx(kwh * 3.6e-3 * float(log.bytes.sum()) + carbon.request_j * len(log))
    assert row["carbon_g"] == pytest.approx(row["energy_j"] / 3.6e6 * WORLD_G_PER_KWH)  # loopback is nowhere
    at = status(found.directory)
    assert at["costs"]["carbon_g"] == pytest.approx(row["carbon_g"])
    assert at["costs_by_country"][0]["energy_low_j"] == pytest.approx(row["low_j"])


def test_one_connection_comes_back_in_the_same_order(tmp_path: Path) -> None:
    with RunningWeb(SMALL, options=["--speed", "0"]) as web:
        values = {
            **QUICK, "resolve.map": {"*": web.address}, "polite.connections": 1, "crawl.pages": 60, "crawl.width": 25,
            "refresh.policy": "fixed", "refresh.interval_s": 1.0, "refresh.least_s": 1.0, "crawl.sitemaps": False,
        }  # fmt: skip
        orders = []
        for name in ("a", "b"):
            found = Crawl(tmp_path / name, web.start_urls, Config().replace(values))
            found.run()
            orders.append(visited(found))
    assert len(orders[0]) == 60
    assert len(set(orders[0])) == 20
    assert orders[0] == orders[1]


@pytest.mark.slow
def test_the_index_policy_keeps_more_pages_current_than_intervals_do() -> None:
    """By the web's own truth, with the same number of requests a day: several per cent, of which intervals that adapt
    reach a part, or none. And what carbon was accounted for is what the server's log says."""
    setting = refresh_real.Setting(pages=120, days=40.0)
    results = refresh_real.measure(setting, ["fixed", "adaptive", "index", "green-index"])
    rows = {row["policy"]: row for row in results.rows}
    assert rows["index"]["freshness"] > 1.03 * rows["fixed"]["freshness"]
    assert rows["index"]["freshness"] > 1.02 * rows["adaptive"]["freshness"]
    for row in results.rows:
        assert row["requests"] == setting.requests
        assert row["carbon_g"] == pytest.approx(row["log_carbon_g"])
    green = rows["green-index"]
    assert green["again_g"] < 1.02 * green["budget_g"]
    assert green["again_g"] < 0.8 * rows["index"]["again_g"]


def test_budgets_bind_first_visits_too(tmp_path: Path) -> None:
    """LEADS D1.4, section 2.3: a budget is respected while the crawl downloads, whoever chose the page."""
    contracts = tmp_path / "contracts.toml"
    contracts.write_text('["h1.test"]\ng_per_day = 0.0\n')
    spec = WebSpec.plain(seed=3, hosts=4, pages=80, links=12.0, page_bytes=20_000.0)
    with RunningWeb(spec) as web:
        given = {**QUICK, "resolve.map": {"*": web.address}, "crawl.scope": "any", "polite.robots": False,
                 "crawl.width": 10, "carbon.g_per_day": 0.01, "carbon.contracts": str(contracts)}  # fmt: skip
        found = Crawl(tmp_path / "crawl", web.start_urls, Config().replace(given))
        stats = found.run()
    (row,) = found.query("SELECT count(*) AS visits, sum(carbon_g) AS grams FROM visits")
    assert 5 < row["visits"] < 60
    assert 0.006 < row["grams"] < 0.012
    assert any("budget of carbon is spent" in note for note in stats.notes)
    assert not found.query("SELECT url FROM visits WHERE host = 'h1.test'")
    (left,) = found.query("SELECT count(*) AS n FROM pages WHERE due > now() + INTERVAL 1 HOUR")
    assert left["n"], "the others wait until tomorrow"

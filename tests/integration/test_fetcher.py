"""The whole fetching loop against a server on loopback, whose own log says how polite it was."""

import threading
from collections import defaultdict
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
from name_server import A, NameServer
from raw_server import Exchange, Loopback, RawServer

from gossamer.clocks import RealClock
from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.fetch.client import Client
from gossamer.fetch.fetcher import Fetcher
from gossamer.fetch.politeness import Deferred
from gossamer.fetch.request import Request, Response
from gossamer.fetch.resolver import Resolver
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.fetch.workbench import Workbench
from gossamer.web.url import host_of, page_key

ROBOTS = b"User-agent: *\nDisallow: /private\n"


class Crawl:
    """A fetcher, its workbench, and everything that came out."""

    def __init__(self, server: RawServer, **changes: Any) -> None:
        options = {name.replace("__", "."): value for name, value in changes.items()}
        options.setdefault("resolve.map", {"*": f"127.0.0.1:{server.port}"})
        self.config = config = Config().replace({"polite.delay_s": 0.05, "polite.backoff_s": 0.2, **options})
        clock = RealClock()
        self.resolver = Resolver(config.resolve, clock)
        self.client = Client(config, clock, self.resolver)
        self.book = RobotsCache(config.polite, config.fetch.agent_name)
        self.workbench = Workbench(config.polite, self.book)
        self.responses: list[Response] = []
        self.deferred: list[Deferred] = []
        self.most_active = 0
        self.fetcher = Fetcher(config, clock, self.client, self.workbench, self.responses.append, self.deferred.append)

    def run(self, *urls: str) -> list[Response]:
        requests = [Request(page_key(url), url, host_of(url), rank=float(-i), known=1000) for i, url in enumerate(urls)]
        self.workbench.add(requests)
        while self.workbench.size:
            self.fetcher.step(1.0)
            self.most_active = max(self.most_active, self.client.active)
        self.fetcher.stop()
        return [response for response in self.responses if not response.request.is_robots]


def serve_robots(exchange: Exchange) -> bool:
    return exchange.send_page(ROBOTS if exchange.path == "/robots.txt" else b"page")


def by_host(server: RawServer) -> dict[str, list[Exchange]]:
    hosts = defaultdict(list)
    for exchange in server.exchanges:
        hosts[exchange.host].append(exchange)
    return hosts


def pages(hosts: int, each: int) -> list[str]:
    return [f"http://h{i}.test/{j}" for j in range(each) for i in range(hosts)]


def test_delays_and_order_by_the_servers_log(loopback: Loopback) -> None:
    server = loopback.serve(serve_robots)
    crawl = Crawl(server)
    urls = pages(40, 4)
    responses = crawl.run(*urls, "http://h0.test/private/x")
    assert {r.request.url for r in responses if r.outcome is Outcome.OK} == set(urls)
    denied = [r for r in responses if r.outcome is Outcome.DENIED]
    assert [(r.request.url, r.reason) for r in denied] == [
        ("http://h0.test/private/x", "robots.txt: Disallow: /private")
    ]
    assert "/private/x" not in server.paths
    for exchanges in by_host(server).values():
        assert [exchange.path for exchange in exchanges] == ["/robots.txt", "/0", "/1", "/2", "/3"]
        for before, after in pairwise(exchanges):
            assert after.began_s - before.ended_s >= 0.05
            assert after.connection != before.connection
    assert crawl.client.active == 0


def test_bursts_by_the_servers_log(loopback: Loopback) -> None:
    server = loopback.serve(serve_robots)
    crawl = Crawl(server, polite__burst=3, polite__delay_s=0.2)
    crawl.run(*pages(5, 7))
    for exchanges in by_host(server).values():
        assert len(exchanges) == 8
        connections = [exchange.connection for exchange in exchanges]
        assert [connections.count(number) for number in dict.fromkeys(connections)] == [3, 3, 2]
        for before, after in pairwise(exchanges):
            if after.connection != before.connection:
                assert after.began_s - before.ended_s >= 0.2


def test_without_delay_one_connection_per_host(loopback: Loopback) -> None:
    server = loopback.serve(serve_robots)
    crawl = Crawl(server, polite__delay_s=0.0)
    crawl.run(*pages(10, 20))
    assert server.connections == 10
    assert len(server.exchanges) == 210


def test_with_one_connection_the_order_is_by_rank(loopback: Loopback) -> None:
    server = loopback.serve(serve_robots)
    crawl = Crawl(server, polite__delay_s=0.0, polite__connections=1, polite__robots=False)
    urls = pages(7, 9)
    responses = crawl.run(*urls)
    assert [response.request.url for response in responses] == urls
    assert [f"http://{exchange.host}{exchange.path}" for exchange in server.exchanges] == urls


def test_connections_are_bounded(loopback: Loopback) -> None:
    server = loopback.serve(serve_robots)
    crawl = Crawl(server, polite__connections=5, polite__delay_s=0.0)
    crawl.run(*pages(50, 2))
    assert crawl.most_active <= 5
    assert len(server.exchanges) == 150


def test_hosts_on_one_address_share_their_turn(loopback: Loopback) -> None:
    server = loopback.serve(serve_robots)
    crawl = Crawl(server, polite__per_address=True, polite__robots=False)
    crawl.run(*pages(4, 3))
    assert len(server.exchanges) == 12
    for before, after in pairwise(server.exchanges):
        assert after.began_s - before.ended_s >= 0.05


def test_a_throttled_host_waits_and_others_do_not(loopback: Loopback) -> None:
    def answer(exchange: Exchange) -> bool:
        if exchange.host == "h0.test" and exchange.path == "/0":
            return exchange.send_page(status="503 Slow down", fields=b"Retry-After: 1\r\n")
        return exchange.send_page()

    server = loopback.serve(answer)
    responses = Crawl(server, polite__robots=False).run(*pages(3, 3))
    outcomes = {r.request.url: r.outcome for r in responses}
    assert outcomes.pop("http://h0.test/0") is Outcome.THROTTLED
    assert set(outcomes.values()) == {Outcome.OK}
    slow = by_host(server)["h0.test"]
    assert slow[1].began_s - slow[0].ended_s >= 1.0


def test_a_dead_host_gives_its_pages_back(loopback: Loopback) -> None:
    server = loopback.serve(lambda exchange: exchange.host != "h0.test" and exchange.send_page())
    crawl = Crawl(server, polite__robots=False, polite__backoff_s=0.01)
    responses = crawl.run(*pages(2, 9))
    outcomes = {host: [r.outcome for r in responses if r.request.host == host] for host in ("h0.test", "h1.test")}
    assert outcomes == {"h0.test": [Outcome.BROKEN] * 5, "h1.test": [Outcome.OK] * 9}
    assert {step.request.url for step in crawl.deferred} == {f"http://h0.test/{j}" for j in range(5, 9)}


def test_unreachable_robots_defer(loopback: Loopback) -> None:
    server = loopback.serve(lambda exchange: exchange.send_page(status="500 Oops"))
    crawl = Crawl(server, polite__backoff_s=60.0)
    assert crawl.run(*pages(1, 3)) == []
    assert server.paths == ["/robots.txt"]
    assert [step.outcome for step in crawl.deferred] == [Outcome.ROBOTS_UNREACHABLE] * 3
    assert all(step.until_s > crawl.fetcher.now() for step in crawl.deferred)


def test_unknown_hosts_fail_at_once(loopback: Loopback) -> None:
    server = loopback.serve(serve_robots)
    crawl = Crawl(server, resolve__map={"h0.test": f"127.0.0.1:{server.port}"})
    responses = crawl.run(*pages(2, 3))
    failed = [r for r in responses if r.request.host == "h1.test"]
    assert [(r.outcome, r.reason) for r in failed] == [(Outcome.REFUSED_ADDRESS, "h1.test is not in resolve.map")] * 3
    assert len(by_host(server)["h0.test"]) == 4


def test_robots_redirect_to_another_host(loopback: Loopback) -> None:
    def answer(exchange: Exchange) -> bool:
        if exchange.host == "h0.test" and exchange.path == "/robots.txt":
            return exchange.send_page(status="301 Moved", fields=b"Location: http://h1.test/robots.txt\r\n")
        return serve_robots(exchange)

    server = loopback.serve(answer)
    responses = Crawl(server).run("http://h0.test/private/1", "http://h0.test/2", "http://h1.test/3")
    assert {r.request.url: r.outcome for r in responses} == {
        "http://h0.test/private/1": Outcome.DENIED, "http://h0.test/2": Outcome.OK, "http://h1.test/3": Outcome.OK,
    }  # fmt: skip
    assert server.paths.count("/robots.txt") == 2, "one for each of the two hosts, not three"


@pytest.mark.parametrize("burst", [1, 100])
def test_ten_workers_on_one_host_still_go_one_by_one(loopback: Loopback, burst: int) -> None:
    """T068: many URLs of a host, many connections allowed."""
    server = loopback.serve(serve_robots)
    crawl = Crawl(server, polite__connections=200, polite__delay_s=0.01, polite__burst=burst)
    crawl.run(*pages(1, 60))
    assert crawl.most_active <= 1, "none is under way between two steps, if each is answered within one"
    for before, after in pairwise(server.exchanges):
        assert after.began_s >= before.ended_s


def test_pages_may_come_while_it_waits(loopback: Loopback) -> None:
    server = loopback.serve(serve_robots)
    crawl = Crawl(server)
    orders: list[Request] = []

    def order() -> None:
        orders.append(Request(1, "http://h0.test/1", "h0.test"))
        crawl.fetcher.wake()

    threading.Timer(0.1, order).start()
    crawl.fetcher.step(60.0)
    crawl.workbench.add(orders)
    assert [response.outcome for response in crawl.run()] == [Outcome.OK]


@pytest.mark.parametrize("per_address", [False, True])
def test_names_that_must_be_looked_up(loopback: Loopback, per_address: bool) -> None:
    server = loopback.serve(serve_robots)
    with closing(NameServer(lambda name, kind: (0, [(A, "127.0.0.1")] if kind == A else []))) as names:
        options = {"resolve__map": {}, "resolve__nameservers": [names.address], "resolve__private": True}
        crawl = Crawl(server, polite__per_address=per_address, polite__robots=False, **options)
        urls = [url.replace(".test", f".test:{server.port}") for url in pages(5, 2)]
        responses = crawl.run(*urls)
    assert sorted(response.request.url for response in responses) == sorted(urls)
    assert {response.outcome for response in responses} == {Outcome.OK}
    if per_address:  # all hosts are at one address, so they share one turn
        for before, after in pairwise(server.exchanges):
            assert after.began_s >= before.ended_s

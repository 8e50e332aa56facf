"""Crawls of hosts whose robots.txt is odd, changes or fails, and of hosts that ask us to slow down, or die.

Numbers such as T058 are those of the list in tests/cases/README.md.
"""

import gzip
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path

from raw_server import Exchange, Loopback
from scripted import Reply, Web, moved, page, reply, robots, silent, statuses

RULES = "User-agent: *\nDisallow: /private\n"
ALL = "User-agent: *\nDisallow: /\n"


def test_t058_an_unavailable_robots_txt_allows_everything(loopback: Loopback, tmp_path: Path) -> None:
    hosts = [f"s{status}.test" for status in (400, 401, 403, 404, 410, 418, 451)]
    answers = {f"{host}/robots.txt": reply(ALL.encode(), int(host[1:4])) for host in hosts}
    web = Web(loopback, {**answers, "/": page()})
    web.crawl(tmp_path, [f"http://{host}/" for host in hosts])
    for host in hosts:
        assert web.asked(host, with_robots=True) == [f"{host}/robots.txt", f"{host}/"]


def test_t059_an_unreachable_robots_txt_forbids_everything(loopback: Loopback, tmp_path: Path) -> None:
    broken = [reply(b"", 500), reply(b"", 503), reply(b"", 504), reply(b"", 999), b"garbage\r\n\r\n", b""]
    hosts = [f"h{i}.test" for i in range(len(broken))]
    web = Web(loopback, {"/": page()})
    for host, answer in zip(hosts, broken, strict=True):
        web.replies[f"{host}/robots.txt"] = lambda exchange, answer=answer: exchange.send(answer) and False
    found = web.crawl(tmp_path, [f"http://{host}/" for host in hosts], crawl__patience_s=0.0)
    assert web.asked() == []
    assert {path.split("/")[0] for path in web.asked(with_robots=True)} == set(hosts)
    assert set(statuses(found).values()) == {"new"}, "they stay known, and are due again later"


def test_t059_it_is_tried_again_later(loopback: Loopback, tmp_path: Path) -> None:
    first: list[Exchange] = []

    def recovers(exchange: Exchange) -> bool:
        first.append(exchange)
        return exchange.send(reply(b"", 500) if len(first) < 3 else robots(RULES))

    web = Web(loopback, {"/robots.txt": recovers, "/": page("/private/x", "/public")})
    found = web.crawl(tmp_path, ["http://t.test/"], crawl__patience_s=5.0)
    assert len(first) == 3
    assert statuses(found) == {
        "http://t.test/": "fetched", "http://t.test/private/x": "denied", "http://t.test/public": "gone",
    }  # fmt: skip


def test_t059_a_robots_txt_that_never_comes(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {"a.test/robots.txt": silent(lambda: web.server, 60), "b.test": page(), "a.test": page()})
    found = web.crawl(tmp_path, ["http://a.test/", "http://b.test/"], fetch__timeout_s=1.0, crawl__patience_s=0.0)
    assert web.asked() == ["b.test/"]
    assert statuses(found)["http://a.test/"] == "new"


def test_t060_a_throttled_robots_txt_defers_the_host(loopback: Loopback, tmp_path: Path) -> None:
    first: list[Exchange] = []

    def throttled(exchange: Exchange) -> bool:
        first.append(exchange)
        return exchange.send(reply(b"", 429, "Retry-After: 1") if len(first) == 1 else robots(RULES))

    web = Web(loopback, {"/robots.txt": throttled, "/": page()})
    web.crawl(tmp_path, ["http://t.test/"], crawl__patience_s=5.0)
    requests = web.exchanges(with_robots=True)
    assert [exchange.path for exchange in requests] == ["/robots.txt", "/robots.txt", "/"]
    assert requests[1].began_s - requests[0].ended_s >= 1.0


def test_t061_rules_count_up_to_500_kib(loopback: Loopback, tmp_path: Path) -> None:
    filler = "# " + "x" * 97 + "\n"
    early, late = "Disallow: /early\n", "Disallow: /late\n"
    text = "User-agent: *\n" + filler * 4_000 + early + filler * 2_000 + late
    assert len(text) > 600_000
    web = Web(loopback, {"/robots.txt": robots(text), "t.test": page()})
    web.crawl(tmp_path, ["http://t.test/early", "http://t.test/late"])
    assert web.asked() == ["t.test/late"]


def test_t062_odd_files(loopback: Loopback, tmp_path: Path) -> None:
    rules = RULES.encode()
    obeyed = {
        "bom": reply(RULES.encode("utf-8-sig"), mime="text/plain"),
        "cr": reply(rules.replace(b"\n", b"\r"), mime="text/plain"),
        "crlf": reply(rules.replace(b"\n", b"\r\n").strip(), mime="application/octet-stream"),
        "gzip": reply(gzip.compress(rules), 200, "Content-Encoding: gzip", mime="text/plain"),
        "nul": reply(b"\0\0\n" + rules + b"\0", mime="text/plain"),
    }
    nothing_to_obey = {
        "long-line": reply(b"Disallow: " + b"x" * 1_000_000 + b"\n" + rules, mime="text/plain"),
        "html": reply(b"<html><body>Disallow: /private</body></html>"),
        "nobody": reply(b"Disallow: /private\n", mime="text/plain"),
    }
    web = Web(loopback, {f"{name}.test/robots.txt": answer for name, answer in (obeyed | nothing_to_obey).items()})
    web.crawl(tmp_path, [f"http://{name}.test/{path}" for name in obeyed | nothing_to_obey for path in ("private", "")])
    for name in obeyed:
        assert web.asked(f"{name}.test") == [f"{name}.test/"]
    for name in nothing_to_obey:
        assert sorted(web.asked(f"{name}.test")) == [f"{name}.test/", f"{name}.test/private"]


def test_t063_the_group_for_us_and_the_longest_match(loopback: Loopback, tmp_path: Path) -> None:
    text = (
        "User-agent: *\nDisallow: /\n\nUser-agent: gossamer\nDisallow: /a\nAllow: /a/b\nDisallow: /*.pdf$\n\n"
        "User-agent: other\nUser-agent: Gossamer\nDisallow: /c\nAllow: /d\nDisallow: /d\nDisallow: /%7Ee\n"
    )
    web = Web(loopback, {"/robots.txt": robots(text), "t.test": page()})
    paths = ("/", "/a", "/a/b", "/x.pdf", "/x.pdf?y", "/c", "/d", "/~e")
    web.crawl(tmp_path, [f"http://t.test{path}" for path in paths])
    assert sorted(web.asked()) == ["t.test/", "t.test/a/b", "t.test/d", "t.test/x.pdf?y"]


def test_t064_crawl_delays(loopback: Loopback, tmp_path: Path) -> None:
    least_s = {"0.3": 0.3, "600": 0.5, "1e9": 0.0, "-1": 0.0, "abc": 0.0}
    hosts = {f"h{i}.test": value for i, value in enumerate(least_s)}
    rules = {f"{host}/robots.txt": robots(f"User-agent: *\nCrawl-delay: {v}\n") for host, v in hosts.items()}
    web = Web(loopback, {**rules, "/": page("/1", "/2")})
    web.crawl(tmp_path, [f"http://{host}/" for host in hosts], polite__crawl_delay_max_s=0.5)
    for host, value in hosts.items():
        requests = web.exchanges(host, with_robots=True)
        assert len(requests) == 4, "what is longer than the longest one obeyed does not stop the crawl"
        gaps = [two.began_s - one.ended_s for one, two in pairwise(requests)]
        assert min(gaps) >= least_s[value] - 0.001, value


def test_t065_robots_txt_changes_during_the_crawl(loopback: Loopback, tmp_path: Path) -> None:
    def rules(exchange: Exchange) -> bool:
        return exchange.send(robots(RULES if len(web.asked()) < 3 else ALL))

    web = Web(loopback, {"/robots.txt": rules, "/": page(*(f"/{i}" for i in range(40))), "t.test": page()})
    found = web.crawl(tmp_path, ["http://t.test/"], polite__robots_ttl_s=1.0, polite__delay_s=0.1)
    requests = [exchange.path for exchange in web.exchanges(with_robots=True)]
    assert requests.count("/robots.txt") >= 2, "it was read again"
    second = requests.index("/robots.txt", 1)
    assert [path for path in requests[second:] if path != "/robots.txt"] == [], "what was queued already is denied too"
    assert list(statuses(found).values()).count("denied") == 41 - (second - 1)


def test_t066_rules_hold_for_one_origin(loopback: Loopback, tmp_path: Path) -> None:
    one = Web(loopback, {"/robots.txt": robots(RULES), "a.test": page(), "b.test": page()})
    other = Web(loopback, {"/robots.txt": robots(ALL)})
    third = Web(loopback, {"/robots.txt": robots("")})
    ports = [web.server.port for web in (one, other, third)]
    names = {"a.test": "127.0.0.1", "b.a.test": "127.0.0.1", "xn--bcher-kva.test": "127.0.0.1"}
    hosts = ("a.test", "b.a.test", "bücher.test")
    seeds = [f"http://{host}:{port}/private" for host in hosts for port in ports]
    found = one.crawl(tmp_path, seeds, resolve__map=names)
    assert not one.asked()
    assert not other.asked()
    ascii_hosts = ("a.test", "b.a.test", "xn--bcher-kva.test")
    assert sorted(third.asked()) == sorted(f"{host}:{ports[2]}/private" for host in ascii_hosts)
    for web in (one, other, third):
        assert len(web.exchanges(with_robots=True)) - len(web.exchanges()) == 3, "one robots.txt per name and port"
    assert list(statuses(found).values()).count("denied") == 6


def test_t067_one_slow_robots_txt_keeps_nobody_else_waiting(loopback: Loopback, tmp_path: Path) -> None:
    is_quick_done = threading.Event()

    def slow(exchange: Exchange) -> bool:
        is_quick_done.wait(60.0)
        return exchange.send(robots(RULES))

    def quick(exchange: Exchange) -> bool:
        sent = exchange.send(page())
        if len(web.exchanges("quick.test")) >= 60:
            is_quick_done.set()
        return sent

    web = Web(loopback, {"slow.test/robots.txt": slow, "slow.test": page(), "quick.test": quick})
    seeds = [f"http://{host}.test/{i}" for i in range(60) for host in ("slow", "quick")]
    web.crawl(tmp_path, seeds, fetch__timeout_s=120.0)
    assert is_quick_done.is_set()
    (asked,) = [e for e in web.exchanges("slow.test", with_robots=True) if e.path == "/robots.txt"]
    assert all(exchange.began_s > asked.ended_s for exchange in web.exchanges("slow.test"))
    assert all(exchange.ended_s < asked.ended_s for exchange in web.exchanges("quick.test"))
    assert (len(web.exchanges("slow.test")), len(web.exchanges("quick.test"))) == (60, 60)


def once(first: Callable[[], bytes], then: bytes) -> Callable[[Exchange], bool]:
    """The first request of a host gets one answer, all others another."""
    seen: list[Exchange] = []

    def answer(exchange: Exchange) -> bool:
        seen.append(exchange)
        return exchange.send(first() if len(seen) == 1 else then)

    return answer


def test_t069_throttled_hosts_wait_as_they_ask(loopback: Loopback, tmp_path: Path) -> None:
    """Each host throttles its first request; from then on all its pages wait, not only the one that was refused."""
    asks: dict[str, tuple[Callable[[], list[str]], float]] = {
        "seconds": (lambda: ["Retry-After: 2"], 2.0),
        "date": (lambda: [f"Retry-After: {formatdate(time.time() + 3, usegmt=True)}"], 2.0),
        "past": (lambda: ["Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"], 0.5),
        "years": (lambda: ["Retry-After: 315360000"], 3.0),
        "garbage": (lambda: ["Retry-After: soon"], 0.5),
        "negative": (lambda: ["Retry-After: -5"], 0.5),
        "none": (list, 0.5),
    }
    replies: dict[str, Reply] = {"/robots.txt": robots("")}
    for name, (fields, _) in asks.items():
        for status in (429, 503):
            replies[f"{name}{status}.test"] = once(lambda f=fields, s=status: reply(b"", s, *f()), page())
    web = Web(loopback, replies)
    hosts = [host for host in replies if host.endswith(".test")]
    seeds = [f"http://{host}/{i}" for host in hosts for i in range(3)]
    values = {"polite__backoff_s": 0.5, "polite__backoff_max_s": 3.0, "crawl__patience_s": 10.0}
    found = web.crawl(tmp_path, seeds, **values)
    for host in hosts:
        least_s = asks[host.removesuffix(".test")[:-3]][1]
        first, second, *rest = web.exchanges(host)
        since_s = first.began_s if host.startswith("date") else first.ended_s  # a date was made before it was sent
        assert second.began_s - since_s >= least_s - 0.001, host
        assert len(rest) == 2, host
    assert set(statuses(found).values()) == {"fetched"}


def test_t069_each_time_longer(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {"/robots.txt": robots(""), "t.test": reply(b"", 503)})
    found = web.crawl(tmp_path, [f"http://t.test/{i}" for i in range(2)], polite__backoff_s=0.3, fetch__retries=1)
    gaps = [two.began_s - one.ended_s for one, two in pairwise(web.exchanges())]
    assert len(gaps) == 3
    for gap, least_s in zip(gaps, (0.3, 0.6, 1.2), strict=True):
        assert gap >= least_s - 0.001
    assert set(statuses(found).values()) <= {"gone", "failed"}


def test_t071_a_host_dies_and_comes_back(loopback: Loopback, tmp_path: Path) -> None:
    dead: list[Exchange] = []

    def dies(exchange: Exchange) -> bool:
        if len(web.exchanges("mortal.test")) >= 3 and len(dead) < 6:
            dead.append(exchange)
            return False  # not a byte
        return exchange.send(page())

    web = Web(loopback, {"mortal.test": dies, "other.test": page()})
    seeds = [f"http://{host}.test/{i}" for host in ("mortal", "other") for i in range(12)]
    found = web.crawl(tmp_path, seeds, fetch__retries=6, crawl__patience_s=20.0, polite__backoff_max_s=1.0)
    assert len(dead) == 6
    assert set(statuses(found).values()) == {"fetched"}, "no page of it is lost"
    last_other = max(exchange.ended_s for exchange in web.exchanges("other.test"))
    last_dead = max(exchange.began_s for exchange in dead)
    assert last_other < last_dead, "others go on meanwhile"


def test_t071_a_host_that_stays_dead_costs_little(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {"dead.test": lambda exchange: False, "/": page()})
    seeds = [f"http://dead.test/{i}" for i in range(50)]
    found = web.crawl(tmp_path, seeds, crawl__patience_s=0.0, polite__backoff_s=0.05)
    assert len(web.asked()) <= 10, "its pages go back after some failures in a row, unasked"
    assert list(statuses(found).values()).count("new") >= 40


def test_t058_t008_robots_txt_that_redirects_to_a_page(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {"/robots.txt": moved("/"), "/": page("/x", text="Disallow: /x"), "/x": page()})
    web.crawl(tmp_path, ["http://t.test/"])
    assert "t.test/x" in web.asked()


def test_a_slow_host_in_the_end_does_not_make_a_round_of_every_page(loopback: Loopback, tmp_path: Path) -> None:
    """Its pages lead to what is known, and to more of the same host: nobody waits for what they say."""
    replies = {f"/{i}": page("/", *(f"/{j}" for j in range(i, i + 3)), text=str(i)) for i in range(28)}
    web = Web(loopback, {"/": page(*(f"/{i}" for i in range(25))), **replies})
    found = web.crawl(tmp_path, ["http://t.test/"], polite__delay_s=0.3)
    assert len(set(web.asked())) == 31
    assert found.query("SELECT count(DISTINCT round) AS n FROM visits WHERE NOT is_robots")[0]["n"] < 10

"""One client's crawl of many websites: each has what it would have alone, whoever else is in the same crawl."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from raw_server import Loopback
from scripted import Reply, Web, moved, page, reply, robots

from gossamer import Crawl
from gossamer.archive.reading import reading
from gossamer.cluster.protocol import encode
from gossamer.scan.client import Client
from gossamer.scan.defaults import defaults
from gossamer.scan.messages import Begin, ClientTask
from gossamer.scan.records import Facts, ScanFolder
from gossamer.scan.websites import Website, name_of

PATIENCE_S = 60.0
VALUES: dict[str, Any] = {
    "polite.delay_s": 0.0,
    "polite.backoff_s": 0.1,
    "fetch.retries": 1,
    "fetch.retry_s": 0.1,
    "crawl.patience_s": 2.0,
    "limits.depth": 2,
}
Found = tuple[str, str, list[tuple[str, str]]]  # status, reason, links


def website(start: str, scope: str = "host") -> Website:
    url = start if "://" in start else f"http://{start}/"
    return Website(name_of(url, scope), url)


def wait(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


class Scan:
    """Clients in this process that scan websites of a web, one after the other."""

    def __init__(self, here: Path, web: Web, keep: bool = False, **changes: Any) -> None:
        self.files, self.web = ScanFolder(here), web
        self.files.prepare()
        config = defaults().replace({"resolve.map": {"*": web.address}, **VALUES}).replace(changes)
        self.scope = config.crawl.scope
        self._task = ClientTask(client="c0", scan=str(here), config=config, keep=keep)

    def run(self, *orders: Iterable[str], until: Callable[[], object] | None = None) -> None:
        """Begins websites at once, and the next ones when they are done; with `until` it stops before that."""

        def lines() -> Iterator[bytes]:
            for some in orders:
                listed = [website(start, self.scope) for start in some]
                yield from (encode(Begin(each.name, each.start)) for each in listed)
                wait(until or (lambda each=listed: all(self.files.facts(one).exists() for one in each)))

        Client(self._task).run(lines())

    def found(self, start: str) -> Found:
        one = website(start, self.scope)
        facts = Facts.read(self.files.facts(one))
        rows = pq.read_table(self.files.links(one)).to_pylist()
        return facts.status, facts.reason, [(row["source"], row["target"]) for row in rows if row["target"]]

    @property
    def crawls(self) -> list[str]:
        return sorted(path.name for path in self.files.crawls.iterdir())


# Three websites that lead to each other, and deep into each other.
REPLIES: dict[str, Reply] = {
    "a.test/": page("/1", "http://b.test/1/1", "http://c.test/"),
    "a.test/1": page("/2", "http://b.test/"),
    "a.test/2": page("/3", "http://c.test/1"),
    "a.test/3": page("http://b.test/too-deep"),
    "b.test/": moved("http://www.b.test/"),
    "www.b.test/": page("/1", "http://a.test/3", "http://sub.b.test/"),
    "www.b.test/1": page("http://b.test/1/1", "http://a.test/2"),
    "b.test/1/1": page("/1/1/1", "http://c.test/2"),
    "b.test/1/1/1": page("http://a.test/too-deep"),
    "c.test/": moved("http://a.test/2"),
    "d.test/": page("/1"),
    "d.test/robots.txt": robots("User-agent: *\nDisallow: /\n"),
}
STARTS = ("a.test", "b.test", "c.test", "d.test")
ALONE: dict[str, Found] = {
    "a.test": (
        "ok",
        "",
        [
            ("http://a.test/", "http://b.test/1/1"),
            ("http://a.test/", "http://c.test/"),
            ("http://a.test/1", "http://b.test/"),
            ("http://a.test/2", "http://c.test/1"),
        ],
    ),
    "b.test": (
        "ok",
        "",
        [
            ("http://b.test/1/1", "http://c.test/2"),
            ("http://www.b.test/", "http://a.test/3"),
            ("http://www.b.test/", "http://sub.b.test/"),
            ("http://www.b.test/1", "http://a.test/2"),
        ],
    ),
    "c.test": ("moved", "it leads to http://a.test/2", [("http://c.test/", "http://a.test/2")]),
    "d.test": ("denied", "robots.txt forbids it", []),
}


@pytest.mark.parametrize("orders", [[STARTS], [(each,) for each in reversed(STARTS)], [STARTS[2:], STARTS[:2]]])
def test_a_website_has_what_it_would_have_alone(
    loopback: Loopback, tmp_path: Path, orders: list[tuple[str, ...]]
) -> None:
    web = Web(loopback, REPLIES)
    scan = Scan(tmp_path, web)
    scan.run(*orders)
    assert {start: scan.found(start) for start in STARTS} == ALONE
    assert "a.test/3" not in web.asked(), "too deep from its own start, whoever else leads to it"
    assert scan.crawls == ["c0"], "all in one"
    assert sorted(web.asked("a.test")) == ["a.test/", "a.test/1", "a.test/2"]


def test_by_domain_all_hosts_of_a_domain_are_one_website(loopback: Loopback, tmp_path: Path) -> None:
    domain = {**REPLIES, "sub.b.test/": page("http://deep.b.test/", "http://a.test/1")}
    domain["deep.b.test/"] = page("http://a.test/4")
    scan = Scan(tmp_path, Web(loopback, domain), **{"crawl.scope": "domain"})
    scan.run(("http://b.test/", "http://a.test/"))
    status, _, links = scan.found("http://b.test/")
    assert status == "ok"
    assert ("http://deep.b.test/", "http://a.test/4") in links
    assert ("http://www.b.test/", "http://sub.b.test/") not in links, "it stays"
    assert scan.found("http://a.test/")[2] == ALONE["a.test"][2]


def test_two_ports_of_one_host_are_two_websites(loopback: Loopback, tmp_path: Path) -> None:
    replies = {
        "a.test/": page("http://a.test:8080/1", "/1"),
        "a.test/1": page("http://x.test/"),
        "a.test:8080/": page("/1", "http://a.test/"),
        "a.test:8080/1": page("http://y.test/"),
    }
    scan = Scan(tmp_path, Web(loopback, replies))
    scan.run(("a.test", "a.test:8080"))
    assert scan.found("a.test")[2] == [
        ("http://a.test/", "http://a.test:8080/1"),
        ("http://a.test/1", "http://x.test/"),
    ]
    assert scan.found("a.test:8080")[2] == [
        ("http://a.test:8080/", "http://a.test/"),
        ("http://a.test:8080/1", "http://y.test/"),
    ]
    assert scan.crawls == ["c0", "c0.2"]


def test_a_website_does_not_wait_for_another_one(loopback: Loopback, tmp_path: Path) -> None:
    """One answers slowly; the others are done long before it, page by page."""
    gate = threading.Event()

    def slow(exchange: Any) -> bool:
        gate.wait(PATIENCE_S)
        return bool(exchange.send(page()))

    scan = Scan(tmp_path, Web(loopback, {**REPLIES, "slow.test/": slow}), **{"fetch.timeout_s": PATIENCE_S})
    quick = [website(start) for start in STARTS]

    def is_quick_done() -> bool:
        if not gate.is_set() and all(scan.files.facts(each).exists() for each in quick):
            assert not scan.files.facts(website("slow.test")).exists()
            gate.set()
        return scan.files.facts(website("slow.test")).exists()

    scan.run(("slow.test", *STARTS), until=is_quick_done)
    assert {start: scan.found(start) for start in STARTS} == ALONE
    assert scan.found("slow.test")[0] == "ok"


def test_what_is_due_after_its_end_is_left_alone(loopback: Loopback, tmp_path: Path) -> None:
    """A page that fails is due again later than anybody waits; then its website is done, and others go on."""
    gate = threading.Event()

    def broken(exchange: Any) -> bool:
        return bool(exchange.send(reply(b"", 500)))

    def slow(exchange: Any) -> bool:
        gate.wait(PATIENCE_S)
        return bool(exchange.send(page("/1")))

    replies: dict[str, Reply] = {"a.test/": page("/1", "http://b.test/"), "a.test/1": broken, "slow.test/": slow}
    replies["slow.test/1"] = page()
    web = Web(loopback, replies)
    changes = {"fetch.retry_s": 1.0, "crawl.patience_s": 0.0, "fetch.timeout_s": PATIENCE_S, "fetch.retries": 3}
    scan = Scan(tmp_path, web, **changes)
    a, other = website("a.test"), website("slow.test")
    asked: list[int] = []

    def is_over() -> bool:
        if scan.files.facts(a).exists() and not gate.is_set():
            asked.append(len(web.asked("a.test")))
            time.sleep(3.0)  # longer than the page waits: it is due by now
            gate.set()
        return scan.files.facts(other).exists()

    scan.run(("a.test", "slow.test"), until=is_over)
    assert len(web.asked("a.test")) == asked[0], "nothing after its end"
    facts = Facts.read(scan.files.facts(a))
    assert (facts.status, facts.errors) == ("ok", 1)
    rows = pq.read_table(scan.files.links(a)).to_pylist()
    assert {row["source"]: row["page"] for row in rows if not row["target"]} == {
        "http://a.test/": "read",
        "http://a.test/1": "it answered 500",
    }


def test_waiting_for_what_failed_is_told_apart(loopback: Loopback, tmp_path: Path) -> None:
    failures = iter([500, 500])

    def twice(exchange: Any) -> bool:
        return bool(exchange.send(reply(b"", status) if (status := next(failures, 0)) else page("/")))

    web = Web(loopback, {"a.test/": page("/1"), "a.test/1": twice, "b.test/": page("/1"), "b.test/1": page()})
    patient = {"crawl.patience_s": PATIENCE_S}  # due times are whole seconds, rounded up: 1.6 s may be more than 2
    scan = Scan(tmp_path, web, **{"fetch.retry_s": 0.8, "fetch.retries": 3, **patient})
    scan.run(("a.test", "b.test"))
    a, b = (Facts.read(scan.files.facts(website(name))) for name in ("a.test", "b.test"))
    assert (a.errors, b.waited_s) == (0, 0.0)
    assert 2.0 < a.waited_s < a.scan_s, "0.8 s, then 1.6 s"


def test_what_an_earlier_run_began_waits_until_it_is_assigned_again(loopback: Loopback, tmp_path: Path) -> None:
    gate = threading.Event()

    def held(exchange: Any) -> bool:
        gate.wait(0.5)
        return bool(exchange.send(REPLIES["a.test/1"]))

    web = Web(loopback, {**REPLIES, "a.test/1": held})
    scan = Scan(tmp_path, web)
    scan.run(("a.test",), until=lambda: "a.test/1" in web.asked())
    assert not scan.files.facts(website("a.test")).exists()
    before = web.asked("a.test")
    scan.run(("b.test",))
    assert web.asked("a.test") == before, "nobody asked for it"
    assert scan.found("b.test") == ALONE["b.test"]
    gate.set()
    scan.run(("a.test",))
    assert scan.found("a.test") == ALONE["a.test"]
    assert web.asked().count("a.test/") == 1, "it went on where it was"


def test_without_keep_the_archive_forgets_websites_that_are_done(loopback: Loopback, tmp_path: Path) -> None:
    kept = {}
    for keep in (False, True):
        here = tmp_path / str(keep)
        scan = Scan(here, Web(loopback, REPLIES), keep=keep)
        scan.run(*((start,) for start in STARTS))
        assert {start: scan.found(start) for start in STARTS} == ALONE
        kept[keep] = reading(
            here / "crawls" / "c0", lambda at: [at.names(kind) for kind in ("visits", "warc", "links")]
        )
    assert all(len(fewer) < len(all_) for fewer, all_ in zip(kept[False], kept[True], strict=True))
    rows = Crawl(tmp_path / "True" / "crawls" / "c0").query(
        "SELECT count(*) AS pages FROM pages WHERE status='fetched'"
    )
    assert rows == [{"pages": 6}]


def test_a_limit_of_pages_is_for_each_website(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, REPLIES)
    scan = Scan(tmp_path, web, **{"crawl.pages": 2})
    scan.run(STARTS)
    assert sorted(web.asked("a.test")) == ["a.test/", "a.test/1"]
    assert len(web.asked("b.test")) + len(web.asked("www.b.test")) == 2

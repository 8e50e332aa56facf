"""The robots book: what is known, for how long, and within which memory."""

import pyarrow as pa
import pytest

from gossamer.columns import ROBOTS, Outcome
from gossamer.config import Config, Polite
from gossamer.fetch.robots_cache import RobotsCache

T0 = 1_000_000_000.0
A, B = "http://a.test", "https://b.test:8443"
RULES = b"User-agent: *\nDisallow: /private\nCrawl-delay: 7\n"


def polite(**changes: float) -> Polite:
    return Config().replace({f"polite.{name}": value for name, value in changes.items()}).polite


def book(**changes: float) -> RobotsCache:
    return RobotsCache(polite(**changes), "Gossamer")


def test_unknown() -> None:
    assert book().rules(A, T0) is None
    assert book().deferred_until(A, T0) == 0.0


def test_rules_hold_for_their_origin_until_they_expire() -> None:
    robots = book(robots_ttl_s=100.0)
    robots.put(A, 200, RULES, T0)
    rules = robots.rules(A, T0 + 99)
    assert rules is not None
    assert not rules.allows("/private")
    assert rules.allows("/")
    assert rules.crawl_delay_s == 7.0
    assert robots.rules(B, T0) is None
    assert robots.rules(A, T0 + 100) is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_a_missing_file_allows_everything(status: int) -> None:
    robots = book()
    robots.put(A, status, RULES, T0)
    rules = robots.rules(A, T0)
    assert rules is not None
    assert rules.allows("/private")


@pytest.mark.parametrize("status", [0, 302, 429, 500, 503, 599])
def test_an_unreachable_file_forbids_everything_for_longer_each_time(status: int) -> None:
    robots = book(backoff_s=30.0, robots_ttl_s=100.0)
    now = T0
    for pause_s in (30.0, 60.0, 100.0, 100.0):
        robots.put(A, status, RULES, now, (Outcome.TIMEOUT, "slow") if not status else None)
        rules = robots.rules(A, now)
        assert rules is not None
        assert not rules.allows("/")
        assert robots.deferred_until(A, now) == now + pause_s
        now += pause_s
        assert robots.rules(A, now) is None
        assert robots.deferred_until(A, now) == 0.0
    assert robots.failure(A) == (
        (Outcome.TIMEOUT, "slow") if not status else (Outcome.OTHER, f"robots.txt answers {status}")
    )
    robots.put(A, 200, RULES, now)
    assert robots.deferred_until(A, now) == 0.0
    robots.put(A, 500, b"", now)
    assert robots.deferred_until(A, now) == now + 30


def test_memory_is_bounded_and_the_least_used_goes_first() -> None:
    robots = book(robots_memory=1 << 16)
    body = b"User-agent: *\n" + b"".join(b"Disallow: /%d\n" % i for i in range(50))
    robots.put(A, 200, body, T0)
    for i in range(100):
        robots.put(f"http://h{i}.test", 200, body, T0)
        assert robots.rules(A, T0) is not None
        assert robots.size_bytes <= 1 << 16
    assert robots.rules("http://h0.test", T0) is None
    assert robots.rules("http://h99.test", T0) is not None


def test_the_newest_is_kept_whatever_its_size() -> None:
    robots = book(robots_memory=1 << 16)
    robots.put(A, 200, b"User-agent: *\n" + b"".join(b"Disallow: /%d\n" % i for i in range(9999)), T0)
    assert len(robots) == 1
    assert robots.rules(A, T0) is not None
    robots.put(B, 404, b"", T0)
    assert robots.rules(A, T0) is None


def test_copies_share_rules_and_expiry() -> None:
    robots = book(robots_ttl_s=100.0)
    assert not robots.copy(B, A, T0)
    robots.put(A, 200, RULES, T0)
    assert robots.copy(B, A, T0 + 50)
    assert robots.rules(B, T0 + 99) is robots.rules(A, T0 + 99)
    assert robots.rules(B, T0 + 100) is None
    robots.put(A, 500, b"", T0 + 100)
    assert not robots.copy(B, A, T0 + 100), "being out of reach is not contagious"


def test_rows_survive_a_restart() -> None:
    before = book()
    before.put(A, 200, RULES + b"#" * 600_000, T0)
    before.put(B, 404, b"<html>", T0)
    before.put("http://c.test", 503, b"", T0)
    before.put("http://c.test", 0, b"", T0 + 30, (Outcome.CONNECT_FAILED, "refused"))
    rows = before.drain()
    assert before.drain() == []
    assert [row["verdict"] for row in rows] == ["rules", "allow_all", "deny_all", "deny_all"]
    assert len(rows[0]["body"]) == 500 << 10
    assert rows[1]["body"] == b""

    table = pa.Table.from_pylist(rows, ROBOTS.arrow)
    after = book()
    after.load(table.to_pylist())
    rules = after.rules(A, T0)
    assert rules is not None
    assert not rules.allows("/private")
    assert after.rules(A, T0 + 86_400) is None
    assert after.rules(B, T0) is not None
    assert after.deferred_until("http://c.test", T0 + 31) == before.deferred_until("http://c.test", T0 + 31)
    assert after.drain() == []


def test_loading_is_bounded_and_parses_nothing() -> None:
    before = book()
    for i in range(100):
        before.put(f"http://h{i}.test", 200, RULES * 100, T0)
    after = book(robots_memory=1 << 16)
    after.load(before.drain())
    assert after.size_bytes <= 1 << 16
    assert 10 < len(after) < 100
    assert after.rules("http://h99.test", T0) is not None
    assert after.size_bytes <= 1 << 16

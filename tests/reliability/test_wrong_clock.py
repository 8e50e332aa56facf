"""Crawls that begin while the machine's clock is wrong, and go on when it is right."""

from pathlib import Path

from raw_server import Exchange, Loopback
from scripted import VALUES, Web, page, statuses

from gossamer import Config, Crawl
from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.crawl.inbox import Inbox
from gossamer.crawl.seeds import hand_in
from gossamer.event_log import EventLog
from gossamer.wiring import lone_agent

DAY_S = 86_400.0


class Ahead(RealClock):
    """A day ahead of the right time."""

    def now(self) -> float:
        return super().now() + DAY_S


def test_pages_that_failed_while_the_clock_was_ahead_do_not_wait_for_it(loopback: Loopback, tmp_path: Path) -> None:
    is_well = False

    def answer(exchange: Exchange) -> bool:
        return exchange.send(page()) if is_well else False

    web = Web(loopback, {"t.test": answer})
    seeds = [f"http://t.test/{number}" for number in range(20)]
    values = {**VALUES, "resolve.map": {"*": web.address}, "fetch.retries": 9, "fetch.retry_s": 3.0}
    values |= {"polite.crawl_delay_max_s": 3.0}
    config = Config().replace({**values, "crawl.patience_s": 0.0, "polite.backoff_s": 0.2, "polite.backoff_max_s": 3.0})
    store = Directory.prepare(tmp_path, Ahead().now())
    with EventLog(tmp_path / "log" / "crawl.jsonl") as log:
        hand_in(Inbox(store), seeds, [])
        # So many visits and no more: on a busy machine something would be due again at every moment, until all is gone.
        lone_agent(store, config.replace({"crawl.pages": 20}), Ahead(), Inbox(store), log).run(lambda _: None)
    found = Crawl(tmp_path, [], config)
    assert "fetched" not in statuses(found).values()
    is_well = True
    Crawl(tmp_path, [], config.replace({"crawl.patience_s": 30.0})).run()
    rows = found.query("SELECT DISTINCT url FROM visits WHERE outcome = 'ok'")
    assert {row["url"] for row in rows} == set(seeds)

"""One website's scan by one client, beside what happens to its files."""

import gc
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from scans import SPEC, names, true_links

from gossamer.archive.mark import LAYOUT
from gossamer.clocks import RealClock
from gossamer.cluster.protocol import encode
from gossamer.config import Config
from gossamer.crawl.agent import Agent
from gossamer.scan.client import Client
from gossamer.scan.defaults import defaults
from gossamer.scan.facts import Facts, Places
from gossamer.scan.messages import Begin, ClientTask
from gossamer.scan.website import WebsiteScan
from gossamer.scan.websites import Website
from gossamer.testweb.running import RunningWeb


@pytest.fixture(scope="module")
def web() -> Iterator[RunningWeb]:
    with RunningWeb(SPEC, options=["--speed", "0"]) as running_web:
        yield running_web


VALUES = {"polite.delay_s": 0.0, "crawl.patience_s": 1.0, "limits.depth": 2}


def scanned(web: RunningWeb, places: Places, website: Website) -> Facts:
    config = defaults().replace({"resolve.map": {"*": web.address}, **VALUES})
    facts = WebsiteScan(website, places, config, RealClock()).run("c0", lambda _: None)
    assert facts is not None
    return facts


def test_after_a_power_failure_a_website_under_way_begins_anew(web: RunningWeb, tmp_path: Path) -> None:
    name = names(web)[2]
    website, places = Website(name, f"http://{name}/"), Places(tmp_path)
    places.prepare()
    left = places.crawl(website)
    (left / "manifest" / "a0").mkdir(parents=True)
    (left / "manifest" / "a0" / "00000001.json").write_bytes(b"\0" * 100)
    (left / "gossamer.json").write_text(json.dumps({"layout": LAYOUT, "created": 1.0, "boot": "another one"}))
    facts = scanned(web, places, website)
    assert (facts.status, facts.links) == ("ok", len(true_links(web.truth, name, 2)))
    assert not left.exists(), "without --keep nothing of the crawl stays"
    assert Facts.read(places.facts(website)) == facts


def test_a_client_does_not_keep_the_crawlers_of_websites_that_are_done(web: RunningWeb, tmp_path: Path) -> None:
    """Each has tables of its own, and a scan has thousands of websites."""
    Places(tmp_path).prepare()
    config = Config().replace({"resolve.map": {"*": web.address}, "polite.delay_s": 0.0, "crawl.patience_s": 1.0})
    client = Client(ClientTask(client="c0", scan=str(tmp_path), config=config))
    gc.disable()  # as good as: a client looks for cycles seldom
    try:
        for name in names(web):
            client.run([encode(Begin(name, f"http://{name}/"))])
            client._ended.clear()
        assert sum(isinstance(thing, Agent) for thing in gc.get_objects()) <= 1
    finally:
        gc.enable()

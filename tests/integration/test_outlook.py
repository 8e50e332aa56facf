"""`gossamer simulate DIR --forecast` tells how large and how long a crawl will be, from a small part of it."""

import json
from pathlib import Path

import numpy as np
import pytest
from crawls import crawl
from raw_server import Exchange, Loopback

from gossamer import Config, Crawl
from gossamer.cli import app as cli
from gossamer.errors import ArchiveError
from gossamer.sim.outlook import outlook
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

POLITE = {"polite.delay_s": 0.05, "crawl.sitemaps": False}
TRUTH = """SELECT count(DISTINCT key) AS pages, sum(wire_bytes)::DOUBLE AS wire_bytes,
    (max(epoch_ms(time)) - min(epoch_ms(time))) / 1000 AS seconds FROM visits WHERE NOT is_robots"""


def spec(seed: int, random: np.random.Generator) -> WebSpec:
    hosts, pages, links = int(random.integers(5, 14)), int(random.integers(200, 500)), float(random.uniform(5, 10))
    return WebSpec.plain(seed=seed, hosts=hosts, pages=pages, links=links, page_bytes=2_000.0)


def test_a_small_crawl_foretells_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunningWeb(WebSpec.plain(seed=41, hosts=6, pages=240, links=8.0, page_bytes=2_000.0)) as web:
        crawl(web, tmp_path / "small", {**POLITE, "crawl.pages": 60})
        (truth,) = crawl(web, tmp_path / "whole", {**POLITE, "polite.delay_s": 0.0}).query(TRUTH)
    found = outlook(tmp_path / "small")
    assert found.visited == 60 < found.known < truth["pages"]
    assert found.pages.low <= truth["pages"] <= found.pages.high
    assert found.wire_bytes.low <= truth["wire_bytes"] <= found.wire_bytes.high
    assert found.limit == "the host with most pages"
    slower = outlook(tmp_path / "small", delay_s=5.05)
    assert slower.pages == found.pages
    most = (slower.seconds.value - found.seconds.value) / 5.0  # pages of the host that takes longest
    assert found.pages.value / 6 < most < found.pages.value
    assert outlook(tmp_path / "small", delay_s=0.0, connections=1).seconds.value > 0
    asked = ["simulate", str(tmp_path / "small"), "--forecast", "--delay", "5.05"]
    assert cli.main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] == list(slower.seconds)
    assert cli.main([*asked, "--connections", "8"]) == 0
    said = capsys.readouterr().out
    assert f"60 pages are visited and {found.known:,} known; the whole crawl, 90 % sure" in said
    assert "time with 8 connections:" in said
    assert "retries of failed pages are not counted" in said
    whole = outlook(tmp_path / "whole")
    assert whole.is_complete
    assert {*whole.pages} == {truth["pages"]}
    assert {*whole.wire_bytes} == {truth["wire_bytes"]}
    assert cli.main(["simulate", str(tmp_path / "whole"), "--forecast"]) == 0
    said = capsys.readouterr().out
    assert f"the crawl is complete:\n  pages: {truth['pages']:,}\n" in said


def page(exchange: Exchange) -> bool:
    """Thirty pages that all link to each other, each with two images of its own."""
    if exchange.path.endswith(".png"):
        return exchange.send_page(b"x" * 100, fields=b"Content-Type: image/png\r\n")
    links = "".join(f"<a href=/{number}>x</a>" for number in range(30))
    images = f"<img src=/of{exchange.path}a.png><img src=/of{exchange.path}b.png>"
    status = "404 Not Found" if exchange.path == "/robots.txt" else "200 OK"
    return exchange.send_page((links + images).encode(), status, b"Content-Type: text/html\r\n")


def test_what_pages_need_is_no_page_and_nothing_is_certain_before_the_end(loopback: Loopback, tmp_path: Path) -> None:
    server = loopback.serve(page)
    quick = {"polite.delay_s": 0.0, "crawl.sitemaps": False, "crawl.requisites": True, "crawl.pages": 24}
    config = Config().replace({**quick, "resolve.map": {"*": f"127.0.0.1:{server.port}"}})
    found = Crawl(tmp_path / "c", ["http://a.test/0"], config)
    found.run()
    forecast = outlook(tmp_path / "c")
    assert (forecast.visited, forecast.known, forecast.is_complete) == (24, 30, False)
    assert forecast.pages.low == 30 < forecast.pages.high < 40


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", str(tmp_path / "x.npz"), "--forecast"]) == 2
    assert "--forecast needs the directory of a crawl" in capsys.readouterr().err
    with RunningWeb(WebSpec.plain(seed=41, hosts=2, pages=20)) as web:
        crawl(web, tmp_path / "tiny", {**POLITE, "crawl.pages": 5})
    with pytest.raises(ArchiveError, match="a forecast needs at least 20"):
        outlook(tmp_path / "tiny")


@pytest.mark.slow
def test_ten_crawls_end_where_they_were_foretold(tmp_path: Path) -> None:
    """A quarter of each web tells of the whole: within the interval at least eight times of ten, half of the forecasts
    within a fifth. The webs are others than those that the intervals were fitted on."""
    random, names = np.random.default_rng(23), ("pages", "wire_bytes", "seconds")
    off: dict[str, list[float]] = {name: [] for name in names}
    inside = dict.fromkeys(names, 0)
    for number in range(10):
        made = spec(900 + number, random)
        with RunningWeb(made) as web:
            crawl(web, tmp_path / f"{number}", {**POLITE, "crawl.pages": made.pages // 4})
            found = outlook(tmp_path / f"{number}")
            (truth,) = crawl(web, tmp_path / f"{number}.whole", POLITE).query(TRUTH)
        for name in names:
            low, value, high = getattr(found, name)
            inside[name] += low <= truth[name] <= high
            off[name].append(abs(value / truth[name] - 1))
    assert min(inside.values()) >= 8, inside
    assert max(float(np.median(each)) for each in off.values()) < 0.2, off

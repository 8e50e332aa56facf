"""One crawler over two places, for real: agents, nats-server, and files that cross."""

from pathlib import Path

import pytest

from experiments import stretched
from experiments.sites_runs import Setting
from experiments.spread import place_of
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec


@pytest.mark.slow
def test_a_stretched_crawl_finds_everything_and_keeps_it_at_both_places(tmp_path: Path) -> None:
    spec = WebSpec.plain(seed=3, pages=200, hosts=20, links=10.0, local=0.7, page_bytes=2_000.0)
    with RunningWeb(spec) as web:
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("".join(f"http://h{number}.test/\n" for number in range(spec.hosts)))
        done = stretched.crawl(Setting(2, round_trip_ms=10.0, width=40), tmp_path / "run", seeds, web.address)
    keys = done.visited()[0].tolist()
    assert len(keys) == len(set(keys)) == spec.pages, "each page once"
    assert {event["agent"] for event in done.commits()} == {"a0", "a1"}
    for here, name in enumerate(stretched.PLACES):
        files = [f"warc/{path.name}" for path in (tmp_path / "run" / name / "warc").iterdir()]
        assert files
        assert all(place_of(file) == here for file in files)
    assert done.wire_bytes > sum(done.bytes_by_kind.values()) > 0
    assert {"warc", "tables", "index", "manifest"} <= done.bytes_by_kind.keys()

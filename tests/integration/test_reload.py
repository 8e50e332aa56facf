"""A running crawl takes over other limits, delays and patterns, and its log says what went wrong at which level."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import complaint, running, succeed

from gossamer import Config, Crawl
from gossamer.config import reload
from gossamer.errors import ArchiveError, ConfigError
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SETTINGS = {"polite.delay_s": 0.0, "crawl.scope": "any", "crawl.patience_s": 0.1, "crawl.round_s": 0.2}


SPEC = WebSpec.plain(seed=5, hosts=2, pages=40, page_bytes=500.0, links=5.0)


def config(web: RunningWeb, **more: Any) -> Config:
    return Config().replace({**SETTINGS, "resolve.map": {"*": web.address}, **more})


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_delay_is_changed_while_the_crawl_waits_for_it(web: RunningWeb, tmp_path: Path) -> None:
    options = ("--testweb", web.address, "--scope", "any", "--set", "crawl.patience_s=0.1", "--set", "crawl.round_s=1")
    directory = tmp_path / "crawl"
    with running("crawl", web.start_url, *options, "--delay", "300", "--quiet", at=tmp_path) as crawl:
        log = directory / "log" / "crawl.jsonl"
        crawl.wait_until(lambda: log.exists() and "commit" in log.read_text(), "a commit")
        said = succeed("reload", "crawl", "--delay", "0", "--exclude", "*/no-such-path/*", at=tmp_path)
        assert "crawl.exclude, polite.delay_s" in said
        assert crawl.finish()[0] == 0
    urls = succeed("query", "crawl", "SELECT url FROM pages", "--format", "csv", at=tmp_path).splitlines()[1:]
    assert set(urls) == set(web.truth.urls(web.truth.reachable()))
    assert 'exclude = [\n    "*/no-such-path/*",\n]' in (directory / "last-run.toml").read_text()
    assert [event["keys"] for event in events(log) if event["event"] == "reloaded"]


def test_limits_change_and_what_cannot_is_named(web: RunningWeb, tmp_path: Path) -> None:
    # The first look is after a quarter of a second: five pages take longer with this delay.
    slow = {"crawl.pages": 5, "crawl.width": 2, "polite.delay_s": 0.3}
    crawl = Crawl(tmp_path / "crawl", [web.start_url], config(web, **slow))
    asked: list[object] = []

    def show(_: object) -> None:
        if not asked:
            asked.append(crawl.reload({"crawl.pages": 12}))
            with pytest.raises(ConfigError, match=r"site\.agents cannot change while a crawl is running"):
                crawl.reload({"site.agents": 2, "crawl.pages": 3})
            with pytest.raises(ConfigError):
                crawl.reload({"polite.delay_s": -1})

    assert crawl.run(show).visits == 12
    with pytest.raises(ArchiveError, match="no crawl is running"):
        crawl.reload({"crawl.pages": 20})
    assert "nothing to change" in complaint("reload", "crawl", at=tmp_path)
    with pytest.raises(ArchiveError, match="holds no crawl"):
        Crawl(tmp_path / "nowhere").reload({"polite.delay_s": 9.0})


def test_changes_are_kept_before_they_go(tmp_path: Path) -> None:
    """If the crawl dies at any instant, they are in the folder, or among the options of the next run."""
    changes, kept = {"crawl.exclude": ["*/private/*"]}, list[object]()
    path = reload.offer(tmp_path, changes)
    assert reload.take(tmp_path, lambda found: kept.append((found, path.exists()))) == changes
    assert (kept, path.exists()) == ([(changes, True)], False)
    assert reload.take(tmp_path, kept.append) == {}
    assert len(kept) == 1


def test_the_log_has_failures_by_level(tmp_path: Path) -> None:
    spec = WebSpec.plain(seed=5, hosts=2, pages=20, page_bytes=500.0, links=5.0)
    more = {"fetch.retries": 1, "fetch.retry_s": 0.1, "crawl.minutes": 0.03, "log.slow_commit_s": 0.0}
    with RunningWeb(spec, options=("--fault", "h1.test=reset")) as web:
        for level in ("debug", "warning"):
            log = tmp_path / level / "own.jsonl"
            settings = {**more, "log.level": level, "log.file": str(log)}
            Crawl(tmp_path / level / "crawl", [web.start_url, "http://h1.test/"], config(web, **settings)).run()
            found = events(log)
            assert {event["level"] for event in found} == {"warning", *(("debug", "info") if level == "debug" else ())}
            (failing,) = (event for event in found if event["event"] == "hosts fail")
            assert [host["host"] for host in failing["hosts"]] == ["h1.test"]
            assert any(event["event"] == "slow commit" for event in found)
            failed = [event for event in found if event["event"] == "visit failed"]
            assert bool(failed) == (level == "debug")
            assert all(event["url"].startswith("http://h1.test/") for event in failed)

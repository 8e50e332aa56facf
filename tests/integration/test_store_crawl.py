"""A crawl whose agents share nothing but its store, as a user sees it: commands, limits, mistakes, and what remains."""

import json
import signal
from pathlib import Path

import pytest
from commands import answer, complaint, run, running, succeed
from test_site import SPEC, agents, crawl, is_alive

from gossamer.archive.store import Directory
from gossamer.cluster.store_lease import leader
from gossamer.testweb.running import RunningWeb

STORE = ("--set", "site.exchange=store")
SLOW = ("--delay", "2")  # so slow that there is time to look at it


@pytest.mark.slow
def test_limits_hold_and_the_next_run_needs_no_options(web: RunningWeb, tmp_path: Path) -> None:
    told = answer(*crawl(web, *STORE, "--pages", 60), at=tmp_path)
    assert (told["run_visits"], told["ended"]) == (60, "limit of 60 pages")
    done = run("crawl", "--dir", "c", "--json", "--pages", 90, at=tmp_path)
    assert json.loads(done.stdout)["visits"] == 90
    assert 'site.exchange = "store"' in done.stderr.decode(), "as in the last run"
    assert not (tmp_path / "c" / "site").exists(), "there is no server"
    assert [row["state"] for row in answer("agents", "c", "--json", at=tmp_path)["agents"]] == ["ended"] * 3


@pytest.mark.slow
def test_people_see_agents_and_may_add_and_retire_some(web: RunningWeb, tmp_path: Path) -> None:
    def seen() -> dict[str, str]:
        return {row["agent"]: row["state"] for row in answer("agents", "c", "--json", at=tmp_path)["agents"]}

    with running(*crawl(web, *STORE, *SLOW), at=tmp_path) as process:
        process.wait_until(lambda: (tmp_path / "c" / "registrar").exists(), "a registrar")
        process.wait_until(lambda: {*seen()} == {"a0", "a1", "a2"}, "three agents")
        assert "a9 is not running" in complaint("agents", "c", "retire", "a9", at=tmp_path)
        succeed("agents", "c", "add", at=tmp_path)
        process.wait_until(lambda: seen().get("a3", "") not in ("", "ended"), "another agent")
        succeed("agents", "c", "retire", "a1", at=tmp_path)
        process.wait_until(lambda: seen()["a1"] == "ended", "its end")
        processes = agents(tmp_path / "c")
        process.signal(signal.SIGINT)
        assert process.finish()[0] == 0
    assert not any(is_alive(number) for number in processes.values())
    assert leader(Directory(tmp_path / "c")) is None


def test_machines_that_join(web: RunningWeb, tmp_path: Path) -> None:
    with running(*crawl(web, "--engine", "pull", "--agents", 2), at=tmp_path) as process:
        process.wait_until(lambda: (tmp_path / "c" / "registrar").exists(), "a registrar")
        with running("agent", "join", "c", "--agents", 2, at=tmp_path) as machine:
            code, out, err = process.finish()
            assert (code, err) == (0, "")
            assert '"ended": "nothing left to visit"' in out
            machine.signal(signal.SIGINT)
            code, out, err = machine.finish()
            assert (code, out) == (0, "")
    assert err.startswith("waiting for work in c, with room for 2 agents; Ctrl-C ends it\n")
    assert err.count(" runs a") == err.count("ended (0)") == 2
    assert answer("status", "c", "--json", at=tmp_path)["visits"] >= SPEC.pages / 2


def test_mistakes(web: RunningWeb, tmp_path: Path) -> None:
    assert "must be one of nats, store" in complaint(*crawl(web, "--set", "site.exchange=redis"), at=tmp_path)
    assert "must be one of processes, ray, pull" in complaint(*crawl(web, "--engine", "slurm"), at=tmp_path)
    assert "holds no crawl" in complaint("agent", "join", "nowhere", at=tmp_path)
    assert "carbon.token is a secret" in complaint(
        *crawl(web, "--engine", "pull", "--set", "carbon.token=x"), at=tmp_path
    )
    told = complaint(*crawl(web, *STORE, "--set", "site.lease_s=0"), at=tmp_path)
    assert "site.lease_s must be at least 1" in told


def test_a_federation_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(
        '[site]\nexchange = "store"\n[sites.north]\naddress = "127.0.0.1:1"\n[sites.south]\naddress = "127.0.0.1:2"\n'
    )
    said = complaint("federation", "run", "two.toml", "http://a.test/", at=tmp_path)
    assert "its sites use nats-server and processes: remove both keys" in said

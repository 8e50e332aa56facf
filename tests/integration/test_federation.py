"""Several sites crawl together what one crawls alone, and exchange only what they must."""

import os
import signal
import ssl
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import running, succeed
from crawls import QUICK, crawl, statuses
from federations import Sites, federation, write

from gossamer import Crawl
from gossamer.archive.chain import Chain, snapshots
from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.cluster.adoption import adopt
from gossamer.cluster.federation import crossed, prepare
from gossamer.cluster.federation_file import Federation, home_of, load
from gossamer.cluster.keys import context, make_keys, paths, tls_name
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import Server, free_port
from gossamer.cluster.neighbours import Neighbours, read_summary
from gossamer.cluster.protocol import Summary
from gossamer.cluster.rebalance import propose
from gossamer.errors import ArchiveError, ConfigError
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.placement.ring import Ring
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.web.url import host_of, page_keys

SPEC = WebSpec(
    seed=21, hosts=40, pages=500, page_bytes=3_000.0, links=20.0, local=0.6, errors=0.0, robots_broken=0.0,
    crawl_delays=0.0, changing=0.0,
)  # fmt: skip
VALUES: dict[str, Any] = {
    **QUICK, "crawl.width": 40, "limits.depth": 250, "limits.depth_dynamic": 250, "polite.connections": 16,
}  # fmt: skip


@pytest.fixture(scope="module")
def alone(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    return crawl(web, tmp_path_factory.mktemp("alone") / "crawl", VALUES)


def hits(found: Crawl) -> dict[str, int]:
    store = Directory(found.directory)
    index = PageIndex.open(store, Chain.read(store, "a0").files, found.config.index)
    rows = np.concatenate([np.zeros(0, index.pages.dtype), *index.pages.scan()])
    return dict(zip(index.urls(rows), rows["hits"].tolist(), strict=True))


def check_same(sites: Sites, alone: Crawl, web: RunningWeb, log_lines: int) -> None:
    assert sites.statuses() == statuses(alone)
    sites.check_owned_once()
    requests = Counter(web.log().urls[log_lines:])
    assert set(requests.values()) == {1}, "each page and each robots.txt is asked for once"


@pytest.mark.parametrize(
    ("agents", "scores"),
    [(2, "global"), *(pytest.param(1, scores, marks=pytest.mark.slow) for scores in ("local", "none"))],
)
def test_three_sites_are_one_crawl(web: RunningWeb, alone: Crawl, tmp_path: Path, agents: int, scores: str) -> None:
    lines = len(web.log())
    values = {**VALUES, "resolve.map": {"*": web.address}, "site.scores": scores}
    with federation(tmp_path, ["north", "east", "south"], values, agents) as sites:
        sites.start_all(*web.start_urls)
        sites.wait()
        check_same(sites, alone, web, lines)
        assert sites.missing_cash() == 0
        sent = [figures for site in sites.federation.sites for figures in crossed(sites.federation, site).values()]
        assert sum(figures["urls"] for figures in sent) > 100
        if scores == "global":
            assert sites.hits() == hits(alone), "a link was lost or counted twice"
        else:
            assert all(not figures["keys"] for figures in sent), "what was sent once is not mentioned again"


@pytest.mark.parametrize(
    ("partitioner", "agents"), [("fennel+distance", 1), pytest.param("region", 2, marks=pytest.mark.slow)]
)
def test_hosts_are_placed_as_they_are_discovered(
    web: RunningWeb, alone: Crawl, tmp_path: Path, partitioner: str, agents: int
) -> None:
    """One site decides about a host, all of them know it, and together they crawl what one crawls alone."""
    lines = len(web.log())
    values = {**VALUES, "resolve.map": {"*": web.address}, "carbon.places": {"*.test": "NG"}}
    with federation(tmp_path, ["north", "east", "south"], values, agents, partitioner=partitioner) as sites:
        sites.start_all(*web.start_urls)
        sites.wait()
        check_same(sites, alone, web, lines)
        assert sites.missing_cash() == 0
        assert sites.hits() == hits(alone), "a link was lost or counted twice"
        maps = [sites.owners(site) for site in sites.federation.sites]
        hosts = np.unique(host_of_key(page_keys(list(statuses(alone)))))
        assert all(one.is_settled(hosts).all() for one in maps)
        assert len({tuple(one.of_keys(hosts).tolist()) for one in maps}) == 1, "they disagree"
        at_work = [site for site in sites.federation.sites if sites.visits(site)]
        assert len(at_work) > 1
        for site in sites.federation.sites:  # each knows how far hosts are from all who have met some
            state = snapshots(Directory(sites.federation.directory(site)))[home_of(site)].state
            far = {name: found["NG"] for name, found in state.round_trips.items()}
            assert list(far) == at_work
            assert 0 < min(far.values()) <= max(far.values()) < 60
            assert all("net 127.0.0.0/16" in state.round_trips[name] for name in at_work), "and by block of addresses"
        proposal = propose(sites.federation)
        assert set(proposal.hosts) == {host_of(url) for url in statuses(alone)}
        assert proposal.summary()["crossing_after"] <= proposal.summary()["crossing_before"]
        by_hand = {row["host"]: row["from"] for row in proposal.rows()}
        assert all(host in sites.hosts(site) for host, site in by_hand.items())


def test_strangers_are_refused(tmp_path: Path) -> None:
    with federation(tmp_path, ["north", "east"], {"resolve.map": {"*": "127.0.0.1:1"}}) as sites:
        sites.start("north", "http://h0.test/")
        address = f"tls://{sites.federation.sites['north'].address}"
        own = {"url": address, "name": tls_name("north")}
        wire = Wire({**own, **paths(sites.federation.keys, "east")})
        assert wire.wait_up(60.0), sites.words("north")
        wire.close()
        # Somebody with certificates of another federation, and somebody with a site's name that is not in the file.
        for folder, name in ((tmp_path / "others", "east"), (sites.federation.keys, "west")):
            make_keys(folder, [name], datetime.now(UTC))
            stranger = Wire({**own, **paths(folder, name), "authority": str(sites.federation.keys / "authority.pem")})
            assert not stranger.wait_up(1.5)
            stranger.close()


def test_a_server_that_is_not_the_site_is_not_believed(tmp_path: Path) -> None:
    make_keys(tmp_path, ["north", "east"], datetime.now(UTC))
    found = context(paths(tmp_path, "north"))
    assert found.verify_mode is ssl.CERT_REQUIRED
    assert found.check_hostname


def test_a_good_bye_is_not_heard_in_the_next_run(tmp_path: Path) -> None:
    """What a site said of itself ends with its server: those who begin anew would leave it alone."""
    path = write(tmp_path, {name: free_port() for name in ("north", "east")}, {}, 1)
    made = load(path)
    prepare(made)
    server = Server(tmp_path / "site", Neighbours(made, "east", RealClock()).open)
    other = Wire({"url": server_url(made, "east"), "name": tls_name("east"), **paths(made.keys, "north")})
    try:
        for left in (True, None):
            server.start()
            east, wire = Neighbours(made, "east", RealClock()), Wire(server.address)
            assert wire.wait_up(30.0)
            assert other.wait_up(30.0)
            if left:
                east.begin(wire)
                east.leave(Summary(finished=True))
            found = read_summary(other, "east")
            assert (found and found.left) == left
            east.close()
            wire.close()
            server.stop()
    finally:
        server.stop()
        other.close()


def server_url(made: Federation, site: str) -> str:
    return f"tls://{made.sites[site].address}"


def test_a_list_of_sites_that_cannot_be_carried_out_is_refused_while_the_crawl_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path, {"north": 1, "east": 2}, {"fetch.contact": "me@gossamer-tests.org"}, 1)
    prepare(load(path))
    neighbours = Neighbours(load(path), "north", RealClock())
    assert not neighbours.has_changed()
    good = path.read_text()

    def edit(text: str) -> bool:
        path.write_text(text)
        os.utime(path, (0, os.stat(path).st_mtime + 10 + len(text)))
        return neighbours.has_changed()

    assert not edit(good.replace("[sites.east]", "[sites.east]\nweight = 2.0"))
    assert "federation.version = 2" in neighbours.refused
    assert not edit(good.replace("[federation]", "[federation]\nversion = 2").replace("[sites.east]", "[sites.west]"))
    assert "must begin with" in neighbours.refused
    assert not edit("[federation")
    assert "TOML" in neighbours.refused
    assert not edit(good.replace("[federation]", "[federation]\nversion = 2").replace("contact", "# contact"))
    assert "say who is crawling" in neighbours.refused
    assert not edit(good.replace("[federation]", "[federation]\nversion = 2") + '[crawl]\norder = "hits-authority"\n')
    assert 'order "hits-authority" ranks by the links of the whole crawl' in neighbours.refused
    assert edit(
        good.replace("[federation]", "[federation]\nversion = 2").replace("[sites.east]", "[sites.east]\nweight = 2.0")
    )
    assert not neighbours.refused


def test_mistakes_in_the_file(tmp_path: Path) -> None:
    def complaint(text: str) -> str:
        path = tmp_path / "f.toml"
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(path)
        return str(caught.value)

    assert "has no site" in complaint("")
    assert "unknown key sites.north.adress; did you mean address?" in complaint('[sites.north]\nadress = "x:1"')
    assert 'write it like address = "192.0.2.7:4222"' in complaint("[sites.north]\naddress = 'x'")
    assert "a word of small letters" in complaint("[sites.North-1]\naddress = 'x:1'")
    assert "a and b have the same address, x:1" in complaint("[sites.a]\naddress = 'x:1'\n[sites.b]\naddress = 'x:1'")
    assert "must be one of ring" in complaint("[federation]\npartitioner = 'x'\n[sites.a]\naddress = 'x:1'")
    assert "unknown key [crwl]" in complaint("[crwl]\n[sites.a]\naddress = 'x:1'")
    for path in (tmp_path / "nothing.toml", tmp_path):
        with pytest.raises(ConfigError, match="is no file"):
            load(path)


def test_lost_authority(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    assert make_keys(tmp_path, ["north", "east"], now) == ["north", "east"]
    (tmp_path / "authority.pem").unlink()
    with pytest.raises(ConfigError, match=r"authority\.pem is missing"):
        make_keys(tmp_path, ["north", "east"], now)


def test_limits_end_each_site_and_all_of_them(web: RunningWeb, tmp_path: Path) -> None:
    """One reaches its share of the pages and leaves; the others do not wait for it. Nobody else crawls in its place."""
    values = {**VALUES, "resolve.map": {"*": web.address}, "crawl.pages": 90}
    with federation(tmp_path, ["north", "east", "south"], values) as sites:
        sites.start_all(*web.start_urls)
        sites.wait()
        assert 30 <= sites.visits() <= 90
        directory = sites.federation.directory("north")
        with pytest.raises(ArchiveError, match="belongs to the site north of a federation"):
            crawl(web, directory, VALUES)


@pytest.mark.slow
def test_sites_that_have_reached_their_limits_still_give_hosts_away(web: RunningWeb, tmp_path: Path) -> None:
    values = {**VALUES, "resolve.map": {"*": web.address}, "crawl.pages": 60}
    with federation(tmp_path, ["north", "east", "south"], values) as sites:
        sites.start_all(*web.start_urls)
        sites.wait()
        assert sites.pages("south") > 0
        sites.change("south", "weight = 0\n")
        sites.start_all()
        sites.wait()
        assert sites.pages("south") == 0
        sites.check_owned_once()
        assert sites.missing_cash() == 0


def test_run_all_of_it_with_one_command(web: RunningWeb, alone: Crawl, tmp_path: Path) -> None:
    values = {**VALUES, "resolve.map": {"*": web.address}}
    path = write(tmp_path, {name: free_port() for name in ("north", "east")}, values, 1)
    command = [sys.executable, "-m", "gossamer", "federation"]
    done = subprocess.run([*command, "run", str(path), *web.start_urls], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "ended: nothing left to visit" in done.stdout
    assert "bytes crossed per page visited" in done.stdout
    assert Sites(load(path)).statuses() == statuses(alone)
    again = subprocess.run([*command, "status", str(path)], capture_output=True, text=True, timeout=60)
    assert again.returncode == 0, again.stderr
    assert "north" in again.stdout
    made = subprocess.run([*command, "keys", str(path)], capture_output=True, text=True, timeout=60)
    assert "every site has its own" in made.stdout
    assert prepare(load(path)) == []


@pytest.mark.slow
def test_hosts_change_sites_again_and_again_while_all_crawl(web: RunningWeb, alone: Crawl, tmp_path: Path) -> None:
    """Where work is dear there is less and less of it; nothing is lost, or visited twice."""
    lines = len(web.log())
    values = {**VALUES, "crawl.width": 10, "resolve.map": {"*": web.address}, "polite.delay_s": 0.2}
    every: dict[str, Any] = {"partitioner": "region", "rebalance_hours": 1 / 3600, "rebalance_mb": 0.002}
    with federation(tmp_path, ["north", "east"], values, **every) as sites:
        path = sites.federation.path
        prices = {"north": 900, "east": 1}
        for site, price in prices.items():
            more = f"[sites.{site}]\negress_per_gb = 0.1\ncpu_per_hour = {price}\n"
            path.write_text(path.read_text().replace(f"[sites.{site}]\n", more))
        succeed("federation", "run", path, *web.start_urls, "--quiet", at=tmp_path)
        assert path.with_name("sites.rebalance.err").read_text().count(" gives ") > 1
        hosts = np.unique(host_of_key(page_keys(list(statuses(alone)))))
        by_name = Ring({"north": 1.0, "east": 1.0}).of_keys(hosts)  # where all of them began
        assert (sites.owners("north").of_keys(hosts) != by_name).any()
        assert sites.statuses() == statuses(alone)
        sites.check_owned_once()
        pages = [url for url in web.log().urls[lines:] if not url.endswith("/robots.txt")]
        assert len(set(pages)) == len(pages)
        assert sites.missing_cash() == 0
        # The new site reads robots.txt again, which names the sitemap again.
        found, wanted = sites.hits(), hits(alone)
        assert found.keys() == wanted.keys()
        assert {url for url in found if found[url] != wanted[url]} <= {url for url in found if "sitemap" in url}


def test_a_terminal_that_is_closed_ends_all_sites_cleanly(web: RunningWeb, tmp_path: Path) -> None:
    values = {**VALUES, "resolve.map": {"*": web.address}, "polite.delay_s": 0.5}
    path = write(tmp_path, {name: free_port() for name in ("north", "east")}, values, 1)
    with running("federation", "run", path, *web.start_urls, "--quiet", at=tmp_path) as process:
        sites = Sites(load(path))
        process.wait_until(lambda: sites.visits("north") and sites.visits("east"), "visits of both")
        process.signal(signal.SIGHUP)
        code, said, err = process.finish()
    assert (code, err) == (0, "")
    assert "ended: stopped" in said
    states = [at.state for site in ("north", "east") for at in snapshots(Directory(tmp_path / site)).values()]
    assert len(states) == 2
    assert all(state.clean for state in states)


def test_a_ring_cannot_be_rebalanced_and_only_lost_sites_are_adopted(tmp_path: Path) -> None:
    path = write(tmp_path, {"north": 1, "east": 2}, {}, 1)
    with pytest.raises(ConfigError, match="partitioner ring"):
        propose(load(path))
    with pytest.raises(ConfigError, match="weight = 0"):
        adopt(load(path), "east")
    with pytest.raises(ConfigError, match="no site west"):
        adopt(load(path), "west")
    path.write_text(path.read_text().replace("[sites.east]", "[sites.east]\nweight = 0"))
    with pytest.raises(ConfigError, match="replica"):
        adopt(load(path), "east")

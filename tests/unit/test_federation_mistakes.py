"""The mistakes that users of federations make: each is refused with a way out, before anything is begun."""

import json
import os
import sys
from pathlib import Path
from typing import cast

import pytest
from sample_archive import Sample, sample

from gossamer.archive.chain import Chain
from gossamer.archive.store import Directory
from gossamer.cli.app import main
from gossamer.cluster.adoption import adopt
from gossamer.cluster.changing import with_site
from gossamer.cluster.federation import SiteRun, prepare
from gossamer.cluster.federation_file import load, parsed
from gossamer.cluster.rebalance import propose
from gossamer.cluster.replicas import replica_of
from gossamer.config import Config
from gossamer.errors import ConfigError, GossamerError, SiteError
from gossamer.frontier.scoring import open_scores
from gossamer.frontier.strategies import ORDERS

CONTACT = '[fetch]\ncontact = "me@gossamer-tests.org"\n'


def written(folder: Path, *sites: str, more: str = CONTACT) -> Path:
    """The file of a federation; `sites` may have further lines after their names."""
    tables = [site.partition("\n") for site in sites]
    text = [f'[sites.{name}]\naddress = "127.0.0.1:{n}"\n{lines}\n' for n, (name, _, lines) in enumerate(tables, 4000)]
    path = folder / "f.toml"
    path.write_text("".join(text) + more)
    return path


def refused(path: Path, site: str) -> str:
    with pytest.raises(GossamerError) as caught:
        SiteRun(path, site, ["https://example.org/"]).run(lambda _: None)
    return str(caught.value)


def test_nobody_crawls_without_a_contact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "paris", "tokyo", more="[federation]\nreplicas = 2\n")
    words = 'say who is crawling, so that the people whose servers you visit can reach you: contact = "https://'
    assert words in refused(path, "tokyo")
    assert main(["federation", "run", str(path), "https://example.org/"]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "under [fetch] of f.toml" in said
    Sample(replica_of(tmp_path / "paris", "tokyo"), "tokyo_a0").commit()
    lost = load(written(tmp_path, "paris", "tokyo\nweight = 0", more="[federation]\nreplicas = 2\n"))
    with pytest.raises(ConfigError, match="say who is crawling"):
        adopt(lost, "tokyo")
    assert not (tmp_path / "tokyo").exists()
    assert not list(tmp_path.glob("*.err"))


def test_orders_that_rank_by_all_links_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "paris", "tokyo", more=CONTACT + '[crawl]\norder = "partial-pagerank"\n')
    words = 'order "partial-pagerank" ranks by the links of the whole crawl, which none of several agents has'
    assert words in refused(path, "paris")
    assert [each.name for each in tmp_path.iterdir()] == ["f.toml"]


def test_a_federation_renders_no_pages(tmp_path: Path) -> None:
    """Each of its sites fetched scripts from hosts of others, with delays of its own."""
    with pytest.raises(ConfigError, match="another site, which alone can be polite"):
        load(written(tmp_path, "paris", "tokyo", more=CONTACT + '[crawl]\nrender = ["auto"]\n'))


@pytest.mark.parametrize("more", ["", "gone = true", "weight = 0.0"])
def test_so_is_a_second_site_that_joins_a_crawl_with_such_an_order(tmp_path: Path, more: str) -> None:
    """Also if it has left since: the others do not have the links of its pages."""
    one = written(tmp_path, "paris", more=CONTACT + '[crawl]\norder = "partial-pagerank"\n')
    load(one).check()
    text = with_site(one.read_text(), "tokyo", "127.0.0.1:4901")
    with pytest.raises(ConfigError, match="which none of several agents has"):
        parsed(one, text.replace(':4901"', f':4901"\n{more}')).check()


def test_links_of_another_agent_are_missed_after_it_has_left(tmp_path: Path) -> None:
    Sample(tmp_path, "a0").commit()
    store, order = Directory(tmp_path), ORDERS["batch-pagerank"]
    assert open_scores(order, Config(), store, cast(Chain, Chain.read(store, "a0"))) is not None
    Sample(tmp_path, "a1").commit()
    with pytest.raises(ConfigError, match="part of them are those of a1, which has crawled here too"):
        open_scores(order, Config(), store, cast(Chain, Chain.read(store, "a0")))


def test_a_certificate_that_a_crash_left_empty_is_made_again(tmp_path: Path) -> None:
    federation = load(written(tmp_path, "paris", "tokyo"))
    assert prepare(federation) == ["paris", "tokyo", "operator"]
    (federation.keys / "tokyo.pem").write_bytes(b"")
    assert prepare(federation) == ["tokyo"]
    assert prepare(federation) == []
    assert not list(federation.keys.glob("*.new")) + list(federation.keys.glob(".*"))


def test_a_site_that_is_not_in_the_file(tmp_path: Path) -> None:
    assert refused(written(tmp_path, "paris", "tokyo"), "pariss") == "f.toml has no site pariss; it has paris, tokyo"


def test_sites_that_are_elsewhere_are_named_and_the_others_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "paris", "tokyo", "lima\ngone = true")
    question = ["query", str(path), "SELECT count(*) AS pages FROM pages", "--json"]
    assert main(question) == 1
    said = capsys.readouterr().err
    assert "no site of" in said
    assert "federation run" not in said
    sample(tmp_path / "tokyo")
    assert main(question) == 3
    answer, note = capsys.readouterr()
    assert json.loads(answer) == [{"pages": 4}]
    start = f"gossamer: without paris: {tmp_path / 'paris'} holds no crawl, and there is no certificate in"
    assert note.startswith(start)
    assert note.count("\n") == 1
    placed = written(tmp_path, "paris", "tokyo", more='[federation]\npartitioner = "fennel"\n')
    with pytest.raises(SiteError, match=r"not all sites of .* can be read:\n  paris: "):
        propose(load(placed))
    sample(tmp_path / "paris")
    assert main(question) == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [("query", "{}", "SELECT 1"), ("status", "{}"), ("add", "{}", "http://a.test/"), ("export", "{}", "--urls", "-")],
)
def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    path = tmp_path / "nosuch.toml"
    assert main([word.format(path) for word in command]) == 1
    assert capsys.readouterr().err == f"gossamer: there is no file {path}\n"


@pytest.mark.parametrize("command", [("add", "http://a.test/"), ("agents",), ("extract", "shop:product")])
def test_where_one_site_is_wanted_the_file_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    path = written(tmp_path, "paris\ndirectory = 'here/p'", "tokyo", "lima\ngone = true")
    name, *more = command
    assert main([name, str(path), *more]) == 2
    said = capsys.readouterr().err
    assert "is the file of a federation: write the directory of one of its sites" in said
    assert f"({tmp_path / 'here/p'}, {tmp_path / 'tokyo'})" in said


def test_a_site_that_runs_already(tmp_path: Path) -> None:
    path = written(tmp_path, "paris", "tokyo")
    prepare(load(path))
    with Directory.prepare(tmp_path / "tokyo", 0.0).lock("tokyo_a0"):
        said = refused(path, "tokyo")
    assert said.startswith(f"site tokyo runs already: process {os.getpid()} crawls in {tmp_path / 'tokyo'}; stop that")
    assert "--dir" not in said


def test_without_cryptography_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delitem(sys.modules, "gossamer.cluster.certificates", raising=False)
    assert main(["federation", "keys", str(written(tmp_path, "paris", "tokyo"))]) == 2
    assert "pip install 'gossamer-crawler[federation]'" in capsys.readouterr().err
    assert not (tmp_path / "keys").exists()

"""What follows when the list of sites changes; and hosts that change sites in the map."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sample_archive import Sample

from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.cluster import federation as federated
from gossamer.cluster.federation import address_here, why_ended
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.site_list import Members, is_holding, of_file, to_carry_out, why_behind
from gossamer.errors import ConfigError
from gossamer.event_log import EventLog
from gossamer.frontier.pages import host_of_key
from gossamer.placement.hostmap import ENTRY, HostMap
from gossamer.placement.ring import Ring
from gossamer.sharing.exchange import news_parts
from gossamer.sharing.owners import Owners, SiteView
from gossamer.watch import sites as shown
from gossamer.web.url import page_keys

TWO = {"paris": "", "lima": ""}


def written(folder: Path, sites: dict[str, str], **shared: object) -> Federation:
    lines = ["[federation]", *(f"{name} = {value!r}" for name, value in shared.items())]
    for number, (name, more) in enumerate(sites.items()):
        lines += [f"[sites.{name}]", f'address = "127.0.0.1:{4000 + number}"', more]
    path = folder / "sites.toml"
    path.write_text("\n".join(lines))
    return load(path)


def test_a_site_that_begins_goes_by_the_file(tmp_path: Path) -> None:
    found = to_carry_out(written(tmp_path, TWO), "paris", None, {})
    assert found == Members(1, {"paris": 1.0, "lima": 1.0}, "ring")


def test_lists_before_it_count_until_one_is_carried_out(tmp_path: Path) -> None:
    two, one = {"paris": 1.0, "lima": 1.0}, {"paris": 1.0}
    kept = Members(2, two, "ring", [one]).as_dict()
    later = written(tmp_path, {**TWO, "oslo": "weight = 2.0"}, version=3)
    three = {"paris": 1.0, "lima": 1.0, "oslo": 2.0}
    assert to_carry_out(later, "paris", kept, {"lima": 1, "oslo": 2}) == Members(3, three, "ring", [one, two])
    assert to_carry_out(later, "paris", kept, {"lima": 2, "oslo": 2}) == Members(3, three, "ring", [two])
    new = Members(2, two, "ring", None).as_dict()
    assert to_carry_out(later, "lima", new, {"paris": 1}).before is None, "nothing is surely ours"


def test_who_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    kept = Members(2, {"paris": 1.0, "lima": 1.0}, "ring", [{"paris": 1.0}]).as_dict()
    later = written(tmp_path, {"paris": "", "lima": "gone = true"}, version=3)
    found = to_carry_out(later, "paris", kept, {})
    assert found == Members(3, {"paris": 1.0, "lima": 0.0}, "ring", [{"paris": 1.0, "lima": 1.0}])


@pytest.mark.parametrize(
    ("sites", "shared", "words"),
    [
        ({"paris": "weight = 2.0", "lima": ""}, {}, "federation.version = 2"),
        ({"lima": "", "paris": ""}, {"version": 2}, "paris, lima"),
        ({"paris": ""}, {"version": 2}, "gone = true"),
        (TWO, {"partitioner": "fennel"}, "ring"),
    ],
)
def test_changes_that_nobody_can_carry_out(
    tmp_path: Path, sites: dict[str, str], shared: dict[str, object], words: str
) -> None:
    kept = of_file(written(tmp_path, TWO)).as_dict()
    with pytest.raises(ConfigError, match=words):
        to_carry_out(written(tmp_path, sites, **shared), "paris", kept, {})


def test_an_older_file_is_refused(tmp_path: Path) -> None:
    kept = of_file(written(tmp_path, TWO, version=3)).as_dict()
    with pytest.raises(ConfigError, match="older"):
        to_carry_out(written(tmp_path, TWO, version=2), "paris", kept, {})


def test_holding_ends_when_all_are_clean() -> None:
    assert not is_holding(1, ["lima"], {})
    assert is_holding(2, ["lima", "oslo"], {"lima": 2, "oslo": 1})
    assert not is_holding(2, ["lima", "oslo"], {"lima": 2, "oslo": 3})


def test_hosts_that_others_may_have_are_not_ours_yet() -> None:
    keys = page_keys([f"http://h{number}.test/" for number in range(300)])
    before, after = Ring({"paris": 1.0, "lima": 1.0}), Ring({"paris": 1.0, "lima": 0.0})
    place = SiteView("paris", "paris_a0", after, members=Members(2, {}, "ring"), before=[before])
    mine = before.of_keys(host_of_key(keys)) == 0
    owners = ("paris_a0",) * ZONES_IN_ALL
    assert Owners("paris_a0", range(ZONES_IN_ALL), owners, place).is_native(keys).all()
    assert (Owners("paris_a0", range(ZONES_IN_ALL), owners, place, holding=True).is_native(keys) == mine).all()
    newcomer = SiteView("paris", "paris_a0", after, members=Members(2, {}, "ring"))
    assert not Owners("paris_a0", range(ZONES_IN_ALL), owners, newcomer, holding=True).is_native(keys).any()


def entries(*rows: tuple[int, int, int]) -> np.ndarray:
    return np.array(list(rows), ENTRY)


def test_a_host_that_moved_is_where_it_moved_last() -> None:
    hosts = HostMap(Ring({"a": 1.0, "b": 1.0, "c": 1.0}))
    assert len(hosts.record(entries((5, 0, 0), (6, 1, 0)))) == 2
    assert not len(hosts.record(entries((5, 1, 0)))), "the first decision stands"
    moved = hosts.handed_over(np.array([5]), np.array([2]))
    assert moved.tolist() == [(5, 2, 1)]
    assert len(hosts.record(moved)) == 1
    assert not len(hosts.record(entries((5, 0, 0)))), "news that come late"
    assert hosts.of_keys(np.array([5, 6])).tolist() == [2, 1]
    assert hosts.entries().tolist() == [(5, 2, 1), (6, 1, 0)]
    both = HostMap(Ring({"a": 1.0, "b": 1.0, "c": 1.0}))
    both.record(entries((5, 2, 1), (5, 0, 0)))
    assert both.of_keys(np.array([5])).tolist() == [2], "in whatever order they come"


def test_hosts_of_a_site_that_is_gone_are_decided_again() -> None:
    ring = Ring({"a": 1.0, "b": 0.0})
    hosts = HostMap(ring, gone=["b"])
    hosts.record(entries((5, 1, 0)))
    assert not hosts.is_settled(np.array([5])).any()
    assert hosts.of_keys(np.array([5])).tolist() == [0]
    hosts.record(hosts.decided(np.array([5]), np.array([0])))
    assert hosts.is_settled(np.array([5])).all()
    assert not hosts.is_handed_over(np.array([5])).any(), "nothing comes from there"


def test_turns_rise_and_say_whether_a_host_was_handed_over() -> None:
    hosts, key = HostMap(Ring({"a": 1.0, "b": 1.0, "c": 1.0})), np.array([5])
    turns = []
    for change in (
        hosts.decided,
        hosts.handed_over,
        hosts.handed_over,
        hosts.decided,
        hosts.decided,
        hosts.handed_over,
    ):
        assert len(hosts.record(change(key, np.array([len(turns) % 3])))) == 1
        assert hosts.is_handed_over(key).all() == (change == hosts.handed_over)
        turns.append(int(hosts.entries()["turn"][0]))
    assert turns == [0, 1, 3, 4, 6, 7]


def test_which_hosts_were_lost_with_a_site_that_is_gone() -> None:
    """Also if it came later than others: the list before it does not know it."""
    hosts = np.arange(0, 1 << 24, 50_000, dtype=np.uint32)
    first, second = Ring({"a": 1.0, "b": 1.0}), Ring({"a": 1.0, "b": 1.0, "c": 1.0})
    now = Ring({"a": 1.0, "b": 1.0, "c": 0.0})
    lost = SiteView("a", "a_a0", now, gone=["c"], before=[first, second]).was_lost(hosts)
    assert 0 < lost.sum() < len(hosts)
    assert lost.tolist() == (second.of_keys(hosts) == 2).tolist()
    assert not SiteView("a", "a_a0", now, gone=["c"], before=[now]).was_lost(hosts).any(), "it had given them away"


def test_news_that_are_too_long_are_said_in_pieces() -> None:
    said = {"scope": [f"host-{number}.example" for number in range(500)], "pool": 7}
    made = [json.loads(data) for data in news_parts(said, 2_000)]
    assert len(made) > 5
    assert [host for each in made for host in each["scope"]] == said["scope"]
    assert sum(each.get("pool", 0) for each in made) == 7
    moves = {f"host-{number}.example": "east" for number in range(500)}
    joined: dict[str, str] = {}
    for data in news_parts({"moves": moves}, 2_000):
        assert len(data) < 2_000
        joined |= json.loads(data)["moves"]
    assert joined == moves


def test_why_a_federation_ended(tmp_path: Path) -> None:
    federation = written(tmp_path, TWO)
    for site, reasons in {"paris": ["stopped", "limit of 5 pages"], "lima": ["limit of 5 pages"]}.items():
        with EventLog(federation.directory(site) / "log" / "crawl.jsonl") as log:
            for why in reasons:
                log.event("end", visits=5, why=why)
    assert why_ended(federation, ["paris", "lima"]) == "limit of 5 pages"
    with EventLog(federation.directory("lima") / "log" / "crawl.jsonl") as log:
        log.event("end", visits=5, why="nothing left to visit")
    assert why_ended(federation, ["paris", "lima"]) == "paris: limit of 5 pages; lima: nothing left to visit"


def test_a_site_on_this_machine_is_asked_where_it_listens(tmp_path: Path) -> None:
    federation = written(tmp_path, {"paris": "", "lima": 'listen = "0.0.0.0:4222"', "oslo": 'listen = "10.0.0.1:4222"'})
    found = [address_here(federation, site) for site in federation.sites]
    assert found == ["127.0.0.1:4000", "127.0.0.1:4222", "10.0.0.1:4222"]


def test_a_site_that_does_not_go_by_the_file_is_behind(tmp_path: Path) -> None:
    kept = of_file(written(tmp_path, TWO)).as_dict()
    assert not why_behind(written(tmp_path, TWO), "paris", None, is_running=True)
    assert not why_behind(written(tmp_path, TWO), "paris", kept, is_running=True)
    gone = {**TWO, "lima": "gone = true"}
    assert "write federation.version = 2" in why_behind(written(tmp_path, gone), "paris", kept, is_running=False)
    later = written(tmp_path, gone, version=2)
    assert not why_behind(later, "paris", kept, is_running=False), "it will take it when it is started"
    assert "sites.toml is version 2 here" in why_behind(later, "paris", kept, is_running=True)


def test_status_says_who_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federated, "_CONNECT_S", 0.1)  # nobody is there
    Sample(tmp_path / "paris", "paris_a0").commit(members=of_file(written(tmp_path, TWO)))
    changed = written(tmp_path, {**TWO, "lima": "gone = true"})
    federated.prepare(changed)
    said = io.StringIO()
    Console(file=said, width=300).print(shown.render(federated.status(changed)))
    words = "paris: still version 1 of the list of sites: the sites of sites.toml are not what they were"
    assert words in said.getvalue()

"""Wider scope, depth or patterns in a later run: what was refused for that reason is followed, as if from the start."""

from pathlib import Path
from typing import Any

import pytest
from raw_server import Loopback
from scripted import Reply, Web, page, reply, robots, statuses, verdicts

from gossamer import Crawl
from gossamer.watch.status import status

HOSTS = ("a.test", "www.a.test", "b.test")


@pytest.fixture
def web(loopback: Loopback) -> Web:
    """Each host has a list, and articles /1 to /4; each leads to a PDF, to the next one and to that of other hosts."""
    replies: dict[str, Reply] = {}
    for host in HOSTS:
        replies[f"{host}/"] = page("/1", "/1.pdf", "/2.pdf")
        for at in range(1, 5):
            others = [f"http://{other}/{at}" for other in HOSTS if other != host]
            replies[f"{host}/{at}"] = page(f"/{at + 1}", f"/{at}.pdf", *others)
        replies[host] = page()
    return Web(loopback, replies)


def look(crawl: Crawl) -> tuple[Any, ...]:
    depths = {row["url"]: row["depth"] for row in crawl.query("SELECT url, depth FROM pages")}
    hits = {row["url"]: row["hits"] for row in crawl.query("SELECT url, hits FROM targets")}
    return statuses(crawl), depths, verdicts(crawl), hits, status(crawl.directory)["refused_links"]


WIDER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"crawl__scope": "host"}, {"crawl__scope": "domain"}),
    ({"crawl__scope": "host"}, {"crawl__scope": "any"}),
    ({"crawl__exclude": ["*.pdf"]}, {}),
    ({"crawl__exclude": ["*.pdf"], "crawl__scope": "host"}, {}),
    ({"crawl__include": ["re:/[12]"]}, {"crawl__include": ["re:/[123]"]}),
    ({"crawl__scope": "host", "limits__depth": 2}, {"crawl__scope": "any", "limits__depth": 4}),
]


@pytest.mark.parametrize("at_once", [500_000, 3])
@pytest.mark.parametrize(("before", "after"), WIDER)
def test_as_if_it_had_always_been_so(
    web: Web,
    tmp_path: Path,
    before: dict[str, Any],
    after: dict[str, Any],
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gossamer.crawl.refusals._AT_ONCE", at_once)
    narrow = web.crawl(tmp_path / "c", ["http://a.test/"], **before)
    known = len(statuses(narrow))
    wide = Crawl(tmp_path / "c", [], web.config(**after))
    stats = wide.run()
    whole = web.crawl(tmp_path / "whole", ["http://a.test/"], **after)
    assert len(statuses(whole)) > known
    assert look(wide) == look(whole)
    assert any("links that were refused before are followed now" in note for note in stats.notes)
    again = Crawl(tmp_path / "c", [], web.config(**after)).run()
    assert (again.run_visits, again.notes) == (0, ()), "one pass is enough"


def test_several_steps(web: Web, tmp_path: Path) -> None:
    """What is too deep when the scope widens is followed when the depth does."""
    steps: list[dict[str, Any]] = [
        {"crawl__scope": "host", "limits__depth": 1},
        {"crawl__scope": "any", "limits__depth": 1},
        {"crawl__scope": "any", "limits__depth": 2},
        {"crawl__scope": "domain", "limits__depth": 2},
        {"crawl__scope": "any", "limits__depth": 5},
    ]
    for step in steps:
        crawl = web.crawl(tmp_path / "c", ["http://a.test/"], **step)
    whole = web.crawl(tmp_path / "whole", ["http://a.test/"], **steps[-1])
    assert statuses(crawl) == statuses(whole)


def test_other_rules_of_a_seed(web: Web, tmp_path: Path) -> None:
    def hosts(crawl: Crawl) -> set[str]:
        return {url.removeprefix("http://").partition("/")[0] for url in statuses(crawl)}

    crawl = web.crawl(tmp_path, ["http://a.test/ scope=host exclude=*.pdf"], crawl__scope="host")
    assert hosts(crawl) == {"a.test", "www.a.test"}
    assert "http://a.test/1.pdf" not in statuses(crawl)
    crawl = web.crawl(tmp_path, ["http://a.test/ scope=any exclude="], crawl__scope="host")
    assert hosts(crawl) == {"a.test", "www.a.test", "b.test"}
    assert {"http://a.test/1.pdf", "http://b.test/4"} <= set(statuses(crawl))
    assert "http://b.test/5" not in statuses(crawl), "only links of the seed's website lead there"


def test_a_sitemap_does_not_come_to_speak_for_others(loopback: Loopback, tmp_path: Path) -> None:
    urls = "".join(f"<url><loc>http://{host}/x</loc></url>" for host in HOSTS)
    replies: dict[str, Reply] = {
        "a.test/robots.txt": robots("Sitemap: http://a.test/sitemap.xml\n"),
        "a.test/sitemap.xml": reply(f"<urlset>{urls}</urlset>".encode(), mime="application/xml"),
        "/x": page(),
        "/": page(),
    }
    web = Web(loopback, replies)
    web.crawl(tmp_path, ["http://a.test/"], crawl__scope="host")
    crawl = web.crawl(tmp_path, [], crawl__scope="any")
    assert set(statuses(crawl)) == {"http://a.test/", "http://a.test/x", "http://a.test/sitemap.xml"}


def test_several_agents(web: Web, tmp_path: Path) -> None:
    web.crawl(tmp_path / "c", ["http://a.test/"], crawl__scope="host", site__agents=2)
    crawl = web.crawl(tmp_path / "c", [], crawl__scope="any", site__agents=2)
    whole = web.crawl(tmp_path / "whole", ["http://a.test/"], crawl__scope="any")
    assert statuses(crawl) == statuses(whole)

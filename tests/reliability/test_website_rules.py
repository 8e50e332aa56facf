"""Seeds with rules of their own, in real crawls: each website by its own rules, whoever mentions its pages."""

import json
from pathlib import Path

import pytest
from commands import answer, complaint, succeed
from raw_server import Loopback
from scripted import Reply, Web, moved, page, reply, robots, verdicts

from gossamer import Crawl, Seed
from gossamer.archive.chain import snapshots
from gossamer.archive.store import Directory

DEEP = 6
SITES = ("a.test", "www.a.test", "blog.a.test", "b.test", "c.test")


def chain(host: str, *more: str) -> dict[str, Reply]:
    """Pages /0 to /5 of a host, each of which leads to the next, and to the same page of all other hosts."""
    found: dict[str, Reply] = {}
    for at in range(DEEP):
        others = [f"http://{other}/{at}" for other in SITES if other != host]
        found[f"{host}/{at}"] = page(f"/{at + 1}", *others, *(more if at == 0 else ()))
    return found


@pytest.fixture
def web(loopback: Loopback) -> Web:
    return Web(loopback, {name: reply for host in SITES for name, reply in chain(host).items()})


def of(crawl: Crawl, host: str) -> list[str]:
    """The paths of a host that were fetched."""
    sql = f"SELECT url FROM pages WHERE status = 'fetched' AND host = '{host}' ORDER BY url"
    return [row["url"].partition(host)[2] for row in crawl.query(sql)]


def test_every_website_goes_by_the_rules_of_its_seed(web: Web, tmp_path: Path) -> None:
    seeds = ["http://b.test/0 depth=1 scope=host", "http://c.test/0 depth=3 scope=host", "http://blog.a.test/0"]
    crawl = web.crawl(tmp_path, seeds, crawl__scope="domain", limits__depth=4)
    assert of(crawl, "b.test") == ["/0", "/1"]
    assert of(crawl, "c.test") == ["/0", "/1", "/2", "/3"], "links of b.test and of a.test lead there, and do not count"
    assert of(crawl, "blog.a.test") == ["/0", "/1", "/2", "/3", "/4"]
    assert of(crawl, "a.test") == ["/0", "/1", "/2", "/3"], "the same domain as a seed without rules, one link further"
    sql = "SELECT host, max(depth) AS deepest FROM pages GROUP BY host"
    deepest = {row["host"]: row["deepest"] for row in crawl.query(sql)}
    assert (deepest["b.test"], deepest["c.test"]) == (1, 3)


def test_a_website_by_host_is_the_host_with_and_without_www(loopback: Loopback, tmp_path: Path) -> None:
    replies = {"a.test/": moved("http://www.a.test/"), "www.a.test/": page("/x", "http://blog.a.test/"), "/x": page()}
    web = Web(loopback, replies)
    crawl = web.crawl(tmp_path, ["http://a.test/ scope=host"], crawl__scope="domain")
    assert of(crawl, "www.a.test") == ["/", "/x"]
    assert verdicts(crawl)["http://blog.a.test/"] == "scope"


def test_a_website_by_domain_and_a_host_of_it(web: Web, tmp_path: Path) -> None:
    seeds = ["http://www.a.test/0 depth=2 scope=domain", "http://blog.a.test/0 depth=0 scope=host"]
    crawl = web.crawl(tmp_path, seeds, crawl__scope="any")
    assert of(crawl, "www.a.test") == ["/0", "/1", "/2"]
    assert of(crawl, "a.test") == ["/0", "/1"]
    assert of(crawl, "blog.a.test") == ["/0"], "the host's own rules hold on it"
    assert of(crawl, "b.test") == []


def test_links_leave_a_website_with_the_scope_any(web: Web, tmp_path: Path) -> None:
    seeds = ["http://b.test/0 depth=1 scope=any", "http://c.test/5 depth=0 scope=host"]
    crawl = web.crawl(tmp_path, seeds, crawl__scope="host")
    assert of(crawl, "b.test") == ["/0", "/1"]
    assert of(crawl, "a.test") == ["/0"], "as deep as the seed allows, and no link goes on from there"
    assert of(crawl, "c.test") == ["/5"], "has rules of its own, and leads nowhere"


def test_pages_of_a_website_are_counted_together(loopback: Loopback, tmp_path: Path) -> None:
    many = [f"/{at}" for at in range(40)] + [f"http://www.a.test/{at}" for at in range(40)]
    web = Web(loopback, {"a.test/": page(*many), "b.test/": page(*many[:40]), "a.test": page(), "b.test": page()})
    web.replies |= {"www.a.test": page()}
    seeds = ["http://a.test/ pages=10 scope=host", "http://b.test/ pages=0"]
    crawl = web.crawl(tmp_path, seeds, limits__pages_per_host=5)
    assert len(of(crawl, "a.test")) + len(of(crawl, "www.a.test")) == 10
    assert len(of(crawl, "b.test")) == 41, "0 is no limit"


def test_patterns_of_a_website(loopback: Loopback, tmp_path: Path) -> None:
    links = ["/2024/x", "/2024/x?sort=1", "/24/x", "/y.pdf"]
    web = Web(loopback, {"a.test/": page(*links), "b.test/": page(*links), "a.test": page(), "b.test": page()})
    seeds = ["http://a.test/ include=re:/[0-9]{4}/ exclude=re:[?&]sort= exclude=*.zip", "http://b.test/"]
    crawl = web.crawl(tmp_path, seeds, crawl__exclude=["*.pdf"])
    assert of(crawl, "a.test") == ["/", "/2024/x"]
    assert of(crawl, "b.test") == ["/", "/2024/x", "/2024/x?sort=1", "/24/x"]
    assert verdicts(crawl)["http://a.test/24/x"] == "pattern"


def test_a_sitemap_elsewhere_speaks_for_a_website(loopback: Loopback, tmp_path: Path) -> None:
    urls = "".join(f"<url><loc>http://a.test/{at}</loc></url>" for at in range(3))
    sitemap = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
    replies: dict[str, Reply] = {
        "a.test/robots.txt": robots("Sitemap: http://cdn.test/a.xml\n"),
        "cdn.test/a.xml": reply(sitemap.encode(), mime="application/xml"),
        "a.test": page(),
    }
    web = Web(loopback, replies)
    crawl = web.crawl(tmp_path / "1", ["http://a.test/ scope=host"], crawl__scope="domain")
    assert of(crawl, "a.test") == ["/", "/0", "/1", "/2"]
    shallow = web.crawl(tmp_path / "2", ["http://a.test/ scope=host depth=0"], crawl__scope="domain")
    assert of(shallow, "a.test") == ["/"]


def test_rules_outlive_the_run_and_later_ones_hold(web: Web, tmp_path: Path) -> None:
    crawl = web.crawl(tmp_path, ["http://b.test/0 depth=1 scope=host"], crawl__pages=1)
    assert of(crawl, "b.test") == ["/0"]
    web.crawl(tmp_path, [])
    assert of(crawl, "b.test") == ["/0", "/1"]
    assert crawl.add([Seed("http://b.test/0", depth=3, scope="host")]) == 1
    web.crawl(tmp_path, [])
    assert of(crawl, "b.test") == ["/0", "/1", "/2", "/3"], "what was refused as too deep is judged again"
    web.crawl(tmp_path, ["http://b.test/0 depth=4 scope=host"], limits__depth=2)
    assert of(crawl, "b.test") == ["/0", "/1", "/2", "/3", "/4"]


@pytest.mark.parametrize("given", ["arguments", "file", "table"])
def test_all_ways_to_give_rules(web: Web, tmp_path: Path, given: str) -> None:
    url, options = "http://b.test/0", ["depth=1", "scope=host", "pages=9", "exclude=*.pdf"]
    (tmp_path / "seeds.txt").write_text(f"# mine\n{url}   {' '.join(options)}\nhttp://c.test/5\n")
    table = '[[seeds]]\nurl = "http://b.test/0"\ndepth = 1\nscope = "host"\npages = 9\nexclude = ["*.pdf"]\n'
    (tmp_path / "c.toml").write_text(f'{table}[crawl]\nseeds = ["http://c.test/5"]\n')
    seeds = {
        "arguments": [url, *options, "http://c.test/5"],
        "file": ["seeds.txt"],
        "table": ["--config", "c.toml"],
    }
    quick = ("--testweb", web.address, "--delay", "0", "--set", "crawl.patience_s=2", "--quiet", "--scope", "host")
    succeed("crawl", *seeds[given], *quick, at=tmp_path)
    rows = answer(
        "query", "crawl", "SELECT url FROM pages WHERE status = 'fetched' ORDER BY url", "--json", at=tmp_path
    )
    assert [row["url"] for row in rows] == ["http://b.test/0", "http://b.test/1", "http://c.test/5"]


def test_mistakes_name_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("http://a.test/\nhttp://b.test/ dept=1\n")
    said = complaint("crawl", "seeds.txt", at=tmp_path)
    assert "seeds.txt: 'http://b.test/ dept=1': dept is no option of a seed; there are scope, depth, pages" in said
    assert "depth must be a whole number, not 'x'" in complaint("crawl", "http://a.test/", "depth=x", at=tmp_path)
    assert "scope must be one of host, domain, any" in complaint("crawl", "http://a.test/ scope=all", at=tmp_path)
    assert not (tmp_path / "crawl").exists()


@pytest.mark.parametrize("seeds", ["arguments", "file"])
def test_rules_reach_all_agents_of_a_site(web: Web, tmp_path: Path, seeds: str) -> None:
    lines = ["http://b.test/0 depth=1 scope=host", "http://www.a.test/0 depth=2 scope=domain", "http://c.test/0"]
    (tmp_path / "seeds.txt").write_text("\n".join(lines) + "\n")
    given = lines if seeds == "arguments" else [str(tmp_path / "seeds.txt")]
    values = {"site__agents": 3, "crawl__scope": "host", "limits__depth": 3, "crawl__round_s": 1.0}
    crawl = web.crawl(tmp_path / "c", given, **values)
    found = {host: of(crawl, host) for host in SITES}
    assert found["b.test"] == ["/0", "/1"]
    assert found["www.a.test"] == ["/0", "/1", "/2"]
    assert found["a.test"] == found["blog.a.test"] == ["/0", "/1"]
    assert found["c.test"] == ["/0", "/1", "/2", "/3"]


def test_rules_are_handed_in_before_their_seeds(web: Web, tmp_path: Path) -> None:
    crawl = web.crawl(tmp_path, ["http://b.test/0 depth=1 scope=host"])
    (at,) = snapshots(Directory(tmp_path)).values()
    (name,) = at.files["scope"]
    assert json.loads((tmp_path / name).read_text())["depth"] == 1
    assert of(crawl, "b.test") == ["/0", "/1"]

"""Seeds with rules of their own, in real crawls: each website by its own rules, whoever mentions its pages."""

import json
import ssl
import subprocess
from pathlib import Path

import pytest
import tools
from commands import answer, complaint, succeed
from raw_server import Loopback
from rich.console import Console
from scripted import Reply, Web, moved, page, reply, robots, verdicts

from gossamer import Crawl, Seed
from gossamer.archive.chain import snapshots
from gossamer.archive.store import Directory
from gossamer.crawl.stats import Stats
from gossamer.watch.progress import summary
from gossamer.watch.status import render, status

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


# What was left out is said


def test_links_not_followed_are_counted_by_the_setting_that_decides(loopback: Loopback, tmp_path: Path) -> None:
    links = ["/x.pdf", "/y.pdf", "http://b.test/", "http://c.test/", "http://d.test/", "http://a.test:25/", "/deep/1"]
    web = Web(loopback, {"a.test/": page(*links), "a.test/deep/1": page("/deep/2"), "a.test": page()})
    web.replies |= {"e.test/": page("/1", "/2", "/3"), "e.test": page()}
    seeds = ["http://a.test/", "http://e.test/ pages=2"]
    crawl = Crawl(tmp_path, seeds, web.config(crawl__scope="host", crawl__exclude=["*.pdf"], limits__depth=1))
    stats = crawl.run()
    wanted = {"crawl.scope": 3, "crawl.include/exclude": 2, "seeds.pages": 2, "limits.depth": 1, "port": 1}
    assert stats.refused == status(tmp_path)["refused_links"] == wanted
    console = Console(width=200, record=True)
    for shown in (render(status(tmp_path)), summary(stats, {})):
        console.print(shown)
        text = console.export_text()
        assert "scope 3, include/exclude 2, pages 2, depth 1, port 1" in text
        assert "limits.depth: with a greater one the same command follows them" in text


def first_note(crawl: Crawl) -> str:
    """What is said first. The crawl is stopped then, if it still runs."""
    notes: list[str] = []

    def look(stats: Stats) -> None:
        if stats.notes and not stats.ended:
            notes.extend(stats.notes)
            crawl.stop()

    stats = crawl.run(look)
    return (notes or [*stats.notes, ""])[0]


PATIENT = {"crawl__patience_s": 200.0, "fetch__retry_s": 60.0, "polite__backoff_s": 60.0}
TROUBLE: dict[str, Reply] = {
    "gone.test/": reply(b"", 404),
    "denied.test/robots.txt": robots("User-agent: *\nDisallow: /\n"),
    "busy.test/": reply(b"", 503),
    "robots.test/robots.txt": reply(b"", 500),
    "a.test": page("http://b.test/missing"),
}


@pytest.mark.parametrize(
    ("seed", "said"),
    [
        ("http://gone.test/", "the seed http://gone.test/ could not be fetched (gone: HTTP 404)"),
        ("http://denied.test/", "the seed http://denied.test/ could not be fetched (denied"),
        ("http://busy.test/", "the seed http://busy.test/ could not be fetched (throttled: HTTP 503); it is"),
        ("http://robots.test/", "the seed http://robots.test/ could not be fetched (robots unreachable"),
        ("http://nowhere.test/", "the seed http://nowhere.test/ could not be fetched (connect failed"),
    ],
)
def test_the_first_failure_of_a_seed_is_told_at_once(loopback: Loopback, tmp_path: Path, seed: str, said: str) -> None:
    web = Web(loopback, TROUBLE)
    names = {"nowhere.test": "127.0.0.1:1", "*": web.address}
    found = first_note(Crawl(tmp_path, [seed, "http://a.test/"], web.config(resolve__map=names, **PATIENT)))
    assert found.startswith(said)
    assert found.endswith("; it is tried again") is ("gone" not in seed and "denied" not in seed)


def test_pages_that_are_no_seeds_are_not_told(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {"a.test": page("http://b.test/missing", "/x")})
    assert first_note(Crawl(tmp_path, ["http://a.test/"], web.config())) == ""


def test_a_certificate_that_nobody_trusts_is_told_at_once(loopback: Loopback, tmp_path: Path) -> None:
    openssl = tools.need("openssl")
    pem, key = tmp_path / "a.pem", tmp_path / "a.key"
    command = f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=a.test"
    subprocess.run([*command.split(), "-keyout", str(key), "-out", str(pem)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    web = Web(loopback, TROUBLE, wrap=lambda connection: context.wrap_socket(connection, server_side=True))
    found = first_note(Crawl(tmp_path / "c", ["https://a.test/"], web.config(**PATIENT)))
    assert found.startswith("the seed https://a.test/ could not be fetched (tls failed: ")


def test_rules_that_take_the_place_of_others_are_told(web: Web, tmp_path: Path) -> None:
    seeds = ["http://b.test/0 depth=1 scope=host", "http://www.b.test/ depth=2 scope=host"]
    stats = Crawl(tmp_path, seeds, web.config()).run()
    assert "b.test has other rules from now on: scope=host depth=2 (before: scope=host depth=1)" in stats.notes


def test_a_line_with_a_mistake_that_comes_later_is_told(web: Web, tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("http://b.test/0 depth=1 scope=host\n")
    assert Crawl(tmp_path / "c", [str(file)], web.config()).run().notes == ()
    with file.open("a") as more:
        more.write("http://c.test/0 dept=1\n")
    stats = Crawl(tmp_path / "c", [], web.config()).run()
    assert "dept is no option of a seed" in stats.notes[0]
    assert stats.refused_seeds == 1


def test_several_agents_tell_it_too(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, TROUBLE)
    crawl = Crawl(tmp_path, ["http://gone.test/", "http://a.test/"], web.config(site__agents=2))
    assert any(note.startswith("the seed http://gone.test/ could not be fetched (gone") for note in crawl.run().notes)

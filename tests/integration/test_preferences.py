"""A web that says no in every dialect: a crawl for ai-train stores nothing of it, and says why for each page."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from raw_server import Exchange, Loopback, RawServer
from warcio.archiveiterator import ArchiveIterator

from gossamer import Config, Crawl
from gossamer.archive.export import export_urls
from gossamer.archive.export_text import export_text
from gossamer.cli.app import main
from gossamer.crawl.stats import Stats

HTML = b"Content-Type: text/html\r\n"
SECRET = "painstakingly written words"
ROBOTS = {
    "signal": "User-agent: *\nContent-Signal: search=yes, ai-train=no\n",
    "usage": "User-agent: *\nContent-Usage: / train-ai=n\nContent-Usage: /ok train-ai=y\n",
}
TDM = json.dumps([{"location": "/mined", "tdm-reservation": 1}])
AI = "User-agent: *\nDisallow: /\n"
PAGES: dict[str, tuple[bytes, str]] = {  # by host and path: more header fields, and what is in the head of the page
    "free.test/": (b"", ""),
    "signal.test/": (b"", ""),
    "usage.test/": (b"", ""),
    "usage.test/ok": (b"", ""),
    "tdm.test/": (b"", ""),
    "tdm.test/mined": (b"", ""),
    "ai.test/": (b"", ""),
    "head.test/signal": (b"Content-Signal: ai-train=no\r\n", ""),
    "head.test/usage": (b"Content-Usage: train-ai=n\r\n", ""),
    "head.test/noai": (b"X-Robots-Tag: noai\r\n", ""),
    "head.test/image": (b"Content-Type: image/png\r\nX-Robots-Tag: noimageai\r\n", ""),
    "head.test/noarchive": (b"X-Robots-Tag: noarchive\r\n", ""),
    "head.test/tdm": (b"TDM-Reservation: 1\r\n", ""),
    "head.test/gone": (b"X-Robots-Tag: noai\r\n", ""),
    "meta.test/noai": (b"", "<meta name=robots content='index, noai'>"),
    "meta.test/noarchive": (b"", "<meta name=robots content=noarchive>"),
    "meta.test/tdm": (b"", "<meta name=tdm-reservation content=1>"),
    "meta.test/noindex": (b"", "<meta name=robots content=noindex>"),
}
FREE = {"http://free.test/", "http://usage.test/ok", "http://tdm.test/", "http://meta.test/noindex"}

LATER: list[bytes] = []  # what later.test has said so far


def web(exchange: Exchange) -> bool:
    name, path = exchange.host.partition(":")[0], exchange.path
    key = name.removesuffix(".test")
    if path == "/robots.txt":
        return exchange.send_page(ROBOTS.get(key, "").encode(), fields=b"Content-Type: text/plain\r\n")
    if (name, path) == ("tdm.test", "/.well-known/tdmrep.json"):
        return exchange.send_page(TDM.encode(), fields=b"Content-Type: application/json\r\n")
    if (name, path) == ("ai.test", "/ai.txt"):
        return exchange.send_page(AI.encode())
    if name == "framed.test" and "well-known" not in path:
        page = (
            b"<object data=/secret.html><a href=/missing>x</a>" if path == "/" else b"<meta name=robots content=noai>"
        )
        status = "404 Not Found" if path == "/missing" else "200 OK"
        return exchange.send_page(page + SECRET.encode(), status, HTML)
    if name == "later.test":
        LATER.append(b"" if not LATER else b"X-Robots-Tag: noai\r\n")
        return exchange.send_page(SECRET.encode(), fields=HTML + LATER[-1])
    if (name, path) == ("images.test", "/"):
        page = b"<meta name=robots content=noimageai><img src=a.png><link rel=stylesheet href=a.css>"
        return exchange.send_page(page, fields=HTML)
    if name + path not in PAGES:
        return exchange.send_page(b"no", "404 Not Found")
    fields, head = PAGES[name + path]
    links = "".join(f"<a href=http://{page}>x</a>" for page in PAGES) if name == "free.test" else "<a href=/lost>x</a>"
    body = f"<title>{SECRET}</title>{head}<p>{SECRET} of {name}{path}{links}".encode()
    kind = b"" if b"Content-Type" in fields else HTML
    return exchange.send_page(body, "404 Not Found" if path == "/gone" else "200 OK", kind + fields)


@pytest.fixture
def server() -> Iterator[RawServer]:
    running = RawServer(web)
    yield running
    running.close()


def crawled(server: RawServer, directory: Path, **values: Any) -> tuple[Crawl, Stats]:
    quick = {"crawl.scope": "any", "crawl.patience_s": 1.0, "polite.delay_s": 0.0}
    seeds = values.pop("seeds", ["http://free.test/"])
    given = {name.replace("__", "."): value for name, value in values.items()}
    config = Config().replace({**quick, "resolve.map": {"*": f"127.0.0.1:{server.port}"}, **given})
    found = Crawl(directory, seeds, config)
    return found, found.run()


def stored(directory: Path) -> dict[str, bytes]:
    """The bodies of all answers in the WARC files."""
    found = {}
    for path in sorted((directory / "warc").iterdir()):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_type == "response":
                    found[record.rec_headers.get_header("WARC-Target-URI")] = record.content_stream().read()
    return found


def rows(found: Crawl, sql: str) -> dict[str, dict[str, Any]]:
    return {row["url"]: row for row in found.query(sql)}


def test_nothing_is_stored_that_is_refused_and_each_refusal_names_its_line(server: RawServer, tmp_path: Path) -> None:
    found, stats = crawled(server, tmp_path / "c", crawl__purpose="ai-train")
    pages = rows(found, "SELECT * FROM pages")
    fetched = {url for url, page in pages.items() if page["status"] == "fetched"}
    assert fetched == {*FREE, "http://ai.test/"}, "ai.txt is another file than the one asked for"
    refused = {url: page["reason"] for url, page in pages.items() if page["outcome"] == "refused_use"}
    tdm = 'tdmrep.json: {"location": "/mined", "tdm-reservation": 1}'
    assert refused == {
        f"http://{page}": f"not for ai-train: {line}"
        for page, line in {
            "signal.test/": "robots.txt: Content-Signal: search=yes, ai-train=no",
            "usage.test/": "robots.txt: Content-Usage: / train-ai=n",
            "usage.test/lost": "robots.txt: Content-Usage: / train-ai=n",
            "tdm.test/mined": tdm,
            "head.test/signal": "header: Content-Signal: ai-train=no",
            "head.test/usage": "header: Content-Usage: train-ai=n",
            "head.test/noai": "header: X-Robots-Tag: noai",
            "head.test/image": "header: X-Robots-Tag: noimageai",
            "head.test/noarchive": "header: X-Robots-Tag: noarchive",
            "head.test/tdm": "header: TDM-Reservation: 1",
            "meta.test/noai": "meta: robots: index, noai",
            "meta.test/noarchive": "meta: robots: noarchive",
            "meta.test/tdm": "meta: tdm-reservation: 1",
        }.items()
    }
    assert stats.outcomes["refused_use"] == len(refused) == 13
    assert "refused_use" not in stats.errors
    assert {url for url, body in stored(tmp_path / "c").items() if SECRET.encode() in body} == fetched
    assert "http://head.test/lost" not in pages, "what is refused leads nowhere"
    for url in refused:
        assert (pages[url]["title"], pages[url]["links"], pages[url]["body_bytes"]) == ("", 0, 0)
    asked = [(each.host.partition(":")[0], each.path) for each in server.exchanges]
    assert len(asked) == len(set(asked)), "no file and no page twice"
    for page in ("signal.test/", "usage.test/", "tdm.test/mined"):
        name, _, path = page.partition("/")
        assert (name, f"/{path}") not in asked, "refused before it was fetched"
    assert not any(path == "/ai.txt" for _, path in asked)
    assert sum(path == "/.well-known/tdmrep.json" for _, path in asked) <= 7, "once for each origin"


def test_a_file_that_is_too_large(loopback: Loopback, tmp_path: Path) -> None:
    """What was read of it counts; what nobody could read reserves the rest."""
    rules = [{"location": "/free", "tdm-reservation": 0}, {"location": "/mine", "tdm-reservation": 1}]
    rules += [{"location": f"/{'x' * 2_000}{n}", "tdm-reservation": 0} for n in range(300)]
    data = json.dumps([*rules, {"location": "/late", "tdm-reservation": 0}]).encode()
    assert len(data) > 600_000

    def answer(exchange: Exchange) -> bool:
        if exchange.path == "/.well-known/tdmrep.json":
            return exchange.send_page(data, fields=b"Content-Type: application/json\r\n")
        if exchange.path == "/robots.txt":
            return exchange.send_page(b"", "404 Not Found")
        return exchange.send_page(SECRET.encode(), fields=HTML)

    seeds = [f"http://large.test/{path}" for path in ("free", "mine", "late")]
    found, _ = crawled(loopback.serve(answer), tmp_path / "c", crawl__purpose="ai-train", seeds=seeds)
    pages = {url.rpartition("/")[2]: row for url, row in rows(found, "SELECT url, status, reason FROM pages").items()}
    assert pages["free"]["status"] == "fetched"
    assert pages["mine"]["reason"].endswith('tdmrep.json: {"location": "/mine", "tdm-reservation": 1}')
    assert pages["late"]["reason"].endswith('tdmrep.json: {"tdm-reservation": 1} for all others, as it is too large')


def test_images_of_a_page_with_noimageai_are_not_fetched(server: RawServer, tmp_path: Path) -> None:
    values = {"crawl__purpose": "ai-train", "crawl__requisites": True, "seeds": ["http://images.test/"]}
    found, _ = crawled(server, tmp_path / "c", **values)
    assert found.query("SELECT status FROM pages WHERE url = 'http://images.test/'") == [{"status": "fetched"}]
    verdicts = {row["target_url"]: row["verdict"] for row in found.query("SELECT target_url, verdict FROM links")}
    assert verdicts == {"http://images.test/a.png": "purpose", "http://images.test/a.css": "followed"}
    assert "/a.png" not in server.paths


def test_ai_txt_can_be_the_file_that_is_asked_for(server: RawServer, tmp_path: Path) -> None:
    found, _ = crawled(server, tmp_path / "c", crawl__purpose="ai-train", crawl__opt_out_file="/ai.txt")
    pages = rows(found, "SELECT url, status, reason FROM pages")
    assert pages["http://ai.test/"]["reason"] == "not for ai-train: ai.txt: Disallow: /"
    assert "http://ai.test/" not in stored(tmp_path / "c")
    _, stats = crawled(server, tmp_path / "c", crawl__purpose="ai-train", crawl__opt_out_file="/ai.txt")
    assert stats.run_visits == 0
    assert sum(each.path == "/ai.txt" and "ai.test" in each.host for each in server.exchanges) == 1


def test_without_a_purpose_all_is_stored_and_recorded_and_exports_choose(
    server: RawServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = crawled(server, tmp_path / "c")
    pages = rows(found, "SELECT url, status, preferences, not_for, noindex FROM pages")
    assert not any("well-known" in path or path == "/ai.txt" for path in server.paths), "no request more"
    assert pages["http://signal.test/"]["preferences"] == "robots.txt: Content-Signal: search=yes, ai-train=no"
    assert pages["http://meta.test/tdm"]["not_for"] == "ai-train ai-input research"
    assert pages["http://free.test/"]["preferences"] == pages["http://free.test/"]["not_for"] == ""
    fetched = {url for url, page in pages.items() if page["status"] == "fetched"}
    out = tmp_path / "text.jsonl"
    assert main(["export", str(tmp_path / "c"), "--text", str(out), "--for", "ai-train"]) == 0
    capsys.readouterr()
    texts = {row["url"]: row for row in map(json.loads, out.read_text().splitlines())}
    open_ = {*FREE, "http://ai.test/", "http://tdm.test/mined"}  # the file was not asked for
    assert set(texts) == open_ - {"http://head.test/image"}
    assert [url for url, row in texts.items() if row["noindex"]] == ["http://meta.test/noindex"]
    assert export_urls(tmp_path / "c", tmp_path / "urls", "fetched", purpose="archive") == len(fetched) - 2
    export_text(tmp_path / "c", tmp_path / "all.jsonl", purpose="search")
    assert "meta.test/noindex" not in (tmp_path / "all.jsonl").read_text()
    assert main(["export", str(tmp_path / "c"), "--warc", str(tmp_path / "x.warc"), "--for", "search"]) == 2
    assert "--for is for --text, " in capsys.readouterr().err


def test_inspect_shows_all_of_it(server: RawServer, capsys: pytest.CaptureFixture[str]) -> None:
    there = f"{{'*': '127.0.0.1:{server.port}'}}".replace("'", '"').replace(":", " =", 1)

    def inspected(url: str) -> Any:
        assert main(["inspect", url, "--json", "--set", f"resolve.map={there}"]) == 0
        return json.loads(capsys.readouterr().out)

    for url, line, not_for in (
        ("http://signal.test/", "robots.txt: Content-Signal: search=yes, ai-train=no", "ai-train"),
        ("http://tdm.test/mined", 'tdmrep.json: {"location": "/mined", "tdm-reservation": 1}', "research"),
        ("http://ai.test/", "ai.txt: Disallow: /", "ai-train"),
        ("http://meta.test/noai", "meta: robots: index, noai", "ai-input"),
    ):
        seen = inspected(url)
        assert seen["preferences"] == [line]
        assert not_for in seen["not_for"]


@pytest.mark.parametrize(
    ("url", "line", "asked"),
    [
        ("http://signal.test/", "robots.txt: Content-Signal: search=yes, ai-train=no", []),
        (
            "http://tdm.test/mined",
            'tdmrep.json: {"location": "/mined", "tdm-reservation": 1}',
            ["/.well-known/tdmrep.json"],
        ),
    ],
)
def test_inspect_with_a_purpose_fetches_no_more_than_a_crawl(
    server: RawServer, capsys: pytest.CaptureFixture[str], url: str, line: str, asked: list[str]
) -> None:
    there = f'resolve.map={{"*" = "127.0.0.1:{server.port}"}}'
    assert main(["inspect", url, "--json", "--set", there, "--set", "crawl.purpose=ai-train"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert (seen["outcome"], seen["reason"]) == ("refused_use", f"not for ai-train: {line}")
    assert seen["preferences"] == [line]
    assert server.paths == ["/robots.txt", *asked]


def test_html_that_is_no_page_is_heeded_too(server: RawServer, tmp_path: Path) -> None:
    seeds = ["http://framed.test/"]
    crawled(server, tmp_path / "c", seeds=seeds, crawl__requisites=True, crawl__purpose="ai-train")
    found = stored(tmp_path / "c")
    assert {url for url, body in found.items() if SECRET.encode() in body} == {*seeds}
    assert {"http://framed.test/secret.html", "http://framed.test/missing"} <= found.keys()


def test_an_opt_out_that_comes_later_counts(server: RawServer, tmp_path: Path) -> None:
    values = {
        "refresh__policy": "fixed",
        "refresh__interval_s": 1.0,
        "refresh__least_s": 1.0,
        "crawl__patience_s": 9.0,
        "crawl__pages": 2,
    }
    LATER.clear()
    found, _ = crawled(server, tmp_path / "c", seeds=["http://later.test/"], **values)
    visits = found.query("SELECT outcome, not_for FROM visits WHERE NOT is_robots ORDER BY time")
    assert [row["outcome"] for row in visits] == ["ok", "unchanged"]
    (page,) = found.query("SELECT not_for, preferences FROM pages")
    assert page == {"not_for": visits[1]["not_for"], "preferences": "header: X-Robots-Tag: noai"}
    assert export_urls(tmp_path / "c", tmp_path / "urls", "fetched", purpose="ai-train") == 0

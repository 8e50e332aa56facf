"""Pages that are asked for by POST: two bodies are two pages, and retries, restarts and redirects keep the body."""

import gzip
import json
import signal
import threading
from pathlib import Path
from typing import Any

import commands
import pytest
from crawls import QUICK
from raw_server import Exchange, Loopback, RawServer

from gossamer import Config, Crawl, Seed
from gossamer.columns import Outcome
from gossamer.web.posts import post_of_data, post_of_json

API = "http://a.test/api"


def crawled(server: RawServer, directory: Path, seeds: list[str | Seed], **values: Any) -> Crawl:
    config = Config().replace({**QUICK, "resolve.map": {"*": f"127.0.0.1:{server.port}"}, **values})
    found = Crawl(directory, seeds, config)
    found.run()
    return found


def api(exchange: Exchange) -> bool:
    """Answers a query with its page of results; a plain GET gets a list."""
    if exchange.path == "/robots.txt":
        return exchange.send_page(b"User-agent: *\nDisallow: /private", fields=b"Content-Type: text/plain\r\n")
    if not exchange.head.startswith(b"POST"):
        return exchange.send_page(b"a list", fields=b"Content-Type: text/html\r\n")
    answer = b'{"you_sent": %b, "pages": 3}' % json.dumps(exchange.body.decode()).encode()
    return exchange.send_page(answer, fields=b"Content-Type: application/json\r\n")


def posted(server: RawServer) -> list[bytes]:
    return sorted(exchange.body for exchange in server.exchanges if exchange.head.startswith(b"POST"))


def test_two_bodies_and_a_get_are_three_pages(loopback: Loopback, tmp_path: Path) -> None:
    server = loopback.serve(api)
    seeds = [
        API,
        Seed(API, json={"q": "shoes"}),
        Seed(API, json={"q": "hats"}),
        Seed("http://a.test/private", data="x=1"),
    ]
    found = crawled(server, tmp_path / "c", seeds)
    assert posted(server) == [b'{"q":"hats"}', b'{"q":"shoes"}']
    rows = found.query("SELECT url, status, content(warc, warc_offset) AS text FROM pages ORDER BY url")
    by_url = {row["url"]: row for row in rows}
    assert set(by_url) == {
        API,
        f'{API}#POST:application/json:{{"q":"hats"}}',
        f'{API}#POST:application/json:{{"q":"shoes"}}',
        "http://a.test/private#POST:application/x-www-form-urlencoded:x=1",
    }
    assert "shoes" in by_url[f'{API}#POST:application/json:{{"q":"shoes"}}']["text"]
    assert by_url["http://a.test/private#POST:application/x-www-form-urlencoded:x=1"]["status"] == "denied"
    (warc,) = (tmp_path / "c" / "warc").iterdir()
    text = gzip.decompress(warc.read_bytes())
    assert text.count(f"WARC-Target-URI: {API}\r\n".encode()) == 6
    assert b'Content-Length: 13\r\n\r\n{"q":"shoes"}\r\n\r\n' in text
    assert b"#POST" not in text
    assert all("#POST" not in path.read_text() for path in (tmp_path / "c" / "cdxj").iterdir())
    again = crawled(server, tmp_path / "c", seeds)
    assert len(server.exchanges) == 4, "nothing is asked for twice"
    assert again.query("SELECT count(*) AS n FROM pages")[0]["n"] == 4


def test_the_request_is_known_exactly(loopback: Loopback) -> None:
    server = loopback.serve(api)
    visitor = loopback.visitor(server)
    for post, reuse in ((post_of_json({"ä": 1}), True), ("", True), (post_of_data({"a": "b c"}), False), ("", True)):
        response = visitor.fetch(API, reuse, post=post, etag='"x"' if post else "")
        exchange = server.exchanges[-1]
        assert response.outcome is Outcome.OK
        assert (response.request_head, response.request_body) == (exchange.head, exchange.body)
        assert exchange.head.startswith(b"POST" if post else b"GET")
        assert b"If-None-Match" not in exchange.head


def test_header_lines_that_are_no_fields(loopback: Loopback) -> None:
    """What libcurl refuses is asked for again in another way, with the body."""
    server = loopback.serve(
        lambda exchange: exchange.send(b"HTTP/1.1 200 OK\r\nno field\r\nContent-Length: 2\r\n\r\nhi")
    )
    visitor = loopback.visitor(server)
    post = post_of_json([1])
    assert visitor.fetch(API, post=post).outcome is Outcome.BROKEN
    assert visitor.fetch(API, post=post).body == b"hi"
    assert [exchange.body for exchange in server.exchanges] == [b"[1]", b"[1]"]


def test_redirects(loopback: Loopback, tmp_path: Path) -> None:
    """By 303 a POST leads to a GET, by 307 to a POST of the same body, but not at another host."""
    targets = {
        "/see": ("303 See Other", "/seen"),
        "/again": ("307 Temporary Redirect", "/api"),
        "/away": ("308 Permanent Redirect", "http://b.test/api"),
        "/self": ("303 See Other", "/self"),
    }

    def answer(exchange: Exchange) -> bool:
        if exchange.path in targets and exchange.head.startswith(b"POST"):
            status, target = targets[exchange.path]
            return exchange.send_page(b"", status, f"Location: {target}\r\n".encode())
        return api(exchange)

    server = loopback.serve(answer)
    seeds = [Seed(f"http://a.test{path}", data=f"from={path}") for path in targets]
    found = crawled(server, tmp_path / "c", seeds)
    others = [exchange for exchange in server.exchanges if exchange.path not in ("/robots.txt", *targets)]
    asked = {(exchange.head.split(b" ")[0], exchange.path, exchange.body) for exchange in others}
    assert asked == {(b"GET", "/seen", b""), (b"POST", "/api", b"from=/again")}
    assert (b"GET", "/self") in {(e.head.split(b" ")[0], e.path) for e in server.exchanges}
    (row,) = found.query("SELECT outcome, reason FROM visits WHERE url LIKE '%/away%'")
    assert (row["outcome"], row["reason"]) == ("bad_redirect", "redirect of a POST to another host")


def test_functions_post_and_retries_keep_the_body(loopback: Loopback, tmp_path: Path) -> None:
    """From a page of a shop to its API, page by page; the second one fails at first."""

    def answer(exchange: Exchange) -> bool:
        if exchange.body == b'{"page":2}' and posted(server).count(exchange.body) == 1:
            return exchange.send_page(b"", "500 Internal Server Error")
        return api(exchange)

    server = loopback.serve(answer)
    functions: dict[str, Any] = {"extract.functions": [f"{Path(__file__).parent}/page_functions.py:results"]}
    found = crawled(server, tmp_path / "c", ["http://a.test/"], **functions, **{"fetch.retry_s": 0.0})
    bodies = [b'{"page":%d}' % number for number in (1, 2, 3)]
    assert posted(server) == sorted([*bodies, bodies[1]])
    items = found.query("SELECT json_extract_string(item, '$.posted') AS posted, url FROM items ORDER BY posted")
    assert [row["posted"].encode() for row in items] == bodies
    assert [row["url"] for row in items] == [f"{API}#POST:application/json:{body.decode()}" for body in bodies]
    done = commands.run("extract", tmp_path / "c", functions["extract.functions"][0], at=tmp_path)
    assert done.returncode == 0, done.stderr
    again = found.query("SELECT json_extract_string(item, '$.posted') AS posted, url FROM items ORDER BY posted")
    assert again == items


def test_a_crawl_that_is_killed_posts_what_is_left(loopback: Loopback, tmp_path: Path) -> None:
    stuck, is_open = threading.Event(), threading.Event()

    def answer(exchange: Exchange) -> bool:
        if exchange.body == b'{"q": "b c"}' and not is_open.is_set():
            stuck.set()
            server.pause(60)
            return False
        return api(exchange)

    server = loopback.serve(answer)
    (tmp_path / "seeds.txt").write_text(f'{API} json={{"q": "b c"}}\n{API} data=q=d\n')
    options = ("--testweb", f"127.0.0.1:{server.port}", "--delay", 0, "--set", "crawl.patience_s=1", "--quiet")
    with commands.running("crawl", "seeds.txt", *options, at=tmp_path) as process:
        process.wait_until(stuck.is_set, "request that gets no answer")
        process.signal(signal.SIGKILL)
        process.finish()
    is_open.set()
    commands.succeed("crawl", *options, at=tmp_path)
    assert set(posted(server)) == {b'{"q": "b c"}', b"q=d"}
    rows = Crawl(tmp_path / "crawl").query("SELECT status FROM pages")
    assert [row["status"] for row in rows] == ["fetched", "fetched"]


@pytest.mark.slow  # the unit test has the names that go from agent to agent
def test_agents_that_share_a_crawl_pass_bodies_on(loopback: Loopback, tmp_path: Path) -> None:
    server = loopback.serve(api)
    seeds: list[str | Seed] = [Seed(f"http://h{number}.test/api", json={"n": number}) for number in range(8)]
    crawled(server, tmp_path / "c", seeds, **{"site.agents": 2})
    assert posted(server) == [b'{"n":%d}' % number for number in range(8)]

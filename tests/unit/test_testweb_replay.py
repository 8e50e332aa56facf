"""Directories and link graphs as webs."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from selectolax.lexbor import LexborHTMLParser

from gossamer.errors import ConfigError
from gossamer.sim.graphs import Graph, load
from gossamer.testweb.answer import Answer, Joined
from gossamer.testweb.graph import GraphWeb
from gossamer.testweb.replay import Replay
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb

NAME = "docs.example"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "html"
    (root / "part").mkdir(parents=True)
    (root / "index.html").write_text("<a href=part/>")
    (root / "part" / "index.html").write_text("part")
    (root / "a b.txt").write_text("text")
    (root / "page.html.gz").write_bytes(b"packed")
    (root / "unknown.xyzzy").write_bytes(b"?")
    (tmp_path / "secret.html").write_text("secret")
    return root


@pytest.fixture
def web(root: Path) -> Replay:
    return Replay({"Docs.Example": root})


def get(web: Replay, path: str, **asked: str) -> Answer:
    return web.response(NAME, path, 0.0, {name.replace("_", "-"): value for name, value in asked.items()})


@pytest.mark.parametrize(
    ("path", "status", "body", "kind"),
    [
        ("/", 200, b"<a href=part/>", "text/html"),
        ("/index.html?q=1", 200, b"<a href=part/>", "text/html"),
        ("/part/", 200, b"part", "text/html"),
        ("/a%20b.txt", 200, b"text", "text/plain"),
        ("/page.html.gz", 200, b"packed", "application/gzip"),
        ("/unknown.xyzzy", 200, b"?", "application/octet-stream"),
    ],
)
def test_files_are_served(web: Replay, path: str, status: int, body: bytes, kind: str) -> None:
    answer = get(web, path)
    assert (answer.status, answer.body, answer.headers["content-type"]) == (status, body, kind)


@pytest.mark.parametrize(
    "path", ["/none.html", "/robots.txt", "/../secret.html", "/%2e%2e/secret.html", "/a%00b", "/a%20b.txt/"]
)
def test_what_is_not_there(web: Replay, path: str) -> None:
    assert get(web, path).status == 404


def test_a_directory_wants_its_slash(web: Replay) -> None:
    answer = get(web, "/part?x=1")
    assert (answer.status, answer.headers["location"]) == (301, "/part/?x=1")


def test_a_directory_without_an_index_is_not_found(web: Replay, root: Path) -> None:
    (root / "empty").mkdir()
    assert get(web, "/empty/").status == 404


def test_files_are_validated_and_read_again_when_they_change(web: Replay, root: Path) -> None:
    first = get(web, "/")
    assert get(web, "/", if_none_match=first.headers["etag"]).status == 304
    assert get(web, "/", if_modified_since=first.headers["last-modified"]).status == 304
    (root / "index.html").write_text("changed")
    os.utime(root / "index.html", (10, 10))
    again = get(web, "/", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (200, b"changed")
    assert again.headers["last-modified"] == "Thu, 01 Jan 1970 00:00:10 GMT"
    (root / "index.html").unlink()
    assert get(web, "/").status == 404


def test_files_in_memory_are_bounded(root: Path) -> None:
    web = Replay({NAME: root}, cache_bytes=40)
    for _ in range(2):
        assert [get(web, path).status for path in ("/", "/part/", "/a%20b.txt", "/unknown.xyzzy")] == [200] * 4
    kept = [file.answer.body for file in web._files.values()]
    assert sum(map(len, kept)) <= 40
    assert b"part" in kept
    assert b"<a href=part/>" not in kept  # more than a quarter


def test_a_root_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such directory"):
        Replay({NAME: tmp_path / "none"})


def test_webs_can_be_joined(web: Replay) -> None:
    synthetic = SyntheticWeb(WebSpec.plain(hosts=1, pages=2, latency_ms=10.0))
    joined = Joined([synthetic, web])
    assert joined.start_urls() == ["http://h0.test/", f"http://{NAME}/"]
    assert joined.response(NAME, "/", 0.0, {}).body == b"<a href=part/>"
    assert joined.response("h0.test", "/", 0.0, {}).status == 200
    assert joined.response("other", "/", 0.0, {}).status == 421
    assert web.response("other", "/", 0.0, {}).status == 421
    assert joined.latency_s("h0.test") > 0 == joined.latency_s(NAME)
    assert joined.knows(NAME)
    assert not joined.knows("other")


ROWS = [[1, 2], [2], [], [3, 0], [5], [4]]


def graph(tmp_path: Path, **more: np.ndarray) -> Path:
    path = tmp_path / "g.npz"
    indptr = np.cumsum([0] + [len(row) for row in ROWS])
    np.savez(path, indptr=indptr, indices=np.array([n for row in ROWS for n in row], dtype=np.int32), **more)
    return path


def links(graph: Graph, page: int) -> list[str]:
    host, _, path = graph.urls[page].removeprefix("http://").partition("/")
    tree = LexborHTMLParser(GraphWeb(graph).response(host.lower(), f"/{path}", 0.0, {}).body)
    return [node.attributes["href"] or "" for node in tree.css("a")]


def test_a_graph_is_served_as_it_is(tmp_path: Path) -> None:
    truth = load(graph(tmp_path), "even:3")
    web, urls = GraphWeb(truth), truth.urls
    assert [urls[page] for page in (0, 5)] == ["http://g0.test/0.html", "http://g2.test/5.html"]
    for page, row in enumerate(ROWS):
        assert links(truth, page) == [urls[target] for target in row]
    assert np.flatnonzero(truth.reachable([3])).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(truth.reachable([4])).tolist() == [4, 5]
    assert web.start_urls() == [urls[0], urls[3], urls[4]]
    assert web.response("g0.test", "/77.html", 0.0, {}).status == 404
    assert web.response("g9.test", "/0.html", 0.0, {}).status == 421
    assert web.response("g0.test", "/0.html", 0.0, {"if-none-match": '"0"'}).status == 304


def test_a_graph_may_name_its_hosts(tmp_path: Path) -> None:
    path = graph(tmp_path, host=np.array([0, 0, 1, 1, 1, 1], dtype=np.int16), host_names=np.array([b"Aa", b"b"]))
    urls = load(path, suffix="example").urls
    assert [urls[page] for page in (1, 2)] == ["http://aa.example/1.html", "http://b.example/2.html"]


def test_a_graph_may_list_its_urls(tmp_path: Path) -> None:
    path = graph(tmp_path)
    urls = ["http://A.example", "http://a.example/?q='x'&y=1", *(f"http://b.example/{n}" for n in range(4))]
    with gzip.open(tmp_path / "g.urls.gz", "wt") as file:
        file.write("\n".join(urls) + "\n")
    truth = load(path)
    web = GraphWeb(truth)
    assert links(truth, 0) == ["http://a.example/?q=%27x%27&y=1", urls[2]]
    assert web.response("a.example", "/?q=%27x%27&y=1", 0.0, {}).status == 200
    assert web.response("a.example", "/", 0.0, {}).status == 200
    with gzip.open(tmp_path / "g.urls.gz", "wt") as file:
        file.write("http://a.example/\n")
    with pytest.raises(ConfigError, match="1 lines for 6 pages"):
        load(path)


@pytest.mark.parametrize(("name", "message"), [("x.npz", "no link graph"), ("none.npz", "does not exist")])
def test_what_is_no_graph(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match=message):
        load(tmp_path / name)

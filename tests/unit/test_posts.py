"""A POST is the name of a page: the body comes back as it was, and each body makes a page of its own."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer import Config, Seed
from gossamer.crawl.seeds import check_urls, parse_line, parse_seeds, split_line
from gossamer.errors import ConfigError, SeedError
from gossamer.functions.page import Page
from gossamer.functions.protocol import Setup, Task
from gossamer.web.posts import FORM, JSON, body_of, post_of_data, post_of_json, split_name
from gossamer.web.url import host_of, is_dynamic, normalise, page_key, resolve

URL = "https://a.test/api"


@given(st.binary(max_size=200))
def test_bodies_come_back(body: bytes) -> None:
    name = URL + post_of_data(body)
    url, post = split_name(name)
    assert (url, body_of(post)) == (URL, (FORM, body))
    check_urls([name])  # as whatever reads names checks them
    assert (host_of(name), is_dynamic(name)) == ("a.test", False)


def test_two_bodies_are_two_pages() -> None:
    names = [URL, URL + post_of_json({"q": 1}), URL + post_of_json({"q": 2}), URL + post_of_data({"q": 1})]
    assert len({page_key(name) for name in names}) == 4
    assert len({page_key(name) >> 40 for name in names}) == 1, "of one host"


def test_no_link_can_post() -> None:
    name = URL + post_of_json({"q": 1})
    assert normalise(name) == resolve(name, "https://b.test/") == parse_line(name) == URL


@pytest.mark.parametrize(
    ("seeds", "kind", "body"),
    [
        ([Seed(URL, json={"q": "a b"})], JSON, b'{"q":"a b"}'),
        ([Seed(URL, json=[1, 2])], JSON, b"[1,2]"),
        ([Seed(URL, data={"q": "a b", "r": "1"})], FORM, b"q=a+b&r=1"),
        ([URL + ' json={"q": "a b"}'], JSON, b'{"q": "a b"}'),
        ([URL, 'json={"q": "a b"}'], JSON, b'{"q": "a b"}'),
        ([URL, "data=q=a+b&depth=3"], FORM, b"q=a+b&depth=3"),
    ],
)
def test_seeds_with_a_body(seeds: list[Any], kind: str, body: bytes) -> None:
    ((line,), _) = parse_seeds(seeds)
    name, rules = split_line(line, 0.0)
    assert rules is None
    assert body_of(split_name(name)[1]) == (kind, body)
    assert split_name(name)[0] == URL


def test_a_body_and_rules() -> None:
    for seeds in ([URL, "data=q=1", "depth=2"], [URL + " depth=2 data=q=1"], [Seed(URL, depth=2, data="q=1")]):
        ((line,), _) = parse_seeds(seeds)
        name, rules = split_line(line, 0.0)
        assert rules is not None
        assert (rules.host, rules.depth) == ("a.test", 2)
        assert name == f"{URL}#POST:{FORM}:q=1"
    config = Config().replace({"seeds": [{"url": URL, "json": {"q": "a b", "n": [1]}}]})
    assert parse_seeds(config.crawl.seeds)[0] == [URL + '#POST:application/json:{"q":"a%20b","n":[1]}']


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (Seed(URL, json="{q: 1}"), "json is no JSON"),
        (Seed(URL, data="x" * 100_000), "is too long"),
    ],
)
def test_bodies_that_cannot_be_sent(seed: Seed, message: str) -> None:
    with pytest.raises(SeedError, match=message):
        parse_seeds([seed])
    with pytest.raises(ConfigError, match="one body"):
        Config().replace({"seeds": [{"url": URL, "json": {}, "data": ""}]})


def page(name: str = "https://a.test/x/") -> Page:
    return Page(Task(1, name, 200, 0.0, 0, b"HTTP/1.1 200 OK\r\n\r\n", b""), Setup())


def test_functions_post() -> None:
    asked = page().post("../api", json={"q": 1}, priority=2.0)
    assert asked == (URL + '#POST:application/json:{"q":1}', 2.0)
    found = page(asked.url)
    assert (found.url, found.posted) == (URL, b'{"q":1}')
    assert (page().url, page().posted) == ("https://a.test/x/", b"")
    for wrong in ({}, {"json": 1, "data": "x"}):
        with pytest.raises(ValueError, match=r"json=\.\.\. or data="):
            page().post("/api", **wrong)
    with pytest.raises(ValueError, match="too long"):
        page().post("/api", data=b"\xff" * 20_000)

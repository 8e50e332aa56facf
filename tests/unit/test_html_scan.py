"""The compiled scanner against the tree, on markup that nobody would write."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gossamer.web import html, tree
from gossamer.web.tokens import unescape

pytestmark = pytest.mark.skipif(html.scan is None, reason="gossamer.web._scan is not built")

WORDS = [
    "<a href=1>",
    "<a href='2' rel=nofollow>",
    "</a>",
    "<p>",
    "</p>",
    '<b title="',
    '">',
    "<A HREF=7",
    "<a href='8#",
]
LINKS = ["<a href=&lt;9&>", "<link rel=next href=3>", "<area href=5>", "<iframe src=6>", "</iframe>", "<html lang=x>"]
RAW = [
    "<script>",
    "</script>",
    "<title>",
    "</title>",
    "<textarea>",
    "</textarea>",
    "<style>",
    "</style>",
    "<plaintext>",
]
SIGNS = ["<", "</", ">", '"', "'", "=", "&amp;", " ", "/", "x", "\n", "--", "!", "-", "<!--", "-->", "<!", "<?", "\0"]
SHADOWS = ["<template shadowrootmode=open>", "<template>", "</template>", "<iframe srcdoc='&lt;a href=1>'>"]
METAS = ["<meta name=robots content=none>", "<meta http-equiv=refresh content=1;u>", "<base href=b>"]
# Not here: what the tree moves or drops (tables, select), and noscript, where a comment may hide the end tag.
MARKUP = st.lists(st.sampled_from([*WORDS, *LINKS, *RAW, *SIGNS, *METAS, *SHADOWS]), max_size=14).map("".join)

IMAGES = ["<svg>", "</svg>", "<math>", "</math>", "<mi>", "</mi>", "<foreignObject>", "<![CDATA[", "]]>", "<svg/>"]
HIDDEN = [
    "<template>",
    "</template>",
    "<noscript>",
    "</noscript>",
    "<table>",
    "<select>",
    "<div>",
    "</div>",
    "<script/>",
]
ANYTHING = st.lists(
    st.sampled_from([*WORDS, *LINKS, *RAW, *SIGNS, *METAS, *IMAGES, *HIDDEN, *SHADOWS]).map(str.encode)
    | st.binary(max_size=4),
    max_size=30,
).map(b"".join)


@given(MARKUP)
@example("</--<a href=1>")
@example("<script><!-- <script></script><a href=1>--></script><a href=2>")
@settings(max_examples=200)
def test_scanner_and_tree_agree(markup: str) -> None:
    body = markup.encode()
    assert html._scanned(body, "utf-8", "g", 99) == tree.tokenise(body, "utf-8", "g", 99)


@given(ANYTHING, st.sampled_from(["utf-8", "windows-1252", "koi8-r", "shift_jis", "utf-16le", "replacement"]))
def test_anything_can_be_read(body: bytes, charset: str) -> None:
    tokens = html._scanned(body, charset, "g", 5)
    assert len(tokens.hrefs) <= 5
    assert all(flags in (1, 2, 3) for flags in tokens.hrefs.values())


@given(ANYTHING)
def test_every_beginning_of_a_page_can_be_read(body: bytes) -> None:
    whole = html._scanned(body, "utf-8", "g", 99).hrefs
    for length in range(len(body)):
        part = html._scanned(body[:length], "utf-8", "g", 99).hrefs
        assert list(part) == list(whole)[: len(part)]  # what is cut off adds no links and changes none


def test_images_nested_deeper_than_we_remember() -> None:
    body = b"<svg>" * 100 + b"<foreignObject><svg>" * 100 + b"<a href=x>" + b"</svg></foreignObject>" * 100
    assert list(html._scanned(body + b"<p><a href=y>", "utf-8", "g", 99).hrefs) == ["x", "y"]


def test_only_bytes_are_read() -> None:
    with pytest.raises(TypeError):
        html.scan("<a href=x>", "", "g", 9)
    with pytest.raises(TypeError):
        html.scan(None, "", "g", 9)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a&amp;b", "a&b"),
        ("&ampb", "&ampb"),
        ("&amp", "&"),
        ("&#0;&#x110000;", "\ufffd\ufffd"),
        ("&;&#;&#x;", "&;&#;&#x;"),
    ],
)
def test_character_references_in_attributes(raw: str, text: str) -> None:
    assert unescape(raw) == text

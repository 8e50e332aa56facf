"""Readable text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.web.html import text_of


def test_blocks_are_lines() -> None:
    page = b"""<html><head><title>no</title><style>no</style></head><body><h1>Head\n line</h1>
    one <b>bo</b>ld<p>two<br>three</p>four<script>no</script><ul><li>five<li>six &amp; &lt;seven&gt;</ul>
    <!-- no --><table><tr><td>a</td><td>b</td></tr><tr><td>c</table><textarea>no</textarea></body></html>"""
    assert text_of(page).split("\n") == [
        "Head line", "one bold", "two", "three", "four", "five", "six & <seven>", "a b", "c"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b" plain <b> ", "text/plain", "plain <b>"),
        ("ü".encode("latin-1"), "text/plain; charset=latin1", "ü"),
        (b"\x89PNG", "image/png", ""),
        (b"<p>x</p>", "application/xhtml+xml", "x"),
        (b"<p title='a>b' x=\">\">x</p>", "text/html", "x"),
        (b"it's <b don't>fine</b>", "text/html", "it's fine"),
        (b"a <!--> b --> c", "text/html", "a b --> c"),
        (b"a<script>b", "text/html", "a"),
        (b"a<p title='b", "text/html", "a"),
        (b"1 < 2 > 1", "text/html", "1 < 2 > 1"),
        (b"a&#10;b&nbsp; c&#12;d", "text/html", "a b c d"),  # spaces, not lines
        (b"&am<b>p;</b> &lt;br&gt;", "text/html", "&amp; <br>"),  # a reference ends at a tag
        (b"a<P>b<DiV>c</dIv\n>d<TD>e", "text/html", "a\nb\nc\nd e"),
        (b"a<i title='<script>'>b</i>c", "text/html", "abc"),
        (b"a<script>'<!--' < '</scripts>' <p></SCRIPT\n>b", "text/html", "a\nb"),
        (
            "a<script>b</\u017fcript>c</script>d".encode(),
            "text/html; charset=utf-8",
            "a\nd",
        ),  # only ASCII has two cases
        (b"", "", ""),
    ],
)
def test_text(body: bytes, content_type: str, text: str) -> None:
    assert text_of(body, content_type) == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (
            "<p>a\n b<pre>\ndef f():\n    return 1\n\n\nx  =  2\n</pre>c\n d",
            "a b\ndef f():\n    return 1\n\n\nx  =  2\nc d",
        ),
        ("<pre><code>a\n\tb\n</code></pre><pre>c\n</pre>d", "a\n\tb\nc\nd"),
        ("<PRE class='x'>a\r\n  <b>b</b>  &lt;c&gt;\r  d</PRE>", "a\n  b  <c>\n  d"),
        ("<pre>a&#10; b</pre>c&#10; d", "a\n b\nc d"),
        ("<pre>a<br>  b<div>  c</div>  d</pre>", "a\n  b\n  c\n  d"),
        ("<pre>a  b<pre>c  d</pre>e  f</pre>g  h", "a  b\nc  d\ne  f\ng h"),
        ("<pre>  never\n  closed", "  never\n  closed"),
        ("a  b</pre>c  d", "a b\nc d"),
        ("<listing>a\n  b</listing><xmp>c\n  d</xmp><plaintext>e\n  f", "a\n  b\nc\n  d\ne\n  f"),
        ("<pre>\n\n  a</pre>", "\n  a"),
        ("<pre>a   \n \n</pre>", "a"),
        ("<pre><script>no\n</script>  a<!-- no\n -->\n  b</pre>", "  a\n  b"),
        ("<pre><div>a</div><div>  b</div>\n<div>c</div></pre>", "a\n  b\n\nc"),
        ("<template>no</template><template shadowrootmode=open>a</template><template x=shadowrootmode>no", "a"),
        ("<textarea>no\n  no</textarea><prefix>a  b</prefix>", "a b"),
        ("<script>'<pre>'</script>a\n  b", "a b"),
        ("<pre>\ufdd0a\n\ufdd0  b</pre>", "a\n  b"),
        (
            "a<template>no</template><x-y><template class='b'\nshadowrootmode=open>b <p>c</template></x-y>d",
            "a\nb\nc\nd",
        ),
    ],
)
def test_preformatted_text_stays_as_it_is(markup: str, text: str) -> None:
    assert text_of(markup.encode(), "text/html; charset=utf-8") == text


PIECES = st.sampled_from(
    ["<p>", "</p>", "<", ">", "'", '"', "=", "<!--", "-->", "<script>", "</script>", "&amp;", " a"]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_anything_has_a_text(markup: str) -> None:
    text = text_of(markup.encode())
    assert all(line == " ".join(line.split()) != "" for line in text.split("\n")) or text == ""


@pytest.mark.parametrize(
    "piece",
    [
        "<div>",
        "<a '",
        '<a x="',
        "<",
        "<!--",
        "<script>",
        "&",
        "<a =",
        "a ",
        "</script",
        "<x",
        "<pre>",
        "<pre>\n",
        "<template ",
        "<template>",
    ],
)
def test_hostile_pages_take_linear_time(piece: str) -> None:
    text_of((piece * 100_000).encode())

"""Pages: links, and what governs them, through both tokenisers."""

import pytest
from tokenisers import tokeniser  # noqa: F401

from gossamer.web.html import Document, parse_html

pytestmark = pytest.mark.usefixtures("tokeniser")
URL = "http://example.org/dir/page.html"


def parse(html: str, content_type: str = "text/html; charset=utf-8") -> Document:
    return parse_html(html.encode(), URL, content_type)


def paths(links: list[str]) -> list[str]:
    return [link.removeprefix("http://example.org") for link in links]


def test_a_whole_page() -> None:
    page = parse(
        """<!DOCTYPE html><html lang=en-GB><head><title> Spiders &amp;\n winds </title>
        <link rel=canonical href=/canonical><link rel="stylesheet alternate" href=style.css><link rel=next href=2>
        <link rel=icon href=icon.png></head>
        <body><A HREF='one.html#top'>1</A><a href="one.html">again</a> <area href=two><img src=no.png>
        <iframe src="frame.html"></iframe><form action=no></form><a name=here></a></body></html>"""
    )
    assert (page.charset, page.title, page.language) == ("utf-8", "Spiders & winds", "en-GB")
    assert page.canonical == "http://example.org/canonical"
    assert paths(page.links) == ["/canonical", "/dir/2", "/dir/one.html", "/dir/two", "/dir/frame.html"]
    assert (page.noindex, page.nofollow, page.nofollow_links, page.refresh, page.base) == (False, False, [], None, URL)


@pytest.mark.parametrize(
    "markup",
    [
        "<!-- <a href=no> -->",
        "<!--><a href=yes>",
        "<!-- > <a href=no> --!><a href=yes>",
        "<script>'<a href=no>'</script><a href=yes>",
        "<script><!-- <script> </script> <a href=no> --></script><a href=yes>",
        "<style><a href=no></style ><a href=yes>",
        "<textarea><a href=no></textarea><a href=yes>",
        "<title><a href=no></title><a href=yes>",
        "<noframes><a href=no></noframes><a href=yes>",
        "<iframe><a href=no></iframe><a href=yes>",
        "<xmp><a href=no></xmp><a href=yes>",
        "<template><a href=no><template></template><a href=no></template><a href=yes>",
        "<x-y><template shadowrootmode=open><a href=yes></template></x-y>",
        "<x-y><template ShadowRootMode=CLOSED><p><slot></slot><a href=yes></template></x-y>",
        "<template shadowrootmode=none><a href=no></template><a href=yes>",
        "<template shadowroot=open><a href=no></template><a href=yes>",
        "<template><template shadowrootmode=open><a href=no></template></template><a href=yes>",
        "<template shadowrootmode=open><template><a href=no></template><a href=yes></template>",
        "<template shadowrootmode=open><b><template shadowrootmode=open><a href=yes></template></b></template>",
        "<template title='>' shadowrootmode=open><!-- <a href=no> --></template><a href=yes>",
        "<iframe srcdoc='&lt;a href=yes>'></iframe>",
        "<iframe srcdoc='<a href=yes>'><a href=no></iframe>",
        "<template><iframe srcdoc='<a href=no>'></iframe></template><a href=yes>",
        "<template shadowrootmode=open><iframe srcdoc='<a href=yes>'></iframe></template>",
        """<iframe srcdoc='<iframe srcdoc="<a href=yes>"></iframe>'></iframe>""",
        "<iframe srcdoc='<template><a href=no></template><script>\"<a href=no>\"</script><a href=yes>'></iframe>",
        "<a href=yes><plaintext><a href=no>",
        "<p title='<a href=no>'><a href=yes>",
        "<p title=<a href=no><a href=yes>",
        '<a title=">" href=yes>',
        "<a\n/href\t=\n'yes'/>",
        "<a =href=no href=yes href=no>",
        "<?php <a href=no> ?><a href=yes>",
        "<![CDATA[<a href=no> ]]><a href=yes>",
        "<svg><![CDATA[<a href=no>]]></svg><a href=yes>",
        "<svg><a xlink:href=yes></a></svg>",
        "<svg><script/><a href=yes></svg>",
        "<svg><title><a href=yes></title></svg>",
        "<svg><p><script>'<a href=no>'</script><a href=yes>",
        "<svg><foreignObject><![CDATA[<a href=no>]]></foreignObject></svg><a href=yes>",
        "<math><mi><![CDATA[<a href=no>]]></mi></math><a href=yes>",
        "<noscript><a href=yes></noscript>",
        "<a href=yes></a><a href=no",
        "<a href=yes></a><a href='no>",
        "<a href=yes rel=noopener>",
        "</a href=no><a href=yes>",
        "</ <a href=no><a href=yes>",
        "< a href=no><a href=yes>",
        "<a href=' \n yes \t'>",
        "<a href=&#121;es>",
        "<abbr href=no><a href=yes>",
    ],
)
def test_where_links_are(markup: str) -> None:
    expected = [] if markup.startswith("<!-- <a") else ["/dir/yes"]
    assert paths(parse(markup).links) == expected


@pytest.mark.parametrize(
    ("href", "link"),
    [
        ("?a=1&amp;b=2", "/dir/page.html?a=1&b=2"),
        ("?a=1&copy=2", "/dir/page.html?a=1&copy=2"),
        ("?a=1&copy;", "/dir/page.html?a=1%C2%A9"),
        ("?a&lt", "/dir/page.html?a%3C"),
        ("?a&ltb", "/dir/page.html?a&ltb"),
        ("?a&unknown;b", "/dir/page.html?a&unknown;b"),
        ("x&#x2F;y&#47z", "/dir/x/y/z"),
        ("x&#35;y", "/dir/x"),
        ("&hearts;", "/dir/%E2%99%A5"),
        ("a&amp;lt;b", "/dir/a&lt;b"),
    ],
)
def test_character_references(href: str, link: str) -> None:
    assert paths(parse(f'<a href="{href}">').links) == [link]


def test_what_leads_nowhere_is_left_out() -> None:
    hrefs = ["#top", "", "javascript:x()", "MAILTO:a@b", "tel:1", "data:text/html,x", "http://[bad/", "x" * 20_000]
    page = parse("".join(f"<a href='{href}'>" for href in hrefs) + "<a href='ht\ntp://example.org/ok'>")
    assert paths(page.links) == ["/ok"]


def test_what_is_in_a_shadow_tree_says_nothing_about_the_document() -> None:
    page = parse(
        "<x-y><template shadowrootmode=open><html lang=xx><base href=/no/><title>no</title>"
        "<meta http-equiv=refresh content='0;url=no'><a href=1></template></x-y><title>yes</title><a href=2>"
    )
    assert (page.title, page.language, page.base, page.refresh) == ("yes", "", URL, None)
    assert paths(page.links) == ["/dir/1", "/dir/2"]


@pytest.mark.parametrize(
    ("around", "document", "links"),
    [
        ("", "<a href=x>", ["/dir/x"]),
        ("<base href=/b/>", "<a href=x>", ["/b/x"]),  # that of the page, unless
        ("<base href=/b/>", "<base href=c/><a href=x>", ["/b/c/x"]),  # it has one itself, relative to that
        ("", "<base href=c/><iframe srcdoc='&lt;a href=x>'>", ["/dir/c/x"]),
        ("", "<a href='#x'><a href=page.html#y>", ["/dir/page.html"]),
        ("<a href=1>", "<a href=x><a href=1>", ["/dir/1", "/dir/x"]),
        ("", "<a href=x rel=nofollow><a href=y>", ["/dir/y"]),
        ("", "<meta name=robots content='noindex,nofollow'><a href=x>", []),
        ("", "<meta http-equiv=refresh content='0;url=x'>", ["/dir/x"]),
        ("", "<meta http-equiv=refresh content='900;url=x'>", []),
        ("<meta name=robots content=nofollow>", "<a href=x>", []),
        ("", "<title>no</title><link rel=canonical href=x>", ["/dir/x"]),
        ("", "<a href='?é'>", ["/dir/page.html?%C3%A9"]),
    ],
)
def test_documents_in_frames(around: str, document: str, links: list[str]) -> None:
    inside = document.replace("&", "&amp;").replace('"', "&quot;")
    markup = f'<title>T</title>{around}<iframe srcdoc="{inside}"></iframe>'
    page = parse_html(markup.encode("latin-1"), URL, "text/html; charset=latin1")
    assert paths(page.links) == links
    assert (page.title, page.noindex, page.canonical, page.refresh) == ("T", False, "", None)


def test_texts_of_links_in_shadow_trees_and_frames() -> None:
    markup = (
        b"""<template shadowrootmode=open><a href=1>one</a></template><iframe srcdoc="<a href=2>two</a>"></iframe>"""
    )
    assert paths(list(parse_html(markup, URL, anchors=True).anchors)) == ["/dir/1", "/dir/2"]


def test_frames_do_not_exceed_the_limit_of_links() -> None:
    markup = "<a href=0><iframe srcdoc='<a href=1><a href=2><a href=3>'></iframe>" * 5
    assert len(parse_html(markup.encode(), URL, max_links=3).links) == 3


def test_marked_links() -> None:
    page = parse(
        "<a href=a rel='External NoFollow'><a href=b rel=ugc><a href=c rel=sponsored><a href=b><a href=./a rel=ugc>"
    )
    assert paths(page.links) == ["/dir/b"]
    assert paths(page.nofollow_links) == ["/dir/a", "/dir/c"]


def test_a_page_that_asks_not_to_be_followed() -> None:
    page = parse("<meta name=robots content='noindex, nofollow'><a href=a><a href=b rel=nofollow>")
    assert (page.noindex, page.nofollow, page.links) == (True, True, [])
    assert paths(page.nofollow_links) == ["/dir/a", "/dir/b"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("max-image-preview:none", (False, False)),
        ("index, follow, max-image-preview: none, max-snippet:-1", (False, False)),
        ("max-image-preview:none noindex", (True, False)),
        ("MAX-IMAGE-PREVIEW:NONE,NOFOLLOW", (False, True)),
        ("unavailable_after: Sat, 01 Jan 2030 15:00:00 GMT, noindex", (True, False)),
        ("max-video-preview:0,none", (True, True)),
    ],
)
def test_values_of_directives_are_no_directives(content: str, expected: tuple[bool, bool]) -> None:
    page = parse(f"<meta name=robots content='{content}'><a href=x>")
    assert (page.noindex, page.nofollow) == expected
    assert (page.links == []) is expected[1]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (["Gossamer: nofollow"], (False, True)),
        (["otherbot: none, nofollow"], (False, False)),
        (["otherbot: noindex, gossamer: nofollow"], (False, True)),
        (["noindex, max-snippet: 20, unavailable_after: 1 Jan 2030"], (True, False)),
        (["noindexed", "", ":"], (False, False)),
        (["max-image-preview:none"], (False, False)),
        (["max-image-preview: none, nofollow"], (False, True)),
        (["gossamer: max-image-preview:none, noindex"], (True, False)),
        (["otherbot: max-image-preview:none, noindex"], (False, False)),
        (["unavailable_after: Sat, 01 Jan 2030 15:00:00 GMT, noindex"], (True, False)),
        (["unavailable_after: Saturday, 01-Jan-30 15:00:00 GMT, noindex"], (True, False)),
        (["unavailable_after: 2030-01-01 15:00:00, noindex"], (True, False)),
        (["otherbot: unavailable_after: Sat, 01 Jan 2030 15:00:00 GMT, noindex"], (False, False)),
        (["*: noindex"], (True, False)),
        (["noindex nofollow"], (True, True)),
    ],
)
def test_headers_for_robots(headers: list[str], expected: tuple[bool, bool]) -> None:
    page = parse_html(b"", URL, robots_tags=headers, agent="Gossamer")
    assert (page.noindex, page.nofollow) == expected


@pytest.mark.parametrize(
    ("markup", "link"),
    [
        ("<base href=/other/><a href=x>", "http://example.org/other/x"),
        ("<a href=x><base href=//host.example/a/b>", "http://host.example/a/x"),
        ("<base target=_top><base href=/1/><base href=/2/><a href=x>", "http://example.org/1/x"),
        ("<base href=data:text/html,><a href=x>", "http://example.org/dir/x"),
        ("<base href='javascript:x'><a href=x>", "http://example.org/dir/x"),
        ("<base href=''><a href=x>", "http://example.org/dir/x"),
        ("<base href='http://[bad/'><a href=x>", "http://example.org/dir/x"),
        ("<base href=/other/><a href='#part'>", "http://example.org/other/"),
        ("<noscript><base href=/no/></noscript><a href=x>", "http://example.org/dir/x"),
    ],
)
def test_base(markup: str, link: str) -> None:
    assert parse(markup).links == [link]


def test_refresh() -> None:
    page = parse("<meta http-equiv=refresh content='5; url=next'><a href=a><a href=next>")
    assert page.refresh == (5.0, "http://example.org/dir/next")
    assert paths(page.links) == ["/dir/next", "/dir/a"]
    assert parse("<meta http-equiv=refresh content='500; url=next'>").links == []
    assert parse("<meta http-equiv=refresh content='30; url=page.html'>").links == []
    assert parse("<meta http-equiv=refresh content='30'>").refresh is None
    assert parse_html(b"", URL, refresh="0;/x").refresh == (0.0, "http://example.org/x")


def test_queries_are_sent_in_the_encoding_of_the_page() -> None:
    markup = "<base href='/ü/?ü'><link rel=canonical href='?ü'><a href='ü?ü=€&amp;d=&hearts;'>".encode("iso-8859-15")
    page = parse_html(markup, URL, "text/html; charset=iso-8859-15")
    assert page.links[1:] == ["http://example.org/%C3%BC/%C3%BC?%FC=%A4&d=%26%239829%3B"]
    assert page.canonical == "http://example.org/%C3%BC/?%FC"


@pytest.mark.parametrize(
    ("charset", "href", "query"),
    [
        ("euc-jp", "?①", "%AD%A1"),
        ("iso-2022-jp", "?日本=語é&x", "%1B%24%42%46%7C%4B%5C%1B%28%42=%1B%24%42%38%6C%1B%28%42%26%23233%3B&x"),
        ("big5", "?中ж", "%A4%A4%C8%5C"),
        ("koi8-u", "?ў", "%AE"),
        ("windows-1252", "?\x81ж", "%81%26%231078%3B"),
    ],
)
def test_queries_are_sent_by_the_standard_s_tables(charset: str, href: str, query: str) -> None:
    references = "".join(char if char.isascii() else f"&#x{ord(char):x};" for char in href)
    page = parse_html(f"<a href='{references}'>".encode(), URL, f"text/html; charset={charset}")
    assert paths(page.links) == [f"/dir/page.html?{query}"]


def test_a_page_in_a_single_byte_encoding_that_python_knows_otherwise() -> None:
    page = parse_html(b"<title>\xae\xbe</title><a href='\xae'>", URL, "text/html; charset=koi8-u")
    assert page.title == "ўЎ"
    assert page.links == ["http://example.org/dir/%D1%9E"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "shift_jis", "euc-kr", "gb18030", "iso-2022-jp"])
def test_encodings_whose_bytes_look_like_markup(encoding: str) -> None:
    text = "能ソ表" if encoding != "euc-kr" else "한국어"
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    markup = mark + f"<title>{text}</title><a title='{text}' href='{text}'>".encode(encoding)
    page = parse_html(markup, URL, "" if mark else f"text/html; charset={encoding}")
    assert page.title == text
    assert page.links == parse(f"<a href='{text}'>").links


def test_wrong_bytes_are_replaced() -> None:
    page = parse_html(b"<title>a\xffb\0</title><a href='x\xff\0'>", URL, "text/html; charset=utf-8")
    assert page.title == "a\ufffdb\ufffd"
    assert paths(page.links) == ["/dir/x%EF%BF%BD%EF%BF%BD"]


def test_titles_of_images_and_templates_are_not_the_page_s() -> None:
    page = parse("<svg><g><title>image</title></g></svg><template><title>t</title></template><title>page</title>")
    assert page.title == "page"
    assert parse("<title></title><title>second</title>").title == ""


def test_limits() -> None:
    markup = "".join(f"<a href={n}>" for n in range(50)) + f"<title>{'t ' * 9000}</title>"
    assert len(parse_html(markup.encode(), URL, max_links=10).links) == 10
    assert len(parse(markup).title) == 2000
    assert len(parse(f"<html lang={'l' * 999}>").language) == 64


@pytest.mark.parametrize(
    "body", [b"", b"<", b"</", b"<!", b"<!-", b"<!--", b"<a", b"<a ", b"<a href", b"<a href=", b"<a href='"]
)
def test_pages_that_end_early(body: bytes) -> None:
    assert parse_html(body, URL).links == []
    assert parse_html(b"<a href=x>" + body, URL).links == ["http://example.org/dir/x"]


# Linear time: each of these takes minutes where a parser goes back or walks up the tree at each tag (T043, T044).
@pytest.mark.parametrize(
    "body",
    [
        b"<div>" * 200_000,
        b"<ul><li>" * 100_000 + b"</ul>" * 100_000,
        b"<p>" + b"".join(b"<b id=%d>" % n for n in range(500)) + b"<p>x" * 50_000,
        b"<a " + b"".join(b"a%d=1 " % n for n in range(200_000)) + b">",
        b"<" * 500_000,
        b"<a href='" * 100_000,
        b"<!--" * 200_000,
        b"<script><!--" + b"<script>" * 100_000,
        b"<svg><title>" * 50_000,
        b"<textarea></textare" * 50_000,
        b"<a href='" + b"&" * 1_000_000 + b"'>",
        b"<a href=data:" + b"x" * 5_000_000 + b">",
        b"<title>" + b"&" * 1_000_000,
        b"<template shadowrootmode=open>" * 50_000,
        b"<iframe srcdoc='<a href=x>'></iframe>" * 20_000,
        b"<iframe srcdoc='" + b"&lt;iframe srcdoc=" * 50_000 + b"'>",
    ],
    ids=lambda body: body[:12].decode(),
)
def test_hostile_pages_take_linear_time(body: bytes) -> None:
    parse_html(body, URL)


def test_hostile_markup_hides_no_links() -> None:
    body = b"<a href=first>" + b"<div>" * 5_000 + b"<a title='>' href=deep rel=nofollow>" + b"</div>" * 5_000
    page = parse_html(body + b"<a href=last>", URL)
    assert paths(page.links) == ["/dir/first", "/dir/last"]
    assert paths(page.nofollow_links) == ["/dir/deep"]

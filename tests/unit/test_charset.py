"""Encodings: which one is declared, and decoding that never fails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webencodings import LABELS

from gossamer.web import charset
from gossamer.web.charset import declared_charset, decode, label

XML = b'<?xml version="1.0" encoding = "koi8-r"?>'
META = b'<meta charset="windows-1251">'


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"\xef\xbb\xbf" + META, "text/html; charset=koi8-r", "utf-8"),
        (b"\xff\xfe<\0", "text/html; charset=utf-8", "utf-16le"),
        (b"\xfe\xff\0<", "", "utf-16be"),
        (META, "text/html; charset=koi8-r", "koi8-r"),
        (META, 'text/html; charset="KOI8-R"', "koi8-r"),
        (META, "text/html;charset=none", "windows-1251"),
        (META, "", "windows-1251"),
        (b"<meta charset=utf-16>", "", "utf-8"),
        (b"<meta charset=x-user-defined>", "", "windows-1252"),
        (b"<meta charset=utf-7>\xc3\xa9", "", "utf-8"),
        (b"plain", "", "windows-1252"),
        ("ö".encode(), "", "utf-8"),
        (b"\xf6", "", "windows-1252"),
        ("ö".encode() * 9 + b"\xe2\x82", "", "utf-8"),  # cut within a character
        (b"\xf6" + b" " * 5000 + META, "", "windows-1251"),
        (b"", "", "windows-1252"),
        (XML, "", "koi8-r"),
        (XML.replace(b'"', b"'"), "text/html", "koi8-r"),
        (XML, "text/html; charset=big5", "big5"),
        (XML + META, "", "windows-1251"),
        (XML + b" " * 2000 + META, "", "koi8-r"),
        (b" " + XML, "", "windows-1252"),
        (XML.replace(b"?>", b"?"), "", "windows-1252"),
        (XML.replace(b"koi8-r", b"utf-16"), "", "utf-8"),
        (XML.replace(b"koi8-r", b"koi8 r"), "", "windows-1252"),
        (XML.replace(b"koi8-r", b"nonsense"), "", "windows-1252"),
        (b"<?xml?><p encoding='koi8-r'>", "", "windows-1252"),
        ("<?xml version='1.0'?>".encode("utf-16-le"), "", "utf-16le"),
        ("<?xml version='1.0'?>".encode("utf-16-be"), "", "utf-16be"),
        (b"\xef\xbb", "", "utf-8"),
    ],
)
def test_what_is_declared(body: bytes, content_type: str, expected: str) -> None:
    assert declared_charset(body, content_type) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("latin1", "windows-1252"),
        (" UTF8\n", "utf-8"),
        ("sjis", "shift_jis"),
        ("gb2312", "gbk"),
        ("hz-gb-2312", "replacement"),
        ("unicode", "utf-16le"),
        ("utf-7", ""),
        ("nonsense", ""),
    ],
)
def test_labels(text: str, name: str) -> None:
    assert label(text) == name


def test_every_encoding_can_be_decoded() -> None:
    for name in set(LABELS.values()):
        assert isinstance(decode(bytes(range(256)) * 2, name), str)
        assert len(charset.table(name)) in (0, 256)


def test_text() -> None:
    assert decode("\ufeffä".encode(), "utf-8") == "ä"
    assert decode("\ufeffä".encode("utf-16-le"), "utf-16le") == "ä"
    assert decode(b"a\xffb", "utf-8") == "a\ufffdb"
    assert decode(b"anything", "replacement") == "\ufffd"
    assert decode(b"a\x80", "x-user-defined") == "a\uf780"


MARKUP = st.sampled_from([b"<meta", b" charset", b"=", b'"', b"'", b"utf-8", b">", b"<!--", b"-->", b"</p", b"/", b" "])


@given(st.lists(MARKUP | st.binary(max_size=3), max_size=30).map(b"".join), st.text(max_size=30))
def test_anything_has_an_encoding_and_a_text(body: bytes, content_type: str) -> None:
    decode(body, declared_charset(body, content_type))


_PIECES = [
    b"<!doctype html>",
    b"<?xml x?>",
    b'<html lang="en">',
    b"<head>",
    b"</head>",
    b"<!-- <meta charset=x> -->",
    b"<!-",
    b"-->",
    b'<meta charset="koi8-r">',
    b'<META charset="utf-8"/>',
    b'<meta charset="utf-16">',
    b"<meta charset=big5/>",
    b"<meta ",
    b'<meta name="a" content="text/html; charset=big5">',
    b'<meta http-equiv="Content-Type" content="text/html; charset=gbk" />',
    b'<meta content="text/html;charset=gbk" http-equiv="content-type">',
    b'<metadata charset="gbk">',
    b'name="x>y" ',
    b'"',
    b"'",
    b'charset="euc-kr"',
    b"<a href='x>",
    b'<a b="c"d>',
    b"<br/>",
    b"< ",
    b"</",
    b">",
    b"/",
    b"=",
    b" ",
    b"\0",
    b"x",
    b"<p",
    b'<meta charset="no">',
]


@given(st.lists(st.sampled_from(_PIECES), max_size=12), st.integers(0, 200))
def test_what_is_declared_plainly_is_what_the_prescan_finds(pieces: list[bytes], limit: int) -> None:
    body = b"".join(pieces)
    for most in (limit, 1024):
        assert charset._of_meta(body, most) == charset._prescanned(body, most)

"""Which bodies are pages."""

import pytest

from gossamer.web.sniff import is_html
from gossamer.web.text import text_of

# MIME Sniffing, section 7.1.
TAGS = (
    "!DOCTYPE HTML", "HTML", "HEAD", "SCRIPT", "IFRAME", "H1", "DIV", "FONT", "TABLE", "A", "STYLE", "TITLE", "B",
    "BODY", "BR", "P", "!--",
)  # fmt: skip
UNKNOWN = ("", "unknown/unknown", "application/unknown", "*/*")


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("mime", UNKNOWN)
def test_unknown_types_are_sniffed(tag: str, mime: str) -> None:
    for spelled in (tag, tag.lower(), tag.title()):
        assert is_html(f"<{spelled}>".encode(), mime)
        assert is_html(f"\t\n\f\r <{spelled} x".encode(), mime)
        assert is_html(f"<{spelled}x>".encode(), mime) is (tag in ("HTML", "HEAD", "BODY", "TITLE", "!DOCTYPE HTML"))


@pytest.mark.parametrize("mime", UNKNOWN)
def test_what_is_no_page(mime: str) -> None:
    for body in (
        b"",
        b"plain",
        b"%PDF-1.7 <div>",
        b"a <div>",
        b"<?xml version='1.0'?><feed/>",
        b"<",
        b"<div",
        b"<svg>",
    ):
        assert not is_html(body, mime)


@pytest.mark.parametrize(
    ("mime", "body", "expected"),
    [
        ("text/html", b"", True),
        ("application/xhtml+xml", b"", True),
        ("text/plain", b"<div>", False),  # only what clearly is a page
        ("text/plain", b"<!doctype html>", True),
        ("application/xml", b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>", True),
        ("application/octet-stream", b"<html>", True),
        ("image/png", b"<html>", False),
        ("application/json", b"<p>", False),
    ],
)
def test_declared_types(mime: str, body: bytes, expected: bool) -> None:
    assert is_html(body, mime) is expected


@pytest.mark.parametrize("mime", UNKNOWN)
def test_the_text_of_unknown_types(mime: str) -> None:
    assert text_of(b"<p>one<p>two", mime) == "one\ntwo"

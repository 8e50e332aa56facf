"""`Answer` is an answer of a server as it came: it decodes the body, and reads it as text, when that is asked for."""

import codecs
import contextlib
from dataclasses import dataclass
from functools import cached_property

from gossamer.config import Fetch
from gossamer.web.charset import declared_charset, decode
from gossamer.web.html import text_of
from gossamer.web.http import Headers, content_type, decode_body, headers_of
from gossamer.web.sniff import HTML, UNKNOWN

DECODED_BYTES = Fetch().decoded_bytes
TEXT_BYTES = 16 << 20  # of a body that are read as text: a page that is larger is none
_TEXTUAL = ("application/xml", "application/json", "application/javascript", "application/ecmascript")
_UNTYPED = UNKNOWN | {"application/octet-stream"}
_SNIFFED = 1024  # a NUL among so many bytes makes an undeclared body binary


@dataclass(frozen=True)
class Answer:
    """`Answer` is an answer as it was stored."""

    head: bytes
    wire: bytes

    @cached_property
    def headers(self) -> Headers:
        return headers_of(self.head)

    @cached_property
    def body(self) -> bytes:
        """Returns the body as the server meant it: chunks joined, codings undone."""
        return decode_body(self.wire, self.headers, DECODED_BYTES)[0]

    def header(self, name: str) -> str | None:
        values = self.headers.get_all(name.lower())
        return ", ".join(values) if values else None

    def content(self) -> str | None:
        """Returns the body as text; None if it is not text. Of a very large one, as of all texts, the beginning."""
        return self._decoded() if self._is_text(content_type(self.headers)[0]) else None

    def utf8(self) -> bytes | None:
        """Returns the same in UTF-8. What was valid UTF-8 is not encoded again: that takes as long as to parse it."""
        mime, declared = content_type(self.headers)
        if not self._is_text(mime):
            return None
        charset = declared_charset(self.body, declared)
        if charset == "utf-8" and self.body.isascii():
            return self.body
        if charset == "utf-8":
            with contextlib.suppress(UnicodeDecodeError):
                self.body.decode()
                return self.body.removeprefix(codecs.BOM_UTF8)
        return decode(self.body, charset).encode()

    def text(self) -> str | None:
        """Returns the text that a person would read."""
        if not self._is_html():
            return self.content()
        mime, declared = content_type(self.headers)
        return text_of(self._start, declared if mime in HTML else "text/html" + declared[len(mime) :])

    def main_text(self, extractor: str = "resiliparse") -> str | None:
        """Returns the text of the page itself, without what surrounds it; of what is no HTML all of it."""
        from gossamer.web.main_text import main_text

        return main_text(self._decoded(), extractor) if self._is_html() else self.text()

    def markdown(self, extractor: str = "resiliparse") -> str | None:
        """Returns the same as Markdown."""
        from gossamer.web.main_text import markdown

        return markdown(self._decoded(), extractor) if self._is_html() else self.text()

    def licences(self) -> list[str]:
        """Returns what the page says of its licence."""
        from gossamer.web.main_text import licences_of

        return licences_of(self._decoded()) if self._is_html() else []

    @property
    def _start(self) -> bytes:
        return self.body[:TEXT_BYTES]

    def _decoded(self) -> str:
        return decode(self._start, declared_charset(self._start, content_type(self.headers)[1]))

    def _is_html(self) -> bool:
        mime = content_type(self.headers)[0]
        return mime in HTML or (mime in _UNTYPED and self.body[:_SNIFFED].lstrip()[:1] == b"<")

    def _is_text(self, mime: str) -> bool:
        if mime in _UNTYPED:
            return b"\0" not in self.body[:_SNIFFED]
        return mime.startswith("text/") or mime in _TEXTUAL or mime.endswith(("+xml", "+json"))

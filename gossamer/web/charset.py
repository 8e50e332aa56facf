"""This module decides which character encoding a body has, and decodes it.

The order is that of the HTML standard: byte order mark, Content-Type header, meta element, XML declaration. A body that
declares nothing is UTF-8 if it has non-ASCII bytes and they are valid UTF-8, otherwise windows-1252.
"""

import codecs
import re

from webencodings import LABELS, PYTHON_NAMES

from gossamer.web import legacy

try:
    from gossamer.web._scan import declared
except ImportError:  # not built on this machine

    def declared(body: bytes, limit: int) -> str:  # noqa: ARG001
        return ""


_CJK = frozenset(("gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr"))
_OTHERS = frozenset(("utf-8", "utf-16be", "utf-16le", "replacement"))
_RENAMED = frozenset(("utf-16be", "utf-16le", "x-user-defined"))  # that a meta element cannot mean

_PRESCAN_BYTES = 1024  # the standard's
_LATE_BYTES = 16_384  # for pages that declare their encoding late and are not UTF-8
_HEADER = re.compile(r"""charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"',]+))""", re.IGNORECASE)
_CONTENT = re.compile(rb"""charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|([^\t\n\f\r ;"']+))""", re.IGNORECASE)
_XML = re.compile(rb"""<\?xml(?=[^>]*>)[^>]*?encoding[\0- ]*=[\0- ]*(?:"([^"\0- ]+)"|'([^'\0- ]+)')""")
_NEXT = re.compile(rb"<(?:(!--)|(meta)(?=[\t\n\f\r /])|/?[a-z][^\t\n\f\r >]*|[!/?])", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    rb"""[\t\n\f\r /]*(?:(>)|([^\t\n\f\r />][^\t\n\f\r />=]*)"""
    rb"""(?:[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|(?!["'])([^\t\n\f\r >]*)))?(?=[\t\n\f\r />"']))"""
)


def declared_charset(body: bytes, content_type: str = "") -> str:
    """Returns the WHATWG name of the encoding of a body."""
    if body[:2] in (b"\xef\xbb", b"\xfe\xff", b"\xff\xfe"):
        if body.startswith(b"\xef\xbb\xbf"):
            return "utf-8"
        if body[0] != 0xEF:
            return "utf-16be" if body[0] == 0xFE else "utf-16le"
    header = _HEADER.search(content_type) if "=" in content_type else None
    name = label(header[1] or header[2] or header[3] or "") if header else ""
    return name or _of_prescan(body) or _undeclared(body)


def _of_prescan(body: bytes) -> str:
    """Returns what the page declares: in a meta element, else in an XML declaration at its very beginning."""
    if body.startswith((b"<\0?\0x\0", b"\0<\0?\0x")):
        return "utf-16le" if body[0] else "utf-16be"
    return _of_meta(body, _PRESCAN_BYTES) or _of_xml(body)


def _of_xml(body: bytes) -> str:
    """Implements the standard's "get an XML encoding"."""
    declared = _XML.match(body, 0, _PRESCAN_BYTES) if body.startswith(b"<?xml") else None
    name = label((declared[1] or declared[2]).decode("latin-1")) if declared else ""
    return "utf-8" if name.startswith("utf-16") else name


def label(text: str) -> str:
    """Returns the WHATWG name for a label of the Encoding standard, "" if there is none."""
    name: str = LABELS.get(text.strip("\t\n\f\r ").lower(), "")
    return name


def table(charset: str) -> str:
    """Returns the 256 characters of a single-byte encoding, "" for others."""
    return "" if charset in _CJK or charset in _OTHERS else legacy.table(PYTHON_NAMES.get(charset, charset))


def decode(body: bytes, charset: str) -> str:
    """Returns the text without a byte order mark; what is not valid becomes U+FFFD."""
    if charset == "replacement":
        return "\ufffd" if body else ""
    if charset in _CJK:
        return legacy.decode(body, charset)
    if charset in _OTHERS:
        return body.decode(charset, "replace").removeprefix("\ufeff")
    return codecs.charmap_decode(body, "strict", table(charset))[0]


def encode(text: str, charset: str) -> bytes | None:
    """Returns the bytes of a character in an encoding that is no Unicode; None if it has none (see `legacy.encode`)."""
    if charset in _CJK:
        return legacy.encode(text, charset)
    at = table(charset).find(text)
    return bytes([at]) if at >= 0 and text != "\ufffd" else None


def _undeclared(body: bytes) -> str:
    if body.isascii():
        return _of_meta(body, _LATE_BYTES) or "windows-1252"
    try:
        body.decode()
    except UnicodeDecodeError as error:
        # A page cut by a limit may end within a character.
        if error.start < len(body) - 3 or error.reason != "unexpected end of data":
            return _of_meta(body, _LATE_BYTES) or "windows-1252"
    return "utf-8"


def _of_meta(body: bytes, limit: int) -> str:
    """Implements the standard's prescan of a byte stream to determine its encoding."""
    name = label(declared(body, limit))
    return name if name and name not in _RENAMED else _prescanned(body, limit)


def _prescanned(body: bytes, limit: int) -> str:
    if b"charset" not in body[:limit].lower():
        return ""
    at, end = 0, min(limit, len(body))
    while found := _NEXT.search(body, at, end):
        if found[1]:  # "<!-->" is a whole comment
            close = body.find(b"-->", found.end() - 2, end)
            at = close + 3
        elif found[2]:
            name, at = _meta(body, found.end(), end)
            if name:
                return name
        elif found.end() - found.start() > 1 and body[found.end() - 1] in b"!/?":
            close = body.find(b">", found.end(), end)
            at = close + 1
        else:
            close = _skip_attributes(body, found.end(), end)
            at = close
        if not found[2] and close < 0:
            return ""
    return ""


def _skip_attributes(body: bytes, at: int, end: int) -> int:
    while attribute := _ATTRIBUTE.match(body, at, end):
        at = attribute.end()
        if attribute[1]:
            return at
    return -1


def _meta(body: bytes, at: int, end: int) -> tuple[str, int]:
    """Returns what a meta element declares, and where to go on."""
    seen: set[bytes] = set()
    charset = content = ""
    is_pragma = False
    while attribute := _ATTRIBUTE.match(body, at, end):
        at = attribute.end()
        if attribute[1]:
            found = charset or (content if is_pragma else "")
            name = label(found)
            if name.startswith("utf-16"):
                name = "utf-8"  # it could be read, so it is not UTF-16
            return "windows-1252" if name == "x-user-defined" else name, at
        key = attribute[2].lower()
        if key in seen:
            continue
        seen.add(key)
        value = attribute[3] or attribute[4] or attribute[5] or b""
        if key == b"charset":
            charset = value.decode("latin-1")
        elif key == b"http-equiv":
            is_pragma = value.lower() == b"content-type"
        elif key == b"content":
            declared = _CONTENT.search(value)
            if declared:
                content = (declared[1] or declared[2] or declared[3] or b"").decode("latin-1")
    return "", end

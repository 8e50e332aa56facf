"""The only module that decides which character encoding a body is in, and decodes it.

Byte order mark, then the Content-Type header, then a meta element, then an XML declaration, as in the HTML standard;
what declares nothing is UTF-8 if it has non-ASCII bytes and they are valid UTF-8, otherwise windows-1252.
"""

import codecs
import re

from gossamer.web import legacy

# The Encoding standard's labels: WHATWG name, Python codec ("legacy" mends what differs), labels besides the name.
_TABLE = """
utf-8 utf-8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8
ibm866 cp866 866 cp866 csibm866
iso-8859-2 iso8859-2 csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2
iso-8859-3 iso8859-3 csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3
iso-8859-4 iso8859-4 csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4
iso-8859-5 iso8859-5 csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988
iso-8859-6 iso8859-6 arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e
iso-8859-6 iso8859-6 iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987
iso-8859-7 iso8859-7 csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7 iso88597
iso-8859-7 iso8859-7 iso_8859-7 iso_8859-7:1987 sun_eu_greek
iso-8859-8 iso8859-8 csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso8859-8 iso88598
iso-8859-8 iso8859-8 iso_8859-8 iso_8859-8:1988 visual
iso-8859-8-i iso8859-8 csiso88598i logical
iso-8859-10 iso8859-10 csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6
iso-8859-13 iso8859-13 iso8859-13 iso885913
iso-8859-14 iso8859-14 iso8859-14 iso885914
iso-8859-15 iso8859-15 csisolatin9 iso8859-15 iso885915 iso_8859-15 l9
iso-8859-16 iso8859-16
koi8-r koi8-r cskoi8r koi koi8 koi8_r
koi8-u koi8-u koi8-ru
macintosh mac-roman csmacintosh mac x-mac-roman
windows-874 cp874 dos-874 iso-8859-11 iso8859-11 iso885911 tis-620
windows-1250 cp1250 cp1250 x-cp1250
windows-1251 cp1251 cp1251 x-cp1251
windows-1252 cp1252 ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1
windows-1252 cp1252 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252
windows-1253 cp1253 cp1253 x-cp1253
windows-1254 cp1254 cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989
windows-1254 cp1254 l5 latin5 x-cp1254
windows-1255 cp1255 cp1255 x-cp1255
windows-1256 cp1256 cp1256 x-cp1256
windows-1257 cp1257 cp1257 x-cp1257
windows-1258 cp1258 cp1258 x-cp1258
x-mac-cyrillic mac-cyrillic x-mac-ukrainian
gbk gb18030 chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk
gb18030 gb18030
big5 big5hkscs big5-hkscs cn-big5 csbig5 x-x-big5
euc-jp euc-jp cseucpkdfmtjapanese x-euc-jp
iso-2022-jp iso2022-jp csiso2022jp
shift_jis cp932 csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis
euc-kr cp949 cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601
euc-kr cp949 windows-949
replacement - csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr
utf-16be utf-16-be unicodefffe
utf-16le utf-16-le csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16
x-user-defined x-user-defined
"""
_CODECS: dict[str, str] = {}
_LABELS: dict[str, str] = {}
for _name, _codec, *_labels in map(str.split, _TABLE.strip().splitlines()):
    _CODECS[_name] = _codec
    _LABELS.update(dict.fromkeys([_name, *_labels], _name))

_CJK = frozenset(("gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr"))
_OTHERS = frozenset(("utf-8", "utf-16be", "utf-16le", "replacement"))

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
    """The WHATWG name of the encoding of a body."""
    if body[:2] in (b"\xef\xbb", b"\xfe\xff", b"\xff\xfe"):
        if body.startswith(b"\xef\xbb\xbf"):
            return "utf-8"
        if body[0] != 0xEF:
            return "utf-16be" if body[0] == 0xFE else "utf-16le"
    header = _HEADER.search(content_type) if "=" in content_type else None
    name = label(header[1] or header[2] or header[3] or "") if header else ""
    return name or _of_prescan(body) or _undeclared(body)


def _of_prescan(body: bytes) -> str:
    """What the page says itself: a meta element, else an XML declaration at its very beginning."""
    if body.startswith((b"<\0?\0x\0", b"\0<\0?\0x")):
        return "utf-16le" if body[0] else "utf-16be"
    return _of_meta(body, _PRESCAN_BYTES) or _of_xml(body)


def _of_xml(body: bytes) -> str:
    """The standard's "get an XML encoding"."""
    declared = _XML.match(body, 0, _PRESCAN_BYTES) if body.startswith(b"<?xml") else None
    name = label((declared[1] or declared[2]).decode("latin-1")) if declared else ""
    return "utf-8" if name.startswith("utf-16") else name


def label(text: str) -> str:
    """The WHATWG name for a label, "" if there is none."""
    return _LABELS.get(text.strip("\t\n\f\r ").lower(), "")


def table(charset: str) -> str:
    """The 256 characters of a single-byte encoding, "" for others."""
    return "" if charset in _CJK or charset in _OTHERS else legacy.table(_CODECS[charset])


def decode(body: bytes, charset: str) -> str:
    """The text; what is not valid becomes U+FFFD. A byte order mark is not part of it."""
    if charset == "replacement":
        return "\ufffd" if body else ""
    if charset in _CJK:
        return legacy.decode(body, charset)
    if charset in _OTHERS:
        return body.decode(_CODECS[charset], "replace").removeprefix("\ufeff")
    return codecs.charmap_decode(body, "strict", table(charset))[0]


def encode(text: str, charset: str) -> bytes | None:
    """What stands for a character in an encoding that is no Unicode; None if nothing does (see `legacy.encode`)."""
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
    """The standard's prescan of a byte stream to determine its encoding."""
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
    """What a meta element declares, and where to go on."""
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

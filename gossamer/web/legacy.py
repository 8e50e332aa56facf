"""This module decodes the Encoding standard's legacy encodings: Python's codecs, mended where they differ from it.

Single-byte encodings are tables. For the others a codec does the bulk, at its speed. Where it stops, an error handler
takes the standard's next step: a character that Python does not know, or an error as long as the standard makes it,
so that nothing after it is garbled. Characters that Python reads otherwise are exchanged in the end.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct

Step = Callable[[bytes, int], int]  # body, where an error begins -> where to go on

_WRONG = "\ufffd"
# KOI8-U has these letters of KOI8-RU, which its pages mean; Windows knows one more Hebrew point.
_SINGLE = {"koi8-u": {0xAE: "ў", 0xBE: "Ў"}, "windows-1255": {0xCA: "\u05ba"}}

# Code of the first character, then characters in the order of their codes. Big5: what HKSCS had before and after the
# version that Python knows (2004), and the standard's choice where Big5's makers disagreed.
_BIG5 = """
877a㡵𡵓𣚞𦀡㻬𥣞㫵竼龗𤅡𨤍𣇪𠪊𣉞䌊蒄龖鐯䤰蘓墖靊鈘秐稲晠権袝瑌篅枂稬剏遆㓦珄𥶹瓆鿇垳䤯呌䄱𣚎堘穲𧭥讏䚮𦺈䆁𥶙箮𢒼鿈𢓁𢓉𢓌鿉蔄𣖻䂴鿊䓡𪷿拁灮鿋
8e69箸 8e6f簆 8e7e糎 8eab緒 8eb4縝 8ecd者 8ed0耨 8f57菁 8f69蒨 8f6e萏 8fcb覦覩 8ffe起 906d都 907a銹 90dc靜 90f1響
91bf鼖 9244蔃 92af兙兛兝兞 92c8鍮 92d1瑹 9447浧 94ca禛 95d9邗 9644靝 96ed瀞 96fc嬨 9b76爁 9b78矗 9b7b纇 9bc6駖 9bde釔
9bec惞 9bf6澶 9c42輶 9c53侻 9c62營 9c68鄄 9c6b鷰 9c77菏 9cbc尐秣 9cd0婧 9d57輋 9d5a筑 9dc4拐 9ea9恢 9eef痹 9efd汊
9f60鬮 9f66鼗 9fcb僭 9fd8弌 a063蠏 a077拎 a0d5瑨 a0df煢 a0e4牐 a145‧ a14e﹑ a1c2¯ a1e3～ a1f2⊕⊙ a244￥ a246￠￡
a3c0␀␁␂␃␄␅␆␇␈␉␊␋␌␍␎␏␐␑␒␓␔␕␖␗␘␙␚␛␜␝␞␟␡€ c6cf廴 c6d3无 c6d5癶 c6d7隶 c6de〃仝 fa5f倩 fa66偽 fabd包 fac5卄
fad5卿 fb48嘅 fbb8婷 fbf3幵 fbf9廐 fc4f彘 fc6c悤 fcb9撐 fce2晴 fcf1杞 fdb7沜渝 fdbb港 fdf1煮 fe52猪 fe6f瑜 feaa瓩 fedd砉
"""
# GB 18030-2022 instead of 2000.
_GB18030 = """
a6d9︐︒︑︓︔︕︖ a6ec︗︘ a6f3︙ a8bcḿ fe59龴 fe61龵 fe66龶龷 fe6d龸 fe7e龹 fe90龺 fea0龻
"""
_GB18030_OTHERS = {b"\x80": "€", b"\xa3\xa0": "\u3000", b"\x81\x35\xf4\x37": "\ue7c7"}
# Sequences that Python reads as a character which another sequence rightly is: they are looked for, unit by unit.
_APART = {
    "euc-jp": {b"\x8f\xa2\xb7": "～"},
    "big5": {b"\xa2\x41": "∕", b"\xa2\x42": "﹨"},
}
_UNITS = {
    "euc-jp": re.compile(rb"\x8f[\xa1-\xfe][\x80-\xff]|[\x8e\x8f\xa1-\xfe][\x80-\xff]"),
    "big5": re.compile(rb"[\x81-\xfe][\x40-\x7e\x80-\xff]"),
}

# What characters of half width are in ISO-2022-JP, and which ones of Big5 have their last code instead of the first.
_FULL_WIDTH = "。「」、・ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテト"
_FULL_WIDTH += "ナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン゛゜"
_LAST_OF_BIG5 = "═╞╡╪十卅"

_ESCAPE = re.compile(rb"\x1b(?:\(([BJI])|\$[@B])")
_JIS = re.compile(rb"((?:[\x21-\x7e]{2})+)|[\x21-\x7e](?:[^\x1b\x21-\x7e]|(?=\x1b)|\Z)|[^\x21-\x7e]", re.DOTALL)
_HIGH = bytes(byte | 0x80 for byte in range(256))


@lru_cache(maxsize=32)
def table(codec: str) -> str:
    """Returns the 256 characters of a single-byte encoding. What has none in C1 is the control character."""
    if codec == "x-user-defined":
        return bytes(range(128)).decode() + "".join(chr(0xF780 + byte) for byte in range(128))
    known = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
    known[0x80:0xA0] = [chr(0x80 + i) if char == _WRONG else char for i, char in enumerate(known[0x80:0xA0])]
    for byte, char in _SINGLE.get(codec, {}).items():
        known[byte] = char
    return "".join(known)


class _Mended(Struct, frozen=True):
    codec: str
    errors: str  # name of the error handler
    exchanged: dict[str, str]

    def decode(self, body: bytes) -> str:
        text = body.decode(self.codec, self.errors)
        present = {old: new for old, new in self.exchanged.items() if old in text}
        if not present.keys().isdisjoint(present.values()):  # two change places
            return text.translate({ord(old): new for old, new in present.items()})
        for old, new in present.items():
            text = text.replace(old, new)
        return text


def _mended(codec: str, others: dict[bytes, str], step: Step) -> _Mended:
    """Returns a codec in which the byte sequences of `others` are these characters."""
    added: dict[bytes, str] = {}
    exchanged: dict[str, str] = {}
    for sequence, char in others.items():
        try:
            known = sequence.decode(codec)
        except UnicodeDecodeError:
            added[sequence] = char
        else:
            if known != char:
                exchanged[known] = char

    def go_on(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        body, at = error.object, error.start
        for sequence in (body[at : at + 2], body[at : at + 1]):
            if sequence in added:
                return added[sequence], at + len(sequence)
        after = step(body, at)
        wrong, count = body[at:after], 1
        while body.startswith(wrong, after):  # files of nothing else would call this for each
            after, count = after + len(wrong), count + 1
        return _WRONG * count, after

    errors = f"gossamer.web.legacy.{codec}"
    codecs.register_error(errors, go_on)
    return _Mended(codec, errors, exchanged)


def _pair(leads: bytes) -> Step:
    """An error takes a lead byte and what follows, unless that is ASCII: then it counts for itself."""

    def step(body: bytes, at: int) -> int:
        return at + 2 if body[at] in leads and body[at + 1 : at + 2] > b"\x7f" else at + 1

    return step


def _step_euc_jp(body: bytes, at: int) -> int:
    following = body[at + 1 : at + 2]
    if body[at] == 0x8F and b"\xa1" <= following <= b"\xfe":
        return at + 3 if body[at + 2 : at + 3] > b"\x7f" else at + 2
    return _step_jis(body, at)


_step_jis = _pair(b"\x8e\x8f" + bytes(range(0xA1, 0xFF)))


def _step_gb18030(body: bytes, at: int) -> int:
    if not 0x81 <= body[at] <= 0xFE:
        return at + 1
    second, third, fourth = (body[at + i : at + i + 1] for i in (1, 2, 3))
    if not b"0" <= second <= b"9":
        return at + 2 if second > b"\x7f" else at + 1
    if not third or (b"\x81" <= third <= b"\xfe" and not fourth):
        return len(body)
    return at + 4 if b"\x81" <= third <= b"\xfe" and b"0" <= fourth <= b"9" else at + 1


def _runs(text: str, trails: bytes) -> Iterator[tuple[bytes, str]]:
    for run in text.split():
        lead, first = bytes.fromhex(run[:4])
        for trail, char in zip(trails[trails.index(first) :], run[4:], strict=False):
            yield bytes((lead, trail)), char


def _jis() -> dict[bytes, str]:
    """Returns where EUC-JP differs from JIS X 0208 as Microsoft has it, with the characters of NEC and IBM."""
    found: dict[bytes, str] = {}
    for pointer in range(94 * 94):
        lead, trail = divmod(pointer, 188)
        shifted = bytes((lead + (0x81 if lead < 0x1F else 0xC1), trail + (0x40 if trail < 0x3F else 0x41)))
        pair = bytes((0xA1 + pointer // 94, 0xA1 + pointer % 94))
        char = shifted.decode("cp932", "replace")
        if _WRONG not in char and char != pair.decode("euc-jp", "replace"):
            found[pair] = char
    return found


@lru_cache(maxsize=8)
def _encoding(charset: str) -> _Mended:
    if charset == "euc-jp":
        return _mended("euc-jp", _jis(), _step_euc_jp)
    if charset == "shift_jis":
        none = {bytes([byte]): _WRONG for byte in (0xA0, 0xFD, 0xFE, 0xFF)}
        return _mended("cp932", none, _pair(bytes([*range(0x81, 0xA0), *range(0xE0, 0xFD)])))
    leads = bytes(range(0x81, 0xFF))
    if charset == "euc-kr":
        return _mended("cp949", {}, _pair(leads))
    if charset == "big5":
        trails = bytes([*range(0x40, 0x7F), *range(0xA1, 0xFF)])
        return _mended("big5hkscs", dict(_runs(_BIG5, trails)), _pair(leads))
    trails = bytes([*range(0x40, 0x7F), *range(0x80, 0xFF)])
    return _mended("gb18030", _GB18030_OTHERS | dict(_runs(_GB18030, trails)), _step_gb18030)


def decode(body: bytes, charset: str) -> str:
    """Returns the text of a body in one of the encodings of Chinese, Japanese and Korean."""
    if charset == "iso-2022-jp":
        return _from_iso_2022_jp(body)
    encoding = _encoding("gb18030" if charset == "gbk" else charset)
    apart = _APART.get(charset, {})
    if not any(sequence in body for sequence in apart):
        return encoding.decode(body)
    pieces, at = [], 0
    for unit in _UNITS[charset].finditer(body):
        if unit[0] in apart:
            pieces += [encoding.decode(body[at : unit.start()]), apart[unit[0]]]
            at = unit.end()
    return "".join([*pieces, encoding.decode(body[at:])])


@lru_cache(maxsize=1)
def _single_sets() -> dict[bytes, str]:
    """Returns ISO-2022-JP's sets of one byte by the letter of their escape sequence."""
    wrong = _WRONG * 128
    ascii_ = "".join(_WRONG if byte in (0x0E, 0x0F, 0x1B) else chr(byte) for byte in range(128)) + wrong
    katakana = "".join(chr(0xFF61 - 0x21 + byte) if 0x21 <= byte <= 0x5F else _WRONG for byte in range(128)) + wrong
    return {b"B": ascii_, b"J": ascii_.translate({0x5C: "¥", 0x7E: "‾"}), b"I": katakana}


def _from_iso_2022_jp(body: bytes) -> str:
    sets = _single_sets()
    pieces: list[str] = []
    letter: bytes | None = b"B"  # None: two bytes a character
    at, escaped = 0, False
    for escape in [*_ESCAPE.finditer(body), None]:
        part = body[at : escape.start() if escape else len(body)]
        if letter is not None:
            pieces.append(codecs.charmap_decode(part, "strict", sets[letter])[0])
        elif part:
            raised = _JIS.sub(lambda found: found[1].translate(_HIGH) if found[1] else b"\xff", part)
            pieces.append(_encoding("euc-jp").decode(raised))
        if escape:
            if escaped and not part:
                pieces.append(_WRONG)  # the standard: nothing may hide in empty runs
            letter, at, escaped = escape[1], escape.end(), True
    return "".join(pieces)


def encode(text: str, charset: str) -> bytes | None:
    """Returns a character as forms and links send it in one of these encodings; None if it has none there.

    For ISO-2022-JP, which changes sets by escape sequences, a run of characters beyond ASCII.
    """
    if charset == "iso-2022-jp":
        return _to_iso_2022_jp(text)
    found = _codes(charset).get(text)
    if found is None and charset in ("gbk", "gb18030") and text != "\ue5e5":
        found = text.encode("gb18030", "ignore")
        return found if found and (charset == "gb18030" or len(found) < 4) else None  # four bytes are none of GBK's
    return found


def _to_iso_2022_jp(text: str) -> bytes | None:
    text = text.translate({0xFF61 + i: full for i, full in enumerate(_FULL_WIDTH)})
    pairs = [_codes("euc-jp").get(char, b"") for char in text]
    if any(len(pair) != 2 or pair[0] < 0xA1 for pair in pairs):
        return None
    return b"\x1b$B" + bytes(byte & 0x7F for pair in pairs for byte in pair) + b"\x1b(B"


@lru_cache(maxsize=8)
def _codes(charset: str) -> dict[str, bytes]:
    """Returns the code of each character: the lowest, but for the standard's exceptions."""
    leads = {"shift_jis": bytes([*range(0x81, 0xA0), *range(0xE0, 0xED), *range(0xFA, 0xFD)]),
             "big5": bytes(range(0xA1, 0xFF)), "euc-jp": bytes(range(0xA1, 0xFF))}  # fmt: skip
    pairs = [bytes((a, b)) for a in leads.get(charset, bytes(range(0x81, 0xFF))) for b in range(0x40, 0xFF)]
    found: dict[str, bytes] = {}
    for pair, text in zip(pairs, decode(b"\n".join(pairs), charset).split("\n"), strict=True):
        if len(text) == 1 and text != _WRONG and (text not in found or (charset == "big5" and text in _LAST_OF_BIG5)):
            found[text] = pair
    if charset in ("shift_jis", "euc-jp"):
        kana = b"" if charset == "shift_jis" else b"\x8e"
        found |= {chr(0xFF61 + i): kana + bytes([0xA1 + i]) for i in range(63)}
        found |= {"¥": b"\\", "‾": b"~", "−": found["－"]}
    if charset == "shift_jis":
        found["\x80"] = b"\x80"
    if charset == "gbk":
        found["€"] = b"\x80"
    return found

"""Legacy encodings against the Encoding standard.

The digests are of what encoding_rs (the decoder of Firefox, in Deno 2.9.8) makes of the same sequences: all of one and
two bytes, longer ones of EUC-JP, ISO-2022-JP and GB 18030, and random ones in which errors meet.
"""

import random
from hashlib import sha256

import pytest

from gossamer.web import legacy
from gossamer.web.charset import decode, encode

SINGLE = {
    "ibm866": "eb05ece5644a58a9", "iso-8859-2": "57cbc016a4e8d2d1", "iso-8859-3": "c72e1a7c41ad20e8",
    "iso-8859-4": "49ebb9bb2f1fa960", "iso-8859-5": "a12868e469183e7e", "iso-8859-6": "4b22c73dc78691e9",
    "iso-8859-7": "0b9336f9efca2631", "iso-8859-8": "6a84b2a46f27f976", "iso-8859-8-i": "6a84b2a46f27f976",
    "iso-8859-10": "7a50224c5bf013f1", "iso-8859-13": "c8369f6367690aa7", "iso-8859-14": "d603707d0860c1ce",
    "iso-8859-15": "0e3619c0f3f07c68", "iso-8859-16": "0ae6b5502ecbd7c9", "koi8-r": "9cfc58c107a591f6",
    "koi8-u": "ab4743987f8e67b4", "macintosh": "9d064a58da099fe1", "windows-874": "d4b2680853fb6ec6",
    "windows-1250": "4b2f4af8586d37fb", "windows-1251": "adb8734bb755a838", "windows-1252": "615032db1fd7f701",
    "windows-1253": "3868d1e577596e6b", "windows-1254": "8d20b9f1b87b36f9", "windows-1255": "445ef4417836acda",
    "windows-1256": "203693697d93270e", "windows-1257": "e20cd88fbeedeb08", "windows-1258": "7099ac76d856e5ea",
    "x-mac-cyrillic": "ed4ba3bd6c61038f", "x-user-defined": "760940096afeb100",
}  # fmt: skip
MULTIPLE = {
    "gbk": "6d846f72ed5bca9a", "gb18030": "96c0a44440a3c256", "big5": "a0b2fb59e2a2d78a",
    "euc-jp": "41f222edc8da65f7", "iso-2022-jp": "1c806ac8e7ddc900", "shift_jis": "7371d37caad877d4",
    "euc-kr": "3510a402e07a9339", "utf-8": "1e3d881b6c97a68b", "utf-16le": "edb626754825782f",
    "utf-16be": "af03a75b93eeb6f4",
}  # fmt: skip


def sequences(charset: str) -> list[bytes]:
    found = [bytes([byte]) for byte in range(256)]
    if charset in MULTIPLE:
        noise = random.Random(charset)
        likely = b"\x1b\x1b$(BJI@09A~ \n\x80\x81\x8e\x8f\xa0\xa1\xa2\xb7\xc9\xf0\xfe\xff\x87\x30\x39\x24\x42"
        found += [bytes((a, b)) for a in range(256) for b in range(256)]
        found += [bytes(noise.choices(likely, k=noise.randrange(1, 12))) for _ in range(5_000)]
        found += [noise.randbytes(noise.randrange(1, 30)) for _ in range(2_000)]
    if charset == "euc-jp":
        found += [bytes((0x8F, a, b)) for a in range(256) for b in range(256)]
    if charset == "iso-2022-jp":
        escapes = b"\x1b$B", b"\x1b$@", b"\x1b(J", b"\x1b(I", b"\x1b(B"
        found += [escape + bytes((a, b)) for escape in escapes for a in range(256) for b in range(256)]
    if charset == "gb18030":
        digits, leads = range(0x30, 0x3A), range(0x81, 0xFF)
        found += [
            bytes((a, b, c, d)) for a in (*range(0x81, 0x85), 0x90, 0xE3) for b in digits for c in leads for d in digits
        ]
    return found


def digest(texts: list[str]) -> str:
    return sha256("\0\n".join(texts).encode()).hexdigest()[:16]


@pytest.mark.parametrize("charset", [*SINGLE, *MULTIPLE])
def test_every_sequence_is_what_the_standard_says(charset: str) -> None:
    texts = [decode(sequence, charset) for sequence in sequences(charset)]
    assert digest(texts) == (SINGLE | MULTIPLE)[charset]


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        ("euc-jp", b"a\xad\xa1\xad\xeab", "a①㈱b"),
        ("euc-jp", b"\xad\xe2~\xa1\xc1\x8f\xa2\xb7\x8f\xb0\xa1", "№~～～丂"),
        ("euc-jp", b"\xa4\xa2\xff\xa4\xa4\xf4\xfe\xa4\xa6\xa4", "あ�い�う�"),  # one wrong, the next right
        ("iso-2022-jp", b"\x1b$B-!-j\x1b(B!\x1b(I1\x1b(J\\\x1b(B", "①㈱!ｱ¥"),
        ("iso-2022-jp", b'\x1b$B$"\x80$$\x1b(Bx', "あ�いx"),
        ("big5", b"\xf9\xfe\xa3\xe1\x87\x7a\x88\x62\xa1\xfe\xa2A", "￭€㡵Ê̄／∕"),
        ("big5", b"\xa4\xa4\xffA\xa4\xe5\x81<", "中�A文�<"),  # markup is not swallowed
        ("koi8-u", b"\xae\xbe\xa4", "ўЎє"),
        ("windows-1252", b"\x80\x81\x9d", "€\x81\x9d"),
        ("shift_jis", b"\x87\x40\xa0\x81<a>\xfd", "①��<a>�"),
        ("gbk", b"\x80\xa2\xe3\xa8\xbc", "€€ḿ"),
        ("gb18030", b"\x84\x31\x95\x33\x810\x81<", "\ufeff�0�<"),
        ("euc-kr", b"\xc9\xa1\xb0\xa1\xb0<", "�가�<"),
    ],
)
def test_examples(charset: str, body: bytes, text: str) -> None:
    assert decode(body, charset) == text


@pytest.mark.parametrize(
    ("charset", "text", "sent"),
    [
        ("euc-jp", "①", b"\xad\xa1"),
        ("euc-jp", "ｱ", b"\x8e\xb1"),
        ("euc-jp", "−", b"\xa1\xdd"),
        ("euc-jp", "丂", None),  # JIS X 0212 is only read
        ("shift_jis", "①", b"\x87\x40"),
        ("shift_jis", "纊", b"\xfa\x5c"),  # IBM's code, not NEC's
        ("shift_jis", "¥", b"\\"),
        ("iso-2022-jp", "日本ｱ", b'\x1b$BF|K\\%"\x1b(B'),
        ("iso-2022-jp", "日é", None),
        ("big5", "十", b"\xa4\x51"),
        ("big5", "═", b"\xf9\xf9"),
        ("big5", "㡵", None),  # of Hong Kong: only read
        ("gbk", "€", b"\x80"),
        ("gb18030", "€", b"\xa2\xe3"),
        ("gbk", "é", b"\xa8\xa6"),
        ("gbk", "ë", None),
        ("gb18030", "ë", b"\x81\x30\x8a\x35"),
        ("gb18030", "\ue5e5", None),
        ("euc-kr", "가", b"\xb0\xa1"),
        ("koi8-u", "ў", b"\xae"),
        ("windows-1252", "\x81", b"\x81"),
        ("windows-1252", "ж", None),
        ("iso-8859-3", "\ufffd", None),
    ],
)
def test_how_characters_are_sent(charset: str, text: str, sent: bytes | None) -> None:
    assert encode(text, charset) == sent


@pytest.mark.parametrize("charset", ["gbk", "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr"])
def test_what_is_sent_is_read_again(charset: str) -> None:
    others = {"¥": "\\", "‾": "~", "−": "－"}
    for char, sent in legacy._codes(charset).items():
        assert decode(sent, charset) == (others.get(char, char) if "j" in charset else char)

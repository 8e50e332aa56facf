import gzip
import time
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.web import coding
from gossamer.web.http import (
    Headers,
    content_length,
    content_type,
    dechunk,
    decode_body,
    headers_of,
    location,
    retry_after_s,
    status_code,
)

PAGE = b"<!doctype html><title>x</title>" + b"".join(b"<a href=/%d>%d</a>\n" % (n, n * n) for n in range(2000))
LIMIT = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def streamed_zstd(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return stream.compress(data) + stream.flush()


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "deflate with zlib frame": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstandard.compress),
    "zstd of unknown size": ("zstd", streamed_zstd),
}
every_coding = pytest.mark.parametrize("name", ENCODERS)


def headers(text: str) -> Headers:
    return Headers(text.replace("\n", "\r\n").encode())


def encoded(name: str) -> Headers:
    return headers(f"HTTP/1.1 200 OK\nContent-Encoding: {name}\n\n")


def chunked(data: bytes, size: int = 1000) -> bytes:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


# Headers


def test_fields_in_order_names_in_lower_case() -> None:
    found = headers("HTTP/1.1 200 OK\nServer: a\nX-Y:  b \nserver: c\nEmpty:\n\n")
    assert list(found) == [("server", "a"), ("x-y", "b"), ("server", "c"), ("empty", "")]
    assert found.get("server") == "a"
    assert found.get_all("server") == ["a", "c"]
    assert found.get("none") == ""
    assert found.get("none", "x") == "x"
    assert len(found) == 4


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        (b"A: 1\nB: 2\n", [("a", "1"), ("b", "2")]),
        (b"A: 1\r\n folded\r\n\tmore\r\nB: 2", [("a", "1 folded more"), ("b", "2")]),
        (b" leading: 1\r\nA: 2\r\n", [("a", "2")]),
        (b"no colon\r\nA: 2\r\n", [("a", "2")]),
        (b"A : 1\r\n", [("a", "1")]),
        (b": 1\r\nA: 2", [("a", "2")]),
        (b"bad name: 1\r\n continued\r\nA: 2", [("a", "2")]),
        (b"A: x\0y\r\n continued\r\nB: 2", [("b", "2")]),
        (b"A: x\rB: y\r\n", [("a", "x B: y")]),
        (b"A: \xe9\r\n", [("a", "\xe9")]),
        (b"", []),
        (b"\r\n\r\n\n\n", []),
        (b"\xff\xfe\0\0: 1", []),
    ],
)
def test_odd_header_blocks(raw: bytes, fields: list[tuple[str, str]]) -> None:
    assert list(Headers(raw)) == list(headers_of(raw)) == fields


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"HTTP/1.1 200 OK", 200),
        (b"HTTP/1.0 404\r\nA: b", 404),
        (b"HTTP/1.1 999 \r\n", 999),
        (b"ICY 200 OK", None),
        (b"HTTP/1.1  200 OK", None),
        (b"HTTP/1.1 2000 OK", None),
        (b"HTTP/1.1 +20 OK", None),
        (b"http/1.1 200 OK", None),
        (b"<html>", None),
        (b"", None),
    ],
)
def test_status_code(line: bytes, status: int | None) -> None:
    assert status_code(line) == status


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["text/html"], ("text/html", "text/html")),
        (["Text/HTML ; Charset=UTF-8"], ("text/html", "text/html;charset=UTF-8")),
        (['text/html;charset="a b"; x=1'], ("text/html", 'text/html;charset="a b";x=1')),
        (["text/html;charset=gbk, text/html"], ("text/html", "text/html;charset=gbk")),
        (["text/html;charset=gbk", "text/plain"], ("text/plain", "text/plain")),
        (["text/html", "*/*"], ("text/html", "text/html")),
        (["text/html", "cannot-parse"], ("text/html", "text/html")),
        (['text/html;x=",text/plain'], ("text/html", 'text/html;x=",text/plain"')),
        (['text/html;x="a\\"b"'], ("text/html", 'text/html;x="a\\"b"')),
        (['text/html;x="\\'], ("text/html", "text/html")),
        (["text/html;;;charset=;charset=a;charset=b"], ("text/html", "text/html;charset=a")),
        (["html"], ("", "")),
        (["/"], ("", "")),
        ([""], ("", "")),
        ([], ("", "")),
        (["text/html;" + "x" * 200_000], ("text/html", "text/html")),
    ],
)
def test_content_type(values: list[str], found: tuple[str, str]) -> None:
    assert content_type(headers("".join(f"Content-Type: {value}\n" for value in values))) == found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], (None, True)),
        (["5"], (5, True)),
        (["5", "5"], (5, True)),
        (["5, 5"], (5, True)),
        (["5", "6"], (None, False)),
        (["-1"], (None, True)),
        (["+5"], (None, True)),
        (["5 5"], (None, True)),
        (["²"], (None, True)),
        (["9" * 5000], ((1 << 63) - 1, True)),
    ],
)
def test_content_length(values: list[str], found: tuple[int | None, bool]) -> None:
    assert content_length(headers("".join(f"Content-Length: {value}\n" for value in values))) == found


@pytest.mark.parametrize(
    ("raw", "target"),
    [
        (b"Location: /a?b#c", "/a?b#c"),
        (b"Location: /a\r\nLocation: /a", "/a"),
        (b"Location: /a\r\nLocation: /b", None),
        (b"Location:\r\n", None),
        (b"A: b", None),
        ("Location: /é".encode(), "/%C3%A9"),
        ("Location: /é".encode("latin-1"), "/%E9"),
        (b"Location: /a\0b", None),
        (b"Location: /a\rX: b", "/a X: b"),
    ],
)
def test_location(raw: bytes, target: str | None) -> None:
    assert location(Headers(raw)) == target


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 60.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 60.0),
        ("Sun Nov  6 08:49:37 1994", 60.0),
        ("Sun, 06 Nov 1994 08:47:37 GMT", 0.0),
        ("9" * 40, 1e40),
        *[(bad, None) for bad in ("", "-1", "soon", "9" * 400, "Sun, 99 Nov 1994 08:49:37 GMT", "²", "nan", "\0")],
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after_s(value, 784111777.0 - 60) == (pytest.approx(seconds) if seconds is not None else None)


@pytest.mark.parametrize(
    "value", ["Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37", "06 Nov 1994 08:49:37 -0000"]
)
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
def test_a_date_without_zone_is_not_local_time(value: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert retry_after_s(value, 784111777.0 - 60) == pytest.approx(60.0)
    finally:
        monkeypatch.undo()
        time.tzset()


# Chunks


@pytest.mark.parametrize(
    ("data", "content", "complete"),
    [
        (b"3\r\nabc\r\n0\r\n\r\n", b"abc", True),
        (b"3\nabc\n2\nde\n0\n\n", b"abcde", True),
        (b"3;name=value\r\nabc\r\n0\r\nTrailer: x\r\n\r\n", b"abc", True),
        (b"003 \r\nabc\r\n0;x", b"abc", False),
        (b"0\r\n", b"", True),
        (b"3\r\nabc\r\n", b"abc", False),
        (b"3\r\nab", b"ab", False),
        (b"3\r\nabcdef\r\n0\r\n\r\n", b"abc", False),
        (b"ffffffffffffffff\r\nabc", b"abc", False),
        (b"fffffffffffffffff\r\nabc", b"", False),
        (b"-1\r\nabc", b"", False),
        (b"0x3\r\nabc", b"", False),
        (b"zz\r\nabc", b"", False),
        (b"", b"", False),
    ],
)
def test_dechunk(data: bytes, content: bytes, complete: bool) -> None:
    assert dechunk(data) == (content, complete)


def test_a_flood_of_tiny_chunks_is_cut() -> None:
    content, complete = dechunk(b"1\r\nx\r\n" * 300_000)
    assert not complete
    assert len(content) == 1 << 18


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(1, 50))
def test_chunks_come_back(data: bytes, size: int) -> None:
    assert dechunk(chunked(data, size)) == (data, True)


# Codings


@every_coding
def test_each_coding(name: str) -> None:
    label, encode = ENCODERS[name]
    assert decode_body(encode(PAGE), encoded(label), LIMIT) == (PAGE, "")
    assert decode_body(encode(b""), encoded(label), LIMIT)[0] == b""
    assert decode_body(b"", encoded(label), LIMIT) == (b"", "")


@every_coding
def test_chunks_come_off_first(name: str) -> None:
    label, encode = ENCODERS[name]
    both = headers(f"Content-Encoding: {label}\nTransfer-Encoding: chunked\n")
    assert decode_body(chunked(encode(PAGE)), both, LIMIT) == (PAGE, "")
    body, reason = decode_body(chunked(encode(PAGE))[:-5], both, LIMIT)
    assert (body, reason) == (PAGE, "disconnect")


@every_coding
def test_cut_at_the_limit(name: str) -> None:
    label, encode = ENCODERS[name]
    assert decode_body(encode(PAGE), encoded(label), 1000) == (PAGE[:1000], "length")
    assert decode_body(encode(PAGE), encoded(label), len(PAGE)) == (PAGE, "")
    assert decode_body(encode(PAGE), encoded(label), len(PAGE) - 1) == (PAGE[:-1], "length")


@every_coding
def test_plain_pages_with_a_wrong_label_stay_as_they_are(name: str) -> None:
    assert decode_body(PAGE, encoded(ENCODERS[name][0]), LIMIT) == (PAGE, "")
    assert decode_body(PAGE, encoded(ENCODERS[name][0]), 100) == (PAGE[:100], "length")


@every_coding
def test_a_stream_that_ends_early_gives_what_it_had(name: str) -> None:
    label, encode = ENCODERS[name]
    wire = encode(PAGE)
    body, reason = decode_body(wire[: len(wire) // 2], encoded(label), LIMIT)
    assert PAGE.startswith(body)
    assert reason == "disconnect"


@every_coding
def test_a_stream_that_breaks_gives_what_came_before(name: str) -> None:
    label, encode = ENCODERS[name]
    wire = bytearray(encode(PAGE))
    for at in range(len(wire) // 2, len(wire)):
        wire[at] ^= 0x5A
    body, _ = decode_body(bytes(wire), encoded(label), LIMIT)
    assert body[:100] == PAGE[: len(body)][:100]


def test_most_of_a_broken_gzip_page_survives() -> None:
    wire = gzip.compress(PAGE)
    assert decode_body(wire[:-8] + b"\0" * 8, encoded("gzip"), LIMIT) == (PAGE, "corrupt")
    body, reason = decode_body(wire[: len(wire) // 2] + b"\xff" * 100, encoded("gzip"), LIMIT)
    assert reason in ("corrupt", "disconnect")
    assert len(body) > len(PAGE) // 4
    assert PAGE.startswith(body[:-400])


@pytest.mark.parametrize("name", ["gzip", "deflate with zlib frame", "raw deflate", "br", "zstd"])
def test_what_follows_the_end_is_ignored(name: str) -> None:
    label, encode = ENCODERS[name]
    assert decode_body(encode(PAGE) + b"garbage behind it", encoded(label), LIMIT)[0] == PAGE


@pytest.mark.parametrize(("label", "encode"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_several_members(label: str, encode: Callable[[bytes], bytes]) -> None:
    assert decode_body(encode(PAGE) * 3, encoded(label), LIMIT) == (PAGE * 3, "")
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    assert decode_body(skippable + zstandard.compress(PAGE), encoded("zstd"), LIMIT)[0] == PAGE


def test_a_flood_of_empty_members_ends() -> None:
    assert decode_body(gzip.compress(b"") * 100_000, encoded("gzip"), LIMIT) == (b"", "")


def test_layers_are_peeled_in_reverse() -> None:
    wire = gzip.compress(brotli.compress(zlib.compress(PAGE)))
    assert decode_body(wire, encoded("deflate, br,gzip"), LIMIT) == (PAGE, "")
    two = headers("Content-Encoding: deflate\nContent-Encoding: br\nTransfer-Encoding: gzip, chunked\n")
    assert decode_body(chunked(wire), two, LIMIT) == (PAGE, "")
    assert decode_body(wire, encoded("gzip," * 5), LIMIT) == (b"", "coding")


@pytest.mark.parametrize("name", ["foo", "compress", "gzip, foo", "foo, gzip"])
def test_unknown_codings_give_nothing(name: str) -> None:
    assert decode_body(gzip.compress(PAGE), encoded(name), LIMIT) == (b"", "coding")


@pytest.mark.parametrize("name", ["identity", "", "UTF-8", "none", "identity, identity"])
def test_words_that_mean_nothing_change_nothing(name: str) -> None:
    assert decode_body(PAGE, encoded(name), LIMIT) == (PAGE, "")


def test_a_gzip_file_without_a_coding_is_not_opened() -> None:
    wire = gzip.compress(PAGE)
    assert decode_body(wire, headers("Content-Type: application/gzip\n"), LIMIT) == (wire, "")
    assert decode_body(gzip.compress(wire), encoded("gzip"), LIMIT) == (wire, "")


def test_a_body_that_is_only_said_to_be_chunked() -> None:
    assert decode_body(PAGE, headers("Transfer-Encoding: chunked\n"), LIMIT) == (PAGE, "")


BOMB = 64 << 20
BOMBS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 1),
    "deflate": lambda data: zlib.compress(data, 1),
    "br": lambda data: brotli.compress(data, quality=1),
    "zstd": lambda data: zstandard.compress(data, 1),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_stop_at_the_limit_with_bounded_memory(name: str) -> None:
    wire = BOMBS[name](bytes(BOMB))
    assert len(wire) < BOMB // 100
    tracemalloc.start()
    try:
        body, reason = decode_body(wire, encoded(name), 8 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(body), reason) == (8 << 20, "length")
    assert peak < 5 * (8 << 20)


def test_a_bomb_in_a_bomb() -> None:
    wire = gzip.compress(gzip.compress(bytes(BOMB), 1))
    body, reason = decode_body(wire, encoded("gzip, gzip"), 1 << 20)
    assert (len(body), reason) == (1 << 20, "length")


def test_a_zstd_window_that_would_need_gigabytes_is_refused() -> None:
    window_2_gib = b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00"
    assert coding.decode(window_2_gib, "zstd", LIMIT) == (b"", "corrupt")


@settings(deadline=None)
@given(st.sampled_from(sorted(ENCODERS)), st.binary(max_size=300), st.integers(0, 300), st.binary(max_size=20))
def test_damaged_streams_never_raise(name: str, data: bytes, cut: int, junk: bytes) -> None:
    label, encode = ENCODERS[name]
    body, reason = decode_body(encode(data)[:cut] + junk, encoded(label), 100)
    assert len(body) <= 100
    assert reason in ("", "length", "disconnect", "corrupt")

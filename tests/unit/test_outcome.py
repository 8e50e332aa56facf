"""Reading what framed an answer: header blocks, chunks, and what follows them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.fetch.outcome import final_head, framing, without_excess
from gossamer.web.http import dechunk

HEAD = [b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", b"\r\n"]
EARLY = [b"HTTP/1.1 103 Early Hints\r\n", b"Link: x\r\n", b"\r\n"]


@pytest.mark.parametrize(
    ("lines", "head"),
    [
        (HEAD, HEAD), (EARLY + HEAD, HEAD), (EARLY * 3 + HEAD, HEAD), ([*HEAD, b"Trailer: x\r\n"], HEAD),
        (HEAD[:2], []), ([], []), (EARLY, []), (EARLY + HEAD[:1], []),
        ([b"HTTP/1.0 200\n", b"\n"], [b"HTTP/1.0 200\n", b"\n"]),
        ([b"HTTP/1.1 101 Switching\r\n", b"\r\n"], [b"HTTP/1.1 101 Switching\r\n", b"\r\n"]),
    ],
)  # fmt: skip
def test_the_final_head(lines: list[bytes], head: list[bytes]) -> None:
    assert final_head(lines) == b"".join(head)


@given(
    st.lists(st.binary(min_size=1, max_size=20)),
    st.sampled_from([b"", b"Trailer: x\r\n"]),
    st.binary(max_size=40),
)
def test_a_chunked_body_ends_where_it_ends(pieces: list[bytes], trailer: bytes, excess: bytes) -> None:
    body = b"".join(b"%x;e\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + trailer + b"\r\n"
    kept = without_excess(body + excess)
    assert kept.startswith(body)
    assert dechunk(kept) == (b"".join(pieces), True)
    if not (body[-2:] + excess).endswith(b"\r\n0\r\n\r\n"):  # else it may be a chunk that comes last
        assert kept == body


@given(st.binary(max_size=100))
def test_what_is_not_chunked_stays(data: bytes) -> None:
    assert data.startswith(without_excess(data))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (b"", (False, False, True)), (b"Connection: close\r\n", (False, False, False)),
        (b"CONNECTION:keep-alive,CLOSE\r\n", (False, False, False)),
        (b"Transfer-Encoding: gzip, Chunked\r\n", (True, False, True)),
        (b"Content-Length: 9223372036854775807\r\n", (False, False, True)),
        (b"Content-Length: 9223372036854775808\r\n", (False, True, True)),
    ],
)  # fmt: skip
def test_framing(fields: bytes, expected: tuple[bool, bool, bool]) -> None:
    assert framing(b"HTTP/1.1 200 OK\r\nX: y\r\n" + fields + b"\r\n") == expected
    assert not framing(b"HTTP/1.0 200 OK\r\n" + fields + b"\r\n").stays_open

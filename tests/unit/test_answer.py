import pytest

from gossamer.web.answer import Answer

HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html%s\r\n\r\n"


@pytest.mark.parametrize(
    ("charset", "body"),
    [
        (b"; charset=utf-8", "<p>€ 5 é".encode()),
        (b"; charset=utf-8", b"\xef\xbb\xbf<p>\xc3\xa9"),
        (b"; charset=utf-8", b"<p>not \xff valid \xc3"),
        (b"; charset=iso-8859-1", b"<p>\xe9 \x80"),
        (b"; charset=shift_jis", "<p>漢字".encode("shift_jis")),
        (b"; charset=utf-16le", "<p>é".encode("utf-16le")),
        (b"", b"<meta charset=utf-8><p>\xc3\xa9"),
        (b"", b"<p>plain"),
        (b"", b""),
    ],
)
def test_in_utf8_it_is_the_same_text(charset: bytes, body: bytes) -> None:
    answer = Answer(HTML % charset, body)
    text = answer.content()
    assert text is not None
    assert answer.utf8() == text.encode()


def test_what_is_not_text_has_none() -> None:
    answer = Answer(b"Content-Type: image/png\r\n\r\n", b"\x89PNG\0")
    assert (answer.content(), answer.utf8()) == (None, None)

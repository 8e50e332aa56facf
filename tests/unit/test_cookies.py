"""Cookies go where RFC 6265 lets them go, come back after a restart, and those of the user are written nowhere."""

import os
from pathlib import Path

import pytest

from gossamer.config import Config
from gossamer.errors import ConfigError
from gossamer.fetch import cookies
from gossamer.fetch.cookies import Cookies, Kept, open_cookies, read_file
from gossamer.fetch.request import Request
from gossamer.web.url import host_of, page_key

SECRET = "s3ssion-of-a-test"
LEARNING = Config().replace({"fetch.cookies": True})


def request(url: str) -> Request:
    return Request(page_key(url), url, host_of(url))


def answer(*cookies: str) -> bytes:
    return "".join(["HTTP/1.1 200 OK\r\n", *(f"Set-Cookie: {text}\r\n" for text in cookies), "\r\n"]).encode("latin-1")


def learned(url: str, *cookies: str) -> Cookies:
    found = Cookies(learns=True)
    found.take(request(url), answer(*cookies))
    return found


@pytest.mark.parametrize(
    ("cookie", "url", "is_sent"),
    [
        ("a=1", "http://x.a.test/other", True),
        ("a=1", "http://a.test/", False),
        ("a=1", "http://y.x.a.test/", False),
        ("a=1", "http://b.test/", False),
        ("a=1; Domain=a.test", "http://a.test/", True),
        ("a=1; Domain=.a.test", "http://z.a.test/", True),
        ("a=1; Domain=b.test", "http://b.test/", False),
        ("a=1; Domain=y.a.test", "http://y.a.test/", False),
        ("a=1; Path=/shop", "http://x.a.test/shop/1", True),
        ("a=1; Path=/shop", "http://x.a.test/shopping", False),
        ("a=1; Secure", "http://x.a.test/", False),
        ("a=1; Max-Age=0", "http://x.a.test/", False),
        ("a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "http://x.a.test/", False),
        ("a=1; Max-Age=1000", "http://x.a.test/", True),
        ("a=" + "1" * 5000, "http://x.a.test/", False),
        ("a=1\x01", "http://x.a.test/", False),
    ],
)
def test_where_a_cookie_goes(cookie: str, url: str, is_sent: bool) -> None:
    found = learned("http://x.a.test/", cookie)
    assert found.of(request(url)) == ("a=1" if is_sent else "")
    again = open_cookies(LEARNING, found.kept(), 0.0)
    assert again.of(request(url)) == ("a=1" if is_sent else ""), "and after a restart"


def test_a_secure_cookie_is_for_https() -> None:
    found = learned("https://a.test/", "a=1; Secure")
    assert found.of(request("https://a.test/")) == "a=1"
    assert found.of(request("http://a.test/")) == ""


@pytest.mark.parametrize("suffix", ["co.uk", "github.io"])
def test_no_cookie_is_for_a_public_suffix(suffix: str) -> None:
    found = learned(f"http://one.{suffix}/", f"a=1; Domain={suffix}")
    for host in ("one", "other", "x.one"):
        assert found.of(request(f"http://{host}.{suffix}/")) == ""


def test_a_website_cannot_fill_the_memory() -> None:
    found = learned("http://a.test/", *(f"c{number}={'x' * 1000}" for number in range(100)))
    assert 1000 < len(found.of(request("http://a.test/"))) < 9000
    assert found.of(request("http://a.test/")).endswith("x")


def test_paths_and_numbers_of_cookies_are_bounded() -> None:
    found = learned("http://a.test/", f"a=1; Path=/{'x' * 90_000}", *(f"c{number}=1" for number in range(2000)))
    found.take(request("http://a.test/"), answer(*(f"d{number}=1" for number in range(2000))))
    sent = found.of(request("http://a.test/"))
    assert 0 < sent.count("=") <= 50
    ((text,),) = found.kept().values()
    assert len(text) < 10_000


def test_the_website_not_used_for_longest_makes_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """But not the one in the user's file."""
    monkeypatch.setattr(cookies, "_MOST_DOMAINS", 2)
    (tmp_path / "cookies.txt").write_text("mine.test\tFALSE\t/\tFALSE\t0\tsession\tLOGIN\n")
    found = open_cookies(LEARNING.replace({"fetch.cookies_file": str(tmp_path / "cookies.txt")}), {}, 0.0)
    for name in ("a", "b", "c", "a", "d"):
        found.take(request(f"http://{name}.test/"), answer("x=1"))
    assert set(found.kept()) == {"a.test", "d.test"}
    assert found.of(request("http://mine.test/")) == "session=LOGIN"


def test_plain_http_sets_no_secure_cookie() -> None:
    assert learned("http://a.test/", "sid=1; Secure").of(request("https://a.test/")) == ""


def test_plain_http_replaces_no_secure_cookie() -> None:
    found = learned("https://a.test/", "sid=good; Secure")
    found.take(request("http://a.test/"), answer("sid=evil"))
    assert found.of(request("https://a.test/")) == "sid=good"


def test_a_server_cannot_push_the_cookies_of_the_user_out(tmp_path: Path) -> None:
    (tmp_path / "cookies.txt").write_text("a.test\tFALSE\t/\tFALSE\t0\tsession\tLOGIN\n")
    config = LEARNING.replace({"fetch.cookies_file": str(tmp_path / "cookies.txt")})
    found = open_cookies(config, {}, 0.0)
    found.take(request("http://a.test/"), answer(*(f"c{number}={'x' * 2000}" for number in range(9))))
    assert "session=LOGIN" in found.of(request("http://a.test/"))


def test_a_value_of_the_user_is_a_secret_of_its_website_only(tmp_path: Path) -> None:
    (tmp_path / "cookies.txt").write_text("a.test\tFALSE\t/\tFALSE\t0\tconsent\t1\n")
    found = open_cookies(LEARNING.replace({"fetch.cookies_file": str(tmp_path / "cookies.txt")}), {}, 0.0)
    found.take(request("http://b.test/"), answer("seen=1", "x=2"))
    assert "seen" in found.kept()["b.test"][0]


def test_answers_are_stored_without_the_values() -> None:
    head = b"HTTP/1.1 200 OK\r\nSET-COOKIE: a=secret; Path=/x\r\nset-cookie : b=\r\n secret\r\n"
    head += b"Set-Cookie: secret\r\nX: y\r\n\r\n"
    expected = head.replace(b"\r\n secret", b"secret").replace(b"secret", b"(not stored)")
    assert Cookies(learns=False).take(request("http://a.test/"), head) == expected
    assert Cookies(learns=False, with_values=True).take(request("http://a.test/"), head) == head


def test_what_is_committed_changes_with_what_servers_set() -> None:
    found = learned("http://a.test/", "a=1", "b=2")
    found.take(request("http://b.test/"), answer("c=3"))
    first = found.kept()
    assert set(first) == {"a.test", "b.test"}
    found.take(request("http://a.test/"), answer("a=x; Max-Age=0", "b=x; Max-Age=0"))
    assert found.kept() == {"b.test": first["b.test"]}
    assert "a.test" in first, "what was handed out stays as it was"


FILE = f"""# Netscape HTTP Cookie File
.a.test\tTRUE\t/\tFALSE\t0\tsession\t{SECRET}
#HttpOnly_b.test\tFALSE\t/in\tTRUE\t4102444800\tlogin\tx{SECRET}

old.test\tFALSE\t/\tFALSE\t1\tlate\tx
localhost\tFALSE\t/\tFALSE\t\there\t1
c.test\tTRUE\t/\tFALSE\t0\tloose\t2
"""


def with_file(path: Path, kept: Kept | None = None, committed_s: float = 0.0) -> Cookies:
    return open_cookies(LEARNING.replace({"fetch.cookies_file": str(path)}), kept or {}, committed_s)


def test_a_file_of_cookies(tmp_path: Path) -> None:
    (tmp_path / "cookies.txt").write_text(FILE)
    found = with_file(tmp_path / "cookies.txt")
    for url, expected in (
        ("http://www.a.test/", f"session={SECRET}"),
        ("https://b.test/in/1", f"login=x{SECRET}"),
        ("http://b.test/in/1", ""),
        ("https://www.b.test/in/1", ""),
        ("http://old.test/", ""),
        ("http://localhost/", "here=1"),
        ("http://x.c.test/", "loose=2"),
    ):
        assert found.of(request(url)) == expected, url
    assert found.kept() == {}, "they are secrets"


def test_what_the_server_renews_is_kept_and_what_it_repeats_is_not(tmp_path: Path) -> None:
    path = tmp_path / "cookies.txt"
    path.write_text(FILE)
    found = with_file(path)
    found.take(request("http://a.test/"), answer(f"session={SECRET}; Path=/x", "renewed=1"))
    kept = found.kept()
    assert SECRET not in str(kept)
    found.take(request("http://a.test/"), answer("session=new; Domain=a.test"))
    kept = found.kept()
    later_s = path.stat().st_mtime + 10
    assert "session=new" in with_file(path, kept, later_s).of(request("http://a.test/"))
    os.utime(path, (later_s + 10, later_s + 10))
    assert f"session={SECRET}" in with_file(path, kept, later_s).of(request("http://a.test/")), "a new file counts"


@pytest.mark.parametrize(
    "line", [f"a.test TRUE / FALSE 0 session {SECRET}", f"{SECRET}", f"a.test\tTRUE\t/\tFALSE\tx\ty\t{SECRET}"]
)
def test_a_file_that_is_no_file_of_cookies(tmp_path: Path, line: str) -> None:
    (tmp_path / "c.txt").write_text(f"# comment\n{line}\n")
    with pytest.raises(ConfigError, match=r"line 2 of .*c\.txt is no cookie in Netscape's format") as error:
        read_file(str(tmp_path / "c.txt"))
    assert SECRET not in str(error.value)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_file(str(tmp_path / "none.txt"))
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_file(str(tmp_path))

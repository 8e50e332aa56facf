import gzip
import os
from pathlib import Path

import pytest

from gossamer.crawl.scope import Scope
from gossamer.crawl.seeds import SeedFiles, parse_seeds
from gossamer.errors import SeedError


def test_arguments_are_urls_or_files(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("http://a.test/\n")
    urls, files = parse_seeds(["HTTP://B.test", "http://b.test/#x", str(file)])
    assert urls == ["http://b.test/"]
    assert files == [file]


def test_a_mistyped_seed_is_refused() -> None:
    with pytest.raises(SeedError, match="neither a file nor a web address"):
        parse_seeds(["seeds.tx"])


def test_a_file_is_read_on_as_it_grows(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("# mine\nhttp://a.test/\n\nnonsense\nhttp://half")
    now_s = file.stat().st_mtime + 0.5
    seeds = SeedFiles([file], {})
    assert seeds.read(now_s) == ["http://a.test/"]
    assert seeds.refused == 1
    with file.open("a") as more:
        more.write(".test/\nhttp://b.test/")
    now_s = file.stat().st_mtime + 0.5
    assert seeds.read(now_s) == ["http://half.test/"]
    assert SeedFiles([file], seeds.offsets).read(now_s + 10) == ["http://b.test/"]
    assert seeds.read(now_s + 10) == ["http://b.test/"]
    assert seeds.read(now_s + 20) == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_editor_may_have_written_it(tmp_path: Path, encoding: str, end: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""  # which Python writes with the others
    file = tmp_path / "seeds.txt"
    addresses = ["http://a.test/", "http://ä.test/Ċ", "http://b.test/"]  # Ċ is U+010A: half of it is a line feed
    file.write_text(mark + end.join(["# mine", "", *addresses]), encoding, newline="")
    assert parse_seeds([str(file)]) == ([], [file])
    seeds = SeedFiles([file], {})
    found = seeds.read(file.stat().st_mtime + 0.5)
    assert found + seeds.read(float("inf")) == ["http://a.test/", "http://xn--4ca.test/%C4%8A", "http://b.test/"]
    assert (seeds.refused, seeds.unread()) == (0, False)


def test_utf_16_is_read_on_as_it_grows(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_bytes("\ufeffhttp://a.test/\nhttp://half".encode("utf-16-le"))
    now_s = file.stat().st_mtime + 0.5
    seeds = SeedFiles([file], {})
    assert seeds.read(now_s) == ["http://a.test/"]
    with file.open("ab") as more:
        more.write("Ċ.test/\n".encode("utf-16-le"))
    assert seeds.read(now_s) == ["http://xn--half-8ta.test/"]
    assert SeedFiles([file], seeds.offsets).read(float("inf")) == []


def test_byte_order_marks_of_files_that_were_joined_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_bytes(b"\xef\xbb\xbfhttp://a.test/\n\xef\xbb\xbf# more\n\xef\xbb\xbf http://b.test/\n")
    assert SeedFiles([file], {}).read(float("inf")) == ["http://a.test/", "http://b.test/"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "seeds.txt is empty; write one web address per line, like https://example.org/"),
        (b"\n# nothing\n \r\n", "there is no web address in .*seeds.txt; write one"),
        (b"\xef\xbb\xbf", "there is no web address in .*seeds.txt; write one"),
        (b"# mine\nexample.org\nexample.net\n", "its first line is 'example.org'; write one"),
        (b"x" * 200_000, "its first line is 'x{60}'; write one"),
        (gzip.compress(b"http://a.test/\n" * 9), "is not a text file.*if it is compressed, unpack it first"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\nhttp://a.test/\n", "is not a text file"),
        ("http://a.test/\n".encode("utf-16-le"), "UTF-16 without a byte-order mark.*save it as UTF-8"),
    ],
    ids=["empty", "comments", "mark", "names", "one line", "compressed", "image", "UTF-16"],
)
def test_a_file_without_addresses_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "seeds.txt"
    file.write_bytes(data)
    with pytest.raises(SeedError, match=message):
        parse_seeds([str(file)])


def test_a_file_that_vanishes_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("http://a.test/\n")
    seeds = SeedFiles([file], {})
    os.unlink(file)
    assert seeds.read(0.0) == []


def test_scope() -> None:
    host = Scope("host")
    assert host.widen(["http://www.a.co.uk/x"]) == ["www.a.co.uk"]
    assert host.admits("http://www.a.co.uk/y")
    assert not host.admits("http://a.co.uk/")
    domain = Scope("domain", ["x.b.org"])
    assert domain.widen(["http://www.a.co.uk/x", "http://c.b.org/"]) == ["c.b.org", "www.a.co.uk"]
    assert domain.admits("https://mail.a.co.uk:8443/")
    assert not domain.admits("http://other.co.uk/")
    assert Scope("any").widen(["http://a.test/"]) == []
    assert Scope("any").admits("http://z.test/")


def test_a_line_without_end_does_not_stop_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.crawl.seeds._CHUNK", 100)
    path = tmp_path / "seeds.txt"
    path.write_text("http://a.test/" + "a" * 250 + "\nhttp://b.test/\n")
    files, found = SeedFiles([path], {}), list[str]()
    for _ in range(5):
        found += files.read(float("inf"))
    assert found == ["http://b.test/"]
    assert files.refused == 3
    assert not files.unread()

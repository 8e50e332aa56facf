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

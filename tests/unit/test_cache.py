"""The cache of an archive elsewhere: bounded, the least recently used goes first, and never what is in use."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer.archive import cache as parts
from gossamer.archive.cache import Cache
from gossamer.errors import OutOfSpace

MB = 1 << 20


def filled(folder: Path, count: int) -> Cache:
    """Files of a quarter megabyte, the first used longest ago."""
    cache = Cache(folder, MB, grace_s=0.0)
    for number in range(count):
        path = cache.enter(f"warc/{number}", bytes(MB // 4))
        os.utime(path, (1000 + number, 1000 + number))
    return cache


def there(cache: Cache) -> list[str]:
    return sorted(path.name for path in (cache.folder / "files" / "warc").iterdir())


def test_the_oldest_files_give_way(tmp_path: Path) -> None:
    cache = filled(tmp_path, 4)
    assert there(cache) == ["0", "1", "2", "3"]
    cache.find("warc/0")  # used just now
    cache.enter("warc/4", bytes(MB // 4))
    assert there(cache) == ["0", "3", "4"]
    assert cache.held() <= MB
    assert cache.find("warc/1") is None


def test_what_is_mapped_or_kept_stays(tmp_path: Path) -> None:
    cache = filled(tmp_path, 4)
    with (tmp_path / "files" / "warc" / "0").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        cache.enter("warc/4", bytes(MB // 4), kept=["warc/1"])
        assert {"0", "1", "4"} <= set(there(cache))
        assert cache.held() <= MB


def test_whoever_was_given_a_file_has_time_to_open_it(tmp_path: Path) -> None:
    cache = Cache(tmp_path, MB, grace_s=60.0)
    for number in range(8):
        cache.enter(f"warc/{number}", bytes(MB // 4))
    assert len(there(cache)) == 8


def test_an_open_file_outlives_its_name(tmp_path: Path) -> None:
    cache = Cache(tmp_path, MB, grace_s=0.0)
    with cache.enter("warc/a", b"content").open("rb") as file:
        cache.drop("warc/a")
        assert cache.find("warc/a") is None
        assert file.read() == b"content"


def test_another_archive_or_another_life_of_the_machine_empties_it(tmp_path: Path) -> None:
    cache = filled(tmp_path, 2)
    cache.belong(b"one")
    cache.enter("warc/a", b"x")
    Cache(tmp_path, MB).belong(b"one")
    assert there(cache) == ["a"]
    Cache(tmp_path, MB).belong(b"another")
    assert cache.find("warc/a") is None
    cache.enter("warc/a", b"x")
    owner = tmp_path / "archive.json"
    owner.write_bytes(b"another\nbefore the power failed")
    Cache(tmp_path, MB).belong(b"another")
    assert cache.find("warc/a") is None


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    cache = Cache(tmp_path, MB)

    def broken() -> object:
        yield b"half of it"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        cache.enter("warc/a", broken())  # type: ignore[arg-type]
    assert cache.find("warc/a") is None
    assert cache.scratched() == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_says_what_can_be_done(tmp_path: Path) -> None:
    cache = Cache(tmp_path, MB)
    cache.scratch("x")
    last = next(parts._SERIAL)
    for number in range(last + 1, last + 4):
        (tmp_path / "tmp" / f"{os.getpid()}-{number}.part").symlink_to("/dev/full")
    with pytest.raises(OutOfSpace, match=r"lower archive\.cache_mb, or move the cache"):
        cache.enter("warc/a", bytes(100_000))


def test_two_caches_of_a_process_in_one_folder_do_not_mix_their_files(tmp_path: Path) -> None:
    """As the stores of an agent do: one for its commits, one for small files that must not wait for them."""
    one, other = (Cache(tmp_path, 10**6) for _ in range(2))

    def chunks() -> Iterator[bytes]:
        yield b"half of the first, "
        other.enter("manifest/2", [b"the second"])
        yield b"and the rest"

    assert one.enter("manifest/1", chunks()).read_bytes() == b"half of the first, and the rest"
    assert (tmp_path / "files" / "manifest" / "2").read_bytes() == b"the second"

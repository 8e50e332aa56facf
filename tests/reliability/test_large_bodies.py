"""Bodies that are larger than memory may be go to the WARC piece by piece; a limit of their type cuts them."""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from raw_server import Exchange, Loopback
from scripted import Web, page, reply
from warcio.archiveiterator import ArchiveIterator as Warcio

from gossamer import Crawl
from gossamer.config import Config
from gossamer.errors import ConfigError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # fastwarc warns of itself
    from fastwarc.warc import ArchiveIterator, WarcRecordType

MB = 1 << 20
BLOCK = os.urandom(MB)


def film(megabytes: int, mime: str = "video/mp4", chunked: bool = False) -> Callable[[Exchange], bool]:
    """A reply of so many megabytes, each another one."""

    def send(exchange: Exchange) -> bool:
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {megabytes * MB}"
        exchange.send(f"HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\n{framing}\r\n\r\n".encode())
        for number in range(megabytes):
            data = number.to_bytes(8) + BLOCK[8:]
            if not exchange.send(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data):
                return False
        return exchange.send(b"0\r\n\r\n") if chunked else True

    return send


def sha1_of(megabytes: int) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    for number in range(megabytes):
        digest.update(number.to_bytes(8) + BLOCK[8:])
    return digest.hexdigest()


def stored(directory: Path, url: str) -> tuple[int, str]:
    """Size and SHA-1 of what the WARC files have of a URL, read by another library."""
    for path in sorted((directory / "warc").glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, record_types=WarcRecordType.response):
                if record.headers["WARC-Target-URI"] == url:
                    size, digest = 0, hashlib.sha1(usedforsecurity=False)
                    while data := record.reader.read(MB):
                        size += len(data)
                        digest.update(data)
                    return size, digest.hexdigest()
    return 0, ""


def test_a_large_body_is_stored_whole_and_never_in_memory(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {"a.test/": page("/film.mp4", "/again.mp4", "/chunked.mp4"), "a.test/film.mp4": film(64)})
    web.replies |= {"a.test/again.mp4": film(64), "a.test/chunked.mp4": film(32, chunked=True)}
    config = web.config(fetch__type_bytes={"video/*": "100MB"}, polite__connections=1)
    crawl = Crawl(tmp_path / "c", ["http://a.test/"], config)
    tracemalloc.start()
    try:
        crawl.run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 90 * MB  # of which the crawler itself takes 55
    rows = {row["url"]: row for row in crawl.query("SELECT * FROM pages WHERE url LIKE '%.mp4'")}
    assert {(row["status"], row["truncated"]) for row in rows.values()} == {("fetched", "")}
    assert rows["http://a.test/film.mp4"]["wire_bytes"] == 64 * MB
    first = min(("http://a.test/film.mp4", "http://a.test/again.mp4"), key=lambda url: rows[url]["version_time"])
    assert stored(tmp_path / "c", first) == (64 * MB, sha1_of(64))
    is_revisit = "SELECT is_revisit FROM visits WHERE url LIKE '%.mp4' ORDER BY time"
    assert sorted(row["is_revisit"] for row in crawl.query(is_revisit)) == [False, False, True]
    for path in (tmp_path / "c" / "warc").glob("*.gz"):
        with path.open("rb") as file:
            records = Warcio(file, check_digests="raise")
            assert [record.rec_type for record in records if record.content_stream().read()]


def test_what_is_cut_says_so(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {"a.test/": page("/film.mp4", "/data.bin"), "a.test/film.mp4": film(8)})
    web.replies["a.test/data.bin"] = film(3, "application/octet-stream")
    config = web.config(fetch__type_bytes={"video/*": "4MiB"}, fetch__body_bytes=2 * MB)
    crawl = Crawl(tmp_path / "c", ["http://a.test/"], config)
    assert crawl.run().truncated == 2
    rows = crawl.query("SELECT wire_bytes, truncated, status FROM pages WHERE truncated <> '' ORDER BY wire_bytes")
    assert [tuple(row.values()) for row in rows] == [(2 * MB, "length", "fetched"), (4 * MB, "length", "fetched")]


def test_a_body_that_is_late(loopback: Loopback, tmp_path: Path) -> None:
    def slow(mime: str) -> Callable[[Exchange], bool]:
        def send(exchange: Exchange) -> bool:
            exchange.send(f"HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\nContent-Length: 60\r\n\r\n".encode())
            return all(exchange.send(b"x") and not time.sleep(0.05) for _ in range(60))

        return send

    web = Web(loopback, {"a.test/": page("/film.mp4", "/slow.txt")})
    web.replies |= {"a.test/film.mp4": slow("video/mp4"), "a.test/slow.txt": slow("text/plain")}
    values: dict[str, Any] = {"fetch__type_bytes": {"video/*": "1MB"}, "fetch__timeout_s": 2.0, "polite__burst": 1}
    crawl = web.crawl(tmp_path / "c", ["http://a.test/"], **values)
    rows = crawl.query("SELECT url, truncated FROM pages WHERE url LIKE '%.mp4' OR url LIKE '%.txt'")
    assert {row["url"][-3:]: row["truncated"] for row in rows} == {"mp4": "", "txt": "time"}


@pytest.mark.parametrize("wrong", [{"video": "1GB"}, {"video/*": "much"}, {"video/*": "5GB"}, {"video/*": 3}])
def test_sizes_that_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"fetch\.type_bytes"):
        Config().replace({"fetch.type_bytes": wrong})


def high_water_kb(pid: int) -> int:
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
    return 0


@pytest.mark.slow
def test_two_gigabytes_through_a_kill(loopback: Loopback, tmp_path: Path) -> None:
    size, directory = 1907, tmp_path / "c"  # nearly 2 GB
    web = Web(loopback, {"a.test/": page("/film.mp4"), "a.test/film.mp4": film(size), "/robots.txt": reply(b"", 404)})
    command = [sys.executable, "-m", "gossamer", "crawl", "http://a.test/", "--dir", str(directory), "--quiet"]
    command += ["--testweb", web.address, "--delay", "0", "--set", 'fetch.type_bytes={"video/*" = "2GB"}']
    killed = subprocess.Popen(command)
    while len(web.asked()) < 2:
        time.sleep(0.05)
    time.sleep(1.0)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    process = subprocess.Popen([*command, "--set", "polite.backoff_s=0"])
    peak = 0
    while process.poll() is None:
        peak = max(peak, high_water_kb(process.pid))
        time.sleep(0.05)
    assert process.returncode == 0
    print(f"peak memory {peak / 1024:.0f} MB")
    assert 0 < peak < 300 << 10
    assert stored(directory, "http://a.test/film.mp4") == (size * MB, sha1_of(size))
    assert Crawl(directory).query("SELECT wire_bytes, truncated FROM pages WHERE url LIKE '%.mp4'") == [
        {"wire_bytes": size * MB, "truncated": ""}
    ]

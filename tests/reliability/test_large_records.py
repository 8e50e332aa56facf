"""Records that are larger than memory may be: whoever reads the archive reads them piece by piece, or only a part."""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import environment
from raw_server import Exchange, Loopback
from scripted import Web, page
from test_large_bodies import MB, film, sha1_of, stored

from gossamer import Crawl
from gossamer.archive.warc_reader import read_record
from gossamer.repair.damaged_warc import members

FILM, TEXT = "http://a.test/film.mp4", "http://a.test/list.txt"
# The command's own function, in a process of its own; the kernel tells the most memory that it ever held.
MEASURED = """
import sys
from gossamer.cli.app import main
code = main(sys.argv[1:])
sys.stdout.flush()
line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
sys.stderr.write(f"peak {line.split()[1]}\\n")
sys.exit(code)
"""


def text(megabytes: int) -> Callable[[Exchange], bool]:
    """A reply of so many megabytes of text."""
    block = (b"a line of words, as there are many\n" * (MB // 16))[:MB]

    def send(exchange: Exchange) -> bool:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {megabytes * MB}\r\n\r\n"
        exchange.send(head.encode())
        return all(exchange.send(block) for _ in range(megabytes))

    return send


def crawled(loopback: Loopback, directory: Path, film_mb: int, text_mb: int) -> Crawl:
    web = Web(loopback, {"a.test/": page("/film.mp4", "/list.txt"), "a.test/film.mp4": film(film_mb)})
    web.replies["a.test/list.txt"] = text(text_mb)
    sizes = {"video/*": f"{film_mb + 1}MiB", "text/plain": f"{text_mb + 1}MiB"}
    return web.crawl(directory, ["http://a.test/"], fetch__type_bytes=sizes)


def run(at: Path, *arguments: object) -> tuple[str, float]:
    """Runs a command; returns its output and its peak memory in MB."""
    command = [sys.executable, "-c", MEASURED, *map(str, arguments)]
    done = subprocess.run(command, cwd=at, env=environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(), int(done.stderr.split()[-1]) / 1024


SQL = """SELECT url, length(text(warc, warc_offset)) AS text, length(main_text(warc, warc_offset)) AS main,
    header(warc, warc_offset, 'content-type') AS mime FROM pages"""


def peaks(at: Path, crawl: Path, *kinds: str) -> Iterator[tuple[str, float]]:
    """What each command takes. What was exported is imported again, and equal; a damaged record is found."""
    yield "verify", run(at, "verify", crawl)[1]
    yield "query", run(at, "query", crawl, SQL, "--json")[1]
    for kind in kinds:
        yield kind, run(at, "export", crawl, kind, "out", "--force")[1]
    yield "--warc", run(at, "export", crawl, "--warc", "out.warc.gz", "--index", "out.cdxj")[1]
    yield "import", run(at, "import", "out.warc.gz", "--dir", "again")[1]
    sql = "SELECT url, time, digest, wire_bytes, body_bytes, content_type FROM visits ORDER BY url"
    assert Crawl(at / "again").query(sql) == Crawl(crawl).query(sql)
    damage(crawl)
    yield "repair", run(at, "repair", crawl, "--apply")[1]
    check_repaired(crawl)


def damage(directory: Path) -> None:
    """Flips a bit in the middle of the film."""
    (row,) = Crawl(directory).query(f"SELECT warc, warc_offset, warc_bytes FROM visits WHERE url = '{FILM}'")
    with (directory / row["warc"]).open("r+b") as file:
        place = row["warc_offset"] + row["warc_bytes"] // 2
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def check_repaired(directory: Path) -> None:
    """The film is lost, and nothing else."""
    found = {
        record.headers["WARC-Target-URI"]: record.large.size if record.large else len(record.body)
        for path in sorted((directory / "warc").iterdir())
        for _, _, record in members(path)
        if record is not None and record.headers["WARC-Type"] == "response"
    }
    assert FILM not in found
    assert found[TEXT] == Crawl(directory).query(f"SELECT wire_bytes FROM pages WHERE url = '{TEXT}'")[0]["wire_bytes"]


def test_no_command_holds_a_large_record(loopback: Loopback, tmp_path: Path) -> None:
    """A crawl without large bodies takes about half of that."""
    crawled(loopback, tmp_path / "crawl", 256, 64)
    found = dict(peaks(tmp_path, tmp_path / "crawl", "--wacz"))
    assert max(found.values()) < 300, found


def test_what_is_read_of_a_large_record(loopback: Loopback, tmp_path: Path) -> None:
    crawl = crawled(loopback, tmp_path / "crawl", 80, 40)
    rows = {row["url"]: (row["text"], row["main"], row["mime"]) for row in crawl.query(SQL)}
    assert rows[FILM] == (None, None, "video/mp4")
    assert rows[TEXT] == (16 * MB, 16 * MB, "text/plain")
    sql = "SELECT url, octet_length(body(warc, warc_offset)) AS size FROM pages"
    sizes = {row["url"]: row["size"] for row in crawl.query(sql)}
    assert (sizes[FILM], sizes[TEXT]) == (64 * MB, 40 * MB)
    (row,) = crawl.query(f"SELECT warc, warc_offset FROM visits WHERE url = '{FILM}'")
    path = tmp_path / "crawl" / row["warc"]
    (large,) = (m.record.large for m in members(path) if m.record and m.record.large and m.offset == row["warc_offset"])
    assert large.size == 80 * MB
    assert hashlib.sha1(b"".join(large.pieces())).hexdigest() == sha1_of(80)
    assert large.sha1.hex() == sha1_of(80)
    assert large.start(100) == read_record(path, row["warc_offset"], most=100).body


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_gigabytes_in_300_mb(loopback: Loopback, tmp_path: Path) -> None:
    crawled(loopback, tmp_path / "crawl", 1907, 256)
    assert stored(tmp_path / "crawl", FILM) == (1907 * MB, sha1_of(1907))
    found = dict(peaks(tmp_path, tmp_path / "crawl", "--wacz", "--text", "--main-text", "--markdown"))
    print({name: round(peak) for name, peak in found.items()})
    assert max(found.values()) < 300, found

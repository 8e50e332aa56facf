"""Crawls that are killed while a browser renders their pages: resumed, they end alike, and leave no browser behind."""

import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ROOT, environment, line
from raw_server import Loopback
from scripted import Web, reply
from test_render import APP, SHELL, data, rendered, script

from gossamer import Crawl

pytest.importorskip("playwright.async_api")
pytestmark = pytest.mark.skipif(not shutil.which("chromium"), reason="needs a browser: apt install chromium")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where browsers have their files. Their user, nobody, may go there."""
    path = Path(tempfile.mkdtemp(prefix="gossamer-tests-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def processes(folder: Path) -> dict[int, str]:
    """What runs with this folder in its command line or environment."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if str(folder).encode() in command + (process / "environ").read_bytes():
                found[int(process.name)] = command.replace(b"\0", b" ").decode()[:200]
        except OSError:
            continue
    return found


def shop(loopback: Loopback, pages: int) -> Web:
    """Each page leads to the next two, once its script has run."""
    replies: dict[str, bytes] = {"a.test/app.js": script(APP)}
    for n in range(1, pages + 1):
        links = [f"/p{m}" for m in (2 * n, 2 * n + 1) if m <= pages]
        replies |= {f"a.test/p{n}": reply(SHELL), f"a.test/data/p{n}.json": data(f"Page {n}", f"Thing {n}", *links)}
    return Web(loopback, replies)


def contents(directory: Path) -> dict[str, tuple[str, str, str]]:
    sql = "SELECT url, status, title, text(warc, warc_offset) AS text FROM pages"
    return {row["url"]: (row["status"], row["title"], row["text"]) for row in Crawl(directory).query(sql)}


def check(loopback: Loopback, tmp_path: Path, folder: Path, pages: int, kills: int, seed: int) -> None:
    web, chance = shop(loopback, pages), random.Random(seed)
    command = line("crawl", "http://a.test/p1", "--dir", tmp_path / "c", "--testweb", web.address, "--render", "auto")
    command += [
        "--delay",
        "0",
        "--quiet",
        "--width",
        "3",
        "--set",
        "render.settle_s=0.2",
        "--set",
        "polite.backoff_s=0",
    ]
    given = {**environment(), "TMPDIR": str(folder)}
    with (tmp_path / "output").open("ab") as output:
        for _ in range(kills):
            process = subprocess.Popen(command, cwd=ROOT, env=given, stdout=output, stderr=output)
            # It is killed while a page is being rendered: its data were asked for, or will be soon.
            asked = len(web.asked())
            wanted = asked + chance.randint(2, 6)
            while len(web.asked()) < wanted and process.poll() is None:
                time.sleep(0.01)
            time.sleep(chance.random() * 0.5)
            process.send_signal(signal.SIGKILL)
            process.wait()
        subprocess.run(command, cwd=ROOT, env=given, stdout=output, stderr=output, check=True)
    expected = {f"http://a.test/p{n}": ("fetched", f"Page {n}") for n in range(1, pages + 1)}
    found = contents(tmp_path / "c")
    assert {url: row[:2] for url, row in found.items()} == expected, (tmp_path / "output").read_text()
    assert all(f"Thing {url.rpartition('p')[2]}" in row[2] for url, row in found.items())
    assert rendered(Crawl(tmp_path / "c")) == {f"/p{n}" for n in range(1, pages + 1)}
    deadline = time.monotonic() + 60
    while (left := processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, "what the killed ones had started has ended"
    assert not list(folder.iterdir()), "nor are there files of theirs"


def test_killed_while_rendering(loopback: Loopback, tmp_path: Path, folder: Path) -> None:
    check(loopback, tmp_path, folder, pages=7, kills=2, seed=4)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_again_and_again(loopback: Loopback, tmp_path: Path, folder: Path, seed: int) -> None:
    check(loopback, tmp_path, folder, pages=31, kills=10, seed=seed)

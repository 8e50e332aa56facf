"""Whole pages in a real browser: what is replayed from an export looks like the live page, and nothing is missing."""

import contextlib
import json
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import commands
import pytest
import tools
from crawls import crawl
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(seed=7, hosts=5, pages=60, requisites=4, errors=0.0)
# What style sheets, the script and the images made of a page.
LOOK = """() => [
    getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.querySelector('h1')).paddingLeft,
    document.body.dataset.ready,
    [...document.images].map(image => [image.complete, image.naturalWidth, image.naturalHeight]),
]"""


@contextlib.contextmanager
def browsing(web: RunningWeb) -> Iterator[Browser]:
    """A browser for which the hosts of the web are real."""
    arguments = ["--no-sandbox", f"--host-resolver-rules=MAP *.test {web.address}"]
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=tools.need(*tools.BROWSERS), args=arguments)
        yield opened
        opened.close()


@contextlib.contextmanager
def replaying(pywb: str, at: Path, index: Path, archive: Path) -> Iterator[str]:
    """pywb over the files of an export, as a proxy: it shows pages as they were, with nothing of its own."""
    at.mkdir()
    paths = {"index_paths": str(index), "archive_paths": f"{archive}/"}
    proxy = {"coll": "ours", "use_banner": False, "use_head_insert": False}
    (at / "config.yaml").write_text(json.dumps({"collections": {"ours": paths}, "proxy": proxy}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(pywb).parent / "wayback"), "-b", "127.0.0.1", "-p", str(port), "-d", str(at)]
    with (at / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            while not _listens(port):
                assert process.poll() is None, (at / "log").read_text()
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def seen(context: BrowserContext, url: str) -> tuple[bytes, Any, list[str]]:
    """A picture of a page, what it was made of, and which of its requests got no content."""
    page, failed = context.new_page(), []
    page.on("response", lambda answer: failed.append(answer.url) if answer.status >= 400 else None)
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.goto(url, wait_until="networkidle")
    found = page.screenshot(full_page=True), page.evaluate(LOOK), failed
    page.close()
    return found


def compared(browser: Browser, replay: str, urls: list[str]) -> None:
    with browser.new_context() as live, browser.new_context(proxy={"server": replay}) as archived:
        for url in urls:
            picture, look, failed = seen(live, url)
            again, look_again, missing = seen(archived, url)
            assert (look_again, missing, failed) == (look, [], []), url
            assert look[:3] == ["rgb(244, 241, 234)", "40px", "yes"]
            assert look[3].count([True, 32, 24]) == SPEC.requisites
            assert again == picture, f"{url} looks different"


@pytest.mark.parametrize("count", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_replayed_pages_look_like_live_ones(count: int, pywb: str, tmp_path: Path) -> None:
    with RunningWeb(SPEC) as web, browsing(web) as browser:
        found = crawl(web, tmp_path / "crawl", {"crawl.requisites": True})
        wanted = "kind = 'page' AND status = 'fetched' AND content_type = 'text/html'"
        rows = found.query(f"SELECT url FROM pages WHERE {wanted} LIMIT {count}")
        urls = [row["url"] for row in rows]
        assert len(urls) == count
        export = ["export", tmp_path / "crawl"]
        assert not commands.run(*export, "--warc", "all.warc.gz", "--index", "all.cdxj", at=tmp_path).returncode
        with replaying(pywb, tmp_path / "warc", tmp_path / "all.cdxj", tmp_path) as replay:
            compared(browser, replay, urls)
        assert not commands.run(*export, "--wacz", "all.wacz", at=tmp_path).returncode
        with zipfile.ZipFile(tmp_path / "all.wacz") as packed:
            packed.extractall(tmp_path / "unpacked")
        archive = tmp_path / "unpacked" / "archive"
        index = tmp_path / "unpacked.cdxj"
        with index.open("wb") as file:
            indexer = [str(Path(pywb).parent / "cdx-indexer"), "-j", "-s", *map(str, sorted(archive.iterdir()))]
            subprocess.run(indexer, stdout=file, check=True)
        with replaying(pywb, tmp_path / "wacz", index, archive) as replay:
            compared(browser, replay, urls)

"""Pages replayed by pywb from our WARC and CDXJ; in a process of its own, for it patches the standard library."""

import gzip
import json
import shutil
import subprocess
from pathlib import Path

from archive_samples import START, Round, answer, chunked

from gossamer.archive.chain import Chain
from gossamer.archive.merge import merge
from gossamer.archive.store import Directory
from gossamer.config import Config
from gossamer.sharing.exchange import InProcess

PAGE = b"<html><body>" + b"a page " * 300 + b"</body></html>"
REPLAY = """
import io, json, sys
from gevent import monkey
monkey.patch_all()
from pywb.apps.frontendapp import FrontEndApp
crawls, urls = sys.argv[1:3], sys.argv[3:]
places = [{"index_paths": crawl + "/cdxj/", "archive_paths": crawl + "/warc/"} for crawl in crawls]
app = FrontEndApp(config_file=None, custom_config={"collections": dict(zip(["before", "after"], places))})
for url in urls:
    status = []
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": url, "REQUEST_URI": url, "QUERY_STRING": "",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "SCRIPT_NAME": "",
        "HTTP_HOST": "localhost", "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr,
    }
    body = b"".join(app(environ, lambda line, headers, error=None: status.append(line)))
    print(json.dumps([status[-1], body.decode("latin-1")]))
"""


def replayed(pywb: str, before: Path, after: Path, urls: list[str]) -> list[tuple[str, bytes]]:
    command = [pywb, "-W", "ignore", "-c", REPLAY, str(before), str(after), *urls]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=before, check=True)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('["')]
    return [(status, body.encode("latin-1")) for status, body in lines]


def test_replay(pywb: str, tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path / "crawl", 1.0)
    config = Config().replace({"archive.merge_files": 2})
    both = b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"
    pages = [
        answer("http://a.test/plain", PAGE),
        answer("http://a.test/Query?b=1&A=2", PAGE),
        answer("http://a.test/gzip", gzip.compress(PAGE), b"Content-Encoding: gzip\r\n"),
        answer("http://a.test/chunked", chunked(PAGE), b"Transfer-Encoding: chunked\r\n"),
        answer("http://a.test/both", chunked(gzip.compress(PAGE)), both),
    ]
    again = [answer(p.request.url, p.body, head=p.head, started_s=START + 86_400) for p in pages]
    chain = Chain.open(store, "a0", InProcess())
    values = {"marks": {}, "outbox": [], "exchange": InProcess(), "applied": [], "now_s": 1.0}
    chain.commit(Round(1).write(store, config, pages), **values)
    chain.commit(Round(2).write(store, config, again, revisit=True), **values)
    shutil.copytree(store.path, tmp_path / "before")
    chain.commit(merge(store, chain.files, config, chain.round), **values)
    assert len(chain.files["warc"]) == 1
    dates = ("20231114221320", "20231115221320")
    wanted = [f"/{when}/{date}id_/{p.request.url}" for when in ("before", "after") for date in dates for p in pages]
    assert replayed(pywb, tmp_path / "before", store.path, wanted) == [("200 OK", PAGE)] * len(wanted)

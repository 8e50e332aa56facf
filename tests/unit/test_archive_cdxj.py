"""CDXJ lines and their keys, compared with what pywb makes of the same."""

import json
import subprocess
import warnings
from pathlib import Path

import pytest
from archive_samples import START, Round, answer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gossamer.archive.cdxj import REVISIT, Capture, line, moved, surt, write_cdxj
from gossamer.archive.store import Directory, Memory
from gossamer.archive.warc import Location
from gossamer.config import Config
from gossamer.web.url import normalise

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its regular expressions have unknown escapes
    reference = pytest.importorskip("surt", reason="surt comes with pywb").surt

URLS = [
    "http://example.com/",
    "http://www.example.com/",
    "https://www2.example.com:8443/A/b/?B=1&a=2",
    "https://example.com:80/x//y/",
    "http://127.0.0.1/a",
    "http://[::1]:8080/a",
    "http://[2001:db8::1]/a/",
    "http://a.test/%7Efoo/%C3%A9?q=%2525",
    "http://a.test/?sid=0123456789abcdef0123456789ABCDEF&x",
    "http://a.test/a?x=1&PHPSESSID=0123456789abcdef0123456789abcdef",
    "http://a.test/a?x=1&PHPSESSID=0123456789abcdef0123456789abcdef&y=2",
    "http://a.test/a?ASPSESSIONIDABCDEFGH=ABCDEFGHIJKLMNOPQRSTUVWX&b",
    "http://a.test/a?cfid=12&cftoken=34",
    "http://a.test/a/(S(4hqa0555fwsecu455xqckv45))/b.aspx",
    "http://a.test/a/(4hqa0555fwsecu455xqckv45)/B.ASPX",
    "http://a.test/a?",
    "http://a.test/a?b=&a&&c",
    "http://a.test/?a=1?b=2",
    "http://a.test./x",
    "http://www.com/",
    "http://wwwexample.com/",
    "http://a.test/a%2Fb%2f/",
    "http://a.test/%2e%2e/x/%2E/",
    "http://a.test/%",
    "http://a.test/%25%32",
    "http://a.test/x%20y?a+b%20c",
    "http://a.test//",
    "http://a.test/a//",
    "http://a.test/x?a=%23b%26c",
    "http://a.test/a'b(c)*d",
    "http://a.test/.well-known/x",
]


@pytest.mark.parametrize("url", URLS)
def test_surt_as_pywb(url: str) -> None:
    assert surt(url) == reference(url)


segment = st.text("abAB01-._~%2eE/!$&'()*+,;=:@", max_size=12)
query = st.text("abAB01-._~%3dD&=+?/", max_size=15)


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from(["a.test", "www.a.test", "www12.b.a.test", "10.0.0.1", "a.test:8080", "[::2]", "A.Test"]),
    segment,
    query,
)
@example("a.test", "", "&")
def test_surt_of_any_normalised_url(host: str, path: str, search: str) -> None:
    url = normalise(f"http://{host}/{path}?{search}")
    if url is not None:
        assert surt(url) == reference(url)


def test_line() -> None:
    capture = Capture("http://a.test/x", START, "text/html", 200, "ABC", Location("warc/f.warc.gz", 12, 34))
    assert line(capture) == (
        'test,a)/x 20231114221320 {"url": "http://a.test/x", "mime": "text/html", "status": "200", '
        '"digest": "ABC", "length": "34", "offset": "12", "filename": "f.warc.gz"}\n'
    )
    assert '"mime": "unk"' in line(capture._replace(mime=""))
    assert "status" not in line(capture._replace(mime="warc/revisit"))


def test_lines_are_sorted_by_their_bytes() -> None:
    store = Memory()
    urls = ["http://a.test/z", "http://a.test/", "http://a.test/a-b", "http://a.test/a/b", "http://b.a.test/"]
    captures = [Capture(url, START, "text/html", 200, "", Location("warc/f", i, 1)) for i, url in enumerate(urls)]
    changes = write_cdxj(store, "a0", 7, captures)
    assert changes.added == {"cdxj": ["cdxj/a0-00000007.cdxj"]}
    lines = store.get("cdxj/a0-00000007.cdxj").splitlines()
    assert lines == sorted(lines)
    assert len(lines) == len(urls)
    assert not write_cdxj(store, "a0", 8, [])


def test_lines_of_moved_records() -> None:
    text = line(Capture('http://a.test/"offset": "5"', START, "a/b", 200, "", Location("warc/f", 5, 1)))
    other = line(Capture("http://a.test/", START, "a/b", 200, "", Location("warc/g", 5, 1)))
    first, second = moved([text, other], {"warc/f": ("warc/new", 100)})
    fields = json.loads(first[first.index("{") :])
    assert (fields["offset"], fields["filename"], fields["url"]) == ("105", "new", 'http://a.test/"offset": "5"')
    assert second == other


def test_the_same_as_pywbs_indexer(pywb: str, tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path / "crawl", 1.0)
    pages = [answer(f"http://a.test/{i}?B={i}&a=1", b"page %d" % i, started_s=START + i) for i in range(5)]
    Round(1).write(store, Config(), [*pages, answer("http://www.a.test/x/")])
    Round(2).write(store, Config(), [answer(pages[0].request.url, pages[0].body, started_s=START + 99)], revisit=True)
    for number in (1, 2):
        warc = store.local(f"warc/a0-{number:08d}-0.warc.gz")
        command = [pywb, "-W", "ignore", "-m", "pywb.indexer.cdxindexer", "-s", "-j", str(warc)]
        theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert store.get(f"cdxj/a0-{number:08d}.cdxj").decode() == theirs


@pytest.mark.parametrize("mime", ["text/html", 'a/"b', "a\\b", "ü/x", "a\x7fb", "", REVISIT])
def test_what_json_would_escape_is_escaped(mime: str) -> None:
    capture = Capture('http://a.test/"\\', 0.0, mime, 200, "D", Location("warc/x.warc.gz", 7, 8))
    fields = json.loads(line(capture).split(" ", 2)[2])
    assert (fields["url"], fields["mime"]) == (capture.url, mime or "unk")
    assert fields.get("status") == (None if mime == REVISIT else "200")

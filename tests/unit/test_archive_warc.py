"""WARC files, judged by their readers: warcio, fastwarc and ourselves."""

import base64
import gzip
import hashlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from archive_samples import START, Response, answer, chunked, stored
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from gossamer.archive.manifest import Changes
from gossamer.archive.store import Directory, Memory
from gossamer.archive.warc import (
    IDENTICAL,
    NOT_MODIFIED,
    Location,
    WarcWriter,
    payload_digest,
    warc_date,
)
from gossamer.archive.warc_reader import read_record
from gossamer.config import Config
from gossamer.errors import OutOfSpace

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # importing it warns of its own old parts
    from fastwarc.warc import ArchiveIterator as FastIterator

PAGE = b"<html><title>A page</title>" + b"hello " * 500 + b"</html>"
PLAIN = answer("http://a.test/plain", PAGE)
ANSWERS = [
    PLAIN,
    answer("http://a.test/gzip", gzip.compress(PAGE), b"Content-Encoding: gzip\r\n"),
    answer("http://a.test/chunked", chunked(PAGE), b"Transfer-Encoding: chunked\r\n"),
    answer(
        "https://a.test/both", chunked(gzip.compress(PAGE)), b"Content-Encoding: gzip\r\nTRANSFER-ENCODING:chunked\r\n"
    ),
    answer("http://a.test/liar", PAGE, b"Transfer-Encoding: chunked\r\n"),
    answer("http://a.test/empty", b"", b"Content-Length: 0\r\n"),
    answer(
        "http://a.test/cut", PAGE[:100], b"Content-Length: 9999\r\n", truncated="disconnect", reason="reset\r\nby peer"
    ),
    answer("http://a.test/cutchunk", chunked(PAGE)[:100], b"Transfer-Encoding: chunked\r\n", truncated="time"),
    answer("http://[2001:db8::1]:8080/six", PAGE, address="2001:db8::1"),
    answer("http://a.test/newlines", PAGE, head=b"HTTP/1.0 200 OK\nContent-Type: text/plain\n\n"),
    answer("http://a.test/bare", PAGE, head=b"HTTP/1.1 404 Not Found\r\nServer: x"),
    answer("http://a.test/octets", bytes(range(256)) * 300, b"X-Odd: \xe9\xff\r\n"),
]


def written(
    tmp_path: Path, answers: list[Response], config: Config | None = None
) -> tuple[Directory, list[Location], Changes]:
    store = Directory.prepare(tmp_path / "crawl", 1.0)
    writer = WarcWriter(store, 5, config or Config())
    places = [writer.write_exchange(response, response.stored_digest) for response in answers]
    to = stored(PLAIN, START)
    writer.write_exchange(answer("http://a.test/plain", PAGE), "", to, IDENTICAL)
    unchanged = answer("http://a.test/plain", b"", head=b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n')
    writer.write_exchange(unchanged, "", to, NOT_MODIFIED)
    return store, places, writer.close()


def test_warcio_check(tmp_path: Path) -> None:
    store, _, changes = written(tmp_path, ANSWERS)
    assert changes.added == {"warc": ["warc/a0-00000005-0.warc.gz"]}
    path = store.local("warc/a0-00000005-0.warc.gz")
    command = [sys.executable, "-m", "warcio.cli", "check", "-v", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("digest pass") == len(ANSWERS)
    assert "fail" not in result.stdout


def test_warcio_reads_what_was_sent(tmp_path: Path) -> None:
    store, places, changes = written(tmp_path, ANSWERS)
    found = {}
    with store.local(changes.added["warc"][0]).open("rb") as file:
        records = ArchiveIterator(file)
        for record in records:
            if record.rec_type == "response":
                content = record.content_stream().read()
                found[record.rec_headers.get_header("WARC-Target-URI")] = content, records.get_record_offset()
    assert [found[a.request.url][1] for a in ANSWERS] == [place.offset for place in places]
    for url in ("plain", "gzip", "chunked", "liar", "newlines"):
        assert found[f"http://a.test/{url}"][0] == PAGE
    assert found["https://a.test/both"][0] == PAGE


def test_fastwarc_reads_and_verifies(tmp_path: Path) -> None:
    store, _, changes = written(tmp_path, ANSWERS)
    path = store.local(changes.added["warc"][0])
    payloads = 0
    with path.open("rb") as file:
        for record in FastIterator(file, parse_http=True):
            if "WARC-Payload-Digest" in record.headers and record.headers["WARC-Type"] == "response":
                # It finds no end of a head whose lines end in a bare newline, though we keep those as they came.
                if not record.headers["WARC-Target-URI"].endswith("/newlines"):
                    assert record.verify_payload_digest()
                payloads += 1
    assert payloads == len(ANSWERS)


def test_the_fields_of_the_records(tmp_path: Path) -> None:
    store, _, changes = written(tmp_path, ANSWERS[:1])
    with store.local(changes.added["warc"][0]).open("rb") as file:
        records = [(r.rec_type, dict(r.rec_headers.headers), r.raw_stream.read()) for r in ArchiveIterator(file)]
    assert [kind for kind, _, _ in records] == [
        "warcinfo",
        "response",
        "request",
        "revisit",
        "request",
        "revisit",
        "request",
        "metadata",
    ]
    info, response, request, same, _, unmodified, _, beside = [headers for _, headers, _ in records]
    assert len({headers["WARC-Record-ID"] for _, headers, _ in records}) == len(records)
    assert response["WARC-Date"] == request["WARC-Date"] == info["WARC-Date"] == "2023-11-14T22:13:20.123Z"
    assert response["WARC-IP-Address"] == request["WARC-IP-Address"] == "192.0.2.7"
    assert response["WARC-Payload-Digest"] == f"sha1:{PLAIN.digest}" == same["WARC-Payload-Digest"]
    assert request["WARC-Concurrent-To"] == response["WARC-Record-ID"]
    assert (request["Content-Type"], response["Content-Type"]) == (
        "application/http;msgtype=request",
        "application/http;msgtype=response",
    )
    assert b"robots: RFC 9309" in records[0][2]
    assert b"http-header-user-agent: Gossamer/" in records[0][2]
    for headers in (same, unmodified):
        assert headers["WARC-Refers-To-Target-URI"] == "http://a.test/plain"
        assert headers["WARC-Refers-To-Date"] == response["WARC-Date"]
    assert same["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert same["WARC-Truncated"] == "length", "the body was left out"
    assert unmodified["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
    assert "WARC-Truncated" not in unmodified, "there was no body"
    assert unmodified["WARC-Payload-Digest"] == response["WARC-Payload-Digest"]
    assert (unmodified["Content-Length"], beside["WARC-Concurrent-To"]) == ("0", unmodified["WARC-Record-ID"])
    assert records[-1][2] == b'http-status-line: HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n'


def test_truncated_answers_say_why(tmp_path: Path) -> None:
    store, places, _ = written(tmp_path, [ANSWERS[6]])
    path = store.local(places[0].file)
    assert read_record(path, places[0].offset).headers["WARC-Truncated"] == "disconnect"
    with path.open("rb") as file:
        block, _ = [r.raw_stream.read() for r in ArchiveIterator(file) if r.rec_type == "metadata"]
    assert block == b"fetchTimeMs: 250\r\nreason: reset by peer\r\n"


def test_read_record(tmp_path: Path) -> None:
    store, places, _ = written(tmp_path, ANSWERS)
    for response, place in zip(ANSWERS, places, strict=True):
        record = read_record(store.local(place.file), place.offset, place.length)
        assert record == read_record(store.local(place.file), place.offset)
        assert record.headers["WARC-Target-URI"] == response.request.url
        assert record.head.rstrip() == response.head.rstrip()
        assert record.body == response.body
    with pytest.raises(EOFError):
        read_record(store.local(places[0].file), 10**9)
    info = read_record(store.local(places[0].file), 0)
    assert (info.head, info.headers["WARC-Type"]) == (b"", "warcinfo")


def test_files_are_limited(tmp_path: Path) -> None:
    config = Config().replace({"archive.warc_bytes": 1 << 16, "archive.requests": False})
    noise = [hashlib.shake_256(b"%d" % i).digest(20_000) for i in range(12)]
    store, places, changes = written(tmp_path, [answer(f"http://a.test/{i}", b) for i, b in enumerate(noise)], config)
    names = changes.added["warc"]
    assert names == [f"warc/a0-00000005-{k}.warc.gz" for k in range(4)] == store.list("warc/")
    assert sorted({place.file for place in places}) == names[:3]
    for name in names:
        assert store.local(name).stat().st_size < (1 << 16) + 21_000
        with store.local(name).open("rb") as file:
            kinds = [record.rec_type for record in ArchiveIterator(file)]
        assert kinds[0] == "warcinfo"
        assert "request" not in kinds
    for place, body in zip(places, noise, strict=True):
        assert read_record(store.local(place.file), place.offset, place.length).body == body
    assert store.list("tmp/") == []


def test_nothing_written_is_no_file() -> None:
    store = Memory()
    assert not WarcWriter(store, 1, Config()).close()
    assert store.list("") == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk(tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path / "crawl", 1.0)
    store.scratch("warc/a0-00000001-0.warc.gz").symlink_to("/dev/full")
    writer = WarcWriter(store, 1, Config())
    writer.write_exchange(PLAIN, PLAIN.digest)
    with pytest.raises(OutOfSpace):
        writer.close()


def test_payload_digest_is_the_same_however_it_is_chunked() -> None:
    expected = base64.b32encode(hashlib.sha1(PAGE).digest()).decode()
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"
    assert {payload_digest(head, chunked(PAGE, size)) for size in (1, 50, 9999)} == {expected}
    assert payload_digest(b"HTTP/1.1 200 OK\r\n\r\n", PAGE) == expected
    assert payload_digest(head, PAGE) == expected, "only said to be chunked"


@given(st.binary(max_size=100))
def test_digest_is_base32(body: bytes) -> None:
    assert payload_digest(b"", body) == base64.b32encode(hashlib.sha1(body).digest()).decode()


@pytest.mark.parametrize(
    ("seconds", "date"),
    [(0.0, "1970-01-01T00:00:00.000Z"), (1e9 + 0.9999, "2001-09-09T01:46:40.999Z"), (1e9, "2001-09-09T01:46:40.000Z")],
)
def test_dates_are_cut(seconds: float, date: str) -> None:
    assert warc_date(seconds) == date


heads = st.binary(max_size=200).map(
    lambda b: b"HTTP/1.1 200 OK\r\nX: " + bytes(c for c in b if c not in b"\r\n") + b"\r\n\r\n"
)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(heads, st.binary(max_size=3000)), min_size=1, max_size=6))
def test_whatever_comes_can_be_read_again(pairs: list[tuple[bytes, bytes]]) -> None:
    store = Memory()
    writer = WarcWriter(store, 1, Config())
    answers = [answer(f"http://a.test/{i}", body, head=head) for i, (head, body) in enumerate(pairs)]
    places = [writer.write_exchange(response, response.digest) for response in answers]
    writer.close()
    for response, place in zip(answers, places, strict=True):
        record = read_record(store.local(place.file), place.offset, place.length)
        assert (record.head, record.body) == (response.head, response.body)


def test_the_first_record_says_who_archives_what(tmp_path: Path) -> None:
    about = {"operator": "A Library", "collection": "Webs of spiders", "description": "Höhlenspinnen"}
    config = Config().replace({f"archive.{name}": text for name, text in about.items()})
    store, _, _ = written(tmp_path, ANSWERS[:1], config)
    with store.local("warc/a0-00000005-0.warc.gz").open("rb") as file:
        info = next(iter(ArchiveIterator(file)))
        fields = dict(line.split(": ", 1) for line in info.content_stream().read().decode().splitlines())
    assert info.rec_type == "warcinfo"
    assert {"operator": "A Library", "isPartOf": "Webs of spiders"}.items() <= fields.items()
    assert fields["description"] == "Höhlenspinnen"

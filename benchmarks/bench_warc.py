"""Prints the microseconds that a WARC record of about 36 KB takes, beside fastwarc's in the same run."""

import base64
import hashlib
import io
import random
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from fastwarc.stream_io import GzipWriter
from fastwarc.warc import WarcRecord, WarcRecordType

from gossamer.archive.store import Memory
from gossamer.archive.warc import WarcWriter, payload_digest
from gossamer.config import Config

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nServer: bench\r\n\r\n"


@dataclass
class Request:
    url: str


@dataclass
class Response:
    request: Request
    body: bytes
    reason: str = ""
    started_s: float = 1.7e9
    elapsed_s: float = 0.1
    address: str = "192.0.2.1"
    request_head: bytes = b""  # the peer writes responses only
    head: bytes = HEAD
    truncated: str = ""
    request_body: bytes = b""
    protocol: str = ""


def pages(count: int) -> list[bytes]:
    """The HTML files under the directory given, or HTML-like text that compresses about as pages do."""
    if len(sys.argv) > 1:
        files = sorted(p for p in Path(sys.argv[1]).rglob("*.html") if 20_000 < p.stat().st_size < 60_000)
        return [path.read_bytes() for path in files[:count]]
    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(3000)]
    lines = [f'<p class="x"><a href="/{w}/{v}.html">{w}</a> {v}</p>\n' for w, v in pairwise(words)]
    return ["".join(draw.choices(lines, k=800)).encode()[:36_000] for _ in range(count)]


def ours(bodies: list[bytes]) -> int:
    writer = WarcWriter(Memory(), 1, Config())
    end = 0
    for i, body in enumerate(bodies):
        response = Response(Request(f"http://a.test/{i}"), body)
        place = writer.write_exchange(response, payload_digest(HEAD, body))
        end = place.offset + place.length
    return end


def fastwarc(bodies: list[bytes]) -> int:
    sink = io.BytesIO()
    stream = GzipWriter(sink, compression_level=1)
    for i, body in enumerate(bodies):
        record = WarcRecord()
        record.init_headers(WarcRecordType.response)
        record.headers["WARC-Target-URI"] = f"http://a.test/{i}"
        record.headers["WARC-IP-Address"] = "192.0.2.1"
        record.is_http = True
        record.set_bytes_content(HEAD + body)
        digest = hashlib.sha1(body, usedforsecurity=False).digest()
        record.headers["WARC-Payload-Digest"] = "sha1:" + base64.b32encode(digest).decode()
        record.write(stream)
        stream.finish()  # one member for each record
    return len(sink.getvalue())


def main() -> None:
    bodies = pages(500)
    figures = {}
    for name, run in (("ours", ours), ("fastwarc", fastwarc)):
        best, size = sys.float_info.max, 0
        for _ in range(5):
            start = time.process_time()
            size = run(bodies)
            best = min(best, time.process_time() - start)
        figures[name] = best / len(bodies) * 1e6
        shrunk = sum(map(len, bodies)) / size
        print(f"{name:10} {figures[name]:7.1f} µs a record, compressed {shrunk:.2f} times")
    print(f"ours takes {figures['ours'] / figures['fastwarc']:.2f} of fastwarc's time, digests included")


if __name__ == "__main__":
    main()

"""A server that speaks the XML interface of Google Cloud Storage, as far as an archive needs it, on loopback.

It is our own reading of that interface (objects, buckets, preconditions, multipart uploads): it shows that our client
sends conditions and obeys the answers, not what Google's servers do.
Its generations are what conditions are about: `x-goog-if-generation-match: 0` creates, or answers 412.
"""

import contextlib
import hashlib
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

CONDITION = "x-goog-if-generation-match"
_META = "x-goog-meta-"
_PAGE = 100  # keys of a list: less than 1,000, so that lists of tests have more than one page


@dataclass(frozen=True)
class Thing:
    """An object: immutable, as its generation is."""

    body: bytes
    generation: int
    meta: dict[str, str] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        etag = f'"{hashlib.md5(self.body).hexdigest()}"'
        changed = formatdate(1_750_000_000, usegmt=True)
        return {"ETag": etag, "Last-Modified": changed, "x-goog-generation": str(self.generation), **self.meta}


class Storage:
    """The buckets of a server; `lock` makes each request one step, as Google promises for objects."""

    def __init__(self, *buckets: str) -> None:
        self.buckets: dict[str, dict[str, Thing]] = {name: {} for name in buckets}
        self.uploads: dict[str, tuple[dict[str, str], dict[int, bytes]]] = {}
        self.lock = threading.Lock()
        self._numbers = itertools.count(1_750_000_000_000_000)

    def put(self, objects: dict[str, Thing], name: str, body: bytes, meta: dict[str, str], condition: str) -> Thing:
        """Raises KeyError if the condition does not hold."""
        if condition and int(condition) != (objects[name].generation if name in objects else 0):
            raise KeyError("PreconditionFailed")
        objects[name] = thing = Thing(body, next(self._numbers), meta)
        return thing


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    storage: Storage

    def log_message(self, *_: object) -> None: ...

    def _answer(self, status: int, body: bytes = b"", length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def _fail(self, status: int, code: str) -> None:
        self._answer(
            status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        )

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        bucket, _, name = unquote(parts.path[1:]).partition("/")
        query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        with self.storage.lock:
            objects = self.storage.buckets.get(bucket)
            if objects is None:
                self._fail(404, "NoSuchBucket")
            elif not name:
                self._list(objects, query)
            elif "uploads" in query or "uploadId" in query:
                self._upload(objects, name, query, body)
            else:
                self._object(objects, name, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

    def _object(self, objects: dict[str, Thing], name: str, body: bytes) -> None:
        if self.command == "PUT":
            self._put(objects, name, body, self._meta())
        elif name not in objects:
            self._fail(404, "NoSuchKey")
        elif self.command == "DELETE":
            del objects[name]
            self._answer(204)
        else:
            thing = objects[name]
            whole, given = len(thing.body), self.headers.get("Range", "")
            start, _, end = given.removeprefix("bytes=").partition("-")
            if not given:
                self._answer(200, thing.body, whole, **thing.headers)
            elif start and int(start) >= whole:
                self._fail(416, "InvalidRange")
            else:
                first = int(start) if start else max(0, whole - int(end))
                last = min(int(end), whole - 1) if start and end else whole - 1
                part = thing.body[first : last + 1]
                self._answer(206, part, **thing.headers, Content_Range=f"bytes {first}-{last}/{whole}")

    def _meta(self) -> dict[str, str]:
        return {key.lower(): value for key, value in self.headers.items() if key.lower().startswith(_META)}

    def _put(self, objects: dict[str, Thing], name: str, body: bytes, meta: dict[str, str]) -> Thing | None:
        try:
            thing = self.storage.put(objects, name, body, meta, self.headers.get(CONDITION, ""))
        except KeyError:
            self._fail(412, "PreconditionFailed")
            return None
        self._answer(200, **thing.headers)
        return thing

    def _list(self, objects: dict[str, Thing], query: dict[str, str]) -> None:
        prefix, after = query.get("prefix", ""), query.get("continuation-token") or query.get("start-after") or ""
        names = sorted(name for name in objects if name.startswith(prefix) and name > after)
        if delimiter := query.get("delimiter", ""):
            folders = {
                prefix + n[len(prefix) :].partition(delimiter)[0] + delimiter
                for n in names
                if delimiter in n[len(prefix) :]
            }
            names = [name for name in names if delimiter not in name[len(prefix) :]]
        else:
            folders = set()
        page = names[: min(int(query.get("max-keys") or _PAGE), _PAGE)]
        text = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>2025-06-15T15:06:40.000Z</LastModified>"
            f"<ETag>{escape(objects[name].headers['ETag'])}</ETag><Size>{len(objects[name].body)}</Size></Contents>"
            for name in page
        )
        text += "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders))
        if len(page) < len(names):
            text += f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
        self._answer(200, f"<?xml version='1.0'?><ListBucketResult>{text}</ListBucketResult>".encode())

    def _upload(self, objects: dict[str, Thing], name: str, query: dict[str, str], body: bytes) -> None:
        uploads, number = self.storage.uploads, query.get("uploadId", "")
        if "uploads" in query:
            number = f"upload-{len(uploads)}"
            uploads[number] = (self._meta(), {})
            text = f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>"
            self._answer(200, text.encode())
        elif number not in uploads:
            self._fail(404, "NoSuchUpload")
        elif self.command == "PUT":
            uploads[number][1][int(query["partNumber"])] = body
            self._answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        elif self.command == "DELETE":
            del uploads[number]
            self._answer(204)
        else:
            meta, parts = uploads.pop(number)
            whole = b"".join(parts[each] for each in sorted(parts))
            thing = self.storage.put(objects, name, whole, meta, "")
            etag = escape(thing.headers["ETag"])
            text = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
            self._answer(200, text.encode(), **{"x-goog-generation": str(thing.generation)})


@contextlib.contextmanager
def serving(*buckets: str) -> Iterator[int]:
    """Yields the port of a server with these buckets."""
    handler = type("Handler", (_Handler,), {"storage": Storage(*buckets)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="google", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

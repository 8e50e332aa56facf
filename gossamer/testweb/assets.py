"""This module makes what pages of a synthetic web need to be shown: style sheets, a script, a font, and images.

They are there if `WebSpec.requisites` asks for them, and are a function of their paths.
"""

import struct
import zlib

from gossamer.testweb.answer import NOT_FOUND, Answer, text

FOLDER = "/assets/"
_SITE = """@import "base.css";
@font-face { font-family: web; src: url(web.woff2) format("woff2") }
body { background: #f4f1ea url('ground.png') }
"""
_BASE = "h1 { padding-left: 40px; background: url(/assets/mark.png) no-repeat }\n/* url(none.png) */\n"
_SCRIPT = "addEventListener('load', () => { document.body.dataset.ready = 'yes' }); // <img src=none.png>\n"
_FILES = {
    "site.css": text(200, _SITE, "text/css"),
    "base.css": text(200, _BASE, "text/css"),
    "app.js": text(200, _SCRIPT, "text/javascript"),
    "web.woff2": Answer(200, b"Content-Type: font/woff2\r\n", b"wOF2" + bytes(60)),
}
SHARED = (*_FILES, "ground.png", "mark.png")
_WIDTH, _HEIGHT = 32, 24


def head() -> str:
    """Returns what a page's head refers to."""
    return f'<link rel="stylesheet" href="{FOLDER}site.css">\n<script src="{FOLDER}app.js"></script>\n'


def images(page: int, count: int, elsewhere: str) -> str:
    """Returns the images of a page; the last one is on another host."""
    urls = [image(page, nth) for nth in range(count)]
    urls[-1] = f"http://{elsewhere}{urls[-1]}"
    return "".join(f'<img src="{url}" width="{_WIDTH}" height="{_HEIGHT}" alt="">' for url in urls) + "\n"


def image(page: int, nth: int) -> str:
    return f"{FOLDER}{page}-{nth}.png"


def asset(path: str) -> Answer:
    """Returns the answer to a path in that folder."""
    name = path.removeprefix(FOLDER)
    if name in _FILES:
        return _FILES[name]
    return Answer(200, b"Content-Type: image/png\r\n", _png(name)) if name.endswith(".png") else NOT_FOUND


def _png(name: str) -> bytes:
    """Returns an image of one colour, which follows from its name."""
    colour = zlib.crc32(name.encode()).to_bytes(4)[:3]
    size = struct.pack(">IIBBBBB", _WIDTH, _HEIGHT, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + colour * _WIDTH) * _HEIGHT, 1)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", size) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

import base64

import pytest

from gossamer.web import images
from gossamer.web.requisites import KINDS, of_page, of_style_sheet

BASE = "http://a.test/dir/"


def found(markup: str, most: int = 100) -> dict[str, str]:
    kinds = of_page(markup.encode(), "utf-8", BASE, most)
    return {url.removeprefix(BASE): KINDS[kind] for url, kind in kinds.items()}


def in_css(text: str) -> dict[str, str]:
    kinds = of_style_sheet(text.encode(), "utf-8", BASE, 100)
    return {url.removeprefix(BASE): KINDS[kind] for url, kind in kinds.items()}


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<img src=1.png>", {"1.png": "image"}),
        ('<img srcset="a 1x, b,c 2x,d, e 10w">', dict.fromkeys(["a", "b,c", "d", "e"], "image")),
        ("<picture><source srcset=p.webp></picture>", {"p.webp": "image"}),
        ("<video src=v poster=p></video>", {"v": "video", "p": "image"}),
        ("<video><source src=w><track src=t></video>", {"w": "video", "t": "track"}),
        ("<audio><source src=s></audio>", {"s": "audio"}),
        ("<object data=o></object><embed src=e>", {"o": "object", "e": "object"}),
        ("<script src=s></script><script>'<img src=n>'</script>", {"s": "script"}),
        ('<link rel="alternate stylesheet" href=s><link rel="shortcut icon" href=i>', {"s": "style", "i": "icon"}),
        ("<link rel=manifest href=m><link rel=apple-touch-icon href=t>", {"m": "manifest", "t": "icon"}),
        ("<link rel=preload as=font href=f><link rel=modulepreload href=j>", {"f": "font", "j": "script"}),
        ("<link rel=next href=n><a href=a>a</a><iframe src=f></iframe>", {}),
        ("<p style=\"background: url('b')\"><body background=c>", {"b": "image", "c": "image"}),
        ("<style>@import 'i'; b { background: url(u) }</style>", {"i": "style", "u": "image"}),
        ("<noscript><img src=n></noscript><template><img src=t></template><!-- <img src=c> -->", {"n": "image"}),
        ("<div><template shadowrootmode=open><img src=s></template></div>", {"s": "image"}),
        ("<svg><image href=i /><use href='#own'/><use xlink:href='s#x'/></svg>", {"i": "image", "s": "image"}),
        ("<input type=image src=i><input src=n>", {"i": "image"}),
        ("<img src=data:image/png;base64,AAAA><img src=''><img src='http://[bad'>", {}),
    ],
)  # fmt: skip
def test_pages(markup: str, expected: dict[str, str]) -> None:
    assert found(f"<!doctype html><html><body>{markup}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@import url(a) screen; @IMPORT 'b';@import\"c\"", dict.fromkeys(["a", "b", "c"], "style")),
        ("@font-face { src: url(f), url('g') } b { c: url(h) }", {"f": "font", "g": "font", "h": "image"}),
        ("a { src: url( \"f.woff2?v=1\" ) }", {"f.woff2?v=1": "font"}),
        ("/* url(no) */ b { c: URL(yes) } /* @import 'end", {"yes": "image"}),
        (r"a { b: url(x\29 y.png) } c { d: url('e\'f') }", {"x)y.png": "image", "e'f": "image"}),
        ("a { b: url(data:image/png,x) url(#x) url() }", {}),
    ],
)  # fmt: skip
def test_style_sheets(text: str, expected: dict[str, str]) -> None:
    assert in_css(text) == expected


def test_no_more_than_that() -> None:
    assert len(found("".join(f"<img src={n}>" for n in range(50)), most=7)) == 7


_PIECES = ["/*", "url(", "url('", "@font-face", "@import ", "\\", "url(\\", "@font-face{url(x)"]


@pytest.mark.parametrize("piece", _PIECES)
def test_hostile_style_sheets_take_linear_time(piece: str) -> None:
    assert len(of_style_sheet((piece * 100_000).encode(), "utf-8", BASE, 100)) <= 1  # quadratic time would be hours


def test_sizes_of_images() -> None:
    png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + (640).to_bytes(4) + (480).to_bytes(4)
    gif = b"GIF89a" + (3).to_bytes(2, "little") + (4).to_bytes(2, "little")
    jpeg = b"\xff\xd8\xff\xe0\0\x06abcd\xff\xff\xc2\0\x11\x08\x01\0\x02\0\x03"
    lossy = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
    lossless = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
    assert images.size(png) == (640, 480)
    assert images.size(gif) == (3, 4)
    assert images.size(jpeg) == (512, 256)
    assert images.size(lossy) == images.size(lossless) == (1, 1)
    for data in (png, gif, jpeg, lossy, lossless):
        for end in range(len(data)):
            assert images.size(data[:end]) in (None, images.size(data))
    assert images.size(b"\xff\xd8" + b"\xff\xe0\0\0" * 9) is None

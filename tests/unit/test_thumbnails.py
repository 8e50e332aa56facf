"""Images of the last pages: which one is offered, and what is never given out."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gossamer.testweb.assets import asset
from gossamer.watch.thumbnails import COLUMNS, Thumbnails, raster

PNG = asset("/assets/1-0.png").body
ROW: dict[str, Any] = {
    "key": 1, "width": 32, "height": 24, "body_bytes": 100, "warc": "warc/a.warc.gz", "warc_offset": 0,
    "warc_bytes": 200, "is_revisit": False, "outcome": "ok",
}  # fmt: skip


def visits(*given: dict[str, Any]) -> pa.Table:
    full = [{**ROW, **each} for each in given]
    return pa.table({name: [row[name] for row in full] for name in [*COLUMNS, "outcome"]})


def referrers(*pairs: tuple[int, int], kind: str = "requisite") -> pa.Table:
    columns = {"key": [key for key, _ in pairs], "referrer": [page for _, page in pairs]}
    return pa.table({**columns, "round": [1] * len(pairs), "kind": [kind] * len(pairs)})


def offered(found: Thumbnails, *pages: int) -> list[str]:
    return [row["image"] for row in found.offered({"key": key} for key in pages)]


def known(*rows: dict[str, Any]) -> Thumbnails:
    found = Thumbnails()
    found.add(Path("crawl"), {"warc/a.warc.gz"}, visits(*rows))
    return found


def test_a_page_has_the_largest_image_that_was_found_on_it_first() -> None:
    found = known({"key": 11}, {"key": 12, "width": 320, "warc_offset": 7}, {"key": 13, "warc_offset": 9})
    found.add_referrers(referrers((11, 1), (12, 1), (13, 2)))
    small, large, other = offered(found, 11, 12, 13)
    assert len({small, large, other, ""}) == 4
    assert offered(found, 1, 2, 3) == [large, other, ""]


def test_an_image_that_is_a_page_itself_is_shown_as_it_is() -> None:
    found = known({"key": 11})
    found.add_referrers(referrers((11, 1), kind="page"))
    assert [bool(name) for name in offered(found, 11, 1)] == [True, False]


@pytest.mark.parametrize(
    "row",
    [
        {"width": 1, "height": 1},
        {"width": 40_000, "height": 40_000},
        {"width": None, "height": None},
        {"body_bytes": 1 << 20},
        {"warc_bytes": 1 << 20},
        {"is_revisit": True},
        {"outcome": "gone"},
        {"warc": ""},
        {"warc": "../../../etc/passwd"},
    ],
)
def test_what_is_too_small_too_large_or_not_ours_is_not_offered(row: dict[str, Any]) -> None:
    assert offered(known(row), 1) == [""]


def test_memory_is_bounded() -> None:
    found = known(*({"key": key, "warc_offset": key} for key in range(10_000)))
    found.add_referrers(referrers(*((key, key) for key in range(50_000))))
    assert len(found._images) == 4_000
    assert len(found._referrers) == 16_000
    assert offered(found, 0, 9_999)[0] == ""


def test_only_what_was_offered_is_read() -> None:
    found = known({})
    (name,) = offered(found, 1)
    assert found.read(name) is None  # the file is gone
    assert found.read("0" * 24) is None
    assert offered(found, 2) == [""]
    assert name not in found._offered


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<!doctype html><script>alert(1)</script>",
        b"GIF89a",  # no size
        b"GIF8<script>alert(1)</script>",
        b"\xff\xd8\xff<script>alert(1)</script>",
        PNG[:16] + (60_000).to_bytes(4) * 2 + PNG[24:],
        PNG + bytes(300 << 10),
    ],
)
def test_only_raster_images_of_a_reasonable_size_pass(data: bytes) -> None:
    assert raster(data) is None


def test_the_type_is_that_of_the_bytes() -> None:
    assert raster(PNG) == ("image/png", PNG)
    gif = b"GIF89a" + (30).to_bytes(2, "little") * 2 + bytes(20)
    assert raster(gif) == ("image/gif", gif)
    webp = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + (99).to_bytes(3, "little") * 2
    assert raster(webp) == ("image/webp", webp)

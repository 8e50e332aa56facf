"""This module reads how large an image is from its first bytes: PNG, GIF, JPEG and WebP."""

from struct import unpack_from

HEADER_BYTES = 256 << 10  # a JPEG may have long comments before its size
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers of JPEG that begin a frame


def size(data: bytes) -> tuple[int, int] | None:
    """Returns width and height in pixels, if the header says so."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and len(data) >= 24:
        return unpack_from(">II", data, 16)
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return unpack_from("<HH", data, 6)
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data[:HEADER_BYTES])
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp(data)
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = unpack_from(">HH", data, at + 5)
            return width, height
        if marker == 0xFF:  # padding
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # markers without a segment
            at += 2
        else:
            at += 2 + max(unpack_from(">H", data, at + 2)[0], 2)
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L" and data[20] == 0x2F:
        (bits,) = unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None

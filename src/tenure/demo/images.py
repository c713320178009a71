"""Pictures: painted, resized and written as PNG, in plain Python."""

import hashlib
import math
import struct
import zlib
from typing import NamedTuple

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_PIXELS = 4_000_000
"""Pixels of a picture at most: whoever asks for more is told so before memory is taken."""


class Raster(NamedTuple):
    """A picture: three bytes a pixel, row after row."""

    width: int
    height: int
    pixels: bytes


def check_size(width: int, height: int) -> None:
    """Raises `ValueError` for a picture that can't be."""
    if width < 1 or height < 1 or width * height > MOST_PIXELS:
        raise ValueError(f"{width}×{height}: give 1 to {MOST_PIXELS:,} pixels")


def painted(name: str, width: int, height: int) -> Raster:
    """A picture of rings; the same name gives the same picture."""
    check_size(width, height)
    red, green, blue, turn = hashlib.sha256(name.encode()).digest()[:4]
    rings = 2 + turn % 5
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            distance = math.hypot(x / width - 0.5, y / height - 0.5)
            light = 0.5 + 0.5 * math.cos(distance * rings * math.tau)
            pixels += bytes((int(red * light), int(green * light), 255 - int((255 - blue) * light)))
    return Raster(width, height, bytes(pixels))


def resized(raster: Raster, width: int, height: int) -> Raster:
    """The picture in another size; each new pixel is the mean of those it covers."""
    check_size(width, height)
    columns = [_span(x, width, raster.width) for x in range(width)]
    pixels = bytearray()
    for y in range(height):
        rows = _span(y, height, raster.height)
        for span in columns:
            pixels += _mean(raster, span, rows)
    return Raster(width, height, bytes(pixels))


def _span(at: int, size: int, of: int) -> range:
    """The old pixels under a new one: at least one."""
    start = at * of // size
    return range(start, max(start + 1, (at + 1) * of // size))


def _mean(raster: Raster, columns: range, rows: range) -> bytes:
    covered = [
        raster.pixels[3 * (y * raster.width + columns.start) : 3 * (y * raster.width + columns.stop)] for y in rows
    ]
    count = len(columns) * len(rows)
    return bytes(sum(sum(row[channel::3]) for row in covered) // count for channel in range(3))


def png(raster: Raster) -> bytes:
    """The picture as a PNG file."""
    stride = 3 * raster.width
    rows = (raster.pixels[start : start + stride] for start in range(0, len(raster.pixels), stride))
    unfiltered = b"".join(b"\0" + row for row in rows)
    header = struct.pack(">IIBBBBB", raster.width, raster.height, 8, 2, 0, 0, 0)
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(unfiltered)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

"""Pictures: the files are what PNG readers expect, and sizes are what was asked for."""

import struct
import zlib

import pytest

from tenure.demo.images import MOST_PIXELS, SIGNATURE, Raster, painted, png, resized


def read(body: bytes) -> Raster:
    """A PNG taken apart by the book: signature, chunks with their checksums, rows with their filter."""
    assert body.startswith(SIGNATURE)
    chunks, at = list[tuple[bytes, bytes]](), len(SIGNATURE)
    while at < len(body):
        length, kind = struct.unpack_from(">I4s", body, at)
        content = body[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", body, at + 8 + length)
        assert checksum == zlib.crc32(kind + content)
        chunks.append((kind, content))
        at += 12 + length
    assert [kind for kind, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[0][1])
    assert rest == [8, 2, 0, 0, 0]
    raw, stride = zlib.decompress(chunks[1][1]), 1 + 3 * width
    rows = [raw[start : start + stride] for start in range(0, len(raw), stride)]
    assert all(row[0] == 0 for row in rows)
    return Raster(width, height, b"".join(row[1:] for row in rows))


def test_a_picture_survives_its_file() -> None:
    picture = painted("kettle", 31, 7)
    assert read(png(picture)) == picture
    assert len(picture.pixels) == 3 * 31 * 7


def test_the_same_name_gives_the_same_picture() -> None:
    assert painted("kettle", 8, 8) == painted("kettle", 8, 8) != painted("cup", 8, 8)


@pytest.mark.parametrize("size", [(1, 1), (5, 3), (10, 6), (20, 12), (7, 11)])
def test_a_picture_of_one_colour_keeps_it_in_any_size(size: tuple[int, int]) -> None:
    plain = Raster(10, 6, bytes([200, 100, 50]) * 60)
    assert resized(plain, *size) == Raster(*size, bytes([200, 100, 50]) * (size[0] * size[1]))


def test_a_new_pixel_is_the_mean_of_those_it_covers() -> None:
    picture = Raster(2, 2, bytes([0, 10, 0, 100, 20, 0, 100, 30, 0, 200, 40, 255]))
    assert resized(picture, 1, 1).pixels == bytes([100, 25, 63])
    assert resized(picture, 1, 2).pixels == bytes([50, 15, 0, 150, 35, 127])
    assert resized(picture, 2, 2) == picture


@pytest.mark.parametrize("size", [(0, 1), (1, 0), (-1, 5), (MOST_PIXELS, 2)])
def test_a_size_that_cant_be_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="pixels"):
        resized(painted("kettle", 2, 2), *size)

"""Messages between processes of one worker: a length, then so many bytes."""

import asyncio
import struct

LENGTH = struct.Struct(">I")
MAX_FRAME = 64 * 1024 * 1024


def frame(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


async def read_body(reader: asyncio.StreamReader) -> bytes | None:
    """The next frame's body; None when the other side is gone."""
    try:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if length > MAX_FRAME:
            raise AssertionError(f"a frame of {length} bytes")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None

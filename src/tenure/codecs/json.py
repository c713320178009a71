"""The JSON codec: any JSON value, nothing that another reader would understand differently.

Refused at the door, because they break later and elsewhere: NaN and infinities (not JSON), nesting beyond 64 levels
(overruns parsers), integers beyond 64 bits (silently rounded by others), bodies beyond 256 KiB.
"""

import msgspec

from tenure.codecs.plain import Plain
from tenure.domain.names import MAX_PAYLOAD


class JsonCodec(Plain):
    """JSON, with msgspec's types: structs, dataclasses, datetimes, UUIDs, decimals, enums; bytes as base64."""

    def __init__(self, most: int = MAX_PAYLOAD) -> None:
        super().__init__("json", msgspec.json.Encoder().encode, msgspec.json.Decoder, most)


_JSON = JsonCodec()
encode = _JSON.encode
decode = _JSON.decode

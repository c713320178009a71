"""The MessagePack codec: the same values as JSON in fewer bytes, with bytes as they are."""

import msgspec

from tenure.codecs.plain import Plain
from tenure.domain.names import MAX_PAYLOAD


class MsgpackCodec(Plain):
    """MessagePack, with msgspec's types."""

    def __init__(self, most: int = MAX_PAYLOAD) -> None:
        super().__init__("msgpack", msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder, most)

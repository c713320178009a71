"""Codecs: how payloads and results become bytes."""

from tenure.codecs.base import Codec, Codecs
from tenure.codecs.compressed import compressed_codecs
from tenure.codecs.json import JsonCodec
from tenure.codecs.msgpack import MsgpackCodec

__all__ = ["Codec", "Codecs", "known_codecs"]


def known_codecs() -> Codecs:
    """The codecs that come with Tenure."""
    return Codecs(JsonCodec(), MsgpackCodec(), *compressed_codecs())

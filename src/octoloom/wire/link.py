"""What links say to each other, as frames of MessagePack.

The first frame on a connection is the dialler's `Intro`; each one after it is a list of messages, so that a tick's
worth of them costs one frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from octoloom.core.errors import ProtocolError
from octoloom.core.link_messages import LinkMessage
from octoloom.wire.framing import frame


class Intro(msgspec.Struct, frozen=True, array_like=True, tag="octoloom-link-1"):
    """Who dials, and for which chain. The tag is the protocol and its version: a stranger's frame does not decode."""

    link: str
    token: str = ""
    chain: str = ""


_encoder = msgspec.msgpack.Encoder()
_messages = msgspec.msgpack.Decoder(list[LinkMessage])
_intro = msgspec.msgpack.Decoder(Intro)


def encode_intro(intro: Intro) -> bytes:
    return frame(_encoder.encode(intro))


def decode_intro(body: bytes | memoryview) -> Intro:
    try:
        return _intro.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError("malformed", f"not the intro of a link: {error}") from error


def encode_frame(messages: Sequence[LinkMessage]) -> bytes:
    return frame(_encoder.encode(messages))


def decode(body: bytes | memoryview) -> list[LinkMessage]:
    try:
        return _messages.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError("malformed", f"not a frame of link messages: {error}") from error

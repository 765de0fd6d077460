"""A question that anyone may ask on a link's peer port instead of an intro: how are you, and what do you hold?

Question and answer are JSON objects, one frame each. An intro is MessagePack and never begins with a brace, so the
first byte tells the two apart. With `space` the answer also holds that space's whole state.
"""

from __future__ import annotations

from typing import Any

import msgspec

from octoloom.core.errors import ProtocolError
from octoloom.wire.framing import frame

SPACES_MAX = 1000
ANSWER_BYTES_MAX = 64 << 20


class StatsRequest(msgspec.Struct, frozen=True):
    """`digests` has each state hashed, which costs the link as much as to encode it."""

    stats: bool = True
    digests: bool = True
    space: str = ""


_requests = msgspec.json.Decoder(StatsRequest)
_encode = msgspec.json.Encoder().encode


def is_request(body: bytes | memoryview) -> bool:
    return bytes(body[:1]) == b"{"


def encode_request(request: StatsRequest) -> bytes:
    return frame(_encode(request))


def decode_request(body: bytes | memoryview) -> StatsRequest:
    try:
        return _requests.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"not a question about statistics: {error}") from error


def encode_answer(answer: dict[str, Any]) -> bytes:
    return frame(_encode(answer))


def decode_answer(body: bytes | memoryview) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"not an answer about statistics: {error}") from error

"""What the register and its clients say to each other: one MessagePack message per frame."""

from __future__ import annotations

import msgspec

from octoloom.core.errors import ProtocolError
from octoloom.core.register_messages import FromRegister, ToRegister
from octoloom.wire.framing import frame

REGISTER_FRAME_MAX = 16 * 1024 * 1024
"""A directory of a thousand links takes about 200 KiB."""

_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(ToRegister)
_answers = msgspec.msgpack.Decoder(FromRegister)


def encode_frame(message: ToRegister | FromRegister) -> bytes:
    return frame(_encoder.encode(message))


def decode_request(body: bytes | memoryview) -> ToRegister:
    try:
        request: ToRegister = _requests.decode(body)
        return request
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError("malformed", f"not a message to the register: {error}") from error


def decode_answer(body: bytes | memoryview) -> FromRegister:
    try:
        answer: FromRegister = _answers.decode(body)
        return answer
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError("malformed", f"not a message from the register: {error}") from error

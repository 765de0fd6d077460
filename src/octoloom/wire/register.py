"""What the register and its clients say to each other: one MessagePack message per frame."""

from __future__ import annotations

import msgspec

from octoloom.core.errors import ProtocolError
from octoloom.core.group_messages import MemberToRegister, RegisterToMember
from octoloom.core.log_messages import AskLog, BrokerToRegister, RegisterToBroker
from octoloom.core.register_messages import FromRegister, ToRegister
from octoloom.wire.framing import frame

REGISTER_FRAME_MAX = 64 * 1024 * 1024
"""A directory of a thousand links takes about 200 KiB, one of a hundred thousand partitions about 20 MiB."""
REQUEST_FRAME_MAX = 16 * 1024 * 1024
"""The longest request names every partition of a broker: about 4 MiB for a hundred thousand of them."""

Request = ToRegister | BrokerToRegister | MemberToRegister | AskLog
"""From links, brokers, members of groups, and whoever asks."""
Answer = FromRegister | RegisterToBroker | RegisterToMember

_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)
_answers = msgspec.msgpack.Decoder(Answer)


def encode_frame(message: Request | Answer) -> bytes:
    return frame(_encoder.encode(message))


def decode_request(body: bytes | memoryview) -> Request:
    try:
        request: Request = _requests.decode(body)
        return request
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError("malformed", f"not a message to the register: {error}") from error


def decode_answer(body: bytes | memoryview) -> Answer:
    try:
        answer: Answer = _answers.decode(body)
        return answer
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError("malformed", f"not a message from the register: {error}") from error

"""What brokers say to each other when one follows another, on the port for Kafka's clients.

A follower's first request is framed like every other, with a private API key; its body is an `Intro`. The answer, a
`Welcome`, is framed as a response is. From then on the connection has its own language, in frames of four bytes of
length and a body:

- follower to leader: one message (`Follow`, `Durable`), MessagePack;
- leader to follower: eight bytes, the number of the frame; four bytes, the size of the heads of its parts; these (a
  list of `Part`), MessagePack; then the batches of the parts, one after the other, as they are in the log. Everything
  behind the number is the same for all followers that stand at the same place.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from octoloom.core.errors import ProtocolError
from octoloom.core.log_messages import Durable, Follow, FromFollower, Part
from octoloom.wire.kafka.apis import REPLICATE, RequestHeader
from octoloom.wire.kafka.batches import BatchHeader, check_batches

_REQUEST = struct.Struct(">ihhih")
_RESPONSE = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_FRAME_START = struct.Struct(">iq")
_FRAME_HEAD = struct.Struct(">qi")
_NO_CLIENT = -1


class Intro(msgspec.Struct, frozen=True):
    """Who follows, whom it means to reach, and what the brokers of this cluster show each other."""

    broker: str
    leader: str
    token: str


class Welcome(msgspec.Struct, frozen=True):
    broker: str


_encode = msgspec.msgpack.Encoder().encode
_intro = msgspec.msgpack.Decoder(Intro)
_welcome = msgspec.msgpack.Decoder(Welcome)
_from_follower: msgspec.msgpack.Decoder[FromFollower] = msgspec.msgpack.Decoder(FromFollower)
_parts = msgspec.msgpack.Decoder(list[Part])
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, struct.error)


def encode_intro(intro: Intro) -> bytes:
    body = _encode(intro)
    return _REQUEST.pack(len(body) + 10, REPLICATE, 0, 0, _NO_CLIENT) + body


def decode_intro(header: RequestHeader, frame: memoryview) -> Intro:
    try:
        return _intro.decode(frame[header.body_at :])
    except _UNREADABLE as error:
        raise ProtocolError("malformed", f"not a follower's introduction: {error}") from error


def encode_welcome(header: RequestHeader, welcome: Welcome) -> bytes:
    body = _encode(welcome)
    return _RESPONSE.pack(len(body) + 4, header.correlation) + body


def decode_welcome(frame: memoryview) -> Welcome:
    try:
        return _welcome.decode(frame[4:])
    except _UNREADABLE as error:
        raise ProtocolError("malformed", f"not a leader's welcome: {error}") from error


def encode_from_follower(message: Follow | Durable) -> bytes:
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


def decode_from_follower(frame: memoryview) -> Follow | Durable:
    try:
        return _from_follower.decode(frame)
    except _UNREADABLE as error:
        raise ProtocolError("malformed", f"not a follower's message: {error}") from error


def encode_frame_start(number: int, size: int) -> bytes:
    """What stands before the parts and their batches, which have `size` bytes together."""
    return _FRAME_START.pack(size + 8, number)


def encode_parts(parts: list[Part]) -> bytes:
    """The heads of all parts of a frame. The batches, whose sizes they name, follow."""
    heads = _encode(parts)
    return _LENGTH.pack(len(heads)) + heads


class TakenPart(NamedTuple):
    """A part of a frame whose batches are whole and follow one another: all of their bytes, and the header of each."""

    part: Part
    batches: memoryview
    headers: list[BatchHeader]


def decode_frame(frame: memoryview) -> tuple[int, list[TakenPart]]:
    """The frame's number and its parts, all of their batches checked, or `ProtocolError`."""
    try:
        number, heads_size = _FRAME_HEAD.unpack_from(frame)
        at = _FRAME_HEAD.size + heads_size
        if heads_size < 0 or at > len(frame):
            raise ProtocolError("malformed", f"heads of {heads_size} bytes in a frame of {len(frame)}")
        heads = _parts.decode(frame[_FRAME_HEAD.size : at])
    except _UNREADABLE as error:
        raise ProtocolError("malformed", f"not a leader's frame: {error}") from error
    parts: list[TakenPart] = []
    for part in heads:
        end = at + part.size
        if part.size < 0 or end > len(frame):
            raise ProtocolError("malformed", f"a part of {part.size} bytes, with {len(frame) - at} left")
        parts.append(_check(part, frame[at:end]))
        at = end
    if at != len(frame):
        raise ProtocolError("malformed", f"{len(frame) - at} bytes behind the last part")
    return number, parts


def _check(part: Part, records: memoryview) -> TakenPart:
    headers: list[BatchHeader] = []
    offset, epoch = part.offset, 0
    for _, header in check_batches(records):
        if header.base_offset != offset or not epoch <= header.leader_epoch <= part.epoch:
            raise ProtocolError(
                "out-of-place",
                f"a batch with offset {header.base_offset} and epoch {header.leader_epoch} came for "
                f"{part.topic}-{part.partition}, at {offset} in epoch {part.epoch}",
            )
        offset, epoch = offset + header.count, header.leader_epoch
        headers.append(header)
    return TakenPart(part, records, headers)

"""What members of a group say to each other, as bytes.

Over TCP the first frame is the dialler's `Intro`, the second the other side's `Welcome` or `Refusal`; each one after
them is a `Packet`. Over UDP a datagram is a packet, or a piece of one that does not fit.

A part that goes to many members is encoded once: a packet is put together from the bytes of its head and of its parts.
What apps say to each other is opaque to all of that. It is a MessagePack list with an entry for each message.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from typing import Any

import msgspec

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.group_messages import Packet, Part
from octoloom.wire.framing import frame

GROUP_FRAME_MAX = 64 * 1024 * 1024
"""A packet of one turn takes at most this much; more goes in several."""
ARRAY_HEAD_MAX = 5


class Intro(msgspec.Struct, frozen=True, array_like=True, tag="octoloom-group-1"):
    """Who dials whom. The tag is the protocol and its version: a stranger's frame does not decode."""

    group: str
    sender: str
    to: str


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    """The dialler is a member: packets may follow."""


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The dialler is not, and why."""

    code: str
    detail: str


class Piece(msgspec.Struct, frozen=True, array_like=True, tag="piece"):
    """A part of a datagram that is too long for one: the `index`-th of `count` of its sender's `number`-th such."""

    number: int
    index: int
    count: int
    data: bytes


_encoder = msgspec.msgpack.Encoder()
_packets = msgspec.msgpack.Decoder(Packet)
_intros = msgspec.msgpack.Decoder(Intro)
_answers = msgspec.msgpack.Decoder(Welcome | Refusal)
_pieces = msgspec.msgpack.Decoder(Piece)
_lists = msgspec.msgpack.Decoder(list[Any])
_anything = msgspec.msgpack.Decoder()

_FAULTS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, TypeError)
_PIECE = b"\x95\xa5piece"
"""How a piece begins, and no packet: that is a list of four."""


def encode_first(message: Intro | Welcome | Refusal) -> bytes:
    return frame(_encoder.encode(message))


def decode_intro(body: bytes | memoryview) -> Intro:
    try:
        return _intros.decode(body)
    except _FAULTS as error:
        raise ProtocolError("malformed", f"not the intro of a group's member: {error}") from error


def decode_answer(body: bytes | memoryview) -> Welcome | Refusal:
    try:
        answer: Welcome | Refusal = _answers.decode(body)
        return answer
    except _FAULTS as error:
        raise ProtocolError("malformed", f"not an answer to the intro of a group's member: {error}") from error


# Packets.


def encode_part(part: Part) -> bytes:
    return _encoder.encode(part)


def packet_head(group: str, sender: str, to: str) -> bytes:
    """How every packet from one member to another begins."""
    return b"\x94" + _encoder.encode(group) + _encoder.encode(sender) + _encoder.encode(to)


def array_head(count: int) -> bytes:
    """How a MessagePack list of so many begins."""
    if count < 16:
        return pack(">B", 0x90 | count)
    return pack(">BH", 0xDC, count) if count < 65_536 else pack(">BI", 0xDD, count)


def packet_of(head: bytes, parts: Sequence[bytes]) -> bytes:
    return b"".join((head, array_head(len(parts)), *parts))


def packets_of(head: bytes, parts: Sequence[bytes], size_max: int) -> list[bytes]:
    """As few packets as these parts fit in, in order. Only a packet with a single part may be longer than that."""
    room = size_max - len(head) - ARRAY_HEAD_MAX
    if sum(map(len, parts)) <= room:
        return [packet_of(head, parts)]
    packets: list[bytes] = []
    begin = size = 0
    for at, part in enumerate(parts):
        if size + len(part) > room and at > begin:
            packets.append(packet_of(head, parts[begin:at]))
            begin, size = at, 0
        size += len(part)
    return [*packets, packet_of(head, parts[begin:])]


def decode_packet(body: bytes | memoryview) -> Packet:
    try:
        return _packets.decode(body)
    except _FAULTS as error:
        raise ProtocolError("malformed", f"not a packet of a group: {error}") from error


def is_piece(datagram: bytes) -> bool:
    return datagram.startswith(_PIECE)


def encode_piece(piece: Piece) -> bytes:
    return _encoder.encode(piece)


def decode_piece(datagram: bytes) -> Piece:
    try:
        return _pieces.decode(datagram)
    except _FAULTS as error:
        raise ProtocolError("malformed", f"not a piece of a packet: {error}") from error


# What apps say.


def encode_body(body: object) -> bytes:
    """One message, for `payload_of`. A value that MessagePack does not know is its sender's fault."""
    try:
        return _encoder.encode(body)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        text = f"a message of type {type(body).__name__} cannot be sent: use what MessagePack knows ({error})"
        raise UsageError(text) from error


def payload_of(bodies: Sequence[bytes]) -> bytes:
    """The payload of a bundle of encoded messages."""
    return b"".join((array_head(len(bodies)), *bodies))


def encode_bodies(bodies: Sequence[object]) -> bytes:
    """The payload of a bundle, from its messages."""
    return encode_body(list(bodies))


def decode_bodies(payload: bytes, count: int) -> list[Any]:
    """A bundle's messages. One that has not as many as it says is its sender's fault."""
    try:
        bodies = _lists.decode(payload)
    except _FAULTS as error:
        raise ProtocolError("bad-payload", f"not a list of messages: {error}") from error
    if len(bodies) != count:
        raise ProtocolError("bad-payload", f"{len(bodies)} messages came in a bundle of {count}")
    return bodies


def decode_body(payload: bytes) -> Any:
    """A message to one member alone, or an app's state."""
    try:
        return _anything.decode(payload)
    except _FAULTS as error:
        raise ProtocolError("bad-payload", f"not a message: {error}") from error

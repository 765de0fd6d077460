"""Packets, intros, pieces and payloads as bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from octoloom.core import group_messages as say
from octoloom.core.errors import ProtocolError, UsageError
from octoloom.wire import group as wire
from octoloom.wire.framing import HEADER_BYTES

CAST = say.Cast(3, "ada#1", 7, [say.Bundle("ada#1", 5, 2, b"\x92\x01\x02")], [1, 2])
VIEW = say.GroupView("room", 3, "total", [say.MemberAddress("ada#1", "127.0.0.1:1"), say.MemberAddress("bob#2", "h:2")])
HOLDINGS = {"ada#1": (4, [6, 9])}
PARTS: list[say.Part] = [
    CAST,
    say.Cast(3, "ada#1", 8, [say.Bundle("ada#1", 0, 1, b"")], plain=True),
    say.Resent([CAST]),
    say.Nak(3, [("ada#1", 1, 4)]),
    say.Have(3, [1, 2]),
    say.Stable(3, [1, 2], [3, 4]),
    say.Acked(9),
    say.Numbered(1, say.Forward(3, CAST.bundles)),
    say.Numbered(2, say.Refused(3, "wrong-view", "no")),
    say.Numbered(3, say.Direct(b"x")),
    say.Numbered(4, say.Delay(20)),
    say.Numbered(5, say.Report(3, None, HOLDINGS, True)),
    say.Numbered(6, say.Fetch(3, [("ada#1", 2)])),
    say.Numbered(7, say.Fill(3, [CAST])),
    say.Numbered(8, say.Cut(3, HOLDINGS)),
    say.Numbered(9, say.Ready(3)),
    say.Numbered(10, say.Install(VIEW, 2, HOLDINGS, {"ada#1": (1, 2)}, ["bob#2"])),
    say.Numbered(11, say.State(3, b"s")),
]
HEAD = wire.packet_head("room", "ada#1", "bob#2")


def test_a_packet_put_together_from_parts_is_the_packet_as_a_whole() -> None:
    packet = say.Packet("room", "ada#1", "bob#2", PARTS)
    together = wire.packet_of(HEAD, [wire.encode_part(part) for part in PARTS])
    assert together == msgspec.msgpack.encode(packet)
    assert wire.decode_packet(memoryview(together)) == packet


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_a_list_begins_as_messagepack_says(count: int) -> None:
    assert wire.array_head(count) == msgspec.msgpack.encode([None] * count)[: -count or None]
    assert len(wire.array_head(count)) <= wire.ARRAY_HEAD_MAX


def test_parts_are_cut_into_packets_in_order_and_only_a_lone_part_is_too_long() -> None:
    parts: list[say.Part] = [say.Numbered(n, say.Direct(bytes(size))) for n, size in enumerate([10, 60, 300, 5, 5, 90])]
    packets = wire.packets_of(HEAD, [wire.encode_part(part) for part in parts], 128)
    decoded = [wire.decode_packet(packet).parts for packet in packets]
    assert [part for each in decoded for part in each] == parts
    assert [len(each) for each in decoded] == [2, 1, 2, 1]
    assert all(len(packet) <= 128 or len(each) == 1 for packet, each in zip(packets, decoded, strict=True))
    assert wire.packets_of(HEAD, [], 128) == [wire.packet_of(HEAD, [])]


def test_first_frames() -> None:
    intro = wire.Intro("room", "ada#1", "bob#2")
    assert wire.decode_intro(wire.encode_first(intro)[HEADER_BYTES:]) == intro
    for answer in (wire.Welcome(), wire.Refusal("not-a-member", "who?")):
        assert wire.decode_answer(wire.encode_first(answer)[HEADER_BYTES:]) == answer


def test_a_piece_is_told_from_a_packet() -> None:
    piece = wire.Piece(3, 1, 2, b"data")
    assert wire.is_piece(wire.encode_piece(piece))
    assert wire.decode_piece(wire.encode_piece(piece)) == piece
    assert not wire.is_piece(wire.packet_of(HEAD, []))
    assert not wire.is_piece(wire.packet_of(wire.packet_head("piece", "piece", "piece"), []))


GARBAGE = [
    b"",
    b"\xc1",
    b"GET / HTTP/1.1\r\n\r\n",
    bytes(100),
    b"\x94" * 5000,
    b"\xdd\xff\xff\xff\xff",
    b"\xa4\xff\xfe\xfd\xfc",
    msgspec.msgpack.encode(["room", "ada#1", "bob#2", [[99, 1]]]),
    msgspec.msgpack.encode(["room", "ada#1", "bob#2", [[1, "3", "ada#1", 7, []]]]),
    msgspec.msgpack.encode(["room", 1, "bob#2", []]),
    msgspec.msgpack.encode({"group": "room"}),
]


@pytest.mark.parametrize("body", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_the_peers_fault(body: bytes) -> None:
    for decode in (wire.decode_packet, wire.decode_intro, wire.decode_answer, wire.decode_piece):
        with pytest.raises(ProtocolError) as caught:
            decode(body)
        assert caught.value.code == "malformed"


@pytest.mark.parametrize("body", [None, 1, -1.5, "ä", b"b", [1, [2]], {"a": {"b": 1}}, {1: 2}, [], "x" * 70_000])
def test_messages_come_out_as_they_went_in(body: Any) -> None:
    assert wire.decode_body(wire.encode_body(body)) == body
    payload = wire.payload_of([wire.encode_body(body), wire.encode_body(3)])
    assert payload == wire.encode_bodies((body, 3))
    assert wire.decode_bodies(payload, 2) == [body, 3]


@pytest.mark.parametrize("body", [object(), 1 << 70, {"a": object()}, [print]])
def test_what_messagepack_does_not_know_is_the_callers_fault(body: Any) -> None:
    with pytest.raises(UsageError, match="cannot be sent"):
        wire.encode_body(body)


def test_a_loop_in_a_message_is_the_callers_fault() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UsageError, match="cannot be sent"):
        wire.encode_body(loop)


@pytest.mark.parametrize(
    ("payload", "count"),
    [(b"", 1), (b"\x01", 1), (b"\x92\x01", 2), (b"\x92\x01\x02", 3), (b"\x91\xc1", 1), (b"\x90", 1)],
)
def test_a_payload_that_is_not_what_it_says_is_the_peers_fault(payload: bytes, count: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        wire.decode_bodies(payload, count)
    assert caught.value.code == "bad-payload"


def test_a_message_alone_that_does_not_decode_is_the_peers_fault() -> None:
    for payload in (b"", b"\xc1", b"\x91" * 100_000):
        with pytest.raises(ProtocolError, match="bad-payload"):
            wire.decode_body(payload)

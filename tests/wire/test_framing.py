"""Framing: the same bodies come out, however the stream was cut, and at a bounded cost."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.errors import ProtocolError
from octoloom.core.event import Change, Event, Kill, Outcome
from octoloom.core.link_messages import Ack, Changes, Events, Hello, LinkMessage, Position
from octoloom.core.register_messages import Ask, Beat, Directory, Enlist, LinkAddress, Ready, View
from octoloom.wire import link, register
from octoloom.wire.framing import FRAME_MAX, FrameReader, frame


@given(st.lists(st.binary(max_size=40), max_size=12), st.lists(st.integers(0, 60), max_size=30))
def test_any_cut_of_the_stream_gives_the_same_bodies(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(body) for body in bodies)
    reader, found, position = FrameReader(), [], 0
    for size in [*cuts, len(stream)]:
        found += [bytes(body) for body in reader.feed(stream[position : position + size])]
        position += size
    assert found == bodies
    assert reader.pending == 0


def test_views_stay_right_while_the_reader_goes_on() -> None:
    reader = FrameReader()
    reader.feed(frame(b"first")[:6])
    early = reader.feed(frame(b"first")[6:] + frame(b"second")[:5])
    late = reader.feed(frame(b"second")[5:])
    assert [bytes(body) for body in early + late] == [b"first", b"second"]


def test_too_large_a_frame_is_refused_at_its_header() -> None:
    with pytest.raises(ProtocolError) as raised:
        FrameReader().feed((FRAME_MAX + 1).to_bytes(4, "big"))
    assert raised.value.code == "frame-too-large"
    with pytest.raises(ProtocolError):
        FrameReader(frame_max=8).feed(frame(b"123456789"))


def test_a_header_alone_costs_no_memory() -> None:
    reader = FrameReader()
    assert reader.feed(FRAME_MAX.to_bytes(4, "big")) == []
    assert sys.getsizeof(reader._partial) < 1000


def test_a_large_frame_in_small_chunks_is_copied_once() -> None:
    """Each chunk is added to the end: the reader looks at the whole only when it is all there."""
    reader, cuts = FrameReader(), 0
    original = reader._cut

    def counted(data: memoryview) -> list[memoryview]:
        nonlocal cuts
        cuts += 1
        return original(data)

    reader._cut = counted  # type: ignore[method-assign]
    stream = frame(bytes(1_000_000))
    bodies = [body for at in range(0, len(stream), 100) for body in reader.feed(stream[at : at + 100])]
    assert [len(body) for body in bodies] == [1_000_000]
    assert cuts == 2


def test_link_messages_survive_the_wire() -> None:
    event = Event(7, "ada", 3, "claim", b'{"cell":"b4"}', 1_700_000_000_000, 42)
    change = Change(2, 9, False, b"{}", [Kill(7, "ada", 3, Outcome.REJECTED, "taken", 5)])
    messages: list[LinkMessage] = [
        Hello("c0", 2, [Position("lobby", 8, 9)]),
        Events("c0", 2, "lobby", [event]),
        Changes("c0", 2, "lobby", [change]),
        Ack("c0", 2, [("lobby", 9)]),
    ]
    (body,) = FrameReader().feed(link.encode_frame(messages))
    assert link.decode(body) == messages


def test_a_dialler_says_who_it_is() -> None:
    (body,) = FrameReader().feed(link.encode_intro(link.Intro("a#1", "secret")))
    assert link.decode_intro(body) == link.Intro("a#1", "secret")


def test_register_messages_survive_the_wire() -> None:
    address = LinkAddress("a#1", "127.0.0.1:1", "ws://127.0.0.1:2")
    for message in (Enlist(address, {"c0": 4}), Beat(), Ready("c0", 4), Ask(follow=True)):
        (body,) = FrameReader().feed(register.encode_frame(message))
        assert register.decode_request(body) == message
    directory = Directory(3, {"a#1": address}, {"c0": View("c0", 4, 1, ["a#1"], ["a#1"], "b#1")})
    (body,) = FrameReader().feed(register.encode_frame(directory))
    assert register.decode_answer(body) == directory


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93\x01\x02", b"\x81\xa4type\x63", b"\x91\x91\x63"])
def test_what_is_malformed_is_the_peers_fault(body: bytes) -> None:
    for decode in (link.decode, link.decode_intro, register.decode_request, register.decode_answer):
        with pytest.raises(ProtocolError) as raised:
            decode(body)
        assert raised.value.code == "malformed"

"""Framing: the same bodies come out, however the stream was cut, and at a bounded cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.errors import ProtocolError
from octoloom.core.event import Change, Event, Kill, Outcome
from octoloom.core.link_messages import Ack, Changes, Events, Hello, LinkMessage, Position
from octoloom.core.register_messages import Ask, Beat, Directory, Enlist, LinkAddress, Ready, View
from octoloom.wire import link, register
from octoloom.wire.framing import BUSY_BYTES, FIRST_BYTES, FRAME_MAX, KEPT_BYTES_MAX, SPARES_MAX, FrameReader, frame


def feed(reader: FrameReader, data: bytes) -> list[memoryview]:
    """As a socket does it: as much at a time as there is room."""
    bodies, rest = [], memoryview(data)
    while rest:
        room = reader.room()
        count = min(len(room), len(rest))
        room[:count] = rest[:count]
        rest = rest[count:]
        bodies += reader.feed(count)
    return bodies


def body_of(data: bytes) -> memoryview:
    (body,) = feed(FrameReader(), data)
    return body


@given(
    st.lists(
        st.binary(max_size=40) | st.integers(0, 3 * FIRST_BYTES).map(lambda size: bytes([size % 251]) * size),
        max_size=12,
    ),
    st.lists(st.integers(0, 60) | st.integers(0, 3 * FIRST_BYTES), max_size=30),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_any_cut_of_the_stream_gives_the_same_bodies(bodies: list[bytes], cuts: list[int], held: list[bool]) -> None:
    """Some of them are looked at at once, and others when all have come: views stay right while the reader goes on."""
    stream = b"".join(frame(body) for body in bodies)
    reader, position = FrameReader(), 0
    found: list[bytes | memoryview] = []
    for size in [*cuts, len(stream)]:
        for body in feed(reader, stream[position : position + size]):
            found.append(body if held[len(found)] else bytes(body))
        position += size
    assert [bytes(body) for body in found] == bodies
    assert reader.pending == 0


def test_views_stay_right_while_the_reader_goes_on() -> None:
    reader = FrameReader()
    kept = [body for number in range(50) for body in feed(reader, frame(b"%d" % number * 1000))]
    assert [bytes(body) for body in kept] == [b"%d" % number * 1000 for number in range(50)]


def test_too_large_a_frame_is_refused_at_its_header() -> None:
    with pytest.raises(ProtocolError) as raised:
        feed(FrameReader(), (FRAME_MAX + 1).to_bytes(4, "big"))
    assert raised.value.code == "frame-too-large"
    with pytest.raises(ProtocolError):
        feed(FrameReader(frame_max=8), frame(b"123456789"))


def test_memory_grows_with_what_arrived() -> None:
    reader = FrameReader()
    assert len(reader._buffer) == 0
    stream = frame(bytes(FRAME_MAX // 8))
    for arrived in (4, FIRST_BYTES, 5 * FIRST_BYTES, 6 * FIRST_BYTES):
        assert feed(reader, stream[reader.pending : arrived]) == []
        assert reader.pending == arrived
        assert len(reader._buffer) <= max(4 * arrived, 2 * FIRST_BYTES)


def test_one_buffer_serves_while_nobody_keeps_a_view() -> None:
    reader, buffers = FrameReader(), set()
    for number in range(1000):
        body = b"%d" % number * (number % 500)
        assert [bytes(each) for each in feed(reader, frame(body))] == [body]
        buffers.add(id(reader._buffer))
    assert len(buffers) == 1
    assert reader._spares == []


def test_a_buffer_is_used_again_once_nobody_looks() -> None:
    """Someone who is always one frame behind needs two."""
    reader, kept, buffers = FrameReader(), memoryview(b""), set()
    for _ in range(1000):
        (kept,) = feed(reader, frame(bytes(5000)))
        buffers.add(id(reader._buffer))
    assert len(kept) == 5000
    assert len(buffers) <= 3


def test_what_is_kept_costs_what_has_arrived_of_it() -> None:
    reader = FrameReader()
    feed(reader, frame(bytes(100)) * 100_000)
    assert len(reader._buffer) == BUSY_BYTES
    kept = [body for _ in range(1000) for body in feed(reader, frame(b"request"))]
    assert len({id(body.obj) for body in kept}) == 1


def test_spare_buffers_are_few() -> None:
    reader = FrameReader()
    kept = [body for _ in range(100) for body in feed(reader, frame(bytes(5000)))]
    assert len(reader._spares) == SPARES_MAX
    assert all(body == bytes(5000) for body in kept)


def test_a_busy_stream_gets_a_larger_buffer() -> None:
    reader = FrameReader()
    feed(reader, frame(bytes(100)) * 100_000)
    assert len(reader._buffer) == BUSY_BYTES


def test_a_large_buffer_is_given_up_and_one_for_answers_is_kept() -> None:
    reader = FrameReader()
    for size, is_kept in ((4 << 20, True), (2 * KEPT_BYTES_MAX, False)):
        feed(reader, frame(bytes(size)))
        feed(reader, frame(b"small"))
        assert (len(reader._buffer) > size) is is_kept
    assert len(reader._buffer) <= KEPT_BYTES_MAX


def test_a_large_frame_in_small_chunks_is_moved_a_few_times() -> None:
    reader, moves = FrameReader(), 0
    original = reader._make_room

    def counted() -> None:
        nonlocal moves
        moves += 1
        original()

    reader._make_room = counted  # type: ignore[method-assign]
    stream = frame(bytes(1_000_000))
    bodies = [body for at in range(0, len(stream), 100) for body in feed(reader, stream[at : at + 100])]
    assert [len(body) for body in bodies] == [1_000_000]
    assert moves <= 5


def test_link_messages_survive_the_wire() -> None:
    event = Event(7, "ada", 3, "claim", b'{"cell":"b4"}', 1_700_000_000_000, 42)
    change = Change(2, 9, False, b"{}", [Kill(7, "ada", 3, Outcome.REJECTED, "taken", 5)])
    messages: list[LinkMessage] = [
        Hello("c0", 2, [Position("lobby", 8, 9)]),
        Events("c0", 2, "lobby", [event]),
        Changes("c0", 2, "lobby", [change]),
        Ack("c0", 2, [("lobby", 9)]),
    ]
    body = body_of(link.encode_frame(messages))
    assert link.decode(body) == messages


def test_a_dialler_says_who_it_is() -> None:
    body = body_of(link.encode_intro(link.Intro("a#1", "secret")))
    assert link.decode_intro(body) == link.Intro("a#1", "secret")


def test_register_messages_survive_the_wire() -> None:
    address = LinkAddress("a#1", "127.0.0.1:1", "ws://127.0.0.1:2")
    for message in (Enlist(address, {"c0": 4}), Beat(), Ready("c0", 4), Ask(follow=True)):
        body = body_of(register.encode_frame(message))
        assert register.decode_request(body) == message
    directory = Directory(3, {"a#1": address}, {"c0": View("c0", 4, 1, ["a#1"], ["a#1"], "b#1")})
    body = body_of(register.encode_frame(directory))
    assert register.decode_answer(body) == directory


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93\x01\x02", b"\x81\xa4type\x63", b"\x91\x91\x63"])
def test_what_is_malformed_is_the_peers_fault(body: bytes) -> None:
    for decode in (link.decode, link.decode_intro, register.decode_request, register.decode_answer):
        with pytest.raises(ProtocolError) as raised:
            decode(body)
        assert raised.value.code == "malformed"


def test_what_a_frame_lacks_is_known_until_it_is_whole() -> None:
    """Who waits for so many bytes more after that would wait for a frame that nobody sends."""
    reader, whole = FrameReader(), frame(b"x" * 100)
    assert feed(reader, whole[:50]) == []
    assert reader.lacking == len(whole) - 50
    assert len(feed(reader, whole[50:])) == 1
    assert reader.lacking == 0

"""The language between brokers: what is written is read back, and nothing wrong reaches a core."""

from __future__ import annotations

import random

import pytest

from octoloom.core.errors import ProtocolError
from octoloom.core.log_messages import Durable, Follow, FollowEntry, Part
from octoloom.wire.kafka.apis import REPLICATE, parse_header
from octoloom.wire.kafka.batches import read_header
from octoloom.wire.kafka.records import Record, build_batch
from octoloom.wire.replication import (
    Intro,
    Welcome,
    decode_frame,
    decode_from_follower,
    decode_intro,
    decode_welcome,
    encode_frame_start,
    encode_from_follower,
    encode_intro,
    encode_parts,
    encode_welcome,
)


def batch(offset: int, epoch: int, count: int = 1) -> bytes:
    records = [Record(0, 1, None, b"%d" % (offset + at)) for at in range(count)]
    return build_batch(
        records, base_offset=offset, leader_epoch=epoch, producer_id=4, producer_epoch=1, base_sequence=9
    )


def whole(number: int, parts: list[Part], *batches: bytes) -> memoryview:
    """A frame as it arrives, its length off."""
    body = encode_parts(parts) + b"".join(batches)
    data = encode_frame_start(number, len(body)) + body
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return memoryview(data)[4:]


def test_an_introduction_is_a_request_and_its_answer_a_response() -> None:
    frame = memoryview(encode_intro(Intro("b1#3", "b2#1", "secret")))[4:]
    header = parse_header(frame)
    assert header.api == REPLICATE
    assert decode_intro(header, frame) == Intro("b1#3", "b2#1", "secret")
    answer = encode_welcome(header, Welcome("b2#1"))
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    assert decode_welcome(memoryview(answer)[4:]) == Welcome("b2#1")


@pytest.mark.parametrize(
    "message",
    [Follow("b1#3", [FollowEntry("t", 0, 2, 10, 1, 9)]), Follow("b1#3", []), Durable(7, [("t", 0, 2, 10)])],
)
def test_a_followers_messages_come_back(message: Follow | Durable) -> None:
    data = encode_from_follower(message)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert decode_from_follower(memoryview(data)[4:]) == message


def test_a_frame_carries_batches_as_they_are() -> None:
    first, second = batch(10, 1, 3), batch(13, 2)
    parts = [
        Part("t", 0, 2, 10, len(first + second), 12, 0),
        Part("u", 1, 5, 0, 0, 0, 0, "diverged", 3),
        Part("v", 0, 1, 7, 0, 7, 0),
    ]
    number, taken = decode_frame(whole(8, parts, first, second))
    assert number == 8
    assert [each.part for each in taken] == parts
    assert taken[0].batches == first + second
    assert taken[0].headers == [read_header(first), read_header(second)]
    for nothing in taken[1:]:
        assert (len(nothing.batches), nothing.headers) == (0, [])


@pytest.mark.parametrize(
    ("part", "data"),
    [
        (Part("t", 0, 2, 11, len(batch(10, 1)), 0, 0), batch(10, 1)),  # elsewhere in the log
        (Part("t", 0, 1, 10, len(batch(10, 2)), 0, 0), batch(10, 2)),  # of an epoch that is still to come
        (Part("t", 0, 3, 10, 2 * len(batch(10, 1)), 0, 0), batch(10, 1) + batch(12, 1)),  # a gap
        (Part("t", 0, 3, 10, 2 * len(batch(10, 1)), 0, 0), batch(10, 2) + batch(11, 1)),  # epochs that fall
        (Part("t", 0, 3, 10, len(batch(10, 1)), 0, 0), batch(10, 1)[:-1] + b"?"),  # a wrong CRC
        (Part("t", 0, 3, 10, 65, 0, 0), batch(10, 1)[:65]),  # half a batch
        (Part("t", 0, 3, 10, 1000, 0, 0), batch(10, 1)),  # less than was announced
        (Part("t", 0, 3, 10, 0, 0, 0), batch(10, 1)),  # more than was announced
        (Part("t", 0, 3, 10, -5, 0, 0), b""),
    ],
    ids=range(9),
)
def test_batches_that_are_not_what_the_head_says_are_refused(part: Part, data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_frame(whole(1, [part], data))


def test_garbage_is_the_peers_fault() -> None:
    dice = random.Random(1)
    good = bytes(whole(1, [Part("t", 0, 3, 10, len(batch(10, 1)), 0, 0)], batch(10, 1)))
    for _ in range(2000):
        data = bytearray(good)
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        data = data[: dice.randrange(len(data) + 1)]
        for decode in (decode_frame, decode_from_follower, decode_welcome):
            try:
                decode(memoryview(data))
            except ProtocolError:
                continue

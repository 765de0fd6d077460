"""The words between register and brokers: every one goes over the wire and back, and nothing else is understood."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from octoloom.core import log_messages
from octoloom.core.errors import ProtocolError
from octoloom.core.log_messages import (
    Aborted,
    Accept,
    AdminDone,
    Allot,
    Allotted,
    Announced,
    AskLog,
    BrokerAddress,
    BrokerBeat,
    BrokerToRegister,
    ConfigureTopic,
    DropTopic,
    Durable,
    EnlistBroker,
    Follow,
    FollowEntry,
    FromFollower,
    GrowTopic,
    Heard,
    InSyncRefused,
    LogDirectory,
    LogNews,
    MakeTopic,
    Part,
    PartitionState,
    ProposeInSync,
    Refuse,
    RegisterToBroker,
    Taken,
    TopicInfo,
)
from octoloom.core.register_messages import FromRegister, ToRegister
from octoloom.wire import register
from octoloom.wire.framing import HEADER_BYTES

ADDRESS = BrokerAddress("b#2", "host", 9092, "disk", 77, 3)
STATE = PartitionState("b#2", 4, ["b#2", "c#1"], ["a", "b", "c"], 9)
INFO = TopicInfo("moves", 5, {"retention.ms": "-1"})

REQUESTS: list[BrokerToRegister | AskLog] = [
    EnlistBroker(ADDRESS, 12, [("moves", 0)]),
    Accept(7, [("moves", 0, 4, 100, 99)]),
    Refuse(7, "no"),
    ProposeInSync([("moves", 0, 4, 9, ["b#2"])]),
    Allot(100),
    Taken(13),
    BrokerBeat(123_456),
    MakeTopic(1, "moves", 3, 2, {"retention.ms": "5"}, True),
    DropTopic(2, "moves"),
    GrowTopic(3, "moves", 6),
    ConfigureTopic(4, "moves", {"retention.ms": "5"}, ["segment.bytes"]),
    AskLog(follow=True),
]
ANSWERS: list[RegisterToBroker] = [
    LogDirectory(12, {"b#2": ADDRESS}, {"moves": INFO}, [("moves", 0, STATE)]),
    LogNews(13, {"b#2": ADDRESS}, {"moves": INFO, "gone": None}, [("moves", 0, STATE)], 7),
    LogNews(14),
    Announced(7, [("moves", 0, 4)], "the leader is gone"),
    Aborted(7, "the leader is back"),
    InSyncRefused("moves", 0, 9),
    Allotted(1000, 100),
    AdminDone(1, 36, "exists already"),
    Heard(123_456, 2000),
]


def body_of(frame: bytes) -> bytes:
    assert int.from_bytes(frame[:HEADER_BYTES], "big") == len(frame) - HEADER_BYTES
    return frame[HEADER_BYTES:]


@pytest.mark.parametrize("message", REQUESTS, ids=lambda message: type(message).__name__)
def test_a_brokers_word_goes_over_the_wire(message: BrokerToRegister | AskLog) -> None:
    assert register.decode_request(body_of(register.encode_frame(message))) == message


@pytest.mark.parametrize("message", ANSWERS, ids=lambda message: type(message).__name__)
def test_the_registers_word_goes_over_the_wire(message: RegisterToBroker) -> None:
    assert register.decode_answer(body_of(register.encode_frame(message))) == message


def test_every_word_is_tried() -> None:
    assert {type(message) for message in REQUESTS} == {*get_args(BrokerToRegister), AskLog}
    assert {type(message) for message in ANSWERS} == set(get_args(RegisterToBroker))


def test_no_two_words_look_the_same() -> None:
    """Links, brokers and whoever asks speak on one port: a tag is one word."""
    words = [*get_args(BrokerToRegister), *get_args(RegisterToBroker), *get_args(FromFollower), AskLog]
    tags = [word.__struct_config__.tag for word in (*words, *get_args(ToRegister), *get_args(FromRegister))]
    assert len(tags) == len(set(tags))


@pytest.mark.parametrize(
    "message", [Follow("b#2", [FollowEntry("moves", 0, 4, 100, 3, 90)]), Durable(8, [("moves", 0, 4, 100)])]
)
def test_a_followers_word_goes_over_the_wire(message: FromFollower) -> None:
    decoded: FromFollower = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=FromFollower)
    assert decoded == message


def test_the_parts_of_a_frame_go_over_the_wire_and_data_needs_no_verdict() -> None:
    data, verdict = Part("moves", 0, 4, 100, 4096, 90, 0), Part("moves", 1, 4, 7, 0, 90, 0, "diverged", 3)
    assert (data.verdict, data.agreed_epoch) == ("", -1)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode([data, verdict]), type=list[Part]) == [data, verdict]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"type": 99}),
        msgspec.msgpack.encode({"type": 35, "count": "many"}),
        msgspec.msgpack.encode({"type": 30}),
        msgspec.msgpack.encode(ANSWERS[0]),
        b"\x82\xa4type\x23\xa5count\xa1",
    ],
)
def test_what_is_no_word_of_a_brokers_is_its_fault(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed"):
        register.decode_request(body)


def test_words_are_values() -> None:
    structs = [each for each in vars(log_messages).values() if isinstance(each, type)]
    messages = [each for each in structs if issubclass(each, msgspec.Struct) and each is not msgspec.Struct]
    assert len(messages) > 20
    assert all(each.__struct_config__.frozen for each in messages)

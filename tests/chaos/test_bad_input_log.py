"""Bad input on a real broker and on the register's Kafka port.

Whatever is said to them, the answer is Kafka's code for it or the end of that one connection, and nothing else changes.
"""

from __future__ import annotations

import contextlib
import random
import struct
from datetime import timedelta
from typing import Any

import pytest

from octoloom.wire.kafka import client_messages as ask
from octoloom.wire.kafka.apis import REPLICATE, SERVED, Api, is_flexible
from octoloom.wire.kafka.batches import HEADER_SIZE
from octoloom.wire.kafka.errors import ErrorCode
from tests.chaos.bad_scene import DOORS, TOPIC, Scene
from tests.chaos.raw_log import GOOD, Raw, batch, forged, raw

pytestmark = pytest.mark.usefixtures("unharmed")

# Bytes that are no requests.


@pytest.mark.parametrize("door", DOORS)
def test_garbage_ends_its_connection(scene: Scene, door: str) -> None:
    dice = random.Random(1)
    for _ in range(150):
        garbage = dice.randbytes(dice.randrange(1, 3000))
        framed = dice.random() < 0.5
        with raw(scene.address(door)) as client:
            with contextlib.suppress(ConnectionError):
                client.send(struct.pack(">i", len(garbage)) + garbage if framed else garbage)
            client.says_no_more()
            assert client.is_hung_up()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("length", [2**31 - 1, -1, -(2**31), 0, 100 * 1024 * 1024 + 1])
def test_a_length_that_nobody_has_ends_the_connection(scene: Scene, door: str, length: int) -> None:
    before = scene.size(door)
    with raw(scene.address(door)) as client:
        client.send(struct.pack(">i", length) + bytes(10))
        assert client.is_hung_up()
    assert scene.size(door) - before < 2**24


# Requests that are no good.


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("api", sorted(SERVED))
def test_a_request_of_random_bytes(scene: Scene, door: str, api: int) -> None:
    dice = random.Random(api)
    for version in range(SERVED[api].first, SERVED[api].last + 1):
        tags = b"\0" if is_flexible(api, version) else b""
        for size in (0, 1, 7, 40, 300):
            with raw(scene.address(door)) as client:
                # Few large numbers: what is taken for a count should lead somewhere.
                body = bytes(dice.choice((0, 0, 0, 1, 2, 3, dice.randrange(256))) for _ in range(size))
                with contextlib.suppress(ConnectionError):
                    client.say(api, version, (tags, body))
                client.says_no_more()
                assert client.is_hung_up()


@pytest.mark.parametrize("door", DOORS)
def test_damaged_requests(scene: Scene, door: str) -> None:
    dice = random.Random(2)
    whole = [
        ask.encode_frame(Api.PRODUCE, 7, 1, b"raw", ask.encode_produce(TOPIC, 0, batch(b"x"), -1, 100)),
        ask.encode_frame(Api.FETCH, 11, 1, b"raw", ask.encode_fetch({(TOPIC, 0): ask.FetchFrom(0, 0, 99)}, 0, 1, 99)),
        ask.encode_frame(Api.METADATA, 7, 1, b"raw", ask.encode_metadata([TOPIC, "other"])),
        ask.encode_frame(Api.LIST_OFFSETS, 5, 1, b"raw", ask.encode_list_offsets({(TOPIC, 0): (-1, 5)})),
        ask.encode_frame(Api.INIT_PRODUCER_ID, 1, 1, b"raw", ask.encode_init_producer()),
    ]
    for _ in range(300):
        damaged = bytearray().join(dice.choice(whole))
        for _ in range(dice.randrange(1, 4)):
            damaged[dice.randrange(4, len(damaged))] = dice.randrange(256)
        with raw(scene.address(door)) as client:
            with contextlib.suppress(ConnectionError):
                client.send(bytes(damaged))
            client.says_no_more()
            assert client.is_hung_up()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("api", "version"), [(Api.PRODUCE, 2), (Api.FETCH, 99), (Api.METADATA, -1), (999, 0)])
def test_what_is_not_served_ends_the_connection(scene: Scene, door: str, api: int, version: int) -> None:
    with raw(scene.address(door)) as client:
        client.say(api, version, ())
        assert client.is_hung_up()


@pytest.mark.parametrize("door", DOORS)
def test_who_asks_for_versions_in_an_unknown_version_is_told_them(scene: Scene, door: str) -> None:
    with raw(scene.address(door)) as client:
        client.say(Api.API_VERSIONS, 99, (b"whatever",))
        answer = client.hear()
        assert struct.unpack_from(">ih", answer) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert Api.API_VERSIONS in ask.read(ask.parse_api_versions, answer)
        assert TOPIC in client.metadata().topics
        client.say(REPLICATE, 0, (b"let me in",))
        assert client.is_hung_up()


WRONG = {
    "crc": (forged(GOOD, crc=1), ErrorCode.CORRUPT_MESSAGE),
    "a flipped bit": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), ErrorCode.CORRUPT_MESSAGE),
    "more records": (forged(GOOD, count=3), ErrorCode.CORRUPT_MESSAGE),
    "fewer records": (forged(GOOD, count=1), ErrorCode.CORRUPT_MESSAGE),
    "no records": (forged(GOOD, count=0, last_offset_delta=-1), ErrorCode.CORRUPT_MESSAGE),
    "many records": (forged(GOOD, count=2**31 - 1, last_offset_delta=-2), ErrorCode.CORRUPT_MESSAGE),
    "a long batch": (forged(GOOD, length=len(GOOD)), ErrorCode.CORRUPT_MESSAGE),
    "a short batch": (forged(GOOD, length=10), ErrorCode.CORRUPT_MESSAGE),
    "a negative length": (forged(GOOD, length=-1), ErrorCode.CORRUPT_MESSAGE),
    "half a header": (GOOD[: HEADER_SIZE // 2], ErrorCode.CORRUPT_MESSAGE),
    "half a batch": (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (forged(GOOD, magic=0), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "magic 1": (forged(GOOD, magic=1), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "magic 3": (forged(GOOD, magic=3), ErrorCode.CORRUPT_MESSAGE),
    "codec 5": (forged(GOOD, attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "codec 7": (forged(GOOD, attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "a control batch": (forged(GOOD, attributes=0x20), ErrorCode.INVALID_RECORD),
    "a transaction": (forged(GOOD, attributes=0x10), ErrorCode.INVALID_TRANSACTION_STATE),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "no batch": (b"", ErrorCode.INVALID_RECORD),
    "too large a batch": (batch(bytes(1_048_588)), ErrorCode.MESSAGE_TOO_LARGE),
    "a gap": (forged(GOOD, producer_id=77, producer_epoch=0, base_sequence=5), ErrorCode.OUT_OF_ORDER_SEQUENCE),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_batch_is_refused_and_changes_nothing(client: Raw, wrong: str) -> None:
    end = client.fetch(TOPIC).high
    records, error = WRONG[wrong]
    assert client.produce(TOPIC, records) == error
    assert client.produce(TOPIC, records, acks=1) == error
    assert client.fetch(TOPIC).high == end
    assert client.produce(TOPIC, GOOD) == 0
    client.say(Api.PRODUCE, 7, ask.encode_produce(TOPIC, 0, records, 0, 1000))
    assert client.is_hung_up(), "who wants no answer is told by the end of the connection"


def test_the_second_of_two_producers_with_one_id_is_fenced(client: Raw) -> None:
    for epoch, sequence, error in (
        (3, 0, 0),
        (2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, 0, 0),
        (3, 9, ErrorCode.OUT_OF_ORDER_SEQUENCE),
        (4, 7, ErrorCode.OUT_OF_ORDER_SEQUENCE),
        (3, 2, 0),
    ):
        records = forged(GOOD, producer_id=5_000_000, producer_epoch=epoch, base_sequence=sequence)
        assert client.produce(TOPIC, records) == error, (epoch, sequence)


def test_unknown_places_epochs_and_offsets(client: Raw) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for topic, partition in (("nowhere", 0), (TOPIC, 1), (TOPIC, -1), (TOPIC, 2**31 - 1), ("", 0), ("../etc", 0)):
        assert client.produce(topic, GOOD, partition) == unknown
        assert client.fetch(topic, partition=partition).error == unknown
        listed = ask.read(
            ask.parse_list_offsets,
            client.ask(Api.LIST_OFFSETS, ask.encode_list_offsets({(topic, partition): (-1, -1)})),
        )
        assert listed[topic, partition].error == unknown
    assert client.produce(TOPIC, GOOD, acks=5) == ErrorCode.INVALID_REQUIRED_ACKS
    high = client.fetch(TOPIC).high
    for offset in (-1, -(2**63), high + 1, 2**63 - 1):
        assert client.fetch(TOPIC, offset).error == ErrorCode.OFFSET_OUT_OF_RANGE
    epoch = client.metadata(TOPIC).topics[TOPIC].partitions[0].epoch
    for wrong, error in ((epoch - 1, ErrorCode.FENCED_LEADER_EPOCH), (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        assert client.fetch(TOPIC, epoch=wrong).error == error
        wanted = ask.encode_list_offsets({(TOPIC, 0): (wrong, -1)})
        listed = ask.read(ask.parse_list_offsets, client.ask(Api.LIST_OFFSETS, wanted))
        assert listed[TOPIC, 0].error == error
        part = {"partition": 0, "current_leader_epoch": wrong, "leader_epoch": 0}
        answer = client.ask_cold(Api.OFFSET_FOR_LEADER_EPOCH, 3, topics=[{"topic": TOPIC, "partitions": [part]}])
        assert answer.topics[0].partitions[0].error_code == error


NEW: dict[str, tuple[dict[str, Any], int]] = {
    "a name that is a path": ({"name": "../../x"}, ErrorCode.INVALID_TOPIC),
    "no name": ({"name": ""}, ErrorCode.INVALID_TOPIC),
    "dots": ({"name": ".."}, ErrorCode.INVALID_TOPIC),
    "a long name": ({"name": "x" * 250}, ErrorCode.INVALID_TOPIC),
    "other letters": ({"name": "gr\u00fcn"}, ErrorCode.INVALID_TOPIC),
    "a known name": ({"name": TOPIC}, ErrorCode.TOPIC_ALREADY_EXISTS),
    "many replicas": ({"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
    "very many replicas": ({"replication_factor": 32767}, ErrorCode.INVALID_REPLICATION_FACTOR),
    "many partitions": ({"num_partitions": 2**31 - 1}, ErrorCode.INVALID_PARTITIONS),
    "an unknown setting": ({"configs": [{"name": "no.such", "value": "1"}]}, ErrorCode.INVALID_CONFIG),
    "a silly setting": ({"configs": [{"name": "segment.bytes", "value": "9" * 400}]}, ErrorCode.INVALID_CONFIG),
}


@pytest.mark.parametrize("new", NEW)
def test_a_topic_that_cannot_be(client: Raw, new: str) -> None:
    plain = {"name": "fine", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    changes, error = NEW[new]
    answer = client.ask_cold(Api.CREATE_TOPICS, 4, topics=[{**plain, **changes}], timeout=timedelta(seconds=10))
    assert answer.topics[0].error_code == error
    assert "fine" not in client.metadata().topics

"""Too much for a real broker and for the register's Kafka port: of connections, of halves, of answers; and no room.

What one asks for is held back or hung up on, everybody else is served, and memory follows what was really brought.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

import psutil
import pytest

from octoloom.wire.kafka import client_messages as ask
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import read_fetched
from tests.chaos.bad_scene import DOORS, GROWTH_BYTES_MAX, TOPIC, Scene, many_files
from tests.chaos.raw_log import GOOD, Raw, batch, raw
from tests.waiting import until

TAKEN_MAX = 32 * 1024 * 1024
"""Bytes of questions without an answer that was read; the kernel alone keeps some megabytes on each side."""

pytestmark = pytest.mark.usefixtures("unharmed")


@pytest.mark.parametrize("door", DOORS)
def test_half_frames_hold_no_more_than_they_brought(scene: Scene, door: str) -> None:
    before, some = scene.size(door), bytes(100_000)
    claimed = 50 * 1024 * 1024 if door == "broker" else 150_000
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(raw(scene.address(door))) for _ in range(200)]
        for client in clients:
            client.send(struct.pack(">i", claimed) + b"\0" + some[1:])
        scene.friend.moves()
        with raw(scene.address(door)) as other:
            assert TOPIC in other.metadata().topics
        assert scene.size(door) - before < 5 * len(clients) * len(some)


# Too much of it.


@pytest.mark.parametrize("door", DOORS)
def test_who_never_reads_is_not_read_from(scene: Scene, door: str, client: Raw) -> None:
    for _ in range(8):
        assert client.produce(TOPIC, batch(bytes(1_000_000))) == 0
    before = scene.size(door)
    fetch = ask.encode_fetch({(TOPIC, 0): ask.FetchFrom(0, -1, 1 << 23)}, 0, 1, 1 << 23)
    fetch_frame = b"".join(ask.encode_frame(Api.FETCH, 11, 1, b"raw", fetch))
    metadata_frame = b"".join(ask.encode_frame(Api.METADATA, 7, 1, b"raw", ask.encode_metadata(None)))
    frames = [metadata_frame] if door == "register" else [fetch_frame, metadata_frame]
    with contextlib.ExitStack() as stack:
        for frame in frames * 3:
            assert stack.enter_context(raw(scene.address(door))).fill(frame, TAKEN_MAX) < TAKEN_MAX
            scene.friend.moves(1)
        assert scene.size(door) - before < GROWTH_BYTES_MAX / 2


@pytest.mark.parametrize("door", DOORS)
def test_two_thousand_who_say_nothing(scene: Scene, door: str) -> None:
    with many_files() as files, contextlib.ExitStack() as stack:
        if files < 5_000:
            pytest.skip(f"a process may have {files} open files here")
        before = scene.size(door)
        for _ in range(8):
            for _ in range(250):
                stack.enter_context(raw(scene.address(door)))
            with raw(scene.address(door)) as other:
                assert TOPIC in other.metadata().topics
        scene.friend.moves()
        assert scene.size(door) - before < 2_000 * 16_384


# No room.


def test_a_full_disk_is_told_and_waited_for(scene: Scene, client: Raw) -> None:
    assert client.produce(TOPIC, GOOD) == 0
    end = client.fetch(TOPIC).high
    assert commit(client, end) == 0
    with no_room(scene.process("broker")):
        for acks in (-1, 1):
            assert client.produce(TOPIC, GOOD, acks=acks) == ErrorCode.KAFKA_STORAGE_ERROR
        assert commit(client, 0) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert TOPIC in client.metadata().topics
        last = client.fetch(TOPIC, end - 1)
        assert (last.high, values_of(last, end - 1)) == (end, [b"two"])
    assert client.produce(TOPIC, GOOD) == 0
    assert commit(client, end + 2) == 0
    scene.log.kill(1)
    scene.log.start(1)
    with raw(scene.address("broker")) as again:
        until(lambda: again.fetch(TOPIC).error == 0)
        last = again.fetch(TOPIC, end + 1)
        assert (last.high, values_of(last, end + 1)) == (end + 2, [b"two"])


@contextlib.contextmanager
def no_room(process: psutil.Process) -> Iterator[None]:
    """No file of this process may grow any more, as if there were no room for it."""
    unlimited = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (1, unlimited[1]))
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_FSIZE, unlimited)


def commit(client: Raw, offset: int) -> int:
    """The error of a commit, by somebody who needs no group for it."""
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    asked = {"group_id": "alone", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    topics = [{"name": TOPIC, "partitions": [part]}]

    def error() -> int:
        return int(client.ask_cold(Api.OFFSET_COMMIT, 7, topics=topics, **asked).topics[0].partitions[0].error_code)

    # The first one of all has the groups' own topic made.
    client.ask_cold(Api.FIND_COORDINATOR, 3, key="alone", key_type=0)
    passing = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    until(lambda: error() not in passing)
    return error()


def values_of(fetched: ask.FetchedPartition, offset: int) -> list[bytes | None]:
    return [record.value for record in read_fetched(bytes(fetched.batches), offset)[0]]

"""Topics made, looked at and deleted on a real broker, and what the client promises, seen there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import uvloop

from octoloom.core.errors import UsageError
from octoloom.runtime.log_admin import describe_topics
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import OutOfRange, Refused, TopicExists, UnknownTopic, Unwanted
from octoloom.wire.kafka.client_messages import EARLIEST, LATEST
from octoloom.wire.kafka.records import Record, build_batch, read_fetched
from tests.runtime.real_log import RealLog, real_log
from tests.runtime.tiny_log import tiny_log

NOW = 1_760_000_000_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLog]:
    with real_log(tmp_path_factory.mktemp("log")) as log:
        yield log


def test_a_topic_can_be_used_when_it_is_made_and_is_gone_when_it_is_deleted(log: RealLog) -> None:
    async def main() -> None:
        async with LogClient(log.bootstrap) as client:
            await client.create_topic("made", partitions=2, config={"retention.ms": "1000000"})
            assert len((await client.topic("made")).partitions) == 2
            assert await client.produce("made", 1, build_batch([Record(0, NOW, None, b"x")])) == 0
            with pytest.raises(TopicExists, match="the topic made exists already"):
                await client.create_topic("made")
            [status] = await describe_topics(client, ["made"])
            assert status.config["retention.ms"] == "1000000"
            assert [(part.start, part.high) for part in status.partitions] == [(0, 0), (0, 1)]
            assert {part.address for part in status.partitions} == {log.bootstrap}
            assert "made" in [topic.name for topic in await describe_topics(client)]
            await client.delete_topic("made")
            with pytest.raises(UnknownTopic):
                await client.delete_topic("made")
            with pytest.raises(UnknownTopic, match="the topic made does not exist"):
                await describe_topics(client, ["made"])

    uvloop.run(main())


def test_the_register_is_a_place_to_begin(log: RealLog) -> None:
    async def main() -> None:
        async with LogClient(log.register.address) as client:
            await client.create_topic("begun")
            assert await client.produce("begun", 0, build_batch([Record(0, NOW, None, b"x")])) == 0
            await client.delete_topic("begun")

    uvloop.run(main())


def test_what_cannot_be_made_is_told(log: RealLog) -> None:
    async def main() -> None:
        async with LogClient(log.bootstrap) as client:
            with pytest.raises(Refused, match="INVALID_REPLICATION_FACTOR"):
                await client.create_topic("wide", replicas=5)
            with pytest.raises(Refused, match="INVALID_TOPIC"):
                await client.create_topic("no/such:name")
            with pytest.raises(Refused, match="INVALID_CONFIG"):
                await client.create_topic("odd", config={"retention.ms": "soon"})
            with pytest.raises(UsageError, match="a topic with 0 partitions cannot be: choose 1 to 10000"):
                await client.create_topic("x", partitions=0)
            with pytest.raises(UsageError, match="that cannot be asked"):
                await client.create_topic("x" * 40_000)
            assert [topic.name for topic in await describe_topics(client)] == []

    uvloop.run(main())


def test_a_broker_that_makes_no_topics_is_named() -> None:
    async def main() -> None:
        async with tiny_log() as tiny, LogClient(tiny.bootstrap) as client:
            tiny.versions.clear()
            with pytest.raises(Unwanted):
                await client.create_topic("x")

    uvloop.run(main())


def test_writing_reading_and_offsets_on_a_real_broker(log: RealLog) -> None:
    async def main() -> None:
        async with LogClient(log.bootstrap) as client:
            await client.create_topic("t")
            place = ("t", 0)
            tag = await client.init_producer()
            offset = 0
            for minute in range(3):
                records = [Record(0, NOW + minute * 60_000 + number, b"k", b"%d" % number) for number in range(10)]
                batch = build_batch(
                    records, codec="zstd", producer_id=tag[0], producer_epoch=tag[1], base_sequence=minute * 10
                )
                assert await client.produce("t", 0, batch) == offset
                # The same batch again is the same offset, and nothing more.
                assert await client.produce("t", 0, batch) == offset
                offset += 10
            assert await client.bounds([place]) == {place: (0, 30)}
            assert await client.list_offsets({place: EARLIEST}) == {place: 0}
            assert await client.list_offsets({place: LATEST}) == {place: 30}
            assert await client.offsets_at([place], NOW + 60_000) == {place: 10}
            assert await client.offsets_at([place], NOW + 999_000) == {place: 30}
            fetched = await client.fetch("t", 0, 25)
            found, next_offset = read_fetched(fetched.batches, 25)
            assert [record.offset for record in found] == [25, 26, 27, 28, 29]
            assert (next_offset, fetched.high, fetched.start) == (30, 30, 0)
            with pytest.raises(OutOfRange):
                await client.fetch("t", 0, 31)
            with pytest.raises(UnknownTopic):
                await client.fetch("t", 5, 0, timeout_ms=5000)
            await client.delete_topic("t")

    uvloop.run(main())

"""Calls that find their leader, try again while it makes sense, and say what went wrong."""

from __future__ import annotations

import asyncio

import confluent_kafka
import pytest
import uvloop

from octoloom.core.errors import UsageError
from octoloom.runtime import log_client, log_connection
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Consumer
from octoloom.runtime.log_errors import (
    BrokenSequence,
    LogError,
    NotEnoughReplicas,
    NotLeader,
    OutOfRange,
    Refused,
    TimedOut,
    UnknownTopic,
    Unreachable,
)
from octoloom.runtime.log_producer import Producer
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.client_messages import EARLIEST, LATEST
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import Record, build_batch, read_fetched
from tests.runtime.tiny_log import tiny_log
from tests.waiting import PATIENCE_S

NOW = 1_760_000_000_000


def batch_of(*values: bytes, tag: tuple[int, int] = (-1, -1), sequence: int = -1, timestamp: int = NOW) -> bytes:
    records = [Record(0, timestamp, None, value) for value in values]
    return build_batch(records, producer_id=tag[0], producer_epoch=tag[1], base_sequence=sequence)


def test_what_is_written_can_be_read() -> None:
    async def main() -> None:
        async with tiny_log(partitions=2) as log, LogClient(log.bootstrap) as client:
            assert await client.produce("t", 0, batch_of(b"a", b"b")) == 0
            assert await client.produce("t", 0, batch_of(b"c")) == 2
            assert await client.produce("t", 1, batch_of(b"d")) == 0
            fetched = await client.fetch("t", 0, 1)
            records, next_offset = read_fetched(fetched.batches, 1)
            assert [(record.offset, record.value) for record in records] == [(1, b"b"), (2, b"c")]
            assert (next_offset, fetched.high, fetched.start) == (3, 3, 0)
            empty = await client.fetch("t", 0, 3, wait_ms=10)
            assert (bytes(empty.batches), empty.high) == (b"", 3)

    uvloop.run(main())


def test_writes_that_nobody_acknowledges() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            assert await client.produce("t", 0, batch_of(b"a"), acks=0) == -1
            assert await client.produce("t", 0, batch_of(b"b")) == 1

    uvloop.run(main())


def test_many_writes_are_on_their_way_together() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            await client.produce("t", 0, batch_of(b"x"))
            offsets = await asyncio.gather(*(client.produce("t", 0, batch_of(b"%d" % n)) for n in range(50)))
            assert offsets == list(range(1, 51))
            assert log.asked[Api.METADATA] == 1

    uvloop.run(main())


def test_offsets_by_time_and_at_the_ends() -> None:
    async def main() -> None:
        async with tiny_log(partitions=3) as log, LogClient(log.bootstrap) as client:
            for number in range(2):
                for minute in range(3):
                    await client.produce("t", number, batch_of(b"x", timestamp=NOW + minute * 60_000))
            places = [("t", 0), ("t", 1), ("t", 2)]
            assert await client.list_offsets({places[0]: EARLIEST, places[1]: LATEST}) == {places[0]: 0, places[1]: 3}
            assert list((await client.offsets_at(places, NOW + 60_000)).values()) == [1, 1, 0]
            assert list((await client.offsets_at(places, NOW + 999_000)).values()) == [3, 3, 0]
            assert await client.bounds(places) == {places[0]: (0, 3), places[1]: (0, 3), places[2]: (0, 0)}

    uvloop.run(main())


def test_a_producer_id_is_new_each_time() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            log.faults[Api.INIT_PRODUCER_ID].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            first, second = await client.init_producer(), await client.init_producer()
            assert first[0] != second[0]
            log.faults[Api.INIT_PRODUCER_ID].append(ErrorCode.INVALID_REQUEST)
            with pytest.raises(Refused, match="refused it for a producer id: INVALID_REQUEST"):
                await client.init_producer()

    uvloop.run(main())


PASSING = [
    ErrorCode.NOT_LEADER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    "move",
    "cut",
]


@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_is_tried_again(fault: int | str) -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            tag = await client.init_producer()
            log.faults[Api.PRODUCE] += [fault, fault]
            assert await client.produce("t", 0, batch_of(b"a", tag=tag, sequence=0)) == 0
            if not isinstance(fault, int) or fault not in (
                ErrorCode.NOT_ENOUGH_REPLICAS,
                ErrorCode.KAFKA_STORAGE_ERROR,
            ):
                log.faults[Api.FETCH] += [fault, fault]
            assert (await client.fetch("t", 0, 0)).high == 1
            log.faults[Api.LIST_OFFSETS] += [fault if isinstance(fault, int) else "cut"]
            assert await client.list_offsets({("t", 0): LATEST}) == {("t", 0): 1}
            assert [record.value for record in log.partitions["t", 0].records] == [b"a"]

    uvloop.run(main())


def test_a_tagged_batch_whose_answer_was_lost_is_written_once() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            tag = await client.init_producer()
            log.faults[Api.PRODUCE] += ["lose", "lose", ErrorCode.REQUEST_TIMED_OUT]
            assert await client.produce("t", 0, batch_of(b"a", tag=tag, sequence=0)) == 0
            assert len(log.partitions["t", 0].records) == 1
            assert log.asked[Api.PRODUCE] == 4

    uvloop.run(main())


def test_an_untagged_batch_whose_answer_was_lost_is_not_sent_again() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            log.faults[Api.PRODUCE] += [ErrorCode.NOT_LEADER, "lose"]
            with pytest.raises(Unreachable) as caught:
                await client.produce("t", 0, batch_of(b"a"))
            assert caught.value.ambiguous
            assert log.asked[Api.PRODUCE] == 2
            log.faults[Api.PRODUCE] += [ErrorCode.REQUEST_TIMED_OUT]
            with pytest.raises(TimedOut):
                await client.produce("t", 0, batch_of(b"a"))

    uvloop.run(main())


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (ErrorCode.OUT_OF_ORDER_SEQUENCE, BrokenSequence, "begin with a new producer id"),
        (ErrorCode.INVALID_REQUIRED_ACKS, Refused, "INVALID_REQUIRED_ACKS"),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, Refused, "refused it for t-0"),
    ],
)
def test_what_does_not_pass_is_raised_at_once(code: ErrorCode, error: type[LogError], says: str) -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            log.faults[Api.PRODUCE].append(code)
            with pytest.raises(error, match=says):
                await client.produce("t", 0, batch_of(b"a", tag=(1, 0), sequence=0))
            assert log.asked[Api.PRODUCE] == 1

    uvloop.run(main())


def test_an_offset_that_is_not_there() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            with pytest.raises(OutOfRange, match="not in t-0: start at the beginning or at the end"):
                await client.fetch("t", 0, 5)

    uvloop.run(main())


def test_the_last_error_is_raised_at_the_deadline() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            log.faults[Api.PRODUCE] += [ErrorCode.NOT_ENOUGH_REPLICAS] * 1000
            with pytest.raises(NotEnoughReplicas, match="too few replicas of t-0 are in sync"):
                await client.produce("t", 0, batch_of(b"a", tag=(1, 0), sequence=0), timeout_ms=1500)
            # Pauses grow: these were no hundreds of requests.
            assert 2 <= log.asked[Api.PRODUCE] < 30
            log.partitions["t", 0].leader = -1
            with pytest.raises(NotLeader, match="nobody leads t-0 right now"):
                await client.fetch("t", 0, 0, timeout_ms=200)
            log.faults[Api.LIST_OFFSETS].append("hang")
            log.partitions["t", 0].leader = 1
            with pytest.raises((NotLeader, TimedOut)):
                await client.list_offsets({("t", 0): LATEST}, timeout_ms=200)

    uvloop.run(main())


def test_a_topic_may_be_unknown_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_client, "UNKNOWN_S", 0.3)

    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            asyncio.get_running_loop().call_later(0.1, log.make, "late", 2)
            assert len((await client.topic("late")).partitions) == 2
            assert await client.produce("late", 1, batch_of(b"a")) == 0
            with pytest.raises(UnknownTopic, match="the topic never does not exist: see `octoloom topic list`"):
                await client.produce("never", 0, batch_of(b"a"))
            with pytest.raises(UnknownTopic, match="the partition t-7 does not exist"):
                await client.fetch("t", 7, 0)
            with pytest.raises(UnknownTopic):
                await client.topic("never")

    uvloop.run(main())


def test_the_death_of_a_leader_is_survived() -> None:
    async def main() -> None:
        async with tiny_log(brokers=3) as log, LogClient(log.bootstrap) as client:
            tag = await client.init_producer()
            for sequence in range(4):
                batch = batch_of(b"%d" % sequence, tag=tag, sequence=sequence)
                writing = asyncio.ensure_future(client.produce("t", 0, batch))
                if sequence in (1, 2):
                    await log.kill(log.partitions["t", 0].leader, noticed=False)
                    asyncio.get_running_loop().call_later(0.05, log.move, ("t", 0))
                assert await writing == sequence
            assert [record.value for record in log.partitions["t", 0].records] == [b"0", b"1", b"2", b"3"]

    uvloop.run(main())


def test_a_frozen_leader_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_connection, "SUSPECT_S", 0.1)
    monkeypatch.setattr(log_connection, "_LOOK_S", 0.02)

    async def main() -> None:
        async with tiny_log(brokers=2) as log, LogClient(log.bootstrap) as client:
            tag = await client.init_producer()
            log.faults[Api.PRODUCE].append("hang")
            writing = asyncio.ensure_future(client.produce("t", 0, batch_of(b"a", tag=tag, sequence=0)))
            await asyncio.sleep(0.05)
            log.move(("t", 0))
            assert await asyncio.wait_for(writing, PATIENCE_S) == 0

    uvloop.run(main())


def test_no_broker_at_all() -> None:
    async def main() -> None:
        async with LogClient("127.0.0.1:1", timeout_ms=200) as client:
            with pytest.raises(Unreachable, match=r"no broker answers at 127\.0\.0\.1:1: start one with"):
                await client.metadata()
            with pytest.raises(Unreachable, match="start one with"):
                await client.produce("t", 0, batch_of(b"a"))

    uvloop.run(main())


def test_wrong_calls_are_told() -> None:
    async def main() -> None:
        async with LogClient("127.0.0.1:1") as client:
            with pytest.raises(UsageError, match="3 bytes are no record batch"):
                await client.produce("t", 0, b"abc")

    uvloop.run(main())


def test_brokers_of_another_make() -> None:
    """librdkafka brings brokers for its own tests; they know nothing of ours."""
    theirs = confluent_kafka.Producer({"bootstrap.servers": "nowhere:1", "test.mock.num.brokers": 3, "log_level": 0})
    known = theirs.list_topics("t", timeout=PATIENCE_S)
    bootstrap = [f"{broker.host}:{broker.port}" for broker in known.brokers.values()]

    async def main() -> None:
        async with LogClient(bootstrap) as client, Producer(client, codec="zstd") as producer:
            written = await asyncio.gather(*(producer.send("t", b"%d" % n, key=b"%d" % n) for n in range(40)))
            places = [("t", number) for number in known.topics["t"].partitions]
            highs = {place: high for place, (_, high) in (await client.bounds(places)).items()}
            assert sum(highs.values()) == 40
            found: dict[tuple[int, int], bytes | None] = {}
            async with Consumer(client, dict.fromkeys(places, "beginning"), until=highs) as consumer:
                async for _, partition, records in consumer:
                    found |= {(partition, record.offset): record.value for record in records}
            assert found == {place: b"%d" % n for n, place in enumerate(written)}

    uvloop.run(main())

"""Reading partitions to their end and beyond, while leaders come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.runtime import log_consumer
from octoloom.runtime.backoff import Backoff
from octoloom.runtime.frames import FramedConnection
from octoloom.runtime.log_client import FetchAnswer, LogClient
from octoloom.runtime.log_consumer import Consumer, Last, Start, Timestamp, ValueConsumer, resolve
from octoloom.runtime.log_errors import Damaged, OutOfRange, UnknownTopic, Unreachable
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import Record, build_batch
from tests.runtime.tiny_log import Fault, TinyLog, tiny_log
from tests.waiting import PATIENCE_S, async_until
from tests.wire.kafka.control import control_batch

NOW = 1_760_000_000_000
Place = tuple[str, int]
Read = Callable[[LogClient, dict[Place, Start], dict[Place, int]], Awaitable[dict[Place, list[int]]]]


@pytest.fixture(autouse=True)
def _quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "next_s", lambda _self: 0.002)


def fill(log: TinyLog, place: Place, count: int, batch: int = 3) -> None:
    """Writes numbered records, one second apart."""
    partition = log.partitions[place]
    target = partition.end + count
    while partition.end < target:
        numbers = range(partition.end, min(partition.end + batch, target))
        partition.append(build_batch([Record(0, NOW + number * 1000, None, b"%d" % number) for number in numbers]))
    log.grown.set()


def ends(log: TinyLog) -> dict[Place, int]:
    return {place: partition.end for place, partition in log.partitions.items()}


async def read(client: LogClient, starts: dict[Place, Start], until: dict[Place, int]) -> dict[Place, list[int]]:
    """The offsets that came, by partition. Values are what was written at these offsets."""
    found: dict[Place, list[int]] = {}
    async with Consumer(client, starts, until=until, wait_ms=50) as consumer:
        async for topic, partition, records in consumer:
            assert [record.value for record in records] == [b"%d" % record.offset for record in records]
            found.setdefault((topic, partition), []).extend(record.offset for record in records)
    assert left_running() == []
    return found


async def read_values(client: LogClient, starts: dict[Place, Start], until: dict[Place, int]) -> dict[Place, list[int]]:
    """The same, of values alone."""
    found: dict[Place, list[int]] = {}
    async with ValueConsumer(client, starts, until=until, wait_ms=50) as consumer:
        async for topic, partition, offset, values in consumer:
            offsets = range(offset, offset + len(values))
            assert values == [b"%d" % each for each in offsets]
            found.setdefault((topic, partition), []).extend(offsets)
    assert left_running() == []
    return found


either = pytest.mark.parametrize("read", [read, read_values])


def left_running() -> list[str]:
    """The client's tasks that have not ended."""
    running = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return [name for name in running if name.startswith(("LogC", "Reader"))]


def test_everything_is_read_up_to_the_end() -> None:
    async def main() -> None:
        async with tiny_log(brokers=2, partitions=4) as log, LogClient(log.bootstrap) as client:
            for number in range(3):
                fill(log, ("t", number), 10 * (number + 1))
            found = await read(client, dict.fromkeys(log.partitions, "beginning"), ends(log))
            assert found == {("t", number): list(range(10 * (number + 1))) for number in range(3)}

    uvloop.run(main())


@either
def test_a_range_is_read_to_the_record(read: Read) -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            fill(log, ("t", 0), 100, batch=7)
            assert await read(client, {("t", 0): 5}, {("t", 0): 33}) == {("t", 0): list(range(5, 33))}
            assert await read(client, {("t", 0): 33}, {("t", 0): 33}) == {}

    uvloop.run(main())


def test_the_places_where_one_can_start() -> None:
    async def main() -> None:
        async with tiny_log(partitions=2) as log, LogClient(log.bootstrap) as client:
            fill(log, ("t", 0), 20)
            log.partitions["t", 0].start = 4
            place, empty = ("t", 0), ("t", 1)
            starts: list[tuple[Start, int]] = [
                ("beginning", 4),
                ("end", 20),
                (7, 7),
                (Last(5), 15),
                (Last(50), 4),
                (Timestamp(NOW + 8500), 9),
                (Timestamp(NOW + 999_000), 20),
            ]
            for start, offset in starts:
                assert await resolve(client, {place: start}) == {place: offset}
            assert await resolve(client, {empty: Last(3)}) == {empty: 0}
            assert await resolve(client, {empty: Timestamp(NOW)}) == {empty: 0}

    uvloop.run(main())


def test_what_is_written_later_comes_at_once() -> None:
    async def main() -> None:
        async with tiny_log(partitions=2) as log, LogClient(log.bootstrap) as client:
            async with Consumer(client, dict.fromkeys(log.partitions, "end"), wait_ms=20_000) as consumer:
                asyncio.get_running_loop().call_later(0.05, fill, log, ("t", 1), 2)
                topic, partition, records = await asyncio.wait_for(anext(consumer), PATIENCE_S)
                assert (topic, partition, [record.offset for record in records]) == ("t", 1, [0, 1])
                assert consumer.positions == {("t", 0): 0, ("t", 1): 2}
                assert consumer.highs["t", 1] == 2
            assert log.asked[Api.FETCH] <= 4

    uvloop.run(main())


def test_the_next_answer_is_on_its_way_while_the_caller_works() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            fill(log, ("t", 0), 30, batch=10)
            consumer = Consumer(client, {("t", 0): "beginning"}, partition_bytes_max=1)
            async with consumer:
                await anext(consumer)
                await async_until(lambda: log.asked[Api.FETCH] >= 2)
                await asyncio.sleep(0.1)
                # One more, and not all that there is.
                assert log.asked[Api.FETCH] == 2

    uvloop.run(main())


def test_the_next_question_leaves_before_the_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading takes long: meanwhile the broker is to work on what comes next."""
    steps: list[str] = []
    flush, read_some = FramedConnection._flush, Consumer._read

    def flushed(self: FramedConnection) -> None:
        if self._waiting and int.from_bytes(self._waiting[0][4:6], "big") == Api.FETCH:
            steps.append("ask")
        flush(self)

    def reading(self: Consumer, *found: Any) -> Any:
        steps.append("read")
        return read_some(self, *found)

    monkeypatch.setattr(FramedConnection, "_flush", flushed)
    monkeypatch.setattr(Consumer, "_read", reading)

    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            fill(log, ("t", 0), 30, batch=10)
            consumer = Consumer(client, {("t", 0): "beginning"}, until={("t", 0): 30}, partition_bytes_max=1)
            assert [len(records) async for _, _, records in consumer] == [10, 10, 10]
            assert steps == ["ask", "ask", "read", "ask", "read", "read"]

    uvloop.run(main())


@pytest.mark.parametrize("bytes_max", [1, 1 << 20])
def test_what_lies_behind_a_control_batch_comes_too(bytes_max: int) -> None:
    """Values end before one, and go on behind it: what was asked for meanwhile is of no use."""

    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            partition = log.partitions["t", 0]
            for _ in range(4):
                fill(log, ("t", 0), 5)
                partition.append(control_batch())
            consumer = ValueConsumer(client, {("t", 0): 0}, until=ends(log), partition_bytes_max=bytes_max)
            found = [
                (offset + place, value) async for _, _, offset, values in consumer for place, value in enumerate(values)
            ]
            offsets = [offset for offset in range(partition.end) if offset % 6 != 5]
            assert found == [(offset, b"%d" % offset) for offset in offsets]

    uvloop.run(main())


FAULTS: list[Fault] = [0, "cut", "move", ErrorCode.NOT_LEADER, ErrorCode.UNKNOWN_LEADER_EPOCH]


@either
@settings(max_examples=30, deadline=None)
@given(
    faults=st.lists(st.sampled_from(FAULTS), max_size=12), bursts=st.lists(st.integers(1, 20), min_size=1, max_size=6)
)
def test_every_record_comes_once_and_in_order_whatever_happens(
    faults: list[Fault], bursts: list[int], read: Read
) -> None:
    async def main() -> None:
        async with tiny_log(brokers=3, partitions=2) as log, LogClient(log.bootstrap) as client:
            log.faults[Api.FETCH] += faults
            until = {("t", 0): sum(bursts), ("t", 1): sum(bursts[1:])}
            reading = asyncio.ensure_future(read(client, dict.fromkeys(log.partitions, "beginning"), until))
            for number, burst in enumerate(bursts):
                fill(log, ("t", 0), burst)
                fill(log, ("t", 1), burst if number else 0)
                await asyncio.sleep(0.001)
            found = await asyncio.wait_for(reading, PATIENCE_S)
            assert found == {place: list(range(end)) for place, end in until.items() if end}

    uvloop.run(main())


def test_the_death_of_leaders_is_survived() -> None:
    async def main() -> None:
        async with tiny_log(brokers=3, partitions=2) as log, LogClient(log.bootstrap) as client:
            until = dict.fromkeys(log.partitions, 60)
            reading = asyncio.ensure_future(read(client, dict.fromkeys(log.partitions, "beginning"), until))
            for burst in range(6):
                for place in log.partitions:
                    fill(log, place, 10)
                if burst in (2, 4):
                    dead = log.partitions["t", 0].leader
                    await log.kill(dead, noticed=False)
                    await asyncio.sleep(0.02)
                    for place, partition in log.partitions.items():
                        if partition.leader == dead:
                            log.move(place)
                await asyncio.sleep(0.01)
            found = await asyncio.wait_for(reading, PATIENCE_S)
            assert found == {place: list(range(60)) for place in until}

    uvloop.run(main())


def test_while_no_broker_answers_it_waits() -> None:
    async def main() -> None:
        async with (
            tiny_log(brokers=1) as log,
            LogClient(log.bootstrap) as client,
            Consumer(client, {("t", 0): 0}, wait_ms=20) as consumer,
        ):
            waiting = asyncio.ensure_future(anext(consumer))
            await asyncio.sleep(0.05)
            await log.kill(1)
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await log.start(1)
            fill(log, ("t", 0), 1)
            assert len((await asyncio.wait_for(waiting, PATIENCE_S)).records) == 1

    uvloop.run(main())


def test_but_not_before_it_has_begun() -> None:
    async def main() -> None:
        async with LogClient("127.0.0.1:1", timeout_ms=100) as client:
            with pytest.raises(Unreachable):
                await anext(Consumer(client, {("t", 0): "end"}))

    uvloop.run(main())


def test_what_is_gone_and_what_never_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_consumer, "UNKNOWN_S", 0.1)

    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            fill(log, ("t", 0), 9)
            log.partitions["t", 0].start = 5
            async with Consumer(client, {("t", 0): 2}) as consumer:
                with pytest.raises(OutOfRange, match="start at the beginning or at the end"):
                    await anext(consumer)
            async with Consumer(client, {("nowhere", 0): 0}) as consumer:
                with pytest.raises(UnknownTopic, match="the topic nowhere does not exist"):
                    await asyncio.wait_for(anext(consumer), PATIENCE_S)
            del log.partitions["t", 0]
            async with Consumer(client, {("t", 0): 0}) as consumer:
                with pytest.raises(UnknownTopic):
                    await asyncio.wait_for(anext(consumer), PATIENCE_S)

    uvloop.run(main())


def test_damage_is_told_with_its_place() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            fill(log, ("t", 0), 9)
            batches = log.partitions["t", 0].batches
            batches[1] = batches[1][:-1] + b"\xff"
            for kind in (Consumer, ValueConsumer):
                async with kind(client, {("t", 0): 3}) as consumer:
                    with pytest.raises(Damaged, match="a batch of t-0 at or after offset 3 is damaged"):
                        await anext(consumer)
                    # And again, for it is not passed over.
                    with pytest.raises(Damaged, match="a batch of t-0 at or after offset 3 is damaged"):
                        await anext(consumer)

    uvloop.run(main())


def test_an_answer_that_nobody_asked_for_is_passed_over() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            fill(log, ("t", 0), 3)
            async with Consumer(client, {("t", 0): 0}, until={("t", 0): 3}) as consumer:
                fetch_from = client.fetch_from

                async def talkative(*asked: Any) -> FetchAnswer:
                    error, found = await fetch_from(*asked)
                    return error, [found[0]._replace(topic="other"), *found]

                client.fetch_from = talkative  # type: ignore[assignment]
                assert [(topic, len(records)) async for topic, _, records in consumer] == [("t", 3)]

    uvloop.run(main())


def test_who_is_cancelled_misses_nothing() -> None:
    """Neither before it has begun nor while it waits."""

    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            fill(log, ("t", 0), 3)
            found: list[int] = []
            async with Consumer(client, {("t", 0): "beginning"}, until={("t", 0): 6}, wait_ms=50) as consumer:
                cancelled = 0
                while len(found) < 6:
                    asking = asyncio.ensure_future(anext(consumer))
                    for _ in range(cancelled):
                        await asyncio.sleep(0)
                    asking.cancel()
                    [answer] = await asyncio.gather(asking, return_exceptions=True)
                    if isinstance(answer, BaseException):
                        assert isinstance(answer, asyncio.CancelledError)
                        cancelled += 1
                    else:
                        found += [record.offset for record in answer.records]
                        if found == [0, 1, 2]:
                            fill(log, ("t", 0), 3)
            assert found == list(range(6))
            assert cancelled > 2

    uvloop.run(main())


def test_who_is_stopped_hears_that_there_is_no_more() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            fill(log, ("t", 0), 1)
            consumer = Consumer(client, {("t", 0): 0}, wait_ms=50)
            assert (await anext(consumer)).records[0].offset == 0
            waiting = asyncio.ensure_future(anext(consumer, None))
            await asyncio.sleep(0.01)
            consumer.stop()
            await consumer.close()
            assert await waiting is None
            assert await anext(consumer, None) is None
            assert left_running() == []

    uvloop.run(main())


def test_a_closed_consumer_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            async with Consumer(client, {("t", 0): 0}, wait_ms=60_000) as consumer:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(consumer), 0.1)
                assert client.cluster.connected(1, consumer._lane) is not None
            assert client.cluster.connected(1, consumer._lane) is None
            assert left_running() == []

    uvloop.run(main())

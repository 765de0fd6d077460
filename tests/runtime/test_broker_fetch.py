"""Fetch, on real sockets and files: what consumers see, when they wait, and what they are told when they may not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
import uvloop

from octoloom.core.errors import StoreError
from octoloom.core.log_messages import DropTopic
from octoloom.runtime import broker_fetch
from octoloom.runtime.broker_logs import FRESH_BYTES_MAX
from octoloom.storage.log import Log
from octoloom.wire.kafka import client_messages as ask
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import read_fetched
from tests.runtime.broker_world import Client, batch, with_settings, world
from tests.waiting import async_until as until


def values_of(fetched: ask.FetchedPartition, offset: int = 0) -> list[bytes | None]:
    return [record.value for record in read_fetched(bytes(fetched.batches), offset)[0]]


def test_a_fetch_gives_whole_batches_up_to_its_limits(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            size = len(batch(b"x" * 1000))
            for number in range(10):
                await client.produce("t", batch(b"%d" % number * 1000))
            assert len((await client.fetch("t", 0, bytes_max=3 * size)).batches) == 3 * size
            assert len((await client.fetch("t", 0, bytes_max=3 * size - 1)).batches) == 2 * size
            assert len((await client.fetch("t", 4, bytes_max=1)).batches) == size  # one at least, however large
            assert len((await client.fetch("t", 7)).batches) == 3 * size
            fetched = await client.fetch("t", 10)
            assert (fetched.error, fetched.high, fetched.start, len(fetched.batches)) == (0, 10, 0, 0)

    uvloop.run(main())


@pytest.mark.parametrize("copied", [0, 1 << 30], ids=["by the kernel", "copied"])
def test_large_and_small_answers_are_the_same_bytes(
    tmp_path: Path, copied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_fetch, "COPY_BYTES_MAX", copied)

    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            values = [b"%d " % number * 20_000 for number in range(20)]
            for value in values:
                assert (await client.produce("t", batch(value))).error == 0
            assert await client.read_all("t") == values

    uvloop.run(main())


def test_one_request_for_several_partitions_shares_its_limit(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t", partitions=3)
            size = len(batch(b"x" * 1000))
            for number in range(3):
                await client.produce("t", batch(b"x" * 1000), number)
            wanted = {("t", number): ask.FetchFrom(0, -1, 1 << 20) for number in (0, 1, 2)}
            answer = await client.ask(Api.FETCH, ask.encode_fetch(wanted, 0, 1, 2 * size))
            _, results = ask.read(ask.parse_fetch, answer)
            assert [len(result.batches) for result in results] == [size, size, 0]
            answer = await client.ask(Api.FETCH, ask.encode_fetch(wanted, 0, 1, 1))
            _, results = ask.read(ask.parse_fetch, answer)
            assert [len(result.batches) for result in results] == [size, 0, 0]

    uvloop.run(main())


def test_a_fetch_waits_for_records_and_is_woken_by_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            world(tmp_path) as all_of_it,
            Client.to(all_of_it.one.address) as reader,
            Client.to(all_of_it.one.address) as writer,
        ):
            await all_of_it.topic("t")
            fetching = asyncio.create_task(reader.fetch("t", 0, wait_ms=60_000))
            replica = all_of_it.one.state.replicas["t", 0]
            await until(lambda: len(replica.readers) == 1)
            await writer.produce("t", batch(b"a"))
            assert values_of(await fetching) == [b"a"]
            assert replica.readers == {}

    uvloop.run(main())


def test_a_fetch_that_wants_more_waits_until_there_is_enough(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            world(tmp_path) as all_of_it,
            Client.to(all_of_it.one.address) as reader,
            Client.to(all_of_it.one.address) as writer,
        ):
            await all_of_it.topic("t", partitions=2)
            size = len(batch(b"a"))
            wanted = {("t", number): ask.FetchFrom(0, -1, 1 << 20) for number in (0, 1)}
            fetching = asyncio.create_task(reader.ask(Api.FETCH, ask.encode_fetch(wanted, 60_000, 3 * size, 1 << 20)))
            await until(lambda: all_of_it.one.state.replicas["t", 1].readers)
            for number in (0, 1):
                await writer.produce("t", batch(b"a"), number)
                await asyncio.sleep(0.02)
                assert not fetching.done()
            await writer.produce("t", batch(b"b"), 1)
            _, results = ask.read(ask.parse_fetch, await fetching)
            assert [values_of(result) for result in results] == [[b"a"], [b"a", b"b"]]

    uvloop.run(main())


def test_a_fetch_that_has_waited_long_enough_gets_what_there_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            await client.produce("t", batch(b"a"))
            assert values_of(await client.fetch("t", 0, wait_ms=30, bytes_min=1 << 20)) == [b"a"]
            assert all_of_it.one.state.replicas["t", 0].readers == {}

    uvloop.run(main())


def test_the_wrong_epoch_offset_or_partition_is_told_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            await client.produce("t", batch(b"a"))
            slow = 60_000
            assert (await client.fetch("t", 0, epoch=0, wait_ms=slow)).error == ErrorCode.FENCED_LEADER_EPOCH
            assert (await client.fetch("t", 0, epoch=2, wait_ms=slow)).error == ErrorCode.UNKNOWN_LEADER_EPOCH
            assert (await client.fetch("t", 0, epoch=1)).error == 0
            assert (await client.fetch("t", 2, wait_ms=slow)).error == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (await client.fetch("t", -1, wait_ms=slow)).error == ErrorCode.OFFSET_OUT_OF_RANGE
            unknown = await client.fetch("t", 0, partition=3, wait_ms=slow)
            assert unknown.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    uvloop.run(main())


def test_there_are_no_fetch_sessions(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            common = {"max_wait": _ms(0), "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
            answer = await client.ask_cold(Api.FETCH, 11, session_id=77, session_epoch=3, rack_id="", **common)
            assert answer.error_code.value == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            answer = await client.ask_cold(Api.FETCH, 11, session_id=0, session_epoch=0, rack_id="", **common)
            assert (answer.error_code.value, answer.session_id) == (0, 0)

    uvloop.run(main())


def _ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def test_nothing_uncommitted_is_seen(tmp_path: Path) -> None:
    """The follower is silent: the leader has the record, and no consumer sees it until the set is smaller."""

    async def main() -> None:
        async with world(tmp_path, ["b1", "b2"], with_settings(lag_ms=60_000)) as all_of_it:
            await all_of_it.topic("t")
            leader = all_of_it.led("t")
            async with Client.to(leader.address) as client:
                assert (await client.produce("t", batch(b"a"))).error == 0
            await all_of_it.whole("t")
            said = [(broker, broker._leaders.say) for broker in all_of_it.brokers.values()]
            for broker, _ in said:
                broker._leaders.say = lambda *_: None  # type: ignore[method-assign]
            async with Client.to(leader.address) as client:
                client.send(Api.PRODUCE, 7, ask.encode_produce("t", 0, batch(b"b"), -1, 60_000))
                await until(lambda: leader.core.partitions["t", 0].end == 2)
                async with Client.to(leader.address) as reader:
                    fetched = await reader.fetch("t", 0)
                    assert (fetched.high, values_of(fetched)) == (1, [b"a"])
                    for offset in (1, 2):
                        fetched = await reader.fetch("t", offset)
                        assert (fetched.error, fetched.high, len(fetched.batches)) == (0, 1, 0)
                    # A leader that began with it cannot tell whether others have shown it already.
                    leader.core.partitions["t", 0].settled_at = 2
                    assert (await reader.fetch("t", 2)).error == ErrorCode.OFFSET_NOT_AVAILABLE
                    # The broker that follows is lost; the register takes it out of the set.
                    [(follower, _)] = [each for each in said if each[0] is not leader]
                    await follower.stop()
                    assert values_of(await reader.fetch("t", 1, wait_ms=60_000), 1) == [b"b"]
                await client.receive()

    uvloop.run(main())


def test_who_waits_is_told_when_the_topic_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            fetching = asyncio.create_task(client.fetch("t", 0, wait_ms=60_000))
            await until(lambda: all_of_it.one.state.replicas["t", 0].readers)
            await all_of_it.one._register.request(DropTopic(0, "t"))
            assert (await fetching).error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER)
            await until(lambda: not list((tmp_path / "b1" / "logs").iterdir()))

    uvloop.run(main())


def test_a_file_that_cannot_be_read_now_is_told_and_the_broker_serves_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptors are left, say. A consumer hears it; a follower asks again and gets its records later.

    A few that were written just now it gets all the same: they are still at hand.
    """
    large = b"c" * FRESH_BYTES_MAX

    def unreadable(*_: object) -> None:
        raise StoreError("too many open files")

    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            await all_of_it.topic("t")
            await all_of_it.whole("t")
            leader = all_of_it.led("t")
            async with Client.to(leader.address) as client, Client.to(leader.address) as reader:
                assert (await client.produce("t", batch(b"a"))).error == 0
                monkeypatch.setattr(Log, "read", unreadable)
                assert (await reader.fetch("t", 0, wait_ms=60_000)).error == ErrorCode.KAFKA_STORAGE_ERROR
                assert await client.produce("t", batch(b"b")) == (0, 1, 0)
                producing = asyncio.create_task(client.produce("t", batch(large)))
                await until(lambda: leader.core.partitions["t", 0].end == 3)
                await asyncio.sleep(0.02)
                assert not producing.done()
                monkeypatch.undo()
                assert await producing == (0, 2, 0)
                assert await reader.read_all("t") == [b"a", b"b", large]

    uvloop.run(main())

"""Produce, on real sockets and files: what is taken, what is refused and with which code, and in which order."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest
import uvloop
from crc32c import crc32c

from octoloom.core.errors import StoreError
from octoloom.runtime.broker_settings import SYNC_ALWAYS
from octoloom.storage.log import Log
from octoloom.wire.kafka import client_messages as ask
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.batches import read_header
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import Record, build_batch
from tests.runtime.broker_world import Client, World, batch, with_settings, world
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until


def corrupt(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def with_attributes(data: bytes, attributes: int) -> bytes:
    """The batch with other attributes and a CRC that fits."""
    body = attributes.to_bytes(2, "big") + data[23:]
    return data[:17] + crc32c(body).to_bytes(4, "big") + body


def old_format(data: bytes) -> bytes:
    return data[:16] + b"\x01" + data[17:]


@pytest.mark.parametrize("sync", ["always", "os"])
def test_a_batch_is_acknowledged_with_its_offset_and_can_be_read(tmp_path: Path, sync: str) -> None:
    async def main() -> None:
        async with (
            world(tmp_path, settings=with_settings(sync=sync)) as all_of_it,
            Client.to(all_of_it.one.address) as client,
        ):
            await all_of_it.topic("t")
            assert await client.produce("t", batch(b"a", b"b")) == (0, 0, 0)
            assert await client.produce("t", batch(b"c")) == (0, 2, 0)
            assert await client.read_all("t") == [b"a", b"b", b"c"]
            fetched = await client.fetch("t", 1)
            header = read_header(bytes(fetched.batches))
            assert (header.base_offset, header.leader_epoch) == (0, 1)

    uvloop.run(main())


def test_every_refusal_has_its_code_and_changes_nothing(tmp_path: Path) -> None:
    good = batch(b"x" * 50)
    cases = [
        (corrupt(good), ErrorCode.CORRUPT_MESSAGE),
        (good[:-1], ErrorCode.CORRUPT_MESSAGE),
        (good[:30], ErrorCode.CORRUPT_MESSAGE),
        (old_format(good), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (b"", ErrorCode.INVALID_RECORD),
        (good + good, ErrorCode.INVALID_RECORD),
        (batch(b"x" * 5000), ErrorCode.MESSAGE_TOO_LARGE),
        (with_attributes(good, 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (with_attributes(good, 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (with_attributes(good, 0x20), ErrorCode.INVALID_RECORD),
        (with_attributes(good, 0x10), ErrorCode.INVALID_TRANSACTION_STATE),
    ]

    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t", max_message_bytes="2000")
            for data, code in cases:
                assert (await client.produce("t", data)).error == code, code
            assert (await client.produce("t", good, acks=2)).error == ErrorCode.INVALID_REQUIRED_ACKS
            assert (await client.produce("t", good, partition=7)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (await client.produce("other", good)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await client.read_all("t") == []
            assert await client.produce("t", good) == (0, 0, 0)

    uvloop.run(main())


def test_a_duplicate_has_its_first_offset_and_a_gap_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            first = batch(b"a", b"b", producer=7, epoch=0, sequence=0)
            assert await client.produce("t", first) == (0, 0, 0)
            assert await client.produce("t", first) == (0, 0, 0)
            assert await client.produce("t", first, acks=1) == (0, 0, 0)
            gap = batch(b"z", producer=7, epoch=0, sequence=9)
            assert (await client.produce("t", gap)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE
            assert await client.read_all("t") == [b"a", b"b"]

    uvloop.run(main())


def test_answers_keep_the_order_of_requests(tmp_path: Path) -> None:
    """A long poll is first; the produces behind it are done at once and answered after it."""

    async def main() -> None:
        settings = with_settings(sync=SYNC_ALWAYS)
        async with world(tmp_path, settings=settings) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            wanted = {("t", 0): ask.FetchFrom(0, -1, 1 << 20)}
            sent = [client.send(Api.FETCH, 11, ask.encode_fetch(wanted, 10_000, 200, 1 << 20))]
            for number in range(50):
                body = ask.encode_produce("t", 0, batch(b"%d" % number), -1, 5_000)
                sent.append(client.send(Api.PRODUCE, 7, body))
            sent.append(client.send(Api.API_VERSIONS, 0, ()))
            heard = [int.from_bytes((await client.receive())[:4], "big") for _ in sent]
            assert heard == sent
            assert await client.read_all("t") == [b"%d" % number for number in range(50)]

    uvloop.run(main())


def test_acks_of_zero_are_not_answered_and_a_refusal_ends_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            client.send(Api.PRODUCE, 7, ask.encode_produce("t", 0, batch(b"a"), 0, 1000))
            assert await client.produce("t", batch(b"b"), acks=1) == (0, 1, 0)
            client.send(Api.PRODUCE, 7, ask.encode_produce("t", 0, corrupt(batch(b"c")), 0, 1000))
            assert await client.is_hung_up()

    uvloop.run(main())


def test_several_partitions_in_one_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t", partitions=3)
            parts = [{"index": number, "records": batch(b"p%d" % number)} for number in (0, 1, 9, 2)]
            answer = await client.ask_cold(
                Api.PRODUCE,
                9,
                transactional_id=None,
                acks=-1,
                timeout=_ms(5000),
                topic_data=[{"name": "t", "partition_data": parts}],
            )
            results = [(each.index, int(each.error_code.value)) for each in answer.responses[0].partition_responses]
            assert results == [(0, 0), (1, 0), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (2, 0)]
            for number in range(3):
                assert await client.read_all("t", number) == [b"p%d" % number]

    uvloop.run(main())


def _ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def test_a_broker_that_does_not_lead_says_who_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ["b1", "b2"]) as all_of_it:
            await all_of_it.topic("t")
            await all_of_it.whole("t")
            leader = all_of_it.led("t")
            [other] = [broker for broker in all_of_it.brokers.values() if broker is not leader]
            async with Client.to(other.address) as client:
                assert (await client.produce("t", batch(b"a"))).error == ErrorCode.NOT_LEADER
                part = {"index": 0, "records": batch(b"a")}
                answer = await client.ask_cold(
                    Api.PRODUCE,
                    10,
                    transactional_id=None,
                    acks=-1,
                    timeout=_ms(5000),
                    topic_data=[{"name": "t", "partition_data": [part]}],
                )
                hint = answer.responses[0].partition_responses[0].current_leader
                [endpoint] = answer.node_endpoints
                assert hint.leader_id == endpoint.node_id
                assert f"{endpoint.host}:{endpoint.port}" == leader.address

    uvloop.run(main())


def test_a_batch_that_cannot_be_committed_in_time_is_told_so(tmp_path: Path) -> None:
    """The follower hears nothing more, and the leader waits for it: as long as the producer does."""

    async def main() -> None:
        settings = with_settings(lag_ms=60_000)
        async with world(tmp_path, ["b1", "b2"], settings) as all_of_it:
            await all_of_it.topic("t")
            await all_of_it.whole("t")
            leader = all_of_it.led("t")
            silence_followers(all_of_it)
            async with Client.to(leader.address) as client:
                answer = await client.produce("t", batch(b"a"), timeout_ms=1)
                assert answer.error == ErrorCode.REQUEST_TIMED_OUT
                assert len(leader._produce) == 0

    uvloop.run(main())


def silence_followers(all_of_it: World) -> None:
    for broker in all_of_it.brokers.values():
        broker._leaders.say = lambda *_: None  # type: ignore[method-assign]


def test_a_full_disk_is_told_and_the_broker_serves_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            await all_of_it.topic("u")
            first = batch(b"a", producer=5, epoch=0, sequence=0)
            assert await client.produce("t", first) == (0, 0, 0)
            log = all_of_it.one.state.replicas["t", 0].log
            segment = type(log._segments.active)
            original = segment.write

            def full(self: object, *_: object) -> None:
                if self is log._segments.active:
                    raise OSError(28, "No space left on device")
                original(self, *_)  # type: ignore[arg-type]

            monkeypatch.setattr(segment, "write", full)
            second = batch(b"b", producer=5, epoch=0, sequence=1)
            assert (await client.produce("t", second)).error == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await client.produce("t", second, acks=1)).error == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await client.produce("u", batch(b"c"))).error == 0
            monkeypatch.setattr(segment, "write", original)
            # What was refused was never there: the same batch is taken now, and is not a duplicate.
            assert await client.produce("t", second) == (0, 1, 0)
            assert await client.read_all("t") == [b"a", b"b"]

    uvloop.run(main())


def test_nothing_is_acknowledged_or_seen_before_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        settings = with_settings(sync=SYNC_ALWAYS)
        async with (
            world(tmp_path, settings=settings) as all_of_it,
            Client.to(all_of_it.one.address) as client,
            Client.to(all_of_it.one.address) as other,
        ):
            await all_of_it.topic("t")
            log = all_of_it.one.state.replicas["t", 0].log
            original, go = type(log).sync, threading.Event()

            def slow(self: Log) -> int:
                assert go.wait(20)
                return original(self)

            monkeypatch.setattr(type(log), "sync", slow)
            producing = asyncio.create_task(client.produce("t", batch(b"a")))
            await until(lambda: log.end == 1)
            # Whoever wants less has it already, and everybody else is served.
            assert await other.produce("t", batch(b"b"), acks=1) == (0, 1, 0)
            assert len((await other.fetch("t", 0)).batches) == 0
            assert not producing.done()
            go.set()
            assert await producing == (0, 0, 0)
            monkeypatch.undo()

    uvloop.run(main())


def test_a_sync_says_nothing_about_what_came_after_a_cut(tmp_path: Path) -> None:
    async def main() -> None:
        settings = with_settings(sync=SYNC_ALWAYS)
        async with world(tmp_path, settings=settings) as all_of_it:
            await all_of_it.topic("t")
            broker = all_of_it.one
            replica = broker.state.replicas["t", 0]
            replica.partition.end = 5
            broker._turns.on_synced([(replica, replica.cuts, 3)])
            assert replica.partition.durable == 3
            replica.on_cut()
            broker._turns.on_synced([(replica, replica.cuts - 1, 5)])
            assert replica.partition.durable == 3
            replica.partition.end = 3

    uvloop.run(main())


def test_a_sync_that_fails_ends_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        settings = with_settings(sync=SYNC_ALWAYS)
        async with world(tmp_path, settings=settings) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            log = all_of_it.one.state.replicas["t", 0].log

            def broken() -> int:
                raise StoreError("the disk is gone")

            monkeypatch.setattr(type(log), "sync", lambda _: broken())
            client.send(Api.PRODUCE, 7, ask.encode_produce("t", 0, batch(b"a"), -1, 5_000))
            assert await client.is_hung_up()
            assert all_of_it.one.failed is not None
            with pytest.raises(StoreError):
                await asyncio.wait_for(all_of_it.one.failed, PATIENCE_S)
            monkeypatch.undo()

    uvloop.run(main())


def test_the_broker_appends_batches_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            heard: list[tuple[int, int]] = []
            services = all_of_it.one.services
            data = bytearray(build_batch([Record(0, 1, b"k", b"v")]))
            services.append(("t", 0), bytearray(data), lambda error, offset: heard.append((error, offset)))
            services.append(("t", 0), bytearray(data), lambda error, offset: heard.append((error, offset)))
            services.append(("none", 0), data, lambda error, offset: heard.append((error, offset)))
            services.when_committed(("t", 0), 2, lambda error: heard.append((error, 99)))
            await until(lambda: len(heard) == 4)
            assert sorted(heard) == [(0, 0), (0, 1), (0, 99), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
            assert await client.read_all("t") == [b"v", b"v"]
            read, after = services.read(("t", 0), 1, 1000)
            assert (read_header(read).base_offset, after) == (1, 2)
            assert services.read(("t", 0), 2, 1000) == (b"", 2)

    uvloop.run(main())

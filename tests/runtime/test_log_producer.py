"""Records that are written once and in order, whatever happens on the way."""

from __future__ import annotations

import asyncio
import random

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core.errors import UsageError
from octoloom.runtime import log_producer, log_writer
from octoloom.runtime.backoff import Backoff
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import (
    BrokenSequence,
    LogError,
    NotEnoughReplicas,
    TimedOut,
    TooLarge,
    UnknownTopic,
    Unreachable,
)
from octoloom.runtime.log_producer import Closed, Full, Producer
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.batches import read_header
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.partitioner import partition_of
from tests.runtime.tiny_log import Fault, TinyLog, tiny_log
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until


@pytest.fixture(autouse=True)
def _quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "next_s", lambda _self: 0.002)


def values(log: TinyLog, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in log.partitions["t", partition].records]


def test_a_record_is_written_with_all_that_belongs_to_it() -> None:
    async def main() -> None:
        async with tiny_log(partitions=3) as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            headers = (("trace", b"1"), ("empty", None))
            written = producer.send("t", b"value", key=b"key", headers=headers, partition=2, timestamp=1234)
            assert await written == (2, 0)
            [record] = log.partitions["t", 2].records
            assert record == (0, 1234, b"key", b"value", headers)
            assert await producer.send("t", None, partition=2) == (2, 1)

    uvloop.run(main())


def test_keys_go_where_other_clients_put_them() -> None:
    async def main() -> None:
        async with tiny_log(partitions=5) as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            keys = [b"", *(b"key-%d" % number for number in range(40))]
            written = await asyncio.gather(*(producer.send("t", b"x", key=key) for key in keys))
            assert [partition for partition, _ in written] == [partition_of(key, 5) for key in keys]

    uvloop.run(main())


def test_records_without_a_key_gather_and_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with tiny_log(partitions=4) as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            monkeypatch.setattr(log_producer, "STICKY_S", 60.0)
            await producer.send("t", b"x")
            log.asked.clear()
            together = await asyncio.gather(*(producer.send("t", b"x") for _ in range(100)))
            assert len({partition for partition, _ in together}) == 1
            assert log.asked[Api.PRODUCE] == 1

        async with tiny_log(partitions=4) as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            monkeypatch.setattr(log_producer, "STICKY_S", 0.001)
            seen = set()
            for _ in range(200):
                seen.add((await producer.send("t", b"x"))[0])
                await asyncio.sleep(0.002)
            assert len(seen) == 4

    uvloop.run(main())


def test_what_is_sent_in_one_tick_is_one_batch_up_to_its_limit() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            async with Producer(client, batch_bytes_max=10_000, codec="lz4") as producer:
                written = [producer.send("t", b"%03d" % number * 100) for number in range(100)]
                assert [await future for future in written] == [(0, offset) for offset in range(100)]
            sizes = [read_header(batch).count for batch in log.partitions["t", 0].batches]
            assert sizes == [30, 30, 30, 10]
            assert {read_header(batch).attributes for batch in log.partitions["t", 0].batches} == {3}
            assert values(log) == [b"%03d" % number * 100 for number in range(100)]

    uvloop.run(main())


def test_many_values_are_one_batch_and_gather_with_others() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            async with Producer(client, batch_bytes_max=1000, codec="zstd") as producer:
                lists: list[list[bytes | None]] = [[b"a", None, b""], [b"b"] * 20, [b"c"] * 20, [b"d"]]
                written = [producer.send_many("t", some, timestamp=5 + len(some)) for some in lists]
                single = producer.send("t", b"e", key=b"k")
                assert [(await future)[1] for future in [*written, single]] == [0, 3, 23, 43, 44]
            batches = [read_header(batch) for batch in log.partitions["t", 0].batches]
            assert [(header.count, header.attributes) for header in batches] == [(23, 4), (21, 4), (1, 4)]
            assert values(log) == [value for some in lists for value in some] + [b"e"]
            stamps = [record.timestamp for record in log.partitions["t", 0].records]
            assert stamps[:-1] == [5 + len(some) for some in lists for _ in some]

    uvloop.run(main())


def test_many_values_are_those_that_were_given() -> None:
    """Whatever becomes of the list afterwards."""

    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            some: list[bytes | None] = [b"one", b"two", b"six"]
            written = producer.send_many("t", some)
            some[1] = b"a longer one"
            some.append(None)
            assert await written == (0, 0)
            assert values(log) == [b"one", b"two", b"six"]

    uvloop.run(main())


def test_many_values_find_a_place_by_themselves() -> None:
    async def main() -> None:
        async with tiny_log(partitions=3) as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            # Nobody knows yet how many partitions there are.
            partition, offset = await producer.send_many("t", [b"a", b"b"])
            assert (offset, values(log, partition)) == (0, [b"a", b"b"])

    uvloop.run(main())


def test_a_record_that_is_larger_than_a_batch_goes_alone() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            async with Producer(client, batch_bytes_max=100) as producer:
                await asyncio.gather(*(producer.send("t", b"x" * size) for size in (10, 500, 10)))
            assert [read_header(batch).count for batch in log.partitions["t", 0].batches] == [1, 1, 1]

    uvloop.run(main())


def test_no_more_than_so_many_batches_are_on_their_way() -> None:
    async def main() -> None:
        async with (
            tiny_log() as log,
            LogClient(log.bootstrap) as client,
            Producer(client, in_flight_max=2) as producer,
        ):
            await producer.send("t", b"first")
            log.faults[Api.PRODUCE].append("hang")
            for number in range(6):
                producer.send("t", b"%d" % number).add_done_callback(lambda future: future.exception())
                await asyncio.sleep(0.01)
            connection = client.cluster.connected(1, "produce")
            assert connection is not None
            await until(lambda: connection.waiting == 2)
            await asyncio.sleep(0.05)
            assert connection.waiting == 2
            await producer.close(flush=False)

    uvloop.run(main())


FAULTS: list[Fault] = [
    0,
    "lose",
    "cut",
    "move",
    ErrorCode.NOT_LEADER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(FAULTS), max_size=12),
    st.lists(st.integers(1, 7), min_size=1, max_size=12),
    st.integers(1, 5),
    st.integers(0, 99),
)
def test_every_record_is_written_once_and_in_order_whatever_happens(
    faults: list[Fault], bursts: list[int], in_flight_max: int, seed: int
) -> None:
    dice = random.Random(seed)

    async def main() -> None:
        async with tiny_log(brokers=3, partitions=2) as log, LogClient(log.bootstrap) as client:
            log.faults[Api.PRODUCE] += faults
            sent: list[list[bytes]] = [[], []]
            written: list[tuple[int, list[bytes], asyncio.Future[tuple[int, int]]]] = []
            async with Producer(client, in_flight_max=in_flight_max, batch_bytes_max=200) as producer:
                for burst in bursts:
                    for _ in range(burst):
                        partition, count = dice.randrange(2), dice.choice([1, 1, 1, 5])
                        some = [b"%d.%d" % (len(written), number) for number in range(count)]
                        if count == 1:
                            future = producer.send("t", some[0], partition=partition)
                        else:
                            future = producer.send_many("t", some, partition=partition)
                        written.append((partition, some, future))
                        sent[partition] += some
                    await asyncio.sleep(dice.choice([0, 0, 0.001]))
            for partition in range(2):
                assert values(log, partition) == sent[partition]
            for partition, some, future in written:
                assert future.result()[0] == partition
                offset = future.result()[1]
                assert values(log, partition)[offset : offset + len(some)] == some

    uvloop.run(main())


def test_the_death_of_leaders_is_survived_under_load() -> None:
    async def main() -> None:
        async with tiny_log(brokers=3) as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            sent: list[bytes] = []
            futures = []
            for number in range(300):
                sent.append(b"%d" % number)
                futures.append(producer.send("t", sent[-1], partition=0))
                if number in (100, 200):
                    await log.kill(log.partitions["t", 0].leader, noticed=False)
                    asyncio.get_running_loop().call_later(0.05, log.move, ("t", 0))
                await asyncio.sleep(0.001)
            assert await asyncio.gather(*futures) == [(0, offset) for offset in range(300)]
            assert values(log) == sent

    uvloop.run(main())


def test_a_batch_that_is_refused_for_good_fails_alone() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            await producer.send("t", b"first")
            first_id = read_header(log.partitions["t", 0].batches[0]).producer_id
            log.faults[Api.PRODUCE].append(ErrorCode.MESSAGE_TOO_LARGE)
            futures = []
            for number in range(4):
                futures.append(producer.send("t", b"%d" % number))
                await asyncio.sleep(0)
            results = await asyncio.gather(*futures, return_exceptions=True)
            assert isinstance(results[0], TooLarge)
            assert not results[0].ambiguous
            assert results[1:] == [(0, 1), (0, 2), (0, 3)]
            assert values(log) == [b"first", b"1", b"2", b"3"]
            # The numbers had a gap, so the rest came under another id.
            assert read_header(log.partitions["t", 0].batches[-1]).producer_id != first_id

    uvloop.run(main())


def test_a_forgotten_producer_begins_anew_without_losing_or_doubling_anything() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            await producer.send("t", b"first")
            log.partitions["t", 0].producers.clear()
            assert await producer.send("t", b"second") == (0, 1)
            assert values(log) == [b"first", b"second"]
            # With a batch that may have been written already it is another matter.
            log.faults[Api.PRODUCE].append("lose")
            third = producer.send("t", b"third")
            while len(values(log)) < 3:
                await asyncio.sleep(0)
            log.partitions["t", 0].producers.clear()
            with pytest.raises(BrokenSequence) as caught:
                await third
            assert caught.value.ambiguous
            assert await producer.send("t", b"fourth") == (0, 3)
            assert values(log) == [b"first", b"second", b"third", b"fourth"]

    uvloop.run(main())


def test_a_very_old_duplicate_is_a_success_without_an_offset() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            await producer.send("t", b"first")
            log.faults[Api.PRODUCE].append(ErrorCode.DUPLICATE_SEQUENCE)
            assert await producer.send("t", b"second") == (0, -1)

    uvloop.run(main())


def test_deadlines_are_kept() -> None:
    async def main() -> None:
        async with (
            tiny_log() as log,
            LogClient(log.bootstrap) as client,
            Producer(client, timeout_ms=150) as producer,
        ):
            log.faults[Api.PRODUCE] += [ErrorCode.NOT_ENOUGH_REPLICAS] * 10_000
            with pytest.raises(NotEnoughReplicas):
                await producer.send("t", b"a")
            log.faults[Api.PRODUCE].clear()
            # Nothing of it was written, and nothing stands in the way of the next.
            assert await producer.send("t", b"b") == (0, 0)
            log.faults[Api.PRODUCE].append("hang")
            with pytest.raises(TimedOut) as caught:
                await asyncio.wait_for(producer.send("t", b"c"), PATIENCE_S)
            assert caught.value.ambiguous

    uvloop.run(main())


def test_what_may_have_been_written_is_not_sent_under_another_id() -> None:
    async def main() -> None:
        async with (
            tiny_log() as log,
            LogClient(log.bootstrap) as client,
            Producer(client, timeout_ms=2000) as producer,
        ):
            await producer.send("t", b"first")
            log.faults[Api.PRODUCE] += ["mute", "mute"]
            lost = [producer.send("t", b"a")]
            await asyncio.sleep(0.1)
            lost.append(producer.send("t", b"b"))
            for future in lost:
                with pytest.raises(TimedOut) as caught:
                    await asyncio.wait_for(future, PATIENCE_S)
                assert caught.value.ambiguous
            # A broker that has left out two answers is of no use any more.
            client.cluster.hang_up("produce")
            assert await asyncio.wait_for(producer.send("t", b"c"), PATIENCE_S) == (0, 3)
            assert values(log) == [b"first", b"a", b"b", b"c"]

    uvloop.run(main())


def test_nothing_new_is_sent_while_something_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "next_s", lambda _self: 2.0)

    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            await producer.send("t", b"first")
            log.asked.clear()
            log.faults[Api.PRODUCE] += [ErrorCode.NOT_ENOUGH_REPLICAS]
            written = [producer.send("t", b"0")]
            await until(lambda: log.asked[Api.PRODUCE] == 1)
            for number in range(1, 4):
                written.append(producer.send("t", b"%d" % number))
                await asyncio.sleep(0.005)
            assert log.asked[Api.PRODUCE] == 1
            await asyncio.gather(*written)
            assert log.asked[Api.PRODUCE] == 3

    uvloop.run(main())


def test_records_wait_behind_those_whose_partition_is_not_known_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octoloom.runtime.log_cluster.METADATA_S", 0.2)

    async def main() -> None:
        async with tiny_log(partitions=3) as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            log.faults[Api.METADATA].append("hang")
            first = producer.send("t", b"1", key=b"k")
            await asyncio.sleep(0.05)
            # Somebody else finds out in the meantime.
            client.cluster._learn(await LogClient(log.bootstrap).metadata(["t"]), ["t"])
            second = producer.send("t", b"2", key=b"k")
            assert [(await first)[1], (await second)[1]] == [0, 1]

    uvloop.run(main())


def test_nobody_there() -> None:
    async def main() -> None:
        async with LogClient("127.0.0.1:1", timeout_ms=200) as client, Producer(client) as producer:
            futures = [producer.send("t", b"x"), producer.send("t", b"x", partition=0)]
            for future in futures:
                with pytest.raises(Unreachable, match="start one with"):
                    await future

    uvloop.run(main())


def test_an_unknown_topic_is_told_and_a_late_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octoloom.runtime.log_client.UNKNOWN_S", 0.2)
    monkeypatch.setattr(log_writer, "UNKNOWN_S", 0.2)

    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            with pytest.raises(UnknownTopic, match="the topic nowhere does not exist"):
                await producer.send("nowhere", b"x")
            with pytest.raises(UnknownTopic, match="the partition t-9 does not exist"):
                await producer.send("t", b"x", partition=9)
            written = [producer.send("late", b"%d" % number, key=b"k") for number in range(3)]
            await asyncio.sleep(0.02)
            log.make("late")
            assert [await future for future in written] == [(0, 0), (0, 1), (0, 2)]

    uvloop.run(main())


def test_memory_is_bounded_and_room_is_waited_for() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            async with Producer(client, buffer_bytes_max=10_000) as producer:
                refused = 0
                for number in range(1000):
                    try:
                        producer.send("t", b"%d" % number)
                    except Full:
                        refused += 1
                        await producer.room()
                        producer.send("t", b"%d" % number)
            assert refused >= 3
            assert values(log) == [b"%d" % number for number in range(1000)]

    uvloop.run(main())


def test_what_failed_takes_no_room() -> None:
    async def main() -> None:
        async with (
            tiny_log() as log,
            LogClient(log.bootstrap) as client,
            Producer(client, buffer_bytes_max=1000) as producer,
        ):
            for number in range(5):
                log.faults[Api.PRODUCE].append(ErrorCode.MESSAGE_TOO_LARGE)
                with pytest.raises(TooLarge):
                    await producer.send("t", b"x" * 600)
                assert await producer.send("t", b"y" * 600) == (0, number)

    uvloop.run(main())


def test_closing_writes_all_or_fails_what_is_left() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            producer = Producer(client)
            written = producer.send("t", b"a")
            await producer.close()
            assert written.result() == (0, 0)
            with pytest.raises(Closed, match="make a new one"):
                producer.send("t", b"b")
            second = Producer(client)
            left = [second.send("t", b"c"), second.send("nowhere", b"c"), second.send("t", b"c", partition=0)]
            await second.__aexit__(RuntimeError)
            for future in left:
                with pytest.raises(Closed, match="closed before this was written"):
                    await future
            assert values(log) == [b"a"]

    uvloop.run(main())


WRONG_CALLS: list[tuple[dict[str, object], str]] = [
    ({"topic": "", "value": b""}, "name one"),
    ({"topic": "t", "value": "text"}, "bytes or None, not str: encode it first"),
    ({"topic": "t", "value": b"", "key": 7}, "not int"),
    ({"topic": "t", "value": b"", "headers": ((b"name", b""),)}, "a header is a name"),
    ({"topic": "t", "value": b"", "headers": (("\ud800", b""),)}, "surrogates"),
    ({"topic": "t", "value": b"", "timestamp": -5}, "milliseconds since 1970"),
    ({"topic": "t", "value": bytes(2000)}, "does not fit into a buffer of 1000"),
]


WRONG_LISTS: list[tuple[dict[str, object], str]] = [
    ({"topic": "", "values": [b""]}, "name one"),
    ({"topic": "t", "values": []}, "0 values are no batch"),
    ({"topic": "t", "values": [b"a", "text"]}, "bytes or None, not str: encode them first"),
    ({"topic": "t", "values": [b"a"], "timestamp": -5}, "milliseconds since 1970"),
    ({"topic": "t", "values": [bytes(300), bytes(300)]}, "take 648 bytes, and a batch has 500: send fewer"),
]


@pytest.mark.parametrize(
    ("call", "arguments", "says"),
    [*(("send", *wrong) for wrong in WRONG_CALLS), *(("send_many", *wrong) for wrong in WRONG_LISTS)],
)
def test_wrong_calls_change_nothing(call: str, arguments: dict[str, object], says: str) -> None:
    async def main() -> None:
        async with (
            tiny_log() as log,
            LogClient(log.bootstrap) as client,
            Producer(client, buffer_bytes_max=1000, batch_bytes_max=500) as producer,
        ):
            with pytest.raises(UsageError, match=says):
                getattr(producer, call)(**arguments)
            assert await producer.send("t", b"x") == (0, 0)
            assert await producer.send_many("t", [b"x"]) == (0, 1)

    uvloop.run(main())


def test_wrong_settings_are_told() -> None:
    async def main() -> None:
        async with LogClient("127.0.0.1:1") as client:
            with pytest.raises(UsageError, match="choose 1 to 5"):
                Producer(client, in_flight_max=6)
            with pytest.raises(UsageError, match="there is no codec 'rar'"):
                Producer(client, codec="rar")

    uvloop.run(main())


def test_sequence_numbers_start_again_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "SEQUENCES", 1 << 31)

    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client, Producer(client) as producer:
            await producer.send("t", b"a")
            last = (1 << 31) - 2
            [(first, _, offset)] = next(iter(log.partitions["t", 0].producers.values()))
            log.partitions["t", 0].producers[next(iter(log.partitions["t", 0].producers))] = [(first, last, offset)]
            producer._writers["t", 0]._sequence = last
            await asyncio.gather(*(producer.send("t", b"%d" % number) for number in range(5)))
            assert await producer.send("t", b"z") == (0, 6)
            assert read_header(log.partitions["t", 0].batches[-1]).base_sequence == 3

    uvloop.run(main())


def test_errors_of_one_partition_do_not_touch_another() -> None:
    async def main() -> None:
        async with (
            tiny_log(partitions=2) as log,
            LogClient(log.bootstrap) as client,
            Producer(client, timeout_ms=2000) as producer,
        ):
            await asyncio.gather(producer.send("t", b"a", partition=0), producer.send("t", b"a", partition=1))
            log.partitions["t", 0].leader = 99
            stuck = producer.send("t", b"b", partition=0)
            assert await producer.send("t", b"b", partition=1) == (1, 1)
            with pytest.raises(LogError):
                await stuck

    uvloop.run(main())

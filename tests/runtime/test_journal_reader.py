"""What a chain takes over from the journal, and what keeps it from doing so."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest
import uvloop

from octoloom.core.event import JournalEntry
from octoloom.core.journal import JournalReader
from octoloom.core.placement import place
from octoloom.runtime import journal_reader
from octoloom.runtime.journal_reader import JournalPass
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import Damaged, LogError
from octoloom.wire.journal import JournalRecord, encode
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.batches import read_header
from octoloom.wire.kafka.client_messages import TopicPartition
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.partitioner import partition_of
from octoloom.wire.kafka.records import Headers, Record, build_batch
from tests.runtime.journal_entries import entries, entry
from tests.runtime.tiny_log import Fault, TinyLog, TinyPartition, tiny_log

PARTITIONS = 3


def record_of(space: str, one: JournalEntry, generation: int = 1, chain: str = "c") -> Record:
    key, value, headers = encode(JournalRecord(space, chain, generation, 1, 0, one))
    return Record(0, 0, key, value, headers)


def put(log: TinyLog, records: Iterable[Record]) -> None:
    """Appends records where their keys belong, a batch for each."""
    for record in records:
        number = partition_of(record.key or b"", PARTITIONS)
        log.partitions["journal", number].append(build_batch([record]))


def starting(reader: JournalReader) -> JournalEntry:
    [begin] = reader.start().backlog
    return begin


async def passed(
    log: TinyLog, beginning: dict[str, int] | None = None, chains: tuple[str, ...] = ("c",)
) -> JournalPass:
    async with LogClient(log.bootstrap) as client:
        there = JournalPass(client, "journal", beginning or {"c": 9}, chains)
        await there.run()
        return there


async def versions(done: JournalPass, chain: str = "c") -> dict[str, int]:
    return {snapshot.space: snapshot.version for snapshot in await done.snapshots(chain)}


def journal() -> AbstractAsyncContextManager[TinyLog]:
    return tiny_log(2, "journal", PARTITIONS)


def test_an_empty_journal_gives_nothing() -> None:
    async def main() -> None:
        async with journal() as log:
            done = await passed(log)
            assert (await done.snapshots("c"), done.failures, done.records) == ([], {}, 0)
            # A mark each, and they are no strays of the next pass.
            assert [log.partitions["journal", number].end for number in range(PARTITIONS)] == [1] * PARTITIONS
            done = await passed(log)
            assert (await done.snapshots("c"), done.records, done.strays) == ([], PARTITIONS, 0)

    uvloop.run(main())


def test_all_spaces_are_taken_over_as_they_were() -> None:
    async def main() -> None:
        async with journal() as log:
            spaces = {f"space{number}": number for number in range(1, 30)}
            for space, last in spaces.items():
                put(log, (record_of(space, one) for one in entries(1, last)))
            done = await passed(log)
            assert await versions(done) == spaces
            snapshot = next(one for one in await done.snapshots("c") if one.space == "space7")
            assert msgspec.json.decode(snapshot.state)["n"] == 7
            assert [record.watermark for record in snapshot.devices] == [7]
            # What it took over is to be published, as the first of the new generation.
            assert [one.start is not None for one in snapshot.backlog] == [True]
            assert snapshot.journaled == 6

    uvloop.run(main())


def test_what_comes_twice_is_taken_once_and_old_generations_are_dropped() -> None:
    async def main() -> None:
        async with journal() as log:
            reader = JournalReader("s")
            for one in entries(1, 6):
                reader.read(1, one)
            put(log, (record_of("s", one) for one in [*entries(1, 5), *entries(3, 6), *entries(1, 2)]))
            put(log, [record_of("s", starting(reader), generation=2)])
            put(log, (record_of("s", one, generation=1) for one in entries(7, 9)))
            put(log, (record_of("s", one, generation=2) for one in [*entries(7, 8), *entries(7, 10)]))
            done = await passed(log)
            assert await versions(done) == {"s": 10}
            assert done.failures == {}

    uvloop.run(main())


def test_what_is_dropped_is_not_opened() -> None:
    async def main() -> None:
        async with journal() as log:
            chains = ("c", "d")
            mine, other = (next(n for n in map(str, range(100)) if place(n, chains) == chain) for chain in chains)
            put(log, (record_of(mine, one) for one in entries(1, 3)))
            put(log, [record_of(mine, entry(2))._replace(value=b"never read")])
            put(log, [record_of(other, entry(1), chain="d")._replace(value=b"never read", headers=())])
            done = await passed(log, chains=chains)
            assert done.failures == {}
            assert await versions(done) == {mine: 3}

    uvloop.run(main())


def test_each_chain_gets_its_own_spaces() -> None:
    async def main() -> None:
        async with journal() as log:
            chains = ("c", "d", "e")
            homes = {f"space{number}": place(f"space{number}", chains) for number in range(40)}
            for space, home in homes.items():
                put(log, (record_of(space, one, chain=home) for one in entries(1, 2)))
            done = await passed(log, {"c": 2, "e": 5}, chains)
            for chain in ("c", "e"):
                assert sorted(await versions(done, chain)) == sorted(s for s, home in homes.items() if home == chain)
            assert await done.snapshots("d") == []

    uvloop.run(main())


# What cannot be read.


async def failure(log: TinyLog, generation: int = 9) -> str:
    done = await passed(log, {"c": generation})
    assert await done.snapshots("c") == []
    return str(done.failures["c"])


def test_a_gap_is_an_error_that_names_its_place() -> None:
    async def main() -> None:
        async with journal() as log:
            put(log, (record_of("s", one) for one in [*entries(1, 3), *entries(5, 6)]))
            text = await failure(log)
            where = partition_of(b"s", PARTITIONS)
            assert f"journal-{where}, offset 3" in text
            assert "version 5" in text
            assert "--journal-topic" in text

    uvloop.run(main())


def test_a_trimmed_journal_is_a_gap_unless_a_start_follows() -> None:
    async def main() -> None:
        async with journal() as log:
            reader = JournalReader("s")
            for one in entries(1, 6):
                reader.read(1, one)
            put(log, (record_of("s", one) for one in entries(1, 6)))
            partition = log.partitions["journal", partition_of(b"s", PARTITIONS)]
            partition.start = 4
            assert "offset 4" in await failure(log)
            put(log, [record_of("s", starting(reader), generation=2), record_of("s", entry(7), generation=2)])
            partition.start = 6
            assert await versions(await passed(log)) == {"s": 7}

    uvloop.run(main())


HEADERS: Headers = record_of("s", entry(1)).headers


@pytest.mark.parametrize(
    ("value", "headers", "says"),
    [
        (b"hello", HEADERS, "malformed"),
        (None, HEADERS, "no-value"),
        (b"{}", HEADERS, "bad-field"),
        (b"hello", (), "bad-header"),
    ],
)
def test_a_record_that_is_none_is_an_error_that_names_its_place(
    value: bytes | None, headers: Headers, says: str
) -> None:
    async def main() -> None:
        async with journal() as log:
            put(log, [Record(0, 0, b"s", value, headers)])
            text = await failure(log)
            where = partition_of(b"s", PARTITIONS)
            assert f"journal-{where}, offset 0" in text
            assert says in text
            assert f"octoloom topic consume journal -p {where} --from 0 -c 1" in text

    uvloop.run(main())


def test_a_record_without_a_space_is_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with journal() as log:
            put(log, [Record(0, 0, None, b"hello"), Record(0, 0, b"\xff", b"hello"), record_of("s", entry(1))])
            done = await passed(log)
            assert await versions(done) == {"s": 1}

    with caplog.at_level(logging.WARNING, "octoloom.journal"):
        uvloop.run(main())
    assert [record.message for record in caplog.records] == [
        "2 records of the topic journal have no space as key, and were left out"
    ]


@pytest.mark.parametrize(("begins", "fails"), [(2, True), (3, True), (4, False)])
def test_a_register_that_forgot_is_noticed(begins: int, fails: bool) -> None:
    async def main() -> None:
        async with journal() as log:
            put(log, [record_of("s", entry(1), generation=3)])
            if not fails:
                assert (await passed(log, {"c": begins})).failures == {}
                return
            text = await failure(log, begins)
            assert f"generation 3 of c, and the register begins with generation {begins}" in text
            assert "start it with the data that it had" in text

    uvloop.run(main())


def test_a_space_of_another_chain_is_noticed() -> None:
    async def main() -> None:
        async with journal() as log:
            put(log, [record_of("s", entry(1), chain="before")])
            assert "before published the space 's', which belongs to c now" in await failure(log)

    uvloop.run(main())


def test_a_fault_of_one_chain_is_no_fault_of_the_other() -> None:
    async def main() -> None:
        async with journal() as log:
            chains = ("c", "d")
            homes = {f"space{number}": place(f"space{number}", chains) for number in range(20)}
            bad = next(space for space, home in homes.items() if home == "c")
            for space, home in homes.items():
                put(log, (record_of(space, one, chain=home) for one in entries(1, 2)))
            put(log, [record_of(bad, entry(4))])
            for space, home in homes.items():
                put(log, [record_of(space, entry(3), chain=home)])
            done = await passed(log, {"c": 2, "d": 2}, chains)
            assert list(done.failures) == ["c"]
            assert await done.snapshots("c") == []
            assert set((await versions(done, "d")).values()) == {3}

    uvloop.run(main())


# Brokers that come and go.


def in_order(partition: TinyPartition, offset: int, bytes_max: int) -> bytes:
    """Up to the first batch that does not fit."""
    found = b""
    for batch in partition.batches:
        if read_header(batch).next_offset > offset:
            if found and len(found) + len(batch) > bytes_max:
                break
            found += batch
    return found


def test_leaders_may_move_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # Small answers, so that there are many.
    monkeypatch.setattr(journal_reader, "PARTITION_BYTES_MAX", 2_000)
    monkeypatch.setattr(TinyPartition, "read", in_order)

    async def main() -> None:
        async with journal() as log:
            dice = random.Random(7)
            for number in range(1, 60):
                put(log, [record_of("a", entry(number)), record_of("b", entry(number))])
            faults: list[Fault] = [0, 0, "move", "cut", ErrorCode.NOT_LEADER]
            log.faults[Api.FETCH] += [dice.choice(faults) for _ in range(12)]
            assert await versions(await passed(log)) == {"a": 59, "b": 59}

    uvloop.run(main())


def test_a_broker_that_leaves_something_out_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_second(partition: TinyPartition, offset: int, bytes_max: int) -> bytes:
        return b"".join(batch for batch in partition.batches if read_header(batch).base_offset != 1)

    async def main() -> None:
        async with journal() as log:
            put(log, (record_of("s", one) for one in entries(1, 2)))
            monkeypatch.setattr(TinyPartition, "read", without_the_second)
            with pytest.raises(Damaged, match="1 of 2 records of the topic journal did not come"):
                await passed(log)

    uvloop.run(main())


def test_what_comes_behind_the_mark_is_left_for_the_next_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = JournalPass._mark

    async def main() -> None:
        async with journal() as log:
            put(log, (record_of("s", one) for one in entries(1, 3)))

            async def and_then_more(self: JournalPass, where: TopicPartition) -> int:
                found = await mark(self, where)
                if where[1] == partition_of(b"s", PARTITIONS):
                    put(log, (record_of("s", one) for one in entries(4, 6)))
                return found

            monkeypatch.setattr(JournalPass, "_mark", and_then_more)
            assert await versions(await passed(log)) == {"s": 3}
            monkeypatch.setattr(JournalPass, "_mark", mark)
            assert await versions(await passed(log)) == {"s": 6}

    uvloop.run(main())


def test_an_end_is_believed_only_of_a_leader_that_can_have_something_acknowledged() -> None:
    async def main() -> None:
        async with journal() as log:
            put(log, (record_of("s", one) for one in entries(1, 3)))
            log.faults[Api.PRODUCE] += [ErrorCode.NOT_LEADER, "move", "cut", ErrorCode.NOT_ENOUGH_REPLICAS]
            async with LogClient(log.bootstrap, timeout_ms=2_000) as client:
                done = JournalPass(client, "journal", {"c": 2}, ("c",))
                # Whether a mark was written that was cut off is not known; then the pass is made again.
                with contextlib.suppress(LogError):
                    await done.run()
                done = JournalPass(client, "journal", {"c": 2}, ("c",))
                await done.run()
            assert await versions(done) == {"s": 3}
            assert done.strays == 0

    uvloop.run(main())


def test_a_long_read_tells_how_far_it_is(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_reader, "PROGRESS_S", 0.0)

    async def main() -> None:
        async with journal() as log:
            put(log, (record_of("s", one) for one in entries(1, 3)))
            await passed(log)

    with caplog.at_level(logging.INFO, "octoloom.journal"):
        uvloop.run(main())
    first, last = [record.message for record in caplog.records]
    assert first == "read 3 of 3 records of the topic journal"
    assert last.startswith("read 3 records of the topic journal in ")
    assert last.endswith(": 1 spaces of c")

"""One partition of the journal: every version once acknowledged is there, behind all earlier ones of its space."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core.event import JournalEntry
from octoloom.runtime import journal_lane
from octoloom.runtime.backoff import Backoff
from octoloom.runtime.journal_lane import Item, Lane
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError
from octoloom.wire.journal import decode
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.batches import read_header
from octoloom.wire.kafka.client_messages import TopicPartition
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import Record
from tests.runtime.journal_entries import entries, entry, read_back, versions
from tests.runtime.tiny_log import Fault, TinyLog, tiny_log
from tests.waiting import async_until as until


@pytest.fixture(autouse=True)
def _quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "next_s", lambda _self: 0.002)


class Owner:
    """Writes down what a lane says."""

    def __init__(self) -> None:
        self.written: list[Item] = []
        self.troubles: list[str] = []
        self.too_large: list[tuple[str, int]] = []
        self.broken: list[Exception] = []

    def now_ms(self) -> int:
        return 5_000

    def on_written(self, items: Sequence[Item]) -> None:
        self.written += items

    def on_trouble(self, place: TopicPartition, error: LogError) -> None:
        self.troubles.append(type(error).__name__)

    def on_too_large(self, place: TopicPartition, item: Item, size: int) -> None:
        self.too_large.append((item.space, item.entry.version))

    def on_broken(self, error: Exception) -> None:
        self.broken.append(error)

    def acknowledged(self, space: str = "s") -> list[int]:
        return [item.entry.version for item in self.written if item.space == space]


@contextlib.asynccontextmanager
async def lane(brokers: int = 2, timeout_ms: int = 30_000) -> AsyncIterator[tuple[TinyLog, Lane, Owner]]:
    async with tiny_log(brokers) as log, LogClient(log.bootstrap, timeout_ms=timeout_ms) as client:
        owner = Owner()
        there = Lane(client, ("t", 0), client.init_producer, owner)
        try:
            yield log, there, owner
        finally:
            await there.close()
            assert owner.broken == []


def items(first: int, last: int, space: str = "s", generation: int = 1) -> list[Item]:
    return [Item("c", space, generation, 1, one) for one in entries(first, last)]


def records(log: TinyLog) -> list[Record]:
    return log.partitions["t", 0].records


def test_entries_are_written_as_records_and_acknowledged() -> None:
    async def main() -> None:
        async with lane() as (log, there, owner):
            there.add(items(1, 3))
            assert not there.idle
            await until(lambda: there.idle)
            assert owner.acknowledged() == [1, 2, 3]
            assert [record.timestamp for record in records(log)] == [5_000] * 3
            assert {record.key for record in records(log)} == {b"s"}
            found = [decode(record.key, record.value, record.headers) for record in records(log)]
            assert [(one.chain, one.generation, one.at_ms) for one in found] == [("c", 1, 5_000)] * 3
            assert [one.entry for one in found] == entries(1, 3)
            assert there.waiting == 0

    uvloop.run(main())


def test_what_comes_in_one_tick_is_one_batch_and_what_comes_later_gathers() -> None:
    async def main() -> None:
        async with lane() as (log, there, owner):
            for space in ("a", "b", "c"):
                there.add(items(1, 2, space))
            await until(lambda: there.idle)
            assert [read_header(batch).count for batch in log.partitions["t", 0].batches] == [6]
            log.faults[Api.PRODUCE].append(ErrorCode.NOT_ENOUGH_REPLICAS)
            for version in range(3, 50):
                there.add(items(version, version, "a"))
                await asyncio.sleep(0)
            await until(lambda: there.idle)
            assert owner.acknowledged("a") == list(range(1, 50))
            assert len(log.partitions["t", 0].batches) < 20

    uvloop.run(main())


def test_a_batch_ends_where_it_is_large_enough() -> None:
    async def main() -> None:
        async with lane() as (log, there, owner):
            there.add(Item("c", "s", 1, 1, entry(version, 200_000)) for version in range(1, 8))
            await until(lambda: there.idle)
            assert [read_header(batch).count for batch in log.partitions["t", 0].batches] == [3, 3, 1]
            assert owner.acknowledged() == list(range(1, 8))

    uvloop.run(main())


@pytest.mark.parametrize(
    "fault",
    [
        ErrorCode.NOT_LEADER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        "cut",
        "lose",
        "move",
    ],
)
def test_what_passes_is_sent_again_and_is_there_once(fault: Fault) -> None:
    async def main() -> None:
        async with lane() as (log, there, owner):
            there.add(items(1, 2))
            await until(lambda: there.idle)
            log.faults[Api.PRODUCE].append(fault)
            there.add(items(3, 4))
            await until(lambda: there.idle)
            assert versions(records(log)) == [1, 2, 3, 4]
            assert owner.acknowledged() == [1, 2, 3, 4]

    uvloop.run(main())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OUT_OF_ORDER_SEQUENCE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.DUPLICATE_SEQUENCE,
        ErrorCode.POLICY_VIOLATION,
    ],
)
def test_what_stays_is_tried_under_a_new_id(code: int) -> None:
    async def main() -> None:
        async with lane() as (log, there, owner):
            log.faults[Api.PRODUCE] += [0, code, code]
            there.add(items(1, 2))
            await until(lambda: there.idle)
            there.add(items(3, 4))
            await until(lambda: there.idle)
            assert versions(records(log)) == [1, 2, 3, 4]
            assert owner.acknowledged() == [1, 2, 3, 4]
            assert len(owner.troubles) == 2
            assert len({read_header(batch).producer_id for batch in log.partitions["t", 0].batches}) == 2

    uvloop.run(main())


def test_a_number_that_may_be_taken_is_not_used_for_something_else() -> None:
    """The first attempt was written and its answer lost, the second is refused as too large; then another comes."""

    async def main() -> None:
        async with lane() as (log, there, owner):
            there.add(items(1, 1))
            await until(lambda: there.idle)
            log.faults[Api.PRODUCE] += ["lose", ErrorCode.MESSAGE_TOO_LARGE]
            there.add(items(2, 2))
            await until(lambda: there.idle)
            there.add(items(1, 1, "other"))
            await until(lambda: owner.acknowledged("other") == [1])
            assert versions(records(log), "other") == [1]

    uvloop.run(main())


def test_a_batch_whose_answer_does_not_come_is_sent_again() -> None:
    async def main() -> None:
        async with lane(timeout_ms=100) as (log, there, _):
            log.faults[Api.PRODUCE] += ["hang", 0]
            there.add(items(1, 2))
            await asyncio.sleep(0.15)
            # A broker that hangs does not answer on this connection any more; it dies, and comes back.
            await log.kill(1)
            await log.start(1)
            await until(lambda: there.idle)
            assert versions(records(log)) == [1, 2]

    uvloop.run(main())


def test_brokers_may_be_away_for_long() -> None:
    async def main() -> None:
        async with lane(brokers=1, timeout_ms=50) as (log, there, owner):
            there.add(items(1, 1))
            await until(lambda: there.idle)
            await log.kill(1)
            there.add(items(2, 4))
            there.add(items(1, 2, "other"))
            await until(lambda: len(owner.troubles) > 3)
            assert owner.acknowledged() == [1]
            assert there.waiting == 2
            await log.start(1)
            await until(lambda: there.idle)
            assert versions(records(log)) == [1, 2, 3, 4]
            assert versions(records(log), "other") == [1, 2]

    uvloop.run(main())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_no_history_of_faults_makes_a_gap(seed: int) -> None:
    dice = random.Random(seed)
    choices: list[Fault] = [0, 0, 0, 0, "lose", "cut", "move"]
    choices += [ErrorCode.NOT_LEADER, ErrorCode.OUT_OF_ORDER_SEQUENCE, ErrorCode.INVALID_PRODUCER_EPOCH]
    choices += [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.DUPLICATE_SEQUENCE, ErrorCode.MESSAGE_TOO_LARGE]

    async def main() -> None:
        async with lane() as (log, there, owner):
            log.faults[Api.PRODUCE] += [dice.choice(choices) for _ in range(60)]
            done = dict.fromkeys("abc", 0)
            for _ in range(40):
                space, count = dice.choice("abc"), dice.randint(1, 5)
                there.add(items(done[space] + 1, done[space] + count, space))
                done[space] += count
                await asyncio.sleep(dice.choice([0, 0, 0.001, 0.003]))
            await until(lambda: there.idle and there.waiting == 0)
            for space, last in done.items():
                assert owner.acknowledged(space) == list(range(1, last + 1))
            found = read_back(records(log))
            assert {space: reader.space.version for space, reader in found.items()} == {
                space: last for space, last in done.items() if last
            }

    # A record that is too large for once is tried again soon.
    before, journal_lane.ASIDE_S = journal_lane.ASIDE_S, 0.01
    try:
        uvloop.run(main())
    finally:
        journal_lane.ASIDE_S = before


# Heads that come and go.


def test_what_waits_already_is_not_taken_twice() -> None:
    async def main() -> None:
        async with lane(timeout_ms=50) as (log, there, _):
            log.faults[Api.PRODUCE].append(ErrorCode.NOT_ENOUGH_REPLICAS)
            there.add(items(1, 5))
            there.add(items(1, 5))
            there.add(items(3, 7))
            await until(lambda: there.idle)
            assert versions(records(log)) == [1, 2, 3, 4, 5, 6, 7]
            # What is there may be asked for again: another head did not know.
            there.add(items(6, 8))
            await until(lambda: there.idle)
            assert versions(records(log)) == [1, 2, 3, 4, 5, 6, 7, 6, 7, 8]
            assert read_back(records(log))["s"].space.version == 8

    uvloop.run(main())


def test_a_history_that_ended_is_not_written_any_more() -> None:
    async def main() -> None:
        async with lane() as (log, there, owner):
            there.add(items(1, 2))
            there.add(items(1, 3, generation=2))
            there.add(items(3, 9))
            await until(lambda: there.idle)
            assert versions(records(log)) == [1, 2, 3]
            assert {item.generation for item in owner.written} == {2}

    uvloop.run(main())


# What is too large.


def test_a_record_that_is_too_large_holds_up_its_own_space_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_lane, "ASIDE_S", 0.05)
    monkeypatch.setattr(journal_lane, "MESSAGE_BYTES_MAX", 10_000)

    async def main() -> None:
        async with lane() as (log, there, owner):
            large = [Item("c", "large", 1, 1, entry(version, 20_000 if version == 2 else 0)) for version in (1, 2, 3)]
            there.add(large)
            there.add(items(1, 3, "small"))
            await until(lambda: owner.too_large)
            await until(lambda: owner.acknowledged("small") == [1, 2, 3])
            there.add(items(4, 4, "large"))
            there.add(items(4, 4, "small"))
            await until(lambda: owner.acknowledged("small") == [1, 2, 3, 4])
            assert owner.acknowledged("large") == [1]
            assert owner.too_large[0] == ("large", 2)
            await until(lambda: len(owner.too_large) > 1)
            monkeypatch.setattr(journal_lane, "MESSAGE_BYTES_MAX", 100_000)
            await until(lambda: owner.acknowledged("large") == [1, 2, 3, 4])
            assert versions(records(log), "large") == [1, 2, 3, 4]

    uvloop.run(main())


def test_a_batch_that_the_topic_finds_too_large_is_cut_up() -> None:
    async def main() -> None:
        async with lane() as (log, there, owner):
            log.faults[Api.PRODUCE] += [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE]
            there.add(items(1, 7))
            await until(lambda: there.idle)
            assert [read_header(batch).count for batch in log.partitions["t", 0].batches] == [1, 2, 4]
            assert versions(records(log)) == [1, 2, 3, 4, 5, 6, 7]
            assert owner.too_large == []

    uvloop.run(main())


def test_a_large_record_is_given_up_with_its_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_lane, "MESSAGE_BYTES_MAX", 10_000)
    monkeypatch.setattr(journal_lane, "ASIDE_S", 1_000.0)

    async def main() -> None:
        async with lane() as (log, there, owner):
            there.add([Item("c", "s", 1, 1, entry(1, 20_000)), *items(2, 3)])
            await until(lambda: owner.too_large)
            there.add(items(1, 4, generation=2))
            await until(lambda: there.idle and there.waiting == 0)
            assert versions(records(log)) == [1, 2, 3, 4]
            assert {item.generation for item in owner.written} == {2}

    uvloop.run(main())


def test_a_broken_invariant_is_told() -> None:
    async def main() -> None:
        async with tiny_log() as log, LogClient(log.bootstrap) as client:
            owner = Owner()
            there = Lane(client, ("t", 0), client.init_producer, owner)
            there.add([Item("c", "s", 1, 1, JournalEntry(1, None, []))])
            await until(lambda: owner.broken)
            await there.close()

    uvloop.run(main())

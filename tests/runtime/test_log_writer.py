"""One partition's writer, and a leader whose answers come late: nobody listens to them any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from octoloom.runtime.backoff import Backoff
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError, TimedOut, TooLarge, Unreachable
from octoloom.runtime.log_writer import Entry, PartitionWriter, WriterSettings, Written
from octoloom.wire.kafka.batches import read_header
from octoloom.wire.kafka.client_messages import Produced, TopicPartition
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import Record


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "next_s", lambda _self: 0.0)


class Leader:
    """A client whose leader answers when, and what, the test says."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace(revision=1)
        self.asked: list[tuple[int, int, asyncio.Future[Produced]]] = []
        """(producer id, sequence, the answer) of each batch that was sent."""
        self.ids = 7

    def try_produce(self, _place: TopicPartition, batch: bytes) -> asyncio.Future[Produced]:
        header, answer = read_header(batch), asyncio.get_running_loop().create_future()
        self.asked.append((header.producer_id, header.base_sequence, answer))
        return answer

    async def reach(self, _place: TopicPartition, _lane: str, _stale: int | None) -> None:
        pass

    async def init_producer(self) -> tuple[int, int]:
        self.ids += 1
        return self.ids, 0

    async def has_been_asked(self, times: int) -> None:
        async with asyncio.timeout(60):
            while len(self.asked) < times:
                await asyncio.sleep(0)

    def answer(self, number: int, error: int, base_offset: int = -1) -> None:
        """The answer to the batch that was sent as the `number`th."""
        self.asked[number][2].set_result(Produced(error, base_offset, 0))


class Desk:
    """A writer to partition 0 of `t`, and what it has settled."""

    def __init__(self, in_flight_max: int = 5) -> None:
        self.leader = Leader()
        self.settled: list[Entry] = []
        settings = WriterSettings("none", 1, in_flight_max, self.settled.append)
        self.writer = PartitionWriter(cast(LogClient, self.leader), ("t", 0), settings, self.leader.init_producer)
        self.faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: self.faults.append(context))

    def send(self, value: bytes, timeout_s: float = 600) -> asyncio.Future[Written]:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[Written] = loop.create_future()
        self.writer.add(Entry(Record(0, 1, None, value), 1, len(value), written, loop.time() + timeout_s))
        return written


def run(story: Callable[[Desk], Awaitable[None]]) -> None:
    async def main() -> None:
        desk = Desk()
        await story(desk)
        await asyncio.sleep(0)
        await desk.writer.stop(LogError("it is over"))
        assert desk.faults == []
        assert len(desk.settled) == len(set(map(id, desk.settled))), "each record is settled once"

    asyncio.run(main())


async def give_one_up(desk: Desk) -> None:
    """A record is sent, and not answered in time. (One before it is not even sent: there was no producer id yet.)"""
    for ambiguous in (False, True):
        lost = desk.send(b"a", timeout_s=0)
        with pytest.raises(TimedOut) as caught:
            async with asyncio.timeout(60):
                await lost
        assert caught.value.ambiguous is ambiguous
    assert len(desk.leader.asked) == 1


def test_an_answer_to_what_was_given_up_is_not_listened_to() -> None:
    async def story(desk: Desk) -> None:
        await give_one_up(desk)
        other = desk.send(b"b")
        await desk.leader.has_been_asked(2)
        desk.leader.answer(0, 0, 30)
        await asyncio.sleep(0)
        assert not other.done()
        assert [asked[:2] for asked in desk.leader.asked] == [(8, 0), (9, 0)], "the first may have been written"
        desk.leader.answer(1, 0, 31)
        assert await other == (0, 31)

    run(story)


def test_a_late_error_to_what_was_given_up_holds_nothing_up() -> None:
    async def story(desk: Desk) -> None:
        await give_one_up(desk)
        second = desk.send(b"b")
        await desk.leader.has_been_asked(2)
        desk.leader.answer(0, ErrorCode.NOT_ENOUGH_REPLICAS)
        await asyncio.sleep(0)
        third = desk.send(b"c")
        await desk.leader.has_been_asked(3)
        desk.leader.answer(1, 0, 31)
        desk.leader.answer(2, 0, 32)
        assert [await second, await third] == [(0, 31), (0, 32)]

    run(story)


def test_after_an_error_all_are_sent_again_in_order_with_their_numbers() -> None:
    async def story(desk: Desk) -> None:
        first, second = desk.send(b"a"), desk.send(b"b")
        await desk.leader.has_been_asked(2)
        desk.leader.answer(0, ErrorCode.NOT_ENOUGH_REPLICAS)
        desk.leader.answer(1, ErrorCode.OUT_OF_ORDER_SEQUENCE)
        await desk.leader.has_been_asked(4)
        assert [(id_, number) for id_, number, _ in desk.leader.asked] == [(8, 0), (8, 1), (8, 0), (8, 1)]
        desk.leader.answer(2, 0, 5)
        desk.leader.answer(3, 0, 6)
        assert [await first, await second] == [(0, 5), (0, 6)]

    run(story)


def test_what_may_have_been_written_is_not_sent_again_under_the_id_that_follows_a_failure() -> None:
    async def story(desk: Desk) -> None:
        refused, unsure, well = desk.send(b"a"), desk.send(b"b"), desk.send(b"c")
        await desk.leader.has_been_asked(3)
        desk.leader.asked[1][2].set_exception(Unreachable("the connection was lost", ambiguous=True))
        desk.leader.answer(2, ErrorCode.OUT_OF_ORDER_SEQUENCE)
        desk.leader.answer(0, ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(TooLarge):
            await refused
        await desk.leader.has_been_asked(4)
        assert [asked[:2] for asked in desk.leader.asked[3:]] == [(9, 0)], "only the third goes on"
        with pytest.raises(TimedOut, match="may have been written") as caught:
            await unsure
        assert caught.value.ambiguous
        desk.leader.answer(3, 0, 7)
        assert await well == (0, 7)

    run(story)


def test_nothing_new_overtakes_what_has_to_be_sent_again() -> None:
    async def story(desk: Desk) -> None:
        sent = [desk.send(b"%d" % number) for number in range(7)]
        await desk.leader.has_been_asked(5)
        desk.leader.answer(0, ErrorCode.NOT_ENOUGH_REPLICAS)
        await asyncio.sleep(0)
        for number in (1, 2, 3, 4):
            desk.leader.answer(number, 0, number)
        await desk.leader.has_been_asked(8)
        assert [asked[1] for asked in desk.leader.asked[5:]] == [0, 5, 6]
        for place, offset in ((5, 0), (6, 5), (7, 6)):
            desk.leader.answer(place, 0, offset)
        assert [(await written)[1] for written in sent] == list(range(7))

    run(story)

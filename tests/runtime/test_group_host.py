"""A coordinator's host against a log whose answers come when, and as, the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from octoloom.core import consumer_messages as say
from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_settings import GroupSettings
from octoloom.core.log_messages import TopicPartition
from octoloom.runtime.broker_apis import Host, OnAppended
from octoloom.runtime.group_host import GroupHost
from octoloom.wire.kafka.batches import read_header, stamp
from octoloom.wire.kafka.errors import ErrorCode
from tests.waiting import STORY_S
from tests.waiting import async_until as until

NAME = ("groups", 3)


class Script:
    """A broker that leads one partition. Nothing is acknowledged before the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.batches: list[bytes] = []
        self.partition = SimpleNamespace(start=0, end=0, settled_at=0)
        self.core = SimpleNamespace(partitions={NAME: self.partition})
        self.clock = SimpleNamespace(now=lambda: self.now)
        self.appends: list[tuple[int, OnAppended]] = []
        self.waits: list[tuple[int, Callable[[int], None]]] = []
        self.trims: list[int] = []
        self.damages: list[int] = []

    def append(self, name: TopicPartition, batch: bytearray, on_done: OnAppended) -> None:
        assert name == NAME
        stamp(batch, 0, self.partition.end, 1)
        self.appends.append((self.partition.end, on_done))
        self.batches.append(bytes(batch))
        self.partition.end += read_header(batch).count

    def answer(self, index: int, error: int = 0) -> None:
        offset, on_done = self.appends[index]
        on_done(error, offset)

    def answer_all(self) -> None:
        done = 0
        while done < len(self.appends):
            self.answer(done)
            done += 1
        self.appends.clear()

    def when_committed(self, _name: TopicPartition, offset: int, on_done: Callable[[int], None]) -> None:
        self.waits.append((offset, on_done))

    def read(self, _name: TopicPartition, offset: int, _bytes_max: int, before: int | None = None) -> tuple[bytes, int]:
        for batch in self.batches:
            header = read_header(batch)
            if header.base_offset <= offset < header.next_offset:
                return batch, header.next_offset
        return b"", offset

    def report_damage(self, _name: TopicPartition, offset: int) -> None:
        self.damages.append(offset)

    def delete_records(self, _name: TopicPartition, offset: int) -> tuple[int, int]:
        self.trims.append(offset)
        self.partition.start = offset
        self.batches = [batch for batch in self.batches if read_header(batch).base_offset >= offset]
        return 0, offset


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def told() -> None:
        await asyncio.wait_for(story(), STORY_S)

    asyncio.run(told())


def made(script: Script, log_bytes_max: int = 1 << 20) -> GroupHost:
    return GroupHost(cast(Host, script), NAME, GroupSettings(initial_delay_ms=0), log_bytes_max)


async def loaded(script: Script, log_bytes_max: int = 1 << 20) -> GroupHost:
    host = made(script, log_bytes_max)
    script.waits.pop()[1](0)
    await until(lambda: host.refusal == 0)
    return host


def commit(host: GroupHost, group: str, offset: int) -> list[int]:
    """The error that the commit is answered with will be in the list."""
    errors: list[int] = []
    request = say.CommitRequest(group, (say.OffsetToCommit("t", 0, offset),))

    def on_answer(answer: Any) -> None:
        errors.extend(int(error) for _, _, error in answer.results)

    host.ask(lambda core, now, ticket: core.on_commit(now, ticket, request), on_answer)
    return errors


def committed(host: GroupHost, group: str) -> int:
    offsets: list[int] = []
    request = say.FetchOffsetsRequest((say.OffsetsQuery(group, (("t", 0),)),))

    def on_answer(answer: Any) -> None:
        offsets.append(answer.groups[0].offsets[0].offset)

    host.ask(lambda core, now, ticket: core.on_fetch_offsets(now, ticket, request), on_answer)
    return offsets[0]


def test_the_log_is_read_once_all_of_it_is_committed() -> None:
    async def story() -> None:
        script = Script()
        first = await loaded(script)
        commit(first, "g", 5)
        script.answer_all()
        first.close()
        script.partition.settled_at = script.partition.end
        second = made(script)
        [(offset, on_done)] = script.waits
        assert offset == script.partition.end == 1
        await asyncio.sleep(0.01)
        assert second.refusal == GroupError.COORDINATOR_LOAD_IN_PROGRESS
        script.waits.clear()
        on_done(ErrorCode.NOT_LEADER)  # a transition was announced; it may be called off
        await until(lambda: len(script.waits) == 1)
        script.waits.pop()[1](0)
        await until(lambda: second.refusal == 0)
        assert committed(second, "g") == 5

    run(story)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_a_commit_is_answered_when_it_is_in_the_log(error: int) -> None:
    async def story() -> None:
        script = Script()
        host = await loaded(script)
        errors = commit(host, "g", 5)
        assert (errors, committed(host, "g")) == ([], -1)
        script.answer(0, error)
        assert (errors, committed(host, "g")) == ([0], 5)

    run(story)


def test_stores_are_settled_in_their_order_whatever_order_the_answers_have() -> None:
    async def story() -> None:
        script = Script()
        host = await loaded(script)
        refused, taken = commit(host, "g", 5), commit(host, "h", 6)
        script.answer(1)
        assert (refused, taken) == ([], [])
        script.answer(0, ErrorCode.NOT_ENOUGH_REPLICAS)
        assert (refused, taken) == ([GroupError.COORDINATOR_NOT_AVAILABLE], [0])
        assert (committed(host, "g"), committed(host, "h")) == (-1, 6)

    run(story)


def test_who_waits_when_leadership_is_lost_is_told_and_late_answers_change_nothing() -> None:
    async def story() -> None:
        script = Script()
        host = await loaded(script)
        errors = commit(host, "g", 5)
        host.close()
        assert (errors, host.refusal) == ([GroupError.NOT_COORDINATOR], GroupError.NOT_COORDINATOR)
        script.answer(0)
        host.close()
        assert errors == [GroupError.NOT_COORDINATOR]
        early = made(script)
        early.close()
        script.waits.pop()[1](0)
        await asyncio.sleep(0.01)
        assert early.refusal == GroupError.NOT_COORDINATOR

    run(story)


def test_a_snapshot_that_fails_deletes_nothing_and_the_next_one_does() -> None:
    async def story() -> None:
        script = Script()
        host = await loaded(script, log_bytes_max=1000)
        commit(host, "once", 1)
        script.answer_all()
        stores = 0
        while len(script.appends) < 2:
            script.answer_all()
            commit(host, "often", stores)
            stores += 1
        script.answer(0)
        script.answer(1, ErrorCode.NOT_ENOUGH_REPLICAS)
        assert script.trims == []
        script.appends.clear()
        for number in range(5 * stores):
            commit(host, "often", number)
            script.answer_all()
        assert script.trims != []
        host.close()
        again = await loaded(script)
        assert (committed(again, "once"), committed(again, "often")) == (1, 5 * stores - 1)

    run(story)


def test_what_is_stored_while_a_snapshot_is_under_way_comes_after_it() -> None:
    async def story() -> None:
        script = Script()
        host = await loaded(script, log_bytes_max=1000)
        number = 0
        while len(script.appends) <= number:
            commit(host, "g", number)
            number += 1
        later = commit(host, "h", 9)
        script.answer_all()
        assert later == [0]
        assert script.trims == [number]
        host.close()
        again = await loaded(script)
        assert (committed(again, "g"), committed(again, "h")) == (number - 1, 9)

    run(story)


def test_members_whose_process_slept_are_heard_before_they_are_given_up() -> None:
    async def story() -> None:
        script = Script()
        host = await loaded(script)
        answers: list[Any] = []
        protocols = (("range", b""),)
        join = say.JoinRequest("g", "", 6000, 6000, "consumer", protocols, "me", requires_member_id=False)
        host.ask(lambda core, now, ticket: core.on_join(now, ticket, join), answers.append)
        while not answers:
            script.now += 10
            script.answer_all()
            await asyncio.sleep(0.001)
        script.now += 60_000  # everybody slept: the timer is late, and a heartbeat is in the socket
        host._on_timer(script.now - 54_000)
        beat = say.HeartbeatRequest("g", "me", 1)
        host.ask(lambda core, now, ticket: core.on_heartbeat(now, ticket, beat), answers.append)
        assert answers[-1].error == GroupError.NONE

    run(story)


def test_a_log_that_the_disk_has_spoilt_is_reported_where_the_damage_begins() -> None:
    async def story() -> None:
        script = Script()
        first = await loaded(script)
        for number in range(3):
            commit(first, "g", number)
        script.answer_all()
        first.close()
        script.batches[1] = script.batches[1][:-1] + b"\xff"
        broken = made(script)
        script.waits.pop()[1](0)
        await until(lambda: broken.refusal == GroupError.COORDINATOR_NOT_AVAILABLE)
        assert script.damages == [1]

    run(story)


def test_records_that_nobody_understands_are_no_damage() -> None:
    async def story() -> None:
        script = Script()
        first = await loaded(script)
        first._append([(b"not a key", b"")], lambda _error, _offset: None)
        first.close()
        broken = made(script)
        script.waits.pop()[1](0)
        await until(lambda: broken.refusal == GroupError.COORDINATOR_NOT_AVAILABLE)
        assert script.damages == []

    run(story)

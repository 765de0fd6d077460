"""Members of a consumer group on real brokers: what each reads, what is committed, what follows when one is gone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvloop

from octoloom.core import consumer_member_messages as say
from octoloom.core.consumer_member_messages import Phase
from octoloom.core.errors import UsageError
from octoloom.runtime import log_group_consumer
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Delivery
from octoloom.runtime.log_coordinator import Coordinator, coordinator_of
from octoloom.runtime.log_errors import NotMember, Refused, UnknownTopic
from octoloom.runtime.log_group_consumer import GroupConsumer, GroupValueConsumer
from octoloom.runtime.log_groups import describe_groups, reset_group
from octoloom.runtime.log_producer import Producer
from tests.runtime.real_log import RealLog, real_log

PATIENCE_S = 60.0
SESSION_MS = 6_000
"""As short as brokers allow."""
BEAT_MS = 200
_names = itertools.count(1)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLog]:
    with real_log(tmp_path_factory.mktemp("log"), brokers=3) as log:
        yield log


class Room:
    """A topic, a group, and a client that writes."""

    def __init__(self, log: RealLog, client: LogClient, topic: str) -> None:
        self.log, self.client, self.topic, self.group = log, client, topic, f"of-{topic}"
        self._written = itertools.count()

    async def write(self, count: int, partitions: int = 1) -> None:
        """So many records to each of so many partitions; a value is what was written before it, in all partitions."""
        async with Producer(self.client) as producer:
            for _ in range(count):
                for number in range(partitions):
                    producer.send(self.topic, b"%d" % next(self._written), partition=number)

    def member(self, client: LogClient | None = None, **settings: Any) -> GroupConsumer:
        how = {"session_ms": SESSION_MS, "beat_ms": BEAT_MS, **settings}
        return GroupConsumer(client or self.client, self.group, [self.topic], **how)

    async def committed(self, partitions: int = 1) -> list[int]:
        """What the brokers keep for the group; -1 for nothing."""
        places = [(self.topic, number) for number in range(partitions)]
        asking = Coordinator(self.client, self.group, [], 0, 0)
        found = await asking.ask(say.FetchCommitted(tuple(places)))
        asking.reconnect()
        assert isinstance(found, say.Fetched)
        return [found.offsets.get(place, -1) for place in places]


@contextlib.asynccontextmanager
async def room(log: RealLog, partitions: int = 1) -> AsyncIterator[Room]:
    topic = f"topic-{next(_names)}"
    async with asyncio.timeout(PATIENCE_S), LogClient(log.bootstrap) as client:
        await client.create_topic(topic, partitions, 3)
        yield Room(log, client, topic)


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    uvloop.run(main())


async def take(member: GroupConsumer, count: int) -> list[int]:
    """The values of the next deliveries, until there are so many."""
    found: list[int] = []
    while len(found) < count:
        found += values_of(await anext(member))
    return found


def values_of(delivery: Delivery) -> list[int]:
    return [int(record.value or b"") for record in delivery.records]


async def only_one_gets(waiting: list[asyncio.Task[Delivery]], values: list[int]) -> None:
    done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [values_of(each.result()) for each in done] == [values]
    for each in left:
        each.cancel()


def is_joining(*members: GroupConsumer) -> bool:
    return any(member._member.phase is not Phase.READING for member in members)


async def crash(member: GroupConsumer, client: LogClient) -> None:
    """It is gone without a word."""
    assert member._alarm is not None
    member._alarm.cancel()
    for task in member._tasks:
        task.cancel()
    await client.close()


def test_what_is_done_is_committed_and_what_was_only_handed_out_is_not(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here:
            await here.write(3)
            async with here.member() as member:
                assert await take(member, 3) == [0, 1, 2]
                await here.write(2)
                assert await take(member, 2) == [3, 4]
            assert await here.committed() == [3]
            async with here.member() as member:
                assert await take(member, 2) == [3, 4]
                await member.commit()
                assert await here.committed() == [5]
            await here.write(1)
            async with here.member() as member:
                assert await take(member, 1) == [5]

    play(story)


def test_what_is_done_is_committed_now_and_then(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here:
            await here.write(2)
            async with here.member(commit_ms=100) as member:
                assert await take(member, 2) == [0, 1]
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await anext(member)
                while await here.committed() != [2]:
                    await asyncio.sleep(0.05)

    play(story)


def test_offsets_are_committed_by_hand(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here:
            await here.write(4)
            async with here.member(commit_ms=None) as member:
                assert await take(member, 4) == [0, 1, 2, 3]
                with pytest.raises(UsageError, match="other-0 is not read by this consumer"):
                    await member.commit({("other", 0): 1})
                await member.commit({(here.topic, 0): 2})
                await here.write(1)
                assert await take(member, 1) == [4]
            assert await here.committed() == [2]
            async with here.member() as member:
                assert await take(member, 3) == [2, 3, 4]

    play(story)


def test_what_was_committed_by_hand_stays_so_at_the_end(log: RealLog) -> None:
    async def story() -> None:
        async with room(log, partitions=2) as here:
            await here.write(4)
            async with here.member() as member:
                assert await take(member, 4) == [0, 1, 2, 3]
                await member.commit({(here.topic, 0): 2})
            # Where nothing came the group has been all the same.
            assert await here.committed(2) == [2, 0]

    play(story)


def test_who_begins_at_the_end_misses_nothing_that_comes_while_nobody_reads(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here:
            await here.write(2)
            async with here.member(start="end") as member:
                while member.positions is None:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.2):
                            await anext(member)
            await here.write(1)
            async with here.member(start="end") as member:
                assert await take(member, 1) == [2]

    play(story)


def test_who_waits_when_it_is_closed_hears_that_nothing_comes(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here:
            for is_in in (False, True):
                member = here.member()
                waiting = asyncio.ensure_future(anext(member, None))
                while is_in and member.positions is None:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0)
                await member.close()
                assert await waiting is None
                assert await anext(member, None) is None

    play(story)


def test_who_is_cancelled_misses_nothing(log: RealLog) -> None:
    """Neither while it joins nor while it reads."""

    async def story() -> None:
        async with room(log) as here:
            found: list[int] = []
            async with here.member() as member:
                for count in range(300):
                    if count % 10 == 0 and count < 200:
                        await here.write(1)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.004):
                            found += values_of(await anext(member))
                found += await take(member, 20 - len(found)) if len(found) < 20 else []
            assert found == list(range(20))

    play(story)


def test_what_a_dead_member_had_not_done_is_read_by_another(log: RealLog) -> None:
    async def story() -> None:
        async with room(log, partitions=2) as here, LogClient(log.bootstrap) as other:
            await here.write(5, partitions=2)
            dying = here.member(other)
            seen = await take(dying, 10)
            assert sorted(seen) == list(range(10))
            await dying.commit({(here.topic, 0): 4})
            await crash(dying, other)
            async with here.member() as member:
                assert sorted(await take(member, 6)) == [1, 3, 5, 7, 8, 9]

    play(story)


def test_a_member_that_works_for_too_long_is_replaced_and_comes_back(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here, LogClient(log.bootstrap) as other:
            await here.write(2)
            async with here.member(other, work_ms_max=300) as slow, here.member(commit_ms=600_000) as quick:
                assert await take(slow, 2) == [0, 1]
                assert await take(quick, 2) == [0, 1]
                with pytest.raises(NotMember, match=r"the consumer group of-topic-\d+ goes on without this consumer"):
                    await slow.commit()
                assert await here.committed() == [-1]
                # Each commits what it has done before partitions change hands.
                waiting = [asyncio.ensure_future(anext(member)) for member in (slow, quick)]
                while await here.committed() != [2]:
                    await asyncio.sleep(0.02)
                await here.write(1)
                await only_one_gets(waiting, [2])

    play(story)


def test_the_others_wait_for_a_member_at_work(log: RealLog) -> None:
    """For longer than a session: it sends heartbeats beside."""

    async def story() -> None:
        async with room(log) as here, LogClient(log.bootstrap) as other:
            await here.write(2)
            async with here.member(other) as busy, here.member() as waiting:
                assert await take(busy, 2) == [0, 1]
                joining = asyncio.ensure_future(anext(waiting))
                await asyncio.sleep(1.2 * SESSION_MS / 1000)
                assert not joining.done()
                await busy.commit()
                reading = asyncio.ensure_future(anext(busy))
                while len(busy.partitions) + len(waiting.partitions) != 1 or is_joining(busy, waiting):
                    await asyncio.sleep(0.02)
                await here.write(1)
                await only_one_gets([joining, reading], [2])

    play(story)


def block_until_it_is_out(here: Room, reset: int | None = None) -> None:
    """Holds up this loop, as an app does that never awaits, until the brokers have given up all members.

    Then somebody may put the group elsewhere, as other members do by their commits.
    """

    async def look() -> None:
        async with asyncio.timeout(PATIENCE_S), LogClient(here.log.bootstrap) as client:
            while any(group.members for group in await describe_groups(client, [here.group])):
                await asyncio.sleep(0.1)
            if reset is not None:
                await reset_group(client, here.group, reset)

    looking = threading.Thread(target=lambda: asyncio.run(look()))
    looking.start()
    looking.join()


def test_a_late_commit_of_who_was_silent_for_too_long_is_refused(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here:
            await here.write(2)
            async with here.member(commit_ms=600_000) as member:
                assert await take(member, 2) == [0, 1]
                block_until_it_is_out(here)
                with pytest.raises(NotMember, match=r"the consumer group of-topic-\d+ goes on without this consumer"):
                    await member.commit()
                assert await here.committed() == [-1]
                assert await take(member, 2) == [0, 1]
                await member.commit()
                assert await here.committed() == [2]

    play(story)


def test_who_was_silent_for_too_long_hands_out_nothing_before_it_is_in_again(log: RealLog) -> None:
    """What it had read before may be another's by now, and is, if that has committed it."""

    async def story() -> None:
        async with room(log) as here:
            await here.write(2)
            async with here.member(commit_ms=600_000) as member:
                assert await take(member, 2) == [0, 1]
                await member.commit()
                await here.write(1)
                assert member._reader is not None
                while not any(flight.done() for flight in member._reader._flights.values()):
                    await asyncio.sleep(0.01)
                block_until_it_is_out(here, reset=3)
                next_one = asyncio.ensure_future(anext(member))
                await here.write(1)
                assert values_of(await next_one) == [3]

    play(story)


def test_one_too_many_waits_and_takes_over(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here:
            members = [here.member(), here.member()]
            waiting = {asyncio.ensure_future(anext(member)): member for member in members}
            while sum(len(member.partitions) for member in members) != 1 or is_joining(*members):
                await asyncio.sleep(0.02)
            await here.write(1)
            [done], _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            holder = waiting.pop(done)
            assert values_of(done.result()) == [0]
            await holder.commit()
            await holder.close()
            await here.write(1)
            [(reading, spare)] = waiting.items()
            assert values_of(await reading) == [1]
            await spare.close()

    play(story)


def test_more_partitions_are_noticed(log: RealLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_group_consumer, "LOOK_MS", 100)

    async def story() -> None:
        from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

        async with room(log) as here, here.member() as member:
            await here.write(1)
            assert await take(member, 1) == [0]
            admin = AdminClient({"bootstrap.servers": log.bootstrap, "log_level": 2})
            grown = admin.create_partitions([NewPartitions(here.topic, 3)])[here.topic]
            await asyncio.to_thread(grown.result, PATIENCE_S)
            with contextlib.suppress(TimeoutError):
                while len(member.partitions) < 3:
                    async with asyncio.timeout(1):
                        await anext(member)
            while len((await here.client.metadata([here.topic])).topics[here.topic].partitions) < 3:
                await asyncio.sleep(0.05)
            await here.write(1, partitions=3)
            assert sorted(await take(member, 3)) == [1, 2, 3]

    play(story)


def test_reading_goes_on_when_the_coordinator_dies(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here:
            await here.write(2)
            async with here.member() as member:
                assert await take(member, 2) == [0, 1]
                await member.commit()
                number = log.at(await coordinator_of(here.client, here.group))
                log.kill(number)
                try:
                    await here.write(2)
                    assert await take(member, 2) == [2, 3]
                    await member.commit()
                finally:
                    log.start(number)
                assert await here.committed() == [4]
                await here.write(1)
                assert await take(member, 1) == [4]
            await log.whole()

    play(story)


@pytest.mark.parametrize(("start", "expected"), [("beginning", [0, 1, 2, 3]), ("end", [])])
def test_who_was_nowhere_starts_where_he_was_told(log: RealLog, start: Any, expected: list[int]) -> None:
    async def story() -> None:
        async with room(log) as here:
            await here.write(4)
            async with GroupValueConsumer(
                here.client, here.group, [here.topic], start=start, session_ms=SESSION_MS
            ) as member:
                reading = asyncio.ensure_future(anext(member))
                while member._reader is None or not member._reader._flights:
                    await asyncio.sleep(0.02)
                await here.write(1)
                found: list[int] = []
                while 4 not in found:
                    topic, partition, offset, values = await reading
                    assert (topic, partition, offset) == (here.topic, 0, 4 - len(expected) + len(found))
                    found += [int(value or b"") for value in values]
                    reading = asyncio.ensure_future(anext(member))
                reading.cancel()
                assert found == [*expected, 4]

    play(story)


def test_a_place_that_is_gone_is_left_for_the_start(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here:
            await here.write(2)
            async with here.member() as member:
                await take(member, 2)
                await member.commit({(here.topic, 0): 7})
            async with here.member() as member:
                assert await take(member, 2) == [0, 1]

    play(story)


def test_a_place_that_goes_while_it_is_read_is_left_for_the_start(log: RealLog) -> None:
    """As it happens to who reads more slowly than the log forgets."""

    async def story() -> None:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        async with room(log) as here:
            await here.write(4)
            async with here.member() as member:
                with contextlib.suppress(TimeoutError):
                    while member._reader is None:
                        async with asyncio.timeout(0):
                            await anext(member)
                admin = AdminClient({"bootstrap.servers": log.bootstrap, "log_level": 2})
                [deleting] = admin.delete_records([TopicPartition(here.topic, 0, 3)]).values()
                await asyncio.to_thread(deleting.result, PATIENCE_S)
                assert await take(member, 1) == [3]

    play(story)


def test_what_cannot_be_is_told(log: RealLog) -> None:
    async def story() -> None:
        async with room(log) as here:
            with pytest.raises(UsageError, match="a consumer group needs a name"):
                GroupConsumer(here.client, "", ["x"])
            wrong: list[Any] = [[], "orders"]
            for topics in wrong:
                with pytest.raises(UsageError, match="a consumer needs 1 to 1000 topics"):
                    GroupConsumer(here.client, "g", topics)
            with pytest.raises(UsageError, match="is no place to start"):
                GroupConsumer(here.client, "g", ["x"], start=3)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="commit_ms is 0: choose a millisecond or more"):
                GroupConsumer(here.client, "g", ["x"], commit_ms=0)
            async with GroupConsumer(here.client, "g", ["nowhere"]) as member:
                with pytest.raises(UnknownTopic, match="the topic nowhere does not exist"):
                    await anext(member)
            async with here.member(session_ms=5) as member:
                with pytest.raises(Refused, match="no session of this length"):
                    await anext(member)
            async with here.member() as member:
                with pytest.raises(UsageError, match="is not read by this consumer"):
                    await member.commit({(here.topic, 0): 1})

    play(story)

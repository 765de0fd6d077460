"""Reads topics as one of a consumer group: each partition is read by one member, and goes to another if that one dies.

    async with GroupConsumer(client, "billing", ["orders"]) as consumer:
        async for topic, partition, records in consumer:
            ...

1. What was handed out counts as done when the next is asked for, or with `commit`. What is done is committed every
   few seconds, before partitions change hands, and at the end. What is not done when a member dies is handed out again
   by another: every record is seen at least once.
2. Partitions change hands only while the next delivery is asked for. Until then the others wait, for `work_ms_max`;
   after that the group goes on without this member, which joins again when it comes back.
3. Heartbeats go on beside all that. A member that is silent for `session_ms` is out, and hands out nothing before it
   knows whether it is.

What it does when is decided in `core.consumer_member`. Here that is driven: questions are asked, a reader is opened and
stopped, an alarm is set.

Members may be any Kafka clients that know the strategy `range` or `roundrobin`, as they do unless told otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from itertools import count
from typing import Any, Literal, TypeVar

from octoloom.core import consumer_member_messages as say
from octoloom.core.consumer_member import Member
from octoloom.core.consumer_member_messages import OVER, Phase
from octoloom.core.errors import UsageError
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Consumer, Deliveries, Delivery, Reader, ValueConsumer, ValueDelivery
from octoloom.runtime.log_coordinator import Coordinator
from octoloom.runtime.log_errors import LogError, OutOfRange, UnknownTopic, error_of
from octoloom.wire.kafka.client_messages import TopicPartition

T = TypeVar("T", Delivery, ValueDelivery)

SESSION_MS = 10_000
BEATS = 5
"""Heartbeats in a session, unless told otherwise. Each is also when a change in the group is noticed."""
WORK_MS_MAX = 60_000
COMMIT_MS = 5_000
LOOK_MS = 10_000
TOPICS_MAX = 1_000

_log = logging.getLogger("octoloom.consumer")


class GroupReader(Deliveries[T]):
    """Iterate over it. It joins with the first delivery that is asked for."""

    def __init__(
        self,
        client: LogClient,
        group: str,
        topics: Sequence[str],
        *,
        start: Literal["beginning", "end"] = "beginning",
        session_ms: int = SESSION_MS,
        beat_ms: int | None = None,
        work_ms_max: int = WORK_MS_MAX,
        commit_ms: int | None = COMMIT_MS,
    ) -> None:
        """`start` is for partitions in which the group has never been. Without `commit_ms` only `commit` commits."""
        if not group:
            raise UsageError("a consumer group needs a name: choose one")
        if isinstance(topics, str) or not 0 < len(topics) <= TOPICS_MAX:
            raise UsageError(f"a consumer needs 1 to {TOPICS_MAX} topics, as in ['orders']")
        if start not in ("beginning", "end"):
            raise UsageError(f"{start!r} is no place to start: choose 'beginning' or 'end'")
        times = {"session_ms": session_ms, "beat_ms": beat_ms, "work_ms_max": work_ms_max, "commit_ms": commit_ms}
        for name, ms in times.items():
            if ms is not None and ms < 1:
                raise UsageError(f"{name} is {ms}: choose a millisecond or more")
        self._client = client
        beat = max(session_ms // BEATS, 1) if beat_ms is None else beat_ms
        self._member = Member(
            say.MemberSettings(
                tuple(topics), start, session_ms, beat, work_ms_max, commit_ms, LOOK_MS, client.timeout_ms
            )
        )
        self._coordinator = Coordinator(client, group, topics, session_ms, work_ms_max)
        self._reader: Reader[T] | None = None
        self._held: T | None = None
        """What is read and waits until this member is sure that it may hand it out."""
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._ended = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = count(1)
        self._settling: dict[int, asyncio.Future[None]] = {}

    @property
    def partitions(self) -> list[TopicPartition]:
        """What this member reads now."""
        return list(self._member.places)

    @property
    def positions(self) -> dict[TopicPartition, int] | None:
        """The offset after what was handed out, by partition; None while it is open what this member reads."""
        if self._member.phase is not Phase.READING or self._member.is_revoked or self._held is not None:
            return None
        found = self._reader.positions if self._reader is not None else {}
        return dict(found) if len(found) == len(self._member.places) else None

    async def __anext__(self) -> T:
        self._error = None
        self._obey(self._member.on_asked(self._now()))
        try:
            while self._member.phase not in OVER:
                delivery = await self._next()
                if delivery is not None:
                    return delivery
            raise StopAsyncIteration
        finally:
            self._member.on_working(self._now())
            self._set_alarm()

    async def _next(self) -> T | None:
        """The next delivery, or None if something else came."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        reader = self._reader
        if reader is None:
            await self._hear()
            return None
        try:
            found = self._held or await anext(reader, None)
        except OutOfRange as gone:
            _log.warning("%s", gone)
            self._obey(self._member.on_place_gone(self._now()))
            return None
        if found is None or reader is not self._reader:
            return None
        self._held = found
        if not self._member.is_sure(self._now()):
            self._obey(self._member.on_doubt(self._now()))
            await self._hear()
            return None
        self._held = None
        place = found.topic, found.partition
        self._member.on_handed_out(place, reader.positions[place])
        return found

    async def _hear(self) -> None:
        self._news.clear()
        await self._news.wait()

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commits all that was handed out, or these offsets: of each partition the first that is not done.

        After `NotMember` nothing is committed: what was handed out is read again by another member.
        """
        number = next(self._numbers)
        settling = self._settling[number] = asyncio.get_running_loop().create_future()
        try:
            self._obey(self._member.on_commit(self._now(), number, offsets))
            await settling
        finally:
            self._settling.pop(number, None)

    async def close(self) -> None:
        """Commits what is done, and leaves the group. Whoever waits for the next delivery hears that there is none."""
        self._obey(self._member.on_close(self._now()))
        await self._ended.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._coordinator.reconnect()

    # Driving.

    def _now(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _obey(self, effects: list[say.Effect]) -> None:
        for effect in effects:
            match effect:
                case say.Ask():
                    self._begin(self._ask(effect))
                case say.Reconnect():
                    self._coordinator.reconnect()
                case say.Read():
                    self._reader = self._open(effect.starts)
                case say.Halt():
                    self._halt()
                case say.Settle():
                    self._settle(effect)
                case say.Fail():
                    self._error = self._error_of(effect.reason)
                case say.Note():
                    _log.warning("%s: %s", self._coordinator.name, effect.text)
                case say.Ended():
                    self._ended.set()
        self._news.set()
        self._set_alarm()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, question: say.Ask) -> None:
        try:
            reply = await self._coordinator.ask(question.request)
        except Exception as error:
            # For a topic that is not there the client has been patient already.
            passes = isinstance(error, LogError) and error.retriable and not isinstance(error, UnknownTopic)
            self._obey(self._member.on_failed(self._now(), question.ticket, error, passes))
        else:
            self._obey(self._member.on_reply(self._now(), question.ticket, reply))

    def _halt(self) -> None:
        self._held = None
        if self._reader is not None:
            self._reader.stop()
            self._begin(self._reader.close())
            self._reader = None

    def _settle(self, effect: say.Settle) -> None:
        settling = self._settling.get(effect.number)
        if settling is None or settling.done():
            return
        if effect.error:
            settling.set_exception(self._error_of(effect.error))
        else:
            settling.set_result(None)

    def _error_of(self, reason: int | Exception) -> Exception:
        return reason if isinstance(reason, Exception) else error_of(reason, self._coordinator.name)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        deadline = self._member.deadline()
        if deadline is not None:
            self._alarm = asyncio.get_running_loop().call_at(deadline / 1000, self._wake)

    def _wake(self) -> None:
        self._alarm = None
        self._obey(self._member.on_time(self._now()))

    @abstractmethod
    def _open(self, starts: Mapping[TopicPartition, int]) -> Reader[T]:
        """A reader of these partitions."""


class GroupConsumer(GroupReader[Delivery]):
    """Hands out records."""

    def _open(self, starts: Mapping[TopicPartition, int]) -> Consumer:
        return Consumer(self._client, starts)


class GroupValueConsumer(GroupReader[ValueDelivery]):
    """Hands out values, and the offset of the first."""

    def _open(self, starts: Mapping[TopicPartition, int]) -> ValueConsumer:
        return ValueConsumer(self._client, starts)

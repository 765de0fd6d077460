"""Hosts the coordinator of one partition of the groups' topic, while this broker leads that partition.

When leadership begins, the partition's log is read once all of it is known to be committed, and the coordinator is made
of it. Until then clients are asked to wait. What the coordinator stores is appended as one batch, as a producer with
`acks=all` would do it; that its answers leave after that is seen to by the coordinator.

A log that has grown well past what is true in it is written anew: all that is true goes to its end as a snapshot, and
once that is committed everything before it is deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from octoloom.core.consumer_groups import GroupCoordinator
from octoloom.core.consumer_messages import Answer, Effect, GroupError, Response, Store
from octoloom.core.consumer_records import Record
from octoloom.core.consumer_settings import GroupSettings
from octoloom.core.errors import OctoloomError
from octoloom.core.log_messages import TopicPartition
from octoloom.runtime.broker_apis import Host
from octoloom.storage.log_damage import DamagedLog
from octoloom.wire.kafka import records as kafka_records
from octoloom.wire.kafka.batches import CorruptBatch, check_batches
from octoloom.wire.kafka.errors import ErrorCode

READ_BYTES = 256 * 1024
"""Read and decoded in one go; then others have their turn."""
BATCH_BYTES = 512 * 1024
"""The records of a snapshot that go into one batch, if they are not single records that are larger."""
LOG_BYTES_MAX = 16 * 1024 * 1024
SNAPSHOTS_MAX = 4
"""The log is written anew when it is larger than the maximum and than so many times its last snapshot."""
RETRY_S = 0.1
LATE_MS = 100
"""A timer that is later than this means that the process did not run: what waits in the sockets is heard first."""

_log = logging.getLogger("octoloom.groups")

OnAnswer = Callable[[Response], None]
Ask = Callable[[GroupCoordinator, int, int], list[Effect]]
"""Called with the coordinator, the time and the ticket."""

_STORED = (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""The second says that fewer replicas than wanted have it. But it is committed: nothing will take it back."""


@dataclass(slots=True)
class _Storing:
    number: int
    error: int | None = None


class GroupHost:
    """`refusal` is what to answer instead of asking: 0 once the coordinator is there."""

    def __init__(
        self, host: Host, name: TopicPartition, settings: GroupSettings, log_bytes_max: int = LOG_BYTES_MAX
    ) -> None:
        self._host = host
        self._name = name
        self._settings = settings
        self._log_bytes_max = log_bytes_max
        self._loop = asyncio.get_running_loop()
        self.refusal = int(GroupError.COORDINATOR_LOAD_IN_PROGRESS)
        self._core: GroupCoordinator | None = None
        self._closed = False
        self._ticket = 0
        self._waiting: dict[int, OnAnswer] = {}
        self._storing: deque[_Storing] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        self._loading: asyncio.Task[None] | None = None
        self._log_bytes = self._snapshot_bytes = 0
        self._is_compacting = False
        self._wait_for_log()

    @property
    def core(self) -> GroupCoordinator:
        assert self._core is not None
        return self._core

    def close(self) -> None:
        """Leadership is lost: everybody who waits is told to look for the new coordinator."""
        if self._closed:
            return
        self._closed, self.refusal = True, int(GroupError.NOT_COORDINATOR)
        if self._loading is not None:
            self._loading.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._core is not None:
            self._obey(self._core.close(self._host.clock.now()))

    # Loading.

    def _wait_for_log(self) -> None:
        """Below where a new leader began, the watermark may be older than what was acknowledged before."""
        partition = self._host.core.partitions.get(self._name)
        if self._closed or partition is None:
            return
        self._host.when_committed(self._name, partition.settled_at, self._on_settled)

    def _on_settled(self, error: int) -> None:
        if self._closed:
            return
        if error:
            self._loop.call_later(RETRY_S, self._wait_for_log)
        else:
            self._loading = self._loop.create_task(self._load())

    async def _load(self) -> None:
        try:
            records = await self._read()
            now = self._host.clock.now()
            self._core = GroupCoordinator.load(now, records, self._settings)
        except OctoloomError as error:
            _log.critical("%s-%d cannot be read, its groups are not served: %s", *self._name, error)
            self.refusal = int(GroupError.COORDINATOR_NOT_AVAILABLE)
            return
        self.refusal = 0
        self._snapshot_bytes = sum(len(key) + len(value or b"") for key, value in self._core.snapshot_records())
        _log.info("%s-%d: %d groups, from %d records", *self._name, len(self._core.list_groups()), len(records))
        self._obey([])

    async def _read(self) -> list[Record]:
        records: list[Record] = []
        offset = self._host.core.partitions[self._name].start
        while True:
            try:
                raw, _ = self._host.read(self._name, offset, READ_BYTES)
                found, following = kafka_records.read_fetched(raw, offset)
            except (DamagedLog, CorruptBatch) as error:
                self._on_damaged(error, offset)
                raise
            if following == offset:
                return records
            records += [(record.key or b"", record.value) for record in found]
            self._log_bytes += len(raw)
            offset = following
            await asyncio.sleep(0)

    def _on_damaged(self, error: DamagedLog | CorruptBatch, offset: int) -> None:
        """Another replica has what the disk has spoilt here. Finds the first batch that is not whole any more."""
        if isinstance(error, DamagedLog):
            self._host.report_damage(self._name, error.offset)
            return
        while True:
            raw, following = self._host.read(self._name, offset, 1)
            if following == offset:
                return  # all batches are as they were written: it is the records that nobody understands
            try:
                check_batches(memoryview(raw))
            except CorruptBatch:
                self._host.report_damage(self._name, offset)
                return
            offset = following

    # Asking.

    def ask(self, ask: Ask, on_answer: OnAnswer) -> None:
        """Only while `refusal` is 0. The answer may come at once or later."""
        self._ticket += 1
        self._waiting[self._ticket] = on_answer
        self._obey(ask(self.core, self._host.clock.now(), self._ticket))

    def on_topic_deleted(self, topic: str) -> None:
        if self._core is not None and not self._closed:
            self._obey(self._core.on_topic_deleted(self._host.clock.now(), topic))

    def _obey(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Answer(ticket, response):
                    self._waiting.pop(ticket)(response)
                case Store(number, records) if not self._closed:
                    self._store(number, records)
        if not self._closed:
            self._compact_if_due()
            self._set_timer()

    # The log.

    def _store(self, number: int, records: Sequence[Record]) -> None:
        storing = _Storing(number)
        self._storing.append(storing)

        def on_done(error: int, _offset: int) -> None:
            storing.error = error
            self._on_stored()

        self._append(records, on_done)

    def _append(self, records: Sequence[Record], on_done: Callable[[int, int], None]) -> None:
        now = self._host.clock.now()
        batch = kafka_records.build_batch([kafka_records.Record(-1, now, key, value, ()) for key, value in records])
        self._log_bytes += len(batch)
        self._host.append(self._name, bytearray(batch), on_done)

    def _on_stored(self) -> None:
        """Settles stores in their order: a refusal may be told after the success of a later one."""
        while self._storing and self._storing[0].error is not None and not self._closed:
            storing, now = self._storing.popleft(), self._host.clock.now()
            if storing.error in _STORED:
                self._obey(self.core.on_stored(now, storing.number))
            else:
                _log.warning("%s-%d did not take a record of its groups (error %d)", *self._name, storing.error)
                self._obey(self.core.on_store_failed(now, storing.number))

    def _compact_if_due(self) -> None:
        due = max(self._log_bytes_max, SNAPSHOTS_MAX * self._snapshot_bytes)
        if self._core is None or self._is_compacting or self._log_bytes <= due:
            return
        self._is_compacting = True
        before, start = self._log_bytes, self._host.core.partitions[self._name].end
        errors: list[int] = []

        def on_done(error: int, _offset: int = -1) -> None:
            errors.append(error)
            if len(errors) == max(len(batches), 1) and not self._closed:
                self._on_compacted(errors, start, before, after)

        batches = _cut(self._core.snapshot_records())
        for batch in batches:
            self._append(batch, on_done)
        after = self._log_bytes - before
        if not batches:
            self._host.when_committed(self._name, start, on_done)

    def _on_compacted(self, errors: Sequence[int], start: int, before: int, after: int) -> None:
        self._is_compacting = False
        error = next((error for error in errors if error not in _STORED), 0)
        if not error:
            error, _ = self._host.delete_records(self._name, start)
        if error:
            # As if all of it were needed: the next try comes when the log has grown a good deal.
            _log.warning("%s-%d could not be written anew (error %d)", *self._name, error)
            self._snapshot_bytes = self._log_bytes
            return
        self._log_bytes -= before
        self._snapshot_bytes = after
        _log.info("%s-%d was written anew: %d bytes instead of %d", *self._name, after, before)

    # Time.

    def _set_timer(self) -> None:
        deadline = self._core.deadline() if self._core is not None else None
        if deadline == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = deadline
        if deadline is not None:
            delay_ms = max(deadline - self._host.clock.now(), 0)
            self._timer = self._loop.call_later(delay_ms / 1000, self._on_timer, deadline)

    def _on_timer(self, deadline: int) -> None:
        late_ms = self._host.clock.now() - deadline
        if late_ms > LATE_MS:
            self._timer = self._loop.call_later(RETRY_S, self._on_time)
        else:
            self._on_time()

    def _on_time(self) -> None:
        self._timer = self._timer_at = None
        if self._core is not None and not self._closed:
            self._obey(self._core.on_time(self._host.clock.now()))


def _cut(records: Sequence[Record]) -> list[list[Record]]:
    """The records in as many batches as they need."""
    batches: list[list[Record]] = []
    room = 0
    for key, value in records:
        size = len(key) + len(value or b"")
        if not batches or size > room or len(batches[-1]) >= kafka_records.RECORDS_MAX:
            batches.append([])
            room = BATCH_BYTES
        batches[-1].append((key, value))
        room -= size
    return batches

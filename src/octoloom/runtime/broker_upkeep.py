"""What a broker does now and then: saves watermarks and producer tables, deletes what is too old, tells who waits
for too long.

Saving is spread over its period: a thousand logs at once would keep everybody waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from octoloom.core.errors import StoreError
from octoloom.core.log_messages import TopicPartition
from octoloom.core.topic_admin import SETTINGS
from octoloom.runtime.broker_logs import Replica, number_of
from octoloom.runtime.broker_produce import Produce
from octoloom.runtime.broker_state import BrokerState
from octoloom.runtime.broker_sync import Syncer
from octoloom.runtime.broker_turns import Turns

STEPS = 50
"""A period of saving is cut into so many."""
STEP_MS_MIN = 20
TIMEOUTS_MS = 250
OPEN_MS = 1_000
RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"

_log = logging.getLogger("octoloom.broker")


class Upkeep:
    def __init__(
        self,
        state: BrokerState,
        produce: Produce,
        turns: Turns,
        syncer: Syncer,
        sure: Callable[[Callable[[], None]], None],
    ) -> None:
        self._state = state
        self._produce = produce
        self._turns = turns
        self._syncer = syncer
        self._sure = sure
        self._to_save: deque[TopicPartition] = deque()
        self._step = -1
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        settings = self._state.settings
        self._every("save", max(settings.snapshot_ms // STEPS, STEP_MS_MIN), self._save_some)
        self._every("retain", settings.retention_check_ms, self._retain)
        self._every("late", TIMEOUTS_MS, self._tell_late)
        self._every("open", OPEN_MS, self._turns.open_again)
        if self._state.is_written_durable:
            self._every("sync", settings.sync_ms, self._syncer.start)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _every(self, key: str, period_ms: int, call: Callable[[], None]) -> None:
        def again() -> None:
            self._timers[key] = self._state.loop.call_later(period_ms / 1000, again)
            self._sure(call)

        self._timers[key] = self._state.loop.call_later(period_ms / 1000, again)

    def _tell_late(self) -> None:
        if len(self._produce):
            self._produce.on_time(self._state.clock.now())

    # Saving.

    def _save_some(self) -> None:
        self._step = (self._step + 1) % STEPS
        if self._step == 0:
            self._to_save = deque(self._state.replicas)
        for _ in range(-(-len(self._state.replicas) // STEPS)):
            if not self._to_save:
                break
            replica = self._state.replicas.get(self._to_save.popleft())
            if replica is not None:
                save(replica)

    # Retention.

    def _retain(self) -> None:
        now = self._state.clock.now()
        for replica in self._state.replicas.values():
            if replica.partition.leading is not None:
                self._retain_one(replica, now)
            else:
                self._drop_rest(replica)
        self._state.soon()

    def _retain_one(self, replica: Replica, now: int) -> None:
        info, log = replica.info, replica.log
        age_ms = number_of(info, RETENTION_MS, int(SETTINGS[RETENTION_MS].default))
        size = number_of(info, RETENTION_BYTES, int(SETTINGS[RETENTION_BYTES].default))
        start = log.start
        try:
            is_moved = log.retain(now, age_ms, size, replica.partition.high)
        except StoreError as error:
            _log.error("%s", error)
            return
        if is_moved:
            _log.info("%s-%d begins at %d now, not at %d: the rest was too old", *replica.name, log.start, start)
            self._state.core.on_trimmed(replica.name, log.start)
            self._state.core.streaming.touch(replica.name)
        # A segment that was sealed for being too old goes once it is synced.
        self._syncer.want(replica)

    def _drop_rest(self, replica: Replica) -> None:
        """The leader says where the log begins. What lay before that was perhaps not synced then, and can go now."""
        try:
            replica.log.drop_trimmed()
        except StoreError as error:
            _log.error("%s", error)


def save(replica: Replica) -> None:
    try:
        replica.save()
    except StoreError as error:
        _log.warning("%s", error)

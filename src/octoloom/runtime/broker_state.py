"""What all parts of a broker's shell share: the core, the replicas, the directory, and what the next turn has to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from octoloom.core.broker import Broker
from octoloom.core.log_messages import TopicPartition
from octoloom.runtime.broker_apis import LeadershipListener
from octoloom.runtime.broker_directory import Directory
from octoloom.runtime.broker_logs import Logs, Replica
from octoloom.runtime.broker_settings import SYNC_OS, BrokerSettings
from octoloom.runtime.clock import Clock
from octoloom.wire.kafka.errors import ErrorCode

QUIET_S = 0.0001
"""A broker that had no turn for so long has slept: it is not busy."""


class BrokerState:
    """`core` and `logs.replicas` are others after damage to a log: never keep them over a tick."""

    def __init__(self, settings: BrokerSettings, clock: Clock, logs: Logs, core: Broker) -> None:
        self.settings = settings
        self.clock = clock
        self.logs = logs
        self.core = core
        self.directory = Directory()
        self.listeners: list[LeadershipListener] = []
        self.dirty: dict[Replica, None] = {}
        """Replicas with something to write."""
        self.is_written_durable = settings.sync == SYNC_OS
        self.take_turn: Callable[[], None] = lambda: None
        self.may_speak: Callable[[], bool] = lambda: self.directory.revision >= 0
        """Whether the directory is new enough to be told to clients."""
        self.loop = asyncio.get_running_loop()
        self._is_soon = False
        self._turned_at = 0.0

    @property
    def replicas(self) -> dict[TopicPartition, Replica]:
        return self.logs.replicas

    def soon(self) -> None:
        """Have a turn at the end of this tick.

        The loop runs everything that a tick has brought before it runs what was called for soon. So the turn comes
        after the last input of the tick, and all of them are one batch.
        """
        if not self._is_soon:
            self._is_soon = True
            self.loop.call_soon(self._turn)

    def promptly(self) -> None:
        """Have a turn now, if the broker is not busy: who comes alone does not wait for others. Otherwise soon."""
        if self._is_soon or monotonic() - self._turned_at < QUIET_S:
            self.soon()
        else:
            self._turn()

    def _turn(self) -> None:
        self._is_soon = False
        self.take_turn()
        self._turned_at = monotonic()

    def error_of(self, name: TopicPartition) -> int:
        """Why a partition without a replica here is not served."""
        # Before the register has told anything, or anything new, the topic may well be there.
        known = self.directory.state(name) is not None or not self.may_speak()
        return ErrorCode.NOT_LEADER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

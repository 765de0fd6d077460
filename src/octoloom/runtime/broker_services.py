"""What the handlers of a broker's other APIs may ask of it: to append, to read, to delete (`broker_apis.Host`)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from octoloom.core.broker import Broker
from octoloom.core.errors import StoreError
from octoloom.core.log_messages import TopicPartition
from octoloom.runtime.broker_apis import OnAppended
from octoloom.runtime.broker_produce import Produce
from octoloom.runtime.broker_register import BrokerRegisterClient
from octoloom.runtime.broker_state import BrokerState
from octoloom.storage.log_damage import DamagedLog
from octoloom.wire.kafka.errors import ErrorCode

_log = logging.getLogger("octoloom.broker")


class Services:
    """The broker, as `broker_apis.Host` describes it."""

    def __init__(
        self,
        state: BrokerState,
        produce: Produce,
        id_of: Callable[[], str],
        line: Callable[[], BrokerRegisterClient],
        on_damaged: Callable[[DamagedLog], None],
    ) -> None:
        self._state = state
        self._produce = produce
        self._id_of, self._line, self._on_damaged = id_of, line, on_damaged
        self.clock, self.settings = state.clock, state.settings
        self.directory, self.listeners = state.directory, state.listeners

    @property
    def core(self) -> Broker:
        return self._state.core

    @property
    def id(self) -> str:
        return self._id_of()

    @property
    def register(self) -> BrokerRegisterClient:
        """Another one in each life."""
        return self._line()

    def append(self, name: TopicPartition, batch: bytearray, on_done: OnAppended) -> None:
        self._produce.append(name, batch, on_done)

    def when_committed(self, name: TopicPartition, offset: int, on_done: Callable[[int], None]) -> None:
        self._produce.when_committed(name, offset, lambda error, _: on_done(error))

    def read(self, name: TopicPartition, offset: int, bytes_max: int, before: int | None = None) -> tuple[bytes, int]:
        replica = self._state.replicas[name]
        found = replica.log.read(offset, bytes_max, replica.partition.high if before is None else before)
        return (b"", offset) if found is None else (found.read(), found.next_offset)

    def delete_records(self, name: TopicPartition, offset: int) -> tuple[int, int]:
        replica = self._state.replicas.get(name)
        error = self._state.error_of(name) if replica is None else replica.partition.leads()
        if replica is None or error:
            return error, -1
        offset = replica.partition.high if offset == -1 else offset
        if not 0 <= offset <= replica.partition.high:
            return ErrorCode.OFFSET_OUT_OF_RANGE, -1
        try:
            replica.log.trim(offset)
        except StoreError as failure:
            _log.error("%s", failure)
            return ErrorCode.KAFKA_STORAGE_ERROR, -1
        self.core.on_trimmed(name, replica.log.start)
        self.core.streaming.touch(name)
        self._state.soon()
        return 0, replica.log.start

    def report_damage(self, name: TopicPartition, offset: int) -> None:
        self._on_damaged(DamagedLog(f"{self._state.replicas[name].log.path}/", offset))

    def soon(self) -> None:
        self._state.soon()

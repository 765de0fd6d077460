"""Fetch: consumers read committed batches from the leader, and wait here for more.

A fetch that finds less than its `bytes_min` waits, at every partition that it names, until the watermark of one of
them moves or its time is up. Only those that wait at a partition that moved are looked at.

Records are sent by the kernel from the log's files, never beyond the watermark. Few bytes are copied instead: that
takes fewer calls than sending them by themselves.

There are no fetch sessions: every answer has session 0, and who comes with one of another server is told that it is
not known, after which clients send all of their partitions again.
"""

from __future__ import annotations

import asyncio
import logging

from octoloom.core.errors import StoreError
from octoloom.core.log_messages import TopicPartition
from octoloom.runtime.broker_apis import Request
from octoloom.runtime.broker_logs import Replica
from octoloom.runtime.broker_output import Piece
from octoloom.runtime.broker_state import BrokerState
from octoloom.storage.log_damage import DamagedLog
from octoloom.storage.segment_search import FileSlice
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.fetch import FetchPart, FetchRequest, FetchResult, encode_fetch, parse_fetch

WAIT_MS_MAX = 60_000
ANSWER_BYTES_MAX = 64 * 1024 * 1024
COPY_BYTES_MAX = 32 * 1024
"""Up to so many bytes are read and sent with the rest of the answer."""
_NOTHING = ErrorCode.NONE

_log = logging.getLogger("octoloom.broker")


class Waiting:
    """A fetch that waits. `sizes` is what each of its parts can give by now."""

    __slots__ = ("fetch", "request", "sizes", "timer", "total")

    def __init__(self, request: Request, fetch: FetchRequest, sizes: list[int]) -> None:
        self.request = request
        self.fetch = fetch
        self.sizes = sizes
        self.total = sum(sizes)
        self.timer: asyncio.TimerHandle | None = None


class Fetch:
    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._late: list[Waiting] = []

    # Requests.

    def on_fetch(self, request: Request) -> None:
        fetch = parse_fetch(request.header, request.frame)
        if fetch.session_epoch > 0:
            pieces = encode_fetch(request.header, (), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            request.respond_pieces(list(pieces))
            return
        results, slices, total = self._read(fetch)
        is_failed = any(result.error for result in results)
        if total >= fetch.bytes_min or fetch.max_wait_ms <= 0 or not fetch.parts or is_failed:
            respond(request, results, slices)
            return
        self._wait(Waiting(request, fetch, [result.size for result in results]))

    def _read(self, fetch: FetchRequest) -> tuple[list[FetchResult], list[FileSlice], int]:
        left = min(fetch.bytes_max, ANSWER_BYTES_MAX)
        results: list[FetchResult] = []
        slices: list[FileSlice] = []
        total = 0
        for part in fetch.parts:
            result, found = self._read_part(part, left - total, total == 0)
            results.append(result)
            if found is not None:
                slices.append(found)
                total += found.size
        return results, slices, total

    def _read_part(self, part: FetchPart, left: int, is_first: bool) -> tuple[FetchResult, FileSlice | None]:
        """What one partition gives. The first with records gives a whole batch, whatever its size."""
        topic, number, offset, bytes_max, leader_epoch, _, _ = part
        replica = self._state.logs.replicas.get((topic, number))
        if replica is None:
            return FetchResult(topic, number, self._state.error_of((topic, number))), None
        partition = replica.partition
        error = partition.leads(leader_epoch)
        if error:
            return FetchResult(topic, number, error), None
        high, start = partition.high, partition.start
        if not start <= offset <= high:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
            if high < offset <= partition.end:
                # It is in the log, and a leader that was before us may have shown it: wait until it is committed.
                error = ErrorCode.OFFSET_NOT_AVAILABLE if high < partition.settled_at else _NOTHING
            return FetchResult(topic, number, error, high, start), None
        if offset == high or (left <= 0 and not is_first):
            return FetchResult(topic, number, 0, high, start), None
        try:
            found = replica.log.read(offset, max(min(bytes_max, left), 0), high)
        except DamagedLog:
            raise
        except StoreError as failure:
            _log.error("%s", failure)
            return FetchResult(topic, number, ErrorCode.KAFKA_STORAGE_ERROR, high, start), None
        if found is None or (found.size > left and not is_first):
            return FetchResult(topic, number, 0, high, start), None
        return FetchResult(topic, number, 0, high, start, found.size), found

    # Waiting.

    def _wait(self, waiting: Waiting) -> None:
        for index, part in enumerate(waiting.fetch.parts):
            self._state.logs.replicas[part.topic, part.partition].readers[waiting] = index
        wait_s = min(waiting.fetch.max_wait_ms, WAIT_MS_MAX) / 1000
        waiting.timer = self._state.loop.call_later(wait_s, self._on_late, waiting)

    def _on_late(self, waiting: Waiting) -> None:
        self._late.append(waiting)
        self._state.soon()

    def answer_late(self) -> None:
        """Those whose time is up get what there is."""
        if self._late:
            late, self._late = self._late, []
            for waiting in late:
                self._answer(waiting)

    def on_moved(self, names: list[TopicPartition]) -> None:
        """The watermarks of these rose."""
        replicas = self._state.logs.replicas
        for name in names:
            readers = replicas[name].readers
            if readers:
                for waiting, index in list(readers.items()):
                    self._look(waiting, index)

    def _look(self, waiting: Waiting, index: int) -> None:
        """Answers if there is enough now."""
        fetch = waiting.fetch
        if waiting.request.answered:
            return
        result, _ = self._read_part(fetch.parts[index], ANSWER_BYTES_MAX, is_first=True)
        waiting.total += result.size - waiting.sizes[index]
        waiting.sizes[index] = result.size
        if waiting.total >= fetch.bytes_min or result.error:
            self._answer(waiting)

    def on_lost(self, replica: Replica | None) -> None:
        """This broker does not lead the partition any more, or not in that epoch: those who wait are told."""
        for waiting in list(replica.readers) if replica is not None else ():
            self._answer(waiting)

    def _answer(self, waiting: Waiting) -> None:
        if waiting.timer is not None:
            waiting.timer.cancel()
        replicas = self._state.logs.replicas
        for part in waiting.fetch.parts:
            replica = replicas.get((part.topic, part.partition))
            if replica is not None:
                replica.readers.pop(waiting, None)
        if not waiting.request.answered and not waiting.request.is_abandoned:
            results, slices, _ = self._read(waiting.fetch)
            respond(waiting.request, results, slices)


def respond(request: Request, results: list[FetchResult], slices: list[FileSlice]) -> None:
    around = encode_fetch(request.header, results)
    pieces: list[Piece] = [around[0]]
    for found, piece in zip(slices, around[1:], strict=True):
        copied = found.read() if found.size <= COPY_BYTES_MAX else b""
        # What cannot be read whole is left to `sendfile`, which ends the connection over it.
        pieces.append(copied if len(copied) == found.size else found)
        if piece:
            pieces.append(piece)
    request.respond_pieces(pieces)

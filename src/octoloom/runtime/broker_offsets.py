"""ListOffsets and OffsetForLeaderEpoch: where to begin to read, by time or by end, and where an epoch ended.

A new leader's watermark may lag behind what an older one has shown. Until it has caught up with where the new leader
began, "latest" would go back in time, so the answer is to ask again (OFFSET_NOT_AVAILABLE).
"""

from __future__ import annotations

from typing import Any

from octoloom.core.partition import Partition
from octoloom.runtime.broker_apis import Request
from octoloom.runtime.broker_logs import Replica
from octoloom.runtime.broker_state import BrokerState
from octoloom.wire.kafka.compose import compose
from octoloom.wire.kafka.errors import ErrorCode

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3

Found = tuple[int, int, int, int]
"""(error, timestamp, offset, leader epoch)"""


class Offsets:
    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def on_list_offsets(self, request: Request) -> None:
        asked: Any = request.decode()
        topics = [
            {"name": topic.name, "partitions": [self._listed(topic.name, part) for part in topic.partitions]}
            for topic in asked.topics
        ]
        request.answer(compose(request.header, topics=topics))

    def _listed(self, topic: str, part: Any) -> dict[str, int]:
        epoch = getattr(part, "current_leader_epoch", -1)
        error, timestamp, offset, leader_epoch = self._find(topic, part.partition_index, epoch, part.timestamp)
        return {
            "partition_index": part.partition_index,
            "error_code": error,
            "timestamp": timestamp,
            "offset": offset,
            "leader_epoch": leader_epoch,
        }

    def _find(self, topic: str, number: int, epoch: int, timestamp: int) -> Found:
        replica = self._state.logs.replicas.get((topic, number))
        if replica is None:
            return self._state.error_of((topic, number)), -1, -1, -1
        partition = replica.partition
        error = partition.leads(epoch)
        if error:
            return error, -1, -1, -1
        if timestamp == EARLIEST:
            return 0, -1, partition.start, epoch_at(partition, partition.start)
        if partition.high < partition.settled_at:
            return ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1, -1
        if timestamp == LATEST:
            return 0, -1, partition.high, partition.state.epoch
        if timestamp == MAX_TIMESTAMP:
            return self._newest(replica)
        if timestamp < 0:
            return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, -1, -1, -1
        found = replica.log.offset_at(timestamp, partition.high)
        if found is None:
            return 0, -1, -1, -1
        return 0, found[1], found[0], epoch_at(partition, found[0])

    def _newest(self, replica: Replica) -> Found:
        """The record with the largest time, as far as batches tell: the last of its batch stands for it."""
        partition = replica.partition
        best, offset = -1, -1
        for header in replica.log.headers(partition.start):
            if header.next_offset > partition.high:
                break
            if header.max_timestamp > best:
                best, offset = header.max_timestamp, header.next_offset - 1
        return 0, best, offset, epoch_at(partition, offset) if offset >= 0 else -1

    def on_epoch_end(self, request: Request) -> None:
        asked: Any = request.decode()
        topics = [
            {"topic": topic.topic, "partitions": [self._ended(topic.topic, part) for part in topic.partitions]}
            for topic in asked.topics
        ]
        request.answer(compose(request.header, topics=topics))

    def _ended(self, topic: str, part: Any) -> dict[str, int]:
        error, epoch, end = self._end_of(topic, part.partition, part.current_leader_epoch, part.leader_epoch)
        return {"partition": part.partition, "error_code": error, "leader_epoch": epoch, "end_offset": end}

    def _end_of(self, topic: str, number: int, current_epoch: int, epoch: int) -> tuple[int, int, int]:
        replica = self._state.logs.replicas.get((topic, number))
        if replica is None:
            return self._state.error_of((topic, number)), -1, -1
        partition = replica.partition
        error = partition.leads(current_epoch)
        if error or epoch > partition.state.epoch:
            return error, -1, -1
        found, end = partition.epochs.end_of(epoch, partition.end)
        if found < 0:
            # Older than anything that is left: whoever was there has to begin at the start.
            return 0, epoch, partition.start
        return 0, found, end


def epoch_at(partition: Partition, offset: int) -> int:
    """The epoch in which the record at this offset was written, or the present one behind the end."""
    epoch = -1
    for known, start in partition.epochs.starts():
        if start > offset:
            break
        epoch = known
    return epoch if epoch >= 0 else partition.state.epoch

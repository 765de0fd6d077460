"""A simulated broker's disk: what was synced survives a crash, the rest is lost from some point on, and synced data
may be damaged. A log is a list of batches; a torn batch is one that is not there any more, as recovery would cut it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from octoloom.core.partition import LogTail
from octoloom.core.producers import ProducerTable


class SimPlace(NamedTuple):
    """A `BatchPlace`."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass(frozen=True, slots=True)
class SimBatch:
    place: SimPlace
    tokens: tuple[str, ...]


def _end_of(batch: SimBatch) -> int:
    return batch.place.next_offset


class SimLog:
    """One replica's log. Only `synced` batches are sure to be there after a crash."""

    def __init__(self) -> None:
        self.batches: list[SimBatch] = []
        self.start = 0
        self.synced = 0
        """How many batches are durable."""
        self.high = 0
        """The watermark, as it was written down now and then."""

    @property
    def end(self) -> int:
        return self.batches[-1].place.next_offset if self.batches else self.start

    @property
    def durable(self) -> int:
        return self.batches[self.synced - 1].place.next_offset if self.synced else self.start

    def append(self, batch: SimBatch) -> None:
        assert batch.place.base_offset == self.end
        self.batches.append(batch)

    def read(self, offset: int, before: int, count: int) -> list[SimBatch]:
        first = bisect_right(self.batches, offset, key=_end_of)
        return [batch for batch in self.batches[first : first + count] if batch.place.next_offset <= before]

    def batch_before(self, offset: int) -> SimBatch | None:
        """The batch that ends at `offset`."""
        place = bisect_left(self.batches, offset, key=_end_of)
        batch = self.batches[place] if place < len(self.batches) else None
        return batch if batch and batch.place.next_offset == offset else None

    def holds(self, batch: SimBatch) -> bool:
        """Is it here, and will it be after a crash?"""
        return self.durable >= batch.place.next_offset and self.batch_before(batch.place.next_offset) == batch

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.place.next_offset <= offset]
        self.synced = min(self.synced, len(self.batches))

    def reset(self, offset: int) -> None:
        self.batches, self.start, self.synced = [], offset, 0

    def tail(self) -> LogTail:
        """What recovery finds."""
        epochs: list[tuple[int, int]] = []
        producers = ProducerTable()
        for batch in self.batches:
            place = batch.place
            if not epochs or place.leader_epoch > epochs[-1][0]:
                epochs.append((place.leader_epoch, place.base_offset))
            if place.producer_id >= 0:
                count = place.next_offset - place.base_offset
                producers.add(place.producer_id, place.producer_epoch, place.base_sequence, count, place.base_offset)
        return LogTail(self.start, self.end, self.durable, min(self.high, self.end), epochs, producers)


class LogDisk:
    def __init__(self, storage: str) -> None:
        self.storage = storage
        self.incarnation = 0
        self.logs: dict[tuple[str, int, int], SimLog] = {}
        """By (topic, number of the topic, partition)."""
        self.full, self.slow = False, False
        self.damaged: dict[tuple[str, int], None] = {}
        """Logs that were found damaged, and the register has not heard of it: a restart must not forget that."""
        self.lost_with = 0
        """The last incarnation that had written here what cannot be read any more."""

    def crash(self, dice: Random) -> None:
        """What was not synced is lost: all of it, or from some point on."""
        for log in self.logs.values():
            kept = dice.choice([log.synced, dice.randint(log.synced, len(log.batches))])
            del log.batches[kept:]
            log.synced = kept

    def damage(self, dice: Random) -> None:
        """A part of what was synced can no longer be read; recovery cuts the logs there."""
        self.lost_with = self.incarnation
        for (topic, _, partition), log in self.logs.items():
            if log.batches and dice.random() < 0.7:
                del log.batches[dice.randrange(len(log.batches)) :]
                log.synced = len(log.batches)
                log.high = min(log.high, log.end)
                self.damaged[topic, partition] = None

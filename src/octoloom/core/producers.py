"""The producer table of one partition: how a producer's batch that comes again is known.

A producer (id, epoch) numbers its records in a partition from 0; a batch carries the first number and its count. The
table remembers the last batches of each producer with their offsets. Then, for a batch of the producer's epoch:

1. one that is remembered is a duplicate, and is answered with the offset that it got the first time;
2. the one that follows the last is taken;
3. everything else is a gap, or too old to tell: an error, and nothing changes.

A new epoch of a producer begins at 0 again, and fences the older ones. Numbers wrap round after 2**31 - 1.

What is not in the log is not in the table: it is rebuilt from the log's batches after a restart or a truncation, and
followers keep it as they append, so a new leader knows what the old one knew. At `PRODUCERS_MAX` the producer that was
silent for longest is forgotten.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum

import msgspec

REMEMBERED = 5
"""Batches per producer: what clients may have in flight."""
PRODUCERS_MAX = 20_000
SEQUENCES = 2**31


class Verdict(IntEnum):
    """Kafka's error codes for what a producer table refuses."""

    TAKEN = 0
    OUT_OF_ORDER = 45
    DUPLICATE = 46
    """Older than anything remembered: it was taken once, and nobody knows where it is any more."""
    FENCED = 47
    UNKNOWN_PRODUCER = 59


class ProducerSnapshot(msgspec.Struct, frozen=True, array_like=True):
    id: int
    epoch: int
    batches: list[tuple[int, int, int]]
    """(first sequence, last sequence, first offset), oldest first"""


class _Producer:
    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[tuple[int, int, int]] = deque(maxlen=REMEMBERED)


class ProducerTable:
    __slots__ = ("_producers", "producers_max")

    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self._producers: dict[int, _Producer] = {}
        """Least recently heard first."""
        self.producers_max = producers_max

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, producer: int, epoch: int, sequence: int, count: int, whole: bool) -> tuple[Verdict, int]:
        """Whether a batch may be appended: (TAKEN, -1), (TAKEN, offset) for a duplicate, or a refusal.

        `whole` says that the log still has everything from its first record on: then an unknown producer that does
        not begin at 0 has a batch under way that must come first.
        """
        known = self._producers.get(producer)
        if known is None:
            if sequence == 0:
                return Verdict.TAKEN, -1
            return (Verdict.OUT_OF_ORDER if whole else Verdict.UNKNOWN_PRODUCER), -1
        if epoch != known.epoch:
            if epoch < known.epoch:
                return Verdict.FENCED, -1
            return (Verdict.TAKEN if sequence == 0 else Verdict.OUT_OF_ORDER), -1
        batches = known.batches
        if sequence == (batches[-1][1] + 1) % SEQUENCES:
            return Verdict.TAKEN, -1
        last = (sequence + count - 1) % SEQUENCES
        for first, ended, offset in batches:
            if first == sequence and ended == last:
                return Verdict.TAKEN, offset
        older = (batches[0][0] - sequence) % SEQUENCES
        return (Verdict.DUPLICATE if 0 < older < SEQUENCES // 2 else Verdict.OUT_OF_ORDER), -1

    def add(self, producer: int, epoch: int, sequence: int, count: int, offset: int) -> None:
        """A batch of this producer is in the log."""
        known = self._producers.pop(producer, None)
        if known is None or known.epoch != epoch:
            known = _Producer(epoch)
        known.batches.append((sequence, (sequence + count - 1) % SEQUENCES, offset))
        self._producers[producer] = known
        if len(self._producers) > self.producers_max:
            del self._producers[next(iter(self._producers))]

    def snapshot(self) -> list[ProducerSnapshot]:
        return [
            ProducerSnapshot(producer, known.epoch, list(known.batches)) for producer, known in self._producers.items()
        ]

    @classmethod
    def restore(cls, snapshot: list[ProducerSnapshot], producers_max: int = PRODUCERS_MAX) -> ProducerTable:
        table = cls(producers_max)
        for saved in snapshot:
            for first, last, offset in saved.batches:
                table.add(saved.id, saved.epoch, first, (last - first) % SEQUENCES + 1, offset)
        return table

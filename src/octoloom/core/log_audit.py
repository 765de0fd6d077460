"""The audit of one partition of a log, from the headers of its batches: is it what producers wrote and leaders took?

1. Offsets go on from batch to batch; the first is where the log begins.
2. A producer (id, epoch) numbers its records from 0: each batch goes on where its last one ended. One that begins again
   is a batch that is there twice, one that leaves numbers out lacks batches. A newer epoch begins at 0 and fences the
   older. In a log whose beginning was removed by retention, what comes first of a producer is believed.
3. The epochs of leaders never go back.
4. Whatever was acknowledged is there, with its key.

Batches whose bytes are not whole are told by whoever reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from octoloom.core.acknowledged import Written
from octoloom.core.findings import Finding, Findings
from octoloom.core.producers import SEQUENCES

AHEAD_MS_MAX = 24 * 3600 * 1000
"""How far in the future a timestamp may lie: clocks differ."""
NO_PRODUCER = -1
NO_TIME = -1


class Batch(NamedTuple):
    """What a header says."""

    first: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use here
    leader_epoch: int
    base_ms: int
    max_ms: int
    producer: int
    producer_epoch: int
    sequence: int


class PartitionVerdict(msgspec.Struct):
    """What is known of one partition."""

    topic: str
    partition: int
    start: int = 0
    end: int = 0
    batches: int = 0
    records: int = 0
    producers: int = 0
    acknowledged: int = 0
    counts: dict[str, int] = {}
    findings: list[Finding] = []

    @property
    def clean(self) -> bool:
        return not self.counts


class PartitionAudit:
    """Feed it the batches from `start` on; `end` is the offset behind the last that is to be there."""

    def __init__(
        self, topic: str, partition: int, start: int, end: int, now_ms: int, told: Iterable[Written] = ()
    ) -> None:
        self.findings = Findings(f"{topic}-{partition}")
        self._start, self._end, self._next = start, end, start
        self._late_ms = now_ms + AHEAD_MS_MAX
        self._leader_epoch = -1
        self._producers: dict[int, tuple[int, int]] = {}
        """Of each producer its epoch, and the sequence that comes next."""
        self._unsure: dict[int, None] = {}
        """Producers of which a batch may have been damaged: what is missing of them is told already."""
        self._told = {each.offset: each for each in told}
        self._lost: dict[int, None] = {}
        self._verdict = PartitionVerdict(topic, partition, start, end, acknowledged=len(self._told))

    @property
    def next_offset(self) -> int:
        """Where the next batch has to begin."""
        return self._next

    @property
    def wants_keys(self) -> bool:
        return any(told.key is not None for told in self._told.values())

    def read(self, batch: Batch) -> None:
        self._verdict.batches += 1
        self._verdict.records += batch.count
        self._check_offsets(batch)
        if batch.leader_epoch < self._leader_epoch:
            text = f"a batch of leader epoch {batch.leader_epoch} follows one of {self._leader_epoch}"
            self._add("leader-epoch-back", text, batch.first)
        self._leader_epoch = max(self._leader_epoch, batch.leader_epoch)
        if batch.max_ms != NO_TIME and not (batch.base_ms >= 0 and 0 <= batch.max_ms <= self._late_ms):
            self._add("time-insane", f"its records are of {batch.base_ms} to {batch.max_ms}", batch.first)
        if batch.producer != NO_PRODUCER:
            self._check_producer(batch)

    def damaged(self, text: str, offset: int, next_offset: int) -> None:
        """A batch cannot be read; the next one begins at `next_offset`."""
        self._add("batch-damaged", text, offset)
        self._unsure = dict.fromkeys(self._producers)
        self._lost.update(dict.fromkeys(each for each in self._told if offset <= each < next_offset))
        self._next = max(self._next, next_offset)

    def key(self, offset: int, key: bytes | None) -> None:
        """The key of a record: for those of which an acknowledgement has one."""
        told = self._told.get(offset)
        if told is not None and told.key is not None and told.key.encode() != key:
            self._add("key-differs", f"{told.key!r} was acknowledged here, {key!r} is there", offset)

    def finish(self) -> PartitionVerdict:
        if self._next < self._end:
            self._add("offset-gap", f"the log ends at {self._next}, {self._end} was told to be its end", self._next)
        for offset in self._told:
            if offset in self._lost or not self._start <= offset < self._end:
                text = f"offset {offset} was acknowledged, the log has {self._start} to {self._end}"
                self._add("record-lost", text, offset)
        verdict = self._verdict
        verdict.producers, verdict.counts = len(self._producers), self.findings.counts
        verdict.findings = self.findings.kept
        return verdict

    def _check_offsets(self, batch: Batch) -> None:
        # The first batch may begin before the log does: retention cuts where it likes.
        begins_before = self._next == self._start and batch.first < self._start < batch.first + batch.count
        if batch.first > self._next:
            self._add("offset-gap", f"offsets {self._next} to {batch.first - 1} are missing", batch.first)
            self._lost.update(dict.fromkeys(each for each in self._told if self._next <= each < batch.first))
        elif batch.first < self._next and not begins_before:
            self._add("offset-overlap", f"offset {batch.first} comes where {self._next} is next", batch.first)
        self._next = max(self._next, batch.first + batch.count)

    def _check_producer(self, batch: Batch) -> None:
        known = self._producers.get(batch.producer)
        who = f"producer {batch.producer} of epoch {batch.producer_epoch}"
        wanted = batch.sequence
        if known is None or batch.producer_epoch > known[0]:
            is_first = known is not None or self._start == 0
            wanted = 0 if is_first else batch.sequence
        elif batch.producer_epoch < known[0]:
            self._add("producer-back", f"{who} writes, and epoch {known[0]} has fenced it", batch.first)
            return
        else:
            wanted = known[1]
        ahead = (batch.sequence - wanted) % SEQUENCES
        if 0 < ahead < SEQUENCES // 2 and batch.producer in self._unsure:
            del self._unsure[batch.producer]
        elif 0 < ahead < SEQUENCES // 2:
            self._add("producer-gap", f"{who} goes on with {batch.sequence} where {wanted} is next", batch.first)
        elif ahead:
            self._add("producer-double", f"{who} comes with {batch.sequence} again, {wanted} is next", batch.first)
            return
        self._producers[batch.producer] = batch.producer_epoch, (batch.sequence + batch.count) % SEQUENCES

    def _add(self, name: str, text: str, offset: int) -> None:
        self.findings.add(name, text, partition=self._verdict.partition, offset=offset)

"""How far a group has come: the offsets that it committed.

A commit is written to the log first and shows once it is stored, in the order of the log. So whoever was told of a
new generation, which is stored after the commits of the one before, finds all of them.

1. `stored` is what the stored part of the log says, commits and deletions alike: a fetch never shows an offset that a
   crash could take back.
2. A partition of which something is on its way (`pending`) does not expire: the deletion would be written behind a
   commit and swallow it.
3. There are never more than `offsets_max` partitions, those on their way included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from octoloom.core.consumer_messages import FetchedOffset, GroupError, OffsetToCommit, TopicPartition
from octoloom.core.consumer_records import OffsetRecord
from octoloom.core.consumer_settings import NAME_MAX


class GroupOffsets:
    __slots__ = ("pending", "stored")

    def __init__(self) -> None:
        self.stored: dict[TopicPartition, OffsetRecord] = {}
        self.pending: Counter[TopicPartition] = Counter()

    @property
    def is_empty(self) -> bool:
        return not self.stored and not self.pending

    def check(self, offsets: Sequence[OffsetToCommit], metadata_max: int, offsets_max: int) -> list[GroupError]:
        """For each offset whether it can be committed; those that can fit in together."""
        size = len(self.stored) + len(self.pending)
        if size + len(offsets) > offsets_max:
            # It may get tight, so those are no longer counted twice that are in both.
            size -= sum(1 for partition in self.pending if partition in self.stored)
        new: set[TopicPartition] = set()
        errors = []
        for offset in offsets:
            error = _check(offset, metadata_max)
            partition = (offset.topic, offset.partition)
            if error is GroupError.NONE and partition not in self.stored and partition not in self.pending:
                new.add(partition)
                if size + len(new) > offsets_max:
                    new.discard(partition)
                    error = GroupError.INVALID_COMMIT_OFFSET_SIZE
            errors.append(error)
        return errors

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Commits or deletions of these are on their way to the log."""
        for partition in partitions:
            self.pending[partition] += 1

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """They have arrived there, or never will."""
        for partition in partitions:
            self.pending[partition] -= 1
            if self.pending[partition] <= 0:
                del self.pending[partition]

    def fetch(self, partitions: Iterable[TopicPartition] | None) -> tuple[FetchedOffset, ...]:
        return tuple(self._fetch(partition) for partition in (self.stored if partitions is None else partitions))

    def expired(self, now: int, empty_since: int, retention_ms: int) -> list[TopicPartition]:
        """Those that nobody has used for `retention_ms`; a group counts as using its offsets while it has members."""
        return [
            partition
            for partition, record in self.stored.items()
            if max(record.committed_at, empty_since) + retention_ms <= now and partition not in self.pending
        ]

    def oldest(self) -> int:
        """When the offset was committed that was not committed again for the longest time."""
        return min((record.committed_at for record in self.stored.values()), default=0)

    def of_topic(self, topic: str) -> list[TopicPartition]:
        return [partition for partition in dict.fromkeys([*self.stored, *self.pending]) if partition[0] == topic]

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.stored.pop(partition, None)

    def _fetch(self, partition: TopicPartition) -> FetchedOffset:
        record = self.stored.get(partition)
        if record is None:
            return FetchedOffset(*partition)
        return FetchedOffset(*partition, record.offset, record.leader_epoch, record.metadata)


def _check(offset: OffsetToCommit, metadata_max: int) -> GroupError:
    if not 0 < len(offset.topic) <= NAME_MAX:
        return GroupError.INVALID_TOPIC_EXCEPTION
    if offset.partition < 0:
        return GroupError.UNKNOWN_TOPIC_OR_PARTITION
    if offset.offset < 0:
        return GroupError.INVALID_REQUEST
    if len(offset.metadata) > metadata_max:
        return GroupError.OFFSET_METADATA_TOO_LARGE
    return GroupError.NONE

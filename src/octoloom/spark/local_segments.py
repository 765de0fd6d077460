"""The log without the network: record batches straight from the segment files of brokers on this machine.

A file alone does not say what in it is committed. What lies at the end of a replica may be cut off again, and a leader
of old may hold, at offsets below the watermark of today, records that nobody acknowledged. So:

1. A replica is read below its own watermark only, as the broker keeps it beside the log (it saves it every few
   seconds). A replica never cuts its log below that, so all of it is committed, and the same in every replica.
2. What lies above is read from the leader, if brokers were named too. If not, the log seems to end there.
3. A topic that was deleted and made again has another number in the names of its folders. The brokers are asked for
   it; if none were named, the highest number counts.
4. Every batch is checked (CRC, and that offsets follow one another) before it is served. What is damaged, torn or gone
   is read from the next replica, then from the leader; if nobody has it, the error says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from octoloom.core.errors import StoreError, UsageError
from octoloom.spark.fetching import OWN_TOPICS, OffsetsGone, RawOrigin, Reader
from octoloom.spark.ranges import Offsets, Place, Range
from octoloom.spark.replica_files import ReplicaFiles
from octoloom.storage.log_damage import DamagedLog
from octoloom.wire.kafka.batches import Buffer

DIRECTORIES_MAX = 100
LOGS = "logs"
"""Where a broker keeps its replicas, below its data directory."""

_FOLDER = re.compile(r"(.+)@([0-9]+)-([0-9]+)")


class NotLocal(StoreError):  # noqa: N818
    """No replica on this machine has these offsets, and nobody else was named who might."""


class LocalSegments(RawOrigin):
    """All replicas below the data directories of some brokers on this machine."""

    def __init__(self, directories: Sequence[str], behind: Reader | None = None) -> None:
        if not 0 < len(directories) <= DIRECTORIES_MAX:
            raise UsageError(f"name 1 to {DIRECTORIES_MAX} data directories of brokers, not {len(directories)}")
        self._directories = list(directories)
        self._behind = behind
        self._numbers: dict[str, int | None] = {}

    def close(self) -> None:
        if self._behind is not None:
            self._behind.close()

    # What there is. The brokers know it best.

    def topics(self, pattern: str | None = None) -> dict[str, list[int]]:
        if self._behind is not None:
            return self._behind.topics(pattern)
        wanted = re.compile(pattern) if pattern is not None else None
        names = sorted({topic for topic, *_ in self._folders()})
        return {
            name: self.partitions(name)
            for name in names
            if wanted is None or (wanted.fullmatch(name) and not name.startswith(OWN_TOPICS))
        }

    def partitions(self, topic: str) -> list[int]:
        if self._behind is not None:
            return self._behind.partitions(topic)
        number = self.number(topic)
        if number is None:
            text = f"there is no topic {topic} in {', '.join(self._directories)}"
            raise NotLocal(f"{text}: name other directories, or the brokers (kafka.bootstrap.servers)")
        return sorted({partition for _, found, partition, _ in self._folders(topic) if found == number})

    def bounds(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        if self._behind is not None:
            return self._behind.bounds(places)
        return {place: self._widest(place)[1:] for place in places}

    def offsets_at(self, places: Iterable[Place], ms: int) -> Offsets:
        if self._behind is not None:
            return self._behind.offsets_at(places, ms)
        return {place: self._offset_at(place, ms) for place in places}

    def _offset_at(self, place: Place, ms: int) -> int:
        replica, start, high = self._widest(place)
        return replica.offset_at(ms, start, high)

    def _widest(self, place: Place) -> tuple[ReplicaFiles, int, int]:
        """The replica in which most is committed, its start and its watermark."""
        found = self._replicas(place)
        if not found:
            text = f"{place[0]}-{place[1]} is in none of {', '.join(self._directories)}"
            raise NotLocal(f"{text}: name other directories, or the brokers too (kafka.bootstrap.servers)")
        return found[0]

    # What is in it.

    def raw(self, topic: str, partition: int, start: int, end: int) -> Iterator[Buffer]:
        offset, damage = start, None
        unread = self._replicas((topic, partition))
        while offset < end:
            found = next((one for one in unread if one[1] <= offset < one[2]), None)
            if found is None:
                break
            unread.remove(found)
            replica, _, high = found
            try:
                for piece, after in replica.pieces(offset, min(end, high)):
                    yield piece
                    offset = after
            except DamagedLog as error:
                damage = error
        if offset >= end:
            return
        if self._behind is not None:
            yield from self._behind.raw(topic, partition, offset, end)
        elif damage is not None:
            raise damage
        else:
            _, first, high = self._widest((topic, partition))
            raise OffsetsGone(Range(topic, partition, offset, end), first, high)

    def _replicas(self, place: Place) -> list[tuple[ReplicaFiles, int, int]]:
        """The replicas of a partition, each with its start and watermark, the highest first."""
        topic, partition = place
        number = self.number(topic)
        found = [ReplicaFiles(folder) for _, *of, folder in self._folders(topic) if of == [number, partition]]
        return sorted(((each, *each.bounds()) for each in found), key=lambda one: (-one[2], one[1]))

    def number(self, topic: str) -> int | None:
        """What tells the topic from another of the same name; None if it is not here."""
        if topic not in self._numbers:
            if self._behind is not None:
                self._numbers[topic] = self._behind.number(topic)
            else:
                self._numbers[topic] = max((number for _, number, *_ in self._folders(topic)), default=None)
        return self._numbers[topic]

    def _folders(self, topic: str | None = None) -> Iterator[tuple[str, int, int, str]]:
        """(topic, its number, partition, folder)"""
        for directory in self._directories:
            below = os.path.join(directory, LOGS)
            try:
                names = sorted(os.listdir(below))
            except OSError as error:
                if self._behind is not None:
                    # On another machine of the cluster there may be no broker.
                    continue
                text = f"{directory} is no data directory of a broker on this machine ({error.strerror})"
                raise UsageError(f"{text}: name what `octoloom broker --data` was given") from error
            for name in names:
                match = _FOLDER.fullmatch(name)
                if match is not None and topic in (None, match[1]):
                    yield match[1], int(match[2]), int(match[3]), os.path.join(below, name)

"""Streams of batches from a leader's broker to a follower's, all partitions of the pair over one connection.

A follower connects and names, per partition, where its log ends (`Follow`). The leader's broker then streams frames;
each has parts of several partitions. The follower answers what it has on disk (`Durable`), which is also the leave to
send more: at most `FRAMES_MAX` frames are under way. A stream is broken and begun again by another `Follow`.

On the leader's side the work of a tick is proportional to the partitions that have something new, not to all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from octoloom.core.log_messages import Durable, Part, TopicPartition
from octoloom.core.partition import Partition

FRAMES_MAX = 8
FRAME_BYTES_MAX = 1024 * 1024
PARTS_MAX = 256


class Wanted(NamedTuple):
    """Read this partition from `offset` on (nothing, if `before` is not above it) and put it into the frame."""

    name: TopicPartition
    epoch: int
    offset: int
    before: int
    high: int
    start: int


class Outgoing:
    """One follower's broker, seen from the leader's."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.sent: dict[TopicPartition, int] = {}
        """Each stream and how far it was sent."""
        self.dirty: dict[TopicPartition, None] = {}
        self.verdicts: list[Part] = []
        self.frame = 0
        self.taken = 0

    @property
    def has_leave(self) -> bool:
        return self.frame - self.taken < FRAMES_MAX

    def begin(self, name: TopicPartition, offset: int) -> None:
        self.sent[name] = offset
        self.dirty[name] = None

    def end(self, name: TopicPartition) -> None:
        self.sent.pop(name, None)
        self.dirty.pop(name, None)

    def touch(self, name: TopicPartition) -> None:
        """The partition has something new: records, or a watermark."""
        if name in self.sent:
            self.dirty[name] = None

    def next_names(self) -> list[TopicPartition]:
        """What goes into the next frame."""
        names = list(self.dirty)[:PARTS_MAX]
        for name in names:
            del self.dirty[name]
        self.frame += 1
        return names

    def on_sent(self, name: TopicPartition, next_offset: int, end: int) -> None:
        if name in self.sent:
            self.sent[name] = next_offset
            if next_offset < end:
                self.dirty[name] = None


class Incoming:
    """One leader's broker, seen from the follower's."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.up = False
        self.asked: dict[TopicPartition, int] = {}
        """The partitions that a stream was asked for on this connection, in which epoch."""
        self._frames: deque[tuple[int, list[tuple[TopicPartition, int, int]]]] = deque()
        """Frames that are not durable yet: the number, and (partition, epoch, end) of what was taken from it."""
        self._last = 0

    def on_down(self) -> None:
        self.up = False
        self.asked.clear()
        self._frames.clear()
        self._last = 0

    def on_asked(self, partition: Partition) -> None:
        """A stream was asked for; what lies before it is acknowledged when it is durable, as if it had come in it."""
        epoch = self.asked[partition.name] = partition.state.epoch
        if partition.durable < partition.end:
            self.on_frame(self._last, [(partition.name, epoch, partition.end)])

    def on_frame(self, frame: int, taken: list[tuple[TopicPartition, int, int]]) -> None:
        self._last = frame
        self._frames.append((frame, taken))

    @property
    def pending(self) -> bool:
        return bool(self._frames)

    def durable(self, partitions: Mapping[TopicPartition, Partition]) -> Durable | None:
        """The acknowledgement of all frames whose parts are on disk by now, if there is one to make."""
        last, ends = -1, {}
        while self._frames:
            frame, taken = self._frames[0]
            if any(partitions[name].durable < end for name, _, end in taken):
                break
            for name, epoch, end in taken:
                ends[name] = (*name, epoch, end)
            last = frame
            self._frames.popleft()
        return Durable(last, list(ends.values())) if last >= 0 else None

    def drop(self, name: TopicPartition) -> None:
        """Forget what was taken of a partition: its log was cut, or it has another leader."""
        self.asked.pop(name, None)
        for _, taken in self._frames:
            taken[:] = [each for each in taken if each[0] != name]

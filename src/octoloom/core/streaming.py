"""The leader's side of replication: what this broker streams to others that follow it.

The work of a tick is proportional to the partitions that have something new, not to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from octoloom.core.broker_effects import Effect, SendFrame
from octoloom.core.log_messages import Durable, Follow, Part, TopicPartition
from octoloom.core.partition import Partition
from octoloom.core.replication import Outgoing, Wanted


class Streaming:
    def __init__(self, partitions: Mapping[TopicPartition, Partition], touched: dict[TopicPartition, None]) -> None:
        self._partitions = partitions
        self._touched = touched
        """Partitions whose followers have moved: their watermark may, too."""
        self._outgoing: dict[str, Outgoing] = {}

    def touch(self, name: TopicPartition) -> None:
        """The partition has something new for its followers."""
        for outgoing in self._outgoing.values():
            outgoing.touch(name)

    def end(self, name: TopicPartition) -> None:
        """The partition is not led here any more, or in another epoch: its streams begin anew."""
        for outgoing in self._outgoing.values():
            outgoing.end(name)

    def on_follow(self, now: int, peer: str, follow: Follow) -> None:
        outgoing = self._outgoing.get(peer)
        if outgoing is None:
            outgoing = self._outgoing[peer] = Outgoing(peer)
        for entry in follow.entries:
            name = (entry.topic, entry.partition)
            partition = self._partitions.get(name)
            if partition is None:
                part: Part | None = Part(*name, entry.epoch, entry.offset, 0, 0, 0, "refused")
            else:
                part = partition.on_follow(now, peer, entry)
                self._touched[name] = None
            if part is None:
                outgoing.begin(name, entry.offset)
            else:
                outgoing.end(name)
                outgoing.verdicts.append(part)

    def on_follower_durable(self, now: int, peer: str, durable: Durable) -> bool:
        """What a follower has on disk. True: something follows from it, so flush."""
        outgoing = self._outgoing.get(peer)
        if outgoing is None:
            return False
        outgoing.taken = max(outgoing.taken, min(durable.frame, outgoing.frame))
        matters = bool(outgoing.dirty)
        for topic, number, epoch, end in durable.ends:
            name = (topic, number)
            partition = self._partitions.get(name)
            if partition is None or end > outgoing.sent.get(name, -1):
                continue
            if partition.on_follower_durable(now, peer, epoch, end):
                self._touched[name] = None
                matters = True
        return matters

    def on_follower_down(self, peer: str) -> None:
        self._outgoing.pop(peer, None)
        for partition in self._partitions.values():
            if partition.leading is not None:
                partition.leading.on_gone(peer)

    def on_sent(self, peer: str, sent: Iterable[tuple[TopicPartition, int]]) -> bool:
        """A frame left: how far each of its partitions was sent. True: there is more, so flush once more."""
        outgoing = self._outgoing.get(peer)
        if outgoing is not None:
            for name, next_offset in sent:
                if name in self._partitions:
                    outgoing.on_sent(name, next_offset, self._partitions[name].end)
        return outgoing is not None and bool(outgoing.dirty) and outgoing.has_leave

    def flush(self, effects: list[Effect]) -> None:
        """Sends what is new, to each as far as it gave leave. Followers that stand at the same place share a frame."""
        for outgoing in self._outgoing.values():
            if outgoing.dirty or outgoing.verdicts:
                self._stream(outgoing, effects)

    def _stream(self, outgoing: Outgoing, effects: list[Effect]) -> None:
        if outgoing.verdicts:
            outgoing.frame += 1
            verdicts, outgoing.verdicts = outgoing.verdicts, []
            effects.append(SendFrame([(outgoing.peer, outgoing.frame)], [], verdicts))
        while outgoing.dirty and outgoing.has_leave:
            # Until the driver says how far it got, the stream is where it was.
            wanted = [self._wanted(name, outgoing.sent[name]) for name in outgoing.next_names()]
            last = effects[-1] if effects else None
            if isinstance(last, SendFrame) and last.wanted == wanted:
                last.to.append((outgoing.peer, outgoing.frame))
            else:
                effects.append(SendFrame([(outgoing.peer, outgoing.frame)], wanted, []))

    def _wanted(self, name: TopicPartition, offset: int) -> Wanted:
        partition = self._partitions[name]
        place = (name, partition.state.epoch, offset, partition.end, partition.high, partition.start)
        return tuple.__new__(Wanted, place)

"""The follower's side of replication: what this broker copies from others that lead.

A partition is *wished for* with a time; at that time, if its leader is alive and connected, a stream is asked for from
where the log ends. Whatever breaks the stream (another leader, a cut log, a gap) drops it and wishes for it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from octoloom.core.broker_effects import Dial, Effect, Fault, HangUp, Reset, SendDurable, SendFollow, Trim, Truncate
from octoloom.core.log_messages import BrokerAddress, Follow, Part, TopicPartition
from octoloom.core.partition import BatchPlace, Partition
from octoloom.core.replication import Incoming


class Following:
    def __init__(self, node: str, partitions: Mapping[TopicPartition, Partition], refollow_ms: int) -> None:
        self._node = node
        self._partitions = partitions
        self._refollow_ms = refollow_ms
        self._incoming: dict[str, Incoming] = {}
        self._wishes: dict[TopicPartition, int] = {}
        self._brokers: dict[str, BrokerAddress] = {}
        self._effects: list[Effect] = []

    def wish(self, name: TopicPartition, at: int) -> None:
        """Have a stream of this partition from its leader, from `at` on."""
        self._wishes[name] = at

    def drop(self, name: TopicPartition) -> None:
        """Take nothing more of this partition from anybody, and do not cut its log any more to agree with anybody."""
        self._wishes.pop(name, None)
        if self._effects:
            cuts = (Truncate, Reset, Trim)
            self._effects = [each for each in self._effects if not (isinstance(each, cuts) and each.name == name)]
        for incoming in self._incoming.values():
            incoming.drop(name)

    def on_brokers(self, now: int, brokers: dict[str, BrokerAddress]) -> None:
        """Nobody follows a broker that is given up; one that is back is followed again."""
        for peer in [peer for peer in self._incoming if peer not in brokers]:
            del self._incoming[peer]
            self._effects.append(HangUp(peer))
        for name, partition in self._partitions.items():
            if partition.leader in brokers and partition.leader not in self._brokers:
                self.wish(name, now)
        self._brokers = dict(brokers)

    def on_leader_up(self, now: int, peer: str) -> None:
        incoming = self._incoming.get(peer)
        if incoming is not None:
            incoming.up = True
            for name, partition in self._partitions.items():
                if partition.leader == peer:
                    self.wish(name, now)

    def on_leader_down(self, peer: str) -> None:
        incoming = self._incoming.get(peer)
        if incoming is not None:
            incoming.on_down()

    def on_part(self, now: int, peer: str, part: Part, batches: Sequence[BatchPlace]) -> bool:
        """One part of a frame. True: its batches are to be written, as they are, at the end of the log."""
        name = (part.topic, part.partition)
        partition, incoming = self._partitions.get(name), self._incoming.get(peer)
        if partition is None or incoming is None or partition.leader != peer or name not in incoming.asked:
            return False
        if part.epoch != partition.state.epoch:
            # One of an older epoch may come late, on the connection on which the leader was asked anew.
            return False
        if part.verdict:
            self._on_verdict(now, partition, part)
            return False
        if part.offset != partition.end:
            self.drop(name)
            self.wish(name, now)
            return False
        partition.append(batches, part.high)
        if part.start > partition.start:
            self._effects.append(Trim(name, part.start))
        return bool(batches)

    def on_frame(self, peer: str, frame: int, parts: Iterable[Part]) -> None:
        """All parts of a frame were told; its acknowledgement goes out when they are durable."""
        incoming = self._incoming.get(peer)
        if incoming is None:
            return
        taken = []
        for part in parts:
            name = (part.topic, part.partition)
            partition = self._partitions.get(name)
            if partition is not None and name in incoming.asked and not part.verdict and part.size:
                taken.append((name, part.epoch, partition.end))
        incoming.on_frame(frame, taken)

    def _on_verdict(self, now: int, partition: Partition, part: Part) -> None:
        name = partition.name
        self.drop(name)
        if part.verdict == "refused":
            # The leader has not heard of its epoch yet, or we have not of a newer one.
            self.wish(name, now + self._refollow_ms)
        elif part.verdict == "diverged":
            place = partition.cut_at(part)
            if place is not None:
                self._effects.append(Truncate(name, place))
        elif part.offset < partition.high and partition.end > partition.start:
            partition.faulty = f"{name[0]}-{name[1]}: its leader has lost records that are committed here"
        else:
            self._effects.append(Reset(name, part.offset))
        if partition.faulty:
            self._effects.append(Fault(name, partition.faulty))

    def deadline(self) -> int | None:
        return min(self._wishes.values()) if self._wishes else None

    def flush(self, now: int, effects: list[Effect]) -> None:
        """Asks for the streams that are due, and acknowledges what has become durable."""
        effects += self._effects
        self._effects.clear()
        if self._wishes:
            self._follow(now, effects)
        for incoming in self._incoming.values():
            durable = incoming.durable(self._partitions) if incoming.pending else None
            if durable is not None:
                effects.append(SendDurable(incoming.peer, durable))

    def _follow(self, now: int, effects: list[Effect]) -> None:
        """Asks for the streams that are wanted and not asked for yet."""
        entries: dict[str, list[Partition]] = {}
        for name in [name for name, at in self._wishes.items() if at <= now]:
            del self._wishes[name]
            partition = self._partitions[name]
            leader = partition.leader
            if leader not in self._brokers:
                continue
            incoming = self._incoming.get(leader)
            if incoming is None:
                self._incoming[leader] = Incoming(leader)
                effects.append(Dial(leader))
            elif incoming.up:
                incoming.on_asked(partition)
                entries.setdefault(leader, []).append(partition)
        for leader, partitions in entries.items():
            follow = Follow(self._node, [partition.follow_entry() for partition in partitions])
            effects.append(SendFollow(leader, follow))

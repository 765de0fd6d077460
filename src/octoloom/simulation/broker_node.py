"""A simulated broker: its core on the world's clock and network, and logs on a disk that outlives a crash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from octoloom.core import broker_effects as do
from octoloom.core.broker import Broker, BrokerConfig
from octoloom.core.log_messages import (
    Aborted,
    AdminDone,
    Allotted,
    Announced,
    BrokerAddress,
    BrokerBeat,
    Durable,
    EnlistBroker,
    Follow,
    Heard,
    InSyncRefused,
    LogDirectory,
    LogNews,
    Part,
    ProposeInSync,
    TopicPartition,
)
from octoloom.core.standing import DIAL_TRIES, Standing
from octoloom.simulation.log_disk import LogDisk, SimBatch, SimLog, SimPlace
from octoloom.simulation.log_requests import Fetch, Fetched, Frames, Produce, Produced
from octoloom.simulation.network import Channel

if TYPE_CHECKING:
    from octoloom.simulation.log_cluster import LogCluster

BEAT_MS = 100
RETRY_MS = 60
SYNC_MS = (1, 12)
SLOW_SYNC_MS = (60, 250)
FRAME_BATCHES = 4


@dataclass(slots=True)
class Unanswered:
    channel: Channel
    request: Produce
    offset: int
    epoch: int


class BrokerNode:
    def __init__(self, cluster: LogCluster, disk: LogDisk, label: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.disk = disk
        self.label = label
        disk.incarnation += 1
        self.name = f"{label}#{disk.incarnation}"
        self.alive, self.paused, self.slow = True, False, False
        self.leaving = False
        self.damaged = list(disk.damaged)
        self.core = Broker(BrokerConfig(self.name, lag_ms=cluster.lag_ms, high_ms=40, refollow_ms=30))
        self.standing = Standing()
        self.logs: dict[TopicPartition, SimLog] = {}
        self.register: Channel | None = None
        self.leaders: dict[str, Channel] = {}
        self.followers: dict[str, Channel] = {}
        self._waiting: dict[int, Unanswered] = {}
        self._ticket = 0
        self._ticking = False
        self._syncing = False
        self._timer: int | None = None
        self._dialling: dict[str, None] = {}
        self._wanted: dict[str, None] = {}
        self._sync_ends: dict[TopicPartition, int] = {}
        self._call_register()

    # Life.

    def crash(self) -> None:
        self.world.tell(self.name, "dies")
        self.alive = False
        self.cluster.network.crash(self)
        self.disk.crash(self.world.dice)

    def resume(self) -> None:
        self.world.tell(self.name, "goes on")
        self.paused = False
        self.cluster.network.release()
        self._tick_soon()
        if self._syncing:
            self._on_synced()
        self._beat()

    def leave(self) -> None:
        self.leaving = True
        if self.register is not None:
            self.register.send(self, "leave")

    # Connections.

    def _call_register(self) -> None:
        if self.alive and self.register is None:
            self.register = self.cluster.network.dial(self, self.cluster.register, "register")

    def on_open(self, channel: Channel) -> None:
        if channel is self.register:
            address = BrokerAddress(self.name, "sim", 1, self.disk.storage)
            channel.send(self, EnlistBroker(address, max(self.core.revision, 0), self.damaged))
            self._beat()
            if self.leaving:
                self.leave()
        elif channel.purpose == "follow" and channel.ends[0] is self:
            peer = channel.other(self).name
            self._dialling.pop(peer, None)
            if peer not in self._wanted:
                channel.close(self)
                return
            self.leaders[peer] = channel
            self.core.following.on_leader_up(self.world.now, peer)
            self._tick_soon()
        elif channel.purpose == "follow":
            peer = channel.other(self).name
            if peer in self.followers:
                self.followers[peer].close(self)
                self.core.streaming.on_follower_down(peer)
            self.followers[peer] = channel

    def on_close(self, channel: Channel) -> None:
        peer = channel.other(self).name
        if channel is self.register:
            self.register = None
            if channel.open:
                self.standing.on_lost()
            else:
                self.standing.on_try(self.world.now, DIAL_TRIES)
            self.world.after(RETRY_MS, self._call_register)
        elif channel.purpose == "follow" and channel.ends[0] is self:
            self._dialling.pop(peer, None)
            if self.leaders.get(peer) is channel:
                del self.leaders[peer]
                self.core.following.on_leader_down(peer)
            if peer in self._wanted:
                self.world.after(RETRY_MS, self._dial, peer)
        elif channel.purpose == "follow" and self.followers.get(peer) is channel:
            del self.followers[peer]
            self.core.streaming.on_follower_down(peer)
        self._tick_soon()

    def _dial(self, peer: str) -> None:
        if self.alive and peer in self._wanted and peer not in self.leaders and peer not in self._dialling:
            self._dialling[peer] = None
            if self.cluster.network.dial(self, self.cluster.brokers.get(peer), "follow") is None:
                self._dialling.pop(peer)

    def _beat(self) -> None:
        if self.alive and not self.paused and self.register is not None:
            self._beat_of(self.register)

    def _beat_of(self, channel: Channel) -> None:
        if self.register is channel and self.alive and not self.paused:
            self.standing.on_try(self.world.now)
            channel.send(self, BrokerBeat(self.world.now))
            self.world.after(BEAT_MS, self._beat_of, channel)

    def on_data(self, channel: Channel, data: object) -> None:
        now = self.world.now
        self.cluster.checker.on_asked(self)
        match data:
            case LogDirectory():
                self.disk.damaged.clear()  # the register has heard of it
                self.core.on_directory(now, data)
            case LogNews():
                self.core.on_news(now, data)
            case Announced():
                self.core.on_announced(now, data)
            case Aborted():
                self.core.on_aborted(now, data)
            case InSyncRefused():
                self.core.on_refused(now, data)
            case Heard(sent_at, lease_ms):
                self.standing.on_heard(sent_at, lease_ms)
            case Allotted() | AdminDone():
                pass
            case Follow():
                self.core.streaming.on_follow(now, data.broker, data)
            case Durable():
                if not self.core.streaming.on_follower_durable(now, channel.other(self).name, data):
                    return
            case Frames():
                self._on_frame(channel, data)
            case Produce():
                self._on_produce(channel, data)
            case Fetch():
                self._on_fetch(channel, data)
        self._tick_soon()

    # Requests.

    def _on_produce(self, channel: Channel, request: Produce) -> None:
        partition = self.core.partitions.get(request.name)
        if partition is None:
            channel.send(self, Produced(request.number, 3, -1, self.name, -1))
            return
        admission = partition.admit(
            len(request.tokens), request.producer, request.epoch, request.sequence, request.acks
        )
        epoch = partition.state.epoch
        if admission.error:
            channel.send(self, Produced(request.number, admission.error, -1, self.name, epoch))
            return
        if not admission.duplicate:
            place = SimPlace(
                admission.base_offset,
                admission.next_offset,
                epoch,
                request.producer,
                request.epoch,
                request.sequence,
            )
            log = self.logs[request.name]
            if self.disk.full:
                self.core.on_tail(self.world.now, request.name, log.tail(), failed=True)
                channel.send(self, Produced(request.number, 56, -1, self.name, epoch))
                return
            log.append(SimBatch(place, request.tokens))
            self.core.on_admitted(request.name)
        self._ticket += 1
        self._waiting[self._ticket] = Unanswered(channel, request, admission.base_offset, epoch)
        self.core.wait(request.name, admission.next_offset, self._ticket)
        self._sync_soon()

    def _on_fetch(self, channel: Channel, request: Fetch) -> None:
        partition = self.core.partitions.get(request.name)
        error = partition.leads() if partition is not None else 3
        if partition is None or error:
            channel.send(self, Fetched(request.name, error, (), -1, 0))
        elif request.offset < partition.start:
            channel.send(self, Fetched(request.name, 1, (), partition.high, partition.start))
        else:
            batches = tuple(self.logs[request.name].read(request.offset, partition.high, 5))
            channel.send(self, Fetched(request.name, 0, batches, partition.high, partition.start))

    def _on_frame(self, channel: Channel, frame: Frames) -> None:
        peer, now = channel.other(self).name, self.world.now
        for part, carried in zip(frame.parts, frame.batches, strict=True):
            name = (part.topic, part.partition)
            if self.core.following.on_part(now, peer, part, [batch.place for batch in carried]):
                if self.disk.full:
                    self.core.on_tail(now, name, self.logs[name].tail(), failed=True)
                    continue
                for batch in carried:
                    self.logs[name].append(batch)
        self.core.following.on_frame(peer, frame.number, frame.parts)
        self._sync_soon()

    # The disk.

    def _sync_soon(self) -> None:
        if not self._syncing:
            self._syncing = True
            self._sync_ends = {name: len(log.batches) for name, log in self.logs.items()}
            sync_ms = SLOW_SYNC_MS if self.disk.slow else SYNC_MS
            self.world.after(self.world.dice.randint(*sync_ms), self._on_synced)

    def _on_synced(self) -> None:
        if not self.alive or self.paused or not self._syncing:
            return
        self._syncing = False
        for name, count in self._sync_ends.items():
            log = self.logs.get(name)
            if log is not None:
                log.synced = max(log.synced, count)
                self.core.on_durable(name, log.durable)
        if any(log.synced < len(log.batches) for log in self.logs.values()):
            self._sync_soon()
        self._tick_soon()

    # Ticks.

    def _tick_soon(self) -> None:
        if not self._ticking:
            self._ticking = True
            self.world.after(0, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if not self.alive or self.paused:
            return
        more = False
        for effect in self.core.flush(self.world.now):
            if self.cluster.faults.strikes(self):
                return
            more |= self._obey(effect)
        if more:
            self._tick_soon()
        deadline = self.core.deadline()
        if deadline is not None and (self._timer is None or deadline < self._timer or self._timer <= self.world.now):
            self._timer = deadline
            self.world.at(deadline, self._on_time, deadline)

    def _on_time(self, deadline: int) -> None:
        if self.alive and not self.paused and self._timer == deadline:
            self._timer = None
            self.core.on_time(self.world.now)
            self._tick_soon()

    def _obey(self, effect: do.Effect) -> bool:
        match effect:
            case do.Open(name, info):
                log = self.disk.logs.setdefault((name[0], info.number, name[1]), SimLog())
                self.logs[name] = log
                self.core.on_tail(self.world.now, name, log.tail())
                return True
            case do.Close(name, info):
                self.logs.pop(name, None)
                self.disk.logs.pop((name[0], info.number, name[1]), None)
            case do.Truncate(name, offset) | do.Reset(name, offset):
                self._cut(name, offset, isinstance(effect, do.Reset))
                return True
            case do.Trim():
                pass
            case do.Dial(peer):
                self._wanted[peer] = None
                self._dial(peer)
            case do.HangUp(peer):
                self._wanted.pop(peer, None)
                if peer in self.leaders:
                    self.leaders.pop(peer).close(self)
            case do.SendFollow(peer, follow):
                if peer in self.leaders:
                    self.leaders[peer].send(self, follow)
            case do.SendDurable(peer, durable):
                if peer in self.leaders:
                    self.leaders[peer].send(self, durable)
            case do.SendFrame():
                return self._send_frame(effect)
            case do.Acknowledge(answers):
                self._acknowledge(answers)
            case do.Report(message):
                if isinstance(message, ProposeInSync):
                    self.cluster.checker.on_proposed(message)
                if self.register is not None:
                    self.register.send(self, message)
            case do.Moved(names):
                for name in names:
                    self.logs[name].high = self.core.partitions[name].high
                    self.cluster.checker.on_high(self, name)
            case do.LeadershipTaken(name, epoch):
                self.world.tell(self.name, "leads {} in epoch {} from {}", name, epoch, self.core.partitions[name].end)
            case do.LeadershipLost():
                pass
            case do.Fault(_, text):
                self.cluster.checker.on_fault(self, text)
        return False

    def _cut(self, name: TopicPartition, offset: int, reset: bool) -> None:
        log = self.logs[name]
        self.world.tell(self.name, "cuts {} from {} to {}", name, log.end, offset)
        if reset:
            log.reset(offset)
        else:
            log.truncate(offset)
        self._sync_ends.pop(name, None)  # a sync that runs says nothing about what comes after the cut
        self.cluster.checker.on_cut(name)
        self.core.on_tail(self.world.now, name, log.tail())

    def _send_frame(self, effect: do.SendFrame) -> bool:
        more = [self._send_frame_to(peer, number, effect) for peer, number in effect.to]
        return any(more)

    def _send_frame_to(self, peer: str, number: int, effect: do.SendFrame) -> bool:
        parts, sent = list(effect.verdicts), []
        carried: list[list[SimBatch]] = [[] for _ in effect.verdicts]
        for wanted in effect.wanted:
            count = self.world.dice.randint(1, FRAME_BATCHES)
            batches = self.logs[wanted.name].read(wanted.offset, wanted.before, count)
            size, offset = len(batches), wanted.offset
            parts.append(Part(*wanted.name, wanted.epoch, offset, size, wanted.high, wanted.start))
            carried.append(batches)
            sent.append((wanted.name, batches[-1].place.next_offset if batches else offset))
        if peer in self.followers:
            self.followers[peer].send(self, Frames(number, parts, carried))
        return self.core.streaming.on_sent(peer, sent)

    def _acknowledge(self, answers: list[tuple[int, int]]) -> None:
        for ticket, error in answers:
            waiting = self._waiting.pop(ticket)
            request = waiting.request
            if not error:
                self.cluster.checker.on_acknowledged(self, request, waiting.offset, waiting.epoch)
            waiting.channel.send(self, Produced(request.number, error, waiting.offset, self.name, waiting.epoch))

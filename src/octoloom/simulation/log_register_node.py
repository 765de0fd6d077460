"""The simulated register's part for topics: its core on the world's clock and network, and a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octoloom.core.log_messages import Admin, AdminDone, BrokerBeat, EnlistBroker
from octoloom.core.log_register import LogConfig, LogRegister
from octoloom.core.log_saved import Counters, Decline, LogEffect, LogSaved, Persist, Tell, TellAll
from octoloom.simulation.network import Channel

if TYPE_CHECKING:
    from octoloom.simulation.log_cluster import LogCluster


class LogRegisterNode:
    name = "register"

    def __init__(self, cluster: LogCluster, config: LogConfig) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.config = config
        self.alive, self.paused, self.slow = True, False, False
        self.disk = LogSaved(Counters(), {}, {}, {}, {})
        self.core = LogRegister(config, self.disk, self.world.now)
        self._channels: dict[str, Channel] = {}
        self._timer = 0

    def crash(self) -> None:
        self.alive = False
        self.cluster.network.crash(self)
        self._channels.clear()

    def restart(self) -> None:
        self.alive = True
        self.core = LogRegister(self.config, self.disk, self.world.now)
        self._arm()

    def on_open(self, channel: Channel) -> None:
        pass

    def on_close(self, channel: Channel) -> None:
        for broker, mine in list(self._channels.items()):
            if mine is channel:
                del self._channels[broker]
                self._obey(self.core.on_closed(self.world.now, broker))

    def on_data(self, channel: Channel, message: object) -> None:
        broker, now = channel.other(self).name, self.world.now
        if isinstance(message, EnlistBroker):
            self._channels[broker] = channel
            self._obey(self.core.on_enlist(now, broker, message))
        elif self._channels.get(broker) is not channel:
            return  # the broker has a newer connection, or was declined
        elif isinstance(message, BrokerBeat):
            self._obey(self.core.on_beat(now, broker, message.sent_at))
        elif message == "leave":
            self._obey(self.core.on_leave(now, broker))
        else:
            effects = self.core.on_message(now, broker, message)  # type: ignore[arg-type]
            if isinstance(message, Admin):
                saved = [effect.counters.revision for effect in effects if isinstance(effect, Persist)]
                self.cluster.checker.on_admin(message.ticket, saved[0] if saved else None)
            self._obey(effects)

    def _obey(self, effects: list[LogEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Persist):
                self._save(effect)
            elif isinstance(effect, TellAll):
                for channel in list(self._channels.values()):
                    channel.send(self, effect.message)
            elif isinstance(effect, Tell):
                if isinstance(effect.message, AdminDone):
                    self.cluster.checker.on_admin_done(effect.message)
                if effect.broker in self._channels:
                    self._channels[effect.broker].send(self, effect.message)
            elif isinstance(effect, Decline) and effect.broker in self._channels:
                self._channels.pop(effect.broker).close(self)
        self._arm()

    def _save(self, step: Persist) -> None:
        old = self.disk
        topics = {name: info for name, info in {**old.topics, **step.topics}.items() if info is not None}
        partitions = {n: state for n, state in {**old.partitions, **step.partitions}.items() if state is not None}
        identities = {**old.identities, **step.identities}
        brokers = old.brokers if step.brokers is None else dict(step.brokers)
        self.disk = LogSaved(step.counters, identities, brokers, topics, partitions)
        for place, state in step.partitions.items():
            if state is not None:
                self.cluster.checker.on_decided(place, state)
                self.cluster.faults.on_decided(state)
                self.world.tell(
                    "register", "{} epoch {} leader {} in sync {}", place, state.epoch, state.leader, state.in_sync
                )

    def _arm(self) -> None:
        deadline = self.core.deadline()
        if deadline is not None and deadline != self._timer:
            self._timer = deadline
            self.world.at(deadline, self._on_time, deadline)

    def _on_time(self, deadline: int) -> None:
        if self.alive and not self.paused and deadline == self._timer:
            self._timer = 0
            self._obey(self.core.on_time(self.world.now))

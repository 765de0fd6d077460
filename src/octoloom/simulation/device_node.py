"""A simulated device or observer: its core over all its lives, and the disk that it keeps, loses or rolls back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from octoloom.core import device_effects as device_effect
from octoloom.core import device_messages as say
from octoloom.core.device import DeviceCore, Phase
from octoloom.simulation.disk import Disk
from octoloom.simulation.network import Channel

if TYPE_CHECKING:
    from octoloom.simulation.cluster import Cluster


class DeviceNode:
    """One device, or an observer if it has no name, over all its lives."""

    def __init__(self, cluster: Cluster, device: str, space: str, number: int, store: Disk | None = None) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.device = device
        self.space = space
        self.name = (device or f"observer{number}") + "'" * cluster.twins_of(device)
        self.alive, self.paused, self.slow = True, False, False
        self.store = store or Disk()
        self.backups: list[Disk] = []
        self.life = 0
        self.rolled_back = store is not None
        """An older copy of its store was used: what it did is settled once, but no longer in the order it was done."""
        self.wiped_after: list[int] = []
        """The last action before each loss of its store."""
        self._last_action = 0
        self.actions: dict[int, str] = {}
        """Ticket → token, of this life."""
        self._channel: Channel | None = None
        self._target = ""
        self._timer = 0
        self._start()

    def _start(self) -> None:
        self.alive = True
        self.life += 1
        self.actions = {}
        self.core = DeviceCore(self.space, self.device, saved=self.store.load())
        self._target = ""
        self._timer = 0  # the last life's goes off for nobody
        self._dial(self.life)

    def crash(self) -> None:
        self.world.tell(self.name, "dies")
        self.alive = False
        self.cluster.network.crash(self)
        self._channel = None

    def restart(self, how: str) -> None:
        """Come back with the store, without it, or with an older copy of it."""
        if how == "wiped":
            self.store = Disk()
            self.wiped_after.append(self._last_action)
        elif how == "older" and self.backups:
            self.store = self.world.dice.choice(self.backups).copy()
            self.rolled_back = True
        self.world.tell(self.name, "comes back, store: {}", how)
        self._start()

    def clone(self) -> DeviceNode:
        """The same device a second time, with a copy of the store as it is now, or as it was."""
        source = self.world.dice.choice([self.store, *self.backups])
        self.rolled_back = True
        return DeviceNode(self.cluster, self.device, self.space, 0, source.without_queue())

    def drop_connection(self) -> None:
        if self._channel is not None:
            self._channel.reset()

    def act(self, name: str, payload: bytes, token: str) -> bool:
        """Do something, unless the device is dead or full."""
        if not self.alive or self.core.phase is Phase.STOPPED:
            return False
        try:
            ticket, effects = self.core.act(name, payload)
        except device_effect.Full:
            return False
        self.actions[ticket] = token
        self._last_action = int(token.rpartition(".")[2])
        self._obey(effects)
        return True

    # The network.

    def _dial(self, life: int) -> None:
        if not self.alive or life != self.life or self._channel is not None or self.core.phase is Phase.STOPPED:
            return
        link = self.cluster.links.get(self._target) or self.cluster.any_link()
        self._target = ""
        self._channel = self.cluster.network.dial(self, link, "device")
        if self._channel is None:
            self._redial()  # there is no link at all, for now

    def _redial(self) -> None:
        self.world.after(self.world.dice.randrange(10, 120), self._dial, self.life)

    def on_open(self, channel: Channel) -> None:
        if channel is self._channel:
            self.world.tell(self.name, "calls {}", channel.other(self).name)
            self._obey(self.core.on_connected(self.world.now))
        else:
            channel.close(self)

    def on_data(self, channel: Channel, message: say.ToDevice) -> None:
        if channel is self._channel:
            self._obey(self.core.on_message(self.world.now, message))

    def on_close(self, channel: Channel) -> None:
        if channel is self._channel:
            self._channel = None
            self._obey(self.core.on_disconnected(self.world.now))
            self._redial()

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close(self)
            self._channel = None
        self._redial()

    def _obey(self, effects: list[device_effect.Effect]) -> None:
        handlers: dict[type, Callable[[Any], None]] = {
            device_effect.Persist: self._persist,
            device_effect.Send: self._send,
            device_effect.Settled: lambda each: self.cluster.checker.on_settled(self, each),
            device_effect.Advanced: lambda _: self.cluster.checker.on_advanced(self),
            device_effect.Reset: lambda each: self.cluster.checker.on_reset(self, each.generation),
            device_effect.Dial: self._dial_elsewhere,
            device_effect.Hangup: lambda _: self._hang_up(),
            device_effect.Stopped: lambda each: self.cluster.checker.on_stopped(self, each),
        }
        for each in effects:
            if self.cluster.faults.strikes(self):
                return
            handlers[type(each)](each)
        self._arm()

    def _persist(self, persist: device_effect.Persist) -> None:
        self.store.commit(persist)
        if self.device and self.world.dice.random() < 0.1:
            self.backups.append(self.store.copy())

    def _send(self, send: device_effect.Send) -> None:
        if self._channel is not None:
            self._channel.send(self, send.message)

    def _dial_elsewhere(self, dial: device_effect.Dial) -> None:
        if self._channel is not None:
            self._channel.close(self)
            self._channel = None
        self._target = dial.url
        self.world.after(1, self._dial, self.life)

    def _arm(self) -> None:
        deadline = self.core.deadline()
        if deadline is not None and (self._timer <= self.world.now or deadline < self._timer):
            self._timer = max(deadline, self.world.now + 1)
            self.world.at(self._timer, self._on_time, self.life)

    def _on_time(self, life: int) -> None:
        if self.alive and life == self.life:
            self._obey(self.core.on_time(self.world.now))

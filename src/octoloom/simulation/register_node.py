"""The simulated register: its core on the world's clock and network, and a disk that outlives a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octoloom.core import register as register_core
from octoloom.core.register_messages import (
    Adopted,
    Beat,
    Directory,
    Enlist,
    Leave,
    Ready,
    Suspect,
    ToRegister,
    Whole,
)
from octoloom.simulation.network import Channel

if TYPE_CHECKING:
    from octoloom.simulation.cluster import Cluster


class RegisterNode:
    """The register on its disk: a crash loses everything but what it had persisted."""

    name = "register"

    def __init__(self, cluster: Cluster, config: register_core.RegisterConfig) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.config = config
        self.alive, self.paused, self.slow = True, False, False
        self.disk: Directory | None = None
        self.core = register_core.Register(config, None, self.world.now)
        self._channels: dict[str, Channel] = {}
        self._timer = 0

    def crash(self) -> None:
        self.alive = False
        self.cluster.network.crash(self)
        self._channels.clear()

    def restart(self) -> None:
        self.alive = True
        self.core = register_core.Register(self.config, self.disk, self.world.now)
        self._arm()

    def on_open(self, channel: Channel) -> None:
        pass

    def on_close(self, channel: Channel) -> None:
        for link, mine in list(self._channels.items()):
            if mine is channel:
                del self._channels[link]
                self._obey(self.core.on_closed(self.world.now, link))

    def on_data(self, channel: Channel, message: ToRegister) -> None:
        link, now = channel.other(self).name, self.world.now
        if isinstance(message, Enlist):
            self._channels[link] = channel
            self._obey(self.core.on_enlist(now, link, message))
        elif isinstance(message, Beat):
            self._obey(self.core.on_beat(now, link))
        elif isinstance(message, Ready):
            self._obey(self.core.on_ready(now, link, message))
        elif isinstance(message, Whole):
            self._obey(self.core.on_whole(now, link, message))
        elif isinstance(message, Adopted):
            self._obey(self.core.on_adopted(now, link, message))
        elif isinstance(message, Suspect):
            self._obey(self.core.on_suspect(now, link, message))
        elif isinstance(message, Leave):
            self._obey(self.core.on_leave(now, link))

    def _obey(self, effects: list[register_core.Effect]) -> None:
        for each in effects:
            if isinstance(each, register_core.Persist):
                self.disk = each.directory
                self.cluster.on_view(each.directory)
            elif isinstance(each, register_core.Announce):
                for channel in list(self._channels.values()):
                    channel.send(self, each.directory)
            elif isinstance(each, register_core.Tell):
                self._channels[each.link].send(self, each.directory)
            elif each.ends and each.link in self._channels:
                self._channels.pop(each.link).close(self)
        self._arm()

    def _arm(self) -> None:
        deadline = self.core.deadline()
        if deadline is not None and deadline != self._timer:
            self._timer = deadline
            self.world.at(deadline, self._on_time, deadline)

    def _on_time(self, deadline: int) -> None:
        if self.alive and not self.paused and deadline == self._timer:
            self._timer = 0
            self._obey(self.core.on_time(self.world.now))

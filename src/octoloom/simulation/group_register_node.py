"""The simulated register of groups: its core on the world's clock and network, and a disk that outlives a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octoloom.core.group_messages import EnlistMember, LeaveGroup, MemberToRegister, SetOrder, SuspectMember
from octoloom.core.group_register import GroupRegister, GroupRegisterConfig
from octoloom.core.group_saved import Announce, GroupEffect, GroupsSaved, Persist, Tell
from octoloom.core.register_messages import Beat
from octoloom.simulation.network import Channel

if TYPE_CHECKING:
    from octoloom.simulation.group_world import GroupWorld


class GroupRegisterNode:
    name = "register"

    def __init__(self, cluster: GroupWorld, config: GroupRegisterConfig) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.config = config
        self.alive, self.paused, self.slow = True, False, False
        self.disk = GroupsSaved()
        self.core = GroupRegister(config, None, self.world.now)
        self._channels: dict[str, Channel] = {}
        self._timer = 0

    def crash(self) -> None:
        self.world.tell(self.name, "dies")
        self.alive = False
        self.cluster.network.crash(self)
        self._channels.clear()

    def restart(self) -> None:
        self.world.tell(self.name, "is back")
        self.alive = True
        self.core = GroupRegister(self.config, self.disk, self.world.now)
        self._arm()

    def resume(self) -> None:
        self.paused = False
        self.cluster.network.release()
        self._timer = 0
        self._arm()

    def on_open(self, channel: Channel) -> None:
        pass

    def on_close(self, channel: Channel) -> None:
        for member, mine in list(self._channels.items()):
            if mine is channel:
                del self._channels[member]
                self._obey(list(self.core.on_closed(self.world.now, self.cluster.group, member)))

    def on_data(self, channel: Channel, message: MemberToRegister | Beat) -> None:
        member, now, group = channel.other(self).name, self.world.now, self.cluster.group
        effects: list[GroupEffect] = []
        match message:
            case EnlistMember():
                self._channels[member] = channel
                effects += self.core.on_enlist(now, message)
            case Beat():
                effects += self.core.on_beat(now, group, member)
            case LeaveGroup():
                effects += self.core.on_leave(now, group, member)
            case SetOrder():
                effects += self.core.on_set_order(now, group, member, message)
            case SuspectMember():
                self.world.tell(member, "suspects {} in {}", message.member, message.epoch)
                effects += self.core.on_suspect(now, group, member, message)
        self._obey(effects)

    def _obey(self, effects: list[GroupEffect]) -> None:
        for each in [*effects, *self.core.flush(self.world.now)]:
            if isinstance(each, Persist):
                self.disk = self.disk.after(each)
            elif isinstance(each, Announce):
                self.world.tell(self.name, "view {}: {} {}", each.view.epoch, each.view.names, each.view.order)
                for member in each.view.names:
                    if member in self._channels:
                        self._channels[member].send(self, each.view)
            elif isinstance(each, Tell):
                if each.member in self._channels:
                    self._channels[each.member].send(self, each.view)
            elif each.ends and each.member in self._channels:
                self.world.tell(self.name, "declines {}: {}", each.member, each.code)
                channel = self._channels.pop(each.member)
                channel.send(self, each)
                channel.close(self)
        self._arm()

    def _arm(self) -> None:
        deadline = self.core.deadline()
        if deadline is not None and deadline != self._timer:
            self._timer = deadline
            self.world.at(deadline, self._on_time, deadline)

    def _on_time(self, deadline: int) -> None:
        if self.alive and not self.paused and deadline == self._timer:
            self._timer = 0
            self._obey(list(self.core.on_time(self.world.now)))

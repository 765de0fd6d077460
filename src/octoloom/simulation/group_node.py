"""A simulated member: its core on the world's clock and network, and an app that keeps a list of all it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from octoloom.core import group_effects as effect
from octoloom.core.errors import ProtocolError
from octoloom.core.group import GroupMember
from octoloom.core.group_messages import EnlistMember, GroupView, LeaveGroup, MemberAddress, Packet, Part, SetOrder
from octoloom.core.group_saved import Decline
from octoloom.core.register_messages import Beat
from octoloom.simulation.network import Channel

if TYPE_CHECKING:
    from octoloom.simulation.group_world import GroupWorld

REDIAL_MS = 40


class GroupNode:
    """One incarnation of a member."""

    def __init__(self, cluster: GroupWorld, label: str, incarnation: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.label = label
        self.name = f"{label}#{incarnation}"
        self.alive, self.paused, self.slow = True, False, False
        self.leaving = False
        self.core = GroupMember(cluster.group, self.name, cluster.settings)
        self.state: list[str] = []
        """The app: all that it was given, and sent, in order."""
        self._register: Channel | None = None
        self._turn_due = False
        self._timer = 0
        self._sent = 0
        self._dial_register()

    # Life and death.

    def crash(self, why: str = "dies") -> None:
        self.world.tell(self.name, why)
        self.alive = False
        self.cluster.network.crash(self)

    def resume(self) -> None:
        self.paused = False
        self.world.tell(self.name, "goes on")
        self.cluster.network.release()
        self.cluster.datagrams.release(self)
        self.stir()

    def leave(self) -> None:
        self.leaving = True
        self.world.tell(self.name, "leaves")
        if self._register is not None:
            self._register.send(self, LeaveGroup())

    # The register.

    def _dial_register(self) -> None:
        if self.alive:
            self._register = self.cluster.network.dial(self, self.cluster.register, "register")

    def _beat(self, channel: Channel) -> None:
        if self.alive and channel is self._register:
            if not self.paused:
                channel.send(self, Beat())
            self.world.after(self.cluster.register.config.beat_ms, self._beat, channel)

    def on_open(self, channel: Channel) -> None:
        view = self.core.view
        epoch = view.epoch if view is not None else 0
        order = self.cluster.first_order if epoch == 0 and self.cluster.brand_new() else ""
        channel.send(self, EnlistMember(self.cluster.group, MemberAddress(self.name, self.name), order, epoch))
        if self.leaving:
            channel.send(self, LeaveGroup())
        self.world.after(self.cluster.register.config.beat_ms, self._beat, channel)

    def on_close(self, channel: Channel) -> None:
        if channel is self._register:
            self._register = None
            self.world.after(REDIAL_MS, self._dial_register)

    def on_data(self, channel: Channel, message: GroupView | Decline) -> None:
        if channel is not self._register:
            return
        if isinstance(message, Decline):
            self.cluster.on_expelled(self)
            return
        self.core.on_view(self.world.now, message)
        self.stir()

    def switch(self, order: str) -> None:
        if self._register is not None:
            self.world.tell(self.name, "asks for order {}", order)
            self._register.send(self, SetOrder(order))

    # The app.

    def send(self, plain: bool = False) -> None:
        if self.core.expelled:
            return
        self._sent += 1
        payload = f"{self.name}:{self._sent}"
        self.cluster.checker.on_app_sent(self, payload, plain)
        self.core.send(self.world.now, payload.encode(), plain=plain)
        self.stir()

    def send_to(self, other: str) -> None:
        if self.core.knows(other) and other != self.name and not self.core.expelled:
            self._sent += 1
            payload = f"{self.name}:{self._sent}"
            self.cluster.checker.on_direct_sent(self.name, other, payload)
            self.core.send_to(self.world.now, other, payload.encode())
            self.stir()

    # Turns.

    def on_datagram(self, packet: Packet) -> None:
        if packet.to != self.name:
            return
        try:
            self.core.on_packet(self.world.now, packet.sender, packet.parts)
        except ProtocolError as error:
            if error.code != "not-a-member":
                raise
        self.stir()

    def stir(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self.world.after(0 if self.world.dice.random() < 0.7 else self.world.dice.randrange(3), self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        if not self.alive or self.paused:
            return
        packets: dict[str, list[Part]] = {}
        for each in self.core.flush(self.world.now):
            if self.cluster.faults.strikes(self):
                break  # it dies with the rest of its effects undone
            self._obey(each, packets)
        for member, parts in packets.items():
            self.cluster.datagrams.send(self, member, Packet(self.cluster.group, self.name, member, parts))
        if self.alive:
            self._arm()

    def _obey(self, each: effect.Effect, packets: dict[str, list[Part]]) -> None:
        checker = self.cluster.checker
        match each:
            case effect.ToMembers(members, part):
                checker.on_said(self, part)
                for member in members:
                    packets.setdefault(member, []).append(part)
            case effect.Deliver():
                checker.on_delivered(self, each)
                self._react()
            case effect.DeliverDirect(sender, payload):
                checker.on_direct(sender, self.name, payload.decode())
            case effect.InstallView():
                self.world.tell(self.name, "installs view {}: {}", each.view.epoch, each.view.names)
                checker.on_installed(self, each)
            case effect.NeedState(epoch, members):
                self.core.give_state(self.world.now, epoch, members, msgspec.msgpack.encode(self.state))
                self.stir()
            case effect.TakeState(payload):
                self.state = msgspec.msgpack.decode(payload, type=list[str]) if payload is not None else []
                checker.on_state(self)
            case effect.Dropped(bundles):
                checker.on_dropped(self, [bundle.payload.decode() for bundle in bundles])
            case effect.Complain(message):
                if self._register is not None:
                    self._register.send(self, message)
            case effect.Expelled(_, unsure):
                checker.on_expelled(self, [bundle.payload.decode() for bundle in unsure])
                self.cluster.on_expelled(self)

    def _react(self) -> None:
        """Now and then the app answers what it was given."""
        busy = len(self.cluster.checker.said) > 300  # answers to answers must come to an end
        if self.world.dice.random() < self.cluster.answers and self.world.now < self.cluster.until_ms and not busy:
            self.send()

    def _arm(self) -> None:
        deadline: Any = self.core.deadline()
        if deadline is None:
            return
        deadline = max(deadline, self.world.now + 1)
        if self._timer <= self.world.now or deadline < self._timer:
            self._timer = deadline
            self.world.at(deadline, self._on_time)

    def _on_time(self) -> None:
        if self.alive and not self.paused:
            self.stir()

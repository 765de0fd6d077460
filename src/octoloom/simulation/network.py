"""Connections between nodes: bytes arrive in order or not at all, late or never, like TCP.

A cut between two nodes holds what is under way; when it heals, old messages arrive, however old they are, or the
connection turns out to be reset. A paused node hears nothing until it goes on; then it hears everything at once. What
a crashed node had sent still arrives; then the other side learns that the connection is gone.
"""

from __future__ import annotations

from typing import Any, Protocol

from octoloom.simulation.world import World

DELAY_MS = (1, 6)
SLOW_DELAY_MS = (30, 150)
DIAL_TIMEOUT_MS = 300


class Node(Protocol):
    name: str
    alive: bool
    paused: bool
    slow: bool

    def on_open(self, channel: Channel) -> None: ...
    def on_data(self, channel: Channel, data: Any) -> None: ...
    def on_close(self, channel: Channel) -> None: ...


class Channel:
    """One connection. `purpose` says what it is for, `ends` are the dialler and the one who was called."""

    __slots__ = ("_arrivals", "_held", "closed", "ends", "network", "number", "open", "purpose")

    def __init__(self, network: Network, number: int, caller: Node, called: Node, purpose: str) -> None:
        self.network = network
        self.number = number
        self.purpose = purpose
        self.ends = (caller, called)
        self.open = False
        self.closed = [False, False]
        self._arrivals = [0, 0]
        self._held: list[tuple[int, str, Any]] = []

    def other(self, node: Node) -> Node:
        return self.ends[1] if node is self.ends[0] else self.ends[0]

    def send(self, sender: Node, data: Any) -> None:
        if self.open and not self.closed[self.ends.index(sender)]:
            self._carry(sender, "data", data)

    def close(self, closer: Node) -> None:
        """End it; the other side learns of it after all that was sent before."""
        side = self.ends.index(closer)
        if self.open and not self.closed[side]:
            self.closed[side] = True
            self._carry(closer, "close", None)

    def _carry(self, sender: Node, kind: str, data: Any) -> None:
        """Data arrives in order, each piece after a delay of its own."""
        network, to = self.network, 1 - self.ends.index(sender)
        arrival = max(network.world.now + network.delay(*self.ends), self._arrivals[to])
        self._arrivals[to] = arrival
        network.world.at(arrival, self._arrive, to, kind, data)

    def _arrive(self, to: int, kind: str, data: Any) -> None:
        receiver, sender = self.ends[to], self.ends[1 - to]
        if self.closed[to] or not receiver.alive:
            return
        if self._held or receiver.paused or self.network.is_cut(receiver.name, sender.name):
            self._held.append((to, kind, data))
            self.network.waiting[self.number] = self
        elif kind == "data":
            receiver.on_data(self, data)
        else:
            self.closed[to] = True
            receiver.on_close(self)

    def release(self) -> None:
        """Try to deliver what was held back."""
        held, self._held = self._held, []
        for to, kind, data in held:
            self._arrive(to, kind, data)

    def reset(self) -> None:
        """Both sides lose the connection, and with it what was under way."""
        self._held.clear()
        for to, node in enumerate(self.ends):
            if not self.closed[to]:
                self.closed[to] = True
                if node.alive:
                    node.on_close(self)


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self.cuts: dict[tuple[str, str], None] = {}
        self.waiting: dict[int, Channel] = {}
        self.channels: dict[int, Channel] = {}
        self._count = 0

    def delay(self, one: Node, other: Node) -> int:
        low, high = SLOW_DELAY_MS if one.slow or other.slow else DELAY_MS
        return low + int(self.world.dice.random() * (high - low + 1))

    def is_cut(self, one: str, other: str) -> bool:
        return bool(self.cuts) and ((one, other) in self.cuts or (other, one) in self.cuts)

    def dial(self, caller: Node, called: Node | None, purpose: str) -> Channel | None:
        """Call a node; the caller hears `on_open`, or `on_close` if nobody answers. None if there is no such node."""
        if called is None:
            return None
        self._count += 1
        channel = Channel(self, self._count, caller, called, purpose)
        self.world.after(self.delay(caller, called), self._answer, channel)
        return channel

    def _answer(self, channel: Channel) -> None:
        caller, called = channel.ends
        if self.is_cut(caller.name, called.name):
            self.world.after(DIAL_TIMEOUT_MS, self._unanswered, channel)
        elif not called.alive:
            self._unanswered(channel)
        elif caller.alive and not channel.closed[0]:
            channel.open = True
            self.channels[channel.number] = channel
            called.on_open(channel)
            caller.on_open(channel)

    @staticmethod
    def _unanswered(channel: Channel) -> None:
        if channel.ends[0].alive and not channel.closed[0]:
            channel.closed = [True, True]
            channel.ends[0].on_close(channel)

    def crash(self, node: Node) -> None:
        """The node is gone; what it had sent is still under way, and then its connections end."""
        for channel in self.of(node):
            channel.close(node)

    def cut(self, one: str, other: str) -> None:
        self.cuts[one, other] = None

    def heal(self, one: str, other: str, reset: bool) -> None:
        """Connect two nodes again; their old connections go on with all that they held, or turn out to be reset."""
        self.cuts.pop((one, other), None)
        for channel in list(self.channels.values()):
            if {channel.ends[0].name, channel.ends[1].name} == {one, other} and reset:
                channel.reset()
        self.release()

    def release(self) -> None:
        waiting, self.waiting = self.waiting, {}
        for channel in waiting.values():
            channel.release()

    def of(self, node: Node) -> list[Channel]:
        self.channels = {n: c for n, c in self.channels.items() if not (c.closed[0] and c.closed[1])}
        return [channel for channel in self.channels.values() if node in channel.ends]

"""Datagrams between nodes: each is lost, doubled or overtaken as the dice say; or none is, as over TCP.

A cut between two nodes swallows what they say. A paused node hears what came meanwhile when it goes on, up to what a
socket's buffer holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from octoloom.simulation.network import Network

BUFFER_MAX = 200


class Hearer(Protocol):
    name: str
    alive: bool
    paused: bool
    slow: bool

    def on_datagram(self, data: Any) -> None: ...


class Datagrams:
    def __init__(self, network: Network, find: Callable[[str], Hearer | None]) -> None:
        self._network = network
        self._world = network.world
        self._find = find
        dice = self._world.dice
        self.lossy = dice.random() < 0.7
        self.loss = dice.choice([0.01, 0.05, 0.2]) if self.lossy else 0.0
        self._arrivals: dict[tuple[str, str], int] = {}
        self._held: dict[str, list[Any]] = {}

    def send(self, sender: Hearer, to: str, data: Any) -> None:
        dice = self._world.dice
        if self.lossy and dice.random() < self.loss:
            return
        self._carry(sender, to, data)
        if self.lossy and dice.random() < 0.03:
            self._carry(sender, to, data)

    def _carry(self, sender: Hearer, to: str, data: Any) -> None:
        dice = self._world.dice
        arrival = self._world.now + 1 + int(dice.random() * (60 if sender.slow else 6))
        if self.lossy and dice.random() < 0.05:
            arrival += int(dice.random() * 100)
        if not self.lossy:
            arrival = self._arrivals[sender.name, to] = max(arrival, self._arrivals.get((sender.name, to), 0))
        self._world.at(arrival, self._arrive, sender.name, to, data)

    def _arrive(self, sender: str, to: str, data: Any) -> None:
        receiver = self._find(to)
        if receiver is None or not receiver.alive or self._network.is_cut(sender, to):
            return
        if receiver.paused:
            held = self._held.setdefault(to, [])
            if len(held) < BUFFER_MAX:
                held.append(data)
        else:
            receiver.on_datagram(data)

    def release(self, node: Hearer) -> None:
        """The node goes on, and finds what came meanwhile."""
        for data in self._held.pop(node.name, []):
            if node.alive:
                node.on_datagram(data)

"""Simulated datagrams: lost, doubled and overtaken, or none of it, as over TCP."""

from __future__ import annotations

from typing import Any

from octoloom.simulation.datagrams import BUFFER_MAX, Datagrams
from octoloom.simulation.network import Network
from octoloom.simulation.world import World


class Party:
    def __init__(self, name: str) -> None:
        self.name = name
        self.alive, self.paused, self.slow = True, False, False
        self.heard: list[Any] = []

    def on_datagram(self, data: Any) -> None:
        self.heard.append(data)


class Air:
    """Two parties, and a wire of the kind that is wanted."""

    def __init__(self, loss: float | None, seed: int = 1) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.ada, self.bob = Party("ada"), Party("bob")
        parties = {party.name: party for party in (self.ada, self.bob)}
        self.datagrams = Datagrams(self.network, parties.get)
        self.datagrams.lossy, self.datagrams.loss = loss is not None, loss or 0.0

    def say(self, count: int, to: str = "bob") -> None:
        for number in range(count):
            self.datagrams.send(self.ada, to, number)
            self.world.run(self.world.now + 1)

    def run(self) -> list[Any]:
        self.world.run(self.world.now + 1_000)
        return self.bob.heard


def test_without_loss_all_arrive_once_and_in_order() -> None:
    for seed in range(5):
        air = Air(None, seed)
        air.ada.slow = seed % 2 == 0
        air.say(300)
        assert air.run() == list(range(300))


def test_with_loss_some_are_lost_doubled_and_overtaken() -> None:
    air = Air(0.2)
    air.say(1_000)
    heard = air.run()
    assert 700 < len(set(heard)) < 900
    assert len(heard) > len(set(heard))
    assert heard != sorted(heard)
    assert set(heard) < set(range(1_000))


def test_the_same_seed_is_the_same_history() -> None:
    histories = []
    for seed in (3, 3, 4):
        air = Air(0.2, seed)
        air.say(200)
        histories.append(air.run())
    assert histories[0] == histories[1] != histories[2]


def test_both_kinds_of_wire_are_drawn() -> None:
    kinds = [Datagrams(Network(World(seed)), lambda name: None) for seed in range(60)]
    assert {kind.lossy for kind in kinds} == {True, False}
    assert {kind.loss for kind in kinds if kind.lossy} == {0.01, 0.05, 0.2}
    assert {kind.loss for kind in kinds if not kind.lossy} == {0.0}


def test_nobody_hears_what_crosses_a_cut_or_comes_to_the_dead() -> None:
    air = Air(None)
    air.network.cut("ada", "bob")
    air.say(5)
    assert air.run() == []
    air.network.heal("ada", "bob", reset=False)
    air.say(2)
    assert air.run() == [0, 1]
    air.say(3, to="nobody")
    air.bob.alive = False
    air.say(3)
    assert air.run() == [0, 1]


def test_who_is_paused_hears_it_when_it_goes_on_up_to_what_a_buffer_holds() -> None:
    air = Air(None)
    air.bob.paused = True
    air.say(BUFFER_MAX + 50)
    assert air.run() == []
    air.bob.paused = False
    air.datagrams.release(air.bob)
    assert air.bob.heard == list(range(BUFFER_MAX))
    air.datagrams.release(air.bob)
    assert len(air.bob.heard) == BUFFER_MAX


def test_who_dies_of_what_it_hears_hears_no_more() -> None:
    air = Air(None)
    air.bob.paused = True
    air.say(5)
    air.run()

    def hear(data: Any) -> None:
        air.bob.heard.append(data)
        air.bob.alive = data < 2

    air.bob.on_datagram = hear  # type: ignore[method-assign]
    air.datagrams.release(air.bob)
    assert air.bob.heard == [0, 1, 2]

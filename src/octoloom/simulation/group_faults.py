"""What goes wrong in a group: deaths (two at once, or in mid-turn), hangs, cuts, leaves, joins, switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octoloom.simulation.group_node import GroupNode

if TYPE_CHECKING:
    from octoloom.simulation.group_world import GroupWorld

ORDERS = ("none", "fifo", "causal", "total")


class GroupFaults:
    def __init__(self, cluster: GroupWorld) -> None:
        self._cluster = cluster
        self._world = cluster.world
        dice = self._world.dice
        self._calm = dice.random() < 0.1
        self._strike_chance = dice.choice([0.0, 0.0, 0.0005, 0.002])
        self._over = False
        kinds = [
            (self._crash, 3),
            (self._crash_coordinator, 3),
            (self._crash_two, 2),
            (self._hang, 3),
            (self._cut, 3),
            (self._cut_off_register, 1),
            (self._leave, 2),
            (self._join, 3),
            (self._switch, 2),
            (self._crash_register, 1),
            (self._slow, 1),
        ]
        # Each history knows some kinds of faults only, so that rare ones get their turn.
        self._kinds = [kind for kind, weight in kinds for _ in range(weight) if dice.random() < 0.6]
        if not self._calm:
            self._world.after(dice.randrange(100, 600), self._strike)

    def end(self) -> None:
        self._over = True

    def strikes(self, node: GroupNode) -> bool:
        """Whether this node dies now, in the middle of its effects."""
        if self._over or not self._strike_chance or self._world.dice.random() >= self._strike_chance:
            return False
        node.crash("dies in mid-sentence")
        self._cluster.on_crash(node)
        return True

    def _strike(self) -> None:
        dice = self._world.dice
        if self._over:
            return
        if self._kinds:
            dice.choice(self._kinds)()
        self._world.after(dice.choice([20, 150, 600]) + dice.randrange(100), self._strike)

    def _any(self) -> GroupNode | None:
        nodes = self._cluster.living()
        return self._world.dice.choice(nodes) if nodes else None

    def _coordinator(self) -> GroupNode | None:
        for node in self._cluster.living():
            if node.core.view is not None and node.core.view.names[0] == node.name:
                return node
        return None

    def _kill(self, node: GroupNode | None) -> None:
        if node is not None:
            node.crash()
            self._cluster.on_crash(node)

    def _crash(self) -> None:
        self._kill(self._any())

    def _crash_coordinator(self) -> None:
        self._kill(self._coordinator())

    def _crash_two(self) -> None:
        self._kill(self._coordinator())
        self._world.after(self._world.dice.randrange(0, 150), self._crash_coordinator)

    def _hang(self) -> None:
        dice = self._world.dice
        node = self._coordinator() if dice.random() < 0.5 else self._any()
        if node is not None and not node.paused:
            self._world.tell(node.name, "hangs")
            node.paused = True
            self._world.after(dice.choice([30, 300, 1500]), self._go_on, node)

    @staticmethod
    def _go_on(node: GroupNode) -> None:
        if node.alive and node.paused:
            node.resume()

    def _cut(self) -> None:
        nodes, dice = self._cluster.living(), self._world.dice
        if len(nodes) > 1:
            one, other = dice.sample(nodes, 2)
            self._cut_between(one.name, other.name)

    def _cut_off_register(self) -> None:
        if node := self._any():
            self._cut_between(node.name, "register")

    def _cut_between(self, one: str, other: str) -> None:
        network, dice = self._cluster.network, self._world.dice
        self._world.tell("network", "cut between {} and {}", one, other)
        network.cut(one, other)
        self._world.after(dice.choice([50, 300, 1500]), network.heal, one, other, dice.random() < 0.5)

    def _leave(self) -> None:
        if node := self._any():
            node.leave()

    def _join(self) -> None:
        self._cluster.join()

    def _switch(self) -> None:
        if node := self._any():
            node.switch(self._world.dice.choice(ORDERS))

    def _crash_register(self) -> None:
        register = self._cluster.register
        if register.alive:
            register.crash()
            self._world.after(self._world.dice.choice([50, 600]), self._restart_register)

    def _restart_register(self) -> None:
        if not self._cluster.register.alive:
            self._cluster.register.restart()

    def _slow(self) -> None:
        if node := self._any():
            node.slow = not node.slow

    def heal(self) -> None:
        """Everything that was broken is mended."""
        self.end()
        cluster = self._cluster
        self._restart_register()
        for one, other in list(cluster.network.cuts):
            cluster.network.heal(one, other, reset=False)
        for node in cluster.living():
            node.slow = False
            self._go_on(node)

"""A simulated ordered group, with its register: one seed, one history."""

from __future__ import annotations

from octoloom.core.group_register import GroupRegisterConfig
from octoloom.core.group_settings import GroupSettings
from octoloom.simulation.datagrams import Datagrams
from octoloom.simulation.group_checkers import GroupChecker
from octoloom.simulation.group_faults import ORDERS, GroupFaults
from octoloom.simulation.group_node import GroupNode
from octoloom.simulation.group_register_node import GroupRegisterNode
from octoloom.simulation.network import Network
from octoloom.simulation.world import World

UNTIL_MS = 1_300
LOOKS_MS = (1_900, 3_000, 6_000, 20_000)


class GroupWorld:
    group = "room"
    until_ms = UNTIL_MS

    def __init__(self, world: World) -> None:
        self.world = world
        self.network = Network(world)
        dice = world.dice
        self.datagrams = Datagrams(self.network, self.find)
        self.first_order = dice.choice(ORDERS)
        self.answers = dice.choice([0.0, 0.1, 0.25])
        idle_ms = dice.choice([100, 100, 300])
        self.settings = GroupSettings(
            retry_ms=dice.choice([20, 60]),
            nak_ms=dice.choice([8, 20]),
            gossip_ms=dice.choice([5, 20, 60]),
            idle_ms=idle_ms,
            patience_ms=idle_ms * dice.choice([5, 9]),
            kept_bytes_max=dice.choice([150, 100_000]),
            cast_bytes_max=dice.choice([1, 40, 100_000]),
            failover=dice.choice(["resend", "resend", "drop"]),
            wants_state=dice.random() < 0.5,
        )
        config = GroupRegisterConfig(
            beat_ms=50,
            lease_ms=dice.choice([300, 800]),
            closed_grace_ms=dice.choice([10, 80]),
            suspect_ms=dice.choice([100, 300]),
        )
        self.checker = GroupChecker(self)
        self.register = GroupRegisterNode(self, config)
        self.nodes: dict[str, GroupNode] = {}
        self._incarnations: dict[str, int] = {}
        self.faults = GroupFaults(self)
        for _ in range(dice.choice([2, 3, 3, 4])):
            self.join()
        for label in list(self._incarnations):
            world.after(100, self._play, label, dice.choice([15, 40, 100]))

    # Members.

    def brand_new(self) -> bool:
        return not self.checker.views

    def find(self, name: str) -> GroupNode | None:
        return self.nodes.get(name)

    def living(self) -> list[GroupNode]:
        return [node for node in self.nodes.values() if node.alive and not node.leaving]

    def join(self) -> None:
        """Somebody new, or somebody who was here before under the same name."""
        taken = [node.label for node in self.living()]
        free = [label for label in ("ada", "bob", "cyd", "dan", "eve") if label not in taken]
        if free:
            label = self.world.dice.choice(free)
            self.start(label)

    def start(self, label: str) -> None:
        if any(node.label == label for node in self.living()):
            return
        incarnation = self._incarnations[label] = self._incarnations.get(label, 0) + 1
        node = GroupNode(self, label, incarnation)
        self.nodes[node.name] = node
        self.world.tell(node.name, "joins")

    def on_crash(self, node: GroupNode) -> None:
        if self.world.dice.random() < 0.7:
            self.world.after(self.world.dice.choice([5, 100, 500]), self.start, node.label)

    def on_expelled(self, node: GroupNode) -> None:
        """It cannot go on; its process comes back as somebody new."""
        if node.alive:
            node.crash("has left" if node.leaving else "is out")
            if not node.leaving:
                self.world.after(self.world.dice.choice([5, 100]), self.start, node.label)

    # Play.

    def _play(self, label: str, pause_ms: int) -> None:
        dice = self.world.dice
        if self.world.now > UNTIL_MS:
            return
        self.world.after(1 + int(dice.random() * 2 * pause_ms), self._play, label, pause_ms)
        node = next((node for node in self.living() if node.label == label and not node.paused), None)
        if node is None or node.core.congested:
            return
        if dice.random() < 0.1:
            node.send_to(dice.choice(list(self.nodes)))
        else:
            for _ in range(dice.choice([1, 1, 3])):
                node.send(plain=dice.random() < 0.1)

    def settle(self) -> None:
        """Look again and again, for not everything settles at once; the last look counts."""
        self.world.run(UNTIL_MS)
        self.world.tell("world", "no more faults")
        self.faults.heal()
        self.checker.check_history()
        for look in LOOKS_MS:
            self.world.run(look)
            try:
                self.checker.check_settled(self.living())
            except AssertionError:
                if look == LOOKS_MS[-1]:
                    raise
            else:
                break
        self.checker.check_history()


def simulate(seed: int, transcript: list[str] | None) -> GroupWorld:
    cluster = GroupWorld(World(seed, transcript))
    cluster.settle()
    return cluster

"""The faults that befall a simulated cluster of brokers, drawn from the seed.

Any broker may crash at any step, all of them at once too: what was acknowledged is on disks. A disk is lost or damaged
only while the register counts on another one that holds everything: two lost disks of two are a loss that nobody can
make good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from octoloom.core.log_messages import DropTopic, GrowTopic, MakeTopic, PartitionState, TopicPartition
from octoloom.core.roster import name_of
from octoloom.simulation.broker_node import BrokerNode
from octoloom.simulation.log_disk import LogDisk

if TYPE_CHECKING:
    from octoloom.simulation.log_cluster import LogCluster

FROM_MS = 300
UNTIL_MS = 2_000


class LogFaults:
    def __init__(self, cluster: LogCluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.strike: dict[str, None] = {}
        """Brokers that die between two of their next effects."""
        self._ambushes: list[Callable[[BrokerNode], None]] = []
        """What happens to leaders right behind the register's next decisions."""
        self._made = 0

    def strikes(self, node: BrokerNode) -> bool:
        if not node.alive:
            return True
        if node.name in self.strike:
            del self.strike[node.name]
            self._crash(node)
            return True
        return False

    def plan(self) -> None:
        dice = self.world.dice
        deaths = [
            self._crash_any,
            self._crash_leader,
            self._crash_leader,
            self._strike,
            self._crash_all,
            self._ambush,
        ]
        sleep = [self._pause_leader, self._pause_any, self._crash_leader]
        network = [
            self._cut,
            self._cut,
            self._cut_register,
            self._isolate,
            self._crash_register,
            self._slow,
            self._reset,
            self._ambush,
        ]
        disks = [
            self._damage,
            self._damage_and_crash,
            self._wipe,
            self._fill,
            self._stall,
            self._crash_leader,
            self._crash_register,
        ]
        changes = [self._leave, self._make_topic, self._grow_topic, self._drop_topic, self._crash_any, self._stall]
        everything = [*deaths, *sleep, *network, *disks, *changes]
        themes = [
            deaths,
            deaths + network,
            sleep + network,
            network,
            disks + deaths,
            disks,
            changes + deaths,
            everything,
        ]
        chosen = dice.choice(themes)
        for _ in range(dice.choice([0, 3, 6, 12, 20])):
            self.world.at(dice.randrange(FROM_MS, UNTIL_MS), dice.choice(chosen))

    # Brokers.

    def _any(self) -> BrokerNode | None:
        awake = [node for node in self.cluster.brokers.values() if node.alive and not node.paused]
        return self.world.dice.choice(awake) if awake else None

    def _leader(self) -> BrokerNode | None:
        states = list(self.cluster.register.disk.partitions.values())
        node = self.cluster.brokers.get(self.world.dice.choice(states).leader) if states else None
        return node if node and node.alive and not node.paused else None

    def _crash(self, node: BrokerNode | None, restart_ms: int = 0) -> None:
        if node is not None and node.alive:
            node.crash()
            delay = restart_ms or self.world.dice.choice([20, 100, 400, 1200])
            self.world.after(delay, self.cluster.start_broker, node.label)

    def _crash_any(self) -> None:
        self._crash(self._any())

    def _crash_leader(self) -> None:
        self._crash(self._leader())

    def _crash_all(self) -> None:
        for node in list(self.cluster.brokers.values()):
            self._crash(node)

    def _ambush(self) -> None:
        """The leader dies, or is cut off, or all die, when the register has decided and nobody has heard of it yet."""
        deeds: list[Callable[[BrokerNode], None]] = [self._crash, self._isolate_node, lambda _: self._crash_all()]
        self._ambushes.append(self.world.dice.choice(deeds))

    def on_decided(self, state: PartitionState) -> None:
        leader = self.cluster.brokers.get(state.leader)
        if self._ambushes and leader is not None and leader.alive and not leader.paused:
            self.world.after(0, self._ambushes.pop(), leader)

    def _strike(self) -> None:
        if (node := self._any()) is not None:
            self.strike[node.name] = None

    def _pause_any(self) -> None:
        self._pause(self._any())

    def _pause_leader(self) -> None:
        self._pause(self._leader())

    def _pause(self, node: BrokerNode | None) -> None:
        if node is not None:
            self.world.tell(node.name, "hangs")
            node.paused = True
            self.world.after(self.world.dice.choice([100, 600, 1500]), self._resume, node)

    def _resume(self, node: BrokerNode) -> None:
        if node.alive and node.paused:
            node.resume()

    def _leave(self) -> None:
        if (node := self._any()) is not None and not node.leaving:
            node.leave()
            self.world.after(self.world.dice.choice([100, 500]), self._crash, node, 200)

    def _slow(self) -> None:
        if (node := self._any()) is not None:
            node.slow = True
            self.world.after(1500, setattr, node, "slow", False)

    # The network.

    def _cut(self) -> None:
        names = [node.name for node in self.cluster.brokers.values() if node.alive]
        names += [client.name for client in (*self.cluster.producers, *self.cluster.consumers)]
        if len(names) >= 2:
            self._cut_pair(*self.world.dice.sample(names, 2))

    def _cut_register(self) -> None:
        if (node := self._leader() or self._any()) is not None:
            self._cut_pair(node.name, "register")

    def _isolate(self) -> None:
        if (leader := self._leader()) is not None:
            self._isolate_node(leader)

    def _isolate_node(self, leader: BrokerNode) -> None:
        """A leader is cut off from the register and from all other brokers, but not from its clients."""
        self._cut_pair(leader.name, "register")
        for node in list(self.cluster.brokers.values()):
            if node.alive and node is not leader:
                self._cut_pair(leader.name, node.name)

    def _cut_pair(self, one: str, other: str) -> None:
        self.world.tell("network", "cut between {} and {}", one, other)
        self.cluster.network.cut(one, other)
        dice = self.world.dice
        self.world.after(dice.choice([150, 700, 1500]), self._heal, one, other, dice.random() < 0.5)

    def _heal(self, one: str, other: str, reset: bool) -> None:
        self.world.tell("network", "healed between {} and {}", one, other)
        self.cluster.network.heal(one, other, reset)

    def _reset(self) -> None:
        node = self._any()
        channels = self.cluster.network.of(node) if node else []
        if channels:
            self.world.dice.choice(channels).reset()

    def _crash_register(self) -> None:
        if self.cluster.register.alive:
            self.world.tell("register", "dies")
            self.cluster.register.crash()
            self.world.after(self.world.dice.choice([60, 500, 1500]), self._restart_register)

    def _restart_register(self) -> None:
        if not self.cluster.register.alive:
            self.world.tell("register", "comes back")
            self.cluster.register.restart()

    # Disks.

    def _expendable(self, node: BrokerNode) -> bool:
        """Does the register count on another broker, alive, for all that this disk may hold?

        What it is about to decide, or decides before it hears of this one's end, may name this one alone: then its
        disk is the only copy that counts.
        """
        register = self.cluster.register
        unheard = node.slow or self.cluster.network.is_cut(node.name, "register")
        if unheard or not register.alive or register.core.transition_runs:
            return False
        for name, state in register.disk.partitions.items():
            if not any(name_of(member) == node.label for member in state.in_sync):
                continue
            leads = [broker.core.partitions[name].leading for broker in self._holding(name)]
            proposals = [leading.proposal for leading in leads if leading and leading.proposal]
            if not all(self._stands_without(node, members) for members in [state.in_sync, *proposals]):
                return False
        return True

    def _holding(self, name: TopicPartition) -> list[BrokerNode]:
        return [broker for broker in self.cluster.brokers.values() if name in broker.core.partitions]

    def _stands_without(self, node: BrokerNode, members: list[str]) -> bool:
        others = [self.cluster.brokers.get(member) for member in members if name_of(member) != node.label]
        return any(other is not None and other.alive for other in others)

    def _damage(self) -> None:
        node = self._any()
        if node is not None and self._expendable(node):
            node.crash()
            node.disk.damage(self.world.dice)
            self.world.tell(node.name, "has damaged logs: {}", node.disk.damaged)
            self.world.after(self.world.dice.choice([20, 400]), self.cluster.start_broker, node.label)

    def _damage_and_crash(self) -> None:
        """All others are whole and gone when the damaged one comes back."""
        self._damage()
        self._crash_all()

    def _wipe(self) -> None:
        node = self._any()
        if node is not None and self._expendable(node):
            node.crash()
            self.world.tell(node.name, "has lost its disk")
            old = self.cluster.disks[node.label]
            disk = self.cluster.disks[node.label] = LogDisk(f"{old.storage}+")
            disk.incarnation = disk.lost_with = old.incarnation
            self.world.after(self.world.dice.choice([20, 400]), self.cluster.start_broker, node.label)

    def _stall(self) -> None:
        """A disk takes long to sync, connections are lost over it, and sometimes the power as well."""
        if (node := self._any()) is not None:
            self.world.tell(node.name, "has a slow disk")
            node.disk.slow = True
            self.world.after(800, setattr, node.disk, "slow", False)
            self.world.after(self.world.dice.randrange(50), self._reset_all, node)
            if self.world.dice.random() < 0.5:
                self.world.after(self.world.dice.randrange(50, 500), self._crash_all)

    def _reset_all(self, node: BrokerNode) -> None:
        for channel in self.cluster.network.of(node):
            if channel.purpose == "follow":
                channel.reset()

    def _fill(self) -> None:
        if (node := self._any()) is not None:
            self.world.tell(node.name, "has a full disk")
            node.disk.full = True
            self.world.after(self.world.dice.choice([100, 800]), setattr, node.disk, "full", False)

    # Topics.

    def _make_topic(self) -> None:
        self._made += 1
        partitions = self.world.dice.randint(1, 3)
        self.cluster.ask(MakeTopic(0, f"more{self._made}", partitions=partitions), self._any())

    def _grow_topic(self) -> None:
        self.cluster.ask(GrowTopic(0, "moves", partitions=self.world.dice.randint(2, 4)), self._any())

    def _drop_topic(self) -> None:
        self.cluster.ask(DropTopic(0, f"more{self._made}"), self._any())

    def stop(self) -> None:
        self.strike.clear()
        self._ambushes.clear()
        self.world.tell("world", "no more faults")
        for disk in self.cluster.disks.values():
            disk.full = disk.slow = False
        for node in list(self.cluster.brokers.values()):
            self._resume(node)
            node.slow = False
        self._restart_register()
        for one, other in list(self.cluster.network.cuts):
            self._heal(one, other, reset=False)

"""A simulated cluster of brokers with producers and consumers: one seed, one history."""

from __future__ import annotations

import msgspec

from octoloom.core.log_messages import Admin, ConfigureTopic, MakeTopic, TopicPartition
from octoloom.core.log_register import LogConfig
from octoloom.simulation.broker_node import BrokerNode
from octoloom.simulation.log_checkers import LogChecker
from octoloom.simulation.log_client_nodes import ConsumerNode, ProducerNode
from octoloom.simulation.log_disk import LogDisk, SimLog
from octoloom.simulation.log_faults import UNTIL_MS, LogFaults
from octoloom.simulation.log_register_node import LogRegisterNode
from octoloom.simulation.network import Network
from octoloom.simulation.world import Broken, World

LOOKS_MS = (2_600, 3_200, 4_500, 8_000, 24_000)


class LogCluster:
    def __init__(self, world: World) -> None:
        self.world = world
        self.network = Network(world)
        dice = world.dice
        self.lag_ms = dice.choice([200, 500, 2000])
        self.staleness = dice.choice([0.1, 0.7])
        """How often clients rely on what they know."""
        self.checker = LogChecker(self)
        self.faults = LogFaults(self)
        config = LogConfig(
            partitions=dice.choice([1, 1, 2]),
            replicas=3,
            in_sync_min=dice.choice([1, 2]),
            lease_ms=dice.choice([400, 1000]),
            closed_grace_ms=dice.choice([20, 100]),
            answer_ms=300,
            form_ms=dice.choice([0, 200]),
            balance_ms=dice.choice([60, 700, 3000]),
        )
        self.register = LogRegisterNode(self, config)
        self.disks: dict[str, LogDisk] = {}
        self.brokers: dict[str, BrokerNode] = {}
        for number in range(1, dice.choice([2, 3, 3, 4]) + 1):
            label = f"b{number}"
            self.disks[label] = LogDisk(f"disk-{number}")
            self.start_broker(label)
        self.producers = [ProducerNode(self, f"p{n}", 100 + n) for n in range(dice.choice([1, 2]))]
        self.consumers = [ConsumerNode(self, f"c{n}") for n in range(dice.choice([1, 2]))]
        self._sent = self._tickets = 0
        world.at(40, self._make)
        self._settings_ms = dice.choice([0, 40, 150])
        if self._settings_ms:
            world.at(200, self._configure)
        for producer in self.producers:
            world.after(100, self._play, producer, dice.choice([15, 40, 100]))

    def start_broker(self, label: str) -> None:
        self.brokers = {name: node for name, node in self.brokers.items() if node.alive}
        if not any(node.label == label for node in self.brokers.values()):
            node = BrokerNode(self, self.disks[label], label)
            self.brokers[node.name] = node

    def logs_of(self, broker: str) -> dict[TopicPartition, SimLog]:
        node = self.brokers.get(broker)
        return node.logs if node is not None and node.alive else {}

    def any_broker(self) -> str:
        return self.world.dice.choice(list(self.brokers)) if self.brokers else ""

    def _make(self) -> None:
        """Asks for the topic until it is there."""
        if "moves" not in self.register.disk.topics and self.world.now < UNTIL_MS:
            for node in self.brokers.values():
                if node.alive and len(node.core.brokers) >= min(2, len(self.disks)):
                    self.ask(MakeTopic(0, "moves", replicas=min(3, len(node.core.brokers))), node)
                    break
            self.world.after(50, self._make)

    def _configure(self) -> None:
        """Somebody keeps changing a topic's settings, through any broker, with more patience or less."""
        dice = self.world.dice
        if self.world.now < UNTIL_MS:
            put = {"retention.ms": str(self.world.now)}
            message = ConfigureTopic(0, "moves", put, timeout_ms=dice.choice([100, 10_000]))
            self.ask(message, self.brokers.get(self.any_broker()))
            self.world.after(1 + int(dice.random() * 2 * self._settings_ms), self._configure)

    def ask(self, message: Admin, via: BrokerNode | None) -> None:
        """Asks something of topics, under a ticket that nobody else has."""
        self._tickets += 1
        if via is not None and via.alive and not via.paused and via.register is not None:
            via.register.send(via, msgspec.structs.replace(message, ticket=self._tickets))

    def _play(self, producer: ProducerNode, pause_ms: int) -> None:
        dice = self.world.dice
        if self.world.now < UNTIL_MS + 300:
            self.world.after(1 + int(dice.random() * 2 * pause_ms), self._play, producer, pause_ms)
            places = list(self.register.disk.partitions)
            if places:
                self._sent += 1
                count = dice.choice([1, 1, 2, 5])
                tokens = tuple(f"{producer.name}.{self._sent}.{number}" for number in range(count))
                producer.send(dice.choice(places), tokens)


def simulate(seed: int, transcript: list[str] | None = None) -> World:
    """Play one history; raises `Broken` if a promise is broken."""
    world = World(seed, transcript)
    cluster = LogCluster(world)
    cluster.faults.plan()
    world.run(UNTIL_MS)
    cluster.faults.stop()
    for look_ms in LOOKS_MS:
        world.run(look_ms)
        try:
            cluster.checker.at_rest()
        except Broken:
            if look_ms == LOOKS_MS[-1]:
                raise
        else:
            break
    return world

"""A register and brokers as real processes, each on a host of its own, with Kafka's own clients around them.

Producers and consumers are librdkafka: idempotent, all replicas, as many in flight as it likes. What they were told is
written down, and compared with what is in the topic at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from octoloom.runtime.processes import PARENT
from tests.chaos.netns import Net
from tests.waiting import PATIENCE_S, until

PORT = 9092
REGISTER_PORT = 7070
TOPIC = "moves"
QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}
"""Clients complain about every death, and deaths are what this is about."""


class LogHosts:
    """The processes, by host name: `register`, `b1`, `b2`, …"""

    def __init__(self, folder: Path, net: Net) -> None:
        self.folder = folder
        self.net = net
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.brokers = [host for host in net.hosts if host != "register"]
        self.bootstrap = ",".join(f"{net.address(host)}:{PORT}" for host in self.brokers)

    def start(self, host: str) -> None:
        address = self.net.address(host)
        if host == "register":
            arguments = ["register", "--host", address, "--port", str(REGISTER_PORT)]
        else:
            register = f"{self.net.address('register')}:{REGISTER_PORT}"
            arguments = ["broker", "--register", register, "--name", host, "--host", address, "--port", str(PORT)]
        command = [*self.net.command(host), sys.executable, "-m", "octoloom", *arguments, "--data"]
        with (self.folder / f"{host}.log").open("ab") as log:
            self.processes[host] = subprocess.Popen(
                [*command, str(self.folder / host)],
                stdout=log,
                stderr=log,
                env={**os.environ, PARENT: str(os.getpid())},
                start_new_session=True,
            )

    def signal(self, host: str, number: int) -> None:
        self.processes[host].send_signal(number)
        if number == signal.SIGKILL:
            self.processes[host].wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def host_of(self, node: int, metadata: Any) -> str:
        address = metadata.brokers[node].host
        return next(host for host in self.brokers if self.net.address(host) == address)

    def leader(self, admin: AdminClient, partition: int = 0) -> str:
        metadata = admin.list_topics(TOPIC, timeout=10)
        leader = metadata.topics[TOPIC].partitions[partition].leader
        return self.host_of(leader, metadata) if leader in metadata.brokers else ""

    def until_whole(self, admin: AdminClient, replicas: int) -> None:
        """Waits until every partition has a leader and all replicas in sync."""
        last: list[object] = []

        def is_whole() -> bool:
            try:
                found = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions.values()
            except KafkaException as error:
                last[:] = [error]
                return False
            last[:] = [(each.leader, each.isrs) for each in found]
            return bool(found) and all(each.leader >= 0 and len(each.isrs) == replicas for each in found)

        until(is_whole, f"{replicas} replicas in sync of each partition", pause_s=0.1)


def make_topic(bootstrap: str, partitions: int, replicas: int) -> AdminClient:
    """Waits for brokers, makes the topic, and answers who can be asked about it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def is_made() -> bool:
        try:
            if len(admin.list_topics(timeout=5).brokers) < replicas:
                return False
            admin.create_topics([NewTopic(TOPIC, partitions, replicas)])[TOPIC].result(20)
        except KafkaException:
            return False
        return True

    until(is_made, "the brokers to come", pause_s=0.2)
    return admin


class Writer(threading.Thread):
    """Sends numbered records to all partitions, one after the other, until it is stopped."""

    def __init__(self, name: str, bootstrap: str, partitions: int, pause_s: float) -> None:
        super().__init__(name=name)
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self.failed: list[str] = []
        self.longest_s = 0.0
        self._partitions = partitions
        self._pause_s = pause_s
        self._stopped = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": int(PATIENCE_S * 1000),
                "socket.timeout.ms": 3000,
                "reconnect.backoff.max.ms": 500,
                **QUIET,
            }
        )

    def run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            self._send(f"{self.name}:{number}", number % self._partitions)
            self._producer.poll(0)
            time.sleep(self._pause_s)
        left = self._producer.flush(PATIENCE_S)
        if left:
            self.failed.append(f"{left} records were never settled")

    def _send(self, value: str, partition: int) -> None:
        sent = time.monotonic()

        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                self.failed.append(f"{value}: {error}")
            else:
                self.acknowledged[value] = (message.partition(), message.offset())
                self.longest_s = max(self.longest_s, time.monotonic() - sent)

        self._producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=on_delivery)

    def stop(self) -> None:
        self._stopped.set()
        self.join(PATIENCE_S * 2)
        assert not self.is_alive(), f"{self.name} does not come to an end"


class Reader(threading.Thread):
    """Reads every partition from the beginning, and remembers what it saw where."""

    def __init__(self, name: str, bootstrap: str, partitions: int) -> None:
        super().__init__(name=name)
        self.seen: dict[tuple[int, int], str] = {}
        self.faults: list[str] = []
        self._stopped = threading.Event()
        self._next: dict[int, int] = {}
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False, **QUIET}
        )
        self._consumer.assign([TopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in range(partitions)])

    def run(self) -> None:
        while not self._stopped.is_set():
            self._read(0.2)
        self._consumer.close()

    def _read(self, timeout_s: float) -> None:
        for message in self._consumer.consume(500, timeout_s):
            partition, offset, value = message.partition(), message.offset(), message.value()
            if message.error() is not None or partition is None or offset is None or value is None:
                continue
            expected = self._next.get(partition, 0)
            if offset != expected:
                self.faults.append(f"{self.name} expected {expected} in partition {partition} and got {offset}")
            self._next[partition] = offset + 1
            self.seen[partition, offset] = value.decode()

    def until(self, count: int) -> None:
        until(lambda: len(self.seen) >= count, f"{count} records at {self.name}", pause_s=0.05)

    def stop(self) -> None:
        self._stopped.set()
        self.join(PATIENCE_S)


def doubts(writers: list[Writer], readers: list[Reader], truth: Reader) -> list[str]:
    """What is wrong with what everybody was told, against what a fresh reader finds in the topic."""
    found = list(truth.faults)
    held = Counter(truth.seen.values())
    found += [f"{value} is there {count} times" for value, count in held.items() if count > 1]
    for writer in writers:
        found += writer.failed
        for value, place in writer.acknowledged.items():
            if truth.seen.get(place) != value:
                found.append(f"{value} was acknowledged at {place}, where {truth.seen.get(place)} is")
    for reader in readers:
        found += reader.faults
        found += [f"{reader.name} saw {v} at {p}" for p, v in reader.seen.items() if truth.seen.get(p) != v]
    last: dict[tuple[int, str], int] = {}
    for (partition, _), value in sorted(truth.seen.items()):
        writer_name, _, number = value.partition(":")
        if last.get((partition, writer_name), 0) >= int(number):
            found.append(f"{value} comes after {last[partition, writer_name]} in partition {partition}")
        last[partition, writer_name] = int(number)
    return found

"""Our log: a register and brokers as `octoloom register` and `octoloom broker` run them, through librdkafka.

The producer is idempotent and waits for all replicas in sync. A topic has one partition, as a stream of the peers has
one order. Where records are batched, librdkafka counts the acknowledgements and reports failures alone
(`delivery.report.only.error`): a Python call for each record's success would measure Python.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from log_case import DRAIN_S_MAX, SINGLE_WINDOW, Load, LogError, Meter, Pace, Setup
from servers import HOST, Servers

START_S_MAX = 60.0
MESSAGES_PER_CALL = 500
QUEUED_MAX = 100_000
QUEUED_BYTES_MAX = 8_000_000
"""Enough for the five batches that librdkafka has under way, and the next ones."""
CONSUMED_PER_CALL_MAX = 10_000
WAIT_S = 0.001
"""A report ends this wait early. librdkafka counts whole milliseconds, and with less than one it would spin."""
QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}
BATCHED = {"linger.ms": 5, "batch.size": 1_000_000, "batch.num.messages": 100_000}
AT_ONCE = {"linger.ms": 0, "batch.num.messages": 1}


class Octoloom:
    """One cluster of as many brokers as it has replicas."""

    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup = setup
        self._servers = Servers(folder)
        self._folder = folder
        self.bootstrap = ""

    @property
    def pids(self) -> list[int]:
        return self._servers.pids

    # The processes.

    def start(self) -> None:
        arguments = ["--host", HOST, "--port", "0", "--data", str(self._folder / "register")]
        self._servers.start("register", [*_octoloom("register"), *arguments])

    def until_ready(self) -> None:
        register = self._servers.facts(0)["address"]
        for number in range(1, self.setup.replicas + 1):
            arguments = ["--register", register, "--host", HOST, "--port", "0", "--name", f"b{number}"]
            arguments += ["--data", str(self._folder / f"b{number}"), "--sync", self.setup.sync]
            self._servers.start(f"b{number}", [*_octoloom("broker"), *arguments])
        brokers = [self._servers.facts(number)["address"] for number in range(1, self.setup.replicas + 1)]
        self.bootstrap = ",".join(brokers)
        self._admin = AdminClient(self._client({}))

    def stop(self) -> None:
        self._servers.stop()

    # Topics.

    def make(self, topic: str) -> None:
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                if len(self._admin.list_topics(timeout=5).brokers) == self.setup.replicas:
                    self._admin.create_topics([NewTopic(topic, 1, self.setup.replicas)])[topic].result(10)
                    break
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise LogError(f"the topic cannot be made: {error}") from error
            self._servers.check()
            time.sleep(0.05)
        while not self._is_whole(topic):
            if time.monotonic() > deadline:
                raise LogError(f"the topic is not whole after {START_S_MAX:.0f} s")
            time.sleep(0.02)

    def _is_whole(self, topic: str) -> bool:
        found = self._admin.list_topics(topic, timeout=5).topics[topic].partitions.get(0)
        return found is not None and found.leader >= 0 and len(found.isrs) == self.setup.replicas

    def drop(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(10)

    # Runs.

    def produce(self, topic: str, load: Load, meter: Meter) -> int:
        failures: list[KafkaError] = []
        producer = self._producer({"delivery.report.only.error": load.way == "batched"}, load, failures)
        producer.produce(topic, load.record, partition=0)
        self._flush(producer, failures)
        per_call = {"batched": MESSAGES_PER_CALL, "blobs": 1, "single": 1}[load.way]
        queued_max = SINGLE_WINDOW if load.way == "single" else min(QUEUED_MAX, QUEUED_BYTES_MAX // len(load.message()))
        sent = 0
        meter.start()
        end = time.perf_counter() + load.seconds
        while time.perf_counter() < end:
            sent += producer.produce_batch(
                topic, [{"value": message} for message in load.messages(per_call)], partition=0
            )
            while len(producer) > queued_max - per_call:
                producer.poll(WAIT_S)
        self._flush(producer, failures)
        meter.stop()
        return sent

    def _producer(self, settings: dict[str, Any], load: Load, failures: list[KafkaError]) -> Producer:
        def on_report(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        way = AT_ONCE if load.way == "single" else BATCHED
        limits = {"queue.buffering.max.messages": 2 * QUEUED_MAX, "queue.buffering.max.kbytes": 1_000_000}
        return Producer(self._client({**_SAFE, **limits, **way, **settings, "on_delivery": on_report}))

    def _flush(self, producer: Producer, failures: list[KafkaError]) -> None:
        left = producer.flush(DRAIN_S_MAX)
        if left or failures:
            raise LogError(f"{left} records were not acknowledged; failures: {failures[:1]}")

    def consume(self, topic: str, load: Load, messages: int, meter: Meter) -> int:
        limits = {"queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 262_144}
        fetches = {"fetch.message.max.bytes": 8_000_000, "fetch.max.bytes": 64_000_000}
        settings = {"group.id": "benchmark", "enable.auto.commit": False, **limits, **fetches}
        consumer = Consumer(self._client(settings))
        # Asking for the offsets connects it to the leader.
        consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        # The first record was for the connection and is not counted.
        meter.start()
        consumer.assign([TopicPartition(topic, 0, 1)])
        got = records = 0
        while got < messages:
            batch = consumer.consume(min(CONSUMED_PER_CALL_MAX, messages - got), DRAIN_S_MAX)
            if not batch:
                raise LogError(f"{messages - got} messages did not come")
            got += len(batch)
            records += load.look_at([_value(message) for message in batch])
        meter.stop()
        consumer.close()
        return records

    def latencies(self, topic: str, record: bytes, count: int) -> list[float]:
        failures: list[KafkaError] = []
        producer = self._producer({}, Load(len(record), "single", 0), failures)
        producer.produce(topic, record, partition=0)
        self._flush(producer, failures)
        found, pace = [], Pace()
        for _ in range(count):
            time.sleep(pace.pause_s())
            start = time.perf_counter()
            producer.produce(topic, record, partition=0)
            while len(producer):
                producer.poll(DRAIN_S_MAX)
            found.append(time.perf_counter() - start)
        self._flush(producer, failures)
        return found

    def _client(self, settings: dict[str, Any]) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "socket.nagle.disable": True, **QUIET, **settings}


_SAFE = {"enable.idempotence": True, "acks": "all", "message.timeout.ms": int(DRAIN_S_MAX * 1000)}


def _octoloom(command: str) -> list[str]:
    return [sys.executable, "-m", "octoloom", command]


def _value(message: Message) -> bytes:
    value = message.value()
    if message.error() is not None or not isinstance(value, bytes):
        raise LogError(f"a record could not be read: {message.error()}")
    return value

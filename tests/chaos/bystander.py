"""Somebody who means well, on a broker where others do not: it writes and reads all the time, and notices everything.

It is an ordinary client, an idempotent producer and a consumer. What it reads has to be what it wrote, each once and in
order, whatever happens beside it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.waiting import PATIENCE_S, until

PAUSE_S = 0.01


class Bystander:
    def __init__(self, bootstrap: str, topic: str = "steady") -> None:
        self.topic = topic
        self.read = 0
        """How many of its records it has read, all of them in order."""
        self.fault = ""
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 2})
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "log_level": 2})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        sent = 0
        while not self._is_over.is_set() and not self.fault:
            # Not ahead of what was read by much: a full disk is waited for.
            if sent < self.read + 100:
                self._producer.produce(self.topic, str(sent), on_delivery=self._on_delivery)
                sent += 1
            self._producer.poll(0)
            for message in self._consumer.consume(100, PAUSE_S):
                if message.error() is not None or message.value() != b"%d" % self.read:
                    self.fault = f"{message.value()!r} at {message.offset()} in place of {self.read}: {message.error()}"
                self.read += 1
        self._consumer.close()

    def _on_delivery(self, error: object, _message: object) -> None:
        if error is not None:
            self.fault = f"a record was refused: {error}"

    def moves(self, count: int = 3) -> None:
        """Waits until so many more records have gone all the way."""
        wanted = self.read + count
        until(lambda: self.fault or self.read >= wanted, f"{wanted} records at the bystander", pause_s=PAUSE_S)
        assert not self.fault, self.fault

    def leave(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        assert not self.fault, self.fault


@contextlib.contextmanager
def bystander(bootstrap: str) -> Iterator[Bystander]:
    made = Bystander(bootstrap)
    try:
        yield made
    finally:
        made.leave()

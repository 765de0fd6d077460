"""Each of Kafka's clients as somebody who can write notes to a partition and read them from an offset.

Writing is idempotent, with `acks=all`, and ends when every note is acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.structs import TopicPartition as AioPartition  # type: ignore[import-untyped]
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer, codec  # type: ignore[import-untyped]
from kafka import TopicPartition as PythonPartition

from tests.clients.cluster import Note
from tests.waiting import PATIENCE_S, STORY_S

KCAT = shutil.which("kcat")
NO_KCAT = "kcat is not installed here (Debian: apt-get install kcat)"
SEPARATOR = "#"
"""Between key and value, when kcat reads lines."""


class Speaker(Protocol):
    name: str

    def lacks(self, codec: str) -> str:
        """Why it cannot speak a codec here, or nothing."""

    def write(self, bootstrap: str, topic: str, partition: int, codec: str, notes: Sequence[Note]) -> None: ...

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Note]: ...


class Confluent:
    name = "confluent-kafka"

    def lacks(self, codec: str) -> str:
        return ""

    def write(self, bootstrap: str, topic: str, partition: int, codec: str, notes: Sequence[Note]) -> None:
        settings = {"enable.idempotence": True, "acks": "all", "compression.type": codec, "linger.ms": 20}
        producer = Producer({"bootstrap.servers": bootstrap, **settings})
        errors: list[Any] = []
        for note in notes:
            producer.produce(
                topic,
                note.value,
                note.key,
                partition,
                headers=list(note.headers),
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(PATIENCE_S) == 0
        assert errors == [None] * len(notes)

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Note]:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False})
        consumer.assign([ConfluentPartition(topic, partition, offset)])
        notes = []
        for message in consumer.consume(count, PATIENCE_S):
            assert message.error() is None
            headers: Any = message.headers()
            notes.append(Note(message.key(), message.value(), tuple(headers or ())))
        consumer.close()
        return notes


class Aio:
    name = "aiokafka"

    def lacks(self, codec: str) -> str:
        return ""

    def write(self, bootstrap: str, topic: str, partition: int, codec: str, notes: Sequence[Note]) -> None:
        asyncio.run(self._write(bootstrap, topic, partition, None if codec == "none" else codec, notes))

    async def _write(
        self, bootstrap: str, topic: str, partition: int, codec: str | None, notes: Sequence[Note]
    ) -> None:
        settings = {"enable_idempotence": True, "acks": "all", "compression_type": codec, "linger_ms": 20}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
            for note in notes:
                await producer.send(topic, note.value, note.key, partition, headers=list(note.headers))
            await asyncio.wait_for(producer.flush(), PATIENCE_S)

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Note]:
        return asyncio.run(asyncio.wait_for(self._read(bootstrap, topic, partition, offset, count), STORY_S))

    async def _read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Note]:
        where = AioPartition(topic, partition)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False) as consumer:
            consumer.assign([where])
            consumer.seek(where, offset)
            records = [await consumer.getone() for _ in range(count)]
        return [Note(each.key, each.value, tuple(each.headers)) for each in records]


class Python:
    name = "kafka-python"

    def lacks(self, codec_name: str) -> str:
        if codec_name == "none" or getattr(codec, f"has_{codec_name}")():
            return ""
        return f"kafka-python's library for {codec_name} is not installed here"

    def write(self, bootstrap: str, topic: str, partition: int, codec: str, notes: Sequence[Note]) -> None:
        settings = {"enable_idempotence": True, "acks": "all", "linger_ms": 20}
        kind = None if codec == "none" else codec
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=kind, **settings)
        sent = [producer.send(topic, n.value, n.key, list(n.headers), partition) for n in notes]
        for each in sent:
            each.get(PATIENCE_S)
        producer.close(PATIENCE_S)

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Note]:
        where = PythonPartition(topic, partition)
        timeout_ms = PATIENCE_S * 1000
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, consumer_timeout_ms=timeout_ms)
        consumer.assign([where])
        consumer.seek(where, offset)
        records = [next(consumer) for _ in range(count)]
        consumer.close()
        return [Note(each.key, each.value, tuple(each.headers)) for each in records]


class Kcat:
    name = "kcat"

    def lacks(self, codec: str) -> str:
        return "" if KCAT else NO_KCAT

    def write(self, bootstrap: str, topic: str, partition: int, codec: str, notes: Sequence[Note]) -> None:
        lines = [f"{text(note.key)}{SEPARATOR}{text(note.value)}\n" for note in notes]
        headers = [option for key, value in notes[0].headers for option in ("-H", f"{key}={value.decode()}")]
        settings = ["-X", "enable.idempotence=true", "-X", "acks=all", "-X", "linger.ms=20"]
        where = ["-t", topic, "-p", str(partition), "-z", codec]
        # -Z makes an empty key or value none at all.
        run_kcat(bootstrap, "-P", *where, "-K", SEPARATOR, "-Z", *headers, *settings, given="".join(lines))

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Note]:
        where = ["-t", topic, "-p", str(partition), "-o", str(offset), "-c", str(count)]
        return [note_of(each) for each in run_kcat(bootstrap, "-C", "-J", *where).splitlines()]


def run_kcat(bootstrap: str, *arguments: str, given: str = "") -> str:
    """What it prints. Skips the test where there is none."""
    if KCAT is None:
        pytest.skip(NO_KCAT)
    command = [KCAT, "-b", bootstrap, "-q", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def note_of(line: str) -> Note:
    """A line that kcat prints with -J."""
    said = json.loads(line)
    headers = said.get("headers", [])
    pairs = tuple((key, value.encode()) for key, value in zip(headers[::2], headers[1::2], strict=True))
    return Note(binary(said["key"]), binary(said["payload"]), pairs)


def text(part: bytes | None) -> str:
    return "" if part is None else part.decode()


def binary(part: str | None) -> bytes | None:
    return None if part is None else part.encode()


SPEAKERS: tuple[Speaker, ...] = (Confluent(), Aio(), Python(), Kcat())

"""A member of a consumer group as a process: prints each record that it gets, and then commits it.

    python -m tests.chaos.consumer_process KIND BOOTSTRAP GROUP TOPIC SESSION_MS

A commit that is refused is printed, too, and the member goes on. SIGTERM ends it cleanly.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from typing import Any

POLL_S = 0.2
BEAT_MS = 500
_ending: list[int] = []


def show(records: Iterable[tuple[int, int, bytes | None]]) -> None:
    """Each (partition, offset, value) on a line, in one piece: whoever is killed has printed it or has not."""
    lines = [
        json.dumps({"partition": partition, "offset": offset, "value": (value or b"").decode()}) + "\n"
        for partition, offset, value in records
    ]
    sys.stdout.write("".join(lines))
    sys.stdout.flush()


def refused(error: Exception) -> None:
    sys.stdout.write(json.dumps({"refused": type(error).__name__}) + "\n")
    sys.stdout.flush()


async def ours(bootstrap: str, group: str, topic: str, session_ms: int) -> None:
    from octoloom.runtime.log_client import LogClient
    from octoloom.runtime.log_errors import NotMember
    from octoloom.runtime.log_group_consumer import GroupConsumer

    async with (
        LogClient(bootstrap) as client,
        GroupConsumer(
            client, group, [topic], session_ms=session_ms, beat_ms=BEAT_MS, work_ms_max=60_000, commit_ms=None
        ) as consumer,
    ):
        while not _ending:
            try:
                async with asyncio.timeout(POLL_S):
                    _, partition, records = await anext(consumer)
            except TimeoutError:
                continue
            show((partition, record.offset, record.value) for record in records)
            try:
                await consumer.commit()
            except NotMember as error:
                refused(error)


async def aio(bootstrap: str, group: str, topic: str, session_ms: int) -> None:
    from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
    from aiokafka.errors import KafkaError  # type: ignore[import-untyped]

    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **_settings(session_ms))
    await consumer.start()
    while not _ending:
        batches = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        show((place.partition, each.offset, each.value) for place, found in batches.items() for each in found)
        try:
            if batches:
                await consumer.commit()
        except KafkaError as error:
            refused(error)
    await consumer.stop()


def python(bootstrap: str, group: str, topic: str, session_ms: int) -> None:
    from kafka import KafkaConsumer  # type: ignore[import-untyped]
    from kafka.errors import KafkaError  # type: ignore[import-untyped]

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **_settings(session_ms))
    while not _ending:
        batches = consumer.poll(POLL_S * 1000)
        show((place.partition, each.offset, each.value) for place, found in batches.items() for each in found)
        try:
            if batches:
                consumer.commit()
        except KafkaError as error:
            refused(error)
    consumer.close()


def _settings(session_ms: int) -> dict[str, Any]:
    return {
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": BEAT_MS,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }


def confluent(bootstrap: str, group: str, topic: str, session_ms: int) -> None:
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": BEAT_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    while not _ending:
        found = [message for message in consumer.consume(500, POLL_S) if message.error() is None]
        show((message.partition() or 0, message.offset() or 0, message.value()) for message in found)
        try:
            if found:
                consumer.commit(asynchronous=False)
        except KafkaException as error:
            refused(error)
    consumer.close()


def main() -> None:
    kind, bootstrap, group, topic, session_ms = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda number, _: _ending.append(number))
    how = (bootstrap, group, topic, int(session_ms))
    if kind in ("ours", "aiokafka"):
        asyncio.run(ours(*how) if kind == "ours" else aio(*how))
    else:
        (confluent if kind == "confluent" else python)(*how)


if __name__ == "__main__":
    main()

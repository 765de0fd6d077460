"""`octoloom topic describe --watch`: each change of a partition's leader, epoch and in-sync set, as it happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import click
import msgspec

from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import Unreachable, error_of
from octoloom.wire.kafka.client_messages import Cluster, Partition, TopicPartition

WATCH_S = 0.1
"""How often the brokers are asked."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a partition. Without `before` it is how things stood at first; without `after` it is gone."""

    time: str
    topic: str
    partition: int
    after: dict[str, object] | None = None
    before: dict[str, object] | None = None


async def watch_topics(client: LogClient, names: Sequence[str] | None, as_json: bool) -> None:
    """Goes on for ever. Brokers that do not answer are part of the story."""
    known: dict[TopicPartition, Partition] = {}
    cluster = await client.metadata(names)
    for name in names or ():
        found = cluster.topics.get(name)
        if found is None or found.error:
            raise error_of(found.error if found is not None else 3, f"the topic {name}")
    answers = True
    while True:
        if not answers:
            _tell("brokers answer again", as_json)
        answers = True
        for line in changes(known, cluster, as_json):
            click.echo(line)
        try:
            await asyncio.sleep(WATCH_S)
            cluster = await client.metadata(names)
        except Unreachable:
            _tell("no broker answers", as_json)
            cluster = await _patiently(client, names)
            answers = False


async def _patiently(client: LogClient, names: Sequence[str] | None) -> Cluster:
    while True:
        try:
            return await client.metadata(names)
        except Unreachable:
            await asyncio.sleep(WATCH_S)


def _tell(text: str, as_json: bool) -> None:
    click.echo(f"{_now()}  {text}", err=as_json)


def changes(known: dict[TopicPartition, Partition], cluster: Cluster, as_json: bool) -> list[str]:
    """A line for every partition that is not as it was; `known` is brought up to date."""
    lines: list[str] = []
    present = {
        (topic.name, number): topic.partitions[number]
        for topic in sorted(cluster.topics.values(), key=lambda topic: topic.name)
        for number in sorted(topic.partitions)
    }
    for place in [*present, *(place for place in known if place not in present)]:
        before, after = known.get(place), present.get(place)
        if before is not None and after is not None and _told(before) == _told(after):
            continue
        lines.append(_json(place, before, after) if as_json else _text(place, before, after))
        if after is None:
            del known[place]
        else:
            known[place] = after
    return lines


def _told(partition: Partition) -> dict[str, object]:
    return {"leader": partition.leader, "epoch": partition.epoch, "in_sync": sorted(partition.in_sync)}


def _json(place: TopicPartition, before: Partition | None, after: Partition | None) -> str:
    told = [None if partition is None else _told(partition) for partition in (after, before)]
    return msgspec.json.encode(Change(_now(), *place, *told)).decode()


def _text(place: TopicPartition, before: Partition | None, after: Partition | None) -> str:
    name = f"{_now()}  {place[0]}-{place[1]}"
    if after is None:
        return f"{name}  deleted"
    new = {key: _words(value) for key, value in _told(after).items()}
    old = {key: _words(value) for key, value in _told(before).items()} if before is not None else new
    parts = [
        f"{key.replace('_', ' ')} {old[key]} → {new[key]}"
        if old[key] != new[key]
        else f"{key.replace('_', ' ')} {new[key]}"
        for key in new
    ]
    return "  ".join([name, *parts])


def _words(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "nobody"
    return "none" if value == -1 else str(value)


def _now() -> str:
    now = time.time()
    return f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03d}"

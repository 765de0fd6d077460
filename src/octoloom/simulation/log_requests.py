"""What simulated clients and brokers say to each other: Kafka's requests, as far as the log's promises need them."""

from __future__ import annotations

from dataclasses import dataclass

from octoloom.core.log_messages import Part, TopicPartition
from octoloom.simulation.log_disk import SimBatch


@dataclass(frozen=True, slots=True)
class Produce:
    """A producer's batch. `acks` is -1 for all, 1 for the leader alone."""

    number: int
    name: TopicPartition
    producer: int
    epoch: int
    sequence: int
    tokens: tuple[str, ...]
    acks: int


@dataclass(frozen=True, slots=True)
class Produced:
    number: int
    error: int
    offset: int
    broker: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Fetch:
    name: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Fetched:
    name: TopicPartition
    error: int
    batches: tuple[SimBatch, ...]
    high: int
    start: int


@dataclass(frozen=True, slots=True)
class Frames:
    """A frame and the batches of its parts."""

    number: int
    parts: list[Part]
    batches: list[list[SimBatch]]

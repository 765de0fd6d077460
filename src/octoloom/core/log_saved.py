"""What the register keeps about brokers and topics, and what its core asks its driver to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from octoloom.core.log_messages import BrokerAddress, PartitionState, RegisterToBroker, TopicInfo, TopicPartition


class Identity(msgspec.Struct, frozen=True):
    """What a broker's name stands for: its number for Kafka clients, and the disk that it had last."""

    id: int
    storage: str


class Counters(msgspec.Struct, frozen=True):
    revision: int = 0
    topics: int = 0
    producers: int = 1000
    transitions: int = 0


@dataclass(frozen=True, slots=True)
class LogSaved:
    """All that outlives a restart."""

    counters: Counters
    identities: dict[str, Identity]
    brokers: dict[str, BrokerAddress]
    topics: dict[str, TopicInfo]
    partitions: dict[TopicPartition, PartitionState]


@dataclass(slots=True)
class Persist:
    """Make these durable, all or nothing, over what was there. None deletes."""

    counters: Counters
    identities: dict[str, Identity] = field(default_factory=dict)
    brokers: dict[str, BrokerAddress] | None = None
    topics: dict[str, TopicInfo | None] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionState | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TellAll:
    """Tell every broker that is connected, and whoever follows the log's directory."""

    message: RegisterToBroker


@dataclass(frozen=True, slots=True)
class Tell:
    broker: str
    message: RegisterToBroker


@dataclass(frozen=True, slots=True)
class Decline:
    """Refuse this broker and end its connection."""

    broker: str
    code: str
    detail: str


LogEffect = Persist | TellAll | Tell | Decline

"""What may be asked of topics, and what the answer is: names, sizes, settings. Pure checks; nothing is changed here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octoloom.core.errors import OctoloomError

INVALID_TOPIC = 17
TOPIC_EXISTS = 36
UNKNOWN_TOPIC = 3
INVALID_PARTITIONS = 37
INVALID_REPLICATION = 38
INVALID_CONFIG = 40
POLICY_VIOLATION = 44

NAME_MAX = 200
PARTITIONS_MAX = 10_000
"""Of one topic."""
PARTITIONS_ALL_MAX = 50_000
"""Of all topics together."""
TOPICS_MAX = 10_000
OFFSETS_TOPIC = "__consumer_offsets"

_name = re.compile(r"[A-Za-z0-9._-]+")


class AdminRefused(OctoloomError):  # noqa: N818
    """A request about topics that cannot be done; `error` is Kafka's code for it."""

    def __init__(self, error: int, detail: str) -> None:
        super().__init__(detail)
        self.error = error
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Setting:
    default: str
    least: int
    most: int
    text: str


SETTINGS: Mapping[str, Setting] = {
    "min.insync.replicas": Setting("1", 1, 100, "in-sync replicas below which acks=all is refused"),
    "retention.ms": Setting("604800000", -1, 2**62, "age at which records may be deleted; -1 keeps them for ever"),
    "retention.bytes": Setting(
        "-1", -1, 2**62, "size per partition above which the oldest may be deleted; -1: no limit"
    ),
    "segment.bytes": Setting("134217728", 16_384, 2**31 - 1, "size of a log file"),
    "max.message.bytes": Setting("1048588", 1024, 64 * 1024 * 1024, "size of a record batch"),
}


def check_config(config: Mapping[str, str]) -> None:
    for key, value in config.items():
        setting = SETTINGS.get(key)
        if key in ("cleanup.policy", "message.timestamp.type", "compression.type"):
            only = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime", "compression.type": "producer"}
            if value != only[key]:
                raise AdminRefused(INVALID_CONFIG, f"{key}={value} is not supported, only {only[key]}")
            continue
        if setting is None:
            raise AdminRefused(INVALID_CONFIG, f"unknown setting {key}: know {', '.join(sorted(SETTINGS))}")
        number = int(value) if re.fullmatch(r"-?[0-9]{1,19}", value) else None
        if number is None or not setting.least <= number <= setting.most:
            raise AdminRefused(INVALID_CONFIG, f"{key} must be a number from {setting.least} to {setting.most}")


def check_name(topic: str) -> None:
    if not 0 < len(topic) <= NAME_MAX or topic in (".", "..") or not _name.fullmatch(topic):
        detail = f"a topic's name has 1 to {NAME_MAX} letters, digits, dots, dashes or underscores"
        raise AdminRefused(INVALID_TOPIC, detail)


def check_size(partitions: int, replicas: int, brokers: int) -> None:
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise AdminRefused(INVALID_PARTITIONS, f"a topic has 1 to {PARTITIONS_MAX} partitions, not {partitions}")
    if replicas < 1:
        raise AdminRefused(INVALID_REPLICATION, f"a partition has one replica or more, not {replicas}")
    if replicas > brokers:
        detail = f"{replicas} replicas need as many brokers, and {brokers} are there: start more or ask for fewer"
        raise AdminRefused(INVALID_REPLICATION, detail)


def assign(brokers: Sequence[str], partitions: int, replicas: int, first: int) -> list[list[str]]:
    """Spreads leaders and followers: partition i begins at broker `first` + i, and each round shifts its followers."""
    count = len(brokers)
    places = []
    for partition in range(partitions):
        lead = (first + partition) % count
        shift = (partition // count) % max(count - 1, 1)
        others = (
            [(lead + 1 + (shift + step) % (count - 1)) % count for step in range(replicas - 1)] if count > 1 else []
        )
        places.append([brokers[lead], *(brokers[other] for other in others)])
    return places

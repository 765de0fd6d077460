"""What the members of a consumer group tell each other; to the brokers it is bytes.

A *subscription* says which topics a member wants, an *assignment* which partitions it gets. We write version 0. Later
versions add fields at the end, which a reader may leave alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from octoloom.wire.kafka.primitives import CLASSIC, I16, I32, UNREADABLE, malformed

PROTOCOL_TYPE = "consumer"
_VERSION = I16.pack(0)
_NO_USER_DATA = I32.pack(-1)


def encode_subscription(topics: Iterable[str]) -> bytes:
    names = [CLASSIC.write_string(topic) for topic in topics]
    return b"".join((_VERSION, I32.pack(len(names)), *names, _NO_USER_DATA))


def parse_subscription(raw: bytes) -> list[str]:
    """The topics that a member wants."""
    view = memoryview(raw)
    try:
        count, at = CLASSIC.count(view, I16.size)
        topics: list[str] = []
        for _ in range(count):
            topic, at = CLASSIC.string(view, at)
            topics.append(topic)
    except UNREADABLE as error:
        raise malformed(f"no subscription of a consumer: {error}") from error
    return topics


def encode_assignment(places: Mapping[str, Iterable[int]]) -> bytes:
    pieces = [_VERSION, I32.pack(len(places))]
    for topic, partitions in places.items():
        numbers = list(partitions)
        pieces += (CLASSIC.write_string(topic), I32.pack(len(numbers)), *map(I32.pack, numbers))
    return b"".join((*pieces, _NO_USER_DATA))


def parse_assignment(raw: bytes) -> list[tuple[str, int]]:
    """The partitions that a member gets. Nothing at all stands for none."""
    if not raw:
        return []
    view = memoryview(raw)
    places: list[tuple[str, int]] = []
    try:
        topics, at = CLASSIC.count(view, I16.size)
        for _ in range(topics):
            topic, at = CLASSIC.string(view, at)
            count, at = CLASSIC.count(view, at)
            for _ in range(count):
                places.append((topic, I32.unpack_from(view, at)[0]))
                at += I32.size
    except UNREADABLE as error:
        raise malformed(f"no assignment of a consumer: {error}") from error
    return places

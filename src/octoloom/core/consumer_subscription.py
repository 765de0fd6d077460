"""What a consumer subscribes to, read from the beginning of its metadata.

Metadata is the members' own business: the coordinator hands it to the leader unopened. It looks inside for one
question only, whether a static member that comes back asks for the same as before. A consumer's metadata also says
what it owned when it joined, which is different each time and is no reason to disturb the others.
"""

from __future__ import annotations

import struct

CONSUMER = "consumer"
"""The protocol type whose metadata is: a version, the topics, and more."""


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics at the beginning of a consumer's metadata; None if it is not written as consumers write it."""
    try:
        (count,) = struct.unpack_from(">i", metadata, 2)
        position, topics = 6, []
        for _ in range(count):
            (length,) = struct.unpack_from(">h", metadata, position)
            position += 2 + length
            if length < 0 or position > len(metadata):
                return None
            topics.append(metadata[position - length : position].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return sorted(topics)


def same_subscription(protocol_type: str, first: bytes, second: bytes) -> bool:
    """Whether these metadata ask for the same: what a consumer owned when it joined last does not matter."""
    if first == second:
        return True
    topics = subscribed_topics(first) if protocol_type == CONSUMER else None
    return topics is not None and topics == subscribed_topics(second)

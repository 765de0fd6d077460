"""The steps of the algorithms as values, with the names that the Causality slides give them.

They can be written to a file or a topic, drawn as a space-time diagram, and audited. A step belongs to one member; the
message that it is about is (sender, number). Times are the member's own, in ms, and are filled in by who writes it.
"""

from __future__ import annotations

import msgspec

VECTOR_CREATED = "VectorTimeStampCreated"
USER_ADDED = "UserAddedToVectorTimeStamp"
USER_REMOVED = "UserRemovedFromVectorTimeStamp"
COUNT_INCREMENTED = "LocalCountIncrementedInSiteVectorTimeStamp"
SENT = "VectorTimeStampedMessageSent"
RECEIVED = "VectorTimeStampedMessageReceived"
CONCURRENT = "ConcurrentVectorTimeStampedMessageDetected"
BUFFERED = "VectorTimeStampedMessageBuffered"
UNBUFFERED = "VectorTimeStampedMessageRemovedFromBuffer"
DELIVERED = "VectorTimeStampedMessageDelivered"
PATH_CREATED = "VectorTimeStampCopiedAndNewBufferCreated"
FORWARDED = "MessageForwardedToCoordinator"
ORDERED = "MessageOrderedByCoordinator"
VIEW = "ViewInstalled"


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step at one member. `vector` is the member's own after it, by member name in the view's order."""

    name: str
    member: str
    sender: str = ""
    number: int = 0
    vector: dict[str, int] = {}
    waits_for: tuple[str, int] | None = None
    members: list[str] = []
    epoch: int = 0
    at_ms: int = 0
    text: str = ""

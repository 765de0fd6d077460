"""`octoloom topic consume --group`: a topic as a member of a consumer group reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

from octoloom.core.errors import UsageError
from octoloom.runtime.log_consumer import Deliveries, Delivery, Start, ValueDelivery
from octoloom.wire.kafka.client_messages import TopicPartition

if TYPE_CHECKING:
    from octoloom.runtime.log_group_consumer import GroupReader

T = TypeVar("T", Delivery, ValueDelivery)

LOOK_S = 0.2
"""How often a member that has nothing to print looks whether it is at the end."""


def start_of_group(place: Start, partitions: tuple[int, ...]) -> Literal["beginning", "end"]:
    """Where a group begins that has never been there; what a group cannot be told is refused."""
    if partitions:
        raise UsageError("a group divides the partitions itself: leave out -p, or --group")
    if place == "beginning" or place == "end":
        return place
    raise UsageError("a group begins at the beginning or at the end, and then goes on where it was: change --from")


class GroupSource(Deliveries[T]):
    """What a member gets, up to certain offsets of the partitions that it has."""

    def __init__(self, member: GroupReader[T], until: Mapping[TopicPartition, int] | None) -> None:
        self._member: GroupReader[T] = member
        self._until = until

    async def close(self) -> None:
        await self._member.close()

    async def __anext__(self) -> T:
        if self._until is None:
            return await anext(self._member)
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    return await anext(self._member)
            except TimeoutError:
                if self._is_at_end():
                    raise StopAsyncIteration from None

    def _is_at_end(self) -> bool:
        positions = self._member.positions
        ends = self._until or {}
        return positions is not None and all(offset >= ends.get(place, 0) for place, offset in positions.items())

    async def commit_printed(self, delivery: T, count: int) -> None:
        """So much of this delivery, the last one, was printed: the group goes on behind it."""
        first = delivery.offset if isinstance(delivery, ValueDelivery) else delivery.records[0].offset
        await self._member.commit({(delivery.topic, delivery.partition): first + count})

"""An app's own filters at work: single messages pass them, above the order, on their way out and in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from octoloom.core.filters import (
    FilterFactory,
    MessageFilters,
    ReceivedMessage,
    SentMessage,
    chain,
    message_filters,
)


class Pipeline:
    """The first filter is next to the app. `sent` and `received` are where the two ways end."""

    def __init__(
        self,
        name: str,
        filters: Sequence[str | FilterFactory],
        sent: Callable[[SentMessage], None],
        received: Callable[[ReceivedMessage], None],
    ) -> None:
        factories = [message_filters.find(each) if isinstance(each, str) else each for each in filters]
        self._pairs: list[MessageFilters] = [make(name) for make in factories]
        self.send: Callable[[SentMessage], None] = chain([pair.send for pair in self._pairs], sent)
        back = [pair.receive for pair in reversed(self._pairs)]
        self.receive: Callable[[ReceivedMessage], None] = chain(back, received)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def on_members(self, names: Sequence[str]) -> None:
        for pair in self._pairs:
            if pair.on_members is not None:
                pair.on_members(names)

    def on_time(self, now: int) -> int | None:
        """Answers when it is to be called again. Filters change their mind with each message that passes."""
        times = [pair.on_time(now) for pair in self._pairs if pair.on_time is not None]
        return min((time for time in times if time is not None), default=None)

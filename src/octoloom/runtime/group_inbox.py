"""What a member was handed, until its app takes it: bundles as they came, and in between what happens at a place.

1. Everything is taken in the order in which it was put in. What *happens* at a place (a view's callbacks, the giving of
   the app's state) happens when the app comes back for more with all before it behind it: then its state is that of
   this place. If nothing is before it and the app waits, or has never taken anything, it happens at once.
2. A bundle is decoded when it is taken, whole. One that cannot be is its sender's fault: it is told, and left out.
3. It never refuses anything. But it says when it is `full`: then its member takes no more casts, so that senders wait
   in the end; and when it is `overrun`, for what has to be taken all the same: then its member gives up.
4. The end, and an error, come behind all that was put in before; an error is then raised for ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import repeat

import msgspec

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.filters import ReceivedMessage
from octoloom.wire.group import decode_bodies, decode_body

TAKEN_MAX = 4096
"""A batch is not continued with another bundle beyond so many messages."""
INBOX_BYTES_MAX = 64 * 1024 * 1024
INBOX_ENTRIES_MAX = 500_000
OVERRUN = 4
"""So many times too much is an overrun."""


class Handed(msgspec.Struct, frozen=True):
    """A bundle, from the member of this name."""

    sender: str
    payload: bytes
    count: int
    concurrent: bool
    number: int
    path: int


class Told(msgspec.Struct, frozen=True):
    """A message to this member alone."""

    sender: str
    payload: bytes


Event = Callable[[], None]
Entry = Handed | Told | ReceivedMessage | Event


class Inbox:
    """`on_fault` is told the sender of what cannot be decoded, and why."""

    def __init__(self, on_fault: Callable[[str, ProtocolError], None]) -> None:
        self.size = 0
        self._on_fault = on_fault
        self._entries: deque[Entry] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._taken_from = False
        self._reading = False
        self._ended = False
        self._error: Exception | None = None

    @property
    def full(self) -> bool:
        return self.size > INBOX_BYTES_MAX or len(self._entries) > INBOX_ENTRIES_MAX

    @property
    def overrun(self) -> bool:
        return self.size > OVERRUN * INBOX_BYTES_MAX or len(self._entries) > OVERRUN * INBOX_ENTRIES_MAX

    # Putting in.

    def hand(self, handed: Handed) -> None:
        self._entries.append(handed)
        self.size += len(handed.payload)

    def tell(self, told: Told) -> None:
        self._entries.append(told)
        self.size += len(told.payload)

    def put(self, message: ReceivedMessage) -> None:
        """A message that has passed the app's filters."""
        self._entries.append(message)

    def happen(self, event: Event) -> None:
        """Something that happens at this place."""
        is_idle = self._waiter is not None or not self._taken_from
        if is_idle and not self._entries:
            event()
        else:
            self._entries.append(event)

    def wake(self) -> None:
        """A turn is over: who waits may look."""
        if self._waiter is not None and (self._entries or self._ended):
            waiter, self._waiter = self._waiter, None
            if not waiter.done():
                waiter.set_result(None)

    def end(self, error: Exception | None = None) -> None:
        if not self._ended:
            self._ended, self._error = True, error
            self.wake()

    # Taking.

    async def take(self) -> list[ReceivedMessage]:
        """All that is there, or the next that comes; nothing at the end."""
        if self._reading:
            raise UsageError("somebody reads this room already: have one reader, and let it hand things on")
        self._reading = True
        try:
            while True:
                while self._entries:
                    if batch := self._pop():
                        self._taken_from = True
                        return batch
                if self._ended:
                    if self._error is not None:
                        raise self._error
                    return []
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        finally:
            self._waiter = None
            self._reading = False

    def _pop(self) -> list[ReceivedMessage]:
        """A batch, up to where something happens. If that is the first thing it happens now, and the batch is empty."""
        entries, batch = self._entries, list[ReceivedMessage]()
        while entries and len(batch) < TAKEN_MAX:
            entry = entries[0]
            if isinstance(entry, Handed):
                batch += self._opened(entry)
            elif isinstance(entry, ReceivedMessage):
                batch.append(entry)
            elif isinstance(entry, Told):
                batch += self._heard(entry)
            elif batch:
                break
            else:
                entries.popleft()
                entry()
                continue
            entries.popleft()
        return batch

    def _opened(self, handed: Handed) -> list[ReceivedMessage]:
        self.size -= len(handed.payload)
        try:
            bodies = decode_bodies(handed.payload, handed.count)
        except ProtocolError as error:
            self._on_fault(handed.sender, error)
            return []
        make, number, path = partial(ReceivedMessage, handed.sender), repeat(handed.number), repeat(handed.path)
        return list(map(make, bodies, repeat(handed.concurrent), repeat(False), number, path))

    def _heard(self, told: Told) -> list[ReceivedMessage]:
        self.size -= len(told.payload)
        try:
            return [ReceivedMessage(told.sender, decode_body(told.payload), to_me=True)]
        except ProtocolError as error:
            self._on_fault(told.sender, error)
            return []

"""A jitter buffer: what arrives in bursts comes out at an even pace.

    import jitter_buffer                      # makes the filter known as "jitter-buffer"
    room = Group.join("pointers", name="ada", order="fifo", filters=["jitter-buffer"], …)

Where somebody points, or a voice, is sent at an even pace, and a network delivers it in bursts: shown as it arrives, it
jumps. Each sender has a queue. The first message of a silent sender waits `DELAY_MS`, to let later ones catch up with
it; then one comes out every `PACE_MS`. If a queue grows all the same, because its sender is faster than the pace, the
pace of that sender doubles as long as its first message is later than `LATE_MS`: so the delay has an end, too. At
`QUEUED_MAX` the oldest is handed on at once, out of pace but in sequence. Nothing is ever lost or reordered.

A filter has no clock. `on_time` is called with the time and answers when it wants to be called again. What arrives in
between is given the time of the next call, which a driver makes at once after each arrival.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from octoloom.core.filters import Forwarder, MessageFilters, ReceivedMessage, SentMessage, message_filters

DELAY_MS = 100
PACE_MS = 20
LATE_MS = 400
QUEUED_MAX = 1_000
"""Messages of one sender."""


@dataclass(slots=True)
class Lane:
    """What one sender sent and is not shown yet, with the time since when it waits."""

    due: int
    queue: deque[tuple[int, ReceivedMessage]] = field(default_factory=deque)


class JitterBuffer:
    """The receive filter. What is sent goes out at once."""

    def __init__(self) -> None:
        self.processor: Callable[[ReceivedMessage], None] = print
        self._lanes: dict[str, Lane] = {}
        self._arrived: list[ReceivedMessage] = []

    def filter(self, message: ReceivedMessage) -> None:
        self._arrived.append(message)
        if len(self._arrived) > QUEUED_MAX:
            self._hand_on_oldest(self._arrived.pop(0))

    def _hand_on_oldest(self, message: ReceivedMessage) -> None:
        """Nobody calls `on_time`: the bound holds without it, and so does the sequence."""
        lane = self._lanes.get(message.sender)
        while lane is not None and lane.queue:
            self.processor(lane.queue.popleft()[1])
        self.processor(message)

    def on_time(self, now: int) -> int | None:
        arrived, self._arrived = self._arrived, []
        for message in arrived:
            self._queue(now, message)
        for lane in self._lanes.values():
            self._play(now, lane)
        dues = [lane.due for lane in self._lanes.values() if lane.queue]
        return min(dues, default=None)

    def on_members(self, members: Sequence[str]) -> None:
        """What those sent who left is shown at once: nothing more will come of them."""
        for sender in [sender for sender in self._lanes if sender not in members]:
            for _, message in self._lanes.pop(sender).queue:
                self.processor(message)
        for message in [message for message in self._arrived if message.sender not in members]:
            self._arrived.remove(message)
            self.processor(message)

    def _queue(self, now: int, message: ReceivedMessage) -> None:
        lane = self._lanes.setdefault(message.sender, Lane(due=now - 1))
        # While its sender talks the pace goes on; after a silence, and at the beginning, it begins anew.
        if not lane.queue and lane.due < now:
            lane.due = now + DELAY_MS
        lane.queue.append((now, message))
        if len(lane.queue) > QUEUED_MAX:
            self.processor(lane.queue.popleft()[1])

    def _play(self, now: int, lane: Lane) -> None:
        while lane.queue and lane.due <= now:
            since, message = lane.queue.popleft()
            # By when it should have come out, not by when it does: a late call makes up for what it missed.
            is_late = lane.due - since > LATE_MS
            lane.due += PACE_MS // 2 if is_late else PACE_MS
            self.processor(message)


def jitter_buffer(_member: str) -> MessageFilters:
    """The pair for a member."""
    buffer = JitterBuffer()
    return MessageFilters(Forwarder[SentMessage](), buffer, buffer.on_members, buffer.on_time)


message_filters.add("jitter-buffer", jitter_buffer)

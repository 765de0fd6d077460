"""What the steps of the algorithms tell about the messages of a chat: how long each was held back, and in which view.

A message says only who sent it and what. Each is delivered by one step, and a sender's messages are handed over in the
order of these steps, so what is known of a step waits here until its message is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from octoloom.core.roster import name_of
from octoloom.core.steps import BUFFERED, DELIVERED, SENT, VIEW, Step

UNREAD_MAX = 1_000_000
"""More than an inbox holds."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """`epoch` is that of the view in which the message was delivered, 0 if it is not known."""

    epoch: int = 0
    held_ms: int = 0


class Hearing:
    """`on_step` is a trace.

    `on_sent` is called when the next message of one's own is on its way, with the epoch of its view; not in total
    order, where it comes back instead. `on_view` is called with the epoch and the order of each view, and `on_held`
    when something begins or ceases to be held back.
    """

    def __init__(
        self, on_sent: Callable[[int], None], on_view: Callable[[int, str], None], on_held: Callable[[], None]
    ) -> None:
        self._on_sent, self._on_view, self._on_held = on_sent, on_view, on_held
        self._held: dict[tuple[str, int], int] = {}
        self._unread: dict[str, deque[Arrival]] = {}
        self._read: dict[str, tuple[int, Arrival]] = {}
        """Of each sender the bundle that was read last."""

    @property
    def held(self) -> int:
        """How many messages are held back."""
        return len(self._held)

    def on_step(self, step: Step) -> None:
        key = step.sender, step.number
        if step.name == BUFFERED:
            self._held.setdefault(key, step.at_ms)
            self._on_held()
        elif step.name == DELIVERED:
            since = self._held.pop(key, None)
            held_ms = max(step.at_ms - since, 1) if since is not None else 0
            unread = self._unread.setdefault(name_of(step.sender), deque(maxlen=UNREAD_MAX))
            unread.append(Arrival(step.epoch, held_ms))
            if since is not None:
                self._on_held()
        elif step.name == SENT:
            self._on_sent(step.epoch)
        elif step.name == VIEW:
            self._held.clear()
            self._on_held()
            self._on_view(step.epoch, step.text)

    def of(self, sender: str, number: int) -> Arrival:
        """What is known of the message that was read next. `number` is its bundle's: a bundle comes as one."""
        if not number:
            return Arrival()  # it passed by the order
        last_number, arrival = self._read.get(sender, (0, Arrival()))
        if number != last_number:
            unread = self._unread.get(sender)
            arrival = unread.popleft() if unread else Arrival()
            self._read[sender] = number, arrival
        return arrival

    def forget(self, sender: str) -> None:
        """Somebody new has this name: the next bundle is the first."""
        self._read.pop(sender, None)

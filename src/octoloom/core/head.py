"""What only a head does beyond the door: it notes who comes and goes, and fires timers when they are due.

A timer is part of the state: the tail sets it, every replica holds it, and the head of the moment turns it into an
event. A join is noted when a device first bootstraps; a leave only once the device has been gone for longer than a
failover takes, so that a crash of the head is not a mass exodus. Both are events like any other: the same history
gives the same state everywhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from octoloom.core.admission import Door, Limits
from octoloom.core.event import JOIN, LEAVE, PRESENCE, TIMER, Change, Event
from octoloom.core.space import Space, decode_json, encode_json

_TIMER, _LEAVE = 0, 1


class Head:
    def __init__(self, limits: Limits, dice: int, admit: Callable[[Space, list[Event]], None]) -> None:
        self.door = Door(limits, dice, admit)
        self._limits = limits
        self._due: list[tuple[int, int, str, int, str]] = []
        self._attending: dict[str, dict[str, None]] = {}
        self._absent: dict[tuple[str, str], int] = {}
        """Devices that are gone, and when each will have been gone for too long."""

    def take_office(self, now: int, spaces: Iterable[Space]) -> None:
        """Become the head."""
        self._due.clear()
        self._attending.clear()
        self._absent.clear()
        for space in spaces:
            self.on_replaced(now, space)

    def on_replaced(self, now: int, space: Space) -> None:
        """Plan the timers of a space as it is now, and the leaves of those who do not come back."""
        self._attending.pop(space.name, None)
        for timer in space.timers.values():
            self._plan(timer.due_ms, _TIMER, space.name, timer.timer)
        for device in self._attendance(space):
            self.gone(now, space.name, device)

    def on_change(self, space: Space, change: Change) -> None:
        for timer in change.timers:
            self._plan(timer.due_ms, _TIMER, space.name, timer.timer)

    def joined(self, now: int, space: Space, device: str) -> None:
        attending = self._attendance(space)
        self._absent.pop((space.name, device), None)
        if device not in attending:
            attending[device] = None
            self._note(now, space, device, JOIN)

    def gone(self, now: int, space: str, device: str) -> None:
        due_ms = self._absent[space, device] = now + self._limits.leave_grace_ms
        self._plan(due_ms, _LEAVE, space, device=device)

    def deadline(self) -> int | None:
        return self._due[0][0] if self._due else None

    def fire(self, now: int, spaces: dict[str, Space]) -> None:
        """Turn what is due into events."""
        while self._due and self._due[0][0] <= now:
            due_ms, kind, name, number, device = heapq.heappop(self._due)
            space = spaces.get(name)
            if space is None:
                continue
            if kind == _TIMER:
                self._ring(now, space, number)
            elif self._absent.get((name, device)) == due_ms:
                self._leave(now, space, device)

    def _leave(self, now: int, space: Space, device: str) -> None:
        del self._absent[space.name, device]
        if device not in self.door.owners_of(space.name) and device in self._attendance(space):
            del self._attending[space.name][device]
            self._note(now, space, device, LEAVE)

    def _ring(self, now: int, space: Space, number: int) -> None:
        timer = space.timers.get(number)
        if timer is not None and number not in space.device(TIMER).live:
            self.door.put(now, space, TIMER, number, timer.name, timer.payload)

    def _note(self, now: int, space: Space, device: str, name: str) -> None:
        sequencer = space.device(PRESENCE).next()
        self.door.put(now, space, PRESENCE, sequencer, name, encode_json({"device": device}))

    def _attendance(self, space: Space) -> dict[str, None]:
        """Who is in the space once all live events are done."""
        attending = self._attending.get(space.name)
        if attending is None:
            attending = self._attending[space.name] = dict(space.present)
            for number in space.device(PRESENCE).live.values():
                event = space.events[number]
                device = decode_json(event.payload)["device"]
                if event.name == JOIN:
                    attending[device] = None
                else:
                    attending.pop(device, None)
        return attending

    def _plan(self, due_ms: int, kind: int, space: str, number: int = 0, device: str = "") -> None:
        heapq.heappush(self._due, (due_ms, kind, space, number, device))

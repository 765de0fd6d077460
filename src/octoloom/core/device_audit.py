"""Exactly once, and in order: what the journal says of each device's events.

A head takes a device's events in ascending order of their numbers, so the chain's order is that of the numbers. They
are settled in the same order, but for those that the app defers. Therefore

1. each number, and each place in the chain, is settled once;
2. a number behind one that is settled already was deferred: an earlier change has told of it (`waiting`), or both are
   settled by the same change, in which what was deferred is tried again at the end;
3. whoever has the higher number has the higher place in the chain.

A device that lost its store goes on with a higher number: numbers may be left out, and never come back. Timers are
settled as they fall due; what is set and what is not is their memory (`change_audit.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from octoloom.core.event import TIMER, Event, Kill, SpaceSnapshot
from octoloom.core.spans import Spans

SavedSpans = list[tuple[int, int]]


class SavedDevices(msgspec.Struct, array_like=True):
    chain: SavedSpans
    numbers: dict[str, SavedSpans]
    places: dict[str, int]


class DeviceAudit:
    """Feed it the kills of a space in order; each answers the name and the text of what is wrong with it."""

    def __init__(self, saved: SavedDevices | None = None) -> None:
        saved = saved or SavedDevices([], {}, {})
        self._chain = Spans(saved.chain)
        self._numbers = {device: Spans(spans) for device, spans in saved.numbers.items()}
        self._places = dict(saved.places)
        """The place in the chain of each device's highest number. It is not known after a `start`."""
        self._before: dict[str, int] = {}
        """The highest number of each device before the change, for those that the change settles something of."""

    def save(self) -> SavedDevices:
        numbers = {device: spans.spans() for device, spans in self._numbers.items()}
        return SavedDevices(self._chain.spans(), numbers, self._places)

    def restart(self, start: SpaceSnapshot) -> None:
        """A generation begins with what it took over."""
        live = [event.chain_sequencer for event in start.events]
        self._chain = Spans([(1, start.next_chain_sequencer - 1)] if start.next_chain_sequencer > 1 else [])
        for number in live:
            self._chain.remove(number)
        self._numbers, self._places = {}, {}
        for record in start.devices:
            spans = self._numbers[record.device] = Spans([(1, record.watermark)] if record.watermark else [])
            for number in sorted(record.done):
                spans.add(number)

    def begin(self) -> None:
        """The kills that follow are of another change."""
        self._before.clear()

    @property
    def highest_place(self) -> int:
        """The last place in the chain that was settled."""
        return self._chain.highest

    def is_settled(self, event: Event) -> bool:
        return event.chain_sequencer in self._chain

    def settle(self, kill: Kill, waiting: Mapping[int, Event]) -> tuple[str, str] | None:
        """`waiting` has the events that are known to be deferred, by their place in the chain."""
        device, number, place = kill.device, kill.sequencer, kill.chain_sequencer
        if device == TIMER:
            return None if self._chain.add(place) else ("settled-twice", f"place {place} of the chain is settled again")
        spans = self._numbers.setdefault(device, Spans())
        highest = spans.highest
        self._before.setdefault(device, highest)
        if not spans.add(number):
            return "settled-twice", f"event {number} of {device} was settled before"
        if not self._chain.add(place):
            return "settled-twice", f"place {place} of the chain, now {device}'s event {number}, was settled before"
        at_highest = self._places.get(device, 0)
        if number > highest:
            self._places[device] = place
            if place < at_highest:
                return "chain-order", f"event {number} of {device} stands before its event {highest} in the chain"
            return None
        if at_highest and place > at_highest:
            return "chain-order", f"event {number} of {device} stands behind its event {highest} in the chain"
        if number < self._before[device] and place not in waiting:
            return "out-of-order", f"event {number} of {device} is settled after {highest}, and was not deferred"
        return None

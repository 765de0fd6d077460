"""When a link's cores have their turn: once per tick of the loop, for all that heard something, and when one is due.

The loop runs everything that a tick has brought before it runs what was called for soon. So the turn, which is
called for by the first input, comes after the last one, and all of them are one batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from octoloom.core.chain import Chain
from octoloom.runtime.clock import Clock

EVENTS_MAX = 256
"""A tick with more events than this has several turns: the next link starts on the first ones meanwhile."""


class Turns:
    """`take` is called with the chains whose turn it is."""

    def __init__(self, chains: Mapping[str, Chain], clock: Clock, take: Callable[[list[Chain]], None]) -> None:
        self._chains = chains
        self._clock = clock
        self._take = take
        self._marked: dict[str, Chain] = {}
        self._soon = False
        self._events = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due: int | None = None
        self._closed = False

    def mark(self, chain: Chain, events: int = 0) -> None:
        """Something came in for this chain, with so many events; many of them do not wait for the rest."""
        self._marked[chain.chain] = chain
        self._events += events
        if not self._soon and not self._closed:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._turn)
        if self._events >= EVENTS_MAX and not self._closed:
            self._turn_now()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        self._soon = False
        if not self._closed and self._marked:
            self._turn_now()
        self._arm()

    def _turn_now(self) -> None:
        self._events = 0
        marked, self._marked = list(self._marked.values()), {}
        self._take(marked)

    def _arm(self) -> None:
        """Wakes up when the first core wants to. A timer costs more than to see that it still fits."""
        times = [time for chain in self._chains.values() if (time := chain.deadline()) is not None]
        due = min(times) if times else None
        if due == self._due and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due = due
        if due is not None and not self._closed:
            delay_ms = max(due - self._clock.now(), 0)
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        now = self._clock.now()
        for chain in self._chains.values():
            due = chain.deadline()
            if due is not None and due <= now:
                self.mark(chain)
        if not self._soon:
            self._arm()

"""A world has a clock, a queue of what will happen, and dice. Everything in it happens because the queue says so.

The order of the queue is (time, order of scheduling), the dice come from the seed, and no core reads a clock: so a
seed is a history. `tell` writes the transcript, if there is one; its text is only made when somebody reads it.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any


class Broken(AssertionError):  # noqa: N818 - it reads as what happened: a promise is broken
    """A promise was broken; the text says which, by whom and how."""


class World:
    def __init__(self, seed: int, transcript: list[str] | None = None) -> None:
        self.seed = seed
        self.now = 0
        self.dice = random.Random(seed)
        self.transcript = transcript
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0
        self.steps = 0

    def at(self, time: int, what: Callable[..., None], *arguments: Any) -> None:
        """Have something happen at a time; the past means now, after what was scheduled before."""
        self._scheduled += 1
        heapq.heappush(self._queue, (max(time, self.now), self._scheduled, what, arguments))

    def after(self, delay: int, what: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + delay, what, *arguments)

    def run(self, until: int) -> None:
        """Let everything happen that is due up to `until`."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, what, arguments = heapq.heappop(queue)
            self.steps += 1
            what(*arguments)
        self.now = until

    def tell(self, who: str, text: str, *arguments: object) -> None:
        if self.transcript is not None:
            self.transcript.append(f"{self.now:>7} ms  {who:<12} {text.format(*arguments)}")

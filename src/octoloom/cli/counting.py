"""A count on standard error, for work that takes a while in front of a person."""

from __future__ import annotations

import sys
import time

BEGIN_S = 2.0
EVERY_S = 0.5


class Counting:
    """Says nothing in a pipe, nothing of what is done at once, and wipes away what it has said."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = 0
        self._begun = time.monotonic()
        self._next = self._begun + BEGIN_S
        self._shown = False
        self._is_on = sys.stderr.isatty() and not sys.stdout.isatty()

    def add(self, count: int) -> None:
        self._count += count
        if self._is_on and time.monotonic() > self._next:
            self._next = time.monotonic() + EVERY_S
            speed = self._count / (time.monotonic() - self._begun)
            sys.stderr.write(f"\r\x1b[K{self._count:,} {self._what}, {speed:,.0f}/s")
            sys.stderr.flush()
            self._shown = True

    def stop(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False

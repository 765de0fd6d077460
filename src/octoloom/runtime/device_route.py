"""Which link a device calls next, and after what pause.

The links that the chain named last come first, then the urls that the user gave; after a loss the turn goes to the one
behind the lost one. A redirect jumps the queue, once. Pauses grow from 20 to 500 ms and are jittered, so that a
thousand devices that lost the same link do not come back in the same instant.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

PAUSE_MS_MIN = 20
PAUSE_MS_MAX = 500
LINKS_MAX = 16


class Route:
    def __init__(self, urls: Iterable[str]) -> None:
        self._given = list(dict.fromkeys(urls))
        self._known = self._given
        self._current = ""
        self._redirect = ""
        self._pause_ms = PAUSE_MS_MIN

    def next(self) -> str:
        """The url to call now."""
        url, self._redirect = self._redirect, ""
        if not url:
            at = self._known.index(self._current) + 1 if self._current in self._known else 0
            url = self._known[at % len(self._known)]
        self._current = url
        return url

    def redirect(self, url: str) -> None:
        self._redirect = url

    def welcomed(self, links: list[str]) -> None:
        """The current link works and names its fellows."""
        self._pause_ms = PAUSE_MS_MIN
        if links:
            self._known = list(dict.fromkeys([*links[:LINKS_MAX], *self._given]))

    def pause_ms(self) -> float:
        """How long to wait before the next call; nothing before one that was redirected."""
        if self._redirect:
            return 0
        pause_ms = random.uniform(0.5, 1) * self._pause_ms
        self._pause_ms = min(PAUSE_MS_MAX, 2 * self._pause_ms)
        return pause_ms

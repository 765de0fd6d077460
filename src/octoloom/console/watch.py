"""One picture a second for all who look, and none while nobody does.

Whoever follows gets the newest frame and waits for the next: there is no queue, so one who reads slowly skips frames
and holds nobody up. A frame is encoded once, for everybody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from octoloom.console.news import PLAIN, News, news_between
from octoloom.console.picture import Picture

_log = logging.getLogger("octoloom.console")

EVERY_S = 1.0
FRESH_S = 1.0
"""Who asks for a single picture may get one of this age."""
NEWS_KEPT = 100
VIEWERS_MAX = 32
TOLD_BY_CLUSTER = "process"
"""What a cluster that tells its own news knows better than two pictures do."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture as JSON, and all the news, newest first; `news_number` rises when there is more of it."""

    number: int
    picture: bytes
    news_number: int
    news: bytes


class TooManyViewers(Exception):  # noqa: N818
    pass


class Watch:
    def __init__(
        self,
        gather: Callable[[], Awaitable[Picture]],
        on_idle: Callable[[], Awaitable[None]] | None = None,
        every_s: float = EVERY_S,
        viewers_max: int = VIEWERS_MAX,
    ) -> None:
        """`on_idle` is called when the last viewer has gone."""
        self.viewers = 0
        self.pictures = 0
        """How many were made."""
        self._gather = gather
        self._on_idle = on_idle
        self._every_s = every_s
        self._viewers_max = viewers_max
        self._cluster_tells = False
        self._news: deque[News] = deque(maxlen=NEWS_KEPT)
        self._news_number = 0
        self._news_text = b"[]"
        self._last: Picture | None = None
        self._last_at = 0.0
        self._frame: Frame | None = None
        self._moved = asyncio.Event()
        self._making = asyncio.Lock()
        self._maker: asyncio.Task[None] | None = None
        self._stopped = False

    # What is told from outside.

    def tell(self, text: str) -> None:
        """News from who runs the cluster. From then on it is believed in what it tells."""
        self._cluster_tells = True
        now_ms = time.time_ns() // 1_000_000
        self._add([News(now_ms, now_ms, "cluster", PLAIN, text)])

    def _add(self, news: list[News]) -> None:
        if news:
            # Newest first; what two pictures tell together stays in the order in which it was told.
            self._news.extendleft(reversed(news))
            self._news_number += 1
            self._news_text = msgspec.json.encode(list(self._news))

    @property
    def news(self) -> bytes:
        return self._news_text

    # Looking.

    async def once(self) -> Frame:
        """The newest picture; a new one if that is older than a second."""
        async with self._making:
            if self._frame is None or time.monotonic() - self._last_at > FRESH_S:
                await self._make()
            assert self._frame is not None
            return self._frame

    def enter(self) -> None:
        """Takes a seat; `leave` frees it."""
        if self.viewers >= self._viewers_max:
            raise TooManyViewers(f"{self._viewers_max} look at this console already: close a page that shows it")
        self.viewers += 1
        if self._maker is None:
            self._maker = asyncio.get_running_loop().create_task(self._keep_making())

    def leave(self) -> None:
        self.viewers -= 1

    async def frames(self, silence_s: float) -> AsyncIterator[Frame | None]:
        """The newest frame whenever there is a newer one; None if nothing came for so long. Ends with the watch."""
        seen = 0
        while not self._stopped:
            frame = self._frame
            if frame is not None and frame.number != seen and self.is_fresh:
                seen = frame.number
                yield frame
                continue
            try:
                async with asyncio.timeout(silence_s):
                    await self._moved.wait()
            except TimeoutError:
                yield None

    @property
    def is_fresh(self) -> bool:
        """What was left by an earlier viewer is not shown to the next one as if it were new."""
        return time.monotonic() - self._last_at < FRESH_S + 2 * self._every_s

    # Making.

    async def _keep_making(self) -> None:
        loop = asyncio.get_running_loop()
        while self.viewers and not self._stopped:
            begun = loop.time()
            async with self._making:
                try:
                    await self._make()
                except Exception:
                    # A console that breaks must not take the cluster with it. Viewers see that no picture comes.
                    _log.exception("no picture could be made")
            await asyncio.sleep(max(begun + self._every_s - loop.time(), self._every_s / 10))
        self._maker = None
        if self._on_idle is not None and not self._stopped:
            await self._on_idle()

    async def _make(self) -> None:
        picture = await self._gather()
        self.pictures += 1
        if self._last is not None:
            found = news_between(self._last, picture)
            if self._cluster_tells:
                found = [news for news in found if news.about != TOLD_BY_CLUSTER]
            self._add(found)
        self._last, self._last_at = picture, time.monotonic()
        self._frame = Frame(picture.number, msgspec.json.encode(picture), self._news_number, self._news_text)
        self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def stop(self) -> None:
        self._stopped = True
        self._wake()
        maker, self._maker = self._maker, None
        if maker is not None:
            maker.cancel()
            with suppress(asyncio.CancelledError):
                await maker

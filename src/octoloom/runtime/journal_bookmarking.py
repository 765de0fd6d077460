"""Makes bookmarks of the journal whenever one is due, one after the other, with a small share of the process's time.

The journal is read for it as a chain that begins anew would read it, from the last bookmark on. That is more work than
to take the states that the link has; but what is read is what a reader will find, and nobody has to ask whether this
link is still the head. Whatever goes wrong here costs a later reader time, and nothing else: it is told, and play goes
on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from octoloom.core.bookmarks import LEAST_BYTES, BookmarkPace, Key
from octoloom.runtime.journal_bookmarks import Bookmarks
from octoloom.runtime.journal_reader import JournalPass
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError

SHARE = 0.1
"""The part of the process's time that reading takes."""

_log = logging.getLogger("octoloom.journal")


class Bookmarking:
    def __init__(
        self,
        client: LogClient,
        topic: str,
        config: Mapping[str, str],
        chain_names: Callable[[], Sequence[str]],
        least_bytes: int = LEAST_BYTES,
    ) -> None:
        self.bookmarks = Bookmarks(client, topic, config)
        self.made = 0
        self._client, self._topic, self._chain_names = client, topic, chain_names
        self._pace = BookmarkPace(least_bytes)
        self._least_bytes = least_bytes
        self._due: dict[Key, int] = {}
        """The generation that each belongs to."""
        self._task: asyncio.Task[None] | None = None

    def on_written(self, key: Key, generation: int, size: int) -> None:
        """The journal has grown by so many bytes, for a chain in a partition."""
        if self._pace.on_grown(key, size):
            self._due[key] = generation
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._make_all())
                self._task.add_done_callback(self._on_ended)

    def on_read(self, done: JournalPass) -> None:
        """Chains begin anew with what was read: so much had to be read for want of newer bookmarks."""
        for key, bookmark in done.opened.items():
            self._pace.on_known(key, bookmark.size)
        for key, size in done.grown.items():
            self.on_written(key, done.beginning[key[0]], size)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _make_all(self) -> None:
        while self._due:
            key = next(iter(self._due))
            generation = self._due.pop(key)
            self._pace.on_begun(key)
            try:
                await self._make(key, generation)
            except LogError as error:
                _log.info("no bookmark of %s in %s-%d this time: %s", key[0], self._topic, key[1], error)
        self._task = None

    async def _make(self, key: Key, generation: int) -> None:
        chain, partition = key
        beginning = {chain: generation + 1}
        done = JournalPass(
            self._client, self._topic, beginning, self._chain_names(), self.bookmarks, [partition], SHARE
        )
        await done.run()
        if chain in done.failures:
            _log.warning("no bookmark: %s", done.failures[chain])
            return
        known = done.opened.get(key)
        if known is not None:
            self._pace.on_known(key, known.size)
            if done.grown[key] < self._least_bytes:
                # The head before this one has made it.
                return
        partitions = len((await self._client.topic(self._topic)).partitions)
        mark, readers = done.marks[self._topic, partition], done.readers(chain)
        made = await self.bookmarks.write(partition, chain, done.name, mark, readers, partitions)
        self._pace.on_known(key, made.size)
        self.made += 1
        text = "made a bookmark of %s at %s-%d, offset %d: %d spaces, %d bytes"
        _log.info(text, chain, self._topic, partition, mark, made.spaces, made.size)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # The task stays where it is, so no other is begun: what failed once for no good reason would fail again.
            _log.error("no more bookmarks of the topic %s are made", self._topic, exc_info=error)

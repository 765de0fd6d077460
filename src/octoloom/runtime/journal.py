"""A link's hold on the journal: publishes what the heads of its chains commit, and reads it when a chain begins anew.

`publish` takes an entry for as long as it takes: while brokers are away entries wait, and the cores stop admitting
events when too many do. A space's entries are in one partition, in order (`journal_lane.py`). What became durable is
told once per tick, in one list.

`restore` reads the whole topic (`journal_reader.py`). If that cannot be, the chain is never told anything, and so it
serves nobody: an empty space in place of a lost one would be worse. The log says why, and what to do.

The topic is made if it is not there: kept for ever, with room for the largest records.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from octoloom.core.effects import Publish
from octoloom.core.event import SpaceSnapshot
from octoloom.runtime.backoff import Backoff
from octoloom.runtime.journal_lane import MESSAGE_BYTES_MAX, Item, Lane
from octoloom.runtime.journal_reader import JournalPass
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import BrokenSequence, LogError, TopicExists
from octoloom.wire.journal import TOPIC
from octoloom.wire.kafka.client_messages import TopicPartition
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.partitioner import partition_of

PARTITIONS = 8
TOPIC_CONFIG = {"retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": str(MESSAGE_BYTES_MAX)}
REPLICAS_USUAL = 3
FORM_S = 1.0
"""How long to wait for so many brokers before the topic is made with fewer replicas."""
LATE_S = 3.0
"""A batch that takes longer means that something is wrong with the brokers."""
WATCH_S = 0.5
READ_AGAIN_MS_MAX = 10_000.0
FLUSH_S = 1.0
"""How long a link that ends waits for what it has published."""

_log = logging.getLogger("octoloom.journal")


class Journaled(NamedTuple):
    """The journal has everything of the space up to this version."""

    chain: str
    space: str
    generation: int
    version: int


OnJournaled = Callable[[list[Journaled]], None]
OnRestored = Callable[[str, int, list[SpaceSnapshot]], None]
"""(chain, generation, what it takes over)"""


class Journal:
    """`on_broken` is called with an error that no broker can be blamed for."""

    def __init__(
        self,
        bootstrap: str,
        on_journaled: OnJournaled,
        on_restored: OnRestored,
        on_broken: Callable[[Exception], None],
        *,
        topic: str = TOPIC,
        partitions: int = PARTITIONS,
        client_id: str = "octoloom-link",
        chain_names: Callable[[], Sequence[str]] = tuple,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`chain_names` answers all chains that there are: each space belongs to one of them."""
        self.topic = topic
        self.now_ms = now_ms
        self.on_broken = on_broken
        self._client = LogClient(bootstrap, client_id)
        self._chain_names = chain_names
        self._partitions = partitions
        self._on_journaled, self._on_restored = on_journaled, on_restored
        self._lanes: list[Lane] = []
        self._early: list[list[Item]] = []
        """What came before the topic was known."""
        self._opening: asyncio.Task[None] | None = None
        self._tag: asyncio.Task[tuple[int, int]] | None = None
        self._written: dict[tuple[str, str, int], int] = {}
        self._restores: dict[str, int] = {}
        self._restoring: asyncio.Task[None] | None = None
        self._opening_since: float | None = None
        self._pass: JournalPass | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._trouble: LogError | None = None
        self._late_since: float | None = None
        self._too_large: dict[str, None] = {}

    # Writing.

    def publish(self, chain: str, epoch: int, effect: Publish) -> None:
        """Appends the entries of one space, in order, and tells `on_journaled` by and by."""
        items = [Item(chain, effect.space, effect.generation, epoch, entry) for entry in effect.entries]
        if self._lanes:
            self._lane_of(effect.space).add(items)
        else:
            self._early.append(items)
            self._open()
        self._keep_watch()

    def _lane_of(self, space: str) -> Lane:
        return self._lanes[partition_of(space.encode(), len(self._lanes))]

    def on_written(self, items: Sequence[Item]) -> None:
        self._trouble = None
        if not self._written:
            asyncio.get_running_loop().call_soon(self._tell)
        for item in items:
            self._written[item.chain, item.space, item.generation] = item.entry.version
            if self._too_large:
                self._too_large.pop(item.space, None)

    def _tell(self) -> None:
        written, self._written = self._written, {}
        self._on_journaled([Journaled(*where, version) for where, version in written.items()])

    async def flush(self, timeout_s: float) -> bool:
        """Waits until what was published is written, or for so long."""
        deadline = time.monotonic() + timeout_s
        while self._early or any(not lane.idle for lane in self._lanes):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.005)
        return True

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        tasks = [task for task in (self._opening, self._restoring, self._tag) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lane in self._lanes:
            await lane.close()
        await self._client.close()

    # The topic.

    def _open(self) -> None:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._find_topic())
            self._opening.add_done_callback(self._on_task_ended)
        self._keep_watch()

    async def _find_topic(self) -> None:
        """Finds the topic, or makes it, however long that takes."""
        backoff, self._opening_since = Backoff(), time.monotonic()
        while True:
            try:
                count = await self._count_partitions()
                break
            except LogError as error:
                self._trouble = error
                await asyncio.sleep(backoff.next_s())
        self._opening_since = self._trouble = None
        self._lanes = [Lane(self._client, (self.topic, number), self._first_tag, self) for number in range(count)]
        early, self._early = self._early, []
        for items in early:
            self._lane_of(items[0].space).add(items)

    async def _count_partitions(self) -> int:
        known = (await self._client.metadata([self.topic])).topics.get(self.topic)
        if known is None or known.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await self._make_topic()
        return len((await self._client.topic(self.topic)).partitions)

    async def _make_topic(self) -> None:
        deadline = time.monotonic() + FORM_S
        while len((await self._client.metadata([])).brokers) < REPLICAS_USUAL and time.monotonic() < deadline:
            await asyncio.sleep(FORM_S / 10)
        try:
            await self._client.create_topic(self.topic, self._partitions, config=TOPIC_CONFIG)
            _log.info("made the topic %s with %d partitions", self.topic, self._partitions)
        except TopicExists:
            # Another link was faster.
            return

    async def _first_tag(self) -> tuple[int, int]:
        """The id that all partitions begin with, asked for once."""
        if self._tag is None or (self._tag.done() and (self._tag.cancelled() or self._tag.exception() is not None)):
            self._tag = asyncio.get_running_loop().create_task(self._client.init_producer())
        return await asyncio.shield(self._tag)

    # Reading.

    def restore(self, chain: str, generation: int) -> None:
        """Reads what the journal holds of a chain's spaces. Those who ask while a pass is under way share the next."""
        self._restores[chain] = generation
        if self._restoring is None:
            self._restoring = asyncio.get_running_loop().create_task(self._restore_all())
            self._restoring.add_done_callback(self._on_task_ended)
        self._open()

    async def _restore_all(self) -> None:
        while self._restores:
            assert self._opening is not None
            await asyncio.shield(self._opening)
            beginning, self._restores = self._restores, {}
            done = await self._read_all(beginning)
            for chain, generation in beginning.items():
                if chain in done.failures:
                    _log.error("%s. %s does not serve", done.failures[chain], chain)
                elif chain not in self._restores:
                    self._on_restored(chain, generation, await done.snapshots(chain))
        self._restoring = None

    async def _read_all(self, beginning: dict[str, int]) -> JournalPass:
        """A whole pass, tried until the brokers are there for it."""
        backoff = Backoff(max_ms=READ_AGAIN_MS_MAX)
        while True:
            self._pass = JournalPass(self._client, self.topic, beginning, self._chain_names())
            self._keep_watch()
            try:
                await self._pass.run()
                return self._pass
            except LogError as error:
                self._trouble = error
                if not error.retriable:
                    _log.warning("the journal is read again from its beginning: %s", error)
                await asyncio.sleep(backoff.next_s())
            finally:
                self._pass = None

    def _on_task_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.on_broken(error)

    # Trouble.

    def on_trouble(self, place: TopicPartition, error: LogError) -> None:
        self._trouble = error
        if isinstance(error, BrokenSequence):
            # It may have forgotten a silent writer, or it may have lost what it acknowledged.
            _log.warning("%s: it is sent again under a new id", error)

    def on_too_large(self, place: TopicPartition, item: Item, size: int) -> None:
        if item.space in self._too_large:
            return
        self._too_large[item.space] = None
        text = "version %d of the space %s has about %d bytes, which is too large for %s-%d: raise max.message.bytes of"
        text += " the topic, up to %d, or keep the state smaller; until then nothing of this space is in the journal"
        _log.error(text, item.entry.version, item.space, size, *place, MESSAGE_BYTES_MAX)

    def _keep_watch(self) -> None:
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(WATCH_S, self._look)

    def _look(self) -> None:
        """Says once that the journal is held up, and once that it goes on."""
        self._watch = None
        waiting = [since for lane in self._lanes if (since := lane.writing_since) is not None]
        if self._opening_since is not None:
            waiting.append(self._opening_since)
        if self._pass is not None:
            waiting.append(self._pass.heard_at)
        now = time.monotonic()
        late_s = now - min(waiting, default=now)
        if late_s > LATE_S and self._late_since is None:
            self._late_since = now - late_s
            why = f" ({self._trouble})" if self._trouble is not None else ""
            text = (
                "the brokers of the journal keep this link waiting, with %d spaces to publish%s: it goes on by itself"
            )
            text += " when they are back, see `octoloom topic describe %s`"
            _log.warning(text, sum(lane.waiting for lane in self._lanes), why, self.topic)
        elif late_s <= LATE_S and self._late_since is not None:
            _log.info("the journal goes on after %.1f s", now - self._late_since)
            self._late_since = self._trouble = None
        if waiting or self._late_since is not None or any(not lane.idle for lane in self._lanes):
            self._keep_watch()

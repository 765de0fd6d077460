"""Group commit: one sync for all that was written before it, and the next begins with what came meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import uvloop

from octoloom.core.errors import StoreError
from octoloom.runtime.broker_sync import Synced, Syncer
from tests.waiting import async_until as until


class SlowLog:
    def __init__(self) -> None:
        self.end = 0
        self.syncs = 0
        self.go = threading.Event()
        self.error: StoreError | None = None

    def sync(self) -> int:
        end = self.end
        self.syncs += 1
        assert self.go.wait(10)
        if self.error is not None:
            raise self.error
        return end


class FakeReplica:
    """As much of a replica as a sync looks at."""

    def __init__(self) -> None:
        self.log = SlowLog()
        self.cuts = 0


def run(story: Callable[[Syncer, list[Synced], list[StoreError]], object]) -> None:
    async def main() -> None:
        synced: list[Synced] = []
        failed: list[StoreError] = []
        syncer = Syncer(synced.append, failed.append)
        try:
            await story(syncer, synced, failed)  # type: ignore[misc]
        finally:
            syncer.close()

    uvloop.run(main())


def test_what_is_written_during_a_sync_waits_for_the_next() -> None:
    async def story(syncer: Syncer, synced: list[Synced], failed: list[StoreError]) -> None:
        one, two = FakeReplica(), FakeReplica()
        one.log.end = 5
        syncer.want(one)  # type: ignore[arg-type]
        syncer.start()
        await until(lambda: one.log.syncs == 1)
        for end in (6, 7, 8):
            one.log.end = end
            two.log.end = end
            syncer.want(one)  # type: ignore[arg-type]
            syncer.want(two)  # type: ignore[arg-type]
            syncer.start()
        one.log.go.set()
        two.log.go.set()
        await until(lambda: len(synced) == 2)
        told: list[list[tuple[object, int]]] = [[(replica.log, end) for replica, _, end in each] for each in synced]
        assert told == [[(one.log, 5)], [(one.log, 8), (two.log, 8)]]
        assert (one.log.syncs, two.log.syncs, failed) == (2, 1, [])

    run(story)


def test_a_failed_sync_is_told_and_nothing_is_durable_by_it() -> None:
    async def story(syncer: Syncer, synced: list[Synced], failed: list[StoreError]) -> None:
        replica = FakeReplica()
        replica.log.error = StoreError("gone")
        replica.log.go.set()
        syncer.want(replica)  # type: ignore[arg-type]
        syncer.start()
        await until(lambda: failed)
        assert synced == []

    run(story)


def test_a_log_that_was_closed_meanwhile_is_no_failure() -> None:
    async def story(syncer: Syncer, synced: list[Synced], failed: list[StoreError]) -> None:
        replica = FakeReplica()
        replica.log.error = StoreError("it is closed")
        syncer.want(replica)  # type: ignore[arg-type]
        syncer.start()
        await until(lambda: replica.log.syncs == 1)
        replica.cuts += 1
        replica.log.go.set()
        await until(lambda: synced)
        assert (synced, failed) == ([[]], [])

    run(story)

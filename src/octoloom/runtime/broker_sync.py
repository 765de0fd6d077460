"""Group commit: other threads sync all logs that were written to, while the loop goes on.

Many logs are synced at the same time: the file system makes one commit of what waits together, ten times as quickly as
one after the other. Whatever is written during a sync waits for the next one, which begins at once.

A sync that fails ends the broker: what the disk has then is found out by opening the logs anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from octoloom.core.errors import StoreError
from octoloom.runtime.broker_logs import Replica

HELPERS = 8

Synced = list[tuple[Replica, int, int]]
"""(replica, its cuts when the sync began, the end that is durable)"""


class Syncer:
    def __init__(self, on_synced: Callable[[Synced], None], on_failed: Callable[[StoreError], None]) -> None:
        self._on_synced, self._on_failed = on_synced, on_failed
        self._loop = asyncio.get_running_loop()
        self._wanted: dict[Replica, int] = {}
        """With their cuts: what was wanted of a log before it was cut, or closed, is wanted no more."""
        self._is_running = False
        self._jobs: SimpleQueue[list[tuple[Replica, int]] | None] = SimpleQueue()
        self._helpers = ThreadPoolExecutor(HELPERS, "octoloom-sync-helper")
        self._thread = threading.Thread(target=self._work, name="octoloom-sync", daemon=True)
        self._thread.start()

    def want(self, replica: Replica) -> None:
        self._wanted[replica] = replica.cuts

    def start(self) -> None:
        """Syncs what is wanted, unless a sync runs: then it is next."""
        if self._wanted and not self._is_running:
            wanted, self._wanted = self._wanted, {}
            self._is_running = True
            self._jobs.put(list(wanted.items()))

    def forget(self) -> None:
        self._wanted.clear()

    def close(self) -> None:
        """Waits for the sync that runs."""
        self._jobs.put(None)
        self._thread.join()
        self._helpers.shutdown()

    # In the other thread.

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            synced: Synced = []
            failed: StoreError | None = None
            each_of = map if len(job) == 1 else self._helpers.map
            for (replica, cuts), end in zip(job, each_of(_sync, job), strict=True):
                if isinstance(end, int):
                    synced.append((replica, cuts, end))
                elif replica.cuts == cuts:
                    failed = end
                # A log that was closed meanwhile, because its topic is deleted, owes nobody a sync.
            with contextlib.suppress(RuntimeError):  # the loop is gone, and so is everybody who waited
                self._loop.call_soon_threadsafe(self._on_done, synced, failed)

    # In the loop again.

    def _on_done(self, synced: Synced, failed: StoreError | None) -> None:
        self._is_running = False
        if failed is not None:
            self._on_failed(failed)
            return
        # The next sync runs while the loop tells everybody about this one.
        self.start()
        self._on_synced(synced)


def _sync(job: tuple[Replica, int]) -> int | StoreError:
    try:
        return job[0].log.sync()
    except StoreError as error:
        return error

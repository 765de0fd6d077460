"""What devices and observers have in common: they follow a space's state and tell of its changes."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from weakref import WeakSet

from octoloom.core.device import DeviceCore
from octoloom.core.device_effects import Advanced, Reset, Settled
from octoloom.core.errors import OctoloomError, UsageError
from octoloom.core.event import SYSTEM
from octoloom.runtime.device_driver import Driver, Told
from octoloom.runtime.device_route import Route
from octoloom.storage.device_store import open_store
from octoloom.wire.device import NAME_MAX, TOKEN_MAX

SETTLED_MAX = 256
"""How many outcomes a change that nobody reads gathers; older ones go first."""


@dataclass(frozen=True, slots=True)
class SendOutcome:
    """What became of an event that this device sent. True if and only if it was applied."""

    status: str
    """applied, rejected, superseded, quarantined or forgotten"""
    reason: str
    version: int
    """The version of the state in which it was settled."""
    sequencer: int

    def __bool__(self) -> bool:
        return self.status == "applied"


@dataclass(frozen=True, slots=True)
class Change:
    """The state moved to `version`. `settled` are this device's own events that ended on the way."""

    version: int
    settled: tuple[SendOutcome, ...] = ()
    reset: bool = False
    """The chain began a new history: everything may be different."""


class Changes:
    """The changes of a space, for `async for`. A slow reader gets the newest, with the outcomes of those between."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._unread: Change | None = None

    def offer(self, change: Change) -> None:
        if (old := self._unread) is not None:
            settled = (*old.settled, *change.settled)[-SETTLED_MAX:]
            change = Change(change.version, settled, old.reset or change.reset)
        self._unread = change

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while self._unread is None:
            if self._follower.closed:
                raise StopAsyncIteration
            await self._follower.told()
        change, self._unread = self._unread, None
        return change


class Follower:
    """An `async with` block is the connection: entering opens it, leaving closes it."""

    def __init__(
        self, urls: str | list[str], space: str, device: str, store: str | Path | None, token: str, wait_ms: int
    ) -> None:
        self._urls = [urls] if isinstance(urls, str) else list(urls)
        check_urls(self._urls)
        check_name("space", space)
        if len(token) > TOKEN_MAX:
            raise UsageError(f"a token has at most {TOKEN_MAX} characters: shorten it")
        self.space, self.device = space, device
        self.closed = False
        self._store_path, self._token, self._wait_ms = store, token, wait_ms
        self._driver_or_none: Driver | None = None
        self._changes: WeakSet[Changes] = WeakSet()
        self._waiters: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> Self:
        if self._driver_or_none is not None:
            raise UsageError("this was opened before: call connect(...) again for a new connection")
        store = open_store(self._store_path, self.space, self.device)
        core = DeviceCore(self.space, self.device, self._token, store.load())
        self._driver_or_none = Driver(core, Route(self._urls), store, self._on_told)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wait_ms / 1000):
                    await self.online()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    @property
    def state(self) -> dict[str, Any]:
        """The shared state as of `version`. Treat it as read-only: it changes when the chain says so."""
        return cast(dict[str, Any], self._driver.core.state)

    @property
    def version(self) -> int:
        return self._driver.core.version

    @property
    def connected(self) -> bool:
        """Whether a link of the chain serves this connection right now."""
        return self._driver.connected

    async def online(self) -> None:
        """Waits until a link serves this connection; raises if none ever will."""
        while not self.connected:
            await self.told()

    def changes(self) -> Changes:
        """The changes from now on; ends when the connection is closed.

        .. code-block:: python

            async for change in ada.changes():
                print(change.version, ada.state)
        """
        changes = Changes(self)
        self._changes.add(changes)
        return changes

    @property
    def _driver(self) -> Driver:
        if self._driver_or_none is None:
            raise UsageError("not open yet: write `async with ...connect(...) as it:` and use it inside")
        return self._driver_or_none

    async def told(self) -> None:
        """Waits until the driver tells something; raises if it has ended."""
        self._check()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        if not self.closed:
            self._check()

    def _check(self) -> None:
        if self._driver.error is not None:
            raise self._driver.error

    def _on_told(self, told: list[Told]) -> None:
        settled = [effect for effect in told if isinstance(effect, Settled)]
        outcomes = tuple(SendOutcome(e.outcome.word, e.reason, e.version, e.sequencer) for e in settled)
        self._on_settled([(effect.ticket, outcome) for effect, outcome in zip(settled, outcomes, strict=True)])
        versions = [effect.version for effect in told if isinstance(effect, Advanced)]
        reset = any(isinstance(effect, Reset) for effect in told)
        if versions or outcomes:
            change = Change(versions[-1] if versions else outcomes[-1].version, outcomes, reset)
            for changes in list(self._changes):
                changes.offer(change)
        if self._driver_or_none is not None and self._driver.error is not None:
            self._on_ended(self._driver.error)
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _on_settled(self, outcomes: list[tuple[int, SendOutcome]]) -> None:
        """Some of this device's events have ended."""

    def _on_ended(self, error: OctoloomError) -> None:
        """Nothing more will come."""

    async def _close(self) -> None:
        if self.closed:
            return
        await self._driver.close()
        self.closed = True
        assert self._driver.error is not None
        self._on_ended(self._driver.error)
        self._wake()


def check_urls(urls: list[str]) -> None:
    if not urls:
        raise UsageError("give at least one url, for example ws://127.0.0.1:7080")
    for url in urls:
        if not url.startswith(("ws://", "wss://")):
            raise UsageError(f"{url!r} is not a WebSocket url: write ws:// or wss://, for example ws://127.0.0.1:7080")


def check_name(kind: str, name: str) -> None:
    if not name or len(name) > NAME_MAX:
        raise UsageError(f"the name of a {kind} has 1 to {NAME_MAX} characters, {name[:20]!r} has {len(name)}")
    if name.startswith(SYSTEM):
        raise UsageError(f"names that start with {SYSTEM!r} are the chain's own: rename the {kind} {name!r}")

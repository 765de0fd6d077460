"""A device in Python: what an application holds to act in a space and to see it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Self

import msgspec

from octoloom.core.device_effects import PendingEvent, Previewer
from octoloom.core.errors import OctoloomError, UsageError
from octoloom.core.event import Event
from octoloom.runtime.follower import Follower, SendOutcome, check_name


class Sending:
    """An event on its way. Awaiting it gives its outcome; not awaiting it is fine too."""

    __slots__ = ("_future", "ticket")

    def __init__(self, ticket: int, future: asyncio.Future[SendOutcome]) -> None:
        self.ticket = ticket
        self._future = future

    def __await__(self) -> Generator[Any, None, SendOutcome]:
        # Shielded: whoever gives up waiting does not take the outcome from the others.
        return asyncio.shield(self._future).__await__()

    def done(self) -> bool:
        return self._future.done()


class Device(Follower):
    """Acts in a space and follows its state. It works offline: what is sent then goes out once a link is there.

    .. code-block:: python

        async with Device.connect("ws://127.0.0.1:7080", space="lobby", device="ada", store="ada.db") as ada:
            outcome = await ada.send("claim", {"cell": "b4"})
            if not outcome:
                print(outcome.status, outcome.reason)
            print(ada.state)

    With `store`, events that are not settled survive the end of the process and go out in the next one.
    """

    def __init__(
        self,
        urls: str | list[str],
        space: str,
        device: str,
        store: str | Path | None,
        app: Previewer | None,
        token: str,
        wait_ms: int,
    ) -> None:
        check_name("device", device)
        super().__init__(urls, space, device, store, token, wait_ms)
        self._app = app
        self._sendings: dict[int, asyncio.Future[SendOutcome]] = {}
        self._view: tuple[int, dict[str, Any]] | None = None

    @classmethod
    def connect(
        cls,
        url: str | list[str],
        space: str,
        device: str,
        store: str | Path | None = None,
        app: Previewer | None = None,
        token: str = "",
        wait_ms: int = 1_000,
    ) -> Self:
        """Prepares the connection; `async with` opens it.

        Opening waits up to `wait_ms` for a link's welcome, and goes on offline without it. `app` computes `view`.
        """
        return cls(url, space, device, store, app, token, wait_ms)

    def send(self, name: str, payload: Any = None) -> Sending:
        """Does something: it is numbered, made durable and said, without waiting. Await the answer for the outcome.

        Raises `Full` (a `UsageError`) while too many events are not settled.
        """
        try:
            text = msgspec.json.encode(payload)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(
                f"the payload of {name!r} is not JSON-serialisable ({error}): use dicts, lists, text, numbers, None"
            ) from None
        ticket = self._driver.act(name, text)
        future: asyncio.Future[SendOutcome] = asyncio.get_running_loop().create_future()
        self._sendings[ticket] = future
        return Sending(ticket, future)

    @property
    def next_number(self) -> int:
        """The number that this device's next event gets, as far as it and the chain know while it is connected."""
        return self._driver.core.next_sequencer

    @property
    def pending(self) -> list[PendingEvent]:
        """What this device did and the chain has not settled, in order."""
        return self._driver.core.unsettled()

    @property
    def view(self) -> dict[str, Any]:
        """The state as it will be if the pending events are applied. Without an `app`, the state. Read-only."""
        if self._app is None:
            return self.state
        if self._view is None or self._view[0] != self._driver.revision:
            # The app may change what it is given, and the state itself is not ours to change.
            state = msgspec.json.decode(msgspec.json.encode(self.state))
            self._view = (self._driver.revision, self._app.preview(state, self._events()))
        return self._view[1]

    def _events(self) -> list[Event]:
        now = time.time_ns() // 1_000_000
        return [Event(0, self.device, event.sequencer, event.name, event.payload, now, 0) for event in self.pending]

    async def settled(self) -> None:
        """Waits until nothing is pending."""
        while self._sendings or self.pending:
            await self.told()

    def _on_settled(self, outcomes: list[tuple[int, SendOutcome]]) -> None:
        for ticket, outcome in outcomes:
            future = self._sendings.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(outcome)

    def _on_ended(self, error: OctoloomError) -> None:
        futures, self._sendings = list(self._sendings.values()), {}
        for future in futures:
            if not future.done():
                future.set_exception(error)
                # Nobody has to await an event: an error that is not looked at is no news.
                future.exception()

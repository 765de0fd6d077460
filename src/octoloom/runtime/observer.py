"""An observer: watches a space without a name. Any link of the chain serves it, so observers scale past devices."""

from __future__ import annotations

from typing import Self

from octoloom.runtime.follower import Follower


class Observer(Follower):
    """Follows a space's state, and cannot change it.

    .. code-block:: python

        async with Observer.connect("ws://127.0.0.1:7080", space="lobby") as lobby:
            async for change in lobby.changes():
                print(change.version, lobby.state)
    """

    @classmethod
    def connect(cls, url: str | list[str], space: str, wait_ms: int = 1_000) -> Self:
        """Prepares the connection; `async with` opens it, and waits up to `wait_ms` for the first state."""
        return cls(url, space, "", None, "", wait_ms)

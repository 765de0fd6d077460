"""What carries packets between the members of a group, as the rest of the runtime sees it. It may lose them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from octoloom.core.group_messages import GroupView, Part


class Owner(Protocol):
    """Who is told what comes in."""

    def on_peer_up(self, member: str) -> None:
        """There is a new connection to this member."""

    def on_packet(self, peer: str, parts: list[Part]) -> bool:
        """Whether all of it was in order. If not, that was counted and logged, and the connection is to end."""


class Carrier(Protocol):
    counters: Counter[str]

    @property
    def address(self) -> str:
        """host:port, once it is open."""

    async def open(self, host: str, port: int) -> None: ...

    def on_view(self, view: GroupView) -> None:
        """These are the members from now on, this one among them."""

    def send(self, member: str, parts: Sequence[bytes]) -> None:
        """All that one turn has for a member, encoded. Said to who cannot be reached it is lost."""

    def close(self) -> None: ...

"""What the register's desks share. They speak with links about chains, brokers about topics, and members about groups.

A desk hands what comes in to its core and gathers what comes out. The server saves what all desks have gathered in a
tick in one transaction, and then has each tell it: nothing that is not durable is ever told.
"""

from __future__ import annotations

from typing import Protocol

from octoloom.core.register_messages import Declined
from octoloom.runtime.frames import FramedConnection
from octoloom.wire.register import Request, encode_frame

BUFFERED_MAX = 64 * 1024 * 1024
"""Who lets this much of what it was told lie unread is hung up on: it asks anew when it can."""


class Desk(Protocol):
    def on_request(self, now: int, connection: FramedConnection, request: Request) -> None:
        """Something that only who has enlisted here says. Raises `ProtocolError` otherwise."""

    def on_closed(self, now: int, connection: FramedConnection) -> None: ...

    def deadline(self) -> int | None: ...

    def on_time(self, now: int) -> None: ...

    def tell(self) -> None:
        """All that was gathered is durable: tell it."""


def send(connection: FramedConnection, frame: bytes) -> None:
    if connection.buffered > BUFFERED_MAX:
        connection.abort()
    else:
        connection.send(frame)


def decline(connection: FramedConnection, code: str, detail: str, ends: bool = True) -> None:
    connection.send(encode_frame(Declined(code, detail)))
    if ends:
        connection.close()

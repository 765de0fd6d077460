"""The leader's side of replication: connections of brokers that follow this one, and the frames they are sent.

A follower begins as every client does, on the same port, with a request of its own kind. Who shows another token or
means another broker is hung up on; so is one that is not in the directory, which dials again soon: one of the two has
not heard the news yet. Of each follower there is one connection; a newer one takes the place of the older.
"""

from __future__ import annotations

import hmac
import logging

from octoloom.core.broker_effects import SendFrame
from octoloom.core.errors import ProtocolError, StoreError
from octoloom.core.log_messages import Follow, Part, TopicPartition
from octoloom.core.replication import FRAME_BYTES_MAX, Wanted
from octoloom.runtime.broker_apis import Request
from octoloom.runtime.broker_connection import Connection
from octoloom.runtime.broker_output import Piece
from octoloom.runtime.broker_state import BrokerState
from octoloom.storage.log_damage import DamagedLog
from octoloom.storage.segment_search import FileSlice
from octoloom.wire.replication import (
    Welcome,
    decode_from_follower,
    decode_intro,
    encode_frame_start,
    encode_parts,
    encode_welcome,
)

OUT_BYTES_MAX = 1 << 40
COPY_BYTES_MAX = 64 * 1024
"""Up to so many bytes of a part are read and sent with the rest of the frame."""
PACKED_BYTES_MAX = 16 * 1024
"""A frame with no more than this is sent in one piece."""

_log = logging.getLogger("octoloom.broker")


class Followers:
    def __init__(self, state: BrokerState, me: str) -> None:
        self._state = state
        self.me = me
        self._connections: dict[str, Connection] = {}
        self._names: dict[Connection, str] = {}

    # Coming and going.

    def on_intro(self, request: Request) -> None:
        """Lets a follower in: from now on its connection speaks the other language."""
        connection = request.connection
        assert isinstance(connection, Connection)
        intro = decode_intro(request.header, request.frame)
        if not hmac.compare_digest(intro.token.encode(), self._state.settings.token.encode()):
            raise ProtocolError("forbidden", f"{intro.broker} does not show this cluster's token")
        if intro.leader != self.me or len(connection.requests) != 1:
            raise ProtocolError("other-broker", f"{intro.broker} looks for {intro.leader}, this is {self.me}")
        if intro.broker not in self._state.directory.brokers:
            connection.close()  # no fault
            return
        older = self._connections.get(intro.broker)
        if older is not None:
            older.close()
        request.respond(encode_welcome(request.header, Welcome(self.me)))
        self._connections[intro.broker] = connection
        self._names[connection] = intro.broker
        connection.take = self._on_frame
        connection.on_closed = self._on_closed
        # How much is under way to it is the core's to say, and what it says meanwhile should be heard.
        connection.out_bytes_max = OUT_BYTES_MAX
        _log.info("%s is followed by %s", self.me, intro.broker)

    def _on_closed(self, connection: Connection) -> None:
        peer = self._names.pop(connection)
        if self._connections.get(peer) is connection:
            del self._connections[peer]
        self._state.core.streaming.on_follower_down(peer)
        self._state.soon()

    def _on_frame(self, connection: Connection, frame: memoryview) -> bool:
        message, peer, now = decode_from_follower(frame), self._names[connection], self._state.clock.now()
        if isinstance(message, Follow):
            if message.broker != peer:
                raise ProtocolError("other-broker", f"{peer} speaks for {message.broker}")
            self._state.core.streaming.on_follow(now, peer, message)
            return True
        return self._state.core.streaming.on_follower_durable(now, peer, message)

    # Sending.

    def send_frame(self, effect: SendFrame) -> bool:
        """Sends what is wanted, as much as fits. True: there is more, so flush once more."""
        parts = list(effect.verdicts)
        pieces: list[Piece] = []
        sent: list[tuple[TopicPartition, int]] = []
        left = FRAME_BYTES_MAX
        for wanted in effect.wanted:
            if left <= 0:
                sent.append((wanted.name, wanted.offset))
                continue
            part, next_offset, found = self._read(wanted, left)
            parts.append(part)
            sent.append((wanted.name, next_offset))
            if found is not None:
                left -= part.size
                pieces.append(found)
        heads = encode_parts(parts)
        size = len(heads) + FRAME_BYTES_MAX - left
        if size <= PACKED_BYTES_MAX:
            heads, pieces = packed(heads, pieces)
        more, streaming = False, self._state.core.streaming
        for peer, number in effect.to:
            connection = self._connections.get(peer)
            if connection is not None and parts:
                connection.send([encode_frame_start(number, size) + heads, *pieces])
            more |= streaming.on_sent(peer, sent)
        return more

    def _read(self, wanted: Wanted, bytes_max: int) -> tuple[Part, int, Piece | None]:
        """The part, where the next one begins, and the batches."""
        name, offset = wanted.name, wanted.offset
        replica = self._state.logs.replicas[name]
        fresh, log = replica.fresh, replica.log
        if fresh is not None and fresh.offset == offset and fresh.end == wanted.before:
            part = Part(*name, wanted.epoch, offset, fresh.size, wanted.high, wanted.start)
            return part, fresh.end, b"".join(fresh.batches)
        try:
            is_there = offset >= log.start
            found = log.read(offset, bytes_max, wanted.before) if is_there and offset < wanted.before else None
        except DamagedLog:
            raise
        except StoreError as error:
            _log.error("%s", error)
            is_there = False
        if not is_there:
            # Retention has passed the follower, or the file cannot be read now. It asks anew and is told what to do.
            part = Part(*name, wanted.epoch, offset, 0, wanted.high, wanted.start, verdict="refused")
            return part, max(wanted.before, offset), None
        size, next_offset = (0, offset) if found is None else (found.size, found.next_offset)
        part = Part(*name, wanted.epoch, offset, size, wanted.high, wanted.start)
        return part, next_offset, None if found is None else copied(found)

    def on_cut(self) -> None:
        """A log is about to be cut: whoever is being sent some of a file may not get what comes to that place next."""
        for connection in list(self._names):
            if connection.sends_files:
                connection.close()


def packed(heads: bytes, pieces: list[Piece]) -> tuple[bytes, list[Piece]]:
    """The heads with all that can be joined to them, and the other pieces."""
    joined = [heads]
    for piece in pieces:
        if not isinstance(piece, bytes):
            break
        joined.append(piece)
    return b"".join(joined), pieces[len(joined) - 1 :]


def copied(found: FileSlice) -> Piece:
    """Few bytes are read. What cannot be read whole is left to `sendfile`, which ends the connection over it."""
    data = found.read() if found.size <= COPY_BYTES_MAX else b""
    return data if len(data) == found.size else found

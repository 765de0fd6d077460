"""The packets of a group over UDP: one socket, and nothing that keeps what the network loses.

A turn's packet for a member is one datagram, or several where its parts do not fit into one. A single part that does
not fit (an app's state, mostly) is cut into pieces; if one of them is lost all are, and the core says the part again.

A datagram counts only if it comes from where the register says that its sender listens. Faults are counted, and logged
less and less often: everybody can send datagrams.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Callable, Sequence

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.group_messages import GroupView
from octoloom.runtime.frames import split_address
from octoloom.runtime.group_carrier import Owner
from octoloom.wire.group import Piece, decode_packet, decode_piece, encode_piece, is_piece, packet_head, packets_of

DATAGRAM_MAX = 60_000
PIECE_BYTES = 32_000
PIECES_MAX = 1_024
"""Of one packet."""
GATHERED_MAX = 4
"""So many unfinished packets are kept for a sender; the oldest goes first."""
SOCKET_BYTES = 8 * 1024 * 1024

Loss = Callable[[bytes], Sequence[float]]
"""What becomes of a datagram on its way out: after how many seconds each copy of it leaves. No copy: it is lost."""
Source = tuple[str, int]
_log = logging.getLogger("octoloom.group")


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, group: str, me: str, owner: Owner, loss: Loss | None = None) -> None:
        self.counters: Counter[str] = Counter()
        self._group, self._me = group, me
        self._owner = owner
        self._loss = loss
        self._members: dict[Source, str] = {}
        self._sources: dict[str, Source] = {}
        self._heads: dict[str, bytes] = {}
        self._pieces: dict[str, dict[int, dict[int, bytes]]] = {}
        """By sender and number: the pieces of packets that are not whole yet."""
        self._numbered = 0
        self._transport: asyncio.DatagramTransport | None = None
        self._paused = False

    @property
    def address(self) -> str:
        assert self._transport is not None
        host, port = self._transport.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    async def open(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_datagram_endpoint(lambda: self, (host, port))
        except OSError as error:
            text = f"cannot listen for the group on {host}:{port} ({error.strerror}): name another host or port"
            raise UsageError(text) from error

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Speaking.

    def on_view(self, view: GroupView) -> None:
        self._sources = {address.member: split_address(address.peer) for address in view.members}
        self._members = {source: member for member, source in self._sources.items() if member != self._me}
        self._heads = {member: packet_head(self._group, self._me, member) for member in self._sources}
        self._pieces = {member: pieces for member, pieces in self._pieces.items() if member in self._sources}

    def send(self, member: str, parts: Sequence[bytes]) -> None:
        source = self._sources.get(member)
        if source is None:
            return
        for packet in packets_of(self._heads[member], parts, DATAGRAM_MAX):
            if len(packet) <= DATAGRAM_MAX:
                self._launch(packet, source)
            else:
                self._cut_up(packet, source)

    def _cut_up(self, packet: bytes, source: Source) -> None:
        count = -(-len(packet) // PIECE_BYTES)
        if count > PIECES_MAX:
            self.counters["too-long"] += 1
            _log.error("%s cannot send %d bytes over UDP at once: use TCP", self._me, len(packet))
            return
        self._numbered += 1
        for index in range(count):
            data = packet[index * PIECE_BYTES : (index + 1) * PIECE_BYTES]
            self._launch(encode_piece(Piece(self._numbered, index, count, data)), source)

    def _launch(self, datagram: bytes, source: Source) -> None:
        if self._loss is None:
            self._send_now(datagram, source)
            return
        for delay_s in self._loss(datagram):
            if delay_s:
                asyncio.get_running_loop().call_later(delay_s, self._send_now, datagram, source)
            else:
                self._send_now(datagram, source)

    def _send_now(self, datagram: bytes, source: Source) -> None:
        if self._paused:
            self.counters["unsent"] += 1  # the kernel takes no more: as good as lost on the way
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(datagram, source)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # by create_datagram_endpoint's promise
        opened: socket.socket = transport.get_extra_info("socket")
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with contextlib.suppress(OSError):
                opened.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False

    def error_received(self, exc: Exception) -> None:
        self.counters["unreachable"] += 1

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        source = addr[0], addr[1]
        try:
            self._on_datagram(data, source)
        except ProtocolError as error:
            self.counters[error.code] += 1
            self._log(error.code, f"{self._me} drops a datagram from {source[0]}:{source[1]}: {error}")

    def _on_datagram(self, data: bytes, source: Source) -> None:
        peer = self._members.get(source)
        if peer is None:
            # The register may have told a newcomer first; it will say it again.
            raise ProtocolError("not-a-member", f"no member of {self._group} sends from there")
        if is_piece(data):
            whole = self._gather(peer, decode_piece(data))
            if whole is None:
                return
            data = whole
        packet = decode_packet(data)
        if packet.to != self._me:
            self.counters["other-incarnation"] += 1
            return
        if packet.sender != peer or packet.group != self._group:
            raise ProtocolError("forged-sender", f"{peer} says that it is {packet.sender} of {packet.group}")
        self._owner.on_packet(peer, packet.parts)

    def _gather(self, peer: str, piece: Piece) -> bytes | None:
        """The packet, if this is the last piece that it lacked."""
        if not 0 <= piece.index < piece.count <= PIECES_MAX or len(piece.data) > PIECE_BYTES:
            raise ProtocolError("bad-piece", f"{peer} sends piece {piece.index} of {piece.count}")
        packets = self._pieces.setdefault(peer, {})
        pieces = packets.setdefault(piece.number, {})
        pieces[piece.index] = piece.data
        if len(pieces) < piece.count:
            if len(packets) > GATHERED_MAX:
                del packets[next(iter(packets))]
            return None
        del packets[piece.number]
        if any(index not in pieces for index in range(piece.count)):
            raise ProtocolError("bad-piece", f"{peer} counts the pieces of packet {piece.number} in two ways")
        return b"".join(pieces[index] for index in range(piece.count))

    def _log(self, code: str, text: str) -> None:
        """At the 1st, 2nd, 4th, 8th… of a kind."""
        count = self.counters[code]
        if count & (count - 1) == 0:
            _log.warning("%s (%d of this kind)", text, count)

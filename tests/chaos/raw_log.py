"""A connection to a broker, or to the register, that says whatever it is told to, and batches that lie.

Nothing here checks what is sent; every wait for what comes back is bounded.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from crc32c import crc32c

from octoloom.runtime.frames import split_address
from octoloom.wire.framing import Piece
from octoloom.wire.kafka import client_messages as ask
from octoloom.wire.kafka import cold
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.batches import HEADER_SIZE, BatchHeader, read_header
from octoloom.wire.kafka.client_messages import Cluster, FetchedPartition
from octoloom.wire.kafka.compose import compose_request
from octoloom.wire.kafka.records import Record, build_batch
from tests.waiting import PATIENCE_S

FULL_S = 0.5
"""Who takes nothing for so long will not before it is read from."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_FROM = 21


class Raw:
    def __init__(self, address: str) -> None:
        self._socket = socket.create_connection(split_address(address), PATIENCE_S)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def fill(self, frame: bytes, bytes_max: int) -> int:
        """Says the same again and again, until the other side takes no more or hangs up; answers how much it took."""
        sent, many = 0, frame * 1000
        self._socket.settimeout(FULL_S)
        with contextlib.suppress(TimeoutError, ConnectionError):
            while sent < bytes_max:
                sent += self._socket.send(many[sent % len(many) :])
        self._socket.settimeout(PATIENCE_S)
        return sent

    def say(self, api: int, version: int, body: Iterable[Piece], correlation: int = 7) -> None:
        self.send(b"".join(ask.encode_frame(api, version, correlation, b"raw", body)))

    def hear(self) -> memoryview:
        """The next answer, from its correlation id on."""
        [size] = struct.unpack(">i", self._exactly(4))
        return memoryview(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            some = self._socket.recv(size - len(data))
            assert some, "it hung up in place of an answer"
            data += some
        return data

    def ask(self, api: int, body: Iterable[Piece]) -> memoryview:
        self.say(api, ask.ASKED[api], body)
        return self.hear()

    def ask_cold(self, api: int, version: int, **values: Any) -> Any:
        self.send(cold.encode_request(compose_request(api, version, **values), 7, "raw"))
        return cold.decode_response(api, version, self.hear())

    def produce(self, topic: str, batch: bytes, partition: int = 0, acks: int = -1) -> int:
        """The error of the answer."""
        answer = self.ask(Api.PRODUCE, ask.encode_produce(topic, partition, batch, acks, 10_000))
        return ask.read(ask.parse_produce, answer).error

    def fetch(self, topic: str, offset: int = 0, partition: int = 0, epoch: int = -1) -> FetchedPartition:
        wanted = {(topic, partition): ask.FetchFrom(offset, epoch, 1 << 20)}
        _, [result] = ask.read(ask.parse_fetch, self.ask(Api.FETCH, ask.encode_fetch(wanted, 0, 1, 1 << 20)))
        return result

    def metadata(self, *topics: str) -> Cluster:
        return ask.read(ask.parse_metadata, self.ask(Api.METADATA, ask.encode_metadata(topics or None)))

    def says_no_more(self) -> None:
        """Nothing more is sent; what was sent may still be answered."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def is_hung_up(self) -> bool:
        """Whether the other side ends the connection, after whatever it still has to say."""
        try:
            while self._socket.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def raw(address: str) -> Iterator[Raw]:
    made = Raw(address)
    try:
        yield made
    finally:
        made.close()


def batch(*values: bytes) -> bytes:
    return build_batch([Record(0, 1_000 + at, None, value) for at, value in enumerate(values)])


GOOD = batch(b"one", b"two")


def forged(original: bytes, **changes: int) -> bytes:
    """The batch with another header, and the CRC that fits, unless a wrong one is asked for."""
    header: BatchHeader = read_header(original)._replace(**changes)
    rest = original[HEADER_SIZE:]
    if "crc" not in changes:
        header = header._replace(crc=crc32c((_HEADER.pack(*header) + rest)[_CRC_FROM:]))
    return _HEADER.pack(*header) + rest

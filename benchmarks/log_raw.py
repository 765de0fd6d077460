"""What the machine itself allows: bytes over loopback into a file, with nothing else done to them.

One process per replica. The first gets chunks from the client, passes each on to the others, writes it to its file,
syncs if it is told to, and acknowledges once the others have. Chunks are 1 MB, or one record in the case `single`.
Reading is `sendfile` of the whole file back to the client. No log that keeps its promises can be quicker by much; a log
that puts several requests into one sync can, where the disk's sync is what takes the time.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from pathlib import Path

import click

from log_case import SINGLE_WINDOW, Load, LogError, Meter, Pace, Setup
from octoloom.runtime.processes import ready_line
from servers import HOST, Servers

CHUNK_SIZE = 1_000_000
WINDOW = 4
PATIENCE_S = 60.0
HEADER = struct.Struct(">BI")
APPEND, READ, CLEAR = range(3)
DONE = b"\1"


class Raw:
    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup = setup
        self._servers = Servers(folder)
        self._address = ("", 0)

    @property
    def pids(self) -> list[int]:
        return self._servers.pids

    def start(self) -> None:
        followers = [self._serve(number, []) for number in range(1, self.setup.replicas)]
        host, port = self._serve(0, followers).split(":")
        self._address = host, int(port)

    def _serve(self, number: int, followers: list[str]) -> str:
        path = self._servers.folder / f"{number}.data"
        self._servers.start(f"raw{number}", [sys.executable, __file__, str(path), self.setup.sync, *followers])
        return self._servers.facts(-1)["address"]

    def until_ready(self) -> None:
        """It is, once it has started."""

    def stop(self) -> None:
        self._servers.stop()

    def make(self, topic: str) -> None:
        with self._connect() as connection:
            connection.sendall(HEADER.pack(CLEAR, 0))
            expect(connection, 1)

    def drop(self, topic: str) -> None:
        self.make(topic)

    def _connect(self) -> socket.socket:
        return connected(self._address)

    # Runs.

    def produce(self, topic: str, load: Load, meter: Meter) -> int:
        single = load.way == "single"
        chunk = load.record if single else bytes(CHUNK_SIZE)
        window = SINGLE_WINDOW if single else WINDOW
        message = HEADER.pack(APPEND, len(chunk)) + chunk
        sent = acknowledged = 0
        with self._connect() as connection:
            meter.start()
            end = time.perf_counter() + load.seconds
            while time.perf_counter() < end:
                connection.sendall(message)
                sent += 1
                if sent - acknowledged >= window:
                    acknowledged += len(connection.recv(window))
            expect(connection, sent - acknowledged)
            meter.stop()
        return sent * len(chunk) // load.size // load.records_per_message

    def consume(self, topic: str, load: Load, messages: int, meter: Meter) -> int:
        buffer = bytearray(CHUNK_SIZE)
        with self._connect() as connection:
            meter.start()
            connection.sendall(HEADER.pack(READ, 0))
            left = size = int.from_bytes(expect(connection, 8))
            while left:
                left -= received(connection.recv_into(buffer, min(left, CHUNK_SIZE)))
            meter.stop()
        return size // load.size

    def latencies(self, topic: str, record: bytes, count: int) -> list[float]:
        found, pace = [], Pace()
        message = HEADER.pack(APPEND, len(record)) + record
        with self._connect() as connection:
            for _ in range(count):
                time.sleep(pace.pause_s())
                start = time.perf_counter()
                connection.sendall(message)
                expect(connection, 1)
                found.append(time.perf_counter() - start)
        return found


def connected(address: tuple[str, int]) -> socket.socket:
    connection = socket.create_connection(address, PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def received(size: int) -> int:
    if not size:
        raise LogError("the other side of the raw copy is gone")
    return size


def expect(connection: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        received(len(part))
        parts += part
    return parts


# One replica.


class Replica:
    def __init__(self, path: str, sync: str, followers: list[socket.socket]) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
        self._syncs = sync == "always"
        self._followers = followers
        self._buffer = memoryview(bytearray(HEADER.size + CHUNK_SIZE))

    def serve(self, connection: socket.socket) -> None:
        """Until the other side ends it."""
        while header := connection.recv(HEADER.size, socket.MSG_WAITALL):
            kind, size = HEADER.unpack(header)
            if kind == APPEND:
                self._append(connection, header, size)
            elif kind == READ:
                self._send(connection)
            else:
                self._clear(header)
            if kind != READ:
                for follower in self._followers:
                    expect(follower, 1)
                connection.sendall(DONE)

    def _append(self, connection: socket.socket, header: bytes, size: int) -> None:
        chunk = self._buffer[HEADER.size : HEADER.size + size]
        received(connection.recv_into(chunk, size, socket.MSG_WAITALL))
        self._buffer[: HEADER.size] = header
        for follower in self._followers:
            follower.sendall(self._buffer[: HEADER.size + size])
        os.write(self._file, chunk)
        if self._syncs:
            os.fdatasync(self._file)

    def _clear(self, header: bytes) -> None:
        for follower in self._followers:
            follower.sendall(header)
        os.ftruncate(self._file, 0)

    def _send(self, connection: socket.socket) -> None:
        size = os.fstat(self._file).st_size
        connection.sendall(size.to_bytes(8))
        position = 0
        while position < size:
            position += os.sendfile(connection.fileno(), self._file, position, CHUNK_SIZE)


@click.command()
@click.argument("path")
@click.argument("sync")
@click.argument("followers", nargs=-1)
def main(path: str, sync: str, followers: tuple[str, ...]) -> None:
    addresses = [(host, int(port)) for host, _, port in (address.partition(":") for address in followers)]
    replica = Replica(path, sync, [connected(address) for address in addresses])
    listener = socket.create_server((HOST, 0))
    click.echo(ready_line(address=f"{HOST}:{listener.getsockname()[1]}"))
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            replica.serve(connection)


if __name__ == "__main__":
    main()

"""What a connection sends: any mix of bytes and slices of files, over a socket that takes little at a time."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from octoloom.runtime.broker_output import Output, Piece
from octoloom.storage.log_files import OpenFile
from octoloom.storage.segment_search import FileSlice


def test_everything_leaves_in_order_however_little_is_taken(tmp_path: Path) -> None:
    dice = random.Random(5)
    content = dice.randbytes(1_500_000)
    path = tmp_path / "file"
    path.write_bytes(content)
    file = OpenFile(str(path))
    ours, theirs = tcp_pair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 50_000)
    output, expected, received = Output(), bytearray(), bytearray()
    for _ in range(20):
        pieces: list[Piece] = []
        for _ in range(dice.randrange(6)):
            if dice.random() < 0.3:
                position, size = dice.randrange(500_000), dice.choice([1, 5_000, 1_000_000])
                pieces.append(FileSlice(file, position, size, 0))
                expected += content[position : position + size]
            else:
                data = dice.randbytes(dice.choice([0, 1, 10, 3000]))
                pieces.append(data)
                expected += data
        output.put(pieces)
        send(output, ours)
        assert output.size <= len(expected) - len(received)
        drain(theirs, received)
    while len(received) < len(expected):
        drain(theirs, received)
        send(output, ours)
    assert received == expected
    assert output.size == 0
    assert not output.has_files


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50_000)
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


def send(output: Output, sock: socket.socket) -> None:
    try:
        output.send(sock)
    except BlockingIOError:
        return


def drain(sock: socket.socket, received: bytearray) -> None:
    """Takes what has arrived."""
    try:
        while True:
            received += sock.recv(4096)
    except BlockingIOError:
        return


def test_a_file_that_has_shrunk_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    output = Output()
    output.put([FileSlice(OpenFile(str(path)), 900, 200, 0)])
    assert output.has_files
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(ConnectionAbortedError):
        output.send(ours)
    output.clear()
    assert output.size == 0

"""What is asked of a socket, by what lacks of a frame."""

from __future__ import annotations

import socket

from octoloom.runtime.wakeups import PART_BYTES_MAX, PART_BYTES_MIN, Wakeups


class Asked:
    def __init__(self) -> None:
        self.values: list[int] = []

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self.values.append(value)


def test_a_reader_sleeps_until_a_good_part_of_a_large_frame_is_there() -> None:
    asked = Asked()
    wakeups = Wakeups(asked)
    for lacking in (0, PART_BYTES_MIN - 1, 3 * PART_BYTES_MAX, 2 * PART_BYTES_MAX, PART_BYTES_MIN, 1000, 0):
        wakeups.lacking(lacking)
    # Nothing is asked for twice, and small frames are read as they come.
    assert asked.values == [PART_BYTES_MAX, PART_BYTES_MIN, 1]


def test_a_socket_that_cannot_is_left_alone() -> None:
    with socket.socket() as closed:
        pass
    Wakeups(closed).lacking(PART_BYTES_MAX)

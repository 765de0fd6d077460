"""A member of a group as a process of its own (`runtime/group_speaker.py`), on a network that may lose datagrams."""

from __future__ import annotations

import random

from octoloom.runtime.group_speaker import main
from octoloom.runtime.group_udp import Loss
from tests.runtime.group_rooms import BadWeather


def weather(lost: float) -> Loss:
    return BadWeather(random.getrandbits(32), lost=lost, doubled=lost / 2, late=lost)


if __name__ == "__main__":
    main(weather)

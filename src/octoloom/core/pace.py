"""How much one turn does: how many events a tail computes at once, and how often changes are told to a large audience.

The core has no clock. Its driver says what things have cost, and these two answer what follows from that.

1. A tail's batch grows while computing it is short, and shrinks when it was long: large batches cost less per event,
   small ones let others have their turn.
2. Telling a change to thousands costs the same however much is in it. Once it costs more than `FAN_FREE_US`, the next
   telling waits as long as the last one took, so that it fills half of the time at most. What is committed meanwhile
   goes out together, and nothing is ever left waiting: `fan_from` is part of the chain's deadline.
"""

from __future__ import annotations

from octoloom.core.compute import BATCH_MAX

COMPUTE_SHORT_US = 10_000
COMPUTE_LONG_US = 50_000
FAN_FREE_US = 2_000
FAN_WAIT_MS_MAX = 200


def next_batch_max(batch_max: int, took_us: int) -> int:
    """The size of the next batch, after one of up to `batch_max` took this long."""
    if took_us < COMPUTE_SHORT_US:
        return min(batch_max * 2, BATCH_MAX)
    return max(batch_max // 2, 1) if took_us > COMPUTE_LONG_US else batch_max


class FanPace:
    """When the next change may be told to those who watch."""

    __slots__ = ("fan_from",)

    def __init__(self) -> None:
        self.fan_from = 0

    def spent(self, now: int, took_us: int) -> None:
        """Telling has taken this long, and is over now."""
        if took_us > FAN_FREE_US:
            self.fan_from = now + min(took_us // 1000, FAN_WAIT_MS_MAX)

    def may_fan(self, now: int) -> bool:
        return now >= self.fan_from

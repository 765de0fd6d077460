"""How much one turn does: batches that follow their cost, and a large audience that is told half of the time."""

from __future__ import annotations

from octoloom.core.compute import BATCH_MAX
from octoloom.core.pace import COMPUTE_LONG_US, COMPUTE_SHORT_US, FAN_FREE_US, FAN_WAIT_MS_MAX, FanPace, next_batch_max


def test_a_batch_grows_while_it_is_short_up_to_its_bound() -> None:
    sizes = [64]
    for _ in range(6):
        sizes.append(next_batch_max(sizes[-1], COMPUTE_SHORT_US - 1))
    assert sizes == [64, 128, 256, 512, 1024, BATCH_MAX, BATCH_MAX]


def test_a_long_batch_is_halved_down_to_one_event() -> None:
    sizes = [5]
    for _ in range(4):
        sizes.append(next_batch_max(sizes[-1], COMPUTE_LONG_US + 1))
    assert sizes == [5, 2, 1, 1, 1]


def test_between_short_and_long_a_batch_stays() -> None:
    assert next_batch_max(64, COMPUTE_SHORT_US) == 64
    assert next_batch_max(64, COMPUTE_LONG_US) == 64


def test_a_small_audience_never_waits() -> None:
    pace = FanPace()
    pace.spent(1000, FAN_FREE_US)
    assert pace.may_fan(1000)


def test_a_large_audience_is_told_half_of_the_time() -> None:
    pace = FanPace()
    pace.spent(1000, 8_000)
    assert [pace.may_fan(now) for now in (1000, 1007, 1008)] == [False, False, True]
    assert pace.fan_from == 1008


def test_nobody_waits_for_longer_than_the_bound() -> None:
    pace = FanPace()
    pace.spent(1000, 60_000_000)
    assert pace.fan_from == 1000 + FAN_WAIT_MS_MAX

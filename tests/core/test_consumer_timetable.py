"""When a member has to do something."""

from __future__ import annotations

from octoloom.core.consumer_member_messages import MemberSettings
from octoloom.core.consumer_timetable import PAUSE_MS, PAUSE_MS_MAX, Timetable


def test_what_counts_is_when_a_heartbeat_was_sent() -> None:
    times = Timetable(MemberSettings(("orders",), session_ms=1_000, beat_ms=200))
    times.on_in(5_000)
    assert (times.is_heard(6_000), times.is_heard(6_001)) == (True, False)
    times.on_beat_sent(5_500)
    assert times.beat_at == 5_700
    assert not times.is_heard(6_500)
    times.on_heard()
    assert (times.is_heard(6_500), times.is_heard(6_501)) == (True, False)


def test_an_app_may_work_for_so_long() -> None:
    times = Timetable(MemberSettings(("orders",), work_ms_max=60_000))
    assert times.work_until is None
    times.working_since = 1_000
    assert times.work_until == 61_000


def test_pauses_grow_until_all_is_well() -> None:
    times = Timetable(MemberSettings(("orders",)))
    pauses = [times.next_pause_ms() for _ in range(10)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (PAUSE_MS, 2 * PAUSE_MS, PAUSE_MS_MAX)
    times.on_reading()
    assert times.next_pause_ms() == PAUSE_MS

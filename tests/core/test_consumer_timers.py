"""Timers against a dumb twin that looks through all deadlines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core import consumer_timers
from octoloom.core.consumer_timers import SLACK, Timers

steps = st.lists(
    st.tuples(st.sampled_from(["set", "set", "set", "clear", "wait"]), st.integers(0, 5), st.integers(0, 40))
)


@pytest.fixture(scope="module", params=[0, SLACK])
def slack(request: pytest.FixtureRequest) -> Iterator[None]:
    """Without slack the heap is swept all the time."""
    consumer_timers.SLACK = request.param
    yield
    consumer_timers.SLACK = SLACK


@pytest.mark.usefixtures("slack")
@given(steps)
def test_timers_go_off_when_their_deadline_has_come(history: list[tuple[str, int, int]]) -> None:
    timers: Timers[int] = Timers()
    twin: dict[int, int] = {}
    now = 0
    for step, key, number in history:
        if step == "set":
            timers.set(key, now + number)
            twin[key] = now + number
        elif step == "clear":
            timers.clear(key)
            twin.pop(key, None)
        else:
            now += number
            gone = []
            while (due := timers.pop(now)) is not None:
                gone.append((twin.pop(due), due))
            assert [time for time, _ in gone] == sorted(time for time, _ in gone)
            assert all(time > now for time in twin.values())
        deadline = timers.deadline()
        assert (deadline is None) == (not twin)
        assert deadline is None or deadline <= min(twin.values())
        assert len(timers) == len(twin)
        assert all((key in timers) == (key in twin) for key in range(6))


def test_equal_deadlines_go_off_in_the_order_in_which_they_were_set() -> None:
    timers: Timers[str] = Timers()
    for key in "cab":
        timers.set(key, 5)
    assert [timers.pop(5), timers.pop(5), timers.pop(5)] == ["c", "a", "b"]


def test_putting_off_does_not_grow_the_heap() -> None:
    timers: Timers[str] = Timers()
    for time in range(10_000):
        timers.set("member", time + 100)
    assert len(timers._heap) == 1
    assert timers.deadline() == 100
    assert timers.pop(9_000) is None
    assert timers.deadline() == 10_099
    assert timers.pop(10_099) == "member"


def test_those_who_come_and_go_leave_no_more_than_the_slack() -> None:
    timers: Timers[int] = Timers()
    for key in range(10_000):
        timers.set(key, 1_000_000 + key)
        timers.clear(key)
        assert len(timers._heap) <= SLACK + 2
    for time in range(1_000, 0, -1):
        timers.set(0, time)
        assert len(timers._heap) <= SLACK + 2
    assert timers.pop(1) == 0
    assert timers.pop(1_000_000) is None

"""What members were delivered is judged rightly: every fault that a group can have is noticed, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from group_case import FailoverCase, GroupCase, GroupError
from group_deliveries import (
    Deliveries,
    Faults,
    blackout_ns,
    failover,
    faults,
    first_difference,
    latency,
    throughput,
)

MS = 1_000_000
GOOD = [(1, 0), (2, 0), (1, 1), (1, 2), (2, 1)]
SENT = {1: 3, 2: 2}
LOST = [(1, 0), (2, 0), (1, 2), (2, 1)]
TWICE = [(1, 0), (2, 0), (1, 1), (2, 0), (1, 2), (2, 1)]
SWAPPED = [(1, 0), (2, 0), (1, 2), (1, 1), (2, 1)]
OTHER_ORDER = [(2, 0), (1, 0), (1, 1), (1, 2), (2, 1)]
FORGED = [*GOOD, (1, 3)]
STRANGE = [*GOOD, (3, 0)]


def delivered(messages: list[tuple[int, int]], step_ns: int = MS) -> Deliveries:
    """One at each step; all were sent at 0."""
    return Deliveries.of((sender, number, 0, place * step_ns) for place, (sender, number) in enumerate(messages, 1))


def at(*times_ms: int) -> Deliveries:
    return Deliveries.of((1, number, 0, time * MS) for number, time in enumerate(times_ms))


# Files.


@pytest.mark.parametrize("messages", [[], GOOD])
def test_what_is_written_is_read(tmp_path: Path, messages: list[tuple[int, int]]) -> None:
    delivered(messages).write(tmp_path / "x")
    assert Deliveries.read(tmp_path / "x") == delivered(messages)


def test_columns_are_little_endian_as_members_in_other_languages_write_them(tmp_path: Path) -> None:
    Deliveries.of([(1, 2, 3, 4)]).write(tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == bytes([2, 0, 0, 0, 1, 0, 0, 0, 3, *[0] * 7, 4, *[0] * 7])


@pytest.mark.parametrize("size", [1, 8, 16, 23, 25])
def test_a_damaged_file_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "x").write_bytes(bytes(size))
    with pytest.raises(GroupError, match="damaged"):
        Deliveries.read(tmp_path / "x")


# Faults of one member.


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (GOOD, Faults()),
        (OTHER_ORDER, Faults()),
        (LOST, Faults(missing=1)),
        (TWICE, Faults(duplicates=1)),
        (SWAPPED, Faults(inversions=1)),
        (FORGED, Faults(unsent=1)),
        (STRANGE, Faults(unsent=1)),
        ([], Faults(missing=5)),
    ],
)
def test_each_fault_is_counted_as_what_it_is(messages: list[tuple[int, int]], expected: Faults) -> None:
    assert faults(delivered(messages), SENT) == expected
    assert bool(expected) == (messages not in (GOOD, OTHER_ORDER))


def test_faults_equal_those_of_a_slow_count() -> None:
    dice = random.Random(5)
    for _ in range(300):
        messages = [(dice.randrange(1, 4), dice.randrange(6)) for _ in range(dice.randrange(20))]
        sent = {1: dice.randrange(7), 2: dice.randrange(7)}
        real = [(sender, number) for sender, number in messages if number < sent.get(sender, 0)]
        firsts = [message for place, message in enumerate(real) if message not in real[:place]]
        late = [
            place
            for place, (sender, number) in enumerate(firsts)
            if any(before == sender and later > number for before, later in firsts[:place])
        ]
        missing = [1 for sender, count in sent.items() for number in range(count) if (sender, number) not in real]
        expected = Faults(len(real) - len(firsts), len(late), len(missing), len(messages) - len(real))
        assert faults(delivered(messages), sent) == expected


# Agreement.


@pytest.mark.parametrize(
    ("others", "place"),
    [
        ([GOOD, GOOD], None),
        ([GOOD[:3], GOOD[:1]], None),
        ([GOOD, []], None),
        ([GOOD, OTHER_ORDER], 0),
        ([SWAPPED, GOOD], 2),
        ([LOST, GOOD], 2),
        ([SWAPPED, OTHER_ORDER], 0),
        ([GOOD[:4], [*GOOD[:4], (1, 3)]], 4),
        ([SWAPPED[:3], LOST], 2),
    ],
)
def test_the_first_disagreement_is_found(others: list[list[tuple[int, int]]], place: int | None) -> None:
    members = [delivered(messages) for messages in (GOOD, *others)]
    assert first_difference(members) == place
    assert first_difference(members[::-1]) == place


def test_two_short_members_that_differ_are_found_beside_a_long_one() -> None:
    assert first_difference([delivered(GOOD), delivered([(1, 0), (2, 5)]), delivered(GOOD[:2])]) == 1


# Blackouts.


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((10, 20, 30, 40, 50, 60), 10),
        ((10, 20, 30, 45, 50, 60), 15),
        ((10, 20, 21, 22, 60), 38),
        ((10, 20, 30, 31, 52, 60), 21),
        ((1, 30, 31, 60), 29),
        ((1, 24, 25, 26, 55, 60), 29),
        ((1, 20, 25, 30, 40, 50, 60), 10),
        ((10, 20), 40),
        ((10, 20, 30), 30),
        ((), 35),
        ((20, 30, 40, 50, 60, 70, 95), 25),
    ],
)
def test_a_blackout_is_the_longest_gap_that_ends_after_the_kill(times: tuple[int, ...], expected: int) -> None:
    assert blackout_ns(at(*times), killed_ns=25 * MS, ended_ns=60 * MS) == expected * MS


# Runs.


def test_a_rate_is_from_the_first_send_to_the_last_delivery_and_the_slowest_counts() -> None:
    found = throughput([delivered(GOOD, step) for step in (MS, 4 * MS, 2 * MS)], SENT)
    assert found.messages == 5
    assert found.rates == pytest.approx([1000, 250, 500])
    assert found.slowest == pytest.approx(250)


@pytest.mark.parametrize("bad", [LOST, TWICE, SWAPPED, OTHER_ORDER, FORGED, STRANGE, GOOD[:3]])
@pytest.mark.parametrize("judge", [throughput, latency])
def test_a_run_that_is_not_whole_has_no_figure(judge: object, bad: list[tuple[int, int]]) -> None:
    assert callable(judge)
    judge([delivered(GOOD), delivered(GOOD), delivered(GOOD)], SENT)
    with pytest.raises(GroupError, match=r"was not delivered|disagree"):
        judge([delivered(GOOD), delivered(GOOD), delivered(bad)], SENT)


def test_a_run_without_messages_has_no_figure() -> None:
    with pytest.raises(GroupError, match="nothing was sent"):
        throughput([delivered([])], {1: 0})
    with pytest.raises(GroupError, match="more than one message"):
        latency([delivered([]), delivered([])], {1: 0})


def test_latency_is_of_the_sender_s_own_deliveries() -> None:
    own = Deliveries.of((1, number, number * MS, number * MS + (number + 1) * 1000) for number in range(101))
    late = Deliveries.of((1, number, number * MS, number * MS + 50 * MS) for number in range(101))
    found = latency([late, own, late], {1: 101})
    assert found.messages == 101
    assert found.p50_ms == pytest.approx(0.051)
    assert found.p99_ms == pytest.approx(0.100)


def test_a_sender_that_is_told_of_another_s_messages_late_is_not_slower_for_it() -> None:
    rows = [(sender, number, 0, 1 * MS if sender == 1 else 9 * MS) for number in range(50) for sender in (1, 2)]
    mirrored = [(sender, number, 0, 10 * MS - at) for sender, number, _, at in rows]
    found = latency([Deliveries.of(rows), Deliveries.of(rows), Deliveries.of(mirrored)], {1: 50, 2: 50})
    assert found.messages == 100
    assert found.p99_ms == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [LOST, TWICE, SWAPPED, OTHER_ORDER, FORGED])
def test_a_failover_is_clean_only_without_any_fault(bad: list[tuple[int, int]]) -> None:
    good = delivered(GOOD)
    assert failover([good, good], SENT, 2 * MS, 5 * MS, 0).clean
    assert not failover([good, good], SENT, 2 * MS, 5 * MS, stuck=1).clean
    found = failover([good, delivered(bad)], SENT, 2 * MS, 5 * MS, 0)
    assert not found.clean
    assert found.agree == (bad == FORGED)


def test_a_failover_tells_of_the_worst_survivor() -> None:
    found = failover([delivered(GOOD), delivered(SWAPPED, 3 * MS), delivered([])], SENT, 2 * MS, 9 * MS, 0)
    assert found.blackouts_ms == [4, 3, 7]
    assert found.blackout_ms == 7
    assert (found.inversions, found.missing, found.duplicates) == (1, 5, 0)
    assert (found.agree, found.differ_at, found.sent) == (False, 2, 5)


# Cases.


def test_cases_that_cannot_be_are_refused() -> None:
    assert str(GroupCase(senders=3, size=1_000, seconds=1)) == "3 senders, 1 KB"
    assert FailoverCase(before_s=1, after_s=2, per_second=500).count == 1_500
    for wrong in ({"senders": 4}, {"senders": 0}, {"size": 19}, {"seconds": 0}):
        with pytest.raises(GroupError):
            GroupCase(**{"senders": 1, "size": 100, "seconds": 1, **wrong})

"""One replica: how it leads, how it follows, and where two logs that went different ways agree."""

from __future__ import annotations

import pytest

from octoloom.core.log_messages import FollowEntry, Part, PartitionState
from octoloom.core.partition import (
    FENCED_EPOCH,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER,
    UNKNOWN_EPOCH,
    Admission,
    LogTail,
    Partition,
    Waiting,
)
from octoloom.core.producers import ProducerTable, Verdict
from octoloom.simulation.log_disk import SimPlace

NAME = ("moves", 0)
Log = list[tuple[int, int]]
"""(epoch, how many records it gave), oldest first."""


def tail(log: Log, durable: int | None = None, high: int = 0, start: int = 0) -> LogTail:
    epochs, end = [], start
    for epoch, count in log:
        epochs.append((epoch, end))
        end += count
    return LogTail(start, end, end if durable is None else durable, high, epochs)


def state(leader: str, epoch: int, *in_sync: str, version: int = 0) -> PartitionState:
    return PartitionState(leader, epoch, list(in_sync) or [leader], ["a", "b", "c"], version or epoch)


def replica(node: str, decided: PartitionState, opened: LogTail, in_sync_min: int = 1) -> Partition:
    made = Partition(NAME, node, decided, in_sync_min, lag_ms=1000)
    made.on_tail(opened)
    made.take_role(0)
    return made


def leader(log: Log, epoch: int, *in_sync: str, high: int = 0, start: int = 0, in_sync_min: int = 1) -> Partition:
    return replica("a", state("a", epoch, *in_sync), tail(log, high=high, start=start), in_sync_min)


def follower(log: Log, epoch: int, high: int = 0, durable: int | None = None, start: int = 0) -> Partition:
    return replica("b", state("a", epoch, "a", "b"), tail(log, durable, high, start))


def admit(partition: Partition, count: int, sequence: int = -1, acks: int = -1) -> Admission:
    return partition.admit(count, 7 if sequence >= 0 else -1, 0, sequence, acks)


# Leading.


def test_a_replica_leads_once_its_log_is_open_and_the_register_has_named_it() -> None:
    made = Partition(NAME, "a", state("a", 1), 1, 1000)
    assert made.take_role(0) == []
    assert made.leads() == NOT_LEADER
    made.on_tail(LogTail())
    made.take_role(0)
    assert made.leads() == 0
    assert replica("a#2", state("a#1", 1), LogTail()).leads() == NOT_LEADER


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, 0), (4, 0), (3, FENCED_EPOCH), (0, FENCED_EPOCH), (5, UNKNOWN_EPOCH)]
)
def test_a_client_may_say_in_which_epoch_it_believes(epoch: int, error: int) -> None:
    assert leader([], 4).leads(epoch) == error


def test_offsets_are_given_one_after_the_other() -> None:
    made = leader([(1, 5)], 2)
    assert admit(made, 3) == Admission(0, 5, 8)
    assert admit(made, 1) == Admission(0, 8, 9)
    assert made.last() == (2, 9, 0)
    assert made.epochs.starts() == [(1, 0), (2, 5)]


def test_below_the_least_number_of_replicas_only_those_are_refused_who_want_all_of_them() -> None:
    made = leader([], 1, "a", in_sync_min=2)
    assert admit(made, 1) == Admission(NOT_ENOUGH_REPLICAS)
    assert admit(made, 1, acks=1) == Admission(0, 0, 1)
    assert made.end == 1


def test_who_follows_takes_and_commits_nothing() -> None:
    made = follower([(1, 5)], 1)
    assert admit(made, 1) == Admission(NOT_LEADER)
    made.on_follower_durable(0, "c", 1, 5)
    assert made.raise_watermark() == []
    assert (made.end, made.high) == (5, 0)


def test_a_producer_may_have_the_number_nought() -> None:
    made = leader([], 1)
    assert made.admit(1, 0, 0, 0, -1) == Admission(0, 0, 1)
    assert made.admit(1, 0, 0, 0, -1) == Admission(0, 0, 1, duplicate=True)
    made = follower([], 1)
    made.append([SimPlace(0, 1, 1, 0, 0, 0)], 0)
    assert made.producers.check(0, 0, 0, 1, whole=True) == (Verdict.TAKEN, 0)


def test_a_duplicate_waits_for_the_first_one_and_has_its_offset() -> None:
    made = leader([], 1, "a", "b")
    assert admit(made, 2, sequence=0) == Admission(0, 0, 2)
    assert admit(made, 2, sequence=0) == Admission(0, 0, 2, duplicate=True)
    assert admit(made, 2, sequence=3) == Admission(Verdict.OUT_OF_ORDER)
    assert made.end == 2


def test_a_stranger_in_the_middle_is_let_in_by_nobody_and_told_why() -> None:
    assert admit(leader([], 1), 1, sequence=5) == Admission(Verdict.OUT_OF_ORDER)
    assert admit(leader([], 1, start=3), 1, sequence=5) == Admission(Verdict.UNKNOWN_PRODUCER)


def test_the_watermark_follows_the_slowest_of_disk_and_followers_and_wakes_who_waited() -> None:
    made = leader([], 1, "a", "b")
    made.on_follow(0, "b", FollowEntry(*NAME, 1, 0, -1, 0))
    for ticket in (1, 2):
        made.wait(admit(made, 2).next_offset, ticket)
    made.on_durable(4)
    assert made.raise_watermark() == []
    made.on_follower_durable(1, "b", 1, 2)
    assert made.raise_watermark() == [Waiting(2, 1)]
    made.on_follower_durable(1, "b", 1, 4)
    assert made.raise_watermark() == [Waiting(4, 2)]
    assert (made.high, list(made.waiting)) == (4, [])


def test_the_disk_cannot_have_more_than_the_log() -> None:
    made = leader([], 1)
    admit(made, 2)
    for told, durable in ((1, 1), (5, 2), (1, 2)):
        made.on_durable(told)
        assert made.durable == durable


def test_an_acknowledgement_of_another_epoch_or_of_more_than_there_is_does_not_count() -> None:
    made = leader([(1, 5)], 2, "a", "b")
    made.on_follower_durable(0, "b", 1, 5)
    made.on_follower_durable(0, "b", 2, 6)
    assert made.raise_watermark() == []
    assert made.high == 0
    made.on_follower_durable(0, "b", 2, 5)
    made.raise_watermark()
    assert made.high == 5


def test_nothing_is_taken_or_acknowledged_while_a_transition_is_announced() -> None:
    made = leader([(1, 5)], 2, "a")
    made.wait(5, 1)
    made.held = True
    assert admit(made, 1) == Admission(NOT_LEADER)
    assert made.leads() == NOT_LEADER
    assert made.raise_watermark() == []
    assert made.on_follow(0, "b", FollowEntry(*NAME, 2, 5, 1, 5)).verdict == "refused"  # type: ignore[union-attr]
    made.held = False
    assert made.raise_watermark() == [Waiting(5, 1)]


# Decisions.


def test_an_older_decision_changes_nothing() -> None:
    made = leader([], 4)
    before = made.state
    assert made.on_state(0, state("b", 3)) == []
    assert made.on_state(0, state("b", 4)) == []
    assert (made.state, made.leads()) == (before, 0)


def test_a_replaced_leader_tells_everybody_who_waited() -> None:
    made = leader([], 1, "a", "b")
    made.wait(admit(made, 1).next_offset, 9)
    assert made.on_state(0, state("b", 2)) == [Waiting(1, 9)]
    assert made.leads() == NOT_LEADER
    assert (made.leader, list(made.waiting)) == ("b", [])


def test_a_smaller_set_in_the_same_epoch_keeps_who_waits() -> None:
    made = leader([], 1, "a", "b")
    made.wait(admit(made, 1).next_offset, 9)
    made.on_durable(1)
    assert made.on_state(0, state("a", 1, "a", version=2)) == []
    assert made.raise_watermark() == [Waiting(1, 9)]


def test_a_new_epoch_ends_a_transition_and_a_new_set_does_not() -> None:
    for decided, held in ((state("a", 1, "a", version=9), True), (state("b", 2), False)):
        made = leader([], 1, "a", "b")
        made.held = True
        made.on_state(0, decided)
        assert made.held is held


def test_whoever_leads_again_later_begins_anew() -> None:
    made = leader([], 1, "a", "b")
    made.on_follow(0, "b", FollowEntry(*NAME, 1, 0, -1, 0))
    made.on_state(0, state("b", 2, "a", "b"))
    made.on_state(0, state("a", 3, "a", "b"))
    admit(made, 1)
    made.on_durable(1)
    assert made.leading is not None
    assert made.leading.watermark(1) == -1  # what b had told of epoch 1 is not known to hold in epoch 3
    assert made.settled_at == 0


def test_whoever_leads_again_and_has_not_heard_of_the_time_between_begins_anew_too() -> None:
    made = leader([], 1, "a", "b")
    made.on_follow(0, "b", FollowEntry(*NAME, 1, 0, -1, 0))
    made.wait(admit(made, 1).next_offset, 9)
    assert made.on_state(0, state("a", 3, "a", "b")) == [Waiting(1, 9)]
    assert made.leading is not None
    assert made.leading.watermark(1) == -1
    assert made.settled_at == 1


# Where logs agree. The leader answers a follower that names its last epoch and its end.

LEADER: Log = [(1, 10), (3, 5), (4, 5)]
"""Offsets 0 to 9 are of epoch 1, 10 to 14 of epoch 3, 15 to 19 of epoch 4."""


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        ([], None),
        ([(1, 10)], None),
        ([(1, 7)], None),
        ([(1, 10), (3, 5), (4, 5)], None),
        ([(1, 10), (3, 2)], None),
        ([(1, 12)], ("diverged", 1, 10)),
        ([(1, 10), (2, 3)], ("diverged", 1, 10)),
        ([(1, 4), (2, 1)], ("diverged", 1, 10)),
        ([(1, 10), (3, 6)], ("diverged", 3, 15)),
        ([(1, 10), (3, 5), (4, 9)], ("diverged", 4, 20)),
        ([(0, 3)], ("reset", -1, 0)),
    ],
)
def test_the_leader_tells_how_far_its_log_agrees(log: Log, verdict: tuple[str, int, int] | None) -> None:
    part = leader(LEADER, 5, "a", "b", high=3).on_follow(0, "b", follower(log, 5).follow_entry())
    assert (part and (part.verdict, part.agreed_epoch, part.offset)) == verdict
    if part is not None:
        assert (part.epoch, part.size, part.high) == (5, 0, 3)


@pytest.mark.parametrize(
    ("log", "agreed", "rounds"),
    [
        ([(1, 12)], 10, 1),
        ([(1, 10), (2, 3)], 10, 1),
        ([(1, 4), (2, 9)], 4, 1),
        ([(1, 10), (3, 9)], 15, 1),
        ([(1, 15), (2, 1)], 10, 1),
        ([(1, 8)], 8, 0),
        ([(1, 10), (3, 1), (5, 9)], 11, 1),
    ],
)
def test_a_follower_cuts_its_log_to_where_both_agree(log: Log, agreed: int, rounds: int) -> None:
    assert cut_until_agreed(leader(LEADER, 6, "a", "b"), log, 6) == (agreed, rounds)


def cut_until_agreed(made: Partition, log: Log, epoch: int, high: int = 0) -> tuple[int, int]:
    """(where the follower's log ends when the leader finds nothing more to cut, how often it was cut)"""
    for rounds in range(10):
        replica = follower(log, epoch, high)
        part = made.on_follow(0, "b", replica.follow_entry())
        if part is None:
            return replica.end, rounds
        place = replica.cut_at(part)
        assert place is not None
        log = shortened(log, place)
    raise AssertionError("they never agree")


def shortened(log: Log, end: int) -> Log:
    kept: Log = []
    for epoch, count in log:
        count = min(count, end - sum(length for _, length in kept))
        if count:
            kept.append((epoch, count))
    return kept


def test_a_restarted_follower_keeps_what_it_cannot_know_to_be_committed() -> None:
    """The first story of KIP-101.

    Two records are committed; the follower knows that only of the first when it restarts. Had it cut its log back to
    what it knows, and had the leader died then, the second would be gone.
    """
    made = leader([(1, 2)], 1, "a", "b", high=2)
    assert cut_until_agreed(made, [(1, 2)], 1, high=1) == (2, 0)


def test_logs_that_went_different_ways_at_the_same_offset_become_one() -> None:
    """The second story of KIP-101.

    Both replicas crash. One had synced two records, the other only the first; the other is back earlier, leads in
    epoch 2 and gives the second offset to another record. Ends and watermarks look the same, only epochs tell.
    """
    made = leader([(1, 1), (2, 1)], 2, "a")
    assert cut_until_agreed(made, [(1, 2)], 2, high=1) == (1, 1)


def test_a_leader_that_never_heard_of_an_epoch_says_what_came_before_it() -> None:
    """The story of KIP-279: leaders change fast, and each of two replicas has an epoch that the other lacks.

    The follower led epoch 2 and gave 10 to 19. The leader has led epoch 3, with other records from 10 on, and epoch 4.
    It has no epoch 2, so it names the end of epoch 1; the end of epoch 3 would leave records of epoch 2 below it.
    """
    made = leader([(1, 10), (3, 15), (4, 1)], 4, "a", "b")
    assert cut_until_agreed(made, [(1, 10), (2, 10)], 4) == (10, 1)


def test_it_takes_two_rounds_where_the_follower_has_no_such_epoch_either() -> None:
    """Asked about epoch 3 the leader names epoch 2, of which the follower has nothing: it goes back to epoch 1's end,
    and only the second answer shows that it has too much of epoch 1 as well.
    """
    made = leader([(1, 3), (2, 7), (5, 1)], 5, "a", "b")
    assert cut_until_agreed(made, [(1, 6), (3, 4)], 5) == (3, 2)


@pytest.mark.parametrize(
    ("entry", "verdict"),
    [
        (FollowEntry(*NAME, 5, 29, 4, 29), "reset"),
        (FollowEntry(*NAME, 5, 0, -1, 0), "reset"),
        (FollowEntry(*NAME, 5, 51, -1, 0), "reset"),
        (FollowEntry(*NAME, 5, 30, -1, 0), None),
        (FollowEntry(*NAME, 5, 50, -1, 0), None),
        (FollowEntry(*NAME, 5, 50, 5, 50), None),
        (FollowEntry(*NAME, 5, 30, 3, 30), "reset"),
    ],
)
def test_whoever_is_below_the_start_begins_there_anew(entry: FollowEntry, verdict: str | None) -> None:
    """The leader's log begins at 30, with epoch 4."""
    part = leader([(4, 10), (5, 10)], 5, "a", start=30).on_follow(0, "b", entry)
    assert (part and part.verdict) == verdict
    if part is not None:
        assert (part.offset, part.start) == (30, 30)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_follower_of_another_epoch_is_refused_and_does_not_count(epoch: int) -> None:
    made = leader([(1, 5)], 2, "a", "b")
    part = made.on_follow(0, "b", FollowEntry(*NAME, epoch, 5, 1, 5))
    assert part == Part(*NAME, epoch, 5, 0, 0, 0, verdict="refused")
    assert made.leading is not None
    assert made.leading.watermark(5) == -1


def test_who_does_not_lead_refuses() -> None:
    part = follower([], 2).on_follow(0, "c", FollowEntry(*NAME, 2, 0, -1, 0))
    assert part is not None
    assert part.verdict == "refused"


def test_a_follower_counts_with_what_it_has_on_disk_and_has_in_common() -> None:
    made = leader([(1, 10)], 1, "a", "b")
    made.on_follow(0, "b", FollowEntry(*NAME, 1, 8, 1, 6))
    made.raise_watermark()
    assert made.high == 6
    made.on_follow(0, "b", FollowEntry(*NAME, 1, 8, 1, 9))
    made.raise_watermark()
    assert made.high == 8


def test_a_follower_that_diverged_does_not_count() -> None:
    made = leader([(1, 10)], 2, "a", "b")
    made.on_follow(0, "b", FollowEntry(*NAME, 2, 12, 1, 12))
    assert made.raise_watermark() == []
    assert made.high == 0


# Following.


def test_a_follower_says_where_its_log_ends() -> None:
    assert follower([(1, 10), (3, 2)], 5, durable=11).follow_entry() == FollowEntry(*NAME, 5, 12, 3, 11)
    assert follower([], 5).follow_entry() == FollowEntry(*NAME, 5, 0, -1, 0)


@pytest.mark.parametrize(
    ("epoch", "offset", "takes"), [(2, 10, True), (2, 9, False), (2, 11, False), (1, 10, False), (3, 10, False)]
)
def test_a_follower_takes_what_goes_on_where_its_log_ends_from_the_leader_of_its_epoch(
    epoch: int, offset: int, takes: bool
) -> None:
    assert follower([(1, 10)], 2).takes(Part(*NAME, epoch, offset, 1, 0, 0)) is takes


def test_nobody_is_followed_before_the_log_is_open_or_while_held_or_faulty() -> None:
    part = Part(*NAME, 2, 10, 1, 0, 0)
    unopened = Partition(NAME, "b", state("a", 2), 1, 1000)
    held, faulty = follower([(1, 10)], 2), follower([(1, 10)], 2)
    held.held, faulty.faulty = True, "lost records"
    for made in (unopened, held, faulty):
        assert made.leader == ""
        assert not made.takes(part)
    assert follower([(1, 10)], 2).leader == "a"
    assert leader([], 2).leader == ""


def batch(base: int, count: int, epoch: int, sequence: int = -1) -> SimPlace:
    return SimPlace(base, base + count, epoch, 7 if sequence >= 0 else -1, 0, sequence)


def test_a_follower_learns_epochs_and_producers_from_the_batches() -> None:
    made = follower([(1, 10)], 3)
    made.append([batch(10, 2, 2, sequence=0), batch(12, 1, 2), batch(13, 1, 3, sequence=2)], high=0)
    assert (made.end, made.durable) == (14, 10)
    assert made.epochs.starts() == [(1, 0), (2, 10), (3, 13)]
    made.on_state(0, state("b", 4))
    assert admit(made, 2, sequence=0) == Admission(0, 10, 12, duplicate=True)
    assert admit(made, 1, sequence=2) == Admission(0, 13, 14, duplicate=True)
    assert admit(made, 1, sequence=3) == Admission(0, 14, 15)


def test_a_hole_in_what_is_appended_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError):
        follower([(1, 10)], 3).append([batch(11, 1, 3)], high=0)


def test_a_follower_believes_the_watermark_as_far_as_its_own_disk_reaches() -> None:
    made = follower([(1, 10)], 1, durable=8)
    made.append([batch(10, 5, 1)], high=12)
    assert made.high == 8
    made.on_durable(15)
    made.on_high(12)
    assert made.high == 12
    made.on_high(3)
    assert made.high == 12


def test_a_new_leader_is_settled_where_its_log_ended() -> None:
    made = follower([(1, 10)], 1, high=6)
    made.on_state(0, state("b", 2, "b", "c"))
    assert (made.settled_at, made.high) == (10, 6)


def test_a_follower_never_cuts_below_its_watermark_and_stops_instead() -> None:
    made = follower([(1, 10)], 2, high=8)
    assert made.cut_at(Part(*NAME, 2, 8, 0, 8, 0, "diverged", 1)) == 8
    assert made.cut_at(Part(*NAME, 2, 7, 0, 7, 0, "diverged", 1)) is None
    assert "agrees only up to 7, but everything below 8 is committed here" in made.faulty
    assert made.leader == ""
    made.on_state(0, state("b", 3))
    assert made.leads() == NOT_LEADER


def test_a_verdict_of_another_epoch_is_not_heard() -> None:
    made = follower([(1, 10)], 2, high=8)
    for epoch in (1, 3):
        assert made.cut_at(Part(*NAME, epoch, 0, 0, 0, 0, "diverged", 1)) is None
    assert made.faulty == ""


def test_a_cut_ends_at_the_start_of_the_log() -> None:
    made = follower([(4, 10)], 5, start=30, high=0)
    assert made.high == 30
    assert made.cut_at(Part(*NAME, 5, 30, 0, 0, 0, "diverged", 4)) == 30


# The disk.


def test_a_failed_write_gives_back_offsets_epochs_and_sequences_and_tells_who_waited() -> None:
    made = leader([(1, 5)], 2, "a")
    for ticket, sequence in ((1, 0), (2, 1)):
        made.wait(admit(made, 1, sequence).next_offset, ticket)
    table = ProducerTable()
    table.add(7, 0, 0, 1, 5)
    lost = made.on_tail(LogTail(0, 6, 6, 0, [(1, 0), (2, 5)], table))
    assert lost == [Waiting(7, 2)]
    assert list(made.waiting) == [Waiting(6, 1)]
    assert admit(made, 1, sequence=1) == Admission(0, 6, 7)


@pytest.mark.parametrize(
    ("known", "opened", "high"),
    [(0, tail([(1, 10)], high=4), 4), (6, tail([(1, 10)], high=4), 6), (6, tail([(1, 5)], high=9), 5)],
)
def test_the_watermark_does_not_fall_with_what_the_disk_remembers_of_it(known: int, opened: LogTail, high: int) -> None:
    made = follower([(1, 10)], 1, high=known)
    made.on_tail(opened)
    assert made.high == high


def test_the_start_only_moves_up() -> None:
    made = leader([(1, 10)], 1)
    made.on_start(4)
    made.on_start(2)
    assert made.start == 4


def test_nothing_is_committed_before_the_leaders_own_disk_has_it() -> None:
    alone = leader([], 1, "a")
    admit(alone, 3)
    alone.wait(3, 1)
    assert (alone.raise_watermark(), alone.high) == ([], 0)
    alone.on_durable(2)
    assert (alone.raise_watermark(), alone.high) == ([], 2)
    alone.on_durable(3)
    assert (alone.raise_watermark(), alone.high) == ([Waiting(3, 1)], 3)

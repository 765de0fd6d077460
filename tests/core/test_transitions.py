"""Leadership transitions, told as transcripts: who announces, who answers, what is written.

The first column is the time in ms. `write` names the in-sync set as it is made durable, the leader first.
"""

from __future__ import annotations

import textwrap

import pytest

from octoloom.core.log_messages import Accept, BrokerAddress
from octoloom.core.roster import Roster
from octoloom.core.topic_book import TopicBook, TopicDefaults
from octoloom.core.transitions import Transition, Transitions
from tests.core.log_world import MOVES, LogWorld, address, grown, led_by, saved


def story(world: LogWorld) -> str:
    return textwrap.dedent("\n".join(world.transcript))


def told(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def test_a_leader_dies_and_the_longest_log_of_the_set_leads() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.standings |= {"b": (1, 10), "c": (1, 12)}
    world.close("a#1")
    world.run(300)
    assert story(world) == told("""
            0 a#1 is cut off
          150 announce 1, moves-0: the leader is gone
          150 b#1 accepts 1 at epoch 1, offset 10
          150 c#1 accepts 1 at epoch 1, offset 12
          150 write moves-0 in epoch 2: c#1 b#1
          150 commit 1
    """)


def test_a_newer_epoch_is_more_than_a_longer_log() -> None:
    world = grown(led_by("a#1", "b#1", "c#1", epoch=7))
    world.standings |= {"b": (6, 10), "c": (5, 99)}
    world.close("a#1")
    world.run(300)
    assert world.shape() == "8: b#1* c#1"


def test_among_equals_the_one_leads_who_was_meant_to() -> None:
    world = grown(led_by("a#1", "c#1", "b#1"))
    world.close("a#1")
    world.run(300)
    assert world.shape() == "2: b#1* c#1"


def test_a_broker_refuses_and_the_transition_is_off_and_tried_again_later() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.refusing.append("b#1")
    world.close("a#1")
    world.run(300)
    world.refusing.clear()
    world.run(300)
    assert story(world) == told("""
            0 a#1 is cut off
          150 announce 1, moves-0: the leader is gone
          150 b#1 refuses 1
          150 abort 1: b#1 refused: no
          450 announce 2, moves-0: the leader is gone
          450 b#1 accepts 2 at epoch 1, offset 10
          450 c#1 accepts 2 at epoch 1, offset 10
          450 write moves-0 in epoch 2: b#1 c#1
          450 commit 2
    """)


def test_a_broker_that_stays_silent_is_not_counted_on() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.silent.append("b#1")
    world.close("a#1")
    world.run(1300)
    assert story(world) == told("""
            0 a#1 is cut off
          150 announce 1, moves-0: the leader is gone
          150 c#1 accepts 1 at epoch 1, offset 10
         1150 write moves-0 in epoch 2: c#1
         1150 commit 1
    """)


def test_nobody_waits_for_a_broker_that_dies_before_it_answers() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.silent.append("b#1")
    world.close("a#1")
    world.run(200)
    world.close("b#1")
    assert story(world) == told("""
            0 a#1 is cut off
          150 announce 1, moves-0: the leader is gone
          150 c#1 accepts 1 at epoch 1, offset 10
          200 b#1 is cut off
          200 write moves-0 in epoch 2: c#1
          200 commit 1
    """)


def test_the_leader_is_back_in_time_and_everybody_goes_on() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.silent.append("b#1")
    world.close("a#1")
    world.run(200)
    world.enlist("a#1")
    world.run(2000)
    assert story(world) == told("""
            0 a#1 is cut off
          150 announce 1, moves-0: the leader is gone
          150 c#1 accepts 1 at epoch 1, offset 10
          200 a#1 enlists
          200 abort 1: the leader is back
    """)
    assert world.shape() == "1: a#1* b#1 c#1"


def test_a_leader_that_restarted_is_not_the_leader() -> None:
    world = grown(led_by("a#1", "b#1"), balance_ms=60_000)
    world.enlist("a#2")
    assert story(world) == told("""
            0 a#2 enlists
            0 a#1 is declined: outdated
            0 announce 1, moves-0: the leader is gone
            0 b#1 accepts 1 at epoch 1, offset 10
            0 a#2 accepts 1 at epoch 1, offset 10
            0 write moves-0 in epoch 2: b#1
            0 commit 1
    """)


def test_after_a_full_outage_the_longest_log_of_those_who_came_back_leads_alone() -> None:
    """Nobody who was in the set is there any more; their successors have their disks. The rest comes by catching up."""
    world = LogWorld(saved(led_by("a#1", "b#1", "c#1")))
    world.run(2000)
    world.standings |= {"b": (1, 10), "c": (1, 12)}
    world.transcript.clear()
    world.enlist("b#2")
    world.run(200)
    world.enlist("c#2")
    world.run(300)
    assert story(world) == told("""
         2000 b#2 enlists
         2200 c#2 enlists
         2300 announce 1, moves-0: the leader is gone
         2300 b#2 accepts 1 at epoch 1, offset 10
         2300 c#2 accepts 1 at epoch 1, offset 12
         2300 write moves-0 in epoch 2: c#2
         2300 commit 1
    """)


def test_nobodys_successor_leads_while_a_member_may_come_back() -> None:
    world = LogWorld(saved(led_by("a#1", "b#1")))
    world.enlist("a#2")
    world.run(1900)
    assert world.shape() == "1: a#1* b#1"
    world.enlist("b#1")
    assert world.shape() == "2: b#1*"


def test_a_member_that_may_come_back_is_given_a_moment_before_others_lead() -> None:
    """The register has just restarted. c has not connected yet, and may have the longest log."""
    world = LogWorld(saved(led_by("a#1", "b#1", "c#1")), balance_ms=60_000)
    world.standings |= {"c": (1, 12)}
    world.enlist("a#2", "b#1")
    world.run(290)
    assert world.shape() == "1: a#1* b#1 c#1"
    world.enlist("c#1")
    assert world.shape() == "2: c#1* b#1"
    world = LogWorld(saved(led_by("a#1", "b#1", "c#1")), balance_ms=60_000)
    world.enlist("a#2", "b#1")
    world.run(300)
    assert world.shape() == "2: b#1*"


def test_leaders_go_back_to_their_places() -> None:
    world = grown(led_by("b#1", "c#1", "a#1", epoch=4))
    world.run(5000)
    assert story(world) == told("""
         5000 announce 1, moves-0: leaders go back to their places
         5000 a#1 accepts 1 at epoch 1, offset 10
         5000 b#1 accepts 1 at epoch 1, offset 10
         5000 c#1 accepts 1 at epoch 1, offset 10
         5000 write moves-0 in epoch 5: a#1 b#1 c#1
         5000 commit 1
    """)
    world.run(10_000)
    assert world.state().epoch == 5


def test_a_stand_in_stays_while_it_has_more() -> None:
    world = grown(led_by("b#1", "a#1"))
    world.standings |= {"b": (1, 11)}
    world.run(5000)
    assert story(world) == told("""
         5000 announce 1, moves-0: leaders go back to their places
         5000 a#1 accepts 1 at epoch 1, offset 10
         5000 b#1 accepts 1 at epoch 1, offset 11
         5000 commit 1
    """)
    assert world.shape() == "1: b#1* a#1"


def test_a_place_that_is_not_in_sync_is_not_gone_back_to() -> None:
    world = grown(led_by("b#1", "c#1"))
    world.enlist("a#1")
    world.run(12_000)
    assert world.shape() == "1: b#1* c#1"


def test_a_stand_in_that_is_cut_off_for_a_moment_is_not_moved_meanwhile() -> None:
    world = grown(led_by("b#1", "a#1"))
    world.run(4990)
    world.close("b#1")
    world.run(20)
    assert world.transcript == [" 4990 b#1 is cut off"]


def test_a_leader_that_wants_to_go_hands_over_and_stays_in_the_set_until_it_is_gone() -> None:
    world = grown(led_by("a#1", "b#1"))
    world.standings |= {"a": (1, 11)}
    world.leave("a#1")
    assert story(world) == told("""
            0 a#1 wants to go
            0 announce 1, moves-0: the leader wants to go
            0 a#1 accepts 1 at epoch 1, offset 11
            0 b#1 accepts 1 at epoch 1, offset 10
            0 write moves-0 in epoch 2: b#1 a#1
            0 commit 1
    """)
    world.run(6000)
    assert world.shape() == "2: b#1* a#1"
    world.close("a#1")
    world.run(200)
    assert world.shape() == "2: b#1*"


def test_the_only_member_may_want_to_go_and_leads_on() -> None:
    world = grown(led_by("a#1"))
    world.leave("a#1")
    world.run(6000)
    assert world.shape() == "1: a#1*"


def test_a_wiped_disk_is_not_counted_on_and_another_member_leads() -> None:
    world = grown(led_by("a#1", "b#1"), balance_ms=60_000)
    world.enlist("a#2", storage="a new disk")
    assert story(world) == told("""
            0 a#2 enlists
            0 a#1 is declined: outdated
            0 write moves-0 in epoch 1: b#1
            0 announce 1, moves-0: the leader is gone
            0 b#1 accepts 1 at epoch 1, offset 10
            0 a#2 accepts 1 at epoch 1, offset 10
            0 write moves-0 in epoch 2: b#1
            0 commit 1
    """)


def test_if_the_last_member_lost_its_disk_nobody_leads() -> None:
    world = grown(led_by("a#1"))
    world.enlist("b#1", "c#1")
    world.close("a#1")
    world.run(1000)
    world.transcript.clear()
    world.enlist("a#2", storage="a new disk")
    world.run(10_000)
    assert story(world) == told("""
         1000 a#2 enlists
         1000 write moves-0 in epoch 1: nobody
    """)


def test_after_an_outage_a_damaged_log_does_not_lead_while_others_are_counted_on() -> None:
    world = LogWorld(saved(led_by("a#1", "b#1")))
    world.run(2000)
    world.transcript.clear()
    world.enlist("a#2", damaged=True)
    world.run(5000)
    world.enlist("b#2")
    world.run(300)
    assert story(world) == told("""
         2000 a#2 enlists with a damaged log
         2000 write moves-0 in epoch 1: b#1
         7000 b#2 enlists
         7000 announce 1, moves-0: the leader is gone
         7000 a#2 accepts 1 at epoch 1, offset 10
         7000 b#2 accepts 1 at epoch 1, offset 10
         7000 write moves-0 in epoch 2: b#2
         7000 commit 1
    """)


def test_if_the_damaged_log_is_all_there_is_it_leads() -> None:
    world = grown(led_by("a#1"), balance_ms=60_000)
    world.enlist("a#2", damaged=True)
    world.run(300)
    assert world.shape() == "2: a#2*"


def test_a_transition_takes_along_every_partition_that_needs_one() -> None:
    world = grown(led_by("a#1", "b#1"), led_by("b#1", "a#1", replicas="ba"), led_by("a#1", "c#1"))
    world.close("a#1")
    world.run(300)
    assert [line for line in world.transcript if "announce" in line] == [
        "  150 announce 1, moves-0 moves-2: the leader is gone"
    ]
    assert [world.shape(number) for number in range(3)] == ["2: b#1*", "1: b#1*", "2: c#1*"]


def test_a_leader_that_is_back_keeps_its_partition_though_others_move() -> None:
    world = grown(led_by("a#1", "b#1"), led_by("c#1", "b#1", replicas="cb"))
    world.silent.append("b#1")
    world.close("a#1", "c#1")
    world.run(200)
    world.enlist("c#1")
    assert world.register.transition_runs
    world.run(1000)
    assert world.shape(1) == "1: c#1* b#1"
    assert world.state(0).leader == "a#1"  # b has not answered, and nobody else may lead
    world.silent.clear()
    world.run(1000)
    assert (world.shape(0), world.shape(1)) == ("2: b#1*", "1: c#1* b#1")


def test_a_partition_that_is_deleted_meanwhile_is_left_out() -> None:
    made = transitions()
    announced = made.begin(2000, 1, balance=False)
    assert announced is not None
    assert not made.needless()
    made._book._states["moves"] = []
    assert made.needless()


def transitions() -> Transitions:
    """a#1 led and is dead, b#1 is there."""
    roster: Roster[BrokerAddress] = Roster(2000, 150, 10)
    for broker in ("a#1", "b#1"):
        roster.enlist(0, broker, address(broker))
    roster.close(0, "a#1")
    roster.expire(150)
    disk = saved(led_by("a#1", "b#1"))
    book = TopicBook(TopicDefaults(1, 1, 1), disk.topics, disk.partitions, 1)
    return Transitions(0, book, roster, answer_ms=1000, form_ms=300)


# The survey.


@pytest.mark.parametrize(
    ("answers", "candidates", "chosen"),
    [
        ({"a": (1, 10), "b": (1, 10)}, ["a", "b"], "a"),
        ({"a": (1, 10), "b": (1, 10)}, ["b", "a"], "b"),
        ({"a": (1, 10), "b": (1, 11)}, ["a", "b"], "b"),
        ({"a": (2, 10), "b": (1, 11)}, ["b", "a"], "a"),
        ({"b": (1, 0)}, ["a", "b"], "b"),
        ({"x": (9, 99), "a": (1, 0)}, ["a"], "a"),
        ({"x": (9, 99)}, ["a"], ""),
        ({}, ["a"], ""),
    ],
)
def test_the_candidate_with_most_is_chosen_among_those_who_answered(
    answers: dict[str, tuple[int, int]], candidates: list[str], chosen: str
) -> None:
    survey = Transition(1, "", {MOVES: None}, False, 1000, dict.fromkeys([*answers, *candidates]))
    for broker, (epoch, end) in answers.items():
        survey.on_accept(broker, Accept(1, [(*MOVES, epoch, end, 0)]))
    assert survey.choose(MOVES, candidates) == chosen


def test_a_second_answer_and_one_from_somebody_who_was_not_asked_do_not_count() -> None:
    survey = Transition(1, "", {MOVES: None}, False, 1000, {"a": None})
    survey.on_accept("a", Accept(1, [(*MOVES, 1, 10, 0)]))
    survey.on_accept("a", Accept(1, [(*MOVES, 9, 99, 0)]))
    survey.on_accept("b", Accept(1, [(*MOVES, 9, 99, 0)]))
    assert survey.standings == {MOVES: {"a": (1, 10)}}
    survey.drop("a")
    assert survey.choose(MOVES, ["a"]) == ""

"""The register's part for topics: brokers, in-sync sets, requests; and random histories that keep its invariants."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.log_messages import (
    Accept,
    Admin,
    AdminDone,
    Allot,
    Allotted,
    ConfigureTopic,
    DropTopic,
    EnlistBroker,
    GrowTopic,
    InSyncRefused,
    LogDirectory,
    MakeTopic,
    ProposeInSync,
    Refuse,
    Taken,
)
from octoloom.core.log_register import PRODUCERS_MAX, LogConfig
from octoloom.core.log_saved import Persist, Tell, TellAll
from octoloom.core.roster import name_of
from octoloom.core.topic_admin import TOPIC_EXISTS
from octoloom.core.uptake import REQUEST_TIMED_OUT, THROTTLED, WAITING_MAX
from tests.core.log_world import LogWorld, address, grown, led_by, saved

# Brokers.


def test_a_broker_is_given_a_number_that_it_keeps() -> None:
    world = LogWorld()
    world.enlist("b#1", "a#1")
    world.close("b#1")
    world.run(1000)
    world.restart()
    world.enlist("b#2", "c#1")
    ids = {broker: known.id for broker, known in world.register.directory().brokers.items()}
    assert ids == {"b#2": 1, "a#1": 2, "c#1": 3}


def test_whoever_enlists_is_told_everything() -> None:
    world = grown(led_by("a#1", "b#1"))
    told = world.told["b#1"][-1]
    assert isinstance(told, LogDirectory)
    assert told == world.register.directory()
    assert list(told.brokers) == ["a#1", "b#1"]
    assert told.partitions == [("moves", 0, led_by("a#1", "b#1"))]


@pytest.mark.parametrize(
    ("broker", "message", "code"),
    [
        ("a", EnlistBroker(address("a")), "bad-link"),
        ("a#1", EnlistBroker(address("b#1")), "bad-link"),
        ("a#1", EnlistBroker(address("a#1"), revision=99), "lost-register"),
        ("b#0", EnlistBroker(address("b#0")), "outdated"),
        ("c#1", EnlistBroker(address("c#1")), "full"),
    ],
)
def test_who_may_not_enlist_is_declined_and_nothing_changes(broker: str, message: EnlistBroker, code: str) -> None:
    world = grown(led_by("a#1", "b#1"), brokers_max=2)
    before = world.register.directory()
    world.obey(world.register.on_enlist(world.now, broker, message))
    assert world.declined == [(broker, code)]
    assert world.register.directory() == before


def test_a_stranger_has_to_enlist_first() -> None:
    world = grown(led_by("a#1", "b#1"))
    world.say("x#1", Allot(5))
    world.obey(world.register.on_beat(world.now, "y#1", 7))
    world.obey(world.register.on_leave(world.now, "z#1"))
    assert world.declined == [("x#1", "unknown"), ("y#1", "unknown"), ("z#1", "unknown")]


def test_a_broker_that_says_nothing_lapses_and_everybody_is_told() -> None:
    world = grown(led_by("a#1", "b#1"))
    world.mute.append("b#1")
    world.run(1900)
    assert world.alive() == ["a#1", "b#1"]
    world.run(200)
    assert world.alive() == ["a#1"]
    assert world.declined == [("b#1", "lapsed")]
    assert world.shape() == "1: a#1*"


def test_a_broker_that_reconnects_within_its_grace_is_still_in_sync() -> None:
    world = grown(led_by("a#1", "b#1"))
    revision = world.disk.counters.revision
    world.close("b#1")
    world.run(100)
    world.enlist("b#1")
    world.run(1000)
    assert (world.shape(), world.disk.counters.revision) == ("1: a#1* b#1", revision)


@pytest.mark.parametrize(
    "wake",
    [
        lambda world: world.obey(world.register.on_time(world.now)),
        lambda world: world.obey(world.register.on_beat(world.now, "a#1", world.now)),
        lambda world: world.say("a#1", Allot(1)),
        lambda world: world.enlist("c#1"),
        lambda world: (world.close("b#1"), world.enlist("b#1")),
        lambda world: world.leave("b#1"),
    ],
    ids=["time", "beat", "request", "newcomer", "closed", "leaver"],
)
def test_the_register_does_not_hold_its_own_pause_against_anybody(wake: Callable[[LogWorld], object]) -> None:
    world = grown(led_by("a#1", "b#1"))
    world.now += 60_000
    wake(world)
    world.obey(world.register.on_time(world.now))
    world.run(1000)
    assert (world.shape(), world.declined) == ("1: a#1* b#1", [])


def test_a_pause_is_not_held_against_those_who_still_have_to_answer() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.silent.append("b#1")
    world.close("a#1")
    world.run(200)
    world.now += 10_000
    world.obey(world.register.on_time(world.now))
    assert world.shape() == "1: a#1* b#1 c#1"
    world.run(1000)
    assert world.shape() == "2: c#1*"


def test_after_a_restart_everybody_has_a_lease_to_come_back_in() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.restart(500)
    world.run(300)
    world.enlist("b#1", "c#1")
    world.run(1600)
    assert world.shape() == "1: a#1* b#1 c#1"
    world.run(200)
    assert world.shape() == "2: b#1* c#1"


def test_a_saved_register_is_taken_up_as_it_was() -> None:
    world = grown(led_by("a#1", "b#1"), led_by("b#1", "a#1", replicas="ba"))
    world.say("a#1", MakeTopic(1, "chat", partitions=2))
    before = world.register.directory()
    world.restart()
    world.enlist("a#1", "b#1")
    assert world.register.directory() == before


def test_the_table_of_brokers_is_bounded_and_the_dead_do_not_fill_it() -> None:
    world = grown(led_by("a#1", "b#1"), brokers_max=3)
    world.enlist("c#1", "d#1")
    assert world.declined == [("d#1", "full")]
    world.close("c#1")
    world.run(200)
    world.enlist("d#1")
    assert world.alive() == ["a#1", "b#1", "d#1"]


# In-sync sets.


def test_a_member_that_is_given_up_leaves_the_set_while_the_leader_is_there() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.close("c#1")
    world.run(100)
    assert world.shape() == "1: a#1* b#1 c#1"
    world.run(100)
    assert world.shape() == "1: a#1* b#1"


def test_a_member_that_restarted_is_out_and_comes_back_by_the_leaders_proposal() -> None:
    world = grown(led_by("a#1", "b#1"))
    world.enlist("b#2")
    assert world.shape() == "1: a#1*"
    world.propose("a#1", "b#2")
    assert world.shape() == "1: a#1* b#2"


def test_a_broker_that_has_caught_up_stays_in_sync_though_it_says_again_that_it_began_with_a_damaged_log() -> None:
    world = grown(led_by("a#1", "b#1"))
    world.enlist("b#2", damaged=True)
    assert world.shape() == "1: a#1*"
    world.propose("a#1", "b#2")
    world.close("b#2")
    world.enlist("b#2", damaged=True)
    assert world.shape() == "1: a#1* b#2"


def test_a_leader_stays_in_its_set_though_it_says_again_that_it_began_with_a_damaged_log() -> None:
    world = grown(led_by("a#2", "b#1"))
    world.close("a#2")
    world.enlist("a#2", damaged=True)
    assert world.shape() == "1: a#2* b#1"


def test_nobody_leaves_a_set_whose_leader_is_gone_too() -> None:
    """Otherwise the last to be given up would be left alone in the set, and it may be the one that never comes back."""
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.close("a#1", "b#1", "c#1")
    world.run(5000)
    assert world.shape() == "1: a#1* b#1 c#1"


@pytest.mark.parametrize("wanted", [["a#1"], ["a#1", "c#1"], ["a#1", "b#1", "c#1"], ["b#1", "a#1"]])
def test_a_leader_may_propose_any_set_of_those_who_are_there_or_in_it(wanted: list[str]) -> None:
    world = grown(led_by("a#1", "b#1"))
    world.enlist("c#1")
    version = world.state().version
    world.propose(*wanted)
    assert (world.state().in_sync, world.state().version) == (wanted, version + 1)


@pytest.mark.parametrize(
    "wanted",
    [
        [],
        ["b#1"],
        ["a#1", "b#1"],
        ["a#1", "a#1"],
        ["a#1", "c#1"],
        ["a#1", "x#1"],
        ["a#1", "b#0"],
        ["a#1", "d#1"],
    ],
)
def test_a_set_without_the_leader_or_with_somebody_who_is_not_there_is_refused(wanted: list[str]) -> None:
    """x holds no replica, c is absent, and d has gone."""
    world = grown(led_by("a#1", "b#1", replicas="abcd"))
    world.enlist("c#1", "d#1", "x#1")
    world.close("d#1")
    world.run(500)
    world.close("c#1")
    before = world.state()
    world.propose(*wanted)
    assert world.state() == before
    assert world.told["a#1"][-1] == InSyncRefused("moves", 0, before.version)


def test_a_member_that_is_absent_may_stay_in_a_set_that_changes() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.close("b#1")
    world.propose("a#1", "b#1")
    assert world.shape() == "1: a#1* b#1"


@pytest.mark.parametrize(
    ("broker", "epoch", "version"), [("b#1", 3, 1), ("a#1", 2, 1), ("a#1", 4, 1), ("a#1", 3, 0), ("a#1", 3, 2)]
)
def test_a_proposal_counts_against_the_decision_that_it_was_made_for(broker: str, epoch: int, version: int) -> None:
    world = grown(led_by("a#1", "b#1", epoch=3))
    world.say(broker, ProposeInSync([("moves", 0, epoch, version, ["a#1"])]))
    assert world.shape() == "3: a#1* b#1"
    assert world.told[broker][-1] == InSyncRefused("moves", 0, version)


def test_of_several_proposals_each_is_weighed_by_itself() -> None:
    world = grown(led_by("a#1", "b#1"), led_by("a#1", "b#1"))
    changes = [("moves", 0, 1, 9, ["a#1"]), ("moves", 1, 1, 1, ["a#1"]), ("nowhere", 7, 1, 1, ["a#1"])]
    world.say("a#1", ProposeInSync(changes))
    assert (world.shape(0), world.shape(1)) == ("1: a#1* b#1", "1: a#1*")
    assert world.told["a#1"][1:] == [InSyncRefused("moves", 0, 9)]


def test_the_news_of_a_decision_comes_before_the_refusal_of_another() -> None:
    world = grown(led_by("a#1", "b#1"), led_by("a#1", "b#1"))
    changes = [("moves", 0, 1, 9, ["a#1"]), ("moves", 1, 1, 1, ["a#1"])]
    effects = world.register.on_message(world.now, "a#1", ProposeInSync(changes))
    assert [type(effect) for effect in effects] == [Persist, TellAll, Tell]


# Requests.


def test_a_topic_is_made_grown_and_dropped_and_the_asker_told_after_everybody() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    effects = world.register.on_message(world.now, "a#1", MakeTopic(7, "chat", partitions=2))
    assert [type(effect) for effect in effects] == [Persist, TellAll]
    world.obey(effects)
    assert world.told["a#1"][-1] == AdminDone(7, 0, "")
    world.say("a#1", GrowTopic(8, "chat", 3))
    assert [world.shape(number, "chat") for number in range(3)] == [
        "1: c#1* a#1 b#1",
        "1: a#1* b#1 c#1",
        "1: b#1* c#1 a#1",
    ]
    world.say("a#1", DropTopic(9, "chat"))
    assert list(world.disk.partitions) == [("moves", 0)]
    assert list(world.disk.topics) == ["moves"]


@pytest.mark.parametrize(
    "change",
    [
        MakeTopic(7, "chat"),
        GrowTopic(7, "moves", 2),
        ConfigureTopic(7, "moves", {"retention.ms": "5"}),
        DropTopic(7, "moves"),
        MakeTopic(7, "moves"),
        DropTopic(7, "nowhere"),
    ],
    ids=["make", "grow", "configure", "drop", "exists", "unknown"],
)
def test_what_is_asked_of_topics_is_answered_when_every_broker_knows_the_last_change(change: Admin) -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.slow.append("c#1")
    world.say("b#1", ConfigureTopic(6, "moves", {"retention.ms": "4"}))
    world.say("a#1", change)
    world.run(1000)
    assert not [message for message in world.told["a#1"] if isinstance(message, AdminDone)]
    world.slow.clear()
    world.take_up()
    assert [message.ticket for message in world.told["a#1"] if isinstance(message, AdminDone)] == [7]


def test_a_change_of_many_partitions_is_taken_up_with_one_word() -> None:
    world = grown(led_by("a#1"))
    world.slow.append("a#1")
    world.say("a#1", MakeTopic(7, "chat", partitions=1000, replicas=1))
    world.obey(world.register.on_message(world.now, "a#1", Taken(world.disk.counters.revision)))
    assert world.told["a#1"][-1] == AdminDone(7, 0, "")


def test_a_broker_that_is_frozen_is_waited_for_until_its_lease_has_ended() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.mute.append("c#1")
    world.say("a#1", MakeTopic(7, "chat"))
    world.run(1900)
    assert not [message for message in world.told["a#1"] if isinstance(message, AdminDone)]
    world.run(200)
    assert world.told["a#1"][-1] == AdminDone(7, 0, "")
    assert world.declined == [("c#1", "lapsed")]


def test_a_broker_that_died_is_waited_for_until_its_grace_has_ended() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.slow.append("c#1")
    world.say("a#1", MakeTopic(7, "chat"))
    world.close("c#1")
    world.run(100)
    assert not [message for message in world.told["a#1"] if isinstance(message, AdminDone)]
    world.run(100)
    assert world.told["a#1"][-1] == AdminDone(7, 0, "")


def test_a_newcomer_is_waited_for_as_well() -> None:
    world = grown(led_by("a#1", "b#1"))
    world.slow.append("c#1")
    world.enlist("c#1")
    world.say("a#1", MakeTopic(7, "chat"))
    assert not [message for message in world.told["a#1"] if isinstance(message, AdminDone)]
    world.slow.clear()
    world.take_up()
    assert world.told["a#1"][-1] == AdminDone(7, 0, "")


def test_a_change_that_is_not_taken_up_in_time_stands_and_its_asker_is_told_who_is_late() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.slow.append("c#1")
    world.say("a#1", MakeTopic(7, "chat", timeout_ms=500))
    world.run(600)
    text = "it is done, but not known everywhere yet: c#1 did not take it up in time"
    assert world.told["a#1"][-1] == AdminDone(7, REQUEST_TIMED_OUT, text)
    assert "chat" in world.disk.topics


def test_after_a_restart_what_everybody_had_has_to_be_said_again() -> None:
    world = grown(led_by("a#1", "b#1"))
    world.restart()
    world.slow.append("b#1")
    world.enlist("a#1", "b#1")
    world.say("a#1", MakeTopic(7, "moves"))
    assert not [message for message in world.told["a#1"] if isinstance(message, AdminDone)]
    world.slow.clear()
    world.take_up()
    assert [message.ticket for message in world.told["a#1"] if isinstance(message, AdminDone)] == [7]


def test_the_register_itself_may_ask_and_nobody_has_a_longer_lease_for_it() -> None:
    world = grown(led_by("a#1", "b#1"))
    world.mute.append("a#1")
    for _ in range(3):
        world.run(900)
        world.obey(world.register.on_own(world.now, Allot(1)))
    assert world.declined == [("a#1", "lapsed")]
    world.obey(world.register.on_own(world.now, MakeTopic(5, "chat")))
    assert isinstance(world.told[""][0], Allotted)
    assert world.told[""][-1] == AdminDone(5, 0, "")


def test_too_many_that_wait_are_refused_before_anything_is_changed() -> None:
    world = grown(led_by("a#1", "b#1"))
    world.slow.append("b#1")
    world.say("a#1", ConfigureTopic(1, "moves", {"retention.ms": "4"}))
    for ticket in range(2, WAITING_MAX + 1):
        world.register.on_message(world.now, "a#1", MakeTopic(ticket, "chat", dry=True))
    before = world.disk
    world.say("a#1", MakeTopic(7, "chat"))
    done = world.told["a#1"][-1]
    assert isinstance(done, AdminDone)
    assert done.error == THROTTLED
    assert world.disk is before


def test_a_request_that_cannot_be_done_is_answered_and_nothing_is_written() -> None:
    world = grown(led_by("a#1", "b#1"))
    before = world.disk
    world.say("b#1", MakeTopic(7, "moves"))
    assert world.told["b#1"][-1] == AdminDone(7, TOPIC_EXISTS, "the topic moves exists already")
    assert world.disk is before


def test_a_dry_request_is_answered_and_nothing_is_written() -> None:
    world = grown(led_by("a#1", "b#1"))
    before = world.disk
    world.say("b#1", MakeTopic(7, "chat", dry=True))
    assert world.told["b#1"][-1] == AdminDone(7, 0, "")
    assert world.disk is before


def test_the_number_of_a_topic_is_never_used_again_even_over_a_restart() -> None:
    world = grown(led_by("a#1", "b#1"))
    for number in (2, 3):
        world.say("a#1", MakeTopic(7, "chat"))
        assert world.disk.topics["chat"].number == number
        world.say("a#1", DropTopic(8, "chat"))
        world.restart()
        world.enlist("a#1", "b#1")


def test_who_is_leaving_or_gone_gets_no_replicas() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.leave("c#1")
    world.say("a#1", MakeTopic(7, "chat", partitions=4))
    assert {name for number in range(4) for name in world.state(number, "chat").replicas} == {"a", "b"}


def test_producer_ids_are_allotted_once_even_over_a_restart() -> None:
    world = grown(led_by("a#1", "b#1"))
    world.say("a#1", Allot(100))
    world.restart()
    world.enlist("a#1", "b#1")
    world.say("b#1", Allot(0))
    world.say("b#1", Allot(10**9))
    allotted = [told for told in (*world.told["a#1"], *world.told["b#1"]) if isinstance(told, Allotted)]
    assert allotted == [Allotted(1000, 100), Allotted(1100, 1), Allotted(1101, PRODUCERS_MAX)]


def test_producer_ids_are_saved_before_they_are_told() -> None:
    """A register that dies in between must not give them out again."""
    world = grown(led_by("a#1", "b#1"))
    saved, told = world.register.on_message(world.now, "a#1", Allot(100))
    assert isinstance(saved, Persist)
    assert saved.counters.producers == 1100
    assert told == Tell("a#1", Allotted(1000, 100))


@pytest.mark.parametrize("answer", [Accept(1, [("moves", 0, 1, 99, 99)]), Refuse(1, "too late"), Refuse(9, "no")])
def test_an_answer_to_a_transition_that_is_over_is_nothing(answer: Accept | Refuse) -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.silent.append("b#1")
    world.close("a#1")
    world.run(200)
    ran = world.register.transition_runs
    world.enlist("a#1")
    assert (ran, world.register.transition_runs) == (True, False)
    before = world.register.directory()
    world.say("b#1", answer)
    assert world.register.directory() == before
    assert world.transcript[-1].endswith("abort 1: the leader is back")


def test_an_answer_to_an_older_transition_does_not_count_in_this_one() -> None:
    world = grown(led_by("a#1", "b#1", "c#1"))
    world.silent.append("b#1")
    world.close("a#1")
    world.run(200)
    world.say("c#1", Refuse(1, "not now"))
    world.silent.append("b#1")
    world.run(400)
    assert world.transcript[-1].endswith("c#1 accepts 2 at epoch 1, offset 10")
    world.say("b#1", Accept(1, [("moves", 0, 1, 99, 99)]))
    assert world.register.transition_runs
    world.say("b#1", Refuse(1, "too late"))
    assert world.register.transition_runs
    world.say("b#1", Accept(2, [("moves", 0, 1, 11, 11)]))
    assert world.shape() == "2: b#1* c#1"


def test_a_register_needs_partitions_and_replicas() -> None:
    assert LogConfig(1, 1).replicas == 1
    for partitions, replicas in ((0, 1), (1, 0)):
        with pytest.raises(UsageError):
            LogConfig(partitions, replicas)


def test_without_brokers_there_is_nothing_to_wait_for() -> None:
    assert LogWorld().register.deadline() is None


# Histories.


@pytest.mark.parametrize("seed", range(40))
def test_any_history_keeps_the_invariants_and_every_partition_has_a_leader_in_the_end(seed: int) -> None:
    """`LogWorld` checks all that is persisted or told; then everybody is back on the disk it had, and all is well."""
    dice = random.Random(seed)
    world = LogWorld(saved(led_by("a#1", "b#1", "c#1"), led_by("b#1", "c#1", replicas="bca")))
    incarnations = dict.fromkeys("abcd", 1)
    for _ in range(80):
        _stir(dice, world, incarnations)
        world.run(dice.choice([0, 10, 50, 200, 2500]))
    world.mute.clear()
    world.silent.clear()
    world.refusing.clear()
    for broker in list(world.connected):
        world.close(broker)
    world.enlist(*(f"{name}#{number + 1}" for name, number in incarnations.items()))
    world.run(8000)
    for number in range(2):
        state = world.state(number)
        assert state.leader in world.connected
        assert state.leader in state.in_sync
        rest = [f"{name}#{incarnations[name] + 1}" for name in state.replicas]
        world.propose(*[state.leader, *(member for member in rest if member != state.leader)], number=number)
    world.run(12_000)
    assert [name_of(world.state(number).leader) for number in range(2)] == ["a", "b"]
    settled = world.register.directory()
    world.run(6000)
    assert world.register.directory() == settled


def _stir(dice: random.Random, world: LogWorld, incarnations: dict[str, int]) -> None:
    name = dice.choice("abcd")
    broker = f"{name}#{incarnations[name]}"
    there = broker in world.connected

    def crash() -> None:
        incarnations[name] += 1
        if there:
            world.close(broker)

    def enlist() -> None:
        if not there:
            world.enlist(broker)

    def propose() -> None:
        state = world.state()
        if state.leader in world.connected:
            others = [member for member in world.connected if member != state.leader]
            world.propose(state.leader, *dice.sample(others, dice.randint(0, len(others))))

    def toggle(names: list[str]) -> None:
        names.remove(broker) if broker in names else names.append(broker)

    deeds: list[Callable[[], object]] = [
        enlist,
        enlist,
        propose,
        crash,
        lambda: world.close(broker) if there else None,
        lambda: world.leave(broker) if there and dice.random() < 0.3 else None,
        lambda: toggle(world.mute),
        lambda: toggle(world.silent),
        lambda: toggle(world.refusing),
        lambda: world.restart(dice.choice([0, 5000])) if dice.random() < 0.3 else None,
    ]
    dice.choice(deeds)()

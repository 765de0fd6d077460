"""A broker: what it does about the register's decisions, its disk, its clients and the time."""

from __future__ import annotations

from typing import TypeVar

import pytest

from octoloom.core.broker import Broker, BrokerConfig, in_sync_min_of
from octoloom.core.broker_effects import (
    Acknowledge,
    Close,
    Dial,
    Effect,
    HangUp,
    LeadershipLost,
    LeadershipTaken,
    Moved,
    Open,
    Report,
    SendDurable,
    SendFollow,
    SendFrame,
    Truncate,
)
from octoloom.core.log_messages import (
    Aborted,
    Accept,
    Announced,
    BrokerAddress,
    Durable,
    Follow,
    FollowEntry,
    InSyncRefused,
    LogDirectory,
    LogNews,
    Part,
    PartitionState,
    ProposeInSync,
    Refuse,
    Taken,
    TopicInfo,
    TopicPartition,
)
from octoloom.core.partition import (
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER,
    STORAGE_ERROR,
    LogTail,
)
from octoloom.simulation.log_disk import SimPlace

A, B, C = "a#1", "b#1", "c#1"
ONE = ("moves", 0)
MOVES = TopicInfo("moves", 1, {"min.insync.replicas": "1"})
CONFIG = BrokerConfig(A, lag_ms=1000, high_ms=100, failed_ms=500, refollow_ms=50)
Kind = TypeVar("Kind")


def addresses(*brokers: str) -> dict[str, BrokerAddress]:
    return {broker: BrokerAddress(broker, "host", 1, "disk") for broker in brokers}


def state(leader: str, *others: str, epoch: int = 1, version: int = 0) -> PartitionState:
    return PartitionState(leader, epoch, [leader, *others], ["a", "b", "c"], version or epoch)


class Host:
    """Broker a with one topic, and a driver that opens logs at once. The log holds ten records of epoch 1."""

    def __init__(self, decided: PartitionState, info: TopicInfo = MOVES, tail: LogTail | None = None) -> None:
        self.now = 0
        self.broker = Broker(CONFIG)
        self.tail = tail or LogTail(0, 10, 10, 0, [(1, 0)])
        self.tickets = 0
        self.done: list[Effect] = []
        self.taken: list[int] = []
        """What the register was told to be taken up."""
        self.told = self.tell_directory(decided, info=info)

    def tell_directory(self, decided: PartitionState, *, info: TopicInfo = MOVES) -> list[Effect]:
        directory = LogDirectory(1, addresses(A, B, C), {info.name: info}, [(*ONE, decided)])
        self.broker.on_directory(self.now, directory)
        return self.flush()

    def tell(self, decided: PartitionState, transition: int = 0) -> list[Effect]:
        self.broker.on_news(self.now, LogNews(2, partitions=[(*ONE, decided)], transition=transition))
        return self.flush()

    def announce(self, number: int = 1, epoch: int = 1) -> list[Effect]:
        self.broker.on_announced(self.now, Announced(number, [(*ONE, epoch)], "why not"))
        return self.flush()

    def produce(self, count: int = 1, synced: bool = True) -> int:
        """A client's batch is admitted and written. Answers the ticket."""
        admission = self.broker.partitions[ONE].admit(count, -1, -1, -1, -1)
        assert not admission.error
        self.broker.on_admitted(ONE)
        self.tickets += 1
        self.broker.wait(ONE, admission.next_offset, self.tickets)
        if synced:
            self.broker.on_durable(ONE, admission.next_offset)
        return self.tickets

    def followed_by(self, who: str, offset: int = 10, durable: int = 10) -> list[Effect]:
        epoch = self.broker.partitions[ONE].state.epoch
        self.broker.streaming.on_follow(self.now, who, Follow(who, [FollowEntry(*ONE, epoch, offset, 1, durable)]))
        return self.flush()

    def acknowledged_by(self, who: str, end: int, frame: int = 1) -> list[Effect]:
        epoch = self.broker.partitions[ONE].state.epoch
        self.broker.streaming.on_follower_durable(self.now, who, Durable(frame, [(*ONE, epoch, end)]))
        return self.flush()

    def wait(self, ms: int) -> list[Effect]:
        """Lets time pass, as a driver does that obeys `deadline`."""
        until, effects = self.now + ms, []
        while (deadline := self.broker.deadline()) is not None and deadline <= until:
            self.now = max(deadline, self.now)
            self.broker.on_time(self.now)
            effects += self.flush()
        self.now = until
        return effects

    def flush(self) -> list[Effect]:
        effects: list[Effect] = []
        while batch := self.broker.flush(self.now):
            for effect in batch:
                if isinstance(effect, Open):
                    self.broker.on_tail(self.now, effect.name, self.tail)
                elif isinstance(effect, SendFrame):
                    sent = [(wanted.name, wanted.before) for wanted in effect.wanted]
                    for peer, _ in effect.to:
                        self.broker.streaming.on_sent(peer, sent)
            effects += [effect for effect in batch if not self._is_taken(effect)]
        return effects

    def _is_taken(self, effect: Effect) -> bool:
        match effect:
            case Report(Taken(revision)):
                self.taken.append(revision)
                return True
        return False

    @property
    def high(self) -> int:
        return self.broker.partitions[ONE].high


def of(kind: type[Kind], effects: list[Effect]) -> list[Kind]:
    return [effect for effect in effects if isinstance(effect, kind)]


def answers(effects: list[Effect]) -> list[tuple[int, int]]:
    return [answer for effect in of(Acknowledge, effects) for answer in effect.answers]


def proposals(effects: list[Effect]) -> list[tuple[int, int, list[str]]]:
    """(epoch, version, set)"""
    messages = [report.message for report in of(Report, effects)]
    return [change[2:] for message in messages if isinstance(message, ProposeInSync) for change in message.changes]


# Decisions.


def test_what_was_told_is_taken_up_when_all_logs_are_open_or_cannot_be() -> None:
    broker, two = Broker(CONFIG), ("moves", 1)
    broker.on_directory(0, LogDirectory(1, addresses(A, B), {"moves": MOVES}, []))
    broker.on_news(0, LogNews(2, partitions=[(*ONE, state(B, A)), (*two, state(B, A))]))
    assert broker.flush(0) == [Open(ONE, MOVES), Open(two, MOVES)]
    broker.on_tail(0, ONE, LogTail())
    assert Report(Taken(2)) not in broker.flush(0)
    broker.on_unopened(two)
    assert broker.flush(0) == [Report(Taken(2))]
    assert broker.flush(0) == []


def test_a_topic_that_is_deleted_while_it_is_opened_is_not_waited_for() -> None:
    broker = Broker(CONFIG)
    broker.on_directory(0, LogDirectory(1, addresses(A), {"moves": MOVES}, [(*ONE, state(A))]))
    assert broker.flush(0) == [Open(ONE, MOVES)]
    broker.on_news(0, LogNews(2, topics={"moves": None}))
    assert broker.flush(0) == [Close(ONE, MOVES), Report(Taken(2))]


def test_a_register_that_comes_back_hears_again_what_was_taken_up() -> None:
    host = Host(state(A))
    host.tell_directory(state(A))
    assert host.taken == [1, 1]


def test_a_replica_is_opened_before_it_leads() -> None:
    host = Host(state(A))
    assert host.told == [Open(ONE, MOVES), LeadershipTaken(ONE, 1), Moved([ONE])]
    assert host.high == 10
    assert (host.broker.revision, list(host.broker.brokers)) == (1, [A, B, C])


def test_a_replica_that_follows_dials_its_leader_and_asks() -> None:
    host = Host(state(B, A))
    assert host.told == [Open(ONE, MOVES), Dial(B)]
    host.broker.following.on_leader_up(0, B)
    assert host.flush() == [SendFollow(B, Follow(A, [FollowEntry(*ONE, 1, 10, 1, 10)]))]


def test_what_is_decided_while_the_log_is_being_opened_counts_when_it_is_open() -> None:
    broker = Broker(CONFIG)
    broker.on_directory(0, LogDirectory(1, addresses(A, B), {"moves": MOVES}, [(*ONE, state(B, A))]))
    broker.on_news(0, LogNews(2, partitions=[(*ONE, state(A, B, epoch=2))]))
    assert broker.flush(0) == [Open(ONE, MOVES)]
    broker.on_tail(0, ONE, LogTail())
    assert LeadershipTaken(ONE, 2) in broker.flush(0)


def test_partitions_without_a_replica_here_and_of_unknown_topics_are_not_opened() -> None:
    broker = Broker(CONFIG)
    elsewhere = PartitionState(B, 1, [B], ["b"], 1)
    directory = LogDirectory(1, addresses(A, B), {"moves": MOVES}, [(*ONE, elsewhere), ("x", 0, state(A))])
    broker.on_directory(0, directory)
    assert broker.flush(0) == [Report(Taken(1))]


def test_another_leader_ends_leadership_and_answers_who_waited() -> None:
    host = Host(state(A, B))
    ticket = host.produce()
    host.flush()
    effects = host.tell(state(B, A, epoch=2))
    assert effects == [LeadershipLost(ONE), Dial(B), Acknowledge([(ticket, NOT_LEADER)])]


def test_another_leader_is_followed_from_then_on() -> None:
    host = following()
    assert host.tell(state(C, A, epoch=2)) == [Dial(C)]
    host.broker.following.on_leader_up(0, C)
    assert host.flush() == [SendFollow(C, Follow(A, [FollowEntry(*ONE, 2, 10, 1, 10)]))]


def test_whoever_leads_again_sends_nothing_to_those_who_have_not_asked_again() -> None:
    host = Host(state(A, B))
    host.followed_by(B)
    host.tell(state(C, A, B, epoch=2))
    host.tell(state(A, B, C, epoch=3))
    host.produce()
    assert of(SendFrame, host.flush()) == []
    assert of(SendFrame, host.followed_by(B)) != []


def test_what_was_taken_from_an_older_leader_is_not_acknowledged_to_it_any_more() -> None:
    host = following()
    part, batch = Part(*ONE, 1, 10, 1, 0, 0), SimPlace(10, 11, 1, -1, -1, -1)
    assert host.broker.following.on_part(0, B, part, [batch])
    host.broker.following.on_frame(B, 1, [part])
    host.tell(state(C, A, epoch=2))
    host.broker.on_durable(ONE, 11)
    assert host.flush() == []


def test_the_same_decision_again_changes_nothing() -> None:
    host = Host(state(A, B))
    host.produce()
    host.flush()
    assert host.tell(state(A, B)) == []
    assert host.tell_directory(state(A, B)) == []


def test_a_new_set_in_the_same_epoch_keeps_streams_and_leadership() -> None:
    host = Host(state(A, B))
    host.followed_by(B)
    effects = host.tell(state(A, B, C, version=2))
    assert (of(LeadershipTaken, effects), of(LeadershipLost, effects)) == ([], [])
    host.produce()
    assert [frame.to for frame in of(SendFrame, host.flush())] == [[(B, 2)]]


def test_a_broker_that_is_given_up_is_hung_up_on() -> None:
    host = Host(state(B, A))
    host.broker.on_news(0, LogNews(2, brokers=addresses(A, C)))
    assert host.flush() == [HangUp(B)]
    assert list(host.broker.brokers) == [A, C]
    assert host.broker.revision == 2


# Topics.


def test_a_deleted_topic_is_closed_and_whoever_waits_is_answered() -> None:
    host = Host(state(A, B))
    ticket = host.produce()
    host.flush()
    host.broker.on_news(0, LogNews(2, topics={"moves": None}))
    assert host.flush() == [LeadershipLost(ONE), Close(ONE, MOVES), Acknowledge([(ticket, NOT_LEADER)])]
    host.broker.on_durable(ONE, 11)
    host.broker.on_tail(0, ONE, LogTail())
    host.broker.on_trimmed(ONE, 3)
    assert host.flush() == []
    assert (host.broker.topics, host.broker.partitions) == ({}, {})


def test_streams_of_a_deleted_topic_end_in_both_directions() -> None:
    host = Host(state(A, B))
    host.followed_by(B)
    host.produce()
    host.broker.on_news(0, LogNews(2, topics={"moves": None}))
    assert of(SendFrame, host.flush()) == []
    host = following()
    part, batch = Part(*ONE, 1, 10, 1, 0, 0), SimPlace(10, 11, 1, -1, -1, -1)
    assert host.broker.following.on_part(0, B, part, [batch])
    host.broker.following.on_frame(B, 1, [part])
    host.broker.on_news(0, LogNews(2, topics={"moves": None}))
    assert of(SendDurable, host.flush()) == [SendDurable(B, Durable(1, []))]


@pytest.mark.parametrize("by", ["news", "directory"])
def test_a_topic_of_the_same_name_is_another(by: str) -> None:
    host = Host(state(A))
    again = TopicInfo("moves", 2, {})
    if by == "news":
        host.broker.on_news(0, LogNews(2, topics={"moves": again}, partitions=[(*ONE, state(A))]))
        effects = host.flush()
    else:
        effects = host.tell_directory(state(A), info=again)
    assert [effect for effect in effects if isinstance(effect, Close | Open)] == [Close(ONE, MOVES), Open(ONE, again)]


def test_a_topic_that_is_made_and_deleted_in_one_turn_is_not_opened() -> None:
    """Its files may be there from an earlier life, so that it is closed all the same."""
    broker = Broker(CONFIG)
    broker.on_directory(0, LogDirectory(1, addresses(A), {"moves": MOVES}, [(*ONE, state(A))]))
    broker.on_news(0, LogNews(2, topics={"moves": None}))
    assert broker.flush(0) == [Close(ONE, MOVES), Report(Taken(2))]


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (state(B, A), state(A, B, epoch=2), False),
        (state(A, B), state(B, A, epoch=2), True),
        (state(A, B), state(A, B, version=2), True),
        (state(B, A), state(C, A, epoch=2), False),
    ],
)
def test_leadership_that_changed_in_the_turn_of_the_deletion_is_lost_if_it_was_known(
    before: PartitionState, after: PartitionState, lost: bool
) -> None:
    host = Host(before)
    host.broker.on_news(0, LogNews(2, partitions=[(*ONE, after)]))
    host.broker.on_news(0, LogNews(3, topics={"moves": None}))
    assert host.flush() == [*([LeadershipLost(ONE)] if lost else []), Close(ONE, MOVES)]


def test_a_topic_that_went_while_nobody_was_connected_is_closed() -> None:
    host = Host(state(A))
    host.broker.on_directory(0, LogDirectory(9, addresses(A), {}, []))
    assert host.flush() == [LeadershipLost(ONE), Close(ONE, MOVES)]


def test_a_setting_takes_effect_at_once() -> None:
    assert in_sync_min_of(TopicInfo("x", 1, {})) == 1
    host = Host(state(A))
    host.broker.on_news(0, LogNews(2, topics={"moves": TopicInfo("moves", 1, {"min.insync.replicas": "2"})}))
    assert host.broker.partitions[ONE].admit(1, -1, -1, -1, -1).error != 0


# Committing.


def test_a_batch_is_streamed_at_once_and_acknowledged_from_all_disks() -> None:
    host = Host(state(A, B))
    host.followed_by(B)
    ticket = host.produce(synced=False)
    frames = of(SendFrame, host.flush())
    assert [(wanted.offset, wanted.before) for wanted in frames[0].wanted] == [(10, 11)]
    assert answers(host.acknowledged_by(B, 11, frame=2)) == []
    host.broker.on_durable(ONE, 11)
    assert host.flush() == [Moved([ONE]), Acknowledge([(ticket, 0)])]


def test_a_duplicate_of_what_is_committed_is_acknowledged_at_once() -> None:
    host = Host(state(A))
    host.broker.wait(ONE, 5, 77)
    assert answers(host.flush()) == [(77, 0)]


def test_what_was_taken_and_is_committed_by_too_few_is_answered_so() -> None:
    host = Host(state(A, B), TopicInfo("moves", 1, {"min.insync.replicas": "2"}))
    ticket = host.produce()
    host.flush()
    assert answers(host.tell(state(A, version=2))) == [(ticket, NOT_ENOUGH_REPLICAS_AFTER_APPEND)]


def test_followers_hear_of_a_new_watermark_with_the_next_frame_or_soon() -> None:
    host = Host(state(A, B))
    host.followed_by(B)
    host.produce()
    host.flush()
    host.acknowledged_by(B, 11, frame=2)
    assert host.wait(CONFIG.high_ms - 1) == []
    frames = of(SendFrame, host.wait(1))
    assert [(wanted.offset, wanted.before, wanted.high) for wanted in frames[0].wanted] == [(11, 11, 11)]
    assert of(SendFrame, host.wait(10 * CONFIG.high_ms)) == []


def test_a_driver_that_looks_too_early_changes_nothing() -> None:
    host = Host(state(A, B))
    host.followed_by(B)
    host.produce()
    host.flush()
    host.acknowledged_by(B, 11, frame=2)
    host.broker.on_time(host.now + CONFIG.high_ms - 1)
    assert host.flush() == []
    assert host.broker.deadline() == CONFIG.high_ms


# The in-sync set.


def test_a_follower_that_has_everything_is_proposed() -> None:
    host = Host(state(A))
    assert proposals(host.followed_by(B, offset=4, durable=4)) == []
    assert proposals(host.acknowledged_by(B, 10)) == [(1, 1, [A, B])]


def test_a_follower_that_lags_is_proposed_to_leave_in_time() -> None:
    host = Host(state(A, B))
    host.followed_by(B)
    ticket = host.produce()
    host.flush()
    assert proposals(host.wait(CONFIG.lag_ms - 1)) == []
    assert proposals(host.wait(CONFIG.lag_ms // 4 + 1)) == [(1, 1, [A])]
    assert answers(host.tell(state(A, version=2))) == [(ticket, 0)]


def test_a_refused_proposal_is_made_again_later() -> None:
    host = Host(state(A))
    host.followed_by(B)
    host.broker.on_refused(0, InSyncRefused(*ONE, 1))
    assert proposals(host.flush()) == []
    assert proposals(host.wait(CONFIG.lag_ms)) == [(1, 1, [A, B])]
    host.broker.on_refused(0, InSyncRefused("nowhere", 0, 1))
    assert host.flush() == []


def test_on_a_new_connection_to_the_register_a_proposal_is_made_again() -> None:
    host = Host(state(A))
    host.followed_by(B)
    assert proposals(host.tell_directory(state(A))) == [(1, 1, [A, B])]
    assert proposals(host.tell_directory(state(A, B, version=2))) == []


def test_nothing_is_proposed_while_a_transition_is_announced() -> None:
    host = Host(state(A))
    host.announce()
    assert proposals(host.followed_by(B)) == []
    host.broker.on_aborted(0, Aborted(1, "off"))
    host.flush()
    assert proposals(host.followed_by(B)) == [(1, 1, [A, B])]


# Transitions.


def test_an_announcement_is_accepted_with_where_the_log_stands() -> None:
    host = Host(state(B, A), tail=LogTail(0, 10, 10, 8, [(1, 0), (3, 7)]))
    assert host.announce() == [Report(Accept(1, [(*ONE, 3, 10, 8)]))]


def test_a_log_that_is_not_open_yet_is_not_spoken_for() -> None:
    broker = Broker(CONFIG)
    broker.on_directory(0, LogDirectory(1, addresses(A, B), {"moves": MOVES}, [(*ONE, state(B, A))]))
    broker.flush(0)
    broker.on_announced(0, Announced(1, [(*ONE, 1)], "why not"))
    assert broker.flush(0) == [Report(Accept(1, []))]


def test_an_announcement_about_partitions_that_are_not_here_is_accepted_with_nothing() -> None:
    host = Host(state(B, A))
    host.broker.on_announced(0, Announced(1, [("elsewhere", 0, 1)], "why not"))
    assert host.flush() == [Report(Accept(1, []))]


def test_an_announcement_for_an_older_epoch_is_refused_and_holds_nothing() -> None:
    host = Host(state(A, epoch=5))
    assert host.announce(epoch=4) == [Report(Refuse(1, "moves-0 is in epoch 5 here, past 4"))]
    assert host.broker.partitions[ONE].leads() == 0


def test_from_the_announcement_on_nothing_is_taken_followed_or_acknowledged() -> None:
    host = Host(state(A, B))
    host.followed_by(B)
    host.produce()
    host.flush()
    host.announce()
    assert host.broker.partitions[ONE].leads() == NOT_LEADER
    assert answers(host.acknowledged_by(B, 11, frame=2)) == []
    assert host.high == 10


@pytest.mark.parametrize("how", ["aborted", "committed without a change", "announced anew", "register restarted"])
def test_when_it_is_off_the_leader_goes_on_and_acknowledges(how: str) -> None:
    host = Host(state(A, B))
    host.followed_by(B)
    ticket = host.produce()
    host.flush()
    host.announce()
    host.acknowledged_by(B, 11, frame=2)
    if how == "aborted":
        host.broker.on_aborted(0, Aborted(1, "off"))
    elif how == "committed without a change":
        host.broker.on_news(0, LogNews(2, transition=1))
    elif how == "announced anew":
        host.broker.on_announced(0, Announced(2, [("elsewhere", 0, 1)], "why not"))
    else:
        host.broker.on_directory(0, LogDirectory(1, addresses(A, B), {"moves": MOVES}, [(*ONE, state(A, B))]))
    assert answers(host.flush()) == [(ticket, 0)]


def test_an_older_transition_that_is_off_does_not_end_this_one() -> None:
    host = Host(state(A))
    host.announce(number=2)
    host.broker.on_aborted(0, Aborted(1, "off"))
    host.broker.on_news(0, LogNews(2, transition=1))
    host.flush()
    assert host.broker.partitions[ONE].held


def test_a_follower_stops_following_and_asks_again_when_it_is_off() -> None:
    host = following()
    host.announce()
    assert not host.broker.following.on_part(0, B, Part(*ONE, 1, 10, 1, 0, 0), [SimPlace(10, 11, 1, -1, -1, -1)])
    assert host.flush() == []
    host.broker.on_aborted(0, Aborted(1, "off"))
    assert of(SendFollow, host.flush()) == [SendFollow(B, Follow(A, [FollowEntry(*ONE, 1, 10, 1, 10)]))]


def test_a_follower_that_is_chosen_leads_with_what_it_has() -> None:
    host = following()
    host.announce()
    effects = host.tell(state(A, C, epoch=2), transition=1)
    assert LeadershipTaken(ONE, 2) in effects
    assert host.broker.partitions[ONE].leads() == 0
    assert not host.broker.partitions[ONE].held


def following() -> Host:
    """b leads, and a stream from it was asked for."""
    host = Host(state(B, A))
    host.broker.following.on_leader_up(0, B)
    host.flush()
    return host


# The disk.


def test_a_write_that_failed_is_answered_and_the_offset_given_again() -> None:
    host = Host(state(A))
    ticket = host.produce(synced=False)
    host.broker.on_tail(0, ONE, host.tail, failed=True)
    assert answers(host.flush()) == [(ticket, STORAGE_ERROR)]
    assert host.broker.partitions[ONE].admit(1, -1, -1, -1, -1).base_offset == 10


def test_a_follower_whose_write_failed_asks_again_after_a_while() -> None:
    host = following()
    part, batch = Part(*ONE, 1, 10, 1, 0, 0), SimPlace(10, 11, 1, -1, -1, -1)
    assert host.broker.following.on_part(0, B, part, [batch])
    host.broker.on_tail(0, ONE, host.tail, failed=True)
    host.broker.following.on_frame(B, 1, [part])
    assert of(SendDurable, host.flush()) == [SendDurable(B, Durable(1, []))]
    assert host.wait(CONFIG.failed_ms - 1) == []
    assert host.wait(1) == [SendFollow(B, Follow(A, [FollowEntry(*ONE, 1, 10, 1, 10)]))]


def test_a_log_that_was_cut_is_followed_on_at_once() -> None:
    host = following()
    host.broker.on_tail(0, ONE, LogTail(0, 7, 7, 0, [(1, 0)]))
    assert host.flush() == [SendFollow(B, Follow(A, [FollowEntry(*ONE, 1, 7, 1, 7)]))]


@pytest.mark.parametrize("meanwhile", ["another leader", "deleted", "announced"])
def test_a_log_is_not_cut_any_more_when_something_else_has_happened_in_the_same_turn(meanwhile: str) -> None:
    host = following()
    host.broker.following.on_part(0, B, Part(*ONE, 1, 7, 0, 0, 0, "diverged", 1), [])
    if meanwhile == "another leader":
        effects = host.tell(state(C, A, epoch=2))
    elif meanwhile == "deleted":
        host.broker.on_news(0, LogNews(2, topics={"moves": None}))
        effects = host.flush()
    else:
        effects = host.announce()
    assert of(Truncate, effects) == []


def test_retention_moves_the_start() -> None:
    host = Host(state(A))
    host.broker.on_trimmed(ONE, 4)
    assert host.broker.partitions[ONE].start == 4


def test_nothing_is_due_where_nobody_follows() -> None:
    assert Host(state(A)).broker.deadline() is None


# Two brokers, wired to each other.


def test_a_record_goes_from_the_leader_to_its_follower_and_back_as_an_acknowledgement() -> None:
    leader, follower = Host(state(A, B)), Broker(BrokerConfig(B))
    directory = LogDirectory(1, addresses(A, B, C), {"moves": MOVES}, [(*ONE, state(A, B))])
    follower.on_directory(0, directory)
    follower.flush(0)
    follower.on_tail(0, ONE, leader.tail)
    assert follower.flush(0) == [Dial(A), Report(Taken(1))]
    follower.following.on_leader_up(0, A)
    [asked] = of(SendFollow, follower.flush(0))
    leader.broker.streaming.on_follow(0, B, asked.follow)
    leader.flush()
    ticket = leader.produce(2)
    [frame] = of(SendFrame, leader.flush())
    [wanted], [(_, number)] = frame.wanted, frame.to
    part = Part(*ONE, wanted.epoch, wanted.offset, 1, wanted.high, wanted.start)
    name: TopicPartition = wanted.name
    assert follower.following.on_part(0, A, part, [SimPlace(10, 12, 1, -1, -1, -1)])
    follower.following.on_frame(A, number, [part])
    follower.on_durable(name, 12)
    [durable] = of(SendDurable, follower.flush(0))
    leader.broker.streaming.on_follower_durable(0, B, durable.durable)
    assert leader.flush() == [Moved([ONE]), Acknowledge([(ticket, 0)])]

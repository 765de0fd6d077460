"""The follower's side of replication: wishes, streams, verdicts, and when what was taken is acknowledged."""

from __future__ import annotations

import pytest

from octoloom.core.broker_effects import (
    Dial,
    Effect,
    Fault,
    HangUp,
    Reset,
    SendDurable,
    SendFollow,
    Trim,
    Truncate,
)
from octoloom.core.following import Following
from octoloom.core.log_messages import (
    BrokerAddress,
    Durable,
    Follow,
    FollowEntry,
    Part,
    PartitionState,
    TopicPartition,
)
from octoloom.core.partition import LogTail, Partition
from octoloom.simulation.log_disk import SimPlace

ONE, TWO = ("moves", 0), ("moves", 1)
A, B, C = "a#1", "b#1", "c#1"
REFOLLOW_MS = 100


def addresses(*brokers: str) -> dict[str, BrokerAddress]:
    return {broker: BrokerAddress(broker, "host", 1, "disk") for broker in brokers}


class Follower:
    """Broker b with a replica of each partition: ten records of epoch 1, eight known to be committed. `a` leads."""

    def __init__(self, *names: TopicPartition, connected: bool = True) -> None:
        self.now = 0
        self.partitions = {name: replica(name) for name in names or (ONE,)}
        self.following = Following(B, self.partitions, REFOLLOW_MS)
        if connected:
            self.following.on_brokers(0, addresses(A, B, C))
            self.flush()
            self.following.on_leader_up(0, A)
            self.flush()

    def flush(self) -> list[Effect]:
        effects: list[Effect] = []
        self.following.flush(self.now, effects)
        return effects

    def decide(self, leader: str, epoch: int, name: TopicPartition = ONE) -> None:
        """What the broker does about a new leader."""
        self.partitions[name].on_state(self.now, state(leader, epoch))
        self.following.drop(name)
        self.following.wish(name, self.now)

    def hear(self, part: Part, *batches: SimPlace, frame: int = 1, peer: str = A) -> bool:
        taken = self.following.on_part(self.now, peer, part, list(batches))
        self.following.on_frame(peer, frame, [part])
        return taken

    def cut(self, end: int, name: TopicPartition = ONE) -> None:
        self.partitions[name].on_tail(LogTail(0, end, end, 0, [(1, 0)]))
        self.following.drop(name)
        self.following.wish(name, self.now)

    def sync(self, end: int, name: TopicPartition = ONE) -> list[Effect]:
        self.partitions[name].on_durable(end)
        return self.flush()


def state(leader: str, epoch: int) -> PartitionState:
    return PartitionState(leader, epoch, [leader], ["a", "b", "c"], epoch)


def replica(name: TopicPartition) -> Partition:
    made = Partition(name, B, state(A, 1), 1, 1000)
    made.on_tail(LogTail(0, 10, 10, 8, [(1, 0)]))
    made.take_role(0)
    return made


def data(offset: int, size: int = 1, epoch: int = 1, high: int = 0, start: int = 0) -> Part:
    return Part(*ONE, epoch, offset, size, high, start)


def verdict(word: str, offset: int, epoch: int = 1, agreed: int = 1) -> Part:
    return Part(*ONE, epoch, offset, 0, 0, 0, word, agreed)


def batch(base: int, count: int = 1, epoch: int = 1) -> SimPlace:
    return SimPlace(base, base + count, epoch, -1, -1, -1)


def asks(epoch: int, offset: int, last: int = 1, durable: int | None = None) -> FollowEntry:
    return FollowEntry(*ONE, epoch, offset, last, offset if durable is None else durable)


# Wishes.


def test_a_leader_is_dialled_once_and_asked_when_the_connection_is_there() -> None:
    follower = Follower(ONE, TWO, connected=False)
    assert follower.flush() == []
    follower.following.on_brokers(0, addresses(A, B))
    assert follower.flush() == [Dial(A)]
    assert follower.flush() == []
    follower.following.on_leader_up(0, A)
    assert follower.flush() == [
        SendFollow(A, Follow(B, [asks(1, 10), FollowEntry(*TWO, 1, 10, 1, 10)])),
    ]
    assert follower.flush() == []


def test_a_broker_that_is_given_up_is_not_followed_until_it_is_back() -> None:
    follower = Follower()
    follower.following.on_brokers(0, addresses(B, C))
    assert follower.flush() == [HangUp(A)]
    assert not follower.hear(data(10), batch(10))
    follower.following.on_brokers(5, addresses(A, B, C))
    follower.now = 5
    assert follower.flush() == [Dial(A)]


def test_a_lost_connection_asks_for_everything_again() -> None:
    follower = Follower()
    assert follower.hear(data(10), batch(10))
    follower.following.on_leader_down(A)
    assert follower.sync(11) == []
    follower.following.on_leader_up(0, A)
    assert follower.flush() == [SendFollow(A, Follow(B, [asks(1, 11)]))]


def test_a_wish_waits_for_its_time() -> None:
    follower = Follower()
    follower.following.drop(ONE)
    follower.following.wish(ONE, 50)
    assert follower.following.deadline() == 50
    follower.now = 49
    assert follower.flush() == []
    follower.now = 50
    assert follower.flush() == [SendFollow(A, Follow(B, [asks(1, 10)]))]
    assert follower.following.deadline() is None


def test_the_first_wish_is_due_first_and_a_dropped_one_never() -> None:
    follower = Follower(ONE, TWO)
    follower.following.wish(TWO, 70)
    follower.following.wish(ONE, 50)
    assert follower.following.deadline() == 50
    follower.following.drop(ONE)
    assert follower.following.deadline() == 70
    follower.now = 60
    assert follower.flush() == []


def test_news_of_other_brokers_disturb_no_stream() -> None:
    follower = Follower()
    follower.following.on_brokers(0, addresses(A, B))
    follower.following.on_brokers(0, addresses(A, B, C, "d#1"))
    assert follower.flush() == []
    assert follower.hear(data(10), batch(10))


def test_nobody_is_asked_for_a_partition_that_is_held_or_led_here() -> None:
    follower = Follower()
    follower.partitions[ONE].held = True
    follower.following.wish(ONE, 0)
    assert follower.flush() == []
    follower.partitions[ONE].held = False
    follower.decide(B, 2)
    assert follower.flush() == []


# Streams.


def test_what_goes_on_where_the_log_ends_is_taken_and_acknowledged_from_the_disk() -> None:
    follower = Follower()
    assert follower.hear(data(10, size=2, high=10), batch(10), batch(11))
    assert (follower.partitions[ONE].end, follower.partitions[ONE].high) == (12, 10)
    assert follower.flush() == []
    assert follower.sync(12) == [SendDurable(A, Durable(1, [(*ONE, 1, 12)]))]


def test_a_frame_with_a_watermark_alone_is_answered_at_once() -> None:
    follower = Follower()
    assert not follower.hear(data(10, size=0, high=10))
    assert follower.partitions[ONE].high == 10
    assert follower.flush() == [SendDurable(A, Durable(1, []))]


def test_what_was_not_on_disk_when_the_stream_was_asked_for_is_acknowledged_later() -> None:
    follower = Follower()
    follower.hear(data(10), batch(10))
    follower.decide(A, 3)
    assert follower.flush()[0] == SendFollow(A, Follow(B, [asks(3, 11, durable=10)]))
    assert follower.sync(11) == [SendDurable(A, Durable(1, [(*ONE, 3, 11)]))]


@pytest.mark.parametrize("offset", [9, 11])
def test_a_gap_in_a_stream_begins_it_anew(offset: int) -> None:
    follower = Follower()
    assert not follower.hear(data(offset), batch(offset))
    assert not follower.hear(data(10), batch(10))  # it may be of the old stream
    assert SendFollow(A, Follow(B, [asks(1, 10)])) in follower.flush()
    assert follower.partitions[ONE].end == 10


@pytest.mark.parametrize(("epoch", "peer"), [(0, A), (2, A), (1, C), (1, "x#1")])
def test_nothing_is_taken_from_another_epoch_or_another_broker(epoch: int, peer: str) -> None:
    follower = Follower()
    assert not follower.hear(data(10, epoch=epoch), batch(10), peer=peer)
    assert follower.partitions[ONE].end == 10
    assert [effect for effect in follower.flush() if isinstance(effect, SendFollow)] == []


def test_a_frame_that_was_on_its_way_when_the_epoch_ended_is_not_taken() -> None:
    """The connection goes on, and the stream in the new epoch is asked for on it: older frames come first."""
    follower = Follower()
    follower.decide(C, 2)
    follower.decide(A, 3)
    assert not follower.hear(data(10), batch(10))
    assert follower.flush() == [
        SendFollow(A, Follow(B, [asks(3, 10)])),
        SendDurable(A, Durable(1, [])),
    ]
    assert not follower.hear(data(10), batch(10), frame=2)
    assert follower.hear(data(10, epoch=3), batch(10, epoch=3), frame=3)
    assert follower.partitions[ONE].epochs.starts() == [(1, 0), (3, 10)]


def test_a_frame_that_arrives_while_a_transition_is_announced_is_not_taken_and_not_acknowledged() -> None:
    follower = Follower()
    follower.hear(data(10), batch(10))
    follower.partitions[ONE].held = True
    follower.following.drop(ONE)
    assert not follower.hear(data(11), batch(11), frame=2)
    assert follower.sync(11) == [SendDurable(A, Durable(2, []))]
    follower.partitions[ONE].held = False
    follower.following.wish(ONE, 0)
    assert follower.flush() == [SendFollow(A, Follow(B, [asks(1, 11)]))]


def test_where_the_leaders_log_begins_ours_may_begin() -> None:
    follower = Follower()
    follower.hear(data(10, size=0, start=4))
    assert Trim(ONE, 4) in follower.flush()


# Verdicts.


def test_a_diverged_log_is_cut_and_then_goes_on_from_there() -> None:
    follower = Follower()
    follower.decide(A, 2)
    follower.flush()
    follower.hear(verdict("diverged", 9, epoch=2))
    assert follower.flush() == [Truncate(ONE, 9), SendDurable(A, Durable(1, []))]
    follower.cut(9)
    assert follower.flush() == [SendFollow(A, Follow(B, [asks(2, 9)]))]


def test_nothing_is_taken_between_the_verdict_and_the_cut() -> None:
    follower = Follower()
    follower.hear(verdict("diverged", 9))
    assert not follower.hear(data(10), batch(10), frame=2)


def test_a_cut_below_the_watermark_is_a_fault_that_stops_the_replica() -> None:
    follower = Follower()
    follower.hear(verdict("diverged", 7))
    effects = follower.flush()
    assert isinstance(effects[0], Fault)
    assert "committed" in effects[0].text
    assert follower.partitions[ONE].faulty
    follower.following.wish(ONE, 0)
    assert follower.flush() == []


def test_a_reset_drops_everything_unless_something_committed_would_be_lost() -> None:
    follower = Follower()
    follower.hear(verdict("reset", 20))
    assert follower.flush()[0] == Reset(ONE, 20)
    follower = Follower()
    follower.hear(verdict("reset", 8))
    assert follower.flush()[0] == Reset(ONE, 8)
    follower = Follower()
    follower.hear(verdict("reset", 7))
    assert isinstance(follower.flush()[0], Fault)


def test_an_empty_log_may_begin_anywhere() -> None:
    follower = Follower()
    follower.partitions[ONE].on_tail(LogTail(30, 30, 30, 30))
    follower.hear(verdict("reset", 20))
    assert follower.flush()[0] == Reset(ONE, 20)


def test_a_refused_follower_asks_again_after_a_while() -> None:
    follower = Follower()
    follower.hear(verdict("refused", 10))
    assert follower.flush() == [SendDurable(A, Durable(1, []))]
    assert follower.following.deadline() == REFOLLOW_MS
    follower.now = REFOLLOW_MS
    assert follower.flush() == [SendFollow(A, Follow(B, [asks(1, 10)]))]


@pytest.mark.parametrize("word", ["diverged", "reset", "refused"])
def test_a_verdict_of_another_epoch_changes_nothing_and_the_stream_goes_on(word: str) -> None:
    follower = Follower()
    follower.decide(A, 3)
    follower.flush()
    follower.hear(verdict(word, 0, epoch=1))
    assert follower.flush() == [SendDurable(A, Durable(1, []))]
    assert not follower.partitions[ONE].faulty
    assert follower.hear(data(10, epoch=3), batch(10, epoch=3), frame=2)


# Cut logs and acknowledgements.


def test_what_was_taken_before_a_cut_is_not_acknowledged_after_it() -> None:
    follower = Follower()
    follower.hear(data(10, size=2), batch(10), batch(11))
    follower.cut(10)
    effects = follower.flush()
    assert effects == [SendFollow(A, Follow(B, [asks(1, 10)])), SendDurable(A, Durable(1, []))]


def test_a_topic_that_is_deleted_while_a_frame_is_not_synced_holds_nobody_up() -> None:
    follower = Follower(ONE, TWO)
    follower.hear(data(10), batch(10))
    follower.following.drop(ONE)
    del follower.partitions[ONE]
    assert follower.flush() == [SendDurable(A, Durable(1, []))]
    assert not follower.hear(data(11), batch(11), frame=2)

"""The leader's side of replication: verdicts, frames, leave, and what an acknowledgement does."""

from __future__ import annotations

from octoloom.core.broker_effects import Effect, SendFrame
from octoloom.core.log_messages import Durable, Follow, FollowEntry, Part, PartitionState, TopicPartition
from octoloom.core.partition import LogTail, Partition
from octoloom.core.replication import FRAMES_MAX, Wanted
from octoloom.core.streaming import Streaming

ONE, TWO = ("moves", 0), ("moves", 1)
B, C = "b#1", "c#1"


class Leader:
    """A broker that leads two partitions of ten records each, in epoch 4, and reads `chunk` records at a time."""

    def __init__(self, *in_sync: str, chunk: int = 100) -> None:
        self.partitions = {name: replica(name, list(in_sync)) for name in (ONE, TWO)}
        self.touched: dict[TopicPartition, None] = {}
        self.streaming = Streaming(self.partitions, self.touched)
        self.chunk = chunk
        self.frames: list[tuple[str, int, list[tuple[TopicPartition, int, int]]]] = []
        """(to whom, number, what is in it: partition, from, to)"""
        self.verdicts: list[tuple[str, Part]] = []

    def follow(self, who: str, *entries: FollowEntry) -> None:
        self.streaming.on_follow(0, who, Follow(who, list(entries)))
        self.flush()

    def write(self, name: TopicPartition, count: int) -> None:
        self.partitions[name].admit(count, -1, -1, -1, -1)
        self.streaming.touch(name)
        self.flush()

    def durable(self, who: str, frame: int, *ends: tuple[TopicPartition, int]) -> bool:
        durable = Durable(frame, [(*name, 4, end) for name, end in ends])
        matters = self.streaming.on_follower_durable(0, who, durable)
        self.flush()
        return matters

    def high(self, name: TopicPartition) -> int:
        self.partitions[name].raise_watermark()
        return self.partitions[name].high

    def flush(self) -> None:
        more = True
        while more:
            effects: list[Effect] = []
            self.streaming.flush(effects)
            more = False
            for effect in effects:
                assert isinstance(effect, SendFrame)
                more |= self._send(effect)

    def _send(self, effect: SendFrame) -> bool:
        self.verdicts += [(peer, verdict) for peer, _ in effect.to for verdict in effect.verdicts]
        sent = [(wanted.name, min(wanted.before, wanted.offset + self.chunk)) for wanted in effect.wanted]
        parts = [(wanted.name, wanted.offset, to) for wanted, (_, to) in zip(effect.wanted, sent, strict=True)]
        if parts:
            self.frames += [(peer, number, parts) for peer, number in effect.to]
        more = [self.streaming.on_sent(peer, sent) for peer, _ in effect.to]
        return any(more)


def replica(name: TopicPartition, in_sync: list[str]) -> Partition:
    made = Partition(name, "a#1", PartitionState("a#1", 4, in_sync or ["a#1"], ["a", "b", "c"], 1), 1, 1000)
    made.on_tail(LogTail(end=10, durable=10, epochs=[(2, 0)]))
    made.take_role(0)
    return made


def entry(name: TopicPartition, offset: int, epoch: int = 4, last: int = 2) -> FollowEntry:
    return FollowEntry(*name, epoch, offset, last, offset)


def test_a_follower_gets_everything_from_where_its_log_ends() -> None:
    leader = Leader()
    leader.follow(B, entry(ONE, 7), entry(TWO, 10))
    assert leader.frames == [(B, 1, [(ONE, 7, 10), (TWO, 10, 10)])]
    leader.write(TWO, 2)
    assert leader.frames[1:] == [(B, 2, [(TWO, 10, 12)])]


def test_what_does_not_fit_goes_into_the_next_frame() -> None:
    leader = Leader(chunk=4)
    leader.follow(B, entry(ONE, 0))
    assert leader.frames == [(B, 1, [(ONE, 0, 4)]), (B, 2, [(ONE, 4, 8)]), (B, 3, [(ONE, 8, 10)])]


def test_nothing_is_sent_beyond_the_leave_and_an_acknowledgement_gives_more() -> None:
    leader = Leader(chunk=1)
    leader.follow(B, entry(ONE, 0))
    assert [frame for _, frame, _ in leader.frames] == list(range(1, FRAMES_MAX + 1))
    leader.durable(B, 1, (ONE, 1))
    assert leader.frames[FRAMES_MAX:] == [(B, FRAMES_MAX + 1, [(ONE, 8, 9)])]
    leader.durable(B, 9999)  # no more than was sent: it gives leave for everything under way, once
    assert leader.frames[FRAMES_MAX + 1 :] == [(B, FRAMES_MAX + 2, [(ONE, 9, 10)])]


def test_a_part_says_in_which_epoch_and_where_the_leader_stands() -> None:
    leader = Leader()
    leader.partitions[ONE].on_start(3)
    leader.high(ONE)
    leader.streaming.on_follow(0, B, Follow(B, [entry(ONE, 7)]))
    effects: list[Effect] = []
    leader.streaming.flush(effects)
    assert effects == [SendFrame([(B, 1)], [Wanted(ONE, 4, 7, 10, 10, 3)], [])]


def test_followers_that_stand_at_the_same_place_share_a_frame() -> None:
    leader = Leader()
    leader.follow(B, entry(ONE, 10))
    leader.follow(C, entry(ONE, 10), entry(TWO, 10))
    leader.partitions[ONE].admit(1, -1, -1, -1, -1)
    leader.streaming.touch(ONE)
    effects: list[Effect] = []
    leader.streaming.flush(effects)
    assert effects == [SendFrame([(B, 2), (C, 2)], [Wanted(ONE, 4, 10, 11, 0, 0)], [])]
    assert leader.frames[:2] == [(B, 1, [(ONE, 10, 10)]), (C, 1, [(ONE, 10, 10), (TWO, 10, 10)])]


def test_a_verdict_is_for_one_follower_and_comes_before_its_next_frame() -> None:
    leader = Leader()
    for who in (B, C):
        leader.streaming.on_follow(0, who, Follow(who, [entry(ONE, 10), entry(TWO, 10, epoch=3)]))
    effects: list[Effect] = []
    leader.streaming.flush(effects)
    sent = [effect for effect in effects if isinstance(effect, SendFrame)]
    assert [(each.to, len(each.wanted), len(each.verdicts)) for each in sent] == [
        ([(B, 1)], 0, 1),
        ([(B, 2)], 1, 0),
        ([(C, 1)], 0, 1),
        ([(C, 2)], 1, 0),
    ]


def test_followers_have_streams_of_their_own() -> None:
    leader = Leader(chunk=1)
    leader.follow(B, entry(ONE, 0))
    leader.follow(C, entry(ONE, 10))
    leader.write(ONE, 1)
    assert leader.frames[FRAMES_MAX:] == [(C, 1, [(ONE, 10, 10)]), (C, 2, [(ONE, 10, 11)])]


def test_a_verdict_is_sent_at_once_and_nothing_behind_it() -> None:
    leader = Leader()
    leader.follow(B, entry(ONE, 12), entry(TWO, 7, epoch=3))
    leader.write(ONE, 1)
    leader.write(TWO, 1)
    assert leader.frames == []
    assert [(who, part.topic, part.partition, part.verdict, part.offset) for who, part in leader.verdicts] == [
        (B, *ONE, "diverged", 10),
        (B, *TWO, "refused", 7),
    ]


def test_a_verdict_is_a_frame_of_its_own_and_ends_the_stream_that_there_was() -> None:
    leader = Leader()
    leader.follow(B, entry(ONE, 7))
    leader.follow(B, entry(ONE, 12), entry(TWO, 10))
    leader.write(ONE, 1)
    assert [part.verdict for _, part in leader.verdicts] == ["diverged"]
    assert leader.frames == [(B, 1, [(ONE, 7, 10)]), (B, 3, [(TWO, 10, 10)])]


def test_there_is_more_to_flush_while_something_is_left_and_may_be_sent() -> None:
    leader = Leader()
    leader.streaming.on_follow(0, B, Follow(B, [entry(ONE, 0)]))
    for frame in range(1, FRAMES_MAX + 1):
        leader.streaming.touch(ONE)
        effects: list[Effect] = []
        leader.streaming.flush(effects)
        assert leader.streaming.on_sent(B, [(ONE, frame)]) is (frame < FRAMES_MAX)
    leader.streaming.on_follower_durable(0, B, Durable(FRAMES_MAX, []))
    assert leader.streaming.on_sent(B, [(ONE, 9)])
    leader.streaming.flush([])
    assert not leader.streaming.on_sent(B, [(ONE, 10)])


def test_an_unknown_partition_is_refused() -> None:
    leader = Leader()
    leader.follow(B, entry(("nowhere", 3), 7))
    assert leader.verdicts == [(B, Part("nowhere", 3, 4, 7, 0, 0, 0, "refused"))]


def test_a_stream_that_is_asked_for_again_begins_there() -> None:
    leader = Leader(chunk=2)
    leader.follow(B, entry(ONE, 0))
    leader.frames.clear()
    leader.follow(B, entry(ONE, 6))
    assert leader.frames == [(B, 6, [(ONE, 6, 8)]), (B, 7, [(ONE, 8, 10)])]


def test_an_acknowledgement_raises_the_watermark() -> None:
    leader = Leader("a#1", B)
    leader.follow(B, entry(ONE, 4))
    assert list(leader.touched) == [ONE]
    assert leader.high(ONE) == 4
    for end in (9, 10):
        leader.touched.clear()
        leader.durable(B, 1, (ONE, end))
        assert list(leader.touched) == [ONE]
        assert leader.high(ONE) == end


def test_an_acknowledgement_that_moves_nothing_does_not_matter() -> None:
    leader = Leader("a#1", B, C)
    leader.follow(B, entry(ONE, 4))
    leader.follow(C, entry(ONE, 4))
    leader.high(ONE)
    leader.touched.clear()
    assert not leader.durable(B, 1, (ONE, 10))
    assert leader.touched == {}
    assert leader.durable(C, 1, (ONE, 7))
    assert list(leader.touched) == [ONE]
    assert leader.high(ONE) == 7


def test_an_acknowledgement_of_one_that_may_join_matters() -> None:
    leader = Leader("a#1", B)
    leader.follow(C, entry(ONE, 4))
    leader.touched.clear()
    assert leader.durable(C, 1, (ONE, 10))
    assert list(leader.touched) == [ONE]


def test_an_acknowledgement_that_gives_leave_matters() -> None:
    leader = Leader("a#1", B, chunk=1)
    leader.follow(B, entry(ONE, 0))
    assert leader.durable(B, 1)
    leader.durable(B, 9999)
    assert not leader.durable(B, 9999)


def test_nobody_acknowledges_what_was_not_sent_to_it() -> None:
    leader = Leader("a#1", B, C, chunk=1)
    leader.follow(B, entry(ONE, 0))
    leader.follow(C, entry(ONE, 10))
    leader.durable(B, 1, (ONE, FRAMES_MAX + 1))
    leader.durable(B, 1, (TWO, 10), (("nowhere", 3), 1))
    assert leader.high(ONE) == 0
    leader.durable(B, 2, (ONE, 2))
    assert leader.high(ONE) == 2


def test_a_stranger_acknowledges_nothing() -> None:
    leader = Leader("a#1", B)
    leader.durable(B, 1, (ONE, 10))
    leader.high(ONE)
    assert leader.high(ONE) == 0


def test_in_another_epoch_the_streams_end_and_older_acknowledgements_do_not_count() -> None:
    leader = Leader("a#1", B)
    leader.follow(B, entry(ONE, 4))
    leader.streaming.end(ONE)
    leader.durable(B, 1, (ONE, 10))
    assert leader.high(ONE) == 4
    leader.write(ONE, 1)
    assert len(leader.frames) == 1


def test_a_follower_that_hung_up_begins_anew_with_all_its_leave() -> None:
    leader = Leader("a#1", chunk=1)
    leader.follow(B, entry(ONE, 0))
    leader.streaming.on_follower_down(B)
    leading = leader.partitions[ONE].leading
    assert leading is not None
    assert leading.followers == {}
    leader.frames.clear()
    leader.follow(B, entry(ONE, 5))
    assert leader.frames[0] == (B, 1, [(ONE, 5, 6)])
    assert not leader.streaming.on_sent(C, [(ONE, 3)])


def test_a_partition_that_was_deleted_is_not_sent_on() -> None:
    leader = Leader()
    leader.follow(B, entry(ONE, 7), entry(TWO, 7))
    del leader.partitions[ONE]
    leader.streaming.end(ONE)
    leader.streaming.on_sent(B, [(ONE, 10)])
    leader.durable(B, 1, (ONE, 10), (TWO, 10))
    leader.write(TWO, 1)
    assert leader.frames[1:] == [(B, 2, [(TWO, 10, 11)])]

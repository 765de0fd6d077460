"""Both ends of a stream: what may be sent, and when what was taken may be acknowledged."""

from __future__ import annotations

from octoloom.core.log_messages import Durable, PartitionState, TopicPartition
from octoloom.core.partition import LogTail, Partition
from octoloom.core.replication import FRAMES_MAX, PARTS_MAX, Incoming, Outgoing
from octoloom.simulation.log_disk import SimPlace

ONE, TWO = ("moves", 0), ("moves", 1)


# The leader's end.


def test_a_stream_begins_where_it_was_asked_for_and_is_dirty_while_there_is_more() -> None:
    outgoing = Outgoing("b#1")
    outgoing.begin(ONE, 5)
    assert outgoing.next_names() == [ONE]
    assert list(outgoing.dirty) == []
    outgoing.on_sent(ONE, 9, end=12)
    assert (outgoing.sent[ONE], list(outgoing.dirty)) == (9, [ONE])
    outgoing.next_names()
    outgoing.on_sent(ONE, 12, end=12)
    assert (outgoing.sent[ONE], list(outgoing.dirty)) == (12, [])
    outgoing.touch(ONE)
    assert outgoing.next_names() == [ONE]


def test_news_of_a_partition_that_nobody_asked_for_is_nothing_to_send() -> None:
    outgoing = Outgoing("b#1")
    outgoing.touch(ONE)
    outgoing.on_sent(ONE, 9, end=12)
    assert (outgoing.sent, outgoing.dirty) == ({}, {})


def test_a_stream_that_ended_while_a_frame_was_made_stays_ended() -> None:
    outgoing = Outgoing("b#1")
    outgoing.begin(ONE, 5)
    outgoing.next_names()
    outgoing.end(ONE)
    outgoing.on_sent(ONE, 9, end=12)
    outgoing.touch(ONE)
    assert (outgoing.sent, outgoing.dirty) == ({}, {})


def test_a_stream_that_ended_has_nothing_to_send() -> None:
    outgoing = Outgoing("b#1")
    outgoing.begin(ONE, 5)
    outgoing.end(ONE)
    assert outgoing.next_names() == []


def test_a_frame_has_a_bounded_number_of_parts_and_everybody_has_a_turn() -> None:
    outgoing = Outgoing("b#1")
    names: list[TopicPartition] = [("moves", number) for number in range(PARTS_MAX + 3)]
    for name in names:
        outgoing.begin(name, 0)
    assert outgoing.next_names() == names[:PARTS_MAX]
    outgoing.on_sent(names[0], 4, end=8)
    assert outgoing.next_names() == [*names[PARTS_MAX:], names[0]]


def test_so_many_frames_may_be_under_way_and_no_more() -> None:
    outgoing = Outgoing("b#1")
    for _ in range(FRAMES_MAX):
        assert outgoing.has_leave
        outgoing.next_names()
    assert not outgoing.has_leave
    outgoing.taken = 1
    assert outgoing.has_leave


# The follower's end.


class Disk:
    """Replicas of a follower whose disk is told by hand how far it is."""

    def __init__(self) -> None:
        self.partitions = {ONE: replica(ONE), TWO: replica(TWO)}

    def take(self, name: TopicPartition, count: int) -> tuple[TopicPartition, int, int]:
        """Appends records; what `Incoming.on_frame` is told about it."""
        partition = self.partitions[name]
        end = partition.end + count
        partition.append([SimPlace(partition.end, end, 1, -1, -1, -1)], 0)
        return name, 1, end

    def sync(self, name: TopicPartition, end: int) -> None:
        self.partitions[name].on_durable(end)


def replica(name: TopicPartition) -> Partition:
    made = Partition(name, "b#1", PartitionState("a#1", 1, ["a#1"], ["a", "b"], 1), 1, 1000)
    made.on_tail(LogTail())
    made.take_role(0)
    return made


def test_a_frame_is_acknowledged_once_all_its_parts_are_on_disk() -> None:
    disk, incoming = Disk(), Incoming("a#1")
    incoming.on_frame(1, [disk.take(ONE, 3), disk.take(TWO, 2)])
    assert incoming.durable(disk.partitions) is None
    disk.sync(ONE, 3)
    assert incoming.durable(disk.partitions) is None
    disk.sync(TWO, 2)
    assert incoming.durable(disk.partitions) == Durable(1, [(*ONE, 1, 3), (*TWO, 1, 2)])
    assert not incoming.pending


def test_one_acknowledgement_stands_for_all_frames_before_it() -> None:
    disk, incoming = Disk(), Incoming("a#1")
    for frame in (1, 2, 3):
        incoming.on_frame(frame, [disk.take(ONE, 1)])
    disk.sync(ONE, 2)
    assert incoming.durable(disk.partitions) == Durable(2, [(*ONE, 1, 2)])
    disk.sync(ONE, 3)
    assert incoming.durable(disk.partitions) == Durable(3, [(*ONE, 1, 3)])


def test_frames_are_acknowledged_in_their_order() -> None:
    disk, incoming = Disk(), Incoming("a#1")
    incoming.on_frame(1, [disk.take(ONE, 1)])
    incoming.on_frame(2, [disk.take(TWO, 1)])
    disk.sync(TWO, 1)
    assert incoming.durable(disk.partitions) is None
    disk.sync(ONE, 1)
    assert incoming.durable(disk.partitions) == Durable(2, [(*ONE, 1, 1), (*TWO, 1, 1)])


def test_a_frame_without_records_is_acknowledged_as_leave_for_the_next() -> None:
    disk, incoming = Disk(), Incoming("a#1")
    incoming.on_frame(7, [])
    assert incoming.durable(disk.partitions) == Durable(7, [])


def test_what_lay_before_the_stream_is_acknowledged_when_it_is_on_disk() -> None:
    disk, incoming = Disk(), Incoming("a#1")
    incoming.on_frame(5, [])
    incoming.durable(disk.partitions)
    disk.take(ONE, 4)
    incoming.on_asked(disk.partitions[ONE])
    assert incoming.durable(disk.partitions) is None
    disk.sync(ONE, 4)
    assert incoming.durable(disk.partitions) == Durable(5, [(*ONE, 1, 4)])


def test_what_is_on_disk_already_was_said_in_the_asking() -> None:
    disk, incoming = Disk(), Incoming("a#1")
    disk.take(ONE, 4)
    disk.sync(ONE, 4)
    incoming.on_asked(disk.partitions[ONE])
    assert not incoming.pending


def test_a_dropped_partition_is_not_acknowledged_and_holds_nobody_up() -> None:
    disk, incoming = Disk(), Incoming("a#1")
    incoming.on_asked(disk.partitions[ONE])
    incoming.on_frame(1, [disk.take(ONE, 3), disk.take(TWO, 2)])
    incoming.drop(ONE)
    del disk.partitions[ONE]
    disk.sync(TWO, 2)
    assert incoming.durable(disk.partitions) == Durable(1, [(*TWO, 1, 2)])
    assert incoming.asked == {}


def test_a_lost_connection_forgets_what_was_under_way() -> None:
    disk, incoming = Disk(), Incoming("a#1")
    incoming.up = True
    incoming.on_asked(disk.partitions[ONE])
    incoming.on_frame(5, [disk.take(ONE, 1)])
    incoming.on_down()
    assert (incoming.up, incoming.asked, incoming.pending) == (False, {}, False)
    incoming.on_asked(disk.partitions[ONE])
    disk.sync(ONE, 1)
    assert incoming.durable(disk.partitions) == Durable(0, [(*ONE, 1, 1)])

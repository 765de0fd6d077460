"""What is read next, against a log that grows, is trimmed, and is made anew."""

from __future__ import annotations

import pytest

from octoloom.core.errors import UsageError
from octoloom.runtime.log_errors import UnknownTopic
from octoloom.spark.fetching import OffsetsGone
from octoloom.spark.options import SourceOptions, source_options
from octoloom.spark.planning import PartitionsGone, StreamPlan, places_in, plan_batch, rows_of
from octoloom.spark.ranges import Range
from tests.spark.memory_origin import MemoryOrigin

A, B = ("moves", 0), ("moves", 1)


def options(**given: str) -> SourceOptions:
    where = {} if "subscribePattern" in given or "assign" in given else {"topic": "moves"}
    return source_options({"bootstrap": "a:1", **where, **given})


def log() -> MemoryOrigin:
    return MemoryOrigin({A: (5, 40), B: (0, 20), ("chat", 0): (0, 3)})


# Batches.


def test_a_batch_reads_all_that_is_there() -> None:
    assert plan_batch(log(), options()) == [Range(*A, 5, 40), Range(*B, 0, 20)]
    assert len(plan_batch(log(), options(minPartitions="11"))) == 11


def test_a_batch_by_offsets_and_by_times() -> None:
    said = options(startingOffsets='{"moves":{"0":7,"1":-2}}', endingOffsets='{"moves":{"0":-1,"1":9}}')
    assert plan_batch(log(), said) == [Range(*A, 7, 40), Range(*B, 0, 9)]
    said = options(startingTimestamp="90", endingOffsetsByTimestamp='{"moves":{"0":120,"1":900}}')
    assert plan_batch(log(), said) == [Range(*A, 9, 12), Range(*B, 9, 20)]
    # Nothing was written in between: that is no mistake.
    assert plan_batch(log(), options(startingTimestamp="90", endingTimestamp="50")) == []


@pytest.mark.parametrize(
    ("start", "end", "cut"), [(2, 40, [Range(*A, 5, 40)]), (99, 100, []), (8, 99, [Range(*A, 8, 40)])]
)
def test_a_batch_that_asks_for_what_is_not_there(
    start: int, end: int, cut: list[Range], caplog: pytest.LogCaptureFixture
) -> None:
    said = {
        "startingOffsets": f'{{"moves":{{"0":{start},"1":-2}}}}',
        "endingOffsets": f'{{"moves":{{"0":{end},"1":-1}}}}',
    }
    with pytest.raises(OffsetsGone, match=r"topic moves, partition 0.*it holds 5 to 39.*failOnDataLoss"):
        plan_batch(log(), options(**said))
    assert plan_batch(log(), options(**said, failOnDataLoss="false")) == [*cut, Range(*B, 0, 20)]
    assert "data loss: offset" in caplog.text


def test_a_batch_cannot_end_before_it_begins() -> None:
    said = options(startingOffsets='{"moves":{"0":9,"1":0}}', endingOffsets='{"moves":{"0":6,"1":0}}')
    with pytest.raises(UsageError, match="moves-0 would be read from 9 to 6"):
        plan_batch(log(), said)


def test_what_is_read() -> None:
    assert places_in(log(), options()) == [A, B]
    assert places_in(log(), options(subscribePattern="m.*|ch.t")) == [("chat", 0), A, B]
    assert places_in(log(), options(assign='{"moves":[1]}')) == [B]
    with pytest.raises(UsageError, match="assign names moves-7"):
        places_in(log(), options(assign='{"moves":[1,7]}'))
    with pytest.raises(UsageError, match="no topic matches nothing"):
        plan_batch(log(), options(subscribePattern="nothing"))
    with pytest.raises(UnknownTopic):
        plan_batch(log(), source_options({"bootstrap": "a:1", "topic": "moves,none"}))


# Streams.


def test_a_stream_goes_on_where_it_was() -> None:
    origin = log()
    plan = StreamPlan(origin, options(startingOffsets="earliest"))
    first = plan.first()
    assert first == {A: 5, B: 0}
    assert plan.next(first, None) == {A: 40, B: 20}
    assert plan.highs == {A: 40, B: 20}
    some = plan.next(first, 11)
    assert sum(some.values()) - sum(first.values()) <= 11
    assert plan.ranges(first, some) == [Range(*A, 5, some[A]), Range(*B, 0, some[B])]
    origin.held[A] = (5, 41)
    assert plan.ranges({A: 40, B: 20}, plan.next({A: 40, B: 20}, 11)) == [Range(*A, 40, 41)]
    assert plan.next({A: 41, B: 20}, 11) == {A: 41, B: 20}


def test_a_stream_begins_at_the_end_unless_told_otherwise() -> None:
    assert StreamPlan(log(), options()).first() == {A: 40, B: 20}
    assert StreamPlan(MemoryOrigin({}), options(subscribePattern="moves")).first() == {}


def test_new_partitions_and_topics_are_read_from_their_beginning() -> None:
    origin = log()
    plan = StreamPlan(origin, options(subscribePattern="m.*"))
    starts = plan.first()
    origin.held |= {("moves", 2): (0, 4), ("mails", 0): (0, 2)}
    ends = plan.next(starts, None)
    assert plan.ranges(starts, ends) == [Range("mails", 0, 0, 2), Range("moves", 2, 0, 4)]


def test_a_stream_that_ends_reads_what_was_there_when_it_began() -> None:
    origin = log()
    plan = StreamPlan(origin, options(startingOffsets="earliest"))
    starts = plan.first()
    plan.fix_target()
    origin.held |= {A: (5, 100), ("moves", 2): (0, 4)}
    for _ in range(100):
        ends = plan.next(starts, 10)
        if ends == starts:
            break
        starts = ends
    assert starts == {A: 40, B: 20}


def test_a_checkpoint_beyond_the_target_stays_where_it_is() -> None:
    plan = StreamPlan(log(), options())
    plan.target = {A: 30}
    assert plan.next({A: 33, B: 20}, None) == {A: 33, B: 20}


def test_retention_takes_all_up_to_the_target() -> None:
    plan = StreamPlan(log(), options(failOnDataLoss="false"))
    plan.target = {A: 4, B: 20}
    assert plan.next({A: 2, B: 20}, 10) == {A: 4, B: 20}
    assert plan.next({A: 4, B: 20}, 10) == {A: 4, B: 20}


def test_retention_takes_what_a_stream_has_not_read(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(OffsetsGone, match=r"offsets 2 to 39 of topic moves, partition 0.*it holds 5 to 39 \(retention"):
        StreamPlan(log(), options()).next({A: 2, B: 0}, None)
    plan = StreamPlan(log(), options(failOnDataLoss="false"))
    assert plan.next({A: 2, B: 20}, None) == {A: 40, B: 20}
    assert plan.next({A: 2, B: 20}, 4) == {A: 9, B: 20}
    assert "moves, partition 0" in caplog.text


def test_a_topic_that_was_made_anew(caplog: pytest.LogCaptureFixture) -> None:
    origin = MemoryOrigin({A: (0, 3), B: (0, 20)})
    with pytest.raises(OffsetsGone, match=r"offset 40 of topic moves, partition 0.*it holds 0 to 2 .*made anew"):
        StreamPlan(origin, options()).next({A: 40, B: 20}, None)
    plan = StreamPlan(origin, options(failOnDataLoss="false"))
    ends = plan.next({A: 40, B: 20}, None)
    assert plan.ranges({A: 40, B: 20}, ends) == [Range(*A, 0, 3)]
    assert plan.next(ends, None) == ends
    assert "data loss" in caplog.text


def test_a_topic_that_is_gone_and_comes_back() -> None:
    origin = log()
    del origin.held[A], origin.held[B]
    with pytest.raises(PartitionsGone, match=r"moves does not exist.*failOnDataLoss"):
        StreamPlan(origin, options()).next({A: 40, B: 20}, None)
    plan = StreamPlan(origin, source_options({"bootstrap": "a:1", "topic": "moves,chat", "failOnDataLoss": "false"}))
    without = plan.next({A: 40, B: 20, ("chat", 0): 3}, None)
    assert without == {("chat", 0): 3}
    origin.held[A] = (0, 2)
    assert plan.ranges(without, plan.next(without, None)) == [Range(*A, 0, 2)]


def test_a_partition_that_is_gone() -> None:
    with pytest.raises(PartitionsGone, match="moves-9 was read and is gone"):
        StreamPlan(log(), options()).next({A: 40, B: 20, ("moves", 9): 4}, None)


# Reading.


def offsets_in(origin: MemoryOrigin, wanted: Range, chosen: SourceOptions) -> list[int]:
    return [row["offset"] for rows in rows_of(origin, wanted, chosen) for row in rows.to_pylist()]


def test_a_hole_is_an_error_or_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    lenient = options(failOnDataLoss="false")
    for wanted, there in [
        (Range(*A, 2, 9), range(5, 9)),
        (Range(*A, 38, 50), range(38, 40)),
        (Range(*A, 60, 70), range(0)),
        (Range(*A, 0, 3), range(0)),
    ]:
        with pytest.raises(OffsetsGone, match="topic moves, partition 0"):
            offsets_in(log(), wanted, options())
        caplog.clear()
        assert offsets_in(log(), wanted, lenient) == list(there)
        assert caplog.text.count("data loss") == 1
    assert offsets_in(log(), Range(*A, 5, 40), options()) == list(range(5, 40))

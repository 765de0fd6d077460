"""Tasks that run again, half or whole, late or with other rows, against real brokers. Spark has no part in it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from octoloom.runtime.log_errors import UnknownTopic
from octoloom.spark.sink import Written, write_rows
from octoloom.spark.sink_numbers import WINDOW_BYTES, tag_of
from octoloom.spark.sink_options import SinkOptions
from octoloom.spark.sink_sending import LaterBatch, OtherRows, RecordTooLarge
from tests.clients.cluster import Cluster
from tests.spark.conftest import MakeTopic
from tests.spark.sink_world import frame, numbered, values_in
from tests.waiting import until

pytestmark = pytest.mark.spark

LARGE = 60_000
"""Eight such values to a record batch."""


class Died(Exception):  # noqa: N818
    """A task ends in the middle of its rows."""


def dying(rows: pa.RecordBatch, after: int, task: Task) -> Iterator[pa.RecordBatch]:
    yield rows.slice(0, after)
    until(lambda: task.written, "something to be written", pause_s=0.1)
    raise Died


class Task:
    """A task of Spark partition 0, with its own topic."""

    def __init__(self, brokers: Cluster, topic: str) -> None:
        self.brokers, self.topic = brokers, topic
        self.options = SinkOptions(brokers.brokers, topic, timeout_ms=30_000)

    def run(self, rows: pa.RecordBatch | Iterator[pa.RecordBatch], batch: int = 0, number: int = 0) -> Written:
        pieces = iter([rows]) if isinstance(rows, pa.RecordBatch) else rows
        return write_rows(pieces, self.options, tag_of(f"query of {self.topic}", number, batch), number)

    @property
    def written(self) -> dict[int, list[bytes | None]]:
        return values_in(self.brokers.brokers, self.topic)


@pytest.fixture
def task(brokers: Cluster, topic: MakeTopic) -> Task:
    return Task(brokers, topic(2))


def test_a_batch_that_runs_again_is_written_once(task: Task) -> None:
    rows = frame(numbered(range(100)))
    assert task.run(rows) == task.run(rows) == Written(0, 100, 2)
    assert task.written == {0: numbered(range(0, 100, 2)), 1: numbered(range(1, 100, 2))}


def test_the_next_batch_begins_anew(task: Task) -> None:
    for batch in range(3):
        for _ in range(2):
            task.run(frame(numbered(range(batch * 10, batch * 10 + 10))), batch)
    assert task.written == {0: numbered(range(0, 30, 2)), 1: numbered(range(1, 30, 2))}


@pytest.mark.parametrize("after", [200, 330])
def test_a_task_that_died_is_completed(task: Task, after: int) -> None:
    """Sixteen megabytes in forty batches: more than brokers remember, so that some answers name no offset."""
    rows = frame(numbered(range(340), LARGE))
    with pytest.raises(Died):
        task.run(dying(rows, after, task))
    assert 0 < sum(map(len, task.written.values())) < 340
    task.run(iter(rows.slice(place, 50) for place in range(0, 340, 50)))
    task.run(rows)
    assert task.written == {0: numbered(range(0, 340, 2), LARGE), 1: numbered(range(1, 340, 2), LARGE)}


def test_two_attempts_at_once(task: Task) -> None:
    rows = frame(numbered(range(340), LARGE))
    threads = [threading.Thread(target=task.run, args=(rows,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert task.written == {0: numbered(range(0, 340, 2), LARGE), 1: numbered(range(1, 340, 2), LARGE)}


def test_partitions_of_spark_do_not_meet(task: Task) -> None:
    for number in (0, 1, 0, 1):
        task.run(frame(numbered(range(number * 10, number * 10 + 10))), number=number)
    assert sorted(value for values in task.written.values() for value in values if value) == sorted(numbered(range(20)))


def test_a_task_of_an_older_batch_changes_nothing(task: Task) -> None:
    task.run(frame(numbered(range(10))), 4)
    task.run(frame(numbered(range(10, 20))), 5)
    before = task.written
    with pytest.raises(LaterBatch, match="a later batch of this query was written already"):
        task.run(frame(numbered(range(10))), 4)
    assert task.written == before


def test_a_rerun_with_other_rows_is_noticed_and_changes_nothing(task: Task) -> None:
    task.run(frame(numbered(range(10))))
    before = task.written
    for other in ([*range(8), 11, 12], [1, 0, *range(2, 10)], range(8), range(100, 120)):
        with pytest.raises(OtherRows, match="to the same Spark partitions"):
            task.run(frame(numbered(other)))
        assert task.written == before


def test_nothing_is_written_behind_other_rows(task: Task) -> None:
    """The first batch of a partition travels alone: what comes after it would be taken by the brokers."""
    rows = frame(numbered(range(80), LARGE))
    task.run(rows.slice(0, 16))
    before = task.written
    with pytest.raises(OtherRows):
        task.run(frame(numbered([1, 0, *range(2, 80)], LARGE)))
    assert task.written == before
    task.run(rows)
    assert task.written == {0: numbered(range(0, 80, 2), LARGE), 1: numbered(range(1, 80, 2), LARGE)}


def test_the_order_of_rows_does_not_matter_if_they_are_sorted(task: Task) -> None:
    task.options = replace(task.options, sorts=True)
    for numbers in (range(10), reversed(range(10))):
        task.run(frame(numbered(numbers)))
    assert task.written == {0: numbered(range(0, 10, 2)), 1: numbered(range(1, 10, 2))}


def test_a_rerun_that_ends_long_before_is_noticed(task: Task) -> None:
    rows = frame(numbered(range(340), LARGE))
    task.run(rows)
    with pytest.raises(OtherRows):
        task.run(rows.slice(0, 16))


def test_a_leader_that_dies_is_found_again(task: Task) -> None:
    rows = frame(numbered(range(400), LARGE))

    def slowly() -> Iterator[pa.RecordBatch]:
        for place in range(0, 400, 100):
            yield rows.slice(place, 100)
            if place == 100:
                address = task.brokers.address_of_leader(task.topic, 0)
                task.brokers.log.kill(task.brokers.log.at(address))

    try:
        task.run(slowly())
    finally:
        for number in {1, 2, 3} - set(task.brokers.log.brokers):
            task.brokers.log.bring_back(number)
    assert task.written == {0: numbered(range(0, 400, 2), LARGE), 1: numbered(range(1, 400, 2), LARGE)}


def test_rows_wait_while_the_brokers_do_not_answer(task: Task) -> None:
    """A task holds a window, and what it has sent, and does not ask for more."""
    rows = frame(numbered(range(800), LARGE))
    brokers = task.brokers.log.brokers.values()
    taken: list[int] = []

    def counted() -> Iterator[pa.RecordBatch]:
        for place in range(0, 800, 20):
            taken.append(place)
            if place == 200:
                for broker in brokers:
                    broker.send(signal.SIGSTOP)
            yield rows.slice(place, 20)

    writing = threading.Thread(target=task.run, args=(counted(),))
    writing.start()
    try:
        seen = -1
        while len(taken) < 11 or len(taken) != seen:
            seen = len(taken)
            time.sleep(0.4)
        assert seen * 20 * LARGE <= 4 * WINDOW_BYTES < 800 * LARGE
    finally:
        for broker in brokers:
            broker.send(signal.SIGCONT)
        writing.join()
    assert task.written == {0: numbered(range(0, 800, 2), LARGE), 1: numbered(range(1, 800, 2), LARGE)}


def test_a_record_that_is_too_large_is_named(brokers: Cluster, topic: MakeTopic) -> None:
    small = Task(brokers, topic(1, max_message_bytes="2000"))
    with pytest.raises(RecordTooLarge, match=r"a record with 30.. bytes.*Raise max.message.bytes"):
        small.run(frame([b"x" * 3000]))
    assert small.written == {}


def test_a_topic_that_is_not_there(brokers: Cluster) -> None:
    with pytest.raises(UnknownTopic, match=r"nowhere does not exist.*topic create"):
        Task(brokers, "nowhere").run(frame([b"x"]))

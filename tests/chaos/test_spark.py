"""A stream from topic to topic on Spark, whose driver, workers and brokers are killed at random moments.

Whatever is killed, the copy equals the original at the end: every record once, in order, in every partition. The most
dangerous moment for a sink is after it has written and before Spark has noted that: every other kill waits for that
moment, and the others come anyhow.

The long form (`make chaos`) goes twenty-one rounds.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from octoloom.runtime.processes import PARENT
from tests.clients.cluster import Cluster
from tests.runtime.real_log import real_log
from tests.spark.sink_world import Found, read_topic
from tests.waiting import until

PARTITIONS = 3
BATCH_MAX = 600
AHEAD_MAX = 2000
PATIENCE_S = 600.0
PAUSE_S = 0.05
LONG_S = 2.0
"""A kill comes at some moment of so many seconds: a batch takes about half a second."""


class Ends:
    """How many records there are in a topic, counted from where its partitions end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends", "log_level": 0})

    def __call__(self) -> int:
        with contextlib.suppress(KafkaException):
            found = [self._consumer.get_watermark_offsets(place, 5.0) for place in self._places]
            return sum(bounds[1] for bounds in found if bounds is not None)
        # Of a leader that was not among the brokers for a moment librdkafka knows nothing more, for five minutes.
        with contextlib.suppress(KafkaException):
            self._consumer.list_topics(self._topic, 5.0)
        return 0


class Original(threading.Thread):
    """Writes numbered records to all partitions until it is stopped, a little ahead of the copy."""

    def __init__(self, bootstrap: str, topic: str, copied: Ends) -> None:
        super().__init__(name="original")
        self.topic = topic
        self.count = 0
        self._copied = copied
        self._stopped = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})

    def run(self) -> None:
        while not self._stopped.wait(PAUSE_S):
            if self.count - self._copied() < AHEAD_MAX:
                self._write(AHEAD_MAX // 10)
            self._producer.poll(0)
        self._producer.flush(PATIENCE_S)

    def _write(self, records: int) -> None:
        for _ in range(records):
            self.count += 1
            value = f"{self.count} ".encode() * 20
            self._producer.produce(self.topic, value, partition=self.count % PARTITIONS, headers=[("n", b"1")])

    def stop(self) -> None:
        self._stopped.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


class Copy:
    """The process that copies, which can die and come back."""

    def __init__(self, cluster: Cluster, source: str, target: str, folder: Path) -> None:
        self.target = target
        self.reruns = 0
        self._cluster = cluster
        self._checkpoint = folder / "checkpoint"
        self._log = folder / "copy.log"
        self._arguments = [cluster.brokers, source, target, str(self._checkpoint), str(BATCH_MAX)]
        self._all: list[psutil.Process] = []
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.spark_copy", *self._arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, PARENT: str(os.getpid())},
                start_new_session=True,
            )

    def members(self) -> list[psutil.Process]:
        """The driver's Python, its Java, and the workers that Java started, in this order."""
        assert self._process is not None
        if self._process.poll() is not None:
            return []
        driver = psutil.Process(self._process.pid)
        found = [driver, *driver.children(recursive=True)]
        self._all = [*{*self._all, *found}]
        return found

    def workers(self) -> list[psutil.Process]:
        """Those who work on a task, or wait for one. The one who starts them is not among them."""
        found = []
        for member in self.members():
            with contextlib.suppress(psutil.Error):
                parent = member.parent()
                if parent is not None and parent.cmdline()[-2:] == ["pyspark.daemon", "pyspark.worker"]:
                    found.append(member)
        return found

    def end(self) -> None:
        self.members()
        for member in self._all:
            with contextlib.suppress(psutil.Error):
                member.kill()
        if self._process is not None:
            self._process.wait()

    # What Spark has noted.

    def _noted(self, folder: str) -> int:
        """The last batch that is noted there, or -1."""
        names = [path.name for path in (self._checkpoint / folder).glob("[0-9]*")]
        return max(map(int, filter(str.isdigit, names)), default=-1)

    @property
    def is_between(self) -> bool:
        """A batch was planned, and has not been noted as done."""
        return self._noted("offsets") > self._noted("commits")

    @property
    def done(self) -> int:
        return self._noted("commits")

    # Faults.

    def kill_driver(self) -> None:
        self.reruns += self.is_between
        # Its workers are not told: they go on until they notice.
        for member in self.members()[:1] + [each for each in self.members() if each.name() == "java"]:
            member.send_signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self.start()

    def kill_worker(self) -> None:
        """One of those who read and write, or several: a task has one of each."""
        workers = self.workers()
        assert workers
        for worker in random.sample(workers, random.randint(1, len(workers))):
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.send_signal(signal.SIGKILL)

    def kill_leader(self) -> None:
        log = self._cluster.log
        number = log.at(self._cluster.address_of_leader(self.target, random.randrange(PARTITIONS)))
        log.kill(number)
        time.sleep(random.uniform(0, 1.0))
        log.start(number)
        log.brokers[number].await_ready()


def await_copy(text: str, condition: Callable[[], bool], copy: Copy, pause_s: float = 0.05) -> None:
    try:
        until(condition, text, PATIENCE_S, pause_s)
    except AssertionError as error:
        error.add_note(copy._log.read_text()[-3000:])
        raise


def danger(copy: Copy, written: Ends) -> None:
    """Returns when something of a batch was written, and the batch is not noted as done."""
    before = 0

    def grew() -> bool:
        return written() > before or not copy.is_between

    while before == 0 or not copy.is_between:
        await_copy("a batch to be done", lambda: not copy.is_between, copy, 0.002)
        before = written()
        await_copy("a batch to be planned", lambda: copy.is_between, copy, 0.002)
        await_copy("something to be written", grew, copy, 0.002)


def differences(original: dict[int, list[Found]], copy: dict[int, list[Found]]) -> list[str]:
    """What is wrong with the copy, in words."""
    found = []
    for number in range(PARTITIONS):
        held, wanted = Counter(copy.get(number)), Counter(original.get(number))
        found += [
            f"{each} is {held[each]} times in partition {number}" for each in wanted if held[each] != wanted[each]
        ]
        found += [f"{each} in partition {number} is not from here" for each in held if each not in wanted]
        if not found and copy.get(number) != original.get(number):
            found.append(f"partition {number} is in another order")
    return found[:10]


def rounds(cluster: Cluster, folder: Path, faults: list[str]) -> int:
    source, target = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS)
    written = Ends(cluster.brokers, target)
    original = Original(cluster.brokers, source, Ends(cluster.brokers, target))
    copy = Copy(cluster, source, target, folder)
    original.start()
    try:
        for number, fault in enumerate(faults):
            done = copy.done
            await_copy("the copy to go on", lambda done=done: copy.done > done + 1, copy)  # type: ignore[misc]
            if number % 2 == 0:
                danger(copy, written)
            else:
                time.sleep(random.uniform(0, LONG_S))
            print(f"{fault} after batch {copy.done}")
            getattr(copy, f"kill_{fault}")()
        done = copy.done
        await_copy("the copy to go on", lambda: copy.done > done, copy)
        original.stop()
        await_copy("the rest", lambda: written() >= original.count and not copy.is_between, copy)
    finally:
        original.stop()
        copy.end()
    assert differences(read_topic(cluster.brokers, source), read_topic(cluster.brokers, target)) == []
    print(f"{original.count} records in {copy.done + 1} batches, {copy.reruns} of them ran again after a crash")
    return copy.reruns


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with real_log(tmp_path, brokers=3) as log:
        yield Cluster(log)


@pytest.mark.timeout(1800)
def test_a_copy_is_equal_whatever_dies(cluster: Cluster, tmp_path: Path) -> None:
    assert rounds(cluster, tmp_path, ["driver", "worker", "leader"]) == 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_twenty_one_rounds(cluster: Cluster, tmp_path: Path) -> None:
    assert rounds(cluster, tmp_path, ["driver", "worker", "leader"] * 7) > 1

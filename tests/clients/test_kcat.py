"""kcat, from a shell: an older librdkafka than Python's, and what people look into a log with."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.cluster import SESSION_MS, Cluster, in_order, numbered
from tests.clients.groups import PARTITIONS, write
from tests.clients.speakers import KCAT, NO_KCAT, run_kcat
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(KCAT is None, reason=NO_KCAT)


@pytest.mark.parametrize("where", ["brokers", "register"])
def test_metadata(cluster: Cluster, where: str) -> None:
    topic = cluster.topic(partitions=3)
    seen = json.loads(run_kcat(getattr(cluster, where), "-L", "-J"))
    assert sorted(broker["id"] for broker in seen["brokers"]) == [1, 2, 3]
    [found] = [each for each in seen["topics"] if each["topic"] == topic]
    assert {part["leader"] for part in found["partitions"]} == {1, 2, 3}
    assert all(len(part["replicas"]) == 3 for part in found["partitions"])


def test_records_are_written_and_read_from_any_place(cluster: Cluster) -> None:
    topic = cluster.topic()
    run_kcat(cluster.register, "-P", "-t", topic, "-p", "0", given="zero\none\ntwo\nthree\nfour\n")

    def read(*options: str) -> list[str]:
        return run_kcat(cluster.register, "-C", "-t", topic, "-e", *options).split()

    assert read("-o", "beginning") == ["zero", "one", "two", "three", "four"]
    assert read("-p", "0", "-o", "3") == ["three", "four"]
    assert read("-p", "0", "-o", "-2") == ["three", "four"]
    assert read("-o", "end") == []
    assert read("-o", "1", "-c", "2", "-p", "0") == ["one", "two"]
    printed = run_kcat(cluster.register, "-C", "-t", topic, "-e", "-f", "%t-%p@%o:%s\\n", "-o", "4", "-p", "0")
    assert printed == f"{topic}-0@4:four\n"


def test_records_are_found_by_their_time(cluster: Cluster) -> None:
    topic = cluster.topic()
    run_kcat(cluster.brokers, "-P", "-t", topic, "-p", "0", given="before\n")
    [line] = run_kcat(cluster.brokers, "-C", "-t", topic, "-e", "-J").splitlines()
    time_ms = json.loads(line)["ts"] + 1
    until(lambda: time.time() * 1000 > time_ms, "the clock to move")
    run_kcat(cluster.brokers, "-P", "-t", topic, "-p", "0", given="later\n")
    assert run_kcat(cluster.brokers, "-C", "-t", topic, "-e", "-o", f"s@{time_ms}") == "later\n"
    assert run_kcat(cluster.brokers, "-Q", "-t", f"{topic}:0:{time_ms}").split() == [topic, "[0]", "offset", "1"]


class Reader:
    """`kcat -G`, which prints what it reads and says on the side what is assigned to it."""

    def __init__(self, cluster: Cluster, group: str, topic: str, folder: Path) -> None:
        assert KCAT is not None
        self._out, self._side = folder / "out", folder / "side"
        settings = [f"session.timeout.ms={SESSION_MS}", "heartbeat.interval.ms=300", "auto.offset.reset=earliest"]
        options = [option for setting in settings for option in ("-X", setting)]
        with self._out.open("wb") as out, self._side.open("wb") as side:
            command = [KCAT, "-b", cluster.register, "-G", group, topic, "-u", *options]
            self._process = subprocess.Popen(command, stdout=out, stderr=side)

    @property
    def values(self) -> list[bytes]:
        return self._out.read_bytes().split()

    @property
    def partitions(self) -> set[int]:
        said = [line for line in self._side.read_text().splitlines() if "rebalanced" in line]
        if not said or ": assigned: " not in said[-1]:
            return set()
        return {int(number) for number in re.findall(r"\[(\d+)\]", said[-1])}

    def leave(self) -> None:
        """Ends as Ctrl-C ends it: it commits, and leaves the group."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE_S) == 0, self._side.read_text()


@contextlib.contextmanager
def reading(cluster: Cluster, group: str, topic: str, folder: Path) -> Iterator[Reader]:
    folder.mkdir()
    reader = Reader(cluster, group, topic, folder)
    try:
        yield reader
    finally:
        reader.leave()


def test_a_group_shares_a_topic_and_remembers_where_it_was(cluster: Cluster, tmp_path: Path) -> None:
    topic, group = cluster.topic(PARTITIONS), cluster.name("group")
    every = set(range(PARTITIONS))
    write(cluster, topic, numbered(0, 40))
    with reading(cluster, group, topic, tmp_path / "ada") as ada:
        until(lambda: len(ada.values) == 40, "the first records")
        with reading(cluster, group, topic, tmp_path / "eve") as eve:
            until(lambda: len(ada.partitions) == len(eve.partitions) == 2, "both to have a part")
            assert ada.partitions | eve.partitions == every
            write(cluster, topic, numbered(40, 40))
            until(lambda: len(ada.values + eve.values) >= 80, "more records")
        until(lambda: ada.partitions == every, "ada to have all")
        assert in_order(ada.values + eve.values) == numbered(0, 80)
        assert len(eve.values) == 20
    write(cluster, topic, numbered(80, 8))
    with reading(cluster, group, topic, tmp_path / "zoe") as zoe:
        until(lambda: len(zoe.values) >= 8, "what came meanwhile")
    assert in_order(zoe.values) == numbered(80, 8)

"""One story of a consumer group, for every client that can be a member of one.

A member joins, another does, one leaves, the last one leaves, and somebody comes back later. Whatever was written at
any time is read by one of them, once, and whoever comes back goes on where the group was.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import Producer

from tests.clients.cluster import Cluster, in_order, numbered
from tests.waiting import PATIENCE_S, until

PARTITIONS = 4
POLL_S = 0.1


class Member(ABC):
    """A member of a group, on a thread of its own. Whatever it has read is committed before it reads on."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.values: list[bytes] = []
        self.partitions: set[int] = set()
        """What is assigned to it now."""
        self.error: Exception | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def poll(self) -> tuple[set[int], list[bytes]]:
        """Waits for up to `POLL_S`, commits what came, and answers it with the partitions that are assigned now."""

    @abstractmethod
    def close(self) -> None:
        """Leaves the group."""

    def _work(self) -> None:
        try:
            self.open()
            while not self._is_over.is_set():
                self.partitions, values = self.poll()
                self.values += values
            self.close()
        except Exception as error:
            self.error = error

    def leave(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error


Join = Callable[[str, str, str], Member]


@contextlib.contextmanager
def joined(join: Join, cluster: Cluster, group: str, topic: str, bootstrap: str = "") -> Iterator[Member]:
    member = join(bootstrap or cluster.brokers, group, topic)
    try:
        yield member
    finally:
        member.leave()


def play_group(cluster: Cluster, join: Join) -> str:
    """Answers the group, which is empty then and has read everything of the topic."""
    topic, group = cluster.topic(PARTITIONS), cluster.name("group")
    every = set(range(PARTITIONS))
    write(cluster, topic, numbered(0, 40))
    with joined(join, cluster, group, topic, cluster.register) as ada:
        assert read(ada) == numbered(0, 40)
        assert ada.partitions == every
        with joined(join, cluster, group, topic) as eve:
            until(lambda: len(shared(ada, eve)) == 2, "both to have a part")
            assert ada.partitions | eve.partitions == every
            write(cluster, topic, numbered(40, 40))
            assert read(ada, eve) == numbered(0, 80)
            assert min(len(ada.values) - 40, len(eve.values)) == 20
        until(lambda: healthy(ada).partitions == every, "ada to have all")
        write(cluster, topic, numbered(80, 40))
        assert read(ada, eve, count=120) == numbered(0, 120)
    write(cluster, topic, numbered(120, 8))
    with joined(join, cluster, group, topic) as zoe:
        assert read(zoe, count=8) == numbered(120, 8)
    return group


def healthy(member: Member) -> Member:
    if member.error is not None:
        raise member.error
    return member


def shared(*members: Member) -> list[Member]:
    """The members, once each has as many partitions as the others and none is left out."""
    sizes = [len(healthy(member).partitions) for member in members]
    return list(members) if sizes == [PARTITIONS // len(members)] * len(members) else []


def read(*members: Member, count: int = 0) -> list[bytes]:
    """Everything that these have read, as soon as it is so much (all that was written, unless `count` says)."""
    wanted = count or 40 * len(members)

    def values() -> list[bytes]:
        return [value for member in members for value in healthy(member).values]

    until(lambda: len(values()) >= wanted, f"{wanted} records")
    return in_order(values())


def write(cluster: Cluster, topic: str, values: Sequence[bytes]) -> None:
    """The same number of records to each partition."""
    producer = Producer({"bootstrap.servers": cluster.brokers})
    for at, value in enumerate(values):
        producer.produce(topic, value, partition=at % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0

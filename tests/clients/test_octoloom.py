"""The client that comes with the brokers, as a member of consumer groups: among its own kind, and among others."""

from __future__ import annotations

import asyncio

import pytest

from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_group_consumer import GroupValueConsumer
from tests.clients.cluster import SESSION_MS, Cluster, numbered
from tests.clients.groups import PARTITIONS, POLL_S, Member, joined, play_group, read, shared, write
from tests.clients.test_aiokafka import AioMember
from tests.clients.test_confluent import ConfluentMember
from tests.clients.test_kafka_python import PythonMember
from tests.waiting import until


class OwnMember(Member):
    def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        self._client = LogClient(self.bootstrap)
        self._consumer = GroupValueConsumer(
            self._client, self.group, [self.topic], session_ms=SESSION_MS, beat_ms=300, commit_ms=None
        )

    def poll(self) -> tuple[set[int], list[bytes]]:
        return self._loop.run_until_complete(self._poll())

    async def _poll(self) -> tuple[set[int], list[bytes]]:
        values: list[bytes | None] = []
        try:
            async with asyncio.timeout(POLL_S):
                _, _, _, values = await anext(self._consumer)
            await self._consumer.commit()
        except TimeoutError:
            pass
        return {number for _, number in self._consumer.partitions}, [value for value in values if value is not None]

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.close())
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


def test_a_group_shares_a_topic_and_remembers_where_it_was(cluster: Cluster) -> None:
    play_group(cluster, OwnMember)


@pytest.mark.parametrize("other", [AioMember, ConfluentMember, PythonMember])
@pytest.mark.parametrize("is_first", [True, False], ids=["ours leads", "the other leads"])
def test_a_group_may_be_of_many_kinds(cluster: Cluster, other: type[Member], is_first: bool) -> None:
    """Who came first divides the partitions for all."""
    first, second = (OwnMember, other) if is_first else (other, OwnMember)
    topic, group = cluster.topic(PARTITIONS), cluster.name("group")
    write(cluster, topic, numbered(0, 40))
    with joined(first, cluster, group, topic) as ada:
        assert read(ada) == numbered(0, 40)
        with joined(second, cluster, group, topic) as eve:
            until(lambda: len(shared(ada, eve)) == 2, "both to have a part")
            write(cluster, topic, numbered(40, 40))
            assert read(ada, eve) == numbered(0, 80)
            assert len(eve.values) == 20
        until(lambda: ada.partitions == set(range(PARTITIONS)), "ada to have all")
        write(cluster, topic, numbered(80, 8))
        assert read(ada, eve, count=88) == numbered(0, 88)

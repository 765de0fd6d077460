"""Whoever looks on hears who leads, and each step of a transition."""

from __future__ import annotations

import asyncio
from pathlib import Path

import uvloop

from octoloom.core.log_messages import Announced, LogNews
from octoloom.core.roster import name_of
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_watch import LogWatch, Step
from octoloom.runtime.plan import Plan
from octoloom.runtime.supervisor import Cluster
from tests.waiting import STORY_S

PLACE = "moves", 0


def test_a_transition_is_watched_from_its_announcement_to_the_new_leader(tmp_path: Path) -> None:
    async def main() -> None:
        plan = Plan(tmp_path, "octoloom.arena:app", register_port=0, device_port=0, broker_port=0, brokers=3)
        cluster = Cluster(plan, lambda _: None, in_processes=False)
        try:
            await cluster.start()
            log = cluster.log
            assert log is not None
            assert sorted(log.names()) == ["broker1", "broker2", "broker3"]
            async with LogClient(cluster.brokers[0].address) as client:
                await client.create_topic("moves", 1)
            await cluster.log_whole()
            steps: list[Step] = []
            log.on_step = steps.append
            before = log.state(PLACE)
            assert before is not None
            leader = next(broker for broker in cluster.brokers if broker.name == name_of(before.leader))
            await leader.stop()
            assert log.led_since(PLACE, before.epoch) is None
            after = await cluster.led_anew(PLACE, before.epoch)
            assert after == log.state(PLACE)
            assert leader.name not in log.names()
            assert not log.is_whole()
            announced, committed = steps[:2]
            assert isinstance(announced, Announced)
            assert ("moves", 0, before.epoch) in announced.partitions
            assert isinstance(committed, LogNews)
            assert committed.transition == announced.transition
            assert ("moves", 0, after) in committed.partitions
            assert log.leader(PLACE) == log.directory.brokers[after.leader]
        finally:
            await cluster.stop()

    uvloop.run(asyncio.wait_for(main(), STORY_S))


def test_a_register_that_comes_back_tells_everything_anew(tmp_path: Path) -> None:
    async def main() -> None:
        plan = Plan(tmp_path, "octoloom.arena:app", register_port=0, device_port=0, broker_port=0)
        first = Cluster(plan, lambda _: None, in_processes=False)
        await first.start()
        assert first.register is not None
        address = first.register.address
        moved = asyncio.Event()
        watch = LogWatch(address, moved.set)
        watch.start()
        try:
            await moved.wait()
            revision = watch.directory.revision
            assert watch.names() == ["broker1"]
            await first.stop()
            port = int(address.rpartition(":")[2])
            again = Plan(tmp_path, "octoloom.arena:app", register_port=port, device_port=0, broker_port=0)
            second = Cluster(again, lambda _: None, in_processes=False)
            try:
                await second.start()
                while watch.directory.revision <= revision or watch.names() != ["broker1"]:
                    moved.clear()
                    await moved.wait()
            finally:
                await second.stop()
        finally:
            await watch.stop()

    uvloop.run(asyncio.wait_for(main(), STORY_S))

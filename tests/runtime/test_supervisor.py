"""Clusters of real processes: they come back after a crash, after a total loss, and with new code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from octoloom.core.errors import UsageError
from octoloom.core.log_messages import LogDirectory, PartitionState
from octoloom.core.register_messages import Directory
from octoloom.runtime import cluster_file, status
from octoloom.runtime.device import Device
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Consumer
from octoloom.runtime.plan import Plan
from octoloom.runtime.process_logs import LOG_BYTES_MAX
from octoloom.runtime.processes import Child
from octoloom.runtime.services import Kept
from octoloom.runtime.supervisor import Cluster, _free_name
from octoloom.wire.kafka.records import Record, build_batch
from tests.waiting import STORY_S

APP = "octoloom.arena:app"


CHATTY = """
from octoloom import App

print("this app is read")
app = App("chatty", state={"count": 0})


@app.on("add")
def add(state, event):
    state["count"] += 1
    print("added", state["count"], "x" * 10_000)
"""


def plan(data: Path, app: str = APP, **settings: Any) -> Plan:
    """Without brokers, where a test does not ask for them."""
    ports = {"register_port": 0, "device_port": 0, "broker_port": 0}
    return Plan(data, app, **{"replicas": 2, "brokers": 0, **ports, **settings})


def run(main: Coroutine[Any, Any, None]) -> None:
    uvloop.run(asyncio.wait_for(main, STORY_S))


def free_ports(count: int) -> int:
    """The first of several ports in a row that are free."""
    for first in range(21000, 31000, 10):
        probes = [socket.socket() for _ in range(count)]
        try:
            for at, probe in enumerate(probes):
                probe.bind(("127.0.0.1", first + at))
            return first
        except OSError:
            pass
        finally:
            for probe in probes:
                probe.close()
    raise AssertionError("no free ports")


def test_a_killed_link_comes_back_and_the_state_was_never_gone(tmp_path: Path) -> None:
    async def main() -> None:
        news: list[str] = []
        cluster = Cluster(plan(tmp_path), news.append)
        try:
            await cluster.start()
            urls = [link.address for link in cluster.links]
            async with Device.connect(urls, "hall", "ada", wait_ms=10_000) as ada:
                assert await ada.send("claim", {"cell": "a1", "number": 1})
                for role in ("head", "tail"):
                    name = cluster.kill(role)
                    await cluster.until(lambda: not cluster.is_whole())
                    await ada.send("claim", {"cell": "a1", "number": 2})
                    await cluster.whole()
                    assert f"{name} ended by SIGKILL, and is started again" in news
                assert ada.state["players"]["ada"]["moves"] == 1
            assert [view.generation for view in cluster.views()] == [1]
            assert sum(process.restarts for process in cluster_file.read(tmp_path).processes) == 2
        finally:
            await cluster.stop()

    run(main())


def test_what_an_app_prints_is_in_the_log_and_holds_nobody_up(tmp_path: Path) -> None:
    app = tmp_path / "chatty.py"
    app.write_text(CHATTY)

    async def main() -> None:
        cluster = Cluster(plan(tmp_path, f"{app}:app"), lambda _: None)
        try:
            await cluster.start()
            urls = [link.address for link in cluster.links]
            async with Device.connect(urls, "hall", "ada", wait_ms=10_000) as ada:
                for _ in range(100):
                    assert await ada.send("add", None)
                assert ada.state == {"count": 100}
            assert [view.generation for view in cluster.views()] == [1]
            assert [process.restarts for process in cluster_file.read(tmp_path).processes] == [0, 0, 0]
        finally:
            await cluster.stop()

    run(main())
    words = [path.read_text() for path in sorted((tmp_path / "logs").glob("link*.log"))]
    assert all("this app is read" in each for each in words)
    assert sum(each.count("added") for each in words) == 100


def test_logs_of_a_cluster_are_kept_short(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "link9.log"
    log.parent.mkdir()
    log.write_bytes(bytes(LOG_BYTES_MAX + 1))

    async def main() -> None:
        cluster = Cluster(plan(tmp_path, replicas=1), lambda _: None, in_processes=False)
        try:
            await cluster.start()
        finally:
            await cluster.stop()

    run(main())
    assert log.stat().st_size == 0
    assert log.with_name("link9.log.1").stat().st_size == LOG_BYTES_MAX


def test_what_keeps_ending_is_started_again_ever_more_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real_sleep(0)
        if len(pauses) > 7:
            raise asyncio.CancelledError

    async def main() -> None:
        kept = Kept("link1", "link", lambda _: ["--no-such-option"], tmp_path / "log", lambda _: None)
        kept.child = await Child.start("x", [], tmp_path / "log", module="tests.runtime.ready_once")
        monkeypatch.setattr("octoloom.runtime.services.asyncio.sleep", sleep)
        with contextlib.suppress(asyncio.CancelledError):
            await kept._keep()

    run(main())
    assert pauses[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert pauses[6] == 5.0


def test_a_total_loss_begins_a_new_generation_whatever_the_number_of_links(tmp_path: Path) -> None:
    async def main() -> None:
        first = Cluster(plan(tmp_path, replicas=3), lambda _: None)
        await first.start()
        await first.stop()
        second = Cluster(plan(tmp_path, replicas=1), lambda _: None, in_processes=False)
        try:
            await second.start()
            (view,) = second.views()
            assert view.generation == 2
            assert len(second.links) == 1
            await second.until(second.is_whole)
        finally:
            await second.stop()

    run(main())


def test_an_update_ends_on_the_ports_that_users_know(tmp_path: Path) -> None:
    async def main() -> None:
        port = free_ports(4)
        cluster = Cluster(plan(tmp_path, device_port=port), lambda _: None)
        try:
            await cluster.start()
            before = [link.id for link in cluster.links]
            async with Device.connect(cluster.links[0].address, "hall", "ada", wait_ms=10_000) as ada:
                assert await ada.send("claim", {"cell": "a1", "number": 1})
                assert await cluster.update()
                await ada.send("claim", {"cell": "a1", "number": 2})
                assert ada.state["players"]["ada"]["moves"] == 1
            assert not [link.id for link in cluster.links if link.id in before]
            assert sorted(link.address for link in cluster.links) == [f"ws://127.0.0.1:{port + at}" for at in (0, 1)]
            assert cluster_file.read(tmp_path).update == "done"
        finally:
            await cluster.stop()

    run(main())


def test_the_status_tells_of_a_cluster_whose_register_is_silent(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(plan(tmp_path), lambda _: None)
        try:
            await cluster.start()
            register = cluster.register
            assert isinstance(register, Kept)
            assert register.child is not None
            register.child.signal(signal.SIGSTOP)
            found = await status.of_cluster(cluster_file.read(tmp_path))
            assert [process.state for process in found.processes] == ["silent", "up", "up"]
            assert sorted(process.role for process in found.processes) == ["head", "register", "tail"]
            assert found.chains == []
            register.child.signal(signal.SIGCONT)
        finally:
            await cluster.stop()

    run(main())


# Brokers and the journal.


async def write(register: str, topic: str, *values: bytes) -> None:
    async with LogClient(register) as client:
        await client.create_topic(topic, 1)
        await client.produce(topic, 0, build_batch([Record(0, 1, None, value) for value in values]))


async def values_of(register: str, topic: str) -> list[bytes | None]:
    """All that can be read of a topic, which has to be there."""
    async with LogClient(register) as client:
        place = topic, 0
        until = {place: (await client.bounds([place]))[place][1]}
        async with Consumer(client, {place: "beginning"}, until=until) as consumer:
            return [record.value async for _, _, records in consumer for record in records]


ALL_UP = [("broker1", "up"), ("broker2", "up"), ("broker3", "up")]


def register_of(cluster: Cluster) -> str:
    assert cluster.register is not None
    return cluster.register.address


def test_a_killed_broker_comes_back_where_it_was_and_its_topics_are_never_gone(tmp_path: Path) -> None:
    async def main() -> None:
        news: list[str] = []
        cluster = Cluster(plan(tmp_path, replicas=1, brokers=3), news.append)
        try:
            await cluster.start()
            assert [broker.name for broker in cluster.brokers] == ["broker1", "broker2", "broker3"]
            await write(register_of(cluster), "moves", b"a", b"b")
            addresses = [broker.address for broker in cluster.brokers]
            assert cluster.log is not None
            await cluster.until(lambda: cluster.log is not None and cluster.log.leader(("moves", 0)) is not None)
            name = cluster.kill_leader(("moves", 0))
            await cluster.until(lambda: not cluster.log_is_whole())
            assert await values_of(register_of(cluster), "moves") == [b"a", b"b"]
            await cluster.log_whole()
            assert f"{name} ended by SIGKILL, and is started again" in news
            assert [broker.address for broker in cluster.brokers] == addresses
            brokers: list[status.Process] = []
            # One that has just begun may be too busy to answer.
            while [(process.name, process.state) for process in brokers] != ALL_UP:
                told = await status.of_cluster(cluster_file.read(tmp_path))
                brokers = [process for process in told.processes if process.role == "broker"]
            assert [process.restarts for process in brokers if process.name == name] == [1]
            assert told.topics is not None
            assert sum(process.leaders for process in brokers) == told.topics.partitions
            assert (told.topics.leaderless, told.topics.shrunk) == (0, 0)
            by_register = await status.of_register(register_of(cluster))
            assert [process.id for process in by_register.processes] == [process.id for process in told.processes]
            assert by_register.topics == told.topics
        finally:
            await cluster.stop()

    run(main())


def test_what_one_process_kept_comes_back_with_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        for lives in range(1, 4):
            cluster = Cluster(plan(tmp_path, replicas=1, brokers=1), lambda _: None, in_processes=False)
            try:
                await cluster.start()
                assert {process.pid for process in cluster_file.read(tmp_path).processes} == {os.getpid()}
                if lives == 1:
                    await write(register_of(cluster), "moves", b"a", b"b")
                async with Device.connect(cluster.links[0].address, "hall", "ada", wait_ms=10_000) as ada:
                    assert (await ada.send("claim", {"cell": f"a{lives}", "number": lives})).status == "applied"
                    assert ada.state["players"]["ada"]["moves"] == len(ada.state["cells"]) == lives
                assert [view.generation for view in cluster.views()] == [lives]
                assert await values_of(register_of(cluster), "moves") == [b"a", b"b"]
            finally:
                await cluster.stop()

    run(main())


def test_brokers_that_hold_replicas_are_started_even_if_fewer_are_wanted(tmp_path: Path) -> None:
    async def main() -> None:
        first = Cluster(plan(tmp_path, replicas=1, brokers=3), lambda _: None, in_processes=False)
        await first.start()
        await write(register_of(first), "moves", b"a")
        await first.stop()
        news: list[str] = []
        second = Cluster(plan(tmp_path, replicas=1, brokers=1), news.append, in_processes=False)
        try:
            await second.start()
            assert [broker.name for broker in second.brokers] == ["broker1", "broker2", "broker3"]
            assert news == ["3 brokers are started, since each of them holds a part of the topics in here"]
            assert await values_of(register_of(second), "moves") == [b"a"]
        finally:
            await second.stop()

    run(main())


def test_a_journal_is_not_read_with_more_chains_than_it_was_made_for(tmp_path: Path) -> None:
    async def main() -> None:
        first = Cluster(plan(tmp_path, replicas=1, brokers=1), lambda _: None, in_processes=False)
        await first.start()
        async with Device.connect(first.links[0].address, "hall", "ada", wait_ms=10_000) as ada:
            assert await ada.send("claim", {"cell": "a1", "number": 1})
        await first.stop()
        more = Cluster(plan(tmp_path, replicas=1, brokers=1, chains=2), lambda _: None, in_processes=False)
        with pytest.raises(UsageError, match="--chains 1"):
            await more.start()

    run(main())


def test_nobody_is_killed_where_nobody_leads(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(plan(tmp_path), lambda _: None)
        with pytest.raises(UsageError, match="nobody who could be killed leads moves-0"):
            cluster.kill_leader(("moves", 0))
        await cluster.stop()

    run(main())


def test_names_are_those_that_the_register_counts_on(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(plan(tmp_path, replicas=3), lambda _: None)
        assert cluster._names(Directory(0, {}, {})) == ["link1", "link2", "link3"]
        assert _free_name("link", ["link1", "link3"]) == "link2"
        assert cluster._broker_names(LogDirectory(0, {}, {}, [])) == []
        cluster.plan = plan(tmp_path, brokers=3)
        held = PartitionState("broker10#1", 1, ["broker10#1"], ["broker10", "broker2"])
        assert cluster._broker_names(LogDirectory(1, {}, {}, [("a", 0, held)])) == ["broker1", "broker2", "broker10"]
        await cluster.stop()

    run(main())

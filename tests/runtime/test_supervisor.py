"""Clusters of real processes: they come back after a crash, after a total loss, and with new code."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from octoloom.core.register_messages import Directory
from octoloom.runtime import cluster_file, status
from octoloom.runtime.device import Device
from octoloom.runtime.plan import Plan
from octoloom.runtime.processes import Child
from octoloom.runtime.services import Kept
from octoloom.runtime.supervisor import Cluster, _free_name

PATIENCE_S = 60.0
APP = "octoloom.arena:app"


def plan(data: Path, **settings: Any) -> Plan:
    """Without brokers, where a test does not ask for them."""
    ports = {"register_port": 0, "device_port": 0, "broker_port": 0}
    return Plan(data, APP, **{"replicas": 2, "brokers": 0, **ports, **settings})


def run(main: Coroutine[Any, Any, None]) -> None:
    uvloop.run(asyncio.wait_for(main, PATIENCE_S))


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


def test_names_are_those_that_the_register_counts_on(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(plan(tmp_path, replicas=3), lambda _: None)
        assert cluster._names(Directory(0, {}, {})) == ["link1", "link2", "link3"]
        assert _free_name("link", ["link1", "link3"]) == "link2"
        await cluster.stop()

    run(main())

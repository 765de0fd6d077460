"""The commands on real processes: a cluster is started, looked at, hurt, updated and stopped."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from octoloom import Device
from tests.waiting import PATIENCE_S, until

GAME = """
from octoloom import App

app = App("counter", state={"n": 0})

@app.on("add")
def add(state, event):
    state["n"] += STEP
"""


def octoloom(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "octoloom", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class Up:
    """An `octoloom up` that runs beside the test."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, "-m", "octoloom", "up", "--ephemeral-ports", "--data", str(data), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.said: list[str] = []
        self.until_said("ready ")

    def until_said(self, start: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if start in line:
                return
        pytest.fail(f"up ended: {''.join(self.said)}")

    def status(self) -> Any:
        result = octoloom("status", "--json", "--data", str(self.data))
        assert result.stdout, result.stderr
        return json.loads(result.stdout)

    def until(self, condition: Callable[[Any], bool]) -> Any:
        seen: list[Any] = []

        def is_so() -> bool:
            seen[:] = [self.status()]
            return condition(seen[0])

        until(is_so, "a status as wanted")
        return seen[0]

    def roles(self) -> dict[str, str]:
        """Role → id, once all are there."""
        return {process["role"]: process["id"] for process in self.until(is_whole)["processes"]}

    def urls(self) -> list[str]:
        return [process["address"] for process in self.status()["processes"] if "ws://" in process["address"]]

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        assert self.process.stdout is not None
        self.said.extend(self.process.stdout)
        return self.process.wait(PATIENCE_S)


def is_whole(status: Any) -> bool:
    chains, links = status["chains"], [p for p in status["processes"] if "ws://" in p["address"]]
    return all(chain["whole"] == chain["links"] == links[0]["view"] for chain in chains) and all(
        process["state"] == "up" and len(chains[0]["links"]) == chains[0]["replicas"] for process in links
    )


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Up]:
    game = tmp_path / "game.py"
    game.write_text(GAME.replace("STEP", "1"))
    up = Up(tmp_path / "data", f"{game}:app", "--replicas", "3", "--brokers", "0")
    yield up
    up.stop()


async def add(urls: list[str], device: str, times: int) -> int:
    async with Device.connect(urls, "hall", device, wait_ms=10_000) as me:
        for _ in range(times):
            assert await asyncio.wait_for(me.send("add"), PATIENCE_S)
        return int(me.state["n"])


def test_a_cluster_survives_its_head_and_says_so(three: Up) -> None:
    before = three.roles()
    assert sorted(before) == ["head", "middle", "register", "tail"]
    assert asyncio.run(add(three.urls(), "ada", 3)) == 3

    result = octoloom("chain", "kill", "head", "--data", str(three.data))
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("sent KILL to the head, link")
    three.until(lambda status: before["head"] not in [process["id"] for process in status["processes"]])
    after = three.roles()
    assert after["head"] == before["middle"]
    assert after["tail"].split("#")[0] == before["head"].split("#")[0]
    status = three.status()
    assert [chain["generation"] for chain in status["chains"]] == [1]
    assert [process["restarts"] for process in status["processes"]].count(1) == 1
    assert asyncio.run(add(three.urls(), "ada", 2)) == 5

    shown = octoloom("status", "--data", str(three.data))
    assert shown.returncode == 0
    assert all(role in shown.stdout for role in ("register", "head", "middle", "tail", "→"))
    assert "\x1b" not in shown.stdout
    by_register = octoloom("status", "--json", "--register", status["register"])
    assert [p["id"] for p in json.loads(by_register.stdout)["processes"]] == [p["id"] for p in status["processes"]]


def test_a_dead_register_is_shown_and_comes_back_where_it_was(three: Up) -> None:
    address = three.status()["register"]
    assert asyncio.run(add(three.urls(), "ada", 1)) == 1
    assert octoloom("chain", "kill", "register", "--data", str(three.data)).returncode == 0
    three.until_said("register is up")
    status = three.until(is_whole)
    assert status["register"] == address
    assert status["chains"][0]["generation"] == 1
    assert asyncio.run(add(three.urls(), "ada", 1)) == 2


def test_an_update_brings_new_code_and_keeps_the_state(three: Up, tmp_path: Path) -> None:
    assert asyncio.run(add(three.urls(), "ada", 2)) == 2
    pids = [process["pid"] for process in three.status()["processes"]]

    (tmp_path / "game.py").write_text("def broken(")
    result = octoloom("chain", "update", "--data", str(three.data))
    assert result.returncode == 1
    assert "SyntaxError" in result.stdout
    assert asyncio.run(add(three.urls(), "ada", 1)) == 3

    (tmp_path / "game.py").write_text(GAME.replace("STEP", "100"))
    result = octoloom("chain", "update", "--data", str(three.data))
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.endswith("update: done\n")
    status = three.until(is_whole)
    assert asyncio.run(add(three.urls(), "ada", 1)) == 103
    now = [process["pid"] for process in status["processes"]]
    assert now[0] == pids[0]
    assert not set(now[1:]) & set(pids)
    assert status["chains"][0]["generation"] == 1


def test_a_second_cluster_in_the_same_directory_is_refused(three: Up) -> None:
    result = octoloom("up", "--ephemeral-ports", "--data", str(three.data))
    assert result.returncode == 2
    assert "a cluster runs in" in result.stderr
    wrong = octoloom("chain", "kill", "nobody", "--data", str(three.data))
    assert wrong.returncode == 2
    assert "name head, middle, tail or one of register, link" in wrong.stderr


def test_stopping_ends_all_that_was_started_and_the_directory_can_be_used_again(three: Up) -> None:
    processes = [psutil.Process(process["pid"]) for process in three.status()["processes"]]
    assert three.stop() == 0
    assert "Traceback" not in "".join(three.said)
    gone, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    assert len(gone) == 4
    assert not alive
    assert octoloom("status", "--data", str(three.data)).returncode == 2

    # Fewer links than before: those of the last time are lost for certain, and the register has to believe it.
    again = Up(three.data, "--replicas", "2", "--brokers", "0")
    try:
        status = again.until(is_whole)
        assert [len(chain["links"]) for chain in status["chains"]] == [2]
        assert [chain["generation"] for chain in status["chains"]] == [2]
    finally:
        assert again.stop() == 0


def test_children_end_with_an_up_that_is_killed(three: Up) -> None:
    processes = [psutil.Process(process["pid"]) for process in three.status()["processes"]]
    os.kill(three.process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    assert not alive


def test_brokers_keep_a_journal_that_the_next_cluster_goes_on_from(tmp_path: Path) -> None:
    game = tmp_path / "game.py"
    game.write_text(GAME.replace("STEP", "1"))
    arguments = (f"{game}:app", "--replicas", "3", "--durability", "journal", "--sync", "os")
    up = Up(tmp_path / "data", *arguments)
    try:
        up.until_said("Ctrl-C stops everything")
        status = up.until(is_whole)
        roles = [process["role"] for process in status["processes"]]
        assert roles == ["register", "broker", "broker", "broker", "head", "middle", "tail"]
        brokers = [process["address"] for process in status["processes"] if process["role"] == "broker"]
        said = "".join(up.said)
        assert f"Kafka clients connect to {','.join(brokers)} or to the register at {status['register']}" in said
        assert asyncio.run(add(up.urls(), "ada", 3)) == 3

        line = next(line for line in said.splitlines() if "octoloom topic consume journal" in line)
        shown = octoloom(*line.partition("octoloom ")[2].split(), "-e")
        records = [json.loads(line) for line in shown.stdout.splitlines()]
        assert max(record["version"] for record in records if record["kind"] == "change") >= 3

        assert octoloom("chain", "kill", "broker2", "--data", str(up.data)).returncode == 0
        up.until_said("broker2 is up")
        assert asyncio.run(add(up.urls(), "ada", 1)) == 4
        up.until(lambda status: status["topics"]["partitions"] == 8 and not status["topics"]["shrunk"])
        plain = octoloom("status", "--data", str(up.data)).stdout
        assert "1 topic, 8 partitions: all led, all replicas in sync" in plain
        assert "of 8" in plain
    finally:
        assert up.stop() == 0
    assert "Traceback" not in "".join(up.said)

    again = Up(up.data, *arguments)
    try:
        assert [chain["generation"] for chain in again.until(is_whole)["chains"]] == [2]
        assert asyncio.run(add(again.urls(), "ada", 1)) == 5
    finally:
        assert again.stop() == 0


def test_one_replica_is_one_process_and_is_updated_too(tmp_path: Path) -> None:
    game = tmp_path / "game.py"
    game.write_text(GAME.replace("STEP", "1"))
    up = Up(tmp_path / "data", f"{game}:app", "--reload")
    try:
        status = up.status()
        assert [process["role"] for process in status["processes"]] == ["register", "broker", "head+tail"]
        assert {process["pid"] for process in status["processes"]} == {up.process.pid}
        assert asyncio.run(add(up.urls(), "ada", 2)) == 2
        refused = octoloom("chain", "kill", "head", "--data", str(up.data))
        assert refused.returncode == 2
        assert "--replicas 2" in refused.stderr
        game.write_text(GAME.replace("STEP", "10"))
        up.until_said("update: done")
        assert asyncio.run(add(up.urls(), "ada", 1)) == 12
        assert "last changes in the journal" in "".join(up.said)
    finally:
        assert up.stop() == 0
    assert "Traceback" not in "".join(up.said)

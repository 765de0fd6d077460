"""`octoloom spark run feed`: a query over the journal of a real cluster speaks in its spaces, of each event once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from octoloom import Device
from octoloom.cli import octoloom
from tests.cli.test_cluster import Up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APP = """
from octoloom import App

app = App("echo", state={"said": 0, "heard": []})

@app.on("say")
def say(state, event):
    state["said"] += 1

@app.on("heard")
def heard(state, event):
    state["heard"].append([event.payload["device"], event.payload["sequencer"]])
"""
QUERY = """
SELECT space, 'heard' AS name, to_json(struct(device, sequencer)) AS payload
FROM events WHERE outcome = 'applied' AND name = 'say'
"""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    (tmp_path / "echo.py").write_text(APP)
    running = Up(tmp_path / "data", f"{tmp_path / 'echo.py'}:app", "--durability", "journal", "--sync", "os")
    yield running
    running.stop()


async def say(urls: list[str], space: str, device: str, times: int) -> list[list[object]]:
    """What was heard in the space so far, once this was said too."""
    async with Device.connect(urls, space, device, wait_ms=20_000) as me:
        for _ in range(times):
            assert await me.send("say")
        return sorted(me.state["heard"])


def run(*words: str) -> Result:
    return CliRunner().invoke(octoloom, ["spark", "run", "feed", *words])


@pytest.mark.slow
@pytest.mark.spark
def test_each_event_is_answered_once_however_often_it_is_run(spark: SparkSession, up: Up, tmp_path: Path) -> None:
    (tmp_path / "echo.sql").write_text(QUERY)
    urls = up.urls()
    words = [str(tmp_path / "echo.sql"), "--name", "echo", "--state", str(tmp_path / "state"), "--once"]
    words += ["--data", str(up.data), "-q"]
    assert asyncio.run(say(urls, "hall", "ada", 3)) == []
    assert asyncio.run(say(urls, "den", "bob", 1)) == []
    for _ in range(2):  # the second time there is nothing left to do
        done = run(*words)
        assert done.exit_code == 0, done.output
        assert asyncio.run(say(urls, "hall", "ada", 0)) == [["ada", 1], ["ada", 2], ["ada", 3]]
    asyncio.run(say(urls, "hall", "cyd", 1))
    assert run(*words).exit_code == 0
    assert asyncio.run(say(urls, "hall", "ada", 0)) == [["ada", 1], ["ada", 2], ["ada", 3], ["cyd", 1]]
    assert asyncio.run(say(urls, "den", "bob", 0)) == [["bob", 1]]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("none.sql", "--name", "echo", "--state", "state"), "'none.sql' does not exist"),
        ((__file__, "--state", "state"), "Missing option '--name'"),
        ((__file__, "--name", "echo", "--state", "state", "--data", "nowhere"), "start one with `octoloom up --data"),
    ],
)
def test_refusals_before_anything_starts(words: tuple[str, ...], text: str) -> None:
    refused = run(*words)
    assert (refused.exit_code, text in refused.stderr) == (2, True), refused.stderr

"""Rows that go into live spaces, each once, whatever is run again or dies."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from octoloom import Device
from octoloom.core.errors import StoreError, UsageError
from octoloom.spark.feed import Feeder, FeedError, feed, refused
from tests.cli.test_cluster import Up
from tests.spark.feed_feeder import SPACES, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APP = """
from octoloom import App, Reject

app = App("scores", state={"seen": {}, "order": []})

@app.on("add")
def add(state, event):
    key = f"{event.payload['batch']}.{event.payload['at']}"
    if event.payload["at"] == 77:
        raise Reject("not this one")
    state["seen"][key] = state["seen"].get(key, 0) + 1
    state["order"].append([event.payload["batch"], event.payload["at"]])
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("feed")
    (folder / "scores.py").write_text(APP)
    up = Up(folder / "cluster", f"{folder / 'scores.py'}:app")
    try:
        [found] = up.urls()
        yield found
    finally:
        up.stop()


async def state_of(url: str, space: str) -> Any:
    async with Device.connect(url, space=space, device="looker-on", wait_ms=20_000) as device:
        await device.online()
        return device.state


def check(url: str, batches: int, prefix: str = "") -> None:
    """Every row is in its space once, in order, but for the one that the app does not want."""
    for place, space in enumerate(SPACES):
        state = asyncio.run(state_of(url, prefix + space))
        expected = [[batch, at] for batch in range(batches) for at in range(place, 120 + batch, 3) if at != 77]
        assert state["order"] == expected
        assert set(state["seen"].values()) == {1}


def test_a_feeder_that_is_killed_again_and_again_sends_every_row_once(url: str, tmp_path: Path) -> None:
    dice = random.Random(4)
    batches, kills = 5, 0
    for _ in range(60):
        command = [sys.executable, "-m", "tests.spark.feed_feeder", url, str(tmp_path / "feed.db"), str(batches)]
        feeder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if kills >= 5:
            assert feeder.wait(60) == 0
            break
        assert feeder.stdout is not None
        # Begin to count when it has begun to send.
        feeder.stdout.readline()
        time.sleep(dice.uniform(0, 0.05))
        kills += feeder.poll() is None
        feeder.kill()
        feeder.wait()
    check(url, batches)
    rejected = list(refused(tmp_path, "scores"))
    assert {each.reason for each in rejected} <= {"rejected: not this one"}


def test_what_can_be_no_event_is_written_down_and_the_rest_is_sent(url: str, tmp_path: Path) -> None:
    feeder = Feeder([url], "other", tmp_path / "feed.db")
    rows = [
        ("odd", "add", '{"batch":0,"at":1}'),
        (None, "add", "{}"),
        ("odd", "", "{}"),
        ("odd", "@join", "{}"),
        ("odd", "add", "{not json"),
        ("odd", "add", '{"batch":0,"at":77}'),
    ]
    feeder.run(0, rows)
    feeder.run(0, None)
    assert asyncio.run(state_of(url, "odd"))["order"] == [[0, 1]]
    reasons = [each.reason for each in feeder.refused()]
    assert len(reasons) == 5
    for reason, text in zip(
        reasons, ["missing", "1 to 64 characters", "the chain's own", "not JSON", "not this one"], strict=True
    ):
        assert text in reason
    with pytest.raises(StoreError, match="in use by another feed"):
        Feeder([url], "other", tmp_path / "feed.db").knows(0)
    feeder.close()
    with pytest.raises(UsageError, match="belongs to the feed 'other'"):
        Feeder([url], "scores", tmp_path / "feed.db").knows(0)


def test_a_name_that_somebody_else_sends_under_is_noticed(url: str, tmp_path: Path) -> None:
    feeder = Feeder([url], "shared", tmp_path / "feed.db")
    feeder.run(0, [("den", "add", '{"batch":0,"at":1}')])
    feeder._ledger.add(1, [], [])
    feeder._ledger.set_first(1, "den", 1)
    feeder._ledger.finish(0)

    async def intrude() -> None:
        async with Device.connect(url, space="den", device="shared", wait_ms=20_000) as device:
            await device.send("add", {"batch": 9, "at": 9})

    feeder.close()
    asyncio.run(intrude())
    feeder = Feeder([url], "shared", tmp_path / "feed.db")
    feeder._ledger.set_first(2, "den", 1)
    with pytest.raises(UsageError, match="somebody else sends as 'shared' in 'den'"):
        feeder.run(2, [("den", "add", '{"batch":2,"at":1}')])
    feeder.close()


def test_a_chain_that_is_out_of_reach_fails_the_batch_which_is_sent_later(url: str, tmp_path: Path) -> None:
    away = Feeder(["ws://127.0.0.1:9"], "late", tmp_path / "feed.db", online_s=0.2)
    with pytest.raises(FeedError, match="no link serves 'attic'"):
        away.run(0, [("attic", "add", '{"batch":0,"at":1}')])
    away.close()
    back = Feeder([url], "late", tmp_path / "feed.db")
    assert back.knows(0)
    back.run(0, None)
    back.close()
    assert asyncio.run(state_of(url, "attic"))["order"] == [[0, 1]]


def test_of_several_errors_the_one_that_nobody_thought_of_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_feeder: Feeder, space: str) -> Device:
        raise ZeroDivisionError if space == "den" else FeedError("no link serves it")

    monkeypatch.setattr(Feeder, "_device", fail)
    feeder = Feeder(["ws://127.0.0.1:9"], "late", tmp_path / "feed.db")
    with pytest.raises(ZeroDivisionError):
        feeder.run(0, [(space, "add", '{"batch":0,"at":1}') for space in ("attic", "den", "hall")])
    feeder.close()


@pytest.mark.spark
def test_a_streaming_query_feeds_live_spaces(spark: SparkSession, url: str, tmp_path: Path) -> None:
    """The rows of each batch lie in a file, and come in one batch each."""
    schema = "space string, name string, payload struct<batch: long, at: long>"
    (tmp_path / "rows").mkdir()
    for batches in (range(2), range(2, 3), range(0)):  # the last time there is nothing left to do
        for batch in batches:
            told = [f'{{"space":"fed-{s}","name":"{n}","payload":{p}}}' for s, n, p in rows_of(batch)]
            file = tmp_path / "rows" / f"{batch}.json"
            file.write_text("\n".join(told))
            os.utime(file, (batch, batch))  # Spark takes the oldest first
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(tmp_path / "rows"))
        writer = feed(rows, url, name="query", state=tmp_path / "state")
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
    check(url, 3, "fed-")
    with pytest.raises(UsageError, match="payload is not there"):
        feed(rows.select("space", "name"), url, name="query", state=tmp_path / "state")

"""The line that shows how far Spark is: what it says of a real job, in a terminal, in a pipe and in silence."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import TaskContext

from octoloom.spark import progress as progress_module
from octoloom.spark.progress import Line, Look, Tracker, progress
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_says_what_is_known_and_no_more() -> None:
    line = Line("replaying")
    assert line.text(Look(), 0.0) == "replaying  0:00"
    look = Look(stages_done=1, stages=3, tasks_done=5, tasks=8, rows=1_200_000)
    assert line.text(look, 62.5) == "replaying  stage 2/3  tasks 5/8  1,200,000 rows  19,200 rows/s  1:02"
    line.say("batch 7")
    line.count(50)
    assert line.text(Look(stages_done=3, stages=3), 10.0) == "replaying  batch 7  stage 3/3  50 rows  5 rows/s  0:10"


def waits(gate: Path, first: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Tasks from the first on wait until somebody has opened the gate."""

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        task = TaskContext.get()
        deadline = time.monotonic() + PATIENCE_S
        while task is not None and task.partitionId() >= first and not gate.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        yield from batches

    return wait


@pytest.mark.spark
def test_a_job_is_counted_to_its_end(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looks: list[Look] = []
    real = Tracker.look

    def seen(self: Tracker) -> Look:
        """Half of the tasks wait until the other half was seen, and so does the second stage."""
        looks.append(real(self))
        # Those that wait may have told of their rows already: an executor tells now and then what its tasks have read.
        if (looks[-1].tasks_done, looks[-1].tasks) == (2, 4) and looks[-1].rows >= ROWS // 2:
            (tmp_path / "half").touch()
        if looks[-1].stages >= 2:
            (tmp_path / "second").touch()
        return looks[-1]

    monkeypatch.setattr(progress_module, "EVERY_S", 0.05)
    monkeypatch.setattr(Tracker, "look", seen)
    screen = Terminal()
    with progress(spark, "counting", file=screen):
        frame = spark.range(0, ROWS, numPartitions=4).mapInArrow(waits(tmp_path / "half", 2), "id long")
        assert frame.repartition(1).mapInArrow(waits(tmp_path / "second", 0), "id long").count() == ROWS
    assert (tmp_path / "half").exists(), "half of the work was seen"
    assert (tmp_path / "second").exists(), "the second stage was seen"
    assert "counting" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K"), "the line is wiped away"
    assert max(look.rows for look in looks) <= ROWS
    assert [look.rows for look in looks] == sorted(look.rows for look in looks)

    # What ran before is not counted again.
    assert Tracker(spark).look() == Look()


@pytest.mark.spark
def test_in_a_pipe_lines_come_now_and_then_and_in_silence_none(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "TELL_S", 0.2)
    pipe, silence = io.StringIO(), io.StringIO()
    with progress(spark, "counting", file=pipe) as line, progress(spark, "never", quiet=True, file=silence):
        line.say("of the test")
        until(lambda: pipe.getvalue().count("\n") >= 2, "two lines", pause_s=0.05)
    lines = pipe.getvalue().splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("counting  of the test  0:") for line in lines)
    assert "\x1b" not in pipe.getvalue()
    assert silence.getvalue() == ""


@pytest.mark.spark
def test_an_error_of_the_work_is_the_works_own(spark: SparkSession) -> None:
    def failing() -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"), progress(spark, "failing", file=Terminal()):
        failing()

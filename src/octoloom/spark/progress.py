"""A line on standard error while Spark works: how far it is, in stages, tasks and rows, and how fast.

    with progress(spark, "replaying") as line:
        …

Spark is asked from a thread beside the work, a few times a second. What it tells is a lower bound: rows are counted
where they are read, when a task ends and with every heartbeat of an executor; stages become known as the plan unfolds.
In a terminal the line is wiped away at the end. In a pipe a line is printed now and then, so that a log shows life.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S = 0.25
TELL_S = 10.0
"""In a pipe the progress is a line this often."""
STAGES_MAX = 1000
"""So many stages are looked at one by one; the oldest are only counted. A stream never ends."""


@dataclass(frozen=True, slots=True)
class Look:
    """How far the work is. Tasks are those of the stages that run now."""

    stages_done: int = 0
    stages: int = 0
    tasks_done: int = 0
    tasks: int = 0
    rows: int = 0


class Tracker:
    """Asks Spark's own books, and adds up what has run since it was made."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._tracker = context.statusTracker()
        self._store = context._jsc.sc().statusStore()
        self._stages: dict[int, tuple[bool, int]] = {}
        """Stage → (whether it is over, rows that it has read)"""
        self._past = (0, 0)
        self._before = set(self._tracker.getActiveJobsIds())

    def look(self) -> Look:
        tasks_done = tasks = 0
        for job in self._tracker.getActiveJobsIds():
            if job not in self._before and (found := self._tracker.getJobInfo(job)) is not None:
                for stage in found.stageIds:
                    self._stages.setdefault(stage, (False, 0))
        for stage, (is_over, _) in self._stages.items():
            if is_over:
                continue
            data = self._of_stage(stage)
            if data is None:
                continue
            status = data.status().toString()
            self._stages[stage] = (status not in ("ACTIVE", "PENDING"), data.inputRecords())
            if status == "ACTIVE":
                tasks_done, tasks = tasks_done + data.numCompleteTasks(), tasks + data.numTasks()
        self._forget()
        count, rows = self._past
        over = count + sum(is_over for is_over, _ in self._stages.values())
        rows += sum(rows for _, rows in self._stages.values())
        return Look(over, count + len(self._stages), tasks_done, tasks, rows)

    def _of_stage(self, stage: int) -> Any:
        """None of a stage that has not begun."""
        try:
            return self._store.lastStageAttempt(stage)
        except Exception:
            return None

    def _forget(self) -> None:
        while len(self._stages) > STAGES_MAX:
            count, rows = self._past
            self._past = (count + 1, rows + self._stages.pop(next(iter(self._stages)))[1])


class Line:
    """What is shown. `say` puts a word of the work's own into it, `count` rows that Spark does not know of."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._said = ""
        self._rows: int | None = None

    def say(self, text: str) -> None:
        self._said = text

    def count(self, rows: int) -> None:
        self._rows = rows

    def text(self, look: Look, elapsed_s: float) -> str:
        parts = [self.label]
        if self._said:
            parts.append(self._said)
        if look.stages:
            parts.append(f"stage {min(look.stages_done + 1, look.stages)}/{look.stages}")
        if look.tasks:
            parts.append(f"tasks {look.tasks_done}/{look.tasks}")
        rows = look.rows if self._rows is None else self._rows
        if rows:
            parts.append(f"{rows:,} rows")
            parts.append(f"{rows / max(elapsed_s, 0.001):,.0f} rows/s")
        minutes, seconds = divmod(int(elapsed_s), 60)
        return "  ".join([*parts, f"{minutes}:{seconds:02}"])


@contextlib.contextmanager
def progress(spark: SparkSession, label: str, *, quiet: bool = False, file: TextIO | None = None) -> Iterator[Line]:
    line = Line(label)
    if quiet:
        yield line
        return
    screen = Console(file=file or sys.stderr, highlight=False)
    tracker, begun = Tracker(spark), time.monotonic()
    ended = threading.Event()

    def text() -> str:
        return line.text(tracker.look(), time.monotonic() - begun)

    show = _draw if screen.is_terminal else _tell
    beside = threading.Thread(target=_in_peace, args=(show, screen, text, ended), name="progress", daemon=True)
    beside.start()
    try:
        yield line
    finally:
        ended.set()
        beside.join()


def _in_peace(
    show: Callable[[Console, Callable[[], str], threading.Event], None],
    screen: Console,
    text: Callable[[], str],
    ended: threading.Event,
) -> None:
    """A session that ends below it ends the line, and nothing else: the work has its own errors to tell."""
    with contextlib.suppress(Exception):
        show(screen, text, ended)


def _draw(screen: Console, text: Callable[[], str], ended: threading.Event) -> None:
    spinner = Spinner("dots", text())
    # What is printed meanwhile goes where it was meant to go, which may be a file.
    live = Live(
        spinner, console=screen, refresh_per_second=4, transient=True, redirect_stdout=False, redirect_stderr=False
    )
    with live:
        while not ended.wait(EVERY_S):
            spinner.update(text=text())


def _tell(screen: Console, text: Callable[[], str], ended: threading.Event) -> None:
    while not ended.wait(TELL_S):
        screen.print(text(), soft_wrap=True)

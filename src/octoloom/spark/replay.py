"""Replay on Spark: all of history computed again with given code, all spaces in parallel.

    journal = read_journal(spark, {"bootstrap": "127.0.0.1:9092"})
    report = replay(journal, "game.py:app")
    report.clean                                # every change came out as it was recorded, and every state
    report.verdicts[0].first[0]                 # the first event that did not

`core/replay.py` says what is compared. Executors load the app by its name, or run the text of its file. A reducer that
does not end is ended after a second, as it would be live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from octoloom.core.app import App
from octoloom.core.replay import Divergence, Replayer, ReplayVerdict
from octoloom.spark.apps import app_loader
from octoloom.spark.journal_entries import Opened
from octoloom.spark.space_verdicts import DeadRecord, Judged, MakeJudge, gather, judged, watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode


class ReplayReport(msgspec.Struct):
    """What a replay has found. Only the spaces that differ are told one by one, and of them the first."""

    app: str
    spaces: int = 0
    same: int = 0
    """Spaces in which every change came out as it was recorded."""
    changes: int = 0
    events: int = 0
    imposed: int = 0
    dropped: int = 0
    unread: int = 0
    dead: int = 0
    ended_elsewhere: int = 0
    """Spaces whose state would be another one today."""
    counts: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    verdicts: list[ReplayVerdict] = []
    letters: list[DeadRecord] = []
    doubled: list[str] = []

    @property
    def clean(self) -> bool:
        return self.same == self.spaces and not self.dead and not self.doubled

    @property
    def first(self) -> Divergence | None:
        """Of the first space that differs, by name."""
        return next((divergence for verdict in self.verdicts for divergence in verdict.first), None)


class _SpaceJudge:
    def __init__(self, space: str, app: App, with_state: bool) -> None:
        self._replayer = Replayer(space, app)
        self._with_state = with_state

    def read(self, record: Opened) -> None:
        if record.entry is not None:
            self._replayer.read(record.generation, record.entry, record.partition, record.offset)

    def finish(self) -> Judged:
        verdict = self._replayer.verdict()
        sums = {name: getattr(verdict, name) for name in ("changes", "events", "imposed", "dropped", "unread")}
        sums["elsewhere"] = int(bool(verdict.end))
        sums |= {f"difference:{what}": count for what, count in verdict.counts.items()}
        sums |= {f"outcome:{words}": count for words, count in verdict.outcomes.items()}
        state = _sorted(self._replayer.own_state) if self._with_state else None
        return Judged(verdict.clean, _encode(verdict), sums, state)


@contextmanager
def _begin(load: Callable[[], App], with_states: bool) -> Iterator[MakeJudge]:
    app = load()
    with watched(app):
        yield lambda space: _SpaceJudge(space, app, with_states)


def replayed(frame: DataFrame, app: str | App) -> DataFrame:
    """A row for each space (`kind` is `space`): whether it is `clean`, the `report`, and the `state` of the given code.

    States are JSON with their keys sorted: two are equal if their texts are.
    """
    return judged(frame, partial(_begin, app_loader(app), True), everything=True)


def replay(frame: DataFrame, app: str | App) -> ReplayReport:
    """Computes the journal in `frame` again with `app`: `module:app`, `file.py:app` or the app itself."""
    rows = judged(frame, partial(_begin, app_loader(app), False)).persist()
    try:
        found = gather(rows)
    finally:
        rows.unpersist()
    count = Counter(found.sums)
    return ReplayReport(
        app if isinstance(app, str) else app.name,
        spaces=count["spaces"],
        same=count["clean"],
        changes=count["changes"],
        events=count["events"],
        imposed=count["imposed"],
        dropped=count["dropped"],
        unread=count["unread"],
        dead=count["dead"],
        ended_elsewhere=count["elsewhere"],
        counts=found.sum_of("difference"),
        outcomes=found.sum_of("outcome"),
        verdicts=[msgspec.json.decode(report, type=ReplayVerdict) for report in found.reports],
        letters=found.dead,
        doubled=found.doubled,
    )

"""The activity's tables are those of a plain loop over the same journal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from octoloom.cli import octoloom
from octoloom.core.errors import UsageError
from octoloom.spark.activity import PIECES_MAX, span_of
from octoloom.spark.journal_tables import write_tables
from tests.spark.activity_twin import report, sessions_of
from tests.spark.journals import to_frame, to_rows, troubled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other)
    return bool(one == other)


def test_as_a_plain_loop_finds_it(spark: SparkSession, tmp_path: Path) -> None:
    records, plays = troubled()
    write_tables(to_frame(spark, to_rows(records)), tmp_path / "tables")
    words = ["spark", "run", "activity", "-q", "--piece", "2"]
    words += ["--tables", str(tmp_path / "tables"), "--out", str(tmp_path / "report")]
    shown = CliRunner().invoke(octoloom, words)
    assert shown.exit_code == 0, shown.output
    expected = report(plays, 2)
    for name, rows in expected.items():
        ours = pq.read_table(tmp_path / "report" / f"{name}.parquet").to_pylist()
        assert [list(row) for row in ours] == [list(row) for row in rows], name
        wrong = [(a, b) for a, b in zip(ours, rows, strict=True) if not all(same(a[key], b[key]) for key in b)]
        assert wrong == [], name
    sessions = pq.read_table(tmp_path / "report" / "sessions.parquet").to_pylist()
    assert sorted((row["begin_ms"], row["end_ms"] or 0) for row in sessions) == sorted(
        (begin, end or 0) for begin, end in sessions_of(plays)
    )
    totals, busiest = expected["totals"][0], expected["busiest"][0]
    assert f"{totals['events']} events, {totals['changes']} changes, 3 spaces, 12 devices" in shown.stdout
    assert all(word in shown.stdout for word in (busiest["device"], "well defended", "activity.png"))
    assert (tmp_path / "report" / "activity.png").exists()


def test_there_has_to_be_something(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1_767_225_600_000,), (1_767_225_600_000 + 1000 * PIECES_MAX,)], "at_ms long")
    with pytest.raises(UsageError, match="choose wider ones"):
        span_of({"changes": frame}, 1)
    assert span_of({"changes": frame}).width_s == 60
    with pytest.raises(UsageError, match="choose at least one second"):
        span_of({"changes": frame}, 0)
    with pytest.raises(UsageError, match="no changes yet"):
        span_of({"changes": frame.limit(0)})

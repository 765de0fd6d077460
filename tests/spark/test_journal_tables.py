"""The tables hold what a plain loop over the same records finds, in a batch and in a stream that dies on its way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from octoloom.core.errors import UsageError
from octoloom.spark.failures import SparkFailed
from octoloom.spark.journal_rows import FAIL
from octoloom.spark.journal_stream import follow_tables
from octoloom.spark.journal_tables import read_journal, read_tables, table, write_tables
from tests.spark.conftest import MakeTopic
from tests.spark.journals import Play, Row, mark_row, produce, to_frame, to_rows, troubled
from tests.spark.test_journal_files import check, expected_events, rows_of
from tests.spark.test_journal_rows import bad_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def check_summaries(directory: Path, plays: list[Play]) -> None:
    spaces = rows_of(directory, "spaces")
    assert [(row["space"], row["generation"], row["version"], row["events"]) for row in spaces] == [
        (play.space.name, play.generation, play.space.version, sum(len(one.entry.events) for one in play.records))
        for play in plays
    ]
    events = expected_events(plays)
    for row in rows_of(directory, "devices"):
        mine = [one for one in events if (one[0], one[5]) == (row["space"], row["device"])]
        assert row["events"] == len(mine)
        assert row["rejected"] == len([one for one in mine if one[11] == "rejected"])
        play = next(one for one in plays if one.space.name == row["space"])
        assert row["present"] is (row["device"] in play.space.present)


def with_bad_rows(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Bad rows and a mark, at the end of each one's partition; the bad ones once more."""
    ends = dict.fromkeys(range(8), 0) | {row.partition: row.offset + 1 for row in rows}
    last = next(row for row in reversed(rows) if row.key == b"space3")
    version = json.loads(last.value or b"")["version"]
    text = (last.value or b"").replace(b'"version":%d' % version, b'"version":%d' % (version + 1))
    headers = tuple({**dict(last.headers), "version": b"%d" % (version + 1)}.items())
    following = last._replace(value=text, headers=headers)
    added = []
    for row in [*bad_rows(following).values(), mark_row(partition=2)]:
        added.append(row._replace(offset=ends[row.partition]))
        ends[row.partition] += 1
    return [*rows, *added], added[:-1]


def test_a_journal_in_tables(spark: SparkSession, tmp_path: Path) -> None:
    records, plays = troubled()
    rows, bad = with_bad_rows(to_rows(records))
    commit = write_tables(to_frame(spark, rows), tmp_path / "tables")
    check(tmp_path / "tables", plays)
    check_summaries(tmp_path / "tables", plays)
    counts = commit.counts
    assert (counts.rows, counts.dead, counts.marks, counts.voided) == (len(rows), len(bad), 1, 3)
    assert counts.taken + counts.doubles + counts.late + counts.dead + counts.marks == counts.rows
    dead = ds.dataset(tmp_path / "tables" / "dead_letters", format="parquet").to_table().to_pylist()
    assert sorted((one["topic"], one["partition"], one["offset"], one["value"]) for one in dead) == sorted(
        (row.topic, row.partition, row.offset, row.value) for row in bad
    )
    assert all(one["reason"] for one in dead)
    tables = read_tables(spark, tmp_path / "tables")
    assert tables["voids"].select("space", "last").collect()[0]["space"] == "space1"


def test_a_bad_record_ends_it_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    rows, bad = with_bad_rows(to_rows(troubled()[0]))
    with pytest.raises(SparkFailed, match=rf"journal, partition {bad[0].partition}, offset \d+: malformed"):
        write_tables(to_frame(spark, rows), tmp_path / "tables", on_error=FAIL)
    with pytest.raises(UsageError, match="holds no tables"):
        read_tables(spark, tmp_path / "tables")


def test_one_table_of_a_query(spark: SparkSession) -> None:
    rows = to_rows(troubled()[0])
    found = table(to_frame(spark, rows), "voids").collect()
    assert [(row["space"], row["generation"], row["last"] - row["version"]) for row in found] == [("space1", 2, 3)]
    with pytest.raises(UsageError, match="there is no table 'event'"):
        table(to_frame(spark, rows), "event")


def test_tables_that_follow_a_topic(spark: SparkSession, bootstrap: str, topic: MakeTopic, tmp_path: Path) -> None:
    records, plays = troubled()
    name, tables = topic(4, retention_ms="-1"), tmp_path / "tables"
    rows = to_rows(records, topic=name, partitions=4)
    options = {"bootstrap": bootstrap, "topic": name, "maxOffsetsPerTrigger": "100"}

    def follow() -> None:
        follow_tables(read_journal(spark, options, stream=True), tables, every_s=None).awaitTermination()

    def spark_forgets_its_last_batch() -> int:
        commits = tables / "_octoloom" / "checkpoint" / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for path in commits.glob(f"*{last}*"):
            path.unlink()
        return last

    produce(bootstrap, name, rows[: len(rows) // 2])
    follow()
    # It died when the tables had the batch, and Spark did not know yet.
    assert spark_forgets_its_last_batch() > 0
    produce(bootstrap, name, rows[len(rows) // 2 :])
    follow()
    check(tables, plays)
    with pytest.raises(UsageError, match="no --follow has begun"):
        follow_tables(read_journal(spark, options, stream=True), _without_checkpoint(tables))


def _without_checkpoint(tables: Path) -> Path:
    (tables / "_octoloom" / "checkpoint").rename(tables / "_octoloom" / "elsewhere")
    return tables

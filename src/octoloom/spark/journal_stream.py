"""The journal's tables, kept up to date: a streaming query that appends, each batch of it once.

    query = follow_tables(read_journal(spark, {"bootstrap": "127.0.0.1:9092"}, stream=True), "tables")
    query.awaitTermination()

Spark's checkpoint lies in the directory, beside the tables, and says which records a batch has. Whether a batch is done
is said by its commit (`journal_files.py`), which also names the states from which the next one goes on. A query that is
killed anywhere, and started again, ends up with the same tables.

Spaces and devices are tables about everything that has happened, so they are made anew from the others: after a batch,
but never for longer than a tenth of the time, however long the history grows. `write_summaries` does it at any moment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octoloom.core.errors import StoreError, UsageError
from octoloom.spark.journal_files import Commit, JournalDirectory
from octoloom.spark.journal_rows import DEAD_LETTER, Counts, JournalRows
from octoloom.spark.journal_tables import write_batch, write_summaries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

EVERY_S = 5.0
SUMMARY_SHARE = 10
"""Making the summaries takes at most this part of the time."""
SUMMARY_FIRST_S = 10.0

Heard = Callable[[Commit], None]


def follow_tables(
    stream: DataFrame,
    directory: str | Path,
    *,
    on_error: str = DEAD_LETTER,
    every_s: float | None = EVERY_S,
    heard: Heard | None = None,
) -> StreamingQuery:
    """Begins to append to the tables in `directory`, or goes on. Without `every_s` it ends with what there is now.

    `heard` is told the sums after each batch.
    """
    target = JournalDirectory(Path(directory).absolute())
    JournalRows(on_error)
    checkpoint = target.own / "checkpoint"
    _check(target, checkpoint)
    target.own.mkdir(parents=True, exist_ok=True)
    trigger: dict[str, Any] = {"availableNow": True}
    if every_s is not None:
        trigger = {"processingTime": f"{int(every_s * 1000)} milliseconds"}
    batches = _Batches(target, on_error, heard)
    writer = stream.writeStream.foreachBatch(batches.on_batch).option("checkpointLocation", str(checkpoint))
    return writer.queryName("journal").trigger(**trigger).start()


def _check(target: JournalDirectory, checkpoint: Path) -> None:
    """Tables that are no stream's, or lost their checkpoint, cannot be appended to."""
    if target.last_commit() is not None and not (checkpoint / "metadata").exists():
        raise UsageError(
            f"{target.path} holds tables that no --follow has begun: choose another directory for those that follow"
        )


class _Batches:
    def __init__(self, target: JournalDirectory, on_error: str, heard: Heard | None) -> None:
        self.target, self.on_error, self.heard = target, on_error, heard
        self._rest_until = time.monotonic() + SUMMARY_FIRST_S

    def on_batch(self, frame: DataFrame, batch: int) -> None:
        """A batch that comes again has the same records: what is done is done."""
        query = query_of(self.target.own / "checkpoint")
        done = self.target.find_commit(batch)
        if done is not None:
            if done.query != query:
                raise StoreError(f"{self.target.path} belongs to another query: choose another directory")
            return
        before = self.target.last_commit(batch)
        commit = write_batch(frame, self.target, Commit(batch, query, Counts(), {}), before, self.on_error)
        if time.monotonic() >= self._rest_until:
            begun = time.monotonic()
            write_summaries(frame.sparkSession, self.target)
            ended = time.monotonic()
            self._rest_until = ended + (ended - begun) * (SUMMARY_SHARE - 1)
        if self.heard is not None:
            self.heard(commit)


def query_of(checkpoint: Path) -> str:
    """The name that Spark gave the query; it is the same whenever it starts again."""
    try:
        found: str = json.loads((checkpoint / "metadata").read_text())["id"]
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"the checkpoint {checkpoint} cannot be read: {error}") from error
    return found

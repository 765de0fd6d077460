"""The sink: rows become records, each once, however often Spark runs a batch or a task.

Spark promises that a batch that runs again has the same rows; brokers promise to drop what comes again under the same
numbers. `sink_numbers` makes the numbers, and so there is nothing to commit and nothing to undo: when `write` returns,
all rows of the task are on the disks of all replicas in sync, and another run of it changes nothing.

- A stream is known by the id of its query, which its checkpoint keeps, and its batches by their numbers.
- A batch write is known by an id that is drawn once, where the write is planned, so its tasks may be tried again. With
  the option `writeId` that id is the caller's, and then the whole write may be run again.

The rows of a task pass through in windows: one is read and made into batches, in a thread, while those before it are on
their way. Memory is bounded by the window and by what is on its way, not by the task.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from octoloom.core.errors import UsageError
from octoloom.runtime.log_client import LogClient
from octoloom.spark.sink_batches import Batcher
from octoloom.spark.sink_columns import check_columns, in_order, normal, windows
from octoloom.spark.sink_numbers import Tag, tag_of
from octoloom.spark.sink_options import SinkOptions, sink_options
from octoloom.spark.sink_sending import Sender

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
"""Where Spark tells a task which batch of which query it works for."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has written."""

    spark_partition: int
    rows: int
    batches: int


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        # It travels to every task with this object, so all attempts of a task share it.
        self._writer = f"write {options.write_id or uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        number = _task().partitionId()
        return write_rows(iterator, self._options, tag_of(self._writer, number), number)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = _task()
        query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise UsageError(
                "Spark does not say which batch this is: write a stream with writeStream, in micro-batches"
            )
        writer = f"query {self._options.write_id or query}"
        number = task.partitionId()
        return write_rows(iterator, self._options, tag_of(writer, number, int(batch)), number)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool = False) -> BatchWriter:
    """For `df.write.format("octoloom")`, with the options as they were given."""
    if overwrite:
        raise UsageError('a topic is only ever added to: write with .mode("append")')
    checked = sink_options(options)
    check_columns(schema, checked.topic)
    return BatchWriter(checked)


def stream_writer(options: Mapping[str, str], schema: StructType, _overwrite: bool = False) -> StreamWriter:
    """For `df.writeStream.format("octoloom")`. In complete mode, too, what a batch brings is added."""
    checked = sink_options(options)
    check_columns(schema, checked.topic)
    return StreamWriter(checked)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "a writer writes in a task"
    return task


def write_rows(rows: Iterator[pa.RecordBatch], options: SinkOptions, tag: Tag, spark_partition: int) -> Written:
    """Writes the rows of one task, and returns when all of them are committed."""
    return asyncio.run(_write_rows(rows, options, tag, spark_partition))


async def _write_rows(rows: Iterator[pa.RecordBatch], options: SinkOptions, tag: Tag, spark_partition: int) -> Written:
    batcher = Batcher(tag, spark_partition, options.codec, options.topic)
    checked = (normal(piece, options.topic) for piece in rows)
    pieces = windows(in_order(checked) if options.sorts else checked)
    row_count = batch_count = 0
    async with LogClient(options.bootstrap, "octoloom-spark") as client:
        sender = Sender(client, options.timeout_ms / 1000)
        try:
            while (window := await asyncio.to_thread(next, pieces, None)) is not None:
                await sender.learn(batcher.topics(window))
                now_ms = int(time.time() * 1000)
                batches = await asyncio.to_thread(batcher.batches, window, sender.partitions, now_ms)
                await sender.send(batches)
                row_count += window.rows.num_rows
                batch_count += len(batches)
            await sender.finish()
        finally:
            await sender.stop()
    return Written(spark_partition, row_count, batch_count)

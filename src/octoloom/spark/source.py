"""`format("octoloom")`: the log as a source and sink of Spark, with the options and columns of Spark's Kafka source.

    spark.read.format("octoloom").option("bootstrap", "127.0.0.1:9092").option("topic", "moves").load()

Spark makes these objects in three kinds of processes, and none of them shares anything with another but what is
pickled. Where the query is built, options are checked and the schema is told; no broker is asked. The planner asks for
offsets and hands out ranges; for a stream it lives as long as the query, and keeps one connection. Executors read
ranges, from the leaders or from files, and answer with Arrow batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from octoloom.core.errors import UsageError
from octoloom.runtime.log_errors import LogError
from octoloom.spark.fetching import FIRST_MS, Origin, Reader
from octoloom.spark.offsets import Saved, restored, saved
from octoloom.spark.options import SourceOptions, source_options
from octoloom.spark.planning import StreamPlan, plan_batch, rows_of
from octoloom.spark.ranges import Range

if TYPE_CHECKING:
    import pyarrow as pa

    from octoloom.spark.local_segments import LocalSegments

T = TypeVar("T")


class OctoloomSource(DataSource):
    """What `format("octoloom")` stands for."""

    @classmethod
    def name(cls) -> str:
        return "octoloom"

    def schema(self) -> StructType:
        return schema_of(source_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(self.options)
        check_schema(schema, options)
        return BatchReader(options.for_batch())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = source_options(self.options)
        check_schema(schema, options)
        return StreamReader(options.for_stream())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from octoloom.spark import sink

        return sink.batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from octoloom.spark import sink

        return sink.stream_writer(self.options, schema, overwrite)


def schema_of(options: SourceOptions) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    from octoloom.spark import record_batches

    return from_arrow_schema(record_batches.schema_of(options.columns))


def check_schema(schema: StructType, options: SourceOptions) -> None:
    """A schema of the user's own may only say what is so anyway."""
    expected = schema_of(options)
    if [(each.name, each.dataType) for each in schema] != [(each.name, each.dataType) for each in expected]:
        raise UsageError(
            f"the octoloom source gives {expected.simpleString()}, not {schema.simpleString()}: leave the schema out, "
            "and use the option columns to have fewer of them"
        )


def open_origin(options: SourceOptions, first_ms: int = FIRST_MS) -> Origin:
    """Where the records come from: archive, files and brokers, as far as each was named, in this order."""
    brokers = None
    if options.bootstrap:
        brokers = Reader(options.bootstrap, timeout_ms=options.timeout_ms, first_ms=first_ms)
    log: Reader | LocalSegments | None = brokers
    if options.paths:
        from octoloom.spark.local_segments import LocalSegments

        log = LocalSegments(options.paths, brokers)
    if options.archive:
        from octoloom.spark.archive import Archive

        return Archive(options.archive, log)
    assert log is not None, "the options name an origin"
    return log


def read(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """What an executor does."""
    wanted = partition.value
    # Where there is nothing to read, Spark makes up a partition without a value.
    if not isinstance(wanted, Range):
        return
    # The planner has met the brokers, so they are worth waiting for.
    origin = open_origin(options, first_ms=options.timeout_ms)
    try:
        yield from rows_of(origin, wanted, options)
    finally:
        origin.close()


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        origin = open_origin(self._options)
        try:
            return [InputPartition(each) for each in plan_batch(origin, self._options)]
        finally:
            origin.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Planner and executors have one each; only the planner's has an origin of its own."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._origin: Origin | None = None
        self._plan: StreamPlan | None = None

    def initialOffset(self) -> Saved:  # noqa: N802
        return saved(self._ask(lambda plan: plan.first()))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ask(lambda plan: plan.fix_target())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        records_max = self._options.records_per_trigger_max
        return ReadMaxRows(records_max) if records_max else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Saved:  # noqa: N802
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return saved(self._ask(lambda plan: plan.next(restored(start), records_max)))

    def reportLatestOffset(self) -> Saved | None:  # noqa: N802
        return saved(self._plan.highs) if self._plan is not None and self._plan.highs else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = self._ask(lambda plan: plan.ranges(restored(start), restored(end)))
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(self._options, partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """The checkpoint has it."""

    def stop(self) -> None:
        if self._origin is not None:
            self._origin.close()
        self._origin = None

    def _ask(self, work: Callable[[StreamPlan], T]) -> T:
        """Works on the plan. After an error that may pass it is tried once more, over connections that are new."""
        if self._origin is None or self._plan is None:
            return work(self._open())
        try:
            return work(self._plan)
        except LogError as error:
            if not error.retriable:
                raise
            self.stop()
            return work(self._open())

    def _open(self) -> StreamPlan:
        target = self._plan.target if self._plan is not None else None
        self._origin = open_origin(self._options)
        self._plan = StreamPlan(self._origin, self._options)
        self._plan.target = target
        return self._plan

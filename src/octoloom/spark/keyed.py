"""Spark as a host of our cores: rows come in the order of the log, grouped by a key, and a core says what follows.

A *weaver* is one operator over one partition: it takes rows as Arrow batches and gives rows, and it knows what to save
of each key. The same weaver serves

- a batch query: it sees all rows of its partition, and ends;
- a streaming query: it sees the rows of one batch, and goes on in the next one from what was saved (`state_files`).

Rows of one key must meet in one partition, in order. Records of a topic that are partitioned by that key do, as they
are read (`colocated`): that is the cheap way, without a shuffle. All others are brought together by the key and sorted.

A Python worker keeps its weavers from batch to batch, so that a batch costs what it brings, not what is known. What it
keeps is used only if nobody else has gone on from there meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from octoloom.core.errors import UsageError
from octoloom.spark.state_files import Changes, Mark, StateFiles, Version

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

WARM_MAX = 256
"""Weavers that a Python worker keeps between batches."""
BUCKETS = 8
"""Into so many partitions a streaming query brings rows together."""
PLACE = ("topic", "partition", "offset")


class Weaver(Protocol):
    """One operator over one partition."""

    def take(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows that follow from these."""

    def end(self, last: bool) -> pa.RecordBatch | None:
        """The rows that follow from the end of the input, which is the `last` one in a batch query."""

    def load(self, saved: Changes) -> None:
        """Take these keys as they were saved."""

    def changed(self) -> Changes:
        """What is to be saved, of the keys that have changed since the last call."""


class Hosting(NamedTuple):
    """How rows come to a weaver."""

    make: Callable[[], Weaver]
    key: str
    order: Sequence[str]
    """Columns that order the rows of a key, for those that are brought together."""
    colocated: bool
    state: str | None
    buckets: int = BUCKETS


def host(frame: DataFrame, hosting: Hosting, schema: StructType) -> DataFrame:
    """The rows that the weavers make of a frame."""
    if not frame.isStreaming:
        if not hosting.colocated:
            frame = frame.repartition(hosting.key).sortWithinPartitions(*hosting.order)
        return frame.mapInArrow(_Batch(hosting.make), schema)
    if hosting.state is None:
        raise UsageError("a streaming query has to keep its state: give state=DIRECTORY, next to its checkpoint")
    if hosting.colocated:
        missing = [name for name in PLACE if name not in frame.columns]
        if missing:
            text = f"a stream is followed by {', '.join(PLACE)}, and {', '.join(missing)} is not there"
            raise UsageError(f"{text}: select them, too, or set colocated=False")
    else:
        frame = frame.repartition(hosting.buckets, hosting.key)
    return frame.mapInArrow(_Stream(hosting), schema)


class _Batch:
    def __init__(self, make: Callable[[], Weaver]) -> None:
        self._make = make

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        weaver = self._make()
        for rows in batches:
            if rows.num_rows and (found := weaver.take(rows)) is not None:
                yield found
        if (found := weaver.end(last=True)) is not None:
            yield found


class _Stream:
    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        batch = context and context.getLocalProperty("streaming.sql.batchId")
        assert context is not None
        if batch is None:
            raise UsageError(
                "this frame streams, but not in a query that counts its batches: start it with writeStream"
            )
        batches = (rows for rows in batches if rows.num_rows)
        if not self._hosting.colocated:
            batches = _sorted(batches, self._hosting.order)
        first = next(batches, None)
        if first is None:
            return
        unit = _Unit(self._hosting, first, context.partitionId(), int(str(batch)))
        unit.claim(f"{context.getLocalProperty('spark.jobGroup.id')}-{context.stageId()}")
        yield from unit.run(first, batches)


class _Unit:
    """One partition in one batch of a query."""

    def __init__(self, hosting: Hosting, first: pa.RecordBatch, partition: int, batch: int) -> None:
        assert hosting.state is not None
        self._hosting = hosting
        self._task, self._batch = partition, batch
        self._place = _place_of(first) if hosting.colocated else None
        if self._place is not None:
            name, self._start = f"{self._place[0]}-{self._place[1]}", _offset(first, 0)
        else:
            name, self._start = f"bucket-{partition}-of-{hosting.buckets}", 0
            _check_buckets(Path(hosting.state), hosting.buckets)
        self._folder = Path(hosting.state) / name
        self._files = StateFiles(self._folder)

    def claim(self, run: str) -> None:
        self._files.claim(self._batch, run, self._task)

    def run(self, first: pa.RecordBatch, others: Iterator[Any]) -> Iterator[Any]:
        weaver = self._open()
        end = self._start
        rows: Any = first
        while rows is not None:
            end = self._check(rows, end)
            if (found := weaver.take(rows)) is not None:
                yield found
            rows = next(others, None)
        if (found := weaver.end(last=False)) is not None:
            yield found
        version = self._files.write(self._batch, end, weaver.changed())
        if (mark := self._files.mark(version)) is not None:
            _warm[str(self._folder)] = version, mark, weaver
        if len(_warm) > WARM_MAX:
            _warm.popitem(last=False)

    def _open(self) -> Weaver:
        newest = self._files.newest(self._batch)
        if newest is not None and newest.end > self._start:
            text = f"{self._folder} has seen rows up to offset {newest.end}, and the query goes on from {self._start}"
            raise UsageError(f"{text}: state and checkpoint do not belong together, so delete both")
        # From here on it is nobody's, until it is saved: a batch that fails half-way must not leave its traces in it.
        version, mark, weaver = _warm.pop(str(self._folder), (None, None, None))
        since = version.batch if version is not None and self._files.mark(version) == mark else -1
        if weaver is None or newest is None or not 0 <= since <= newest.batch:
            since, weaver = -1, self._hosting.make()
        saved = self._files.read(newest, since)
        if saved:
            weaver.load(saved)
        return weaver

    def _check(self, rows: pa.RecordBatch, end: int) -> int:
        """The offset after the rows, which are of one partition and in order."""
        if self._place is None:
            return 0
        if _place_of(rows) != self._place or _offset(rows, 0) < end:
            raise UsageError("rows of several partitions come in one task: set colocated=False")
        return _offset(rows, -1) + 1


_warm: OrderedDict[str, tuple[Version | None, Mark | None, Weaver | None]] = OrderedDict()


def _place_of(rows: pa.RecordBatch) -> tuple[str, int]:
    """The one partition that rows are of, judged by the first and the last."""
    first, last = ((rows["topic"][at].as_py(), rows["partition"][at].as_py()) for at in (0, rows.num_rows - 1))
    if first != last:
        raise UsageError(f"rows of {first[0]}-{first[1]} and {last[0]}-{last[1]} come in one task: set colocated=False")
    return first


def _offset(rows: pa.RecordBatch, at: int) -> int:
    found: int = rows["offset"][at % rows.num_rows].as_py()
    return found


def _sorted(batches: Iterator[Any], order: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa

    found = list(batches)
    if found:
        table = pa.Table.from_batches(found).sort_by([(column, "ascending") for column in order])
        yield from table.combine_chunks().to_batches()


def _check_buckets(folder: Path, buckets: int) -> None:
    """A key's bucket depends on how many there are: what was saved for another number would not be found."""
    for other in folder.glob("bucket-0-of-*") if folder.is_dir() else ():
        if other.name != f"bucket-0-of-{buckets}":
            raise UsageError(
                f"{folder} was kept for {other.name.rsplit('-', 1)[1]} buckets: leave their number as it was"
            )

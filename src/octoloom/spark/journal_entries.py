"""Every record of the journal as an entry of the core, in the order of the log: also those that come again.

Who replays or audits wants all of them, and applies the reader's rules itself (`core/replay.py`, `core/journal_audit`).
Marks say nothing and are left out. What cannot be read is told with its place, and with its space if that is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from octoloom.core.errors import ProtocolError
from octoloom.core.event import JournalEntry
from octoloom.spark.journal_rows import COLUMNS, tag_of
from octoloom.wire.journal import decode_value, is_mark, read_space

if TYPE_CHECKING:
    import pyarrow as pa


class Opened(NamedTuple):
    """A record. Without an entry, `error` says why; without a space, not even its key can be read."""

    topic: str
    partition: int
    offset: int
    space: str | None
    generation: int
    entry: JournalEntry | None
    error: str = ""


def entries(batch: pa.RecordBatch) -> Iterator[Opened]:
    """The records of a batch that has the columns of the source."""
    columns = [batch.column(name).to_pylist() for name in COLUMNS[:-1]]
    headers = batch.column("headers")
    starts = headers.offsets.to_pylist()
    names, values = (child.to_pylist() for child in headers.values.flatten())
    for number, (topic, partition, offset, key, value) in enumerate(zip(*columns, strict=True)):
        found = slice(starts[number], starts[number + 1])
        if key is None and is_mark(key, tuple(zip(names[found], values[found], strict=True))):
            continue
        space = None
        try:
            space = read_space(key)
            tag = tag_of(names[found], values[found])
            yield Opened(topic, partition, offset, space, tag.generation, decode_value(space, tag, value).entry)
        except ProtocolError as error:
            yield Opened(topic, partition, offset, space, 0, None, str(error))

"""Rows that were seen before are dropped, by their tags: `core.tags` over the rows of a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from octoloom.core.errors import UsageError
from octoloom.core.tags import SeenSnapshot, Tags
from octoloom.spark.state_files import Changes

if TYPE_CHECKING:
    import pyarrow as pa

ABOVE_MAX = 1_000_000
"""Numbers of one origin that may lie beyond a hole."""

_Saved = dict[str, SeenSnapshot]
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Saved)


class Dedupe:
    """A weaver. Of two rows of one key with the same origin and number, the second is dropped."""

    def __init__(self, key: str, origin: str, number: str) -> None:
        self._columns = key, origin, number
        self._tags: dict[str, Tags[str]] = {}
        self._touched: dict[str, None] = {}

    def take(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        import pyarrow as pa

        keys, origins, numbers = (rows[column].to_pylist() for column in self._columns)
        new: list[bool] = []
        for key, origin, number in zip(keys, origins, numbers, strict=True):
            if key is None or origin is None or number is None or number < 1:
                raise UsageError(f"a row has no tag ({key!r}, {origin!r}, {number!r}): leave such rows out first")
            tags = self._tags.get(key)
            if tags is None:
                tags = self._tags[key] = Tags(ABOVE_MAX)
            new.append(tags.add(origin, number))
        self._touched.update(dict.fromkeys(keys))
        if all(new):
            return rows
        return rows.filter(pa.array(new)) if any(new) else None

    def end(self, last: bool) -> None:
        return None

    def load(self, saved: Changes) -> None:
        for key, text in saved.items():
            self._tags[key] = Tags.restore(_decoder.decode(text), ABOVE_MAX)

    def changed(self) -> Changes:
        touched, self._touched = self._touched, {}
        return {key: _encode(self._tags[key].snapshot()) for key in touched}

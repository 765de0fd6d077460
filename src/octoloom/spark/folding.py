"""The state of spaces, folded from their events by the app that runs live: `core.fold` over the rows of a partition.

Rows are events in columns (`space`, `device`, `sequencer`, `name`, `payload` as JSON text, and `time_ms` and `dice` if
the app looks at them), or records of a topic whose key is the space and whose value is an event as JSON:

    {"device": "ada", "sequencer": 5, "name": "claim", "payload": {"cell": "b4"}, "time_ms": 1767225600118, "dice": 42}

A row that is no event, and one on which the reducer fails, come out as they are told of (`error`, with their place), or
end the query. What the app rejects is its own business, and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from octoloom.core.app import App
from octoloom.core.errors import OctoloomError
from octoloom.core.event import Event
from octoloom.core.fold import Fold, FoldSnapshot
from octoloom.spark.state_files import Changes

if TYPE_CHECKING:
    import pyarrow as pa

EVENT_COLUMNS = ("space", "device", "sequencer", "name", "payload")
FOLD_COLUMNS = (*EVENT_COLUMNS, "time_ms", "dice")
FOLDED = (
    "space string, events long, applied long, rejected long, deferred long, state string, "
    "topic string, partition int, offset long, error string"
)
"""What a fold gives: a row for each space, with no error; and a row for each bad one, with no state."""

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(FoldSnapshot)
_Row = tuple[str | None, Any]
"""(space, event or why it is none)"""


class BadEvent(OctoloomError):  # noqa: N818
    """A row is no event, or the reducer failed on it."""


class _Value(msgspec.Struct, gc=False):
    device: str
    sequencer: int
    name: str
    payload: msgspec.Raw = msgspec.Raw(b"null")
    time_ms: int = 0
    dice: int = 0


class Bad(NamedTuple):
    space: str | None
    place: tuple[str | None, int | None, int | None]
    error: str


class Folding:
    """A weaver."""

    def __init__(self, load: Callable[[], App], fails: bool) -> None:
        self._app = load()
        self._fails = fails
        self._folds: dict[str, Fold] = {}
        self._touched: dict[str, None] = {}
        self._unsaved: dict[str, None] = {}
        self._decode = msgspec.json.Decoder(_Value).decode

    def take(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        bad: list[Bad] = []
        folds, app, here = self._folds, self._app, dict[str, None]()
        events = self._from_values(rows) if "value" in rows.schema.names else self._from_columns(rows)
        for at, (space, event) in enumerate(events):
            if type(event) is not Event:
                bad.append(self._bad(rows, at, space, event))
                continue
            fold = folds.get(space)  # type: ignore[arg-type]
            if fold is None:
                fold = folds[space] = Fold(app)  # type: ignore[index]
            verdict = fold.take(event)
            here[space] = None  # type: ignore[index]
            if verdict.fault:
                bad.append(self._bad(rows, at, space, verdict.reason))
        for name in here:
            folds[name].settle()
        self._touched |= here
        return _bad_rows(bad) if bad else None

    def _from_values(self, rows: pa.RecordBatch) -> Iterator[_Row]:
        decode = self._decode
        for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
            try:
                space = key.decode()
                found = decode(value)
                yield (
                    space,
                    Event(
                        0, found.device, found.sequencer, found.name, bytes(found.payload), found.time_ms, found.dice
                    ),
                )
            except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, TypeError) as error:
                yield None, _why(key, value, error)

    def _from_columns(self, rows: pa.RecordBatch) -> Iterator[_Row]:
        names = rows.schema.names
        spaces, devices, sequencers, kinds, payloads = (rows[name].to_pylist() for name in EVENT_COLUMNS)
        times = rows["time_ms"].to_pylist() if "time_ms" in names else repeat(0)
        dice = rows["dice"].to_pylist() if "dice" in names else repeat(0)
        for space, device, sequencer, name, payload, time_ms, thrown in zip(
            spaces, devices, sequencers, kinds, payloads, times, dice, strict=False
        ):
            if space is None or device is None or sequencer is None or name is None:
                yield space, "space, device, sequencer or name is missing"
                continue
            text = payload.encode() if payload is not None else b"null"
            yield space, Event(0, device, sequencer, name, text, time_ms or 0, int(thrown or 0))

    def _bad(self, rows: pa.RecordBatch, at: int, space: str | None, error: str) -> Bad:
        names = rows.schema.names
        topic, partition, offset = (
            rows[name][at].as_py() if name in names else None for name in ("topic", "partition", "offset")
        )
        if self._fails:
            where = f"{topic}-{partition} at offset {offset}" if topic is not None else f"a row of {space!r}"
            raise BadEvent(f"{where}: {error}. Mend it, or take such rows aside with on_error='dead-letter'")
        return Bad(space, (topic, partition, offset), error)

    def end(self, last: bool) -> pa.RecordBatch | None:
        import pyarrow as pa

        spaces = list(self._touched)
        self._unsaved |= self._touched
        self._touched = {}
        if not spaces:
            return None
        folds = [self._folds[space] for space in spaces]
        encode = msgspec.json.Encoder(order="sorted").encode
        columns = [
            pa.array(spaces, pa.string()),
            pa.array([fold.applied + fold.rejected for fold in folds], pa.int64()),
            pa.array([fold.applied for fold in folds], pa.int64()),
            pa.array([fold.rejected for fold in folds], pa.int64()),
            pa.array([len(fold.deferred) for fold in folds], pa.int64()),
            pa.array([encode(fold.state) for fold in folds], pa.binary()).cast(pa.string()),
            *_nothing(len(spaces), pa.string(), pa.int32(), pa.int64(), pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_schema())

    def load(self, saved: Changes) -> None:
        for space, text in saved.items():
            self._folds[space] = Fold.restore(self._app, _decoder.decode(text))

    def changed(self) -> Changes:
        unsaved, self._unsaved = self._unsaved, {}
        return {space: _encode(self._folds[space].snapshot()) for space in unsaved}


def _why(key: bytes | None, value: bytes | None, error: Exception) -> str:
    if not key:
        return "the record has no key: it says which space the event is for"
    if value is None:
        return "the record has no value"
    if isinstance(error, UnicodeDecodeError):
        return "the key is no text"
    return f"the value is no event: {error}"


def _schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {"string": pa.string(), "long": pa.int64(), "int": pa.int32()}
    return pa.schema([(name, kinds[kind]) for name, kind in (field.split() for field in FOLDED.split(", "))])


def _nothing(count: int, *kinds: Any) -> list[Any]:
    import pyarrow as pa

    return [pa.nulls(count, kind) for kind in kinds]


def _bad_rows(bad: list[Bad]) -> pa.RecordBatch:
    import pyarrow as pa

    long = pa.int64()
    columns = [
        pa.array([each.space for each in bad], pa.string()),
        *_nothing(len(bad), long, long, long, long, pa.string()),
        pa.array([each.place[0] for each in bad], pa.string()),
        pa.array([each.place[1] for each in bad], pa.int32()),
        pa.array([each.place[2] for each in bad], long),
        pa.array([each.error for each in bad], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_schema())

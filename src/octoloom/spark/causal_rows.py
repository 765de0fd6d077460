"""Rows in causal order: `core.causal`, the filter that groups use live, over the rows of a partition.

A row is a message: `sender`, its `number`, and its `stamp`, which counts for every member what the sender had sent and
delivered. Rows may come in any order. Each is given out once all of its causes are, with `turn`, its place in the order
of its group, and `concurrent`, the messages given out before it that are not among its causes, as ranges of numbers.

The order belongs to one view of a group, so the key is both. Its members are those that the first stamp counts; if the
view did not begin with nothing, `begin` says what each member had sent before.

A row that cannot be (it came before, its stamp counts other members) comes out at once with `error`; so do, at the end
of a batch query, the rows whose causes never came. A streaming query waits for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from octoloom.core.causal import Causal
from octoloom.core.errors import OctoloomError, ProtocolError
from octoloom.core.filters import HELD_MAX, Delivery, OrderContext
from octoloom.core.group_messages import Cast
from octoloom.spark.state_files import Changes

if TYPE_CHECKING:
    import pyarrow as pa

READER = "@spark"
"""The member that reads along and never says anything."""
CAUSAL_COLUMNS = ("sender", "number", "stamp")
ADDED = "turn long, concurrent array<struct<member string, first long, last long>>, error string"

_Id = tuple[str, str, int]
"""(key, sender, number)"""


class _Saved(msgspec.Struct, array_like=True):
    members: list[str]
    begin: dict[str, int]
    vector: list[int]
    turn: int
    held: list[Cast]
    rows: bytes
    """The held rows, as Arrow writes them."""


class _Group:
    """One view of one group."""

    def __init__(self, members: list[str], begin: dict[str, int], held_max: int) -> None:
        self.members, self.begin = members, begin
        context = OrderContext(READER, [*members, READER], begin, settings={"held_max": held_max})
        self.order = Causal(context)
        self.turn = 0
        self.given: list[Delivery] = []
        self.order.receive.processor = self.given.append

    def stamp_of(self, row: dict[str, int]) -> list[int]:
        if row.keys() != self.order.places.keys() - {READER}:
            raise ProtocolError("bad-stamp", f"it counts {', '.join(row)}, and the view has {', '.join(self.members)}")
        return [*(row[member] for member in self.members), 0]


class CausalRows:
    """A weaver."""

    def __init__(self, key: str, held_max: int = HELD_MAX) -> None:
        self._key = key
        self._held_max = held_max
        self._groups: dict[str, _Group] = {}
        self._touched: dict[str, None] = {}
        self._pool: Any = None
        """The rows that are held, of all groups."""
        self._at: dict[_Id, int] = {}
        """Where in the pool each is."""

    def take(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        import pyarrow as pa

        held = self._pool.num_rows if self._pool is not None else 0
        if held:
            rows = pa.Table.from_batches([self._pool, rows]).combine_chunks().to_batches()[0]
        out = _Out()
        keys, senders, numbers, stamps = (
            rows[column].slice(held).to_pylist() for column in (self._key, *CAUSAL_COLUMNS)
        )
        begins = rows["begin"].slice(held).to_pylist() if "begin" in rows.schema.names else None
        for at, (key, sender, number, stamp) in enumerate(zip(keys, senders, numbers, stamps, strict=True)):
            begin = dict(begins[at] or ()) if begins is not None else {}
            try:
                self._receive((key, sender, number), stamp, begin, held + at, out)
            except OctoloomError as error:
                out.add(held + at, None, [], str(error))
        self._keep(rows)
        return out.rows(rows)

    def _receive(self, tag: _Id, stamp: Any, begin: dict[str, int], at: int, out: _Out) -> None:
        key, sender, number = tag
        if key is None or sender is None or number is None or stamp is None:
            raise ProtocolError("no-stamp", f"{self._key}, {', '.join(CAUSAL_COLUMNS)} are all needed")
        counts = dict(stamp)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(sorted(counts), begin, self._held_max)
        self._touched[key] = None
        cast = Cast(0, sender, number, [], group.stamp_of(counts))
        if tag in self._at:
            raise ProtocolError("old-number", f"cast {number} of {sender} is here already")
        group.order.receive.filter(cast)
        self._at[tag] = at
        for delivery in group.given:
            group.turn += 1
            found = self._at.pop((key, delivery.cast.sender, delivery.cast.number))
            out.add(found, group.turn, [tuple(each) for each in delivery.concurrent], None)
        group.given.clear()

    def _keep(self, rows: pa.RecordBatch) -> None:
        """Only what is held is needed any longer."""
        import pyarrow as pa

        places = sorted(self._at.items(), key=lambda item: item[1])
        self._at = {tag: place for place, (tag, _) in enumerate(places)}
        self._pool = rows.take(pa.array([at for _, at in places], pa.int64())) if places else None

    def end(self, last: bool) -> pa.RecordBatch | None:
        if not last or self._pool is None:
            return None
        out = _Out()
        for key, group in self._groups.items():
            for cast in group.order.snapshot()[1]:
                lack = group.order.lack(group.order.places[cast.sender], cast)
                assert lack is not None
                member, count = group.order.named(lack)
                text = f"never-came: cast {cast.number} of {cast.sender} waits for cast {count} of {member}"
                out.add(self._at[key, cast.sender, cast.number], None, [], text)
        return out.rows(self._pool)

    # Saving.

    def load(self, saved: Changes) -> None:
        import pyarrow as pa

        pools = [self._rest(saved)] if self._pool is not None else []
        for key, text in saved.items():
            found = msgspec.msgpack.decode(text, type=_Saved)
            group = self._groups[key] = _Group(found.members, found.begin, self._held_max)
            group.order.restore(found.vector, found.held)
            group.turn = found.turn
            for cast in found.held:
                self._at[key, cast.sender, cast.number] = len(self._at)
            if found.held:
                pools.append(pa.ipc.open_stream(found.rows).read_all().combine_chunks().to_batches()[0])
        filled = [pool for pool in pools if pool is not None and pool.num_rows]
        self._pool = pa.Table.from_batches(filled).combine_chunks().to_batches()[0] if filled else None

    def _rest(self, saved: Changes) -> Any:
        """What is held of the groups that are not loaded anew; their places are counted anew."""
        import pyarrow as pa

        rest = {tag: at for tag, at in self._at.items() if tag[0] not in saved}
        self._at = {tag: place for place, tag in enumerate(rest)}
        return self._pool.take(pa.array(list(rest.values()), pa.int64()))

    def changed(self) -> Changes:
        touched, self._touched = self._touched, {}
        return {key: self._save(key, self._groups[key]) for key in touched}

    def _save(self, key: str, group: _Group) -> bytes:
        import pyarrow as pa

        vector, held = group.order.snapshot()
        rows = b""
        if held:
            places = pa.array([self._at[key, cast.sender, cast.number] for cast in held], pa.int64())
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self._pool.schema) as stream:
                stream.write_batch(self._pool.take(places))
            rows = sink.getvalue().to_pybytes()
        return msgspec.msgpack.encode(_Saved(group.members, group.begin, vector, group.turn, held, rows))


class _Out:
    """The rows that are given out, by their places among those that are here."""

    def __init__(self) -> None:
        self._places: list[int] = []
        self._turns: list[int | None] = []
        self._concurrent: list[list[Any]] = []
        self._errors: list[str | None] = []

    def add(self, place: int, turn: int | None, concurrent: list[Any], error: str | None) -> None:
        self._places.append(place)
        self._turns.append(turn)
        self._concurrent.append(concurrent)
        self._errors.append(error)

    def rows(self, of: pa.RecordBatch) -> pa.RecordBatch | None:
        import pyarrow as pa

        if not self._places:
            return None
        ranges = pa.list_(pa.struct([("member", pa.string()), ("first", pa.int64()), ("last", pa.int64())]))
        found = of.take(pa.array(self._places, pa.int64()))
        concurrent = [
            [dict(zip(("member", "first", "last"), each, strict=True)) for each in row] for row in self._concurrent
        ]
        columns = [
            *found.columns,
            pa.array(self._turns, pa.int64()),
            pa.array(concurrent, ranges),
            pa.array(self._errors, pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, names=[*of.schema.names, "turn", "concurrent", "error"])

"""The cores as operators on frames: the same code that runs live, in batch and in streaming queries.

    moves = spark.readStream.format("octoloom").option("bootstrap", "127.0.0.1:9092").option("topic", "moves").load()
    folded = fold(moves, "game.py:app", colocated=True, state="/data/moves/state")
    folded.writeStream.option("checkpointLocation", "/data/moves/checkpoint")...

What they share: rows of one key must meet, in order (`keyed`). Say `colocated=True` if they do so where they are read:
records of a topic whose key is that key do, unless `minPartitions` cuts partitions up. Otherwise they are brought
together and sorted by `order`, which costs a shuffle. A streaming query needs a directory for its `state`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from octoloom.core.app import App
from octoloom.core.errors import UsageError
from octoloom.core.filters import HELD_MAX
from octoloom.spark.agreement_rows import AGREED, AGREEMENT_COLUMNS, AgreementRows
from octoloom.spark.apps import app_loader
from octoloom.spark.causal_rows import ADDED, CAUSAL_COLUMNS, CausalRows
from octoloom.spark.deduping import Dedupe
from octoloom.spark.folding import EVENT_COLUMNS, FOLD_COLUMNS, FOLDED, Folding
from octoloom.spark.keyed import BUCKETS, PLACE, Hosting, Weaver, host

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

ON_ERROR = ("dead-letter", "fail")


def dedupe(
    frame: DataFrame,
    *,
    by: str = "space",
    origin: str = "device",
    number: str = "sequencer",
    order: Sequence[str] = PLACE,
    colocated: bool = False,
    state: str | None = None,
    buckets: int = BUCKETS,
) -> DataFrame:
    """The rows without those that come again: of two with the same (`by`, `origin`, `number`) the first stays."""
    _need(frame, (by, origin, number), "dedupe")
    hosting = _hosting(frame, partial(Dedupe, by, origin, number), by, order, colocated, state, buckets)
    return host(frame, hosting, frame.schema)


def fold(
    frame: DataFrame,
    app: str | App,
    *,
    order: Sequence[str] = PLACE,
    colocated: bool = False,
    state: str | None = None,
    buckets: int = BUCKETS,
    on_error: str = "dead-letter",
) -> DataFrame:
    """The state of each space, as JSON with its keys sorted; in a stream, of those that a batch has changed.

    `frame` has events in columns, or records of a topic (`folding` says which). `app` is `module:app`, `file.py:app`
    or the app itself. Rows that are no events come out with an `error`; `dead_letters` selects them, `states` the rest.
    """
    if on_error not in ON_ERROR:
        raise UsageError(f"on_error is one of {', '.join(ON_ERROR)}, not {on_error!r}")
    is_records = "value" in frame.columns
    _need(frame, ("key", "value") if is_records else EVENT_COLUMNS, "fold")
    make = partial(Folding, app_loader(app), on_error == "fail")
    key = "key" if is_records else "space"
    hosting = _hosting(frame, make, key, order, colocated, state, buckets)
    # What is not needed is left behind in Java: to hand it over costs more than to read it.
    wanted = {*(("key", "value") if is_records else FOLD_COLUMNS), *PLACE, *order}
    return host(frame.select(*(name for name in frame.columns if name in wanted)), hosting, _struct(FOLDED))


def causal_order(
    frame: DataFrame,
    *,
    by: str = "group",
    order: Sequence[str] = PLACE,
    held_max: int = HELD_MAX,
    colocated: bool = False,
    state: str | None = None,
    buckets: int = BUCKETS,
) -> DataFrame:
    """The rows in causal order (by `turn`, in each `by`), with what each is concurrent with: see `causal_rows`."""
    _need(frame, (by, *CAUSAL_COLUMNS), "causal_order")
    hosting = _hosting(frame, partial(CausalRows, by, held_max), by, order, colocated, state, buckets)
    schema = _struct(ADDED)
    for field in reversed(frame.schema.fields):
        schema.fields.insert(0, field)
        schema.names.insert(0, field.name)
    return host(frame, hosting, schema)


def total_order(
    frame: DataFrame,
    *,
    by: str = "view",
    order: Sequence[str] = PLACE,
    colocated: bool = False,
    state: str | None = None,
    buckets: int = BUCKETS,
) -> DataFrame:
    """For each member of each view how many of its deliveries are not what others delivered: see `agreement_rows`."""
    _need(frame, (by, *AGREEMENT_COLUMNS), "total_order")
    hosting = _hosting(frame, partial(AgreementRows, by), by, order, colocated, state, buckets)
    return host(frame, hosting, _struct(f"{by} string, {AGREED}"))


def states(folded: DataFrame) -> DataFrame:
    """Of what `fold` gives, the spaces."""
    return folded.where("error is null").select("space", "events", "applied", "rejected", "deferred", "state")


def dead_letters(rows: DataFrame) -> DataFrame:
    """Of what an operator gives, the rows that were bad, with the reason."""
    return rows.where("error is not null")


def _hosting(
    frame: DataFrame,
    make: Callable[[], Weaver],
    key: str,
    order: Sequence[str],
    colocated: bool,
    state: str | None,
    buckets: int,
) -> Hosting:
    missing = [column for column in order if column not in frame.columns]
    if missing and not colocated:
        text = f"rows are brought together and sorted by {', '.join(order)}, and {', '.join(missing)} is not there"
        raise UsageError(f"{text}: name columns that order the rows with order=[…]")
    return Hosting(make, key, order, colocated, state, buckets)


def _need(frame: DataFrame, columns: Sequence[str], operator: str) -> None:
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        has = ", ".join(frame.columns)
        raise UsageError(f"{operator} needs the column {', '.join(missing)}, and the frame has {has}: rename one")


def _struct(ddl: str) -> StructType:
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found

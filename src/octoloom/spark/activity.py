"""What goes on in the spaces: rates, outcomes, the busiest devices, sessions, and how long commits take.

    tables = read_tables(spark, "tables")
    activity(tables)["latency"].show()
    report = write_activity(tables, "report")          # Parquet and plots

Everything is Spark SQL over the journal's tables (`journal_tables.py`). Time is cut into pieces of equal width, all of
which are there, also those in which nothing happened. Rates are per minute, however wide the pieces are.

Events are those of devices; what the chain does by itself (timers, joins, leaves) is not counted among them. Latency is
the time from when the head took an event (`time_ms`) to when it published the change (`at_ms`); percentiles are exact,
between two values in proportion. A session is from a join to the next leave of a device in a space; one that is not
over lasts until the last change.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from octoloom.core.errors import UsageError
from octoloom.spark import failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WIDTHS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 24 * 3600)
PIECES_WANTED = 180
PIECES_MAX = 10_000
BUSIEST = 20
REASONS = 20
PERCENTILES = (0.5, 0.9, 0.99)

LENGTHS_S = (0, 1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600)
LENGTH_NAMES = (
    "below 1 s",
    "1 to 10 s",
    "10 to 60 s",
    "1 to 10 min",
    "10 to 60 min",
    "1 to 6 h",
    "6 to 24 h",
    "longer",
)

Report = dict[str, pa.Table]
"""The small tables, by name: totals, rates, latency, outcomes, reasons, busiest, session_lengths."""


class Span(NamedTuple):
    """The time that is looked at, in pieces."""

    begin_ms: int
    width_s: int
    pieces: int


def span_of(tables: Mapping[str, DataFrame], width_s: int | None = None) -> Span:
    """From the first change to the last, in pieces of `width_s`, or of a width that gives a readable number of them."""
    with failures.told():
        first, last = tables["changes"].selectExpr("min(at_ms)", "max(at_ms)").collect()[0]
    if first is None:
        raise UsageError("the journal has no changes yet: play something, or name another topic")
    if width_s is None:
        fitting = (width for width in WIDTHS_S if (last - first) / 1000 / width <= PIECES_WANTED)
        width_s = next(fitting, -(-(last - first) // 1000 // PIECES_WANTED // WIDTHS_S[-1]) * WIDTHS_S[-1])
    if width_s < 1:
        raise UsageError(f"pieces of {width_s} seconds: choose at least one second")
    begin_ms = first - first % (width_s * 1000)
    pieces = (last - begin_ms) // (width_s * 1000) + 1
    if pieces > PIECES_MAX:
        raise UsageError(f"{pieces} pieces of {width_s} seconds: choose wider ones, {PIECES_MAX} are the most")
    return Span(begin_ms, width_s, pieces)


def activity(tables: Mapping[str, DataFrame], width_s: int | None = None) -> dict[str, DataFrame]:
    """All tables of the activity, by name."""
    span = span_of(tables, width_s)
    texts = {
        "totals": _TOTALS,
        "rates": _RATES,
        "latency": _LATENCY,
        "outcomes": _OUTCOMES,
        "reasons": _REASONS,
        "busiest": _BUSIEST,
        "session_lengths": _SESSION_LENGTHS,
        "sessions": _SESSIONS,
    }
    spark = tables["events"].sparkSession
    words: dict[str, Any] = {name: tables[name] for name in ("events", "changes", "presence")}
    words |= {"begin_ms": span.begin_ms, "width_ms": span.width_s * 1000, "pieces": span.pieces}
    words |= {"per_minute": 60 / span.width_s, "busiest": BUSIEST, "reasons": REASONS}
    return {name: spark.sql(text, **words) for name, text in texts.items()}


def write_activity(tables: Mapping[str, DataFrame], directory: str | Path, width_s: int | None = None) -> Report:
    """Writes the tables as Parquet and the plots as SVG and PNG. Answers the small tables."""
    from octoloom.spark.plots import write_plots

    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    frames = activity(tables, width_s)
    sessions = frames.pop("sessions")
    with failures.told():
        report: Report = {name: frame.toArrow() for name, frame in frames.items()}
        part = target / f".sessions-{uuid.uuid4().hex}"
        sessions.coalesce(1).write.parquet(str(part))
    for name, table in report.items():
        _replace_file(target / f"{name}.parquet", table)
    _replace_folder(target / "sessions.parquet", part)
    write_plots(report, target)
    return report


def _replace_file(path: Path, table: pa.Table) -> None:
    part = path.with_name(f".{path.name}")
    pq.write_table(table, part, compression="zstd")
    os.replace(part, path)


def _replace_folder(path: Path, part: Path) -> None:
    old = part.with_name(f"{part.name}-old")
    if path.exists():
        os.replace(path, old)
    os.replace(part, path)
    shutil.rmtree(old, ignore_errors=True)


def _length_case() -> str:
    whens = [
        f"when length_ms < {edge * 1000} then named_struct('place', {number}, 'name', '{name}')"
        for number, (edge, name) in enumerate(zip(LENGTHS_S[1:], LENGTH_NAMES, strict=False))
    ]
    last = len(LENGTH_NAMES) - 1
    return f"case {' '.join(whens)} else named_struct('place', {last}, 'name', '{LENGTH_NAMES[last]}') end"


_PIECES = """
pieces as (
    select piece, timestamp_millis({begin_ms} + piece * {width_ms}) as begin
    from (select explode(sequence(0L, {pieces} - 1L)) as piece)
)"""
_OF_DEVICES = "(select * from {events} where not startswith(device, '@'))"
_PIECE = "(at_ms - {begin_ms}) div {width_ms}"

_SESSIONS = """
select space, device, begin_ms, end_ms, coalesce(end_ms, last_ms) - begin_ms as length_ms, end_ms is null as is_open
from (
    select space, device, present, time_ms as begin_ms,
           lead(time_ms) over (partition by space, device order by version, position) as end_ms
    from {presence}
) cross join (select max(at_ms) as last_ms from {changes})
where present
"""

_RATES = f"""
with {_PIECES},
sent as (
    select {_PIECE} as piece,
           count(*) as events,
           count_if(outcome = 'applied') as applied,
           count_if(outcome = 'rejected') as rejected,
           count(distinct device) as devices,
           count(distinct space) as spaces
    from {_OF_DEVICES} group by 1
),
changed as (select {_PIECE} as piece, count(*) as changes from {{changes}} where kind = 'change' group by 1),
went as (
    select {_PIECE} as piece, count_if(present) as joins, count_if(not present) as leaves from {{presence}} group by 1
)
select begin,
       coalesce(events, 0) as events,
       coalesce(applied, 0) as applied,
       coalesce(rejected, 0) as rejected,
       coalesce(changes, 0) as changes,
       coalesce(devices, 0) as devices,
       coalesce(spaces, 0) as spaces,
       coalesce(joins, 0) as joins,
       coalesce(leaves, 0) as leaves,
       sum(coalesce(joins, 0) - coalesce(leaves, 0)) over (order by piece) as present,
       coalesce(events, 0) * {{per_minute}} as events_per_minute
from pieces left join sent using (piece) left join changed using (piece) left join went using (piece)
order by piece
"""

_LATENCY = f"""
with {_PIECES},
measured as (
    select piece, count(*) as events, percentile(latency, array{PERCENTILES}) as p, max(latency) as highest
    from (select {_PIECE} as piece, at_ms - time_ms as latency from {_OF_DEVICES}) group by piece
)
select begin, coalesce(events, 0) as events, p[0] as p50_ms, p[1] as p90_ms, p[2] as p99_ms, highest as max_ms
from pieces left join measured using (piece)
order by piece
"""

_TOTALS = f"""
with sessions as ({_SESSIONS})
select * from (
    select count(*) as events,
           count(distinct device) as devices,
           count_if(outcome = 'applied') as applied,
           count_if(outcome = 'rejected') as rejected,
           percentile(at_ms - time_ms, {PERCENTILES[0]}) as p50_ms,
           percentile(at_ms - time_ms, {PERCENTILES[1]}) as p90_ms,
           percentile(at_ms - time_ms, {PERCENTILES[2]}) as p99_ms,
           max(at_ms - time_ms) as max_ms
    from {_OF_DEVICES}
) cross join (
    select count_if(kind = 'change') as changes,
           count(distinct space) as spaces,
           min(at_ms) as first_ms,
           max(at_ms) as last_ms,
           cast({{width_ms}} div 1000 as int) as width_s
    from {{changes}}
) cross join (
    select count(*) as sessions, count_if(is_open) as open_sessions, percentile(length_ms, 0.5) as session_p50_ms
    from sessions
)
"""

_OUTCOMES = f"""
select outcome, count(*) as events, count(*) / sum(count(*)) over () as share
from {_OF_DEVICES} group by outcome order by events desc, outcome
"""

_REASONS = f"""
select outcome, reason, count(*) as events
from {_OF_DEVICES} where reason <> ''
group by outcome, reason order by events desc, reason limit {{reasons}}
"""

_BUSIEST = f"""
select device,
       count(*) as events,
       count_if(outcome = 'applied') as applied,
       count_if(outcome = 'rejected') as rejected,
       count(distinct space) as spaces,
       min(time_ms) as first_ms,
       max(time_ms) as last_ms
from {_OF_DEVICES} group by device order by events desc, device limit {{busiest}}
"""

_SESSION_LENGTHS = f"""
select length.name as length, count(*) as sessions, count_if(not is_open) as ended, count_if(is_open) as open
from (select *, {_length_case()} as length from ({_SESSIONS}))
group by length order by length.place
"""

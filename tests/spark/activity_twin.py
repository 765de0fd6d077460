"""The activity of a journal, computed in plain Python: what Spark's tables are compared with, and plots drawn from."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from octoloom.core.event import Event, Outcome
from octoloom.spark.activity import LENGTH_NAMES, LENGTHS_S
from octoloom.wire.journal import JournalRecord
from tests.spark.journals import Play

Rows = list[dict[str, Any]]
Moved = list[tuple[JournalRecord, Event, Outcome, str]]


def moves_of(plays: list[Play]) -> Moved:
    """What devices did, with what became of it and the record that says so."""
    return [
        (record, event, kill.outcome, kill.reason)
        for play in plays
        for record in play.records
        if record.entry.change is not None
        for event, kill in zip(record.entry.events, record.entry.change.kills, strict=True)
        if not event.device.startswith("@")
    ]


def percentile(values: list[int], part: float) -> float | None:
    if not values:
        return None
    values = sorted(values)
    place = (len(values) - 1) * part
    low, high = values[math.floor(place)], values[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def latencies(moves: Moved) -> dict[str, float | None]:
    found = [record.at_ms - event.time_ms for record, event, _, _ in moves]
    names = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
    return {name: percentile(found, part) for name, part in names.items()} | {"max_ms": max(found, default=None)}


def sessions_of(plays: list[Play]) -> list[tuple[int, int | None]]:
    """Beginning and end of each, the end None while it lasts."""
    found: list[tuple[int, int | None]] = []
    for play in plays:
        began: dict[str, int] = {}
        for record in play.records:
            change = record.entry.change
            times = [event.time_ms for event in record.entry.events if event.device == "@presence"]
            for (device, present), time_ms in zip(change.presence if change else [], times, strict=True):
                if present:
                    began[device] = time_ms
                else:
                    found.append((began.pop(device), time_ms))
        found += [(time_ms, None) for time_ms in began.values()]
    return found


def rates(plays: list[Play], width_s: int) -> tuple[Rows, Rows]:
    """The tables `rates` and `latency`."""
    moves, width = moves_of(plays), width_s * 1000
    records = [record for play in plays for record in play.records]
    first, last = min(one.at_ms for one in records), max(one.at_ms for one in records)
    rate_rows, latency_rows, present = [], [], 0
    for begin in range(first - first % width, last + 1, width):
        here = [move for move in moves if begin <= move[0].at_ms < begin + width]
        changes = [one.entry.change for one in records if begin <= one.at_ms < begin + width and one.entry.change]
        went = Counter(is_there for change in changes for _, is_there in change.presence)
        present += went[True] - went[False]
        ends = Counter(outcome for _, _, outcome, _ in here)
        when = {"begin": datetime.fromtimestamp(begin / 1000, UTC)}
        counts = {"events": len(here), "applied": ends[Outcome.APPLIED], "rejected": ends[Outcome.REJECTED]}
        width_counts = {
            "changes": len(changes),
            "devices": len({event.device for _, event, _, _ in here}),
            "spaces": len({record.space for record, *_ in here}),
            "joins": went[True],
            "leaves": went[False],
            "present": present,
            "events_per_minute": len(here) * 60 / width_s,
        }
        rate_rows.append(when | counts | width_counts)
        latency_rows.append(when | {"events": len(here)} | latencies(here))
    return rate_rows, latency_rows


def report(plays: list[Play], width_s: int) -> dict[str, Rows]:
    """All small tables, as Spark gives them."""
    moves = moves_of(plays)
    rate_rows, latency_rows = rates(plays, width_s)
    last = max(record.at_ms for play in plays for record in play.records)
    lengths = [((last if end is None else end) - begin, end is None) for begin, end in sessions_of(plays)]
    ends = Counter(outcome.word for _, _, outcome, _ in moves)
    reasons = Counter((outcome.word, reason) for _, _, outcome, reason in moves if reason)
    return {
        "totals": [_totals(plays, moves, lengths, width_s)],
        "rates": rate_rows,
        "latency": latency_rows,
        "outcomes": [
            {"outcome": word, "events": count, "share": count / len(moves)}
            for word, count in sorted(ends.items(), key=lambda one: (-one[1], one[0]))
        ],
        "reasons": [
            {"outcome": word, "reason": reason, "events": count}
            for (word, reason), count in sorted(reasons.items(), key=lambda one: (-one[1], one[0][1]))
        ],
        "busiest": _busiest(moves),
        "session_lengths": _lengths(lengths),
    }


def _totals(plays: list[Play], moves: Moved, lengths: list[tuple[int, bool]], width_s: int) -> dict[str, Any]:
    ends = Counter(outcome for _, _, outcome, _ in moves)
    records = [record for play in plays for record in play.records]
    return {
        "events": len(moves),
        "devices": len({event.device for _, event, _, _ in moves}),
        "applied": ends[Outcome.APPLIED],
        "rejected": ends[Outcome.REJECTED],
        **latencies(moves),
        "changes": len([one for one in records if one.entry.change]),
        "spaces": len(plays),
        "first_ms": min(one.at_ms for one in records),
        "last_ms": max(one.at_ms for one in records),
        "width_s": width_s,
        "sessions": len(lengths),
        "open_sessions": sum(is_open for _, is_open in lengths),
        "session_p50_ms": percentile([length for length, _ in lengths], 0.5),
    }


def _busiest(moves: Moved) -> Rows:
    rows: Rows = []
    for device in {event.device for _, event, _, _ in moves}:
        mine = [move for move in moves if move[1].device == device]
        ends = Counter(outcome for _, _, outcome, _ in mine)
        times = [event.time_ms for _, event, _, _ in mine]
        counts = {"device": device, "events": len(mine), "applied": ends[Outcome.APPLIED]}
        counts |= {"rejected": ends[Outcome.REJECTED], "spaces": len({record.space for record, *_ in mine})}
        rows.append({**counts, "first_ms": min(times), "last_ms": max(times)})
    return sorted(rows, key=lambda row: (-row["events"], row["device"]))[:20]


def _lengths(lengths: list[tuple[int, bool]]) -> Rows:
    rows = []
    for low, high, name in zip(LENGTHS_S, [*LENGTHS_S[1:], math.inf], LENGTH_NAMES, strict=True):
        here = [is_open for length, is_open in lengths if low * 1000 <= length < high * 1000]
        if here:
            still = sum(here)
            rows.append({"length": name, "sessions": len(here), "ended": len(here) - still, "open": still})
    return rows

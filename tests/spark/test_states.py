"""States at versions and moments are what the core's reader has after as many records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from octoloom.core.app import App, AppEvent
from octoloom.core.errors import UsageError
from octoloom.core.journal import JournalReader
from octoloom.core.space import decode_json, encode_json
from octoloom.spark.journal_rows import JournalRows
from octoloom.spark.states import NEWEST, At, Folding, State, _fold, lines, parse_at, state_of, states
from octoloom.wire.journal import JournalRecord
from tests.spark.journals import BEGINNING_MS, Play, make_plays, to_arrow, to_frame, to_rows, troubled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_up_to(records: list[JournalRecord], at: At) -> dict[str, tuple[int, int, Any]]:
    """Generation, version and state of each space, by the core. Of a version, those of the history that counts."""
    readers: dict[str, JournalReader] = {}
    found: dict[str, tuple[int, int, Any]] = {}
    past: set[str] = set()
    for record in records:
        space = record.space
        reader = readers.setdefault(space, JournalReader(space))
        if at.time_ms is not None and record.at_ms > at.time_ms:
            # A record that was published again is no news.
            is_old = (record.generation, record.entry.version) <= (reader.generation, reader.space.version)
            past.update([] if is_old else [space])
        if space in past or not reader.read(record.generation, record.entry):
            continue
        if record.entry.start is not None and at.version is not None and record.entry.version <= at.version:
            found.pop(space, None)
        if at.version in (None, record.entry.version):
            state = decode_json(encode_json(reader.space.state))
            found[space] = reader.generation, reader.space.version, state
    return found


def folded(records: list[JournalRecord], at: At) -> dict[str, State]:
    batches = _fold(at, to_arrow(to_rows(records)).to_batches(max_chunksize=64))
    return {row["space"]: State(**row) for batch in batches for row in batch.to_pylist()}


def _text(state: Any) -> str:
    return json.dumps(state, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("seed", range(3))
def test_as_the_core_has_it(seed: int) -> None:
    records, plays = troubled(seed)
    moments = [At(time_ms=records[number].at_ms) for number in range(0, len(records), 29)]
    for at in [NEWEST, *moments, *(At(version=version) for version in range(1, 60, 7))]:
        found = folded(records, at)
        ours = {row.space: (row.generation, row.version, row.state) for row in found.values() if row.problem is None}
        expected = read_up_to(records, at)
        assert {name: (*row[:2], json.loads(row[2] or "")) for name, row in ours.items()} == expected
        assert all(row.state is None for row in found.values() if row.problem)
    newest = folded(records, NEWEST)
    assert {name: json.loads(row.state or "") for name, row in newest.items()} == {
        play.space.name: play.state() for play in plays
    }


def test_what_there_is_no_state_of() -> None:
    records = [record for record in troubled()[0] if record.space == "space3"]
    assert folded(records, At(version=999))["space3"].problem == (
        f"it has not reached version 999, it is at {records[-1].entry.version}: name a lower one"
    )
    early = folded(records, At(time_ms=BEGINNING_MS - 1))["space3"].problem
    assert early is not None
    assert early.startswith("its first change is of 2026-01-01T00:00:0")
    assert "begins after version 0" in (folded(records, At(version=0))["space3"].problem or "")


def test_nobody_knows_a_state_beyond_a_gap() -> None:
    plays = troubled()[1]
    records = plays[2].records
    holed = [*records[:20], *records[21:]]
    assert "version 22 of generation 1 follows 20" in (folded(holed, NEWEST)["space3"].problem or "")
    assert "a record is missing" in (folded(holed, At(version=22))["space3"].problem or "")
    assert folded(holed, At(version=20)) == folded(records, At(version=20))
    assert folded(holed, At(time_ms=records[19].at_ms)) == folded(records, At(time_ms=records[19].at_ms))
    # A new generation begins with all of the state, so it is known again.
    start = plays[2].begin_anew()
    assert folded([*holed, start], NEWEST)["space3"].state == _text(plays[2].state())
    # A stranger's record, as it was never the next, changes nothing.
    stranger = records[30]
    assert folded([stranger, *records], NEWEST)["space3"].problem is not None
    garbage = to_rows(records)[5]._replace(value=b"oops")
    rows = [garbage._replace(headers=to_rows(records)[0].headers), *to_rows(records)]
    [batch] = _fold(NEWEST, to_arrow(rows).to_batches())
    assert State(**batch.to_pylist()[0]) == folded(records, NEWEST)["space3"]


def test_a_void_version_is_not_there_until_it_comes_again() -> None:
    play = make_plays(spaces=1, events=60)[0]
    records, last = list(play.records), play.space.version
    records.append(play.begin_anew(lost=3))
    assert (folded(records, At(version=last - 1))["space1"].problem or "").startswith("it has not reached")
    assert folded(records, At(version=last - 3))["space1"].generation == 2
    records += play.play(30)
    assert folded(records, At(version=last - 1))["space1"].generation == 2
    assert folded(records, At(version=last - 4))["space1"].generation == 1


def test_a_change_that_replaces_the_state() -> None:
    app = App("nulls")

    @app.on("put")
    def put(state: Any, event: AppEvent) -> None:
        state.clear()
        state[event.device] = None if event.payload % 3 else {"n": event.payload}

    play = Play(app, "s", 2, seed=1, moves=lambda dice, device, number: ("put", number))
    records = play.play(60)
    assert any(record.entry.change and record.entry.change.replace for record in records)
    assert json.loads(folded(records, NEWEST)["s"].state or "") == play.state()
    assert read_up_to(records, At(version=20))["s"][2] == json.loads(folded(records, At(version=20))["s"].state or "")


def test_a_patch_beyond_the_moment_is_not_applied() -> None:
    records = troubled()[1][2].records
    folding = Folding("space3", At(version=5))
    rows = JournalRows()
    for batch in to_arrow(to_rows(records)).to_batches():
        for taken in rows.take(batch):
            folding.take(taken)
    assert folding.row().state == folded(records[:5], NEWEST)["space3"].state
    assert json.loads(folding.row().state or "") == folding.state


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1200", At(version=1200)),
        ("@1200", At(time_ms=1200)),
        ("1767225600000", At(time_ms=1767225600000)),
        ("2026-01-01T00:00:00Z", At(time_ms=1767225600000)),
        ("2026-01-01T01:00:00.250+01:00", At(time_ms=1767225600250)),
    ],
)
def test_moments(text: str, at: At) -> None:
    assert parse_at(text) == at


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "1.5", "@x", "2026-13-01"])
def test_no_moments(text: str) -> None:
    with pytest.raises(UsageError, match="is no moment of a space: write a version such as 1200"):
        parse_at(text)


@pytest.mark.spark
def test_states_on_spark(spark: SparkSession) -> None:
    records, plays = troubled()
    frame = to_frame(spark, to_rows(records))
    found = states(frame).collect()
    assert {row["space"]: State(*row) for row in found} == folded(records, NEWEST)
    one = state_of(frame, "space1", At(version=40))
    assert one == folded(records, At(version=40))["space1"]
    with pytest.raises(UsageError, match="no space 'spce2' in the journal: there is space2"):
        state_of(frame, "spce2")
    with pytest.raises(UsageError, match="space2: it has not reached version 4000"):
        state_of(frame, "space2", At(version=4000))
    texts = [json.loads(line) for line in lines(states(frame))]
    assert {text["space"]: text["state"] for text in texts} == {play.space.name: play.state() for play in plays}

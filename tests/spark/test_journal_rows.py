"""The reader's rules over Arrow batches give what `core/journal.py` gives, and what is bad is told and does no harm."""

from __future__ import annotations

import json

import pytest

from octoloom.core.journal import JournalReader
from octoloom.spark.journal_rows import FAIL, BadJournal, JournalRows
from octoloom.wire.journal import decode
from tests.spark.journals import Row, mark_row, to_arrow, to_rows, troubled


def bad_rows(good: Row) -> dict[str, Row]:
    """The rows by what is said of them; `good` is the next version of a space."""
    assert good.value is not None
    headers = dict(good.headers)

    def with_header(name: str, value: bytes) -> Row:
        return good._replace(headers=tuple({**headers, name: value}.items()))

    def with_field(**fields: object) -> Row:
        return good._replace(value=json.dumps({**json.loads(good.value or b""), **fields}).encode())

    return {
        "malformed: not json": good._replace(value=b"oops"),
        "malformed: not UTF-8": good._replace(value=good.value.replace(b'"merge":{', b'"merge":{"\xff":1,')),
        "no-value": good._replace(value=None),
        "no-key": good._replace(key=None),
        "bad-key": good._replace(key=b"\xff"),
        "bad-header: kind": with_header("kind", b"rumour"),
        "bad-header: no headers": good._replace(headers=()),
        "bad-header: version": with_header("version", b"one"),
        "bad-header: too large": with_header("epoch", b"9999999999999999999"),
        "contradiction": with_field(chain="chain1", space="elsewhere"),
        "contradiction: version": with_field(version=json.loads(good.value)["version"] + 1),
        "bad-field: kind": with_field(kind="rumour"),
        "bad-field: merge": with_field(merge=[1]),
        "bad-field: outcome": with_field(
            kills=[{"device": "a", "sequencer": 1, "outcome": "?", "reason": "", "chain_sequencer": 1, "digest": 0}]
        ),
        "bad-field: number": with_field(at_ms=2**63),
        "gap": with_header("version", b"12345"),
    }


def test_as_the_core_reads_it() -> None:
    rows = to_rows(troubled()[0])
    readers: dict[str, JournalReader] = {}
    expected = []
    for row in rows:
        record = decode(row.key, row.value, row.headers)
        reader = readers.setdefault(record.space, JournalReader(record.space))
        if reader.read(record.generation, record.entry):
            expected.append((row.partition, row.offset))
    ours = JournalRows(FAIL)
    taken = [one for batch in to_arrow(rows).to_batches(max_chunksize=50) for one in ours.take(batch)]
    assert [one.place[1:] for one in taken] == expected
    counts = ours.counts
    assert (counts.rows, counts.taken, counts.voided, counts.dead) == (len(rows), len(expected), 3, 0)
    assert counts.late >= 2
    assert counts.taken + counts.doubles + counts.late == counts.rows
    assert [(void.space, void.generation, void.last - void.version) for void in ours.voids] == [("space1", 2, 3)]


def test_what_is_saved_is_enough_to_go_on() -> None:
    rows = to_rows(troubled()[0])
    whole = JournalRows()
    expected = [one.place for batch in to_arrow(rows).to_batches() for one in whole.take(batch)]
    saved: dict[tuple[str, int], bytes] = {}
    found = []

    def last_saved(topic: str, partition: int) -> bytes | None:
        return saved.get((topic, partition))

    for begin in range(0, len(rows), 37):
        part = JournalRows(saved=last_saved)
        found += [one.place for batch in to_arrow(rows[begin : begin + 37]).to_batches() for one in part.take(batch)]
        for place in part.seen:
            saved[place] = part.save(*place)
    assert found == expected


def test_a_part_of_a_journal() -> None:
    rows = [row for row in to_rows(troubled()[0]) if row.key == b"space3"]
    whole = JournalRows(FAIL)
    expected = [one.place for batch in to_arrow(rows).to_batches() for one in whole.take(batch) if one.tag.version > 20]
    late = [row for row in rows if row.offset >= expected[0].offset]
    part = JournalRows(FAIL, anywhere=True)
    assert [one.place for batch in to_arrow(late).to_batches() for one in part.take(batch)][: len(expected)] == expected
    strict = JournalRows()
    assert [one for batch in to_arrow(late).to_batches() for one in strict.take(batch)] == []
    assert strict.counts.dead == len(late)


def test_each_bad_row_is_told_and_the_next_version_is_taken_all_the_same() -> None:
    rows = [row for row in to_rows(troubled()[0]) if row.key == b"space3"]
    at = 20
    bad = bad_rows(rows[at])
    wanted = [*rows[:at], *bad.values(), mark_row(), *rows[at:]]
    ours = JournalRows()
    taken = [one for batch in to_arrow(wanted).to_batches() for one in ours.take(batch)]
    assert [dead.code for dead in ours.dead] == [name.partition(":")[0] for name in bad]
    assert (ours.counts.dead, ours.counts.marks) == (len(bad), 1)
    alone = JournalRows(FAIL)
    assert taken == [one for batch in to_arrow(rows).to_batches() for one in alone.take(batch)]


def test_a_bad_row_ends_it_if_one_asks_for_that() -> None:
    row = to_rows(troubled()[0])[0]._replace(value=b"oops", partition=3, offset=17)
    with pytest.raises(BadJournal, match=r"journal, partition 3, offset 17: malformed.*-p 3 --from 17 -c 1"):
        list(JournalRows(FAIL).take(to_arrow([row]).to_batches()[0]))

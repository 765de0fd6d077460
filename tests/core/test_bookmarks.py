"""When a bookmark is due, and that it stands for all that lies before it."""

from __future__ import annotations

import pytest

from octoloom.core.bookmarks import GROWTH, BookmarkPace
from octoloom.core.event import JournalEntry
from octoloom.core.journal import JournalGap, JournalReader
from tests.core.simulated_journals import SEEDS, simulated_journals
from tests.core.test_journal import whole

HERE = ("c", 0)


def test_one_is_due_when_there_is_enough_to_read() -> None:
    pace = BookmarkPace(100)
    assert [pace.on_grown(HERE, 40) for _ in range(4)] == [False, False, True, True]
    assert not pace.on_grown(("c", 1), 99)
    pace.on_begun(HERE)
    assert [pace.on_grown(HERE, 60) for _ in range(2)] == [False, True]


def test_a_large_one_waits_for_more() -> None:
    pace = BookmarkPace(100)
    pace.on_known(HERE, 50)
    assert not pace.on_grown(HERE, 50 * GROWTH - 1)
    assert pace.on_grown(HERE, 1)
    pace.on_known(("c", 1), 10)
    assert pace.on_grown(("c", 1), 100)


def fold(records: list[tuple[int, JournalEntry]], reader: JournalReader) -> JournalReader:
    for generation, entry in records:
        reader.read(generation, entry)
    return reader


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_begins_at_a_bookmark_comes_to_the_same_end(seed: int) -> None:
    """Wherever the journal is cut: duplicates, lost generations, deferred events, timers and all."""
    for space, records in simulated_journals(seed).items():
        end = fold(records, JournalReader(space))
        for cut in range(1, len(records) + 1):
            before = fold(records[:cut], JournalReader(space))
            snapshot = before.space.snapshot()
            after = JournalReader(space)
            after.read(before.generation, JournalEntry(snapshot.version, None, [], start=snapshot))
            assert whole(after.space) == whole(before.space)
            fold(records[cut:], after)
            assert (after.generation, whole(after.space)) == (end.generation, whole(end.space))


def test_without_its_bookmark_the_rest_is_a_gap() -> None:
    """The test above would show nothing if the rest alone came to the same."""
    [records, *_] = simulated_journals(SEEDS[0]).values()
    with pytest.raises(JournalGap):
        fold(records[1:], JournalReader("s"))

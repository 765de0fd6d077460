"""What a link keeps for the journal: until it is there, in order, and handed over once by each head."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.backlog import Backlog
from octoloom.core.event import Change, Event, JournalEntry


def entry(version: int) -> JournalEntry:
    event = Event(version, "ada", version, "put", b"x" * version, 0, 0)
    return JournalEntry(version, Change(1, version, False, b"{}", []), [event])


def backlog(*versions: int, journaled: int = 0) -> Backlog:
    made = Backlog(journaled)
    for version in versions:
        made.push(entry(version))
    return made


def versions(entries: list[JournalEntry]) -> list[int]:
    return [each.version for each in entries]


def test_what_is_in_the_journal_is_not_kept() -> None:
    made = backlog(1, 2, 3, 4)
    made.on_journaled(2)
    assert versions(made.entries()) == [3, 4]
    assert (made.journaled, len(made)) == (2, 2)
    assert made.size == entry(3).size + entry(4).size


def test_a_version_that_is_there_already_is_not_taken() -> None:
    assert versions(backlog(1, 2, 3, 4, journaled=2).entries()) == [3, 4]


def test_older_news_of_the_journal_takes_nothing_back() -> None:
    made = backlog(1, 2, 3)
    made.on_journaled(3)
    made.on_journaled(1)
    assert (made.journaled, made.published, made.size) == (3, 3, 0)


def test_the_journal_may_be_further_than_this_link() -> None:
    made = backlog(1, 2)
    made.on_journaled(5)
    for version in (3, 4, 5, 6):
        made.push(entry(version))
    assert versions(made.entries()) == [6]


def test_each_entry_is_handed_over_once() -> None:
    made = backlog(1, 2)
    assert versions(made.unpublished()) == [1, 2]
    assert made.unpublished() == []
    made.push(entry(3))
    assert versions(made.unpublished()) == [3]
    assert versions(made.entries()) == [1, 2, 3]


def test_what_others_brought_into_the_journal_is_not_handed_over() -> None:
    made = backlog(1, 2, 3)
    made.on_journaled(2)
    assert versions(made.unpublished()) == [3]


def test_a_new_head_hands_over_everything_that_it_does_not_know_to_be_there() -> None:
    made = backlog(1, 2, 3)
    made.unpublished()
    made.on_journaled(1)
    made.publish_anew()
    assert versions(made.unpublished()) == [2, 3]


def test_the_events_of_the_versions_that_a_neighbour_lacks() -> None:
    made = backlog(1, 2, 3)
    assert [event.chain_sequencer for event in made.events_since(1)] == [2, 3]
    made.on_journaled(2)
    assert [event.chain_sequencer for event in made.events_since(0)] == [3]


steps = st.lists(st.one_of(st.sampled_from(["push", "push", "publish", "anew"]), st.integers(0, 12)), max_size=40)


@given(steps)
def test_nothing_is_missing_in_what_heads_hand_over(history: list[str | int]) -> None:
    """The journal has what it was told of, which is at most what was handed over; versions follow each other."""
    made, last, journal = Backlog(), 0, 0
    for step in history:
        if step == "push":
            last += 1
            made.push(entry(last))
        elif step == "publish":
            for each in made.unpublished():
                assert each.version <= journal + 1, "a version is missing"
                journal = max(journal, each.version)
        elif step == "anew":
            made.publish_anew()
        else:
            assert isinstance(step, int)
            made.on_journaled(min(step, journal))
        assert versions(made.entries()) == list(range(made.journaled + 1, last + 1))
        assert made.size == sum(each.size for each in made.entries())

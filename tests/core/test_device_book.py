"""What a device owns changes only in drafts, and a store that obeys each draft holds the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from octoloom.core.device_book import DeviceBook, Draft
from octoloom.core.device_effects import Full, Limits, PendingEvent, Persist, Saved
from octoloom.core.event import Outcome
from octoloom.simulation.disk import Disk


def book(saved: Saved | None = None, **limits: int) -> DeviceBook:
    return DeviceBook("ada", saved or Saved(), Limits(**limits))


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def sent(mine: DeviceBook, *names: str) -> list[int]:
    draft = Draft()
    for name in names:
        mine.enqueue(draft, name, b"1")
    mine.number_queue(draft)
    return [event.sequencer for event in draft.numbered]


# Numbers.


def test_a_number_is_given_once_and_in_order() -> None:
    mine = book()
    assert sent(mine, "a", "b") == [1, 2]
    mine.kill(Draft(), [(1, Outcome.APPLIED, ""), (2, Outcome.APPLIED, "")])
    assert sent(mine, "c") == [3]


def test_an_action_that_is_numbered_at_once_never_touches_the_stores_queue() -> None:
    mine, draft = book(), Draft()
    mine.enqueue(draft, "a", b"1")
    mine.number_queue(draft)
    step = mine.close(draft)
    assert (step.queued, step.unqueued) == ((), ())
    assert [event.sequencer for event in step.numbered] == [1]


def test_an_action_that_waited_leaves_the_stores_queue_when_it_gets_its_number() -> None:
    mine, first, second = book(), Draft(), Draft()
    action = mine.enqueue(first, "a", b"1")
    assert mine.close(first).queued == (action,)
    mine.number_queue(second)
    assert mine.close(second).unqueued == (action.ticket,)


def test_the_next_number_is_above_all_that_is_taken_anywhere() -> None:
    mine = book()
    sent(mine, "a", "b")
    mine.skip_to(2)
    assert mine.next_sequencer == 3
    mine.skip_to(9)
    assert mine.next_sequencer == 9
    mine.adopt(Draft(), [(12, "lost", raw(1))])
    mine.skip_to(10)
    assert mine.next_sequencer == 13


def test_a_store_whose_number_is_not_above_its_events_is_refused() -> None:
    with pytest.raises(AssertionError):
        book(Saved(next_sequencer=2, pending=(PendingEvent(2, "a", b"1"),)))


# Bounds.


def test_the_bound_counts_what_is_pending_and_what_is_queued() -> None:
    mine = book(pending_max=2)
    sent(mine, "a")
    mine.enqueue(Draft(), "b", b"1")
    with pytest.raises(Full, match="await some"):
        mine.enqueue(Draft(), "c", b"1")
    assert len(mine.queue) == 1


def test_the_bound_counts_bytes_too_and_kills_give_them_back() -> None:
    mine = book(pending_bytes_max=200)
    sent(mine, "a")
    draft = Draft()
    with pytest.raises(Full):
        mine.enqueue(draft, "b", b"x" * 150)
    assert draft.queued == []
    mine.kill(Draft(), [(1, Outcome.APPLIED, "")])
    mine.enqueue(draft, "b", b"x" * 150)


def test_what_has_no_room_among_the_pending_stays_queued() -> None:
    mine = book(pending_max=2)
    mine.adopt(Draft(), [(5, "x", raw(1)), (6, "y", raw(2))])
    mine.skip_to(7)
    mine.queue.append(PendingEvent(0, "late", b"1", 1, "ada"))
    draft = Draft()
    mine.number_queue(draft)
    assert (draft.numbered, len(mine.queue)) == ([], 1)
    mine.kill(draft, [(5, Outcome.APPLIED, "")])
    mine.number_queue(draft)
    assert [event.sequencer for event in draft.numbered] == [7]


# What the chain tells.


def test_kills_settle_what_is_here_and_nothing_else() -> None:
    mine, draft = book(), Draft()
    sent(mine, "a", "b")
    mine.kill(draft, [(2, Outcome.REJECTED, "no"), (7, Outcome.APPLIED, ""), (2, Outcome.APPLIED, "")])
    assert [(note.sequencer, note.outcome, note.reason) for note in draft.settled] == [(2, Outcome.REJECTED, "no")]
    assert draft.removed == [2]
    assert list(mine.pending) == [1]


def test_the_state_moves_by_patches_or_as_a_whole() -> None:
    mine, draft = book(), Draft()
    mine.assume(draft, b'{"a":1,"b":2}', (b'{"a":null}', b'{"c":3}'), 4)
    assert (mine.state, mine.version) == ({"b": 2, "c": 3}, 4)
    mine.assume(draft, None, (b'{"b":5}',), 5)
    assert (mine.state, mine.version) == ({"b": 5, "c": 3}, 5)
    assert (draft.state, draft.patches) == (None, (b'{"b":5}',))


def test_lost_events_come_back_in_their_order() -> None:
    mine, draft = book(), Draft()
    mine.skip_to(5)
    sent(mine, "new")
    mine.adopt(draft, [(2, "lost", raw(1)), (4, "lost", raw(2))])
    assert list(mine.pending) == [2, 4, 5]
    assert [event.sequencer for event in draft.adopted] == [2, 4]
    assert draft.settled == []


def test_an_event_that_is_here_already_is_not_adopted_again() -> None:
    mine, draft = book(), Draft()
    sent(mine, "a")
    mine.adopt(draft, [(1, "a", raw(1))])
    assert (draft.adopted, draft.settled) == ([], [])


def test_the_chains_event_wins_a_number_that_was_used_twice() -> None:
    mine, draft = book(), Draft()
    sent(mine, "mine")
    mine.adopt(draft, [(1, "theirs", raw(1))])
    assert [(note.sequencer, note.outcome) for note in draft.settled] == [(1, Outcome.SUPERSEDED)]
    assert mine.pending[1].name == "theirs"


def test_an_older_copy_does_not_send_again_what_it_had_queued() -> None:
    mine, draft = book(Saved(queue=(PendingEvent(0, "old", b"1", 3),))), Draft()
    mine.enqueue(draft, "new", b"1")
    mine.doubt_queue(draft)
    assert [action.name for action in mine.queue] == ["new"]
    assert [(note.ticket, note.outcome) for note in draft.settled] == [(3, Outcome.FORGOTTEN)]
    mine.doubt_queue(draft)
    assert len(draft.settled) == 1


# A store that obeys every draft holds what the book holds.


class BookAndDisk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits(pending_max=6, pending_bytes_max=400)
        self.book = DeviceBook("ada", Saved(), self.limits)
        self.disk = Disk()
        self.given: list[int] = []
        self.obey(self.book.close(Draft()))

    def obey(self, step: Persist) -> None:
        self.disk.commit(step)

    @rule(names=st.lists(st.sampled_from("abc"), min_size=1, max_size=3), number=st.booleans())
    def act(self, names: list[str], number: bool) -> None:
        draft = Draft()
        for name in names:
            try:
                self.book.enqueue(draft, name, b"1" * 9)
            except Full:
                assert len(self.book.pending) + len(self.book.queue) >= 6
        if number:
            self.book.number_queue(draft)
        self.given += [event.sequencer for event in draft.numbered]
        self.obey(self.book.close(draft))

    @precondition(lambda self: self.book.pending)
    @rule(data=st.data(), patch=st.dictionaries(st.sampled_from("xy"), st.none() | st.integers(), max_size=2))
    def hear(self, data: st.DataObject, patch: dict[str, Any]) -> None:
        draft = Draft()
        killed = data.draw(st.lists(st.sampled_from(list(self.book.pending)), unique=True))
        self.book.assume(draft, None, (msgspec.json.encode(patch),), self.book.version + 1)
        self.book.kill(draft, [(sequencer, Outcome.APPLIED, "") for sequencer in killed])
        self.book.number_queue(draft)
        self.given += [event.sequencer for event in draft.numbered]
        self.obey(self.book.close(draft))

    @rule(ahead=st.integers(0, 3))
    def skip(self, ahead: int) -> None:
        self.book.skip_to(self.book.next_sequencer + ahead)
        self.obey(self.book.close(Draft()))

    @rule()
    def restart(self) -> None:
        saved = self.disk.load()
        assert saved is not None
        self.book = DeviceBook("ada", saved, self.limits)

    @invariant()
    def the_disk_is_the_book(self) -> None:
        assert self.disk.load() == self.book.saved()

    @invariant()
    def numbers_rise(self) -> None:
        assert self.given == sorted(dict.fromkeys(self.given))
        assert self.book.next_sequencer > max(self.book.pending, default=0)


TestBookAndDisk = BookAndDisk.TestCase
TestBookAndDisk.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)

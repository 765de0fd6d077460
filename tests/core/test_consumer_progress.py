"""How far a member of a consumer group is."""

from __future__ import annotations

from octoloom.core.consumer_progress import Progress

A, B = ("orders", 0), ("orders", 1)


def test_what_was_handed_out_is_done_when_the_next_is_asked_for() -> None:
    progress = Progress()
    progress.begin({A: 5, B: 0}, {A: 5})
    assert progress.not_committed(progress.done) == {B: 0}
    progress.on_handed_out(A, 9)
    assert (progress.done, progress.handed_out) == ({A: 5, B: 0}, {A: 9, B: 0})
    progress.on_next_asked()
    assert progress.done == {A: 9, B: 0}
    progress.on_committed({A: 9})
    assert progress.not_committed(progress.done) == {B: 0}
    progress.end()
    assert progress.done == progress.handed_out == {}


def test_what_the_app_says_counts_until_more_is_done() -> None:
    progress = Progress()
    progress.begin({A: 0}, {})
    progress.on_handed_out(A, 9)
    progress.on_committed({A: 4})
    progress.on_chosen({A: 4})
    assert progress.not_committed(progress.done) == {}
    progress.on_next_asked()
    assert progress.not_committed(progress.done) == {A: 9}


def lost_after(*steps: tuple[str, object]) -> list[bool]:
    progress, seen = Progress(), []
    for name, arguments in steps:
        getattr(progress, name)(*(arguments if isinstance(arguments, tuple) else ()))
        seen.append(progress.has_lost)
    return seen


def test_what_went_before_it_was_committed_is_lost_until_something_is_handed_out() -> None:
    begin, more, end = ("begin", ({A: 5}, {A: 5})), ("on_handed_out", (A, 9)), ("end", None)
    assert lost_after(begin, end) == [False, False]
    assert lost_after(begin, more, end, begin, more) == [False, False, True, True, False]
    assert lost_after(begin, more, ("on_committed", ({A: 9},)), end) == [False] * 4


def test_what_is_committed_of_others_partitions_is_not_kept() -> None:
    progress = Progress()
    progress.begin({A: 5}, {})
    progress.on_committed({A: 5, B: 7})
    progress.on_chosen({A: 6, B: 7})
    assert (progress.committed, progress.done) == ({A: 5}, {A: 6})

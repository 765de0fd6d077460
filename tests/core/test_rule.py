"""The rule of a space: what becomes of its events depends on their order alone, whoever computes them and when."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from octoloom.core.app import App, AppEvent
from octoloom.core.backlog import Backlog
from octoloom.core.compute import Worker
from octoloom.core.event import RULE, TIMER, Event, JournalEntry, Outcome
from octoloom.core.fold import Fold
from octoloom.core.merge_patch import same
from octoloom.core.replay import Divergence, Replayer
from octoloom.core.space import Space, encode_json
from tests.core.rule_story import FirstWorker, Story, Twin, drawn_events, history, make_app, split


def make_door() -> App:
    """Who comes to a closed door waits; `open` lets them in."""
    app = App("door", state={"is_open": False, "seen": []})

    @app.on("wait")
    def wait(state: Any, event: AppEvent) -> None:
        if not state["is_open"]:
            event.defer()
        state["seen"].append("waited")

    @app.on("open")
    def open_it(state: Any, event: AppEvent) -> None:
        state["is_open"] = True
        state["seen"].append("open")

    @app.on("move")
    def move(state: Any, event: AppEvent) -> None:
        state["seen"].append("move")

    @app.on("regret")
    def regret(state: Any, event: AppEvent) -> None:
        event.cancel(event.after(500, "move"))

    return app


def events_of(*names: str) -> list[Event]:
    return [Event(at, "ada", at, name, encode_json(None), 1000 + at, at * 7) for at, name in enumerate(names, start=1)]


def computed(app: App, *steps: list[Event]) -> Space:
    """The space, after a tail has taken these steps."""
    space = Space("hall")
    worker = Worker(app, space)
    for step in steps:
        for event in step:
            assert space.add(event)
            worker.inbox.append(event)
        worker.step(1)
    return space


def folded(app: App, events: list[Event]) -> Fold:
    fold = Fold(app)
    for event in events:
        fold.take(event)
    return fold


def test_a_deferred_event_is_tried_again_right_after_the_event_that_freed_it() -> None:
    events = events_of("wait", "open", "move")
    expected = ["open", "waited", "move"]
    assert computed(make_door(), events).state["seen"] == expected
    assert computed(make_door(), *[[event] for event in events]).state["seen"] == expected
    assert folded(make_door(), events).state["seen"] == expected


def test_a_timer_that_one_event_sets_and_cancels_never_goes_off() -> None:
    events = events_of("regret")
    space, fold = computed(make_door(), events), folded(make_door(), events)
    assert (list(space.timers), list(fold.timers)) == ([], [])
    assert space.next_timer == fold.next_timer == 2, "its number is spent, here as there"


# Any split of any history.

cuts = st.lists(st.integers(0, 30), max_size=8)
quarantines = st.lists(st.integers(1, 25), max_size=2, unique=True).map(tuple)


@settings(deadline=None, max_examples=300)
@given(drawn_events, cuts, st.integers(1, 5), quarantines, st.booleans())
def test_how_events_are_batched_changes_nothing(
    drawn: list[tuple[str, int, int]], cuts: list[int], batch_max: int, quarantined: tuple[int, ...], hands_over: bool
) -> None:
    """Nor does it who computes them: a tail that takes over goes on as the last one would have."""
    events = history(drawn, quarantined)
    whole, parts = Story(quarantined=quarantined), Story(quarantined=quarantined)
    whole.step(events)
    for step in split(events, cuts):
        parts.step(step, batch_max)
        if hands_over:
            parts.hand_over()
    assert parts.result() == whole.result()


@settings(deadline=None, max_examples=300)
@given(drawn_events, cuts)
def test_tail_fold_and_the_rule_at_its_simplest_agree(drawn: list[tuple[str, int, int]], cuts: list[int]) -> None:
    events = history(drawn)
    tail, fold, twin = Story(), folded(make_app(), events), Twin(make_app())
    for step in split(events, cuts):
        tail.step(step)
    for event in events:
        twin.take(event)
    state, kills, timers, next_timer, _, live = tail.result()
    assert kills == twin.ended
    assert live == [event.chain_sequencer for event in twin.live] == [event.chain_sequencer for event in fold.deferred]
    assert timers == twin.timers
    assert sorted(timers) == sorted(fold.timers)
    assert next_timer == twin.next_timer == fold.next_timer
    assert state in (None, twin.state)
    assert fold.state == twin.state
    assert (fold.applied + fold.rejected, fold.applied) == (
        len(kills),
        sum(outcome is Outcome.APPLIED for _, outcome in kills),
    )


@settings(deadline=None, max_examples=300)
@given(drawn_events, cuts, quarantines, st.sampled_from([Worker, FirstWorker]), st.booleans())
def test_what_a_tail_has_journaled_comes_out_the_same(
    drawn: list[tuple[str, int, int]],
    cuts: list[int],
    quarantined: tuple[int, ...],
    kind: type[Worker],
    hands_over: bool,
) -> None:
    """By today's rule, and by the one before."""
    story = Story(kind, quarantined, is_live=True)
    for step in split(history(drawn), cuts):
        story.step(step)
        if hands_over:
            story.hand_over()
    replayer = Replayer("table", make_app())
    assert [found for entry in story.entries for found in replayer.read(1, entry)] == []
    assert not story.space.version or same(replayer.state, story.space.state)
    assert replayer.verdict().clean


@settings(deadline=None, max_examples=100)
@given(drawn_events, cuts, st.integers(0, 25))
def test_a_journal_may_go_from_one_rule_to_the_other(
    drawn: list[tuple[str, int, int]], cuts: list[int], at: int
) -> None:
    story = Story(FirstWorker, is_live=True)
    for step in split(history(drawn), cuts):
        if step[0].chain_sequencer > at:
            story.kind = Worker
        story.hand_over()
        story.step(step)
    replayer = Replayer("table", make_app())
    assert [found for entry in story.entries for found in replayer.read(1, entry)] == []
    assert not story.space.version or same(replayer.state, story.space.state)


# One thing at a time.


def test_the_first_that_does_not_wait_is_next() -> None:
    """The third frees the second, the second the first: neither waits for those behind it."""
    app = App("chain", state={"done": []})

    @app.on("go")
    def go(state: Any, event: AppEvent) -> None:
        if event.payload and event.payload not in state["done"]:
            event.defer()
        state["done"].append(event.sequencer)

    needs = [2, 3, 5, 5, 0, 0]
    events = [Event(at, "ada", at, "go", encode_json(need), 0, 0) for at, need in enumerate(needs, start=1)]
    assert computed(app, events).state["done"] == [5, 3, 2, 1, 4, 6]
    assert folded(app, events).state["done"] == [5, 3, 2, 1, 4, 6]


def test_an_event_that_waited_may_be_rejected_and_frees_nobody() -> None:
    story = Story()
    story.step(history([("wait", 2, 0), ("refuse later", 1, 0), ("note", 1, 0)]))
    assert story.kills == [(3, Outcome.APPLIED), (2, Outcome.REJECTED)]
    assert story.space.timers == {}, "what it has set is not set"
    assert story.space.next_timer == 1


def test_a_timer_that_waits_can_be_cancelled() -> None:
    story = Story()
    story.step(history([("fuse", 1, 0), ("bang", 1, 0), ("wait", 5, 0)]))
    assert story.kills == [(1, Outcome.APPLIED), (2, Outcome.APPLIED)]
    story = Story()
    events = history([("fuse", 5, 0), ("bang", 1, 0), ("wet", 1, 0)])
    waits = [structs.replace(event, payload=b"5") if event.device == TIMER else event for event in events]
    story.step(waits)
    assert story.kills == [(1, Outcome.APPLIED), (3, Outcome.APPLIED), (2, Outcome.SUPERSEDED)]
    assert story.space.timers == {}


def test_a_step_ends_when_enough_was_tried_however_few_events_that_were() -> None:
    story = Story()
    story.step(history([("wait", 8, 0)] * 5))
    for event in [Event(at, "ada", at, "note", b"0", 0, 0) for at in range(6, 9)]:
        assert story.space.add(event)
        story.worker.inbox.append(event)
    change = story.worker.step(1, batch_max=4)
    assert change is not None
    assert [kill.chain_sequencer for kill in change.kills] == [6], "it has tried the five that wait as well"
    assert len(story.worker.inbox) == 2


# What was written by the first rule.


def first_rule_journal(*steps: list[Event]) -> list[JournalEntry]:
    space = Space("door")
    space.backlog = Backlog()
    worker = FirstWorker(make_door(), space)
    for step in steps:
        for event in step:
            space.add(event)
            worker.inbox.append(event)
        worker.step(1)
    return space.backlog.entries()


def replayed(entries: list[JournalEntry]) -> tuple[list[Divergence], Any]:
    replayer = Replayer("door", make_door())
    return [found for entry in entries for found in replayer.read(1, entry)], replayer.own_state


def test_an_order_that_the_first_rule_gave_is_taken_as_it_was_recorded() -> None:
    [entry] = first_rule_journal(events_of("wait", "open", "move"))
    found, state = replayed([entry])
    assert (found, state["seen"]) == ([], ["open", "move", "waited"])
    assert entry.change is not None
    claims = structs.replace(entry, change=structs.replace(entry.change, rule=RULE))
    [found_now] = replayed([claims])[0]
    assert (found_now.what, found_now.sequencer) == ("deferral", 1)
    assert (found_now.recorded, found_now.replayed) == ("deferred", "applied")


def test_a_timer_that_the_first_rule_did_not_cancel_goes_off() -> None:
    regret = events_of("regret")
    fires = Event(2, TIMER, 1, "move", b"null", 1600, 3)
    entries = first_rule_journal(regret, [fires])
    found, state = replayed(entries)
    assert (found, state["seen"]) == ([], ["move"])
    assert entries[0].change is not None
    claims = structs.replace(entries[0], change=structs.replace(entries[0].change, rule=RULE))
    assert [each.what for each in replayed([claims])[0]] == ["timers"]


def test_code_that_waits_longer_within_a_change_is_found() -> None:
    story = Story()
    story.step(history([("wait", 1, 0), ("note", 1, 0), ("note", 1, 0)]))
    app = make_app()
    wait = app.handlers["wait"]

    def longer(state: Any, event: AppEvent) -> None:
        if state["count"] < 2:
            event.defer()
        wait(state, event)

    app.handlers["wait"] = longer
    [found] = Replayer("table", app).read(1, story.entries[0])
    assert (found.what, found.name, found.recorded, found.replayed) == ("deferral", "wait", "applied", "deferred")

"""What only a tail does: one worker per space, and no event that may end the process without a trial."""

from __future__ import annotations

from typing import Any

from octoloom.core.app import App, AppEvent
from octoloom.core.compute import Fault
from octoloom.core.effects import Effect, Trial
from octoloom.core.event import Change, Event
from octoloom.core.recorder import LOAD_NODES
from octoloom.core.space import Space
from octoloom.core.tail import LOADS_MAX, Tail


def make_app() -> App:
    app = App("tally")

    @app.on("put")
    def put(state: Any, event: AppEvent) -> None:
        state.setdefault("puts", []).append(event.sequencer)

    @app.on("wait")
    def wait(state: Any, event: AppEvent) -> None:
        if "puts" not in state:
            event.defer()

    @app.on("fail")
    def fail(state: Any, event: AppEvent) -> None:
        raise ValueError("oops")

    return app


class End:
    """A tail with its spaces; `turn` is one turn of the link."""

    def __init__(self) -> None:
        self.spaces: dict[str, Space] = {}
        self.tail = Tail(make_app())
        self.out: list[Effect] = []

    def space(self, name: str = "lobby") -> Space:
        return self.spaces.setdefault(name, Space(name))

    def hold(self, name: str = "put", space: str = "lobby") -> Event:
        """An event that was here before this link became the tail."""
        held = self.space(space)
        number = held.next_chain_sequencer
        event = Event(number, "ada", number, name, b"null", 1000, number)
        held.add(event)
        return event

    def event(self, name: str = "put", space: str = "lobby") -> Event:
        event = self.hold(name, space)
        self.tail.on_events(self.space(space), [event])
        return event

    def take_office(self, suspicious: bool) -> list[Effect]:
        return self.tail.take_office(self.spaces, suspicious)

    def busy(self) -> bool:
        return self.tail.busy

    def turn(self, careful: bool = False) -> list[tuple[str, list[int]]]:
        """Which events of which spaces were consumed."""
        changes = self.tail.compute(1, careful, self.out)
        return [(space.name, [kill.chain_sequencer for kill in change.kills]) for space, change in changes]


def trials(effects: list[Effect]) -> list[tuple[str, list[int]]]:
    tried = [effect for effect in effects if isinstance(effect, Trial)]
    return [(trial.space, [event.chain_sequencer for event in trial.events]) for trial in tried]


# Computing.


def test_each_space_with_something_to_do_makes_one_step() -> None:
    end = End()
    end.event()
    end.event(space="attic")
    end.event()
    assert end.busy()
    assert end.turn() == [("lobby", [1, 2]), ("attic", [1])]
    assert not end.busy()
    assert end.turn() == []


def test_a_large_batch_is_spread_over_turns() -> None:
    end = End()
    end.tail.batch_max = 2
    for _ in range(5):
        end.event()
    assert [end.turn(), end.turn(), end.turn()] == [[("lobby", [1, 2])], [("lobby", [3, 4])], [("lobby", [5])]]


def test_what_only_waits_keeps_nobody_busy() -> None:
    end = End()
    end.event("wait")
    assert end.turn() == []
    assert not end.busy()
    end.event("put")
    assert end.turn() == [("lobby", [2, 1])]


def test_faults_are_told_once() -> None:
    end = End()
    end.event("fail")
    end.turn()
    assert [type(effect) for effect in end.out] == [Fault]
    end.event()
    end.turn()
    assert len(end.out) == 1


# Taking over.


def test_a_tail_in_good_order_computes_what_it_finds_at_once() -> None:
    end = End()
    end.hold()
    assert end.take_office(suspicious=False) == []
    assert end.busy()
    assert end.turn() == [("lobby", [1])]


def test_after_a_lost_tail_what_was_live_is_tried_first_and_other_spaces_go_on() -> None:
    end = End()
    end.hold()
    end.hold()
    end.space("attic")
    assert trials(end.take_office(suspicious=True)) == [("lobby", [1, 2])], "an empty space has no suspects"
    end.event(space="attic")
    end.event()
    assert end.turn() == [("attic", [1])]
    assert not end.busy(), "what is on trial wants no turn"
    end.tail.on_trial("lobby", [])
    assert end.busy()
    assert end.turn() == [("lobby", [1, 2, 3])]


def test_while_one_space_is_on_trial_another_wants_its_turn() -> None:
    end = End()
    end.hold()
    end.space("attic")
    end.take_office(suspicious=True)
    assert not end.busy()
    end.event(space="attic")
    assert end.busy()


def test_whoever_is_no_longer_the_tail_has_no_doubts() -> None:
    end = End()
    end.hold()
    end.take_office(suspicious=True)
    assert end.tail.doubting
    end.tail.leave_office()
    end.take_office(suspicious=False)
    assert not end.tail.doubting, "else it would never teach a learner"


def test_what_ended_the_trial_is_quarantined() -> None:
    end = End()
    end.hold()
    end.hold()
    end.take_office(suspicious=True)
    end.tail.on_trial("lobby", [2])
    ((_, change),) = end.tail.compute(1, False, end.out)
    assert [(kill.chain_sequencer, kill.outcome.word) for kill in change.kills] == [(1, "applied"), (2, "quarantined")]


def test_a_trial_that_nobody_asked_for_is_ignored() -> None:
    end = End()
    end.event()
    end.tail.on_trial("lobby", [1])
    end.tail.on_trial("elsewhere", [1])
    ((_, change),) = end.tail.compute(1, False, end.out)
    assert [kill.outcome.word for kill in change.kills] == ["applied"]


def test_out_of_office_it_holds_nothing_and_the_state_is_plain_again() -> None:
    end = End()
    end.event()
    end.turn()
    end.tail.leave_office()
    assert (end.tail.workers, end.busy()) == ({}, False)
    assert type(end.space().state) is dict
    end.space().apply(Change(1, 2, False, b'{"puts":[9]}', []))
    assert end.space().state == {"puts": [9]}


# The last copy.


def test_the_last_copy_tries_every_event_before_it_computes_it() -> None:
    end = End()
    end.event()
    assert end.turn(careful=True) == []
    assert trials(end.out) == [("lobby", [1])]
    assert end.turn(careful=True) == []
    assert len(end.out) == 1, "one trial at a time"
    end.tail.on_trial("lobby", [])
    assert end.turn(careful=True) == [("lobby", [1])]
    end.event()
    assert end.turn(careful=True) == []
    assert trials(end.out) == [("lobby", [1]), ("lobby", [2])]


def test_what_came_through_a_trial_is_computed_even_if_more_has_come_meanwhile() -> None:
    """Otherwise a last copy under a steady stream of events would try for ever and never compute."""
    end = End()
    end.event()
    end.turn(careful=True)
    consumed = []
    for _ in range(5):
        end.event()
        end.tail.on_trial("lobby", [])
        consumed += end.turn(careful=True)
    assert consumed != []


def test_the_last_copy_that_is_joined_computes_without_trials_again() -> None:
    end = End()
    end.event()
    end.turn(careful=True)
    end.tail.on_trial("lobby", [])
    end.turn(careful=True)
    end.event()
    assert end.turn(careful=False) == [("lobby", [2])]


# Large states.


def test_a_large_state_is_made_ready_over_several_turns_and_others_go_on() -> None:
    end = End()
    end.space("large").state = {str(n): {"x": n} for n in range(2 * LOAD_NODES)}
    end.space("large").version = 1
    end.take_office(suspicious=False)
    large, small = end.event(space="large"), end.event(space="small")
    assert end.turn() == [("small", [small.chain_sequencer])]
    assert end.busy()
    assert type(end.space("large").state) is dict
    turns = 1
    while not (changes := end.turn()):
        turns += 1
    assert turns > 1
    assert changes == [("large", [large.chain_sequencer])]
    assert not end.busy()


def test_a_state_that_was_not_made_ready_is_given_back_as_it_was() -> None:
    end = End()
    state = end.space("large").state = {str(n): {"x": n} for n in range(2 * LOAD_NODES)}
    end.take_office(suspicious=False)
    end.event(space="large")
    end.turn()
    end.tail.leave_office()
    assert end.space("large").state is state


def test_a_turn_makes_few_states_ready() -> None:
    end = End()
    end.take_office(suspicious=False)
    for number in range(LOADS_MAX + 3):
        end.event(space=f"room{number}")
    assert len(end.turn()) == LOADS_MAX
    assert len(end.turn()) == 3

"""Which event, and which place of the state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.app import App, AppEvent
from octoloom.core.event import Event
from octoloom.core.merge_patch import same
from octoloom.core.replay_search import TEXT_MAX, Difference, differences, first_difference, suspect, told
from octoloom.core.space import Space

values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("xyz", max_size=1), inner, max_size=3),
)
states = st.dictionaries(st.text("xyz", max_size=1), values, max_size=3)


@given(states, states)
def test_there_is_a_difference_exactly_if_two_states_differ(one: Any, other: Any) -> None:
    assert (first_difference(one, other) is None) == same(one, other)


@pytest.mark.parametrize(
    ("one", "other", "path", "sides"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b", ("1", "2")),
        ({"a": {}}, {"a": {"b": "x"}}, "a.b", ("nothing", '"x"')),
        ({"b": 1, "a": 1}, {"b": 2, "a": True}, "a", ("1", "true")),
        ({"a": [1, 2]}, {"a": [2, 1]}, "a", ("[1,2]", "[2,1]")),
    ],
)
def test_the_first_place_that_differs_is_named(one: Any, other: Any, path: str, sides: tuple[str, str]) -> None:
    found = first_difference(one, other)
    assert found is not None
    assert (".".join(found.path), found.recorded, found.replayed) == (path, *sides)


def test_all_places_that_differ_are_found() -> None:
    one: Any = {"a": {"x": 1, "y": 2}, "b": [1], "c": 3}
    other: Any = {"a": {"x": 2, "y": 2}, "b": [2], "d": 4}
    assert [".".join(each.path) for each in differences(one, other)] == ["a.x", "b", "c", "d"]


def test_a_difference_reads_well() -> None:
    difference = Difference(("cells", "b4"), '"ada"', "nothing")
    assert str(difference) == 'cells.b4 is "ada", and would be nothing'
    assert difference.sides == ('cells.b4 = "ada"', "cells.b4 = nothing")


def test_long_values_are_cut() -> None:
    assert len(told(b"x" * 10_000)) == TEXT_MAX


def writer() -> App:
    app = App("writer", state={"set": {}})

    @app.on("set")
    def put(state: Any, event: AppEvent) -> None:
        state["set"][event.payload] = event.sequencer

    @app.on("ring")
    def ring(state: Any, event: AppEvent) -> None:
        event.after(10, "bang")

    return app


def events(*payloads: str) -> list[Event]:
    return [
        Event(number, "ada", number, "set", b'"%s"' % payload.encode(), 0, 0)
        for number, payload in enumerate(payloads, start=1)
    ]


@pytest.mark.parametrize(
    ("payloads", "path", "number", "certain"),
    [
        ("abc", ("set", "b"), 2, True),
        ("abab", ("set", "b"), 2, False),  # two wrote there: the first, and it may be the other
        ("abc", ("set",), 1, False),
        ("abc", ("elsewhere",), 1, False),  # the recorded code wrote where this code does not
        ("a", ("elsewhere",), 1, True),
    ],
)
def test_the_suspect_is_the_first_that_writes_there(
    payloads: str, path: tuple[str, ...], number: int, certain: bool
) -> None:
    found, is_certain, _ = suspect(writer(), {}, Space("s"), events(*payloads), {1, 2, 3, 4}, [path])
    assert found is not None
    assert (found.sequencer, is_certain) == (number, certain)


def test_the_suspect_of_a_timer_is_who_sets_one() -> None:
    ringing = Event(4, "ada", 4, "ring", b"null", 0, 0)
    found, certain, _ = suspect(writer(), {}, Space("s"), [*events("a", "b", "c"), ringing], {1, 2, 3, 4}, [])
    assert (found, certain) == (ringing, True)


def test_of_several_places_the_one_that_was_written_first_counts() -> None:
    paths = [("set", "a"), ("set", "b"), ("set", "c")]
    found, certain, at = suspect(writer(), {}, Space("s"), events("c", "b", "a", "b"), {1, 2, 3, 4}, paths)
    assert found is not None
    assert (found.sequencer, certain, at) == (1, True, 2)


def test_the_state_before_is_left_as_it_is() -> None:
    before: dict[str, Any] = {"set": {}}
    suspect(writer(), before, Space("s"), events("a"), {1}, [("set", "a")])
    assert before == {"set": {}}

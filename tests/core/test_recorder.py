"""The recorder's promises, one by one: small patches, exact undo, a tree without shared nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from octoloom.core.merge_patch import copied
from octoloom.core.recorder import Record, Recorder


def test_a_small_write_is_a_small_patch() -> None:
    recorder = Recorder({"cells": {"a": 1, "b": 2}, "turn": 7})
    recorder.state["cells"]["x"] = 3
    del recorder.state["cells"]["b"]
    assert recorder.take() == (False, {"cells": {"x": 3, "b": None}})


def test_what_ended_as_it_began_is_not_in_the_patch() -> None:
    recorder = Recorder({"a": {"b": [1, {"c": 2}]}, "n": 1})
    recorder.state["n"] += 1
    recorder.state["n"] -= 1
    recorder.state["new"] = 1
    del recorder.state["new"]
    recorder.state["a"]["b"][1]["c"] = 3
    recorder.state["a"] = {"b": [1, {"c": 2}]}
    assert recorder.take() == (False, {})


def test_a_replaced_object_is_compared_with_what_it_was_at_the_last_take() -> None:
    recorder = Recorder({"a": {"x": 1, "y": 1}})
    recorder.state["a"]["x"] = 2
    recorder.state["a"] = {"x": 2, "y": 1}
    assert recorder.take() == (False, {"a": {"x": 2}})


def test_a_list_is_sent_whole() -> None:
    recorder = Recorder({"rows": [[1], {"a": [2]}]})
    recorder.state["rows"][1]["a"].append(3)
    assert recorder.take() == (False, {"rows": [[1], {"a": [2, 3]}]})


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_list_speaks_for_the_lists_and_objects_inside(depth: int) -> None:
    rows: Any = {"a": 1}
    for _ in range(depth):
        rows = [rows]
    recorder = Recorder({"rows": rows})
    inner = recorder.state["rows"]
    for _ in range(depth):
        inner = inner[0]
    inner["a"] = 2
    assert recorder.take() == (False, copied(recorder.state))


def test_a_null_member_needs_a_replace_once() -> None:
    recorder = Recorder({"a": 1, "old": None})
    recorder.state["a"] = None
    replace, state = recorder.take()
    assert (replace, state) == (True, {"a": None, "old": None})
    assert type(state) is dict
    recorder.state["b"] = [None, {"c": None}]
    assert recorder.take() == (False, {"b": [None, {"c": None}]})


def test_a_node_that_was_taken_out_keeps_its_content() -> None:
    recorder = Recorder({"a": {"n": 1}, "rows": [{"m": 1}]})
    held, row = recorder.state["a"], recorder.state["rows"].pop()
    recorder.state["a"] = {}
    held["n"], row["m"] = 2, 2
    assert (held, row) == ({"n": 2}, {"m": 2})
    assert recorder.take() == (False, {"a": {"n": None}, "rows": []})


def test_undo_restores_the_order_of_keys() -> None:
    recorder = Recorder({key: {"n": 1} for key in "abcdef"})
    before = msgspec.json.encode(recorder.state)
    recorder.begin()
    for key in "bdb":
        recorder.state.pop(key, None)
        recorder.state[key] = key
    recorder.state["new"] = 1
    del recorder.state["a"]["n"]
    recorder.state.clear()
    recorder.undo()
    assert msgspec.json.encode(recorder.state) == before
    assert recorder.take() == (False, {})


def test_keys_that_came_after_a_delete_keep_their_order() -> None:
    recorder = Recorder(dict.fromkeys("ab", 1))
    events: list[tuple[Callable[[], Any], bool]] = [
        (lambda: recorder.state.pop("a"), True),
        (lambda: recorder.state.update(x=1), False),
        (lambda: recorder.state.update(y=1), True),
        (lambda: recorder.state.update(x=1), True),
        (lambda: recorder.state.update(z=1), True),
        (lambda: recorder.state.pop("x"), False),
        (lambda: recorder.state.pop("b"), False),
    ]
    for event, is_kept in events:
        recorder.begin()
        event()
        (recorder.keep if is_kept else recorder.undo)()
    assert list(recorder.state) == ["b", "y", "x", "z"]


def test_undo_takes_back_one_transaction_only() -> None:
    recorder = Recorder({"n": 1})
    recorder.begin()
    recorder.state["n"] = 2
    recorder.keep()
    recorder.begin()
    recorder.state["n"] = 3
    recorder.state["m"] = 3
    recorder.undo()
    assert recorder.take() == (False, {"n": 2})


@pytest.mark.parametrize("misuse", ["keep", "undo"])
def test_a_transaction_has_one_beginning_and_one_end(misuse: str) -> None:
    recorder = Recorder({})
    with pytest.raises(AssertionError):
        getattr(recorder, misuse)()
    recorder.begin()
    for too_early in (recorder.begin, recorder.take):
        with pytest.raises(AssertionError):
            too_early()


def test_a_patch_shares_nothing_with_the_state() -> None:
    recorder = Recorder({"rows": []})
    recorder.state["cells"] = {"a": [1]}
    recorder.state["rows"].append({"n": 1})
    _, patch = recorder.take()
    recorder.state["cells"]["a"].append(2)
    recorder.state["rows"][0]["n"] = 2
    assert patch == {"cells": {"a": [1]}, "rows": [{"n": 1}]}


def test_take_does_not_walk_the_state() -> None:
    class Untouchable(Record):
        __slots__ = ()

        def items(self) -> Any:
            raise AssertionError("walked over the state")

        __iter__ = values = keys = items

    recorder = Recorder({"cells": {"a": 1}, "big": {"a": {"b": 1}}})
    for node in (recorder.state["big"], recorder.state["cells"]):
        node.__class__ = Untouchable
    recorder.begin()
    del recorder.state["big"]
    recorder.undo()
    assert recorder.take() == (False, {})
    recorder.state.__class__ = Untouchable
    recorder.begin()
    recorder.state["cells"]["x"] = 1
    recorder.state["big"] = 0
    recorder.keep()
    assert recorder.take() == (False, {"cells": {"x": 1}, "big": 0})


def test_a_large_state_is_taken_in_a_part_at_a_time() -> None:
    state = {"a": {str(n): {"x": [n, {"y": n}]} for n in range(50)}, "b": 1}
    recorder = Recorder(state, nodes_max=10)
    parts = 1
    while not recorder.load():
        parts += 1
    assert parts > 10
    assert recorder.load()
    assert recorder.state == state
    recorder.state["a"]["3"]["x"][1]["y"] = 9
    assert recorder.take() == (False, {"a": {"3": {"x": [3, {"y": 9}]}}})

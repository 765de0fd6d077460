"""The recorder against a plain twin: the same writes, a deep copy for each undo, a full diff for each take."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core.merge_patch import CannotPatch, apply, copied, diff
from octoloom.core.recorder import Record, Recorder, RecordList

keys = st.sampled_from("abcd")
scalars = st.sampled_from([True, 0, 1, 1.0, "x", "é"])
values = st.recursive(
    scalars | st.none(),
    lambda inner: st.dictionaries(keys, inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=6,
)
states = st.dictionaries(keys, values, min_size=1, max_size=4)


def text(value: Any) -> str:
    """Tells True from 1, and one order of keys from another."""
    return json.dumps(value)


def write_dict(node: dict[str, Any], write: int, key: str, value: Any) -> None:
    operations: list[Callable[[], Any]] = [
        lambda: node.__setitem__(key, copied(value)),
        lambda: node.pop(key, None),
        lambda: node.setdefault(key, copied(value)),
        lambda: node.update({key: copied(value), "d": 1}, c=copied(value)),
        lambda: node.popitem() if node else None,
        lambda: node.clear(),
        lambda: node.__ior__({key: copied(value)}),
        lambda: node.__delitem__(key) if key in node else None,
    ]
    operations[write % len(operations)]()


def write_list(node: list[Any], write: int, key: str, value: Any) -> None:
    index = ord(key) % (len(node) + 1)
    operations: list[Callable[[], Any]] = [
        lambda: node.append(copied(value)),
        lambda: node.pop() if node else None,
        lambda: node.insert(index, copied(value)),
        lambda: node.extend([copied(value), 1]),
        lambda: node.__setitem__(slice(index), [copied(value)]),
        lambda: node.reverse(),
        lambda: node.sort(key=text, reverse=True),
        lambda: node.__iadd__((copied(value),)),
        lambda: double(node) if len(node) < 4 else node.__imul__(0),
        lambda: node.__delitem__(slice(index, None)),
        lambda: node.remove(node[-1]) if node else None,
        lambda: node.__setitem__(-1, copied(value)) if node else None,
    ]
    operations[write % len(operations)]()


def double(node: list[Any]) -> None:
    """A plain list would hold the same items twice; in a tree each place has its own."""
    if isinstance(node, RecordList):
        node *= 2
    else:
        node.extend(copied(node))


def containers(value: Any) -> list[Any]:
    """Every dict and list of a tree, in an order that does not depend on that of the keys."""
    if isinstance(value, dict):
        return [value, *(node for key in sorted(value) for node in containers(value[key]))]
    return [value, *(node for item in value for node in containers(item))] if isinstance(value, list) else []


class Twins:
    """The recorder, the plain state, what replicas have, and nodes that a reducer still holds."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.recorder = Recorder(state)
        self.plain = deepcopy(state)
        self.replica = deepcopy(state)
        self.held: list[tuple[Any, Any]] = []
        self.begun: dict[str, Any] | None = None

    def pick(self, place: int) -> tuple[Any, Any]:
        """The same node in both, inside the state or a held one."""
        pairs = list(zip(containers(self.recorder.state), containers(self.plain), strict=True)) + self.held
        return pairs[place % len(pairs)]

    def write(self, place: int, write: int, key: str, value: Any) -> None:
        for node in self.pick(place):
            if isinstance(node, dict):
                write_dict(node, write, key, value)
            else:
                write_list(node, write, key, value)

    def hold(self, place: int) -> None:
        self.held.append(self.pick(place))

    def move(self, place: int, key: str) -> None:
        """Writes a node of the state to another place: `state["a"] = state["b"]["c"]`."""
        recorded, plain = self.pick(place)
        if len(text(plain)) < 200:
            self.recorder.state[key] = recorded
            self.plain[key] = self.plain[key] if self.plain.get(key) is plain else deepcopy(plain)

    def begin(self) -> None:
        self.settle()
        self.recorder.begin()
        self.begun = deepcopy(self.plain)

    def settle(self) -> None:
        if self.begun is not None:
            self.recorder.keep()
            self.begun = None

    def undo(self) -> None:
        if self.begun is not None:
            self.recorder.undo()
            self.plain, self.begun, self.held = self.begun, None, []

    def take(self) -> None:
        self.settle()
        try:
            expected: tuple[bool, Any] = False, diff(self.replica, self.plain)
        except CannotPatch:
            expected = True, self.plain
        replace, patch = self.recorder.take()
        assert (replace, json.dumps(patch, sort_keys=True)) == (expected[0], json.dumps(expected[1], sort_keys=True))
        self.replica = patch if replace else apply(self.replica, patch)
        assert json.dumps(self.replica, sort_keys=True) == json.dumps(self.plain, sort_keys=True)

    def check(self) -> None:
        assert msgspec.json.encode(self.recorder.state) == msgspec.json.encode(self.plain)
        for recorded, plain in self.held:
            assert text(recorded) == text(plain)


places = st.integers(0, 11)
steps = st.one_of(
    st.tuples(st.just("write"), places, st.integers(0, 23), keys, values),
    st.tuples(st.just("write"), places, st.integers(0, 23), keys, values),
    st.tuples(st.just("move"), places, keys),
    st.tuples(st.sampled_from(["hold"]), places),
    st.tuples(st.sampled_from(["begin", "undo", "take"])),
)


@settings(max_examples=400, deadline=None)
@given(states, st.lists(steps, max_size=25))
def test_recorder_and_plain_twin_agree(state: dict[str, Any], history: list[tuple[Any, ...]]) -> None:
    twins = Twins(state)
    for name, *arguments in history:
        getattr(twins, name)(*arguments)
        twins.check()
    twins.take()
    assert twins.recorder.take() == (False, {})


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
    for node in (recorder.state, recorder.state["big"], recorder.state["cells"]):
        node.__class__ = Untouchable
    recorder.begin()
    recorder.state["cells"]["x"] = 1
    recorder.state["big"] = 0
    recorder.keep()
    assert recorder.take() == (False, {"cells": {"x": 1}, "big": 0})

"""The recorder against a plain twin: the same writes, a deep copy for each undo, a full diff for each take."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core.merge_patch import CannotPatch, apply, copied, diff
from octoloom.core.recorder import Recorder, RecordList

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

    def event(self, steps: list[tuple[Any, ...]], ending: str) -> None:
        """What a reducer does with one event, which is kept or undone; `loose` writes have no transaction."""
        before = deepcopy(self.plain)
        if ending != "loose":
            self.recorder.begin()
        for name, *arguments in steps:
            getattr(self, name)(*arguments)
            self.check()
        if ending == "keep":
            self.recorder.keep()
        elif ending == "undo":
            self.recorder.undo()
            self.plain, self.held = before, []
        self.check()

    def take(self) -> None:
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
writes = st.tuples(st.just("write"), places, st.integers(0, 23), keys, values)
steps = st.one_of(writes, writes, st.tuples(st.just("move"), places, keys), st.tuples(st.just("hold"), places))
events = st.tuples(st.lists(steps, max_size=5), st.sampled_from(["keep", "undo", "undo", "loose"]), st.booleans())


@settings(max_examples=400, deadline=None)
@given(states, st.lists(events, max_size=8))
def test_recorder_and_plain_twin_agree(state: dict[str, Any], history: list[tuple[Any, str, bool]]) -> None:
    twins = Twins(state)
    for event_steps, ending, is_taken in history:
        twins.event(event_steps, ending)
        if is_taken:
            twins.take()
    twins.take()
    assert twins.recorder.take() == (False, {})

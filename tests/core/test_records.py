"""What a reducer may write into the state, and that it behaves as a tree of plain dicts and lists does."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from copy import deepcopy
from enum import IntEnum, StrEnum
from typing import Any

import msgspec
import pytest

from octoloom.core.merge_patch import copied
from octoloom.core.recorder import Recorder
from octoloom.core.records import NotJSON


def test_assigned_values_are_copies() -> None:
    recorder = Recorder({"a": {"n": 1}, "b": {"n": 2}})
    state = recorder.state
    state["a"], state["b"] = state["b"], state["a"]
    assert state == {"a": {"n": 2}, "b": {"n": 1}}
    state["a"] = state["b"]
    state["a"]["n"] = 5
    assert state["b"] == {"n": 1}
    state["self"] = state
    assert state["self"] == {"a": {"n": 5}, "b": {"n": 1}}


def test_setdefault_returns_the_node_in_the_state() -> None:
    recorder = Recorder({})
    recorder.state.setdefault("cells", {})["x"] = 1
    recorder.state.setdefault("rows", []).append(1)
    assert recorder.take() == (False, {"cells": {"x": 1}, "rows": [1]})


def test_writing_in_place_copies_nothing() -> None:
    recorder = Recorder({"cells": {"a": 1}, "rows": [[1]]})
    cells, rows, row = recorder.state["cells"], recorder.state["rows"], recorder.state["rows"][0]
    recorder.state["cells"] |= {"b": 2}
    recorder.state["rows"] += [2]
    recorder.state["rows"][0] += [3]
    assert recorder.state["cells"] is cells
    assert recorder.state["rows"] is rows
    assert rows[0] is row
    assert recorder.take() == (False, {"cells": {"b": 2}, "rows": [[1, 3], 2]})


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth > 1 else []


cycle: list[Any] = []
cycle.append(cycle)
NOT_JSON = [
    ({1}, "set is not JSON"),
    (object(), "object is not JSON"),
    (b"x", "bytes is not JSON"),
    (float("nan"), "out of range"),
    (float("inf"), "out of range"),
    (2**64, "out of range"),
    (-(2**63) - 1, "out of range"),
    ("\ud800", "out of range"),
    ({1: 1}, "the key is int"),
    ({"\udfff": 1}, "the key is str"),
    (nested(64), "nests deeper than 64"),
    (cycle, "nests deeper than 64"),
]


@pytest.mark.parametrize(("value", "reason"), NOT_JSON)
def test_what_is_not_json_is_refused_and_changes_nothing(value: Any, reason: str) -> None:
    recorder = Recorder({"a": {"b": [1]}})
    node = recorder.state["a"]
    writes: list[Callable[[], Any]] = [
        lambda: node.__setitem__("x", value),
        lambda: node.update(x=1, y={"z": value}),
        lambda: node.setdefault("x", value),
        lambda: node.__ior__({"w": 1, "x": value}),
        lambda: node["b"].append(value),
        lambda: node["b"].extend([1, value]),
        lambda: node["b"].insert(0, value),
        lambda: node["b"].__setitem__(0, value),
        lambda: node["b"].__setitem__(slice(None), [1, value]),
        lambda: node["b"].__iadd__([1, value]),
    ]
    for write in writes:
        with pytest.raises(NotJSON, match=reason):
            write()
        assert recorder.state == {"a": {"b": [1]}}
    assert recorder.take() == (False, {})


def test_the_root_is_the_first_level_of_depth() -> None:
    recorder = Recorder({"a": nested(63)})
    with pytest.raises(NotJSON):
        recorder.state["b"] = nested(64)


def test_a_refusal_names_the_place() -> None:
    recorder = Recorder({"cells": {"rows": [{}]}})
    with pytest.raises(NotJSON, match=r"^state\['cells'\]\['rows'\]\[…\]\['x'\]\['y'\]: set is not JSON"):
        recorder.state["cells"]["rows"][0]["x"] = {"y": {1}}
    with pytest.raises(NotJSON, match=r"^state\[1\]: the key is int"):
        recorder.state[1] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        Recorder({"a": {1}})


class Suit(StrEnum):
    HEARTS = "hearts"


class Rank(IntEnum):
    ACE = 14


def test_what_carries_json_becomes_plain() -> None:
    recorder = Recorder({})
    recorder.state.update({Suit.HEARTS: (Rank.ACE, Suit.HEARTS), "limits": [2**64 - 1, -(2**63)], "deep": nested(63)})
    assert type(next(iter(recorder.state))) is str
    assert [type(item) for item in recorder.state["hearts"]] == [int, str]
    decoded = msgspec.json.decode(msgspec.json.encode(recorder.state))
    assert decoded == {"hearts": [14, "hearts"], "limits": [2**64 - 1, -(2**63)], "deep": nested(63)}


@pytest.mark.parametrize("duplicate", [copy.copy, deepcopy, lambda node: pickle.loads(pickle.dumps(node)), copied])
def test_copies_are_plain(duplicate: Callable[[Any], Any]) -> None:
    recorder = Recorder({"a": {"b": [1, {}]}})
    assert duplicate(recorder.state) == {"a": {"b": [1, {}]}}
    assert type(duplicate(recorder.state)) is dict
    assert type(duplicate(recorder.state["a"]["b"])) is list


def test_misses_behave_as_in_a_dict() -> None:
    state = Recorder({}).state
    assert state.pop("x", 5) == 5
    for miss in (state.popitem, lambda: state.pop("x"), lambda: state.__delitem__("x")):
        with pytest.raises(KeyError):
            miss()

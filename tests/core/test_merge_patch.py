"""Merge patches against RFC 7396's own cases, and `diff` and `difference` against patching step by step."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.merge_patch import CannotPatch, apply, diff, difference, has_null_member, nests_deeper, same

keys = st.sampled_from("abc")
scalars = st.sampled_from([True, False, 0, 1, 1.0, 0.0, -0.0, "", "x"])
nullable = st.none() | scalars


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves, lambda inner: st.dictionaries(keys, inner, max_size=3) | st.lists(inner, max_size=2), max_leaves=8
    )


def objects(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(keys, trees(leaves), max_size=3)


def text(value: Any) -> str:
    """Tells True from 1 from 1.0, which `==` does not."""
    return json.dumps(value, sort_keys=True)


RFC_CASES = [
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('["a","b"]', '["c","d"]', '["c","d"]'),
    ('{"a":"b"}', '["c"]', '["c"]'),
    ('{"a":"foo"}', "null", "null"),
    ('{"a":"foo"}', '"bar"', '"bar"'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
    (
        '{"title":"Goodbye!","author":{"givenName":"John","familyName":"Doe"},'
        '"tags":["example","sample"],"content":"This will be unchanged"}',
        '{"title":"Hello!","phoneNumber":"+01-123-456-7890","author":{"familyName":null},"tags":["example"]}',
        '{"title":"Hello!","author":{"givenName":"John"},"tags":["example"],'
        '"content":"This will be unchanged","phoneNumber":"+01-123-456-7890"}',
    ),
]


@pytest.mark.parametrize(("target", "patch", "result"), RFC_CASES)
def test_cases_of_the_rfc(target: str, patch: str, result: str) -> None:
    assert apply(json.loads(target), json.loads(patch)) == json.loads(result)


def test_apply_changes_a_dict_in_place() -> None:
    inner = {"x": 1}
    target = {"a": inner}
    assert apply(target, {"a": {"y": 2}}) is target
    assert target["a"] is inner
    assert inner == {"x": 1, "y": 2}


def test_the_target_shares_nothing_with_the_patch() -> None:
    patch: Any = {"object": {"deep": {"list": [{"n": 1}]}}, "list": [[1]]}
    before = deepcopy(patch)
    target = apply({}, patch)
    target["object"]["deep"]["list"][0]["n"] = 2
    target["object"]["new"] = 3
    target["list"][0].append(4)
    apply(None, patch["list"])[0].append(5)
    assert patch == before


@given(trees(nullable), trees(nullable))
def test_diff_leads_from_old_to_new_or_says_that_it_cannot(old: Any, new: Any) -> None:
    try:
        patch = diff(old, new)
    except CannotPatch:
        assert has_null_member(new)
        return
    assert text(apply(deepcopy(old), patch)) == text(new)


@given(trees(scalars), trees(scalars))
def test_without_nulls_there_is_always_a_patch(old: Any, new: Any) -> None:
    assert text(apply(deepcopy(old), diff(old, new))) == text(new)


@given(objects(nullable))
def test_nothing_changed_is_an_empty_patch(state: dict[str, Any]) -> None:
    assert diff(state, deepcopy(state)) == {}


@pytest.mark.parametrize(("old", "new"), [(True, 1), (1, 1.0), (0.0, -0.0), ([1], [True]), ({"b": 1}, {"b": True})])
def test_types_that_python_confuses_are_told_apart(old: Any, new: Any) -> None:
    assert not same(old, new)
    assert text(diff({"a": old}, {"a": new})) == text({"a": new})


def test_diff_shares_nothing_with_the_new_state() -> None:
    new = {"a": {"b": [1]}}
    patch = diff({}, new)
    new["a"]["b"].append(2)
    assert patch == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"a": None}),
        ({"a": 1}, {"a": None}),
        ({"a": {}}, {"a": {"b": None}}),
        ([], {"a": None}),
        ({}, {"a": {"b": None}}),
    ],
)
def test_a_new_null_member_has_no_patch(old: Any, new: Any) -> None:
    with pytest.raises(CannotPatch):
        diff(old, new)


def test_a_null_member_that_was_there_has_one() -> None:
    assert diff({"a": None, "b": {"c": None}}, {"a": None, "b": {"c": None, "d": [None]}}) == {"b": {"d": [None]}}


@given(trees(scalars), st.lists(trees(nullable), max_size=6))
def test_difference_equals_all_patches_in_turn(older: Any, patches: list[Any]) -> None:
    state = deepcopy(older)
    for patch in patches:
        state = apply(state, patch)
    result = difference(patches, state)
    assert len(result) <= 2
    caught_up = deepcopy(older)
    for patch in result:
        caught_up = apply(caught_up, patch)
    assert text(caught_up) == text(state)


@given(objects(nullable), st.lists(objects(nullable), max_size=6))
def test_difference_leaves_untouched_nulls_alone(older: dict[str, Any], patches: list[Any]) -> None:
    state = apply(deepcopy(older), {})
    for patch in patches:
        state = apply(state, patch)
    caught_up = deepcopy(older)
    for patch in difference(patches, state):
        caught_up = apply(caught_up, patch)
    assert text(caught_up) == text(state)


def test_an_object_in_place_of_an_object_takes_two() -> None:
    patches = [{"a": None, "n": 1}, {"a": {"new": 1}, "n": 2}]
    assert difference(patches, {"a": {"new": 1}, "n": 2}) == [{"a": None}, {"a": {"new": 1}, "n": 2}]


def test_a_delete_alone_takes_one() -> None:
    assert difference([{"a": {"b": 1}}, {"a": {"b": None}}], {"a": {}}) == [{"a": {"b": None}}]


def test_difference_looks_at_touched_paths_only() -> None:
    class Untouchable(dict[str, Any]):
        def items(self) -> Any:
            raise AssertionError("walked over the state")

    state = Untouchable(a=1, b=Untouchable(x=1, y=2))
    assert difference([{"b": {"y": 2}}], state) == [{"b": {"y": 2}}]


def test_difference_refuses_a_null_at_a_touched_path() -> None:
    with pytest.raises(CannotPatch):
        difference([{"a": 1}], {"a": None})
    with pytest.raises(CannotPatch):
        difference([{"a": 1}], {"a": {"b": None}})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, False),
        ([None, {"a": None}], False),
        ({"a": [{"b": None}]}, False),
        ({"a": None}, True),
        ({"a": 1, "b": {"c": None}}, True),
    ],
)
def test_has_null_member(value: Any, expected: bool) -> None:
    assert has_null_member(value) is expected


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


awkward = st.text(alphabet='[]{}"\\\n,aé', max_size=6)


@given(
    st.recursive(awkward, lambda inner: st.dictionaries(awkward, inner, max_size=3) | st.lists(inner, max_size=3)),
    st.integers(0, 6),
)
def test_nests_deeper_agrees_with_the_parsed_value(value: Any, depth_max: int) -> None:
    assert nests_deeper(msgspec.json.encode(value), depth_max) is (depth(value) > depth_max)


def test_brackets_in_strings_do_not_nest() -> None:
    assert not nests_deeper(b'["[[[[", "\\"[[[[", "\\\\"]', 1)
    assert nests_deeper(b'["\\\\", [[]]]', 2)


@pytest.mark.timeout(20)
def test_hostile_text_costs_linear_time() -> None:
    assert not nests_deeper(b"[" * 10 + b'"' + b'\\"[' * 500_000, 64)
    assert nests_deeper(b"[" * 1_000_000, 64)
